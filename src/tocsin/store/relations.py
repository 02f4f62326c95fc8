"""Relations and views of a site: what was created, what sources said, the rows as they are, and what was told of them.

A step is one transaction: the events, the rows that they change, and the notifications of these rows. Whoever takes a
step names the one before it, so two who believe that they are the only one cannot both go on.

Of each row the outbox holds the last state that a subscription was told, and no earlier one that is not delivered in a
digest: who was away reads one fresh state, not the log (relational subscriptions §1).
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    delete,
    func,
    insert,
    select,
    true,
)

from tocsin.errors import StoreError
from tocsin.store import schema
from tocsin.store.connect import Store, advance, packed
from tocsin.store.subscriptions import in_force
from tocsin.store.views import Source, events, progress, put

ROWS = 2_000  # of one statement
COMMON = ""
"""Whose relations and views are everybody's."""
SITE, MATCHES = "/site", "/matches"  # what is kept of a site beside the named sets of `store.views`
NO_DOCUMENT, NO_STATISTICS = 0, -1
"""The position and the statistics of a notification that no document caused."""

statements = Table(
    "view_statements",
    schema.tables,
    Column("number", schema._Number, primary_key=True),
    Column("owner", Text, nullable=False),  # an account; empty: common
    Column("folded", Text, nullable=False),  # its name, as SQL compares names
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),  # relation, view
    Column("sql", Text, nullable=False),
    Column("account", Text, nullable=False),  # who created it
    Column("created", Double, nullable=False),
    UniqueConstraint("owner", "folded"),
)

