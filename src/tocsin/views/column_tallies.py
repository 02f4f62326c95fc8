"""One aggregate of all groups of a grouping, as arrays: what `aggregate` tallies for one group, done for many.

Each remembers which groups' values came out differently since they were told last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tocsin.views.columns import Array, Columns, Maker, Vector, Words
from tocsin.views.evolving import NO_END, Evolving, Form

SAFE_SUM = 1 << 62
ROOM = 1024  # groups at first


def grown(array: Array, room: int) -> Array:
    """The array with room for more."""
    return np.concatenate([array, np.zeros(room - len(array), array.dtype)])


class Runs:
    """A batch sorted by group, so that each group is one run: where it starts, and the group's place."""

    def __init__(self, order: Array, starts: Array, places: Array) -> None:
        self.order, self.starts, self.places = order, starts, places

    @classmethod
    def of(cls, codes: Array) -> Runs:
        """Runs of equal codes, numbered from 0; a run keeps the order of the batch."""
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        return cls(order, starts, np.arange(len(starts)))

    def ends(self) -> Array:
        """The last event of each run."""
        return np.append(self.starts[1:], len(self.order)) - 1

    def only(self, chosen: Array) -> Runs:
        """The runs of some of the events; places in the order of those events."""
        lengths = np.diff(np.append(self.starts, len(self.order)))
        kept = chosen[self.order]
        whose = np.repeat(np.arange(len(self.starts)), lengths)[kept]
        starts = np.flatnonzero(np.concatenate([[True], whose[1:] != whose[:-1]])) if len(whose) else whose
        renumbered = np.cumsum(chosen) - 1
        return Runs(renumbered[self.order[kept]], starts, self.places[whose[starts]])


class Tallies:
    """One aggregate of all groups."""

    form: Form

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._seen = np.zeros(0, bool)
        self._values: Array = np.zeros(0, np.int64)
        self._news = np.zeros(0, bool)
        self._words: Words | None = None

    def grow(self, size: int) -> None:
        """Makes room for new groups."""
        if size > len(self._seen):
            room = max(size, 2 * len(self._seen), ROOM)
            self._seen, self._news = grown(self._seen, room), grown(self._news, room)
            self._values = grown(self._values, room)

    def add(self, columns: Columns, runs: Runs) -> None:
        """Counts a batch whose events stand in runs, one for each group."""
        self.put(self._maker(columns), columns.ticks, runs)

    def merge(self, part: Vector, ticks: Array, places: Array) -> None:
        """Adds what was tallied elsewhere, once for each group."""
        every = np.arange(len(places))
        self.put(part, ticks, Runs(every, every, places))

    def put(self, vector: Vector, ticks: Array, runs: Runs) -> None:
        """The same, with the values in place."""
        if vector.valid is not None and not vector.valid.all():
            runs = runs.only(vector.valid)
            vector, ticks = vector.at(vector.valid), ticks[vector.valid]
        if not len(runs.order):
            return
        self._words = vector.words
        self._news[runs.places] |= self._reduce(vector.values[runs.order], ticks[runs.order], runs)
        self._seen[runs.places] = True

    def _adopt(self, values: Array) -> None:
        """Takes on the type of what comes: reals, or integers beyond 64 bits."""
        if self._values.dtype not in (values.dtype, np.dtype(object)):
            self._values = self._values.astype(values.dtype)

    def _reduce(self, values: Array, ticks: Array, runs: Runs) -> Array:
        """Adds sorted values; says which of the groups look different."""
        raise NotImplementedError

    def told(self, places: Array, mores: Array, ended: Array) -> Evolving:
        """What is certain of the groups at these places: how many events may still come to each, and whether that was
        the last of it."""
        final = mores == 0
        beside, moved = self._beside(places, mores)
        news = self._news[places] | ended | moved
        self._news[places] = False
        seen = self._seen[places]
        vector = Vector(self._values[places], None if seen.all() else seen, self._words)
        return Evolving(self.form, vector, final, news, beside)

    def whole(self, places: Array) -> tuple[Vector, Array | None]:
        """Everything that was added to some groups, as one part; and the tick of each, if that is kept."""
        seen = self._seen[places]
        return Vector(self._values[places], None if seen.all() else seen, self._words), None

    def _beside(self, places: Array, mores: Array) -> tuple[Array | None, Array]:
        return None, np.zeros(len(places), bool)


