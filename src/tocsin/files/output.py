"""A result that replaces its file whole, or leaves the old one as it was."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TextIO

from tocsin.errors import InputError
from tocsin.files.inputs import displayed, reason_of


@contextmanager
def replacing(path: str | Path) -> Iterator[TextIO]:
    """A text file (UTF-8) that takes the place of `path` when the context ends without an exception.

    A link stays a link: the file that it points to is replaced. What is no ordinary file (a pipe, /dev/null)
    is written to directly. An existing file's permissions are kept. InputError if nothing can be written there.
    """
    try:
        beside, target, file = _opened(Path(path))
    except OSError as error:
        raise InputError(f"{displayed(Path(path))} cannot be written: {reason_of(error)}") from None
    try:
        with file:
            yield file
            if beside is not None:
                file.flush()
                os.fsync(file.fileno())
        if beside is not None:
            if target.exists():
                beside.chmod(stat.S_IMODE(target.stat().st_mode))
            beside.replace(target)
    except BaseException:
        if beside is not None:
            with suppress(OSError):
                beside.unlink()
        raise


def _opened(path: Path) -> tuple[Path | None, Path, TextIO]:
    """The file to write, what it replaces, and itself; None if it is written directly."""
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "no permission")
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if path.exists() and not path.is_file():
        return None, path, open(path, "w", encoding="utf-8", newline="\n")
    target = Path(os.path.realpath(path))
    beside = _beside(target)
    return beside[0], target, beside[1]


def _beside(target: Path) -> tuple[Path, TextIO]:
    """A new, hidden file in the same folder, so that the rename stays within one file system."""
    for number in count():
        path = target.with_name(f".tocsin-{os.getpid()}-{number}.tmp")
        try:
            return path, open(path, "x", encoding="utf-8", newline="\n")
        except FileExistsError:
            continue
    raise AssertionError
