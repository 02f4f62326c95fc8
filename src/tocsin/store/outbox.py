"""The outbox: one row a match, written with its batch or not at all.

A batch is noted before it runs, with its documents and the snapshots it uses, and again, in the same transaction
as its matches, when it is done. Whoever runs a batch a second time finds it done, and writes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.store import schema
from tocsin.store.connect import Store, advance
from tocsin.store.documents import MATCHING, erase
from tocsin.store.subscriptions import spans

ROWS = 2_000  # of one statement
table, batches = schema.notifications, schema.batches


@dataclass(frozen=True, slots=True)
class Batch:
    """A range of the log's documents, and what they are matched with."""

    job: str
    number: int
    first: int
    """Its documents are those after this position …"""
    last: int
    """… up to this one."""
    snapshot: int
    statistics: int


class Found(NamedTuple):
    """A match as the pipeline finds it: the subscription is named by its revision."""

    position: int
    revision: int
    document: str
    version: int
    score: float
    evidence: str | None


class Receipt(NamedTuple):
    """An index part saw so many documents of a batch, and held so many revisions."""

    part: int
    documents: int
    revisions: int


@dataclass(frozen=True, slots=True)
class Letter:
    """Something that was refused: where it stood, why, and how it begins."""

    place: str
    reason: str
    excerpt: str = ""
    at: float = field(default_factory=time.time)


class Notification(NamedTuple):
    """A row of the outbox, with its subscription's id."""

    cursor: int
    account: str
    subscription: str
    document: str
    version: int
    score: float
    statistics: int
    evidence: Any
    made: float


# --- batches ---------------------------------------------------------------------------------------------------------


def begin(store: Store, batch: Batch) -> tuple[Batch, bool]:
    """Notes a batch before it runs; returns it as it was first noted, and whether it is done already."""
    with store.write() as transaction:
        which = (batches.c.job == batch.job) & (batches.c.batch == batch.number)
        row = transaction.execute(select(batches).where(which)).first()
        if row is not None:
            noted = Batch(row.job, row.batch, row.first, row.last, row.snapshot, row.statistics)
            return noted, row.done is not None
        values = {
            "job": batch.job,
            "batch": batch.number,
            "first": batch.first,
            "last": batch.last,
            "snapshot": batch.snapshot,
            "statistics": batch.statistics,
            "begun": time.time(),
        }
        transaction.execute(insert(batches).values(**values))
        return batch, False


def finish(
    store: Store,
    batch: Batch,
    matches: Iterable[Found],
    receipts: Sequence[Receipt] = (),
    more: Callable[[Connection], Iterable[Found]] | None = None,
) -> int:
    """Writes the matches and the batch's end, in one transaction; returns how many are new in the outbox.

    `more` finds further matches within the transaction, together with what it changes there.
    """
    with store.write() as transaction:
        which = (batches.c.job == batch.job) & (batches.c.batch == batch.number)
        if transaction.execute(select(batches.c.done).where(which)).scalar_one() is not None:
            return 0
        written = _append(transaction, batch, [*matches, *(more(transaction) if more is not None else ())])
        documents = sum(receipt.documents for receipt in receipts if receipt.part == 0)
        ended = {"done": time.time(), "documents": documents, "matches": written}
        ended |= {"snapshot": batch.snapshot, "statistics": batch.statistics}  # those that were used in the end
        transaction.execute(update(batches).where(which).values(**ended))
        if receipts:
            seen = {"job": batch.job, "batch": batch.number, "first": batch.first, "last": batch.last}
            transaction.execute(insert(schema.receipts), [seen | receipt._asdict() for receipt in receipts])
        if batch.job == MATCHING:
            erase(transaction, after=batch.first, upto=batch.last)
        return written