class Counts(Tallies):
    """Bounded by the ticks that are not known yet."""

    form = Form.BETWEEN

    def __init__(self, maker: Maker) -> None:
        super().__init__(maker)
        self._bounds = np.zeros(0, np.int64)

    def grow(self, size: int) -> None:
        """Makes room for new groups."""
        super().grow(size)
        self._bounds = grown(self._bounds, len(self._seen))

    def merge(self, part: Vector, ticks: Array, places: Array) -> None:
        """A part is a count already."""
        self._values[places] += part.values
        self._seen[places] = self._news[places] = True

    def whole(self, places: Array) -> tuple[Vector, Array | None]:
        """None is 0."""
        return Vector(self._values[places]), None

    def _reduce(self, values: Array, ticks: Array, runs: Runs) -> Array:
        self._values[runs.places] += np.diff(np.append(runs.starts, len(values)))
        return np.ones(len(runs.places), bool)

    def _beside(self, places: Array, mores: Array) -> tuple[Array, Array]:
        bounds = np.where(mores == NO_END, NO_END, self._values[places] + mores)
        moved = bounds != self._bounds[places]
        self._bounds[places] = bounds
        return bounds, moved

    def told(self, places: Array, mores: Array, ended: Array) -> Evolving:
        """A count of nothing is 0."""
        found = super().told(places, mores, ended)
        return Evolving(found.form, Vector(found.vector.values), found.final, found.news, found.beside)


class Sums(Tallies):
    """Of integers, whatever their size."""

    form = Form.SO_FAR

    def _reduce(self, values: Array, ticks: Array, runs: Runs) -> Array:
        largest = max(abs(int(values.min())), abs(int(values.max())))
        held = max(abs(int(self._values.min())), abs(int(self._values.max()))) if len(self._values) else 0
        if largest * len(values) + held >= SAFE_SUM:
            values = values.astype(object)
        self._adopt(values)
        added = np.add.reduceat(values, runs.starts)
        self._values[runs.places] += added
        moved: Array = added != 0
        return moved | ~self._seen[runs.places]


class Extremes(Tallies):
    """The largest value, or the smallest."""

    def __init__(self, maker: Maker, form: Form) -> None:
        super().__init__(maker)
        self.form = form
        self._pick: Any = np.maximum if form is Form.AT_LEAST else np.minimum

    def _reduce(self, values: Array, ticks: Array, runs: Runs) -> Array:
        self._adopt(values)
        best = self._pick.reduceat(values, runs.starts)
        before = self._values[runs.places]
        after = np.where(self._seen[runs.places], self._pick(before, best), best)
        self._values[runs.places] = after
        moved: Array = after != before
        return moved | ~self._seen[runs.places]


class Latests(Tallies):
    """The value at the last tick."""

    form = Form.LATEST

    def __init__(self, maker: Maker) -> None:
        super().__init__(maker)
        self._ticks = np.zeros(0, np.int64)

    def grow(self, size: int) -> None:
        """Makes room for new groups."""
        super().grow(size)
        self._ticks = grown(self._ticks, len(self._seen))

    def _reduce(self, values: Array, ticks: Array, runs: Runs) -> Array:
        self._adopt(values)
        last = runs.ends()  # a batch is in tick order, and so is what comes after it
        self._values[runs.places], self._ticks[runs.places] = values[last], ticks[last]
        return np.ones(len(runs.places), bool)

    def whole(self, places: Array) -> tuple[Vector, Array | None]:
        """With their ticks."""
        return super().whole(places)[0], self._ticks[places]

    def _beside(self, places: Array, mores: Array) -> tuple[Array, Array]:
        return self._ticks[places], np.zeros(len(places), bool)


def tallies(function: str, maker: Maker) -> Tallies:
    """The tallies of an aggregate function."""
    if function in ("max", "min"):
        return Extremes(maker, Form.AT_LEAST if function == "max" else Form.AT_MOST)
    made: dict[str, Callable[[Maker], Tallies]] = {"count": Counts, "sum": Sums, "latest": Latests}
    return made[function](maker)
