"""What views keep between two batches, written with the batch or not at all.

What a batch adds to groups is one part, and many parts become one now and then; groups that have no such form are rows,
rewritten when a batch adds to them. A batch that is run a second time finds its number here and changes nothing. The
values are those of `views.parts` and `views.partial`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Boolean, Column, Connection, Integer, LargeBinary, Table, Text, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.store import schema
from tocsin.store.connect import Store, packed

ROWS = 2_000  # of one statement

progress = Table(  # how far a set of views is
    "view_progress",
    schema.tables,
    Column("name", Text, primary_key=True),
    Column("source", Text, primary_key=True),  # a source relation; empty: the set itself
    Column("batch", BigInteger, nullable=False),
    Column("tick", BigInteger),  # the last one known
    Column("closed", Boolean, nullable=False),
)

groups = Table(  # the tallies of one group
    "view_groups",
    schema.tables,
    Column("name", Text, primary_key=True),
    Column("node", Integer, primary_key=True, autoincrement=False),
    Column("key", Text, primary_key=True),  # JSON
    Column("tallies", Text, nullable=False),  # JSON
)

parts = Table(  # what batches have added to the groups of a node
    "view_parts",
    schema.tables,
    Column("name", Text, primary_key=True),
    Column("node", Integer, primary_key=True, autoincrement=False),
    Column("batch", BigInteger, primary_key=True, autoincrement=False),  # the last that is in it
    Column("part", LargeBinary, nullable=False),
)

events = Table(  # events that views read as rows
    "view_events",
    schema.tables,
    Column("name", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("tick", BigInteger, primary_key=True, autoincrement=False),
    Column("cells", Text, nullable=False),  # JSON
)


class Source(NamedTuple):
    """How far a source is."""

    name: str
    tick: int | None
    closed: bool


class Group(NamedTuple):
    """What is kept of a group."""

    node: int
    key: tuple[Any, ...]
    tallies: list[list[Any]]


class Part(NamedTuple):
    """What was added to the groups of a node."""

    node: int
    data: bytes
    is_whole: bool = False
    """All of it: the parts before it are not needed any more."""


class Row(NamedTuple):
    """An event that is kept."""

    source: str
    tick: int
    cells: tuple[Any, ...]


def create(store: Store) -> None:
    """Makes the tables in a store of an older format."""
    with store.write() as transaction:
        schema.tables.create_all(transaction, tables=[progress, groups, events, parts])


def last_batch(store: Store, name: str) -> int | None:
    """The number of the last batch that is in."""
    asked = select(progress.c.batch).where((progress.c.name == name) & (progress.c.source == ""))
    with store.read() as transaction:
        return transaction.execute(asked).scalar()


def write(
    store: Store,
    name: str,
    batch: int,
    *,
    sources: Iterable[Source],
    changed: Sequence[Group],
    rows: Sequence[Row],
    added: Sequence[Part] = (),
) -> bool:
    """A batch in one transaction; False, and nothing is written, if it is in already."""
    with store.write() as transaction:
        asked = select(progress.c.batch).where((progress.c.name == name) & (progress.c.source == ""))
        done = transaction.execute(asked).scalar()
        if done is not None and batch <= done:
            return False
        marks = [{"name": name, "source": "", "batch": batch, "tick": None, "closed": False}]
        marks += [{"name": name, "source": s.name, "batch": batch, "tick": s.tick, "closed": s.closed} for s in sources]
        put(transaction, progress, marks)
        for one in added:
            if one.is_whole:
                for table in (parts, groups):
                    transaction.execute(delete(table).where((table.c.name == name) & (table.c.node == one.node)))
            put(transaction, parts, [{"name": name, "node": one.node, "batch": batch, "part": one.data}])
        put(transaction, groups, [
            {"name": name, "node": one.node, "key": packed(one.key), "tallies": packed(one.tallies)} for one in changed
        ])  # fmt: skip
        put(transaction, events, [
            {"name": name, "source": one.source, "tick": one.tick, "cells": packed(one.cells)} for one in rows
        ])  # fmt: skip
    return True


def read_parts(store: Store, name: str) -> list[Part]:
    """What was added to groups, in the order of the batches."""
    asked = select(parts.c.node, parts.c.part).where(parts.c.name == name).order_by(parts.c.node, parts.c.batch)
    with store.read() as transaction:
        return [Part(row.node, bytes(row.part)) for row in transaction.execute(asked)]


def read(store: Store, name: str) -> tuple[list[Source], list[Group], list[Row]]:
    """Everything else that is kept of a set of views."""
    with store.read() as transaction:
        mine = select(progress).where((progress.c.name == name) & (progress.c.source != ""))
        sources = [Source(row.source, row.tick, row.closed) for row in transaction.execute(mine)]
        found = transaction.execute(select(groups).where(groups.c.name == name))
        kept = [Group(row.node, tuple(json.loads(row.key)), json.loads(row.tallies)) for row in found]
        told = transaction.execute(select(events).where(events.c.name == name).order_by(events.c.source, events.c.tick))
        rows = [Row(row.source, row.tick, tuple(json.loads(row.cells))) for row in told]
    return sources, kept, rows


class Match(NamedTuple):
    """A notification as an event: the cursor is its tick."""

    tick: int
    subscription: int
    document: str
    version: int
    score: float
    day: int


def matches_after(store: Store, cursor: int, number: int) -> list[Match]:
    """The next rows of the outbox that a document caused; day: since 1970."""
    table = schema.notifications
    asked = select(table).where((table.c.cursor > cursor) & (table.c.position > 0)).order_by(table.c.cursor)
    with store.read() as transaction:
        return [
            Match(row.cursor, row.subscription, row.document, row.version, row.score, int(row.made // 86_400))
            for row in transaction.execute(asked.limit(number))
        ]


def forget(store: Store, name: str) -> None:
    """Removes a set of views."""
    with store.write() as transaction:
        for table in (progress, groups, events, parts):
            transaction.execute(delete(table).where(table.c.name == name))


def put(transaction: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Inserts, or replaces what has the same key."""
    dialect = sqlite if transaction.dialect.name == "sqlite" else postgresql
    keys = [column.name for column in table.primary_key]
    for at in range(0, len(rows), ROWS):
        statement = dialect.insert(table)
        others = {c.name: statement.excluded[c.name] for c in table.columns if c.name not in keys}
        transaction.execute(statement.on_conflict_do_update(index_elements=keys, set_=others), rows[at : at + ROWS])
