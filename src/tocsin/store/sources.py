"""Sources that are harvested: where they are, how far each has come, how it fares, and which items it brought.

What a visit brings is accepted by `store.harvested`. A source's key is made of its address: one that is removed and
added again still knows its items.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    Row,
    Table,
    Text,
    case,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from tocsin.store import journal, schema
from tocsin.store.connect import Store, packed

ACTIVE, PAUSED = "active", "paused"
TOLD, TWIN, GONE = 0, 1, 2  # what became of an item: a document, nothing (a near-identical one is), deleted

_Number = BigInteger().with_variant(Integer(), "sqlite")

table = Table(
    "sources",
    schema.tables,
    Column("number", _Number, primary_key=True),
    Column("key", Text, nullable=False, unique=True),  # of the address; begins the ids of its documents
    Column("kind", Text, nullable=False),  # feed, oai, folder
    Column("address", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("tags", Text, nullable=False),  # JSON
    Column("options", Text, nullable=False),  # JSON: set and format of OAI-PMH
    Column("account", Text, nullable=False),
    Column("interval", Double, nullable=False),  # seconds between two visits
    Column("state", Text, nullable=False),  # active, paused
    Column("created", Double, nullable=False),
    Column("due", Double, nullable=False),  # when it is visited next
    Column("etag", Text),
    Column("modified", Text),
    Column("cursor", Text),  # JSON: how far OAI-PMH has come
    Column("failures", Integer, nullable=False),  # one after the other, up to now
    Column("problem", Text),  # of the last visit
    Column("note", Text),  # what was odd about a visit that went well
    Column("tried", Double),
    Column("succeeded", Double),
    Column("brought", Double),  # when it last had something new
    Column("documents", BigInteger, nullable=False),
    Column("twins", BigInteger, nullable=False),
    Index("sources_by_due", "state", "due"),
)

harvested = Table(  # every item that a source ever had
    "harvested",
    schema.tables,
    Column("source", Text, primary_key=True),
    Column("item", LargeBinary, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("mark", LargeBinary, nullable=False),  # of its words
    Column("state", Integer, nullable=False),
    Column("at", Double, nullable=False),
)

sketches = Table(  # of the items within the window
    "sketches",
    schema.tables,
    Column("source", Text, primary_key=True),
    Column("item", LargeBinary, primary_key=True),
    Column("sketch", LargeBinary, nullable=False),
    Column("at", Double, nullable=False),
    Index("sketches_by_age", "at"),
)

bands = Table(
    "bands",
    schema.tables,
    Column("band", BigInteger, primary_key=True, autoincrement=False),
    Column("source", Text, primary_key=True),
    Column("item", LargeBinary, primary_key=True),
    Column("at", Double, nullable=False),
    Index("bands_by_age", "at"),
    Index("bands_by_item", "source", "item"),
)

TABLES = (table, harvested, sketches, bands)


@dataclass(frozen=True, slots=True)
class Source:
    """A source as the store holds it."""

    number: int
    key: str
    kind: str
    address: str = field(repr=False)  # it may hold a secret
    name: str
    account: str
    interval: float
    state: str = ACTIVE
    tags: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    created: float = 0.0
    due: float = 0.0
    etag: str | None = None
    modified: str | None = None
    cursor: Mapping[str, Any] = field(default_factory=dict)
    failures: int = 0
    problem: str | None = None
    note: str | None = None
    tried: float | None = None
    succeeded: float | None = None
    brought: float | None = None
    documents: int = 0
    twins: int = 0


# --- making and finding ----------------------------------------------------------------------------------------------


def add(store: Store, source: Source) -> Source | None:
    """Keeps a new source, gives it its number and notes who added it; None if its address is harvested already."""
    values = {name: getattr(source, name) for name in source.__dataclass_fields__ if name != "number"}
    values |= {"tags": packed(list(source.tags)), "options": packed(dict(source.options)), "cursor": None}
    try:
        with store.write() as transaction:
            number = transaction.execute(insert(table).values(**values).returning(table.c.number)).scalar_one()
            journal.note_in(transaction, source.account, "add source", str(number))
    except IntegrityError:
        return None
    return replace(source, number=int(number))


def find(store: Store, number: int) -> Source | None:
    """A source by its number."""
    with store.read() as transaction:
        row = transaction.execute(select(table).where(table.c.number == number)).first()
    return None if row is None else _source(row)


def with_key(store: Store, key: str) -> Source | None:
    """A source by its key."""
    with store.read() as transaction:
        row = transaction.execute(select(table).where(table.c.key == key)).first()
    return None if row is None else _source(row)


def at_address(store: Store, kind: str, address: str, options: Mapping[str, str]) -> Source | None:
    """A source by what is asked for there: one that has moved keeps the key of its first address."""
    which = (table.c.kind == kind) & (table.c.address == address) & (table.c.options == packed(dict(options)))
    with store.read() as transaction:
        row = transaction.execute(select(table).where(which)).first()
    return None if row is None else _source(row)


def listed(store: Store, after: int = 0, limit: int = 1_000) -> list[Source]:
    """Sources by number."""
    asked = select(table).where(table.c.number > after).order_by(table.c.number).limit(limit)
    with store.read() as transaction:
        return [_source(row) for row in transaction.execute(asked)]


def due(store: Store, now: float, limit: int = 1_000) -> list[Source]:
    """Those to be visited by now, the longest overdue first."""
    which = (table.c.state == ACTIVE) & (table.c.due <= now)
    with store.read() as transaction:
        return [
            _source(row)
            for row in transaction.execute(
                select(table).where(which).order_by(table.c.due, table.c.number).limit(limit)
            )
        ]


def next_due(store: Store) -> float | None:
    """When the next one is to be visited."""
    with store.read() as transaction:
        found = transaction.execute(select(func.min(table.c.due)).where(table.c.state == ACTIVE)).scalar()
    return None if found is None else float(found)


def count(store: Store, account: str | None = None) -> int:
    """How many sources there are (of an account)."""
    asked = select(func.count()).select_from(table)
    with store.read() as transaction:
        return int(
            transaction.execute(asked if account is None else asked.where(table.c.account == account)).scalar_one()
        )


class Healths(NamedTuple):
    """How the sources fare, all of them."""

    ok: int = 0
    failing: int = 0
    paused: int = 0
    new: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.ok + self.failing + self.paused + self.new


def healths(store: Store) -> Healths:
    """How many sources are well, failing, paused, not visited yet."""
    is_failing, is_new = table.c.failures > 0, table.c.succeeded.is_(None)
    kind = case((table.c.state == PAUSED, "paused"), (is_failing, "failing"), (is_new, "new"), else_="ok")
    with store.read() as transaction:
        found = transaction.execute(select(kind, func.count()).group_by(kind)).all()
    return Healths(**{name: int(count) for name, count in found})


def last_visit(store: Store) -> float:
    """When a visit ended last."""
    with store.read() as transaction:
        return float(transaction.execute(select(func.max(table.c.tried))).scalar() or 0.0)


def change(store: Store, number: int, **values: Any) -> bool:
    """Sets columns; False if there is no such source."""
    with store.write() as transaction:
        return set_in(transaction, number, values)


def note_visit(store: Store, source: Source, **values: Any) -> bool:
    """Sets columns after a visit; False if the source was removed meanwhile, or has moved."""
    with store.write() as transaction:
        if transaction.execute(select(table.c.number).where(is_same(source))).first() is None:
            return False
        return set_in(transaction, source.number, values)


def is_same(source: Source) -> ColumnElement[bool]:
    """The row of this very source: a database may give the number of one that was removed to another.

    One that has moved is not the same: how far a visit came at the old address says nothing of the new one.
    """
    there = (table.c.key == source.key) & (table.c.address == source.address)
    return (table.c.number == source.number) & there & (table.c.created == source.created)


def remove(store: Store, number: int) -> bool:
    """Forgets a source. Its documents stay, and what is known of its items, in case it is added again."""
    with store.write() as transaction:
        return bool(transaction.execute(delete(table).where(table.c.number == number)).rowcount)


def set_in(transaction: Connection, number: int, values: Mapping[str, Any]) -> bool:
    """Sets columns, as a part of a transaction."""
    row = {name: packed(value) if name in ("tags", "options", "cursor") else value for name, value in values.items()}
    return bool(transaction.execute(update(table).where(table.c.number == number).values(**row)).rowcount)


def _source(row: Row[Any]) -> Source:
    values = dict(row._mapping)
    values["tags"] = tuple(json.loads(values["tags"]))
    values["options"] = json.loads(values["options"])
    values["cursor"] = json.loads(values["cursor"]) if values["cursor"] else {}
    return Source(**values)