silences = Table(  # ticks at which nothing happened, where no later event says so
    "view_silences",
    schema.tables,
    Column("source", Text, primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
)

rows = Table(  # of every view, in their last state
    "view_rows",
    schema.tables,
    Column("owner", Text, primary_key=True),
    Column("view", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # JSON
    Column("row", Text, nullable=False),  # JSON
    Column("final", Boolean, nullable=False),
    Column("step", BigInteger, nullable=False),  # that changed it last
)

matches = Table(  # notifications that were counted as events
    "view_matches",
    schema.tables,
    Column("subscription", BigInteger, primary_key=True, autoincrement=False),
    Column("document", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("account", Text, nullable=False),
    Column("tick", BigInteger, nullable=False),  # the cursor at which it was first seen
    Column("id", Text, nullable=False),  # of the subscription
    Column("score", Double, nullable=False),
    Column("day", BigInteger, nullable=False),  # since 1970
    Index("view_matches_by_tick", "account", "tick"),
)

told = Table(  # the revision of a subscription to a view that has been told what there was
    "view_told",
    schema.tables,
    Column("subscription", BigInteger, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
)

checkpoints = Table(  # what the views of an owner remember, as of one step
    "view_checkpoints",
    schema.tables,
    Column("owner", Text, primary_key=True),
    Column("part", Text, primary_key=True),
    Column("state", LargeBinary, nullable=False),  # compressed JSON
)

TABLES = (statements, silences, rows, matches, told)


class OutOfStep(StoreError):
    """Somebody else has taken a step meanwhile."""


class Statement(NamedTuple):
    """A relation or view as it was created."""

    owner: str
    name: str
    kind: str
    sql: str
    account: str
    created: float


class Silent(NamedTuple):
    """Nothing happened at these ticks."""

    source: str
    first: int
    last: int


class Told(NamedTuple):
    """A row of a view in a new state, for one subscription."""

    subscription: int
    account: str
    row: str
    """Names the row: the view and its key."""
    change: str
    """JSON as the contract prints it."""


class Watcher(NamedTuple):
    """A subscription to a view that is in force."""

    subscription: int
    account: str
    view: str
    """JSON: what it asked for."""
    revision: int
    is_new: bool
    """Its revision was not told yet what there is."""


class MatchRow(NamedTuple):
    """A match as an event."""

    tick: int
    subscription: str
    document: str
    version: int
    score: float
    day: int


# --- statements ------------------------------------------------------------------------------------------------------


def created(store: Store) -> list[Statement]:
    """All relations and views, in the order of their creation."""
    columns = (statements.c.owner, statements.c.name, statements.c.kind, statements.c.sql, statements.c.account)
    asked = select(*columns, statements.c.created).order_by(statements.c.number)
    with store.read() as transaction:
        return [Statement(*row) for row in transaction.execute(asked)]


def create_in(transaction: Connection, made: Sequence[Statement]) -> None:
    """Keeps new relations and views."""
    last = int(transaction.execute(select(func.max(statements.c.number))).scalar() or 0)
    values = [one._asdict() | {"folded": one.name.lower(), "number": last + at} for at, one in enumerate(made, 1)]
    if values:
        transaction.execute(insert(statements), values)


def drop_in(transaction: Connection, owner: str, name: str) -> None:
    """Forgets a relation with its events, or a view with its rows."""
    which = (statements.c.owner == owner) & (statements.c.folded == name.lower())
    transaction.execute(delete(statements).where(which))
    transaction.execute(delete(rows).where((rows.c.owner == owner) & (rows.c.view == name)))
    if owner == COMMON:
        transaction.execute(delete(silences).where(silences.c.source == name))
        for table in (events, progress):
            transaction.execute(delete(table).where((table.c.name == SITE) & (table.c.source == name)))


# --- steps -----------------------------------------------------------------------------------------------------------


def last_step(transaction: Connection) -> int:
    """The number of the last step."""
    asked = select(progress.c.batch).where((progress.c.name == SITE) & (progress.c.source == ""))
    return int(transaction.execute(asked).scalar() or 0)


def take_step(transaction: Connection, before: int) -> int:
    """The next step, if `before` is the last one; OutOfStep if it is not. Steps are taken one after the other."""
    advance(transaction)  # whoever has moved the clock is alone
    if last_step(transaction) != before:
        raise OutOfStep("the views were changed by another process: they are read again")
    put(transaction, progress, [_mark(SITE, "", before + 1, None, False)])
    return before + 1


def _mark(name: str, source: str, batch: int, tick: int | None, closed: bool) -> dict[str, Any]:
    return {"name": name, "source": source, "batch": batch, "tick": tick, "closed": closed}


def say_in(
    transaction: Connection,
    step: int,
    sources: Iterable[Source],
    happened: Sequence[tuple[str, int, tuple[Any, ...]]],
    silent: Sequence[Silent] = (),
) -> None:
    """What sources said in a step: events as (source, tick, cells), silences, and how far each source is."""
    put(transaction, events, [
        {"name": SITE, "source": source, "tick": tick, "cells": packed(cells)} for source, tick, cells in happened
    ])  # fmt: skip
    put(transaction, silences, [one._asdict() for one in silent])
    marks = list(sources)
    put(transaction, progress, [_mark(SITE, one.name, step, one.tick, one.closed) for one in marks])
    last: dict[str, int] = {}
    for source, tick, _ in happened:
        last[source] = max(tick, last.get(source, tick))
    for source, tick in last.items():  # an event makes all ticks before it known
        transaction.execute(delete(silences).where((silences.c.source == source) & (silences.c.last < tick)))


def change_in(
    transaction: Connection, step: int, owner: str, changes: Iterable[tuple[str, str, str | None, bool]]
) -> None:
    """Rows of views in their new state: (view, key, row, final); those without a row have left."""
    there: dict[tuple[str, str], dict[str, Any]] = {}
    gone: list[dict[str, Any]] = []
    for view, key, row, final in changes:
        there.pop((view, key), None)
        if row is None:
            gone.append({"its_owner": owner, "its_view": view, "its_key": key})
        else:
            there[view, key] = {"owner": owner, "view": view, "key": key, "row": row, "final": final, "step": step}
    if gone:
        of = (rows.c.owner == bindparam("its_owner")) & (rows.c.view == bindparam("its_view"))
        transaction.execute(delete(rows).where(of & (rows.c.key == bindparam("its_key"))), gone)
    put(transaction, rows, list(there.values()))


def rows_of(transaction: Connection, owner: str) -> Iterator[tuple[str, str, str, bool]]:
    """The rows of an owner's views: (view, key, row, final)."""
    asked = select(rows.c.view, rows.c.key, rows.c.row, rows.c.final).where(rows.c.owner == owner)
    for row in transaction.execute(asked):
        yield row.view, row.key, row.row, bool(row.final)


def owners_of_rows(transaction: Connection) -> set[str]:
    """Whose views have rows."""
    return set(transaction.execute(select(rows.c.owner).distinct()).scalars())


# --- what sources said -----------------------------------------------------------------------------------------------


class Said:
    """Everything that sources said, and the checkpoints of what was made of it; all of one moment."""

    def __init__(self, transaction: Connection, chunk: int) -> None:
        self._transaction, self._chunk = transaction, chunk
        self.step = last_step(transaction)
        mine = (progress.c.name == SITE) & (progress.c.source != "")
        self.sources = [
            Source(row.source, row.tick, bool(row.closed)) for row in transaction.execute(select(progress).where(mine))
        ]
        self.silences = [Silent(*row) for row in transaction.execute(select(silences))]

    def events(
        self, source: str, after: int | None = None, upto: int | None = None
    ) -> Iterator[list[tuple[int, tuple[Any, ...]]]]:
        """The events of a source by tick, in chunks."""
        which = (events.c.name == SITE) & (events.c.source == source)
        asked = select(events.c.tick, events.c.cells).where(which & _between(events.c.tick, after, upto))
        found = self._transaction.execution_options(stream_results=True).execute(asked.order_by(events.c.tick))
        for part in found.partitions(self._chunk):
            yield [(row.tick, tuple(json.loads(row.cells))) for row in part]

    def matches(self, account: str, after: int | None = None, upto: int | None = None) -> list[MatchRow]:
        """The matches of an account that were counted, by tick."""
        columns = (matches.c.tick, matches.c.id, matches.c.document, matches.c.version, matches.c.score, matches.c.day)
        which = (matches.c.account == account) & _between(matches.c.tick, after, upto)
        found = self._transaction.execute(select(*columns).where(which).order_by(matches.c.tick))
        return [MatchRow(*row) for row in found]

    def checkpoint(self, owner: str) -> dict[str, str]:
        """The parts of the owner's checkpoint; none if there is none."""
        asked = select(checkpoints.c.part, checkpoints.c.state).where(checkpoints.c.owner == owner)
        return {row.part: zlib.decompress(row.state).decode() for row in self._transaction.execute(asked)}


def _between(tick: Column[Any], after: int | None, upto: int | None) -> ColumnElement[bool]:
    found: ColumnElement[bool] = true()
    found = found if after is None else found & (tick > after)
    return found if upto is None else found & (tick <= upto)


@contextmanager
def said(store: Store, chunk: int = 20_000) -> Iterator[Said]:
    """What sources said up to now."""
    with store.read() as transaction:
        yield Said(transaction, chunk)


class EventLog:
    """The stored events of one source, for those who do not hold them."""

    def __init__(self, store: Store, source: str) -> None:
        self._store = store
        self._mine = (events.c.name == SITE) & (events.c.source == source)

    def at(self, tick: int) -> tuple[Any, ...] | None:
        """The event at a tick."""
        with self._store.read() as transaction:
            found = transaction.execute(select(events.c.cells).where(self._mine & (events.c.tick == tick))).scalar()
        return None if found is None else tuple(json.loads(found))

    def first(self, start: int) -> int | None:
        """The tick of the first event from a tick on."""
        asked = select(func.min(events.c.tick)).where(self._mine & (events.c.tick >= start))
        with self._store.read() as transaction:
            return transaction.execute(asked).scalar()


def checkpoint_in(transaction: Connection, owner: str, parts: Mapping[str, str]) -> int:
    """Keeps what the owner's views remember after this step, in the place of what was kept before; how many bytes."""
    transaction.execute(delete(checkpoints).where(checkpoints.c.owner == owner))
    values = [{"owner": owner, "part": part, "state": zlib.compress(text.encode(), 1)} for part, text in parts.items()]
    for start in range(0, len(values), ROWS):
        transaction.execute(insert(checkpoints), values[start : start + ROWS])
    return sum(map(len, parts.values()))


def forget_checkpoints_in(transaction: Connection, owners: Container[str] = ()) -> None:
    """Forgets what all views remember, except those of some owners: the log is read then."""
    for owner in list(transaction.execute(select(checkpoints.c.owner).distinct()).scalars()):
        if owner not in owners:
            transaction.execute(delete(checkpoints).where(checkpoints.c.owner == owner))


def count_events(transaction: Connection) -> int:
    """How many events are kept."""
    asked = select(func.count()).select_from(events).where(events.c.name == SITE)
    return int(transaction.execute(asked).scalar_one())


# --- subscriptions ---------------------------------------------------------------------------------------------------


def watchers(transaction: Connection) -> list[Watcher]:
    """The subscriptions to views that are in force now."""
    own, asked = schema.subscriptions, schema.revisions
    columns = (own.c.number, own.c.account, asked.c.view, own.c.state, own.c.mute, asked.c.revision)
    found = transaction.execute(
        select(*columns, told.c.revision.label("known"))
        .join(own, own.c.number == asked.c.subscription)
        .outerjoin(told, told.c.subscription == own.c.number)
        .where((asked.c.view > "") & asked.c.until.is_(None))
        .order_by(own.c.number)
    )
    return [
        Watcher(row.number, row.account, row.view, row.revision, row.known != row.revision)
        for row in found
        if in_force(row.state, row.mute)
    ]


def waiting(store: Store) -> bool:
    """Is there a subscription that was not told yet what there is?"""
    with store.read() as transaction:
        return any(one.is_new for one in watchers(transaction))


def last_told(transaction: Connection, subscription: int) -> dict[str, str]:
    """What a subscription was told last of each row."""
    table = schema.notifications
    asked = select(table.c.document, table.c.evidence).where(table.c.subscription == subscription)
    return {row.document: row.evidence or "" for row in transaction.execute(asked.order_by(table.c.version))}


def know_in(transaction: Connection, fresh: Iterable[Watcher]) -> None:
    """These were told what there is."""
    put(transaction, told, [{"subscription": one.subscription, "revision": one.revision} for one in fresh])


def tell_in(transaction: Connection, step: int, changes: Sequence[Told]) -> int:
    """Puts changes of rows into the outbox, each in the place of what waits there of the same row."""
    last = {(one.subscription, one.row): one for one in changes}
    if not last:
        return 0
    table = schema.notifications
    old = (table.c.subscription == bindparam("its_subscription")) & (table.c.document == bindparam("its_row"))
    replaced = delete(table).where(old & table.c.digest.is_(None))
    chosen = list(last.values())
    transaction.execute(replaced, [{"its_subscription": one.subscription, "its_row": one.row} for one in chosen])
    _, before = advance(transaction, cursors=len(chosen))
    now = time.time()
    values = [
        {
            "cursor": cursor,
            "account": one.account,
            "subscription": one.subscription,
            "document": one.row,
            "version": step,
            "position": NO_DOCUMENT,
            "score": 1.0,
            "statistics": NO_STATISTICS,
            "evidence": one.change,
            "made": now,
        }
        for cursor, one in enumerate(chosen, before + 1)
    ]
    for start in range(0, len(values), ROWS):
        transaction.execute(insert(table), values[start : start + ROWS])
    return len(values)


# --- matches as events -----------------------------------------------------------------------------------------------


def count_matches_in(transaction: Connection, account: str, limit: int) -> list[MatchRow]:
    """The account's next matches that were not counted before, each once however often its cursor moves."""
    table, own = schema.notifications, schema.subscriptions
    mark = select(progress.c.batch).where((progress.c.name == MATCHES) & (progress.c.source == account))
    after = int(transaction.execute(mark).scalar() or 0)
    asked = (
        select(table, own.c.id)
        .join(own, own.c.number == table.c.subscription)
        .where((table.c.account == account) & (table.c.cursor > after))
        .order_by(table.c.cursor)
        .limit(limit)
    )
    found = transaction.execute(asked).all()
    if not found:
        return []
    put(transaction, progress, [_mark(MATCHES, account, found[-1].cursor, None, False)])
    made: list[MatchRow] = []
    for row in found:
        key = (
            (matches.c.subscription == row.subscription)
            & (matches.c.document == row.document)
            & (matches.c.version == row.version)
        )
        if row.position == NO_DOCUMENT or transaction.execute(select(matches.c.tick).where(key)).first() is not None:
            continue
        one = MatchRow(row.cursor, row.id, row.document, row.version, row.score, int(row.made // 86_400))
        made.append(one)
        values = one._asdict() | {"subscription": row.subscription, "id": row.id, "account": account}
        transaction.execute(insert(matches).values(**values))
    return made


def matches_wait(store: Store, account: str) -> bool:
    """Has the account notifications that were not looked at?"""
    table = schema.notifications
    mark = select(progress.c.batch).where((progress.c.name == MATCHES) & (progress.c.source == account))
    with store.read() as transaction:
        after = int(transaction.execute(mark).scalar() or 0)
        asked = select(table.c.cursor).where((table.c.account == account) & (table.c.cursor > after)).limit(1)
        return transaction.execute(asked).first() is not None
