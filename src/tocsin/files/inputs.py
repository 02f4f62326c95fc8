"""Which files are meant: a path is a file, a folder of files, or `-` for standard input.

All are looked up before the first is read, so that a misspelt path is told at once.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import cast

from tocsin.errors import InputError

FORMATS = (".jsonl", ".ndjson", ".json", ".csv")
PACKINGS = (".gz", ".zst", ".zstd")
CHUNK_BYTES = 1 << 18
NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Input:
    """Where bytes come from: `name` is what messages call it; without a path it is standard input."""

    name: str
    path: Path | None = None

    @property
    def format(self) -> str:
        """The ending that tells the format, such as ".csv"; "" if there is none that we know."""
        name = self.name.lower()
        for packing in PACKINGS:
            name = name.removesuffix(packing)
        return next((ending for ending in FORMATS if name.endswith(ending)), "")

    @contextmanager
    def opened(self) -> Iterator[Callable[[int], bytes]]:
        """A function that reads at most so many bytes, as soon as there are any; b"" at the end."""
        if self.path is None:
            yield cast("BufferedReader", sys.stdin.buffer).read1
        else:
            with open(self.path, "rb", buffering=0) as file:
                yield file.read


STDIN = Input("standard input")


def silent(message: str) -> None:
    """For callers who want no messages."""


def find_inputs(paths: Sequence[str | Path | Input], note: Callable[[str], None] = silent) -> list[Input]:
    """The files that the paths mean, in their order; those of a folder by name. InputError if one cannot be read."""
    found: list[Input] = []
    for path in paths:
        if isinstance(path, Input):
            found.append(path)
        elif str(path) == "-":
            found.append(STDIN)
        elif os.path.isdir(path):
            found.extend(_folder(Path(path), note))
        else:
            found.append(_file(Path(path)))
    if found.count(STDIN) > 1:
        raise InputError("standard input (-) is named twice, but it can be read only once")
    if STDIN in found and sys.stdin is None:
        raise InputError("standard input (-) is closed: name a file")
    return found


def _file(path: Path) -> Input:
    name = displayed(path)
    try:
        path.stat()
    except OSError as error:
        raise InputError(f"{name} cannot be read: {reason_of(error)}") from None
    if not os.access(path, os.R_OK):
        raise InputError(f"{name} cannot be read: no permission")
    return Input(name, path)


def _folder(folder: Path, note: Callable[[str], None]) -> Iterator[Input]:
    """The files below the folder that have a known ending; hidden ones are left out without a word."""
    others: list[str] = []
    found: list[Input] = []
    for parent, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            path = Path(parent, name)
            if name.startswith(".") or not path.is_file():
                continue
            each = Input(displayed(path), path)
            if each.format:
                found.append(each)
            else:
                others.append(displayed(path.relative_to(folder)))
    if others:
        names = ", ".join(sorted(others)[:NAMES_SHOWN]) + (", …" if len(others) > NAMES_SHOWN else "")
        note(f"{displayed(folder)}: {len(others):,} left out ({names}): only {_endings()} are read from a folder")
    elif not found:
        note(f"{displayed(folder)}: no files to read: {_endings()} are read from a folder")
    return iter(sorted(found, key=lambda each: each.path.parts if each.path else ()))


def _refuse(error: OSError) -> None:
    raise InputError(f"{displayed(Path(error.filename))} cannot be read: {reason_of(error)}")


def _endings() -> str:
    return f"{', '.join(FORMATS)} (and these with {', '.join(PACKINGS)})"


def displayed(path: Path) -> str:
    """The path for a message: bytes that are no UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def reason_of(error: OSError) -> str:
    """What the system says, as the end of a sentence."""
    said = error.strerror or str(error)
    return said[:1].lower() + said[1:]


@contextmanager
def rereadable(paths: Sequence[str | Path | Input], note: Callable[[str], None] = silent) -> Iterator[list[Input]]:
    """The same inputs, each of which can be read more than once.

    Standard input and pipes are copied to a temporary file first, which lives as long as the context.
    """
    with ExitStack() as stack:
        yield [each if _is_regular(each) else stack.enter_context(_copied(each)) for each in find_inputs(paths, note)]


def _is_regular(each: Input) -> bool:
    return each.path is not None and stat.S_ISREG(each.path.stat().st_mode)


@contextmanager
def _copied(each: Input) -> Iterator[Input]:
    with tempfile.NamedTemporaryFile(prefix="tocsin-") as copy:
        try:
            with each.opened() as read:
                while chunk := read(CHUNK_BYTES):
                    copy.write(chunk)
            copy.flush()
        except OSError as error:
            raise InputError(f"{each.name} cannot be copied to {copy.name}: {reason_of(error)}") from None
        yield Input(each.name, Path(copy.name))
