"""Whatever the format, a file is a series of pieces: JSON texts, CSV rows, or reasons why there is none.

The ending of the name tells CSV from JSON; otherwise the first line does. JSON lines are the fast path:
anything whose first line is one whole object. The rest of JSON goes through tocsin.files.values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from tocsin.errors import DocumentError
from tocsin.files.inputs import Input
from tocsin.files.lines import lines
from tocsin.files.rows import Row, rows
from tocsin.files.unpacked import Damaged, chunks
from tocsin.files.values import values
from tocsin.intake import BOM, too_large

HEAD_BYTES = 1 << 16
Piece = tuple[int, bytes | Row | DocumentError]
"""The line where it starts, and a JSON text, a row, or why it cannot be read."""


class Rejection(NamedTuple):
    """Something that was not read; line 0 is the file as a whole."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


Rejected = Callable[[Rejection], None]
ColumnProblem = Callable[[str], str]
"""Why a column cannot have this name; "" if it can."""


def pieces(source: Input, bytes_max: int, column_problem: ColumnProblem) -> Iterator[Piece]:
    """The pieces of one file; the last may be Damaged, as (0, reason)."""
    try:
        head, rest = _head(chunks(source))
        data = chain((head.removeprefix(BOM),), rest)
        match _format(head.removeprefix(BOM).lstrip(), source.format):
            case "csv":
                yield from rows(data, bytes_max, column_problem)
            case "values":
                yield from values(data, bytes_max)
            case _:
                yield from _json_lines(data, bytes_max)
    except Damaged as error:
        yield 0, DocumentError(str(error))


def _json_lines(data: Iterable[bytes], bytes_max: int) -> Iterator[Piece]:
    for number, line in lines(data, bytes_max):
        if line is None:
            yield number, DocumentError(too_large(bytes_max))
        elif not line.isspace() and line:
            yield number, line


def _head(data: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first line that is not blank, at least, and the rest; if reading fails, the rest raises it."""
    head = b""
    try:
        for chunk in data:
            head += chunk
            if len(head) >= HEAD_BYTES or b"\n" in head.removeprefix(BOM).lstrip():
                break
    except Damaged as error:
        return head, _raising(error)
    return head, data


def _raising(error: Damaged) -> Iterator[bytes]:
    raise error
    yield b""


def _format(head: bytes, ending: str) -> str:
    """How to read a file that starts like this: "csv", "values" or "lines"."""
    line = head.partition(b"\n")[0].strip()
    if ending == ".csv":
        return "csv"
    if line.startswith(b"["):
        return "values"
    if line.startswith(b"{"):
        named_lines = ending in (".jsonl", ".ndjson") and line != b"{"
        return "lines" if named_lines or _is_whole(line) else "values"
    columns = [column.strip(b' "') for column in line.split(b",")]
    return "csv" if not ending and b"id" in columns else "lines"


def _is_whole(line: bytes) -> bool:
    """Is this line a JSON text by itself? One longer than the head is taken for it."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return len(line) >= HEAD_BYTES - len(BOM)
    return True
