"""Watched folders: files of documents that appear or change are read, each whole.

Documents keep the ids and versions that they have in their files: what was read before is a repeat. So only an
administrator may have a folder watched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from tocsin.errors import DocumentError, InputError
from tocsin.files import Input, Located, Rejection, find_inputs, read_documents
from tocsin.model import Document
from tocsin.settings import DEFAULTS
from tocsin.site.harvest.fetch import SourceError
from tocsin.site.harvest.visit import Ended, Visit
from tocsin.site.intake import check
from tocsin.store import harvested
from tocsin.store.outbox import Letter


async def visit(one: Visit) -> Ended:
    """Reads the files that are new or have changed, and have come to rest."""
    return await asyncio.to_thread(_visit, one)


def _visit(one: Visit) -> Ended:
    folder = Path(one.source.address)
    if not folder.is_dir():
        raise SourceError("there is no such folder")
    try:
        files = [file for file in find_inputs([folder]) if file.path is not None]
    except InputError as error:
        raise SourceError(str(error)) from None
    waiting = 0
    names = {str(file.path): _hash(str(file.path)) for file in files}
    known = harvested.known_files(one.store, one.source, names)
    for file in files:
        mark, is_moving = _state(file, one.settings.harvest_settle_seconds)
        if mark is None or known.get(str(file.path)) == mark:
            continue
        if is_moving:
            waiting += 1
            continue
        if one.is_over:
            return Ended("there are more files to read", has_more=True)
        _read(one, file, (names[str(file.path)], mark))
    bad = one.found.refused
    notes = [
        f"{len(bad):,} documents were refused: {bad[0]}" if bad else "",
        f"{waiting:,} files are still being written" if waiting else "",
    ]
    return Ended("; ".join(note for note in notes if note)[:500] or None)


def _state(file: Input, settle_seconds: float) -> tuple[bytes | None, bool]:
    """A mark of the file's size and time (None: it has gone), and whether it may still be written."""
    assert file.path is not None
    try:
        about = file.path.stat()
    except OSError:
        return None, False
    return _hash(f"{about.st_size} {about.st_mtime_ns} {about.st_ino}"), time.time() - about.st_mtime < settle_seconds


def _read(one: Visit, file: Input, done: tuple[bytes, bytes]) -> None:
    letters: list[Letter] = []

    def reject(rejection: Rejection) -> None:
        letters.append(Letter(f"{rejection.file}:{rejection.line}", rejection.reason))

    documents = _checked(read_documents([file], DEFAULTS.document, reject), reject)
    try:
        while chunk := _located(documents, one.settings.harvest_chunk_items):
            one.count(harvested.arrive_from_file(one.store, one.source, chunk, letters))
            letters.clear()
    except (InputError, OSError) as error:
        raise SourceError(f"{file.name} cannot be read: {error}"[:500]) from None
    one.count(harvested.arrive_from_file(one.store, one.source, [], letters, done))


def _checked(documents: Iterator[Located], reject: Callable[[Rejection], None]) -> Iterator[Located]:
    for located in documents:
        try:
            check(located.document, DEFAULTS.markup)
        except DocumentError as error:
            reject(Rejection(located.file, located.line, error.reason))
        else:
            yield located


def _located(documents: Iterator[Located], size: int) -> list[tuple[str, Document]]:
    return [(f"{found.file}:{found.line}", found.document) for found in islice(documents, size)]


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()
