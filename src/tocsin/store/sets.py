"""The sets of nested subscriptions, kept with the site (`match.nested.tables`, in SQL).

They change in the transaction that writes a batch's notifications, so the two never disagree: whoever runs the
batch again after a crash finds both undone, or both done. Within a batch, what is asked per document is fetched for
all of them at once, and what changes is written at the end, or when it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.intake import document_from_json
from tocsin.match.nested.tables import Holding, holdings_of
from tocsin.match.nested.translate import Value
from tocsin.model import Document
from tocsin.store import schema

LOOKED_UP = 500  # keys in one question to the database
READ_MAX = 20_000  # documents that are remembered
KEY_CHARACTERS = 200  # longer values are known by a digest: an index of PostgreSQL takes no long ones

sets = Table(
    "nested_sets",
    schema.tables,
    Column("number", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True),
    Column("name", Text, nullable=False, unique=True),  # a digest of the two that follow
    Column("query", Text, nullable=False),
    Column("source", Text, nullable=False),
)
support = Table(  # the document at this position put the value into the set
    "nested_support",
    schema.tables,
    Column("key", Text, primary_key=True),
    Column("set", BigInteger, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Index("nested_support_by_position", "position"),
    Index("nested_support_by_set", "set"),
)
holding = Table(  # the current document at this position holds the value
    "nested_holding",
    schema.tables,
    Column("field", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Index("nested_holding_by_position", "position"),
)
long_values = Table(  # what a digest stands for
    "nested_long_values",
    schema.tables,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
fields = Table("nested_fields", schema.tables, Column("field", Text, primary_key=True))
current = Table(  # the current version of a document, as of the last step
    "nested_current",
    schema.tables,
    Column("id", Text, primary_key=True),
    Column("position", BigInteger, nullable=False, unique=True),
)
told = Table(
    "nested_told",
    schema.tables,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
)
departures = Table(  # documents that were deleted, until the sets know
    "nested_departures",
    schema.tables,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
)
clock = Table(
    "nested_clock",
    schema.tables,
    Column("one", Integer, primary_key=True),
    Column("last", BigInteger, nullable=False),  # the position of the last step
)
TABLES = (sets, support, holding, long_values, fields, current, told, departures, clock)


# What is asked most often is built once.
_SETS_OF = select(support.c.set).where(support.c.key == bindparam("key")).distinct()
_HOLDERS = (
    select(holding.c.position)
    .where((holding.c.field == bindparam("field")) & (holding.c.key == bindparam("key")))
    .order_by(holding.c.position)
)
_DOCUMENT = select(schema.documents.c.id, schema.documents.c.body).where(
    schema.documents.c.position == bindparam("position")
)
_TOLD = select(told.c.number).where((told.c.number == bindparam("number")) & (told.c.position == bindparam("position")))


def create(transaction: Connection) -> None:
    """Makes the tables where they are not there yet."""
    schema.tables.create_all(transaction, tables=list(TABLES), checkfirst=True)
    if transaction.execute(select(clock.c.one)).first() is None:
        transaction.execute(insert(clock).values(one=1, last=0))


def depart(transaction: Connection, id: str) -> None:
    """A document is deleted: its values leave the sets before the next step, or as soon as it has arrived."""
    versions = select(schema.documents.c.position, schema.documents.c.id).where(schema.documents.c.id == id)
    insertion = _insertion(transaction)(departures).from_select(["position", "id"], versions)
    transaction.execute(insertion.on_conflict_do_nothing())


def key_of(value: Value) -> str:
    """A value as an index holds it."""
    if isinstance(value, float):
        return f"n{value + 0.0!r}"
    return f"s{value}" if len(value) <= KEY_CHARACTERS else f"h{sha256(value.encode()).hexdigest()}"


class StoredSets:
    """The tables of one store. Every call happens `within` a transaction, which is the caller's."""

    def __init__(self) -> None:
        self.last = 0
        self._transaction: Connection | None = None
        self._read: dict[int, Document] = {}  # what stands at a position never changes
        self._clear()

    @contextmanager
    def within(self, transaction: Connection) -> Iterator[StoredSets]:
        """Works inside the transaction; everything is written when this ends well."""
        if self._transaction is not None:
            raise RuntimeError("the sets are in a transaction already")
        self._transaction = transaction
        try:
            self.last = int(transaction.execute(select(clock.c.last)).scalar_one())
            self._fields.update(dict.fromkeys(transaction.execute(select(fields.c.field)).scalars()))
            self._sources.update(dict.fromkeys(transaction.execute(select(sets.c.source).distinct()).scalars()))
            yield self
            self._write()
        finally:
            self._transaction = None
            self._clear()

    def _clear(self) -> None:
        """Forgets what is true only as long as nobody else writes."""
        self._fields: dict[str, None] = {}
        self._sources: dict[str, None] = {}  # fields whose values the sets collect
        self._sets: dict[str, set[int]] = {}  # key -> sets that hold it, for all keys that were asked for
        self._supports: dict[tuple[str, int, int], None] = {}  # to be written
        self._holders: dict[tuple[str, str], dict[int, None]] = {}  # to be written
        self._long: dict[str, str] = {}  # to be written
        self._arrived: dict[int, Document] = {}
        self._current: dict[str, int | None] = {}
        self._changed: dict[str, int | None] = {}  # current ones to be written
        self._told: dict[tuple[int, int], None] = {}  # to be written

    @property
    def _sql(self) -> Connection:
        if self._transaction is None:
            raise RuntimeError("the sets are read and changed within a transaction")
        return self._transaction

    # --- writing -------------------------------------------------------------------------------

    def _write(self) -> None:
        self._write_supports()
        self._write_holders()
        self._write_current()
        self._insert(told, [{"number": number, "position": position} for number, position in self._told])
        self._told.clear()
        self._sql.execute(update(clock).values(last=self.last))

    def _write_supports(self) -> None:
        rows = [{"key": key, "set": number, "position": position} for key, number, position in self._supports]
        self._insert(support, rows)
        self._supports.clear()
        self._insert(long_values, [{"key": key, "value": value} for key, value in self._long.items()])
        self._long.clear()

    def _write_holders(self) -> None:
        rows = [
            {"field": field, "key": key, "position": position}
            for (field, key), positions in self._holders.items()
            for position in positions
        ]
        self._insert(holding, rows)
        self._holders.clear()

    def _write_current(self) -> None:
        ids = list(self._changed)
        for some in _chunks(ids):
            self._sql.execute(delete(current).where(current.c.id.in_(some)))
        rows = [{"id": id, "position": at} for id, at in self._changed.items() if at is not None]
        if rows:
            self._sql.execute(insert(current), rows)
        self._changed.clear()

    def _insert(self, table: Table, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._sql.execute(_insertion(self._sql)(table).on_conflict_do_nothing(), rows)

    # --- sets ----------------------------------------------------------------------------------

    def expect(self, documents: Sequence[tuple[int, Document]]) -> None:
        """Fetches which sets hold the documents' values, and which older versions there are."""
        names = self._fields | self._sources
        values = {value for _, document in documents for _, value in holdings_of(document, names)}
        keys = sorted({key_of(value) for value in values}.difference(self._sets))
        for some in _chunks(keys):
            self._sets.update((key, set()) for key in some)
            asked = select(support.c.key, support.c.set).where(support.c.key.in_(some)).distinct()
            for key, number in self._sql.execute(asked):
                self._sets[key].add(number)
        ids = sorted({document.id for _, document in documents}.difference(self._current))
        for some in _chunks(ids):
            self._current.update(dict.fromkeys(some))
            found = select(current.c.id, current.c.position).where(current.c.id.in_(some))
            self._current.update((id, position) for id, position in self._sql.execute(found))

    def set_of(self, query: str, source: str) -> tuple[int, bool]:
        """By a digest of its name."""
        name = sha256(f"{source}\0{query}".encode()).hexdigest()
        known = self._sql.execute(select(sets.c.number).where(sets.c.name == name)).scalar()
        if known is not None:
            return int(known), False
        self._sources[source] = None
        made = insert(sets).values(name=name, query=query, source=source).returning(sets.c.number)
        return int(self._sql.execute(made).scalar_one()), True

    def sets(self) -> Collection[int]:
        """All of them."""
        return list(self._sql.execute(select(sets.c.number)).scalars())

    def drop_set(self, number: int) -> None:
        """With what supports it."""
        self._write_supports()
        self._sql.execute(delete(support).where(support.c.set == number))
        self._sql.execute(delete(sets).where(sets.c.number == number))
        for holders in self._sets.values():
            holders.discard(number)

    def _sets_of(self, key: str) -> set[int]:
        known = self._sets.get(key)
        if known is None:
            known = self._sets[key] = set(self._sql.execute(_SETS_OF, {"key": key}).scalars())
        return known

    def sets_with(self, value: Value) -> Collection[int]:
        """A copy, since steps may change it."""
        return tuple(self._sets_of(key_of(value)))

    def contains(self, number: int, value: Value) -> bool:
        """Does anybody support it?"""
        return number in self._sets_of(key_of(value))

    def values(self, number: int) -> Iterable[Value]:
        """Read in full."""
        self._write_supports()
        joined = support.outerjoin(long_values, long_values.c.key == support.c.key)
        asked = select(support.c.key, long_values.c.value).select_from(joined).where(support.c.set == number)
        for key, value in self._sql.execute(asked.distinct()).all():
            yield value if value is not None else _value(key)

    def size(self, number: int) -> int:
        """Counted."""
        self._write_supports()
        asked = select(func.count(func.distinct(support.c.key))).where(support.c.set == number)
        return int(self._sql.execute(asked).scalar_one())

    def support(self, number: int, value: Value, position: int) -> bool:
        """Written later."""
        key = key_of(value)
        holders = self._sets_of(key)
        self._supports[key, number, position] = None
        if number in holders:
            return False
        holders.add(number)
        if key[0] == "h":
            self._long[key] = str(value)
        return True

    def withdraw(self, number: int, value: Value, position: int) -> bool:
        """Written at once: others may support the value."""
        key = key_of(value)
        self._write_supports()
        same = (support.c.key == key) & (support.c.set == number)
        self._sql.execute(delete(support).where(same & (support.c.position == position)))
        if self._sql.execute(select(support.c.position).where(same).limit(1)).first() is not None:
            return False
        self._sets_of(key).discard(number)
        return True

    def supported(self, position: int) -> list[tuple[int, Value]]:
        """By the document's position."""
        self._write_supports()
        joined = support.outerjoin(long_values, long_values.c.key == support.c.key)
        columns = (support.c.set, support.c.key, long_values.c.value)
        asked = select(*columns).select_from(joined).where(support.c.position == position)
        rows = self._sql.execute(asked.order_by(support.c.set, support.c.key)).all()
        return [(number, value if value is not None else _value(key)) for number, key, value in rows]

    def supporter(self, number: int, value: Value) -> int | None:
        """The smallest position."""
        self._write_supports()
        same = (support.c.key == key_of(value)) & (support.c.set == number)
        found = self._sql.execute(select(func.min(support.c.position)).where(same)).scalar()
        return None if found is None else int(found)

    # --- holdings ------------------------------------------------------------------------------

    def fields(self) -> Collection[str]:
        """Read when the transaction began."""
        return self._fields.keys()

    def watch(self, field: str) -> None:
        """Kept from now on."""
        self._fields[field] = None
        self._insert(fields, [{"field": field}])

    def hold(self, position: int, holdings: Collection[Holding]) -> None:
        """Written later."""
        for field, value in holdings:
            self._holders.setdefault((field, key_of(value)), {})[position] = None

    def release(self, position: int) -> None:
        """Whatever it held."""
        self._write_holders()
        self._sql.execute(delete(holding).where(holding.c.position == position))

    def holders(self, field: str, value: Value) -> Collection[int]:
        """Those that are written, and those that will be."""
        key = key_of(value)
        found = self._sql.execute(_HOLDERS, {"field": field, "key": key}).scalars()
        return list(dict.fromkeys([*found, *self._holders.get((field, key), ())]))

    # --- documents -----------------------------------------------------------------------------

    def arrive(self, position: int, document: Document) -> None:
        """Its content is in the log."""
        self._arrived[position] = document
        self._current[document.id] = self._changed[document.id] = position
        self.last = position

    def leave(self, id: str) -> None:
        """Written later."""
        self._current[id] = self._changed[id] = None

    def current(self, id: str) -> int | None:
        """As of the last step, which the log may be ahead of."""
        if id not in self._current:
            found = self._sql.execute(select(current.c.position).where(current.c.id == id)).scalar()
            self._current[id] = None if found is None else int(found)
        return self._current[id]

    def document(self, position: int) -> Document:
        """From the log; one that was deleted is empty, and about to leave."""
        known = self._arrived.get(position) or self._read.get(position)
        if known is None:
            id, body = self._sql.execute(_DOCUMENT, {"position": position}).one()
            if body is None:
                return Document(id)
            if len(self._read) >= READ_MAX:
                self._read.clear()
            known = self._read[position] = document_from_json(body)
        return known

    def documents(self) -> Iterator[tuple[int, Document]]:
        """In the order of the log."""
        self._write_current()
        log = schema.documents
        after = 0
        while True:
            joined = log.join(current, current.c.position == log.c.position)
            asked = select(log.c.position, log.c.body).select_from(joined)
            kept = asked.where((log.c.position > after) & log.c.body.is_not(None))
            rows = self._sql.execute(kept.order_by(log.c.position).limit(LOOKED_UP)).all()
            for position, body in rows:
                yield position, document_from_json(body)
            if not rows:
                return
            after = rows[-1].position

    def departed(self) -> list[str]:
        """The ids of deleted documents that the sets still know; each is given once."""
        self._write_current()
        due = departures.c.position <= self.last
        joined = departures.join(current, current.c.position == departures.c.position)
        found = list(self._sql.execute(select(current.c.id).select_from(joined).where(due)).scalars())
        self._sql.execute(delete(departures).where(due))
        return found

    # --- told ----------------------------------------------------------------------------------

    def tell(self, number: int, position: int) -> bool:
        """A document of this batch cannot have been told before it."""
        if (number, position) in self._told:
            return False
        if position not in self._arrived:
            same = {"number": number, "position": position}
            if self._sql.execute(_TOLD, same).first() is not None:
                return False
        self._told[number, position] = None
        return True

    def forget(self, number: int) -> None:
        """All that it was told."""
        self._told = dict.fromkeys(pair for pair in self._told if pair[0] != number)
        self._sql.execute(delete(told).where(told.c.number == number))


def _value(key: str) -> Value:
    return float(key[1:]) if key[0] == "n" else key[1:]


def _chunks(keys: list[str]) -> Iterator[list[str]]:
    for first in range(0, len(keys), LOOKED_UP):
        yield keys[first : first + LOOKED_UP]


def _insertion(transaction: Connection) -> Any:
    return postgresql.insert if transaction.dialect.name == "postgresql" else sqlite.insert


def begin_at(transaction: Connection, position: int) -> None:
    """Forgets all sets, and takes the documents that were current at this position of the log as those that are known.

    For when nested subscriptions appear where there were none: until then, nobody followed the log.
    """
    for table in (sets, support, holding, long_values, fields, current, departures):
        transaction.execute(delete(table))
    log = schema.documents
    until_then = (log.c.position <= position) & (log.c.state != schema.DELETED)
    known = select(log.c.id, func.max(log.c.position)).where(until_then).group_by(log.c.id)
    transaction.execute(insert(current).from_select(["id", "position"], known))
    transaction.execute(update(clock).values(last=position))
