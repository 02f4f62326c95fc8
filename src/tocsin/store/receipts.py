"""What the receipts say: which ranges of the log were matched, by how many parts, and what is in the outbox of them."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import func, select

from tocsin.store import schema
from tocsin.store.connect import Store
from tocsin.store.documents import MATCHING

batches, table, rows = schema.batches, schema.receipts, schema.notifications


class Done(NamedTuple):
    """A batch that ended, with its receipts."""

    number: int
    first: int
    last: int
    documents: int
    matches: int
    parts: tuple[tuple[int, int, int], ...]
    """(part, documents, revisions) of each receipt."""


class Told(NamedTuple):
    """A row of the outbox, as far as it can be proved."""

    subscription: int
    document: str
    version: int
    position: int


def done(store: Store, job: str = MATCHING) -> list[Done]:
    """The batches that ended, by their first position."""
    with store.read() as transaction:
        parts: dict[int, list[tuple[int, int, int]]] = {}
        asked = select(table).where(table.c.job == job).order_by(table.c.batch, table.c.part)
        for row in transaction.execute(asked):
            parts.setdefault(row.batch, []).append((row.part, row.documents, row.revisions))
        ended = select(batches).where((batches.c.job == job) & batches.c.done.is_not(None))
        found = transaction.execute(ended.order_by(batches.c.first, batches.c.last)).all()
    return [
        Done(row.batch, row.first, row.last, row.documents or 0, row.matches or 0, tuple(parts.get(row.batch, ())))
        for row in found
    ]


def accepted_within(store: Store, after: int, upto: int) -> int:
    """How many documents have a position in (after, upto]."""
    position = schema.documents.c.position
    asked = select(func.count()).select_from(schema.documents).where((position > after) & (position <= upto))
    with store.read() as transaction:
        return int(transaction.execute(asked).scalar_one())


def erased_within(store: Store, after: int, upto: int) -> int:
    """How many of them were deleted since, so that nobody can look again."""
    documents = schema.documents
    within = (documents.c.position > after) & (documents.c.position <= upto) & documents.c.body.is_(None)
    with store.read() as transaction:
        return int(transaction.execute(select(func.count()).select_from(documents).where(within)).scalar_one())


def told_within(store: Store, after: int, upto: int) -> list[Told]:
    """The rows of the outbox for documents of this range."""
    columns = (rows.c.subscription, rows.c.document, rows.c.version, rows.c.position)
    within = (rows.c.position > after) & (rows.c.position <= upto)
    with store.read() as transaction:
        return [Told(*row) for row in transaction.execute(select(*columns).where(within))]
