"""Documents from files, each with the place that it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from tocsin.errors import DocumentError
from tocsin.files.inputs import Input, find_inputs, silent
from tocsin.files.pieces import Rejected, Rejection, pieces
from tocsin.files.rows import Row
from tocsin.intake import OWN_KEYS, Admission, document_from_json, document_from_object, field_name_problem
from tocsin.model import Document
from tocsin.settings import DocumentLimits
from tocsin.text import NUMBER

TEXT_COLUMNS = OWN_KEYS - {"version"}
"""Columns of CSV whose cells stay text, even where they look like numbers."""


class Located(NamedTuple):
    """A document and where it starts."""

    document: Document
    file: str
    line: int


def read_documents(
    paths: Sequence[str | Path | Input],
    limits: DocumentLimits,
    rejected: Rejected,
    *,
    admission: Admission | None = None,
    note: Callable[[str], None] = silent,
) -> Iterator[Located]:
    """The documents of all paths, one after the other; what is refused goes to `rejected`.

    InputError, before anything is read, if a path cannot be read. With an admission, repeats are left out
    and conflicts of versions are refused. `note` is told of files in folders that are left out.
    """
    return _read(find_inputs(paths, note), limits, rejected, admission)


def _read(
    inputs: list[Input], limits: DocumentLimits, rejected: Rejected, admission: Admission | None
) -> Iterator[Located]:
    for source in inputs:
        for line, content in pieces(source, limits.document_bytes_max, field_name_problem):
            try:
                document = _document(content, limits)
                if admission is None or admission.admit(document):
                    yield Located(document, source.name, line)
            except DocumentError as error:
                rejected(Rejection(source.name, line, error.reason))


def _document(content: bytes | Row | DocumentError, limits: DocumentLimits) -> Document:
    if isinstance(content, bytes):
        return document_from_json(content, limits)
    if isinstance(content, DocumentError):
        raise content
    return document_from_object({column: _cell(column, cell) for column, cell in content.items()}, limits)


def _cell(column: str, cell: str) -> str | int | float:
    """A number where JSON would read one; too large for float64, it stays text (a hash may read 12e3456)."""
    if column in TEXT_COLUMNS or not NUMBER.fullmatch(cell):
        return cell
    number = float(cell)
    if not isfinite(number):
        return cell
    return number if set(cell) & set(".eE") else int(cell)
