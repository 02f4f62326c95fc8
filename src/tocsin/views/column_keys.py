"""The keys of many groups: each group has a place, in the order in which they appeared, and is found by array.

Each column of a key becomes a number, and two numbers become one; a number is found among the known ones by bisection.
A dictionary from keys to places says the same, key by key: that is what the tests compare with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tocsin.views.column_tallies import grown
from tocsin.views.columns import Array, Vector, Words
from tocsin.views.expression import Type
from tocsin.views.ticks import FIRST_TICK, LAST_TICK

BITS = 31  # of a number in a pair: there is memory for fewer groups than that


class Codes:
    """A number for each different integer of 64 bits, in the order in which they appeared."""

    def __init__(self) -> None:
        self._number = 0
        self._parts: list[tuple[Array, Array]] = []
        """Known integers in order, and the number of each; a part is less than half of the one before it."""

    def __len__(self) -> int:
        return self._number

    def encode(self, values: Array) -> Array:
        """The number of each."""
        found = self._find(values)
        unknown = found < 0
        if unknown.any():
            self._add(values[unknown])
            found = self._find(values)
        return found

    def _find(self, values: Array) -> Array:
        found = np.full(len(values), -1, np.int64)
        for known, numbers in self._parts:
            at = np.minimum(np.searchsorted(known, values), len(known) - 1)
            found = np.where(known[at] == values, numbers[at], found)
        return found

    def _add(self, values: Array) -> None:
        new, first = np.unique(values, return_index=True)
        numbers = np.empty(len(new), np.int64)
        numbers[np.argsort(first)] = np.arange(self._number, self._number + len(new))
        self._number += len(new)
        self._parts.append((new, numbers))
        while len(self._parts) > 1 and 2 * len(self._parts[-1][0]) >= len(self._parts[-2][0]):
            (one, its), (other, others) = self._parts[-2:]
            known = np.concatenate([one, other])
            order = np.argsort(known, kind="stable")
            self._parts[-2:] = [(known[order], np.concatenate([its, others])[order])]


class _ColumnCodes:
    """One column of a key as numbers; null is 0."""

    def __init__(self, kind: Type) -> None:
        self._is_real = kind is Type.REAL
        self._codes = Codes()
        self._beyond: dict[int, int] = {}  # integers of more than 64 bits

    def encode(self, vector: Vector) -> Array:
        """The number of each value."""
        if vector.words is not None:  # text has its own
            return vector.values + 1 if vector.valid is None else np.where(vector.valid, vector.values + 1, 0)
        if vector.valid is None:
            return self._encode(vector.values)
        found = np.zeros(len(vector.values), np.int64)
        found[vector.valid] = self._encode(vector.values[vector.valid])
        return found

    def _encode(self, values: Array) -> Array:
        if self._is_real:
            return 2 * self._codes.encode((values.astype(np.float64) + 0.0).view(np.int64)) + 1
        if values.dtype != object:
            return 2 * self._codes.encode(values.astype(np.int64)) + 1
        fits = np.array([FIRST_TICK <= value <= LAST_TICK for value in values.tolist()], bool)
        found = np.zeros(len(values), np.int64)
        found[fits] = 2 * self._codes.encode(values[fits].astype(np.int64)) + 1
        beyond = self._beyond
        found[~fits] = [2 * beyond.setdefault(value, len(beyond)) + 2 for value in values[~fits].tolist()]
        return found


class Keys:
    """The keys of all groups."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._codes = [_ColumnCodes(kind) for kind in types]
        self._pairs = [Codes() for _ in types[2:]]
        self._places = Codes()
        self._columns = [_KeyColumn() for _ in types]

    def __len__(self) -> int:
        return len(self._places)

    def places(self, vectors: Sequence[Vector]) -> tuple[Array, Array]:
        """The place of each key, and where the keys stand that are new, in the order of their places."""
        before = len(self)
        found = self._places.encode(self._paired(vectors))
        places, first = np.unique(np.where(found < before, -1, found), return_index=True)
        new = first[places >= 0]
        if len(new):
            for column, vector in zip(self._columns, vectors, strict=True):
                column.append(vector.at(new))
        return found, new

    def _paired(self, vectors: Sequence[Vector]) -> Array:
        """One integer for each key."""
        first, *others = [codes.encode(vector) for codes, vector in zip(self._codes, vectors, strict=True)]
        for at, codes in enumerate(others):
            held = first if at == 0 else self._pairs[at - 1].encode(first)
            first = held << BITS | codes
        return first

    def at(self, places: Array) -> tuple[Vector, ...]:
        """The keys at some places, column by column."""
        return tuple(column.at(places) for column in self._columns)


class _KeyColumn:
    """One column of the keys of all groups, with room for more."""

    def __init__(self) -> None:
        self._number = 0
        self._values: Array = np.zeros(0, np.int64)
        self._there = np.zeros(0, bool)
        self._words: Words | None = None

    def append(self, vector: Vector) -> None:
        """New groups."""
        values, end = vector.values, self._number + len(vector.values)
        if self._values.dtype != values.dtype:  # integers beyond 64 bits are Python's own
            self._values = self._values.astype(object if self._number else values.dtype)
        if end > len(self._values):
            room = max(end, 2 * len(self._values))
            self._values, self._there = grown(self._values, room), grown(self._there, room)
        self._values[self._number : end], self._there[self._number : end] = values, vector.there()
        self._number, self._words = end, vector.words

    def at(self, places: Array) -> Vector:
        """The values of some groups."""
        there = self._there[places]
        return Vector(self._values[places], None if there.all() else there, self._words)
