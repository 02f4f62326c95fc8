"""Documents come in: checked one by one, stored in the log, matched from there even if the process dies now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tocsin.errors import DocumentError
from tocsin.intake import document_from_json, document_from_object, shown
from tocsin.markup import read_markup
from tocsin.model import Document
from tocsin.settings import MarkupLimits
from tocsin.site.accounts import Account
from tocsin.site.problems import NotFound, Problem, problem_of
from tocsin.store import documents, journal

if TYPE_CHECKING:
    from tocsin.site.site import Site

Offered = Mapping[str, Any] | Document | bytes | str | Problem
"""A decoded JSON object, a document, or a line of JSON; a Problem is a line that was refused before."""


@dataclass(frozen=True, slots=True)
class Published:
    """What became of a call."""

    accepted: int
    rejected: tuple[tuple[int, Problem], ...]
    """(line, counted from 1, why)."""
    position: int
    """Of the last document that this call stored; 0: none was new."""

    def as_json(self) -> dict[str, Any]:
        """As the API answers it."""
        refused = [{"line": line, "error": problem.as_json()} for line, problem in self.rejected]
        return {"accepted": self.accepted, "rejected": refused}


def publish(site: Site, account: Account, offered: Iterable[Offered]) -> Published:
    """Stores the documents that can be; the others are named with their line. TooFast if the account is.

    Who published what is kept with each document, not in the journal.
    """
    site.settle_due()
    chunk: list[tuple[int, Document]] = []
    rejected: list[tuple[int, Problem]] = []
    accepted = position = 0
    for line, one in enumerate(offered, 1):
        try:
            chunk.append((line, _document(site, one)))
        except DocumentError as error:
            rejected.append((line, problem_of(error)))
        except Problem as problem:
            rejected.append((line, problem))
        if len(chunk) >= site.settings.publish_chunk_documents:
            stored, last = _store(site, account, chunk, rejected, is_first=not accepted)
            accepted, position, chunk = accepted + stored, last or position, []
    stored, last = _store(site, account, chunk, rejected, is_first=not accepted)
    accepted, position = accepted + stored, last or position
    return Published(accepted, tuple(sorted(rejected, key=lambda pair: pair[0])), position)


def _store(
    site: Site,
    account: Account,
    chunk: list[tuple[int, Document]],
    rejected: list[tuple[int, Problem]],
    is_first: bool,
) -> tuple[int, int]:
    if not chunk:
        return 0, 0
    try:
        site.take(account, "documents", len(chunk))
    except Problem as problem:
        if is_first:
            raise
        rejected += [(line, problem) for line, _ in chunk]
        return 0, 0
    result = documents.accept(site.store, [document for _, document in chunk], account.name)
    rejected += [(chunk[place][0], problem_of(error)) for place, error in result.refused.items()]
    return result.count, max((position for position in result.positions if position), default=0)


def _document(site: Site, one: Offered) -> Document:
    limits = site.settings.base.document
    if isinstance(one, Problem):
        raise one
    if isinstance(one, bytes | str):
        document = document_from_json(one, limits)
    elif isinstance(one, Document):
        document = one
    else:
        document = document_from_object(one, limits)
    check(document, site.settings.base.markup)
    return document


def check(document: Document, limits: MarkupLimits) -> None:
    """What a site asks of a document beyond its form, whichever way it comes: DocumentError."""
    if "\0" in document.id or "\0" in (document.source or ""):
        raise DocumentError('"id" or "source" holds the character NUL: leave it out')
    if document.xml is not None:
        read_markup(document.xml, limits)


def delete(site: Site, account: Account, id: str) -> None:
    """Deletes a document, all its versions. What was accepted is matched all the same."""
    if not documents.delete(site.store, id):
        raise NotFound(f"there is no document {shown(id)}")
    if site.searching is not None:
        site.searching.delete(id)
    journal.note(site.store, account.name, "delete document", id)
