"""Subscriptions from files: `{"id", "query"}` or `{"id", "xpath"}`, or both; other keys are ignored.

The queries are not parsed here: an entry is what was written, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.errors import DocumentError
from tocsin.files.inputs import Input, find_inputs, silent
from tocsin.files.pieces import Rejected, Rejection, pieces
from tocsin.files.rows import Row
from tocsin.intake import object_from_json, shown
from tocsin.settings import DocumentLimits


class Entry(NamedTuple):
    """A subscription as it was written; at least one of query and xpath is there."""

    id: str
    query: str | None
    xpath: str | None
    namespaces: Mapping[str, str]
    file: str
    line: int


def read_subscriptions(
    path: str | Path | Input,
    limits: DocumentLimits,
    rejected: Rejected,
    *,
    note: Callable[[str], None] = silent,
) -> Iterator[Entry]:
    """The subscriptions of a file or folder; what is refused goes to `rejected`.

    InputError, before anything is read, if the path cannot be read.
    """
    return _read(find_inputs([path], note), limits, rejected)


def _read(inputs: list[Input], limits: DocumentLimits, rejected: Rejected) -> Iterator[Entry]:
    seen: dict[str, str] = {}
    for source in inputs:
        for line, content in pieces(source, limits.document_bytes_max, lambda column: ""):
            try:
                entry = _entry(_mapping(content, limits), source.name, line)
                if entry.id in seen:
                    raise DocumentError(f'the "id" {shown(entry.id)} was used before, at {seen[entry.id]}')
            except DocumentError as error:
                rejected(Rejection(source.name, line, error.reason))
            else:
                seen[entry.id] = f"{source.name}:{line}"
                yield entry


def _mapping(content: bytes | Row | DocumentError, limits: DocumentLimits) -> Mapping[str, Any]:
    if isinstance(content, bytes):
        return object_from_json(content, limits.document_bytes_max)
    if isinstance(content, DocumentError):
        raise content
    return content


def _entry(mapping: Mapping[str, Any], file: str, line: int) -> Entry:
    id, query, xpath = (_text(mapping.get(key), f'"{key}"') for key in ("id", "query", "xpath"))
    if id is None:
        raise DocumentError('there is no "id": every subscription needs one, a string')
    if not id:
        raise DocumentError('"id" is empty: it must have at least one character')
    if query is None and xpath is None:
        raise DocumentError('there is neither "query" nor "xpath": a subscription needs at least one')
    return Entry(id, query, xpath, _namespaces(mapping.get("namespaces")), file, line)


def _text(value: object, what: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise DocumentError(f"{what} must be a string, in double quotes")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DocumentError(f"{what} holds a lone surrogate, which is no character: leave it out") from None
    return value


def _namespaces(value: object) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DocumentError('"namespaces" must be an object of prefixes and their addresses')
    found = {}
    for prefix, address in value.items():
        checked = _text(address, f"the namespace of {shown(prefix)}")
        if checked is None or _text(prefix, "a prefix") is None:
            raise DocumentError(f"the namespace of {shown(prefix)} must be a string, in double quotes")
        found[prefix] = checked
    return found