def _append(transaction: Connection, batch: Batch, matches: Iterable[Found]) -> int:
    """Appends the matches whose revision is in force for their document, in the order of the log."""
    found = sorted(matches, key=lambda match: (match.position, match.revision))  # what came first stays first
    known = spans(transaction, {match.revision for match in found})
    now = time.time()
    kept: dict[tuple[int, str, int], dict[str, object]] = {}
    for match in found:
        span = known[match.revision]
        key = (span.subscription, match.document, match.version)
        if span.holds(match.position) and key not in kept:
            kept[key] = {
                "account": span.account,
                "subscription": span.subscription,
                "document": match.document,
                "version": match.version,
                "position": match.position,
                "score": match.score,
                "statistics": batch.statistics,
                "evidence": match.evidence,
                "made": now,
            }
    _, before = advance(transaction, cursors=len(kept))
    rows = [row | {"cursor": cursor} for cursor, row in enumerate(kept.values(), before + 1)]
    insertion = postgresql.insert if transaction.dialect.name == "postgresql" else sqlite.insert
    told_before = insertion(table).on_conflict_do_nothing(index_elements=["subscription", "document", "version"])
    written = 0
    for start in range(0, len(rows), ROWS):
        chunk = rows[start : start + ROWS]
        if transaction.dialect.name == "postgresql":  # whose driver does not count the rows of many statements
            written += len(transaction.execute(told_before.returning(table.c.cursor), chunk).all())
        else:
            written += transaction.execute(told_before, chunk).rowcount
    return written


def last_batch(store: Store, job: str) -> Batch | None:
    """The last batch that was noted, done or not."""
    asked = select(batches).where(batches.c.job == job).order_by(batches.c.batch.desc()).limit(1)
    with store.read() as transaction:
        row = transaction.execute(asked).first()
    return None if row is None else Batch(row.job, row.batch, row.first, row.last, row.snapshot, row.statistics)


def refuse(transaction: Connection, job: str, letters: Sequence[Letter]) -> None:
    """Keeps what was refused; the same place is kept once."""
    rows = [
        {"job": job, "place": letter.place, "reason": letter.reason, "excerpt": letter.excerpt, "at": letter.at}
        for letter in letters
    ]
    insertion = postgresql.insert if transaction.dialect.name == "postgresql" else sqlite.insert
    once = insertion(schema.dead_letters).on_conflict_do_nothing(index_elements=["job", "place"])
    for start in range(0, len(rows), ROWS):
        transaction.execute(once, rows[start : start + ROWS])


# --- reading ---------------------------------------------------------------------------------------------------------


def read(store: Store, account: str | None = None, after: int = 0, limit: int = 100) -> list[Notification]:
    """An account's notifications (None: everybody's) after the cursor, in order."""
    own = schema.subscriptions
    columns = (
        table.c.cursor,
        table.c.account,
        own.c.id,
        table.c.document,
        table.c.version,
        table.c.score,
        table.c.statistics,
        table.c.evidence,
        table.c.made,
    )
    which = table.c.cursor > after if account is None else (table.c.cursor > after) & (table.c.account == account)
    asked = select(*columns).join(own, own.c.number == table.c.subscription).where(which)
    with store.read() as transaction:
        rows = transaction.execute(asked.order_by(table.c.cursor).limit(limit)).all()
    return [Notification(*row[:7], json.loads(row[7]) if row[7] else None, row[8]) for row in rows]


def count(store: Store) -> int:
    """How many notifications there are."""
    with store.read() as transaction:
        return int(transaction.execute(select(func.count()).select_from(table)).scalar_one())


def letters(store: Store, job: str | None = None, limit: int = 100) -> list[Letter]:
    """What was refused, the newest first."""
    dead = schema.dead_letters
    asked = select(dead.c.place, dead.c.reason, dead.c.excerpt, dead.c.at).order_by(dead.c.number.desc()).limit(limit)
    with store.read() as transaction:
        rows = transaction.execute(asked if job is None else asked.where(dead.c.job == job)).all()
    return [Letter(*row) for row in rows]
