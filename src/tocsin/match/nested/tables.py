"""What nested subscriptions remember, as plain tables.

- *support* (set, value, position): the document at this position put the value into the set. A value is in a set
  as long as a document supports it.
- *holding* (field, value, position): the current document at this position holds the value in the field.
- *told* (number, position): the subscription of this number was told of the document at this position.
- *current* (id, position): where the current version of a document stands in the log.

A position is a document's place in the one log of the collection; each version has its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tocsin.match.nested.translate import Value, keys_of
from tocsin.model import Document

Holding = tuple[str, Value]
"""A field and a value that a document holds in it."""


def holdings_of(document: Document, fields: Iterable[str]) -> list[Holding]:
    """What the document holds in these fields, each once."""
    return list(dict.fromkeys((field, value) for field in fields for value in keys_of(document, field)))


class Tables(Protocol):
    """Where the tables live. Every call sees what the calls before it did."""

    @property
    def last(self) -> int:
        """The position of the last document that arrived; what comes again is known by this."""

    def expect(self, documents: Sequence[tuple[int, Document]]) -> None:
        """These are about to arrive; what is known of their values may be fetched at once."""

    def set_of(self, query: str, source: str) -> tuple[int, bool]:
        """The number of a set by the text of its query and the field it collects; was it made just now?"""

    def sets(self) -> Collection[int]:
        """The numbers of all sets."""

    def drop_set(self, number: int) -> None:
        """Nobody needs the set any more."""

    def sets_with(self, value: Value) -> Collection[int]:
        """The sets that hold the value."""

    def contains(self, number: int, value: Value) -> bool:
        """Is the value in the set?"""

    def values(self, number: int) -> Iterable[Value]:
        """All values of the set."""

    def size(self, number: int) -> int:
        """How many values the set has."""

    def support(self, number: int, value: Value, position: int) -> bool:
        """The document puts the value into the set; True if it was not there."""

    def withdraw(self, number: int, value: Value, position: int) -> bool:
        """The document no longer does; True if the value has left the set."""

    def supported(self, position: int) -> list[tuple[int, Value]]:
        """The (set, value) pairs that the document supports."""

    def supporter(self, number: int, value: Value) -> int | None:
        """The earliest document that put the value into the set."""

    def fields(self) -> Collection[str]:
        """The fields whose holdings are kept."""

    def watch(self, field: str) -> None:
        """From now on, the holdings of this field are kept."""

    def hold(self, position: int, holdings: Collection[Holding]) -> None:
        """The document holds these."""

    def release(self, position: int) -> None:
        """The document is not current any more, and holds nothing."""

    def holders(self, field: str, value: Value) -> Collection[int]:
        """The current documents that hold the value."""

    def arrive(self, position: int, document: Document) -> None:
        """The document is the current one of its id now."""

    def leave(self, id: str) -> None:
        """There is no document of this id any more."""

    def current(self, id: str) -> int | None:
        """Where the current document of this id stands."""

    def document(self, position: int) -> Document:
        """A document that is, or until this step was, current."""

    def documents(self) -> Iterator[tuple[int, Document]]:
        """All current documents, in order."""

    def tell(self, number: int, position: int) -> bool:
        """The subscription is told of the document; False if it was before."""

    def forget(self, number: int) -> None:
        """The subscription is gone."""


Places = int | dict[int, None]
"""One number, as it mostly is (the position of a document, or a set), or several: a dictionary for each would be dear,
to make and to the collector of garbage."""
K = TypeVar("K")


def _several(held: Places) -> tuple[int, ...]:
    return (held,) if isinstance(held, int) else tuple(held)


def _joins(table: dict[K, Places], key: K, held: Places, position: int) -> bool:
    """Adds a position to those that are there; False if it was there."""
    if isinstance(held, dict):
        if position in held:
            return False
        held[position] = None
        return True
    if held == position:
        return False
    table[key] = {held: None, position: None}
    return True


def _leaves(table: dict[K, Places], key: K, position: int) -> bool:
    """Takes a position away from those that are there; True if none is left."""
    held = table[key]
    if isinstance(held, dict):
        del held[position]
        if held:
            return False
    del table[key]
    return True


class InMemory:
    """The tables as dictionaries."""

    def __init__(self) -> None:
        self.last = 0
        self._numbers: dict[tuple[str, str], int] = {}
        self._next = 0
        self._sets: dict[Value, Places] = {}  # value -> sets
        self._supporters: dict[tuple[int, Value], Places] = {}
        self._values: dict[int, set[Value]] = {}
        self._supported: dict[int, dict[tuple[int, Value], None]] = {}
        self._fields: dict[str, None] = {}
        self._holders: dict[str, dict[Value, Places]] = {}  # field -> value -> holders
        self._current: dict[str, int] = {}
        self._documents: dict[int, Document] = {}
        self._told: dict[int, set[int]] = {}

    def expect(self, documents: Sequence[tuple[int, Document]]) -> None:
        """Everything is at hand."""

    def set_of(self, query: str, source: str) -> tuple[int, bool]:
        """A number, and whether it is a new one."""
        known = self._numbers.get((query, source))
        if known is not None:
            return known, False
        number = self._numbers[query, source] = self._next
        self._next += 1
        self._values[number] = set()
        return number, True

    def sets(self) -> Collection[int]:
        """Their numbers."""
        return list(self._values)

    def drop_set(self, number: int) -> None:
        """Its values go too."""
        for value in self._values.pop(number):
            for position in _several(self._supporters.pop((number, value))):
                del self._supported[position][number, value]
            _leaves(self._sets, value, number)
        self._numbers = {name: one for name, one in self._numbers.items() if one != number}

    def sets_with(self, value: Value) -> Collection[int]:
        """Their numbers."""
        held = self._sets.get(value)
        return () if held is None else (held,) if isinstance(held, int) else held

    def contains(self, number: int, value: Value) -> bool:
        """Is it there?"""
        return value in self._values[number]

    def values(self, number: int) -> Iterable[Value]:
        """All of them."""
        return self._values[number]

    def size(self, number: int) -> int:
        """How many."""
        return len(self._values[number])

    def support(self, number: int, value: Value, position: int) -> bool:
        """True if the value is new in the set."""
        pair = (number, value)
        held = self._supporters.get(pair)
        if held is None:
            self._supporters[pair] = position
            self._values[number].add(value)
            _joins(self._sets, value, self._sets.setdefault(value, number), number)
        elif not _joins(self._supporters, pair, held, position):
            return False
        supported = self._supported.get(position)
        if supported is None:
            supported = self._supported[position] = {}
        supported[pair] = None
        return held is None

    def withdraw(self, number: int, value: Value, position: int) -> bool:
        """True if nobody supports the value any more."""
        del self._supported[position][number, value]
        if not _leaves(self._supporters, (number, value), position):
            return False
        _leaves(self._sets, value, number)
        self._values[number].discard(value)
        return True

    def supported(self, position: int) -> list[tuple[int, Value]]:
        """A copy."""
        return list(self._supported.get(position, ()))

    def supporter(self, number: int, value: Value) -> int | None:
        """The smallest position."""
        held = self._supporters.get((number, value))
        return None if held is None else min(_several(held))

    def fields(self) -> Collection[str]:
        """Their names."""
        return self._fields.keys()

    def watch(self, field: str) -> None:
        """Documents that are here already are held by the caller."""
        self._fields[field] = None
        self._holders.setdefault(field, {})

    def hold(self, position: int, holdings: Collection[Holding]) -> None:
        """Each once."""
        for field, value in holdings:
            of_field = self._holders[field]
            held = of_field.setdefault(value, position)
            if held is not position:
                _joins(of_field, value, held, position)

    def release(self, position: int) -> None:
        """Undo hold()."""
        for field, value in holdings_of(self._documents[position], self._fields):
            held = self._holders[field].get(value)
            if isinstance(held, dict):
                held.pop(position, None)
            if held in (position, {}):
                del self._holders[field][value]

    def holders(self, field: str, value: Value) -> Collection[int]:
        """Their positions."""
        held = self._holders[field].get(value)
        return () if held is None else _several(held)

    def arrive(self, position: int, document: Document) -> None:
        """The older version is gone."""
        self.leave(document.id)
        self._current[document.id] = position
        self._documents[position] = document
        self.last = position

    def leave(self, id: str) -> None:
        """With its content."""
        old = self._current.pop(id, None)
        if old is not None:
            del self._documents[old]
            self._supported.pop(old, None)

    def current(self, id: str) -> int | None:
        """None if there is none."""
        return self._current.get(id)

    def document(self, position: int) -> Document:
        """By its place in the log."""
        return self._documents[position]

    def documents(self) -> Iterator[tuple[int, Document]]:
        """In order of arrival."""
        yield from list(self._documents.items())

    def tell(self, number: int, position: int) -> bool:
        """False if it was told before."""
        told = self._told.get(number)
        if told is None:
            self._told[number] = {position}
            return True
        if position in told:
            return False
        told.add(position)
        return True

    def forget(self, number: int) -> None:
        """All that it was told."""
        self._told.pop(number, None)

    # --- keeping -------------------------------------------------------------------------------

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything but the documents' content, as rows of plain tables."""
        return {
            "last": [(self.last,)],
            "sets": [(number, query, source) for (query, source), number in self._numbers.items()],
            "support": [
                (number, value, position)
                for (number, value), held in self._supporters.items()
                for position in _several(held)
            ],
            "fields": [(field,) for field in self._fields],
            "holding": [
                (field, value, position)
                for field, values in self._holders.items()
                for value in values
                for position in self.holders(field, value)
            ],
            "current": list(self._current.items()),
            "told": [(number, position) for number, positions in self._told.items() for position in positions],
        }

    @classmethod
    def from_rows(cls, rows: Mapping[str, Iterable[tuple[Any, ...]]], documents: Mapping[int, Document]) -> InMemory:
        """Undo rows(), with the content of the current documents by position."""
        self = cls()
        for number, query, source in rows["sets"]:
            self._numbers[query, source] = number
            self._values[number] = set()
            self._next = max(self._next, number + 1)
        for number, value, position in rows["support"]:
            self.support(number, value, position)
        for (field,) in rows["fields"]:
            self.watch(field)
        for field, value, position in rows["holding"]:
            self.hold(position, [(field, value)])
        self._current = dict(rows["current"])
        self._documents = {position: documents[position] for position in sorted(self._current.values())}
        for number, position in rows["told"]:
            self.tell(number, position)
        ((self.last,),) = rows["last"]
        return self
