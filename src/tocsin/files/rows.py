"""CSV with a header, as RFC 4180 has it: quoted cells may hold commas, quotation marks (doubled) and line breaks.

A row that cannot be read costs its first line only: reading goes on with the next line. That takes no more
than two looks at a line, since a line that opens a cell would have closed the one that was left open.
(Python's csv module has one limit on cells for the whole process, and loses the rows after an open quote.)
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from tocsin.errors import DocumentError
from tocsin.files.lines import Line, lines
from tocsin.intake import decode_utf8, shown, too_large

Row = dict[str, str]
"""Column -> cell, without the empty cells."""

ROW_LINES_MAX = 100_000  # lines cost more memory than their bytes
_QUOTED = re.compile(rb'(?:[^"]++|"")*+')


def rows(
    chunks: Iterable[bytes], bytes_max: int, column_problem: Callable[[str], str]
) -> Iterator[tuple[int, Row | DocumentError]]:
    """Each row as (line, row), or as (line, what is wrong with it). A bad header ends the file."""
    columns: list[str] | None = None
    for line, cells in _records(lines(chunks, bytes_max), bytes_max):
        try:
            if isinstance(cells, DocumentError):
                raise cells
            if columns is None:
                columns = _header(cells, column_problem)
            else:
                yield line, _row(columns, cells)
        except DocumentError as error:
            yield line, error
            if columns is None:
                return


def _header(cells: list[bytes], column_problem: Callable[[str], str]) -> list[str]:
    columns = [decode_utf8(cell).strip() for cell in cells]
    for at, name in enumerate(columns, start=1):
        if not name:
            raise DocumentError(f"the header has no name for column {at}: give it one, or remove the column")
        if problem := column_problem(name):
            raise DocumentError(f"in the header, {problem}")
        if columns.index(name) < at - 1:
            raise DocumentError(f"the header names {shown(name)} twice: give each column its own name")
    if "id" not in columns:
        raise DocumentError('the header has no column "id": the first line must name the columns')
    return columns


def _row(columns: list[str], cells: list[bytes]) -> Row:
    if len(cells) != len(columns):
        count = "1 cell" if len(cells) == 1 else f"{len(cells):,} cells"
        raise DocumentError(f"{count}, but the header names {len(columns):,} columns: quote cells that hold a comma")
    row = {}
    for column, cell in zip(columns, cells, strict=True):
        if cell:
            try:
                row[column] = decode_utf8(cell)
            except DocumentError as error:
                raise DocumentError(f"column {shown(column)}: {error.reason}") from None
    return row


def _records(source: Iterator[Line], bytes_max: int) -> Iterator[tuple[int, list[bytes] | DocumentError]]:
    """The cells of each record with its first line; blank lines between records are skipped."""
    again: deque[Line] = deque()  # lines that a broken record had taken
    while (line := _next(again, source)) is not None:
        number, text = line
        if text is not None and not text.strip():
            continue
        taken = [line]
        try:
            yield number, _record(taken, again, source, bytes_max)
        except DocumentError as error:
            again.extendleft(reversed(taken[1:]))
            yield number, error


def _next(again: deque[Line], source: Iterator[Line]) -> Line | None:
    return again.popleft() if again else next(source, None)


def _record(taken: list[Line], again: deque[Line], source: Iterator[Line], bytes_max: int) -> list[bytes]:
    """The cells of the record that starts with the line in `taken`; further lines are added to it."""
    cells: list[bytes] = []
    opened: list[bytes] | None = None
    size = 0
    while True:
        text = taken[-1][1]
        size += len(text or b"") + 1
        if text is None or size > bytes_max + 1:
            raise DocumentError(too_large(bytes_max) + (": is a quotation mark missing?" if opened is not None else ""))
        if len(taken) > ROW_LINES_MAX:
            raise DocumentError(f"a row of more than {ROW_LINES_MAX:,} lines: is a quotation mark missing?")
        body = text.removesuffix(b"\r")
        opened = _scan(body, cells, opened)
        if opened is None:
            return cells
        opened.append(text[len(body) :] + b"\n")
        line = _next(again, source)
        if line is None:
            raise DocumentError("a quoted cell opens in this row and is never closed")
        taken.append(line)


def _scan(line: bytes, cells: list[bytes], opened: list[bytes] | None) -> list[bytes] | None:
    """Adds the cells of the line; returns the parts of the quoted cell that is open at its end, if any."""
    at = 0
    while True:
        if opened is None:
            if not line.startswith(b'"', at):
                end = line.find(b",", at)
                cells.append(line[at:] if end < 0 else line[at:end])
                if end < 0:
                    return None
                at = end + 1
                continue
            opened, at = [], at + 1
        end = _QUOTED.match(line, at).end()  # type: ignore[union-attr]
        opened.append(line[at:end])
        if end == len(line):
            return opened
        cells.append(b"".join(opened).replace(b'""', b'"'))
        opened, at = None, end + 2
        if end + 1 == len(line):
            return None
        if line[end + 1 : end + 2] != b",":
            raise DocumentError(
                f'text follows the closing quotation mark of cell {len(cells)}: inside a quoted cell, " is written ""'
            )
