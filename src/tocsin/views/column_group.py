"""GROUP BY over batches of columns: what `group` does row by row, done array by array.

Groups have places in arrays; a batch is sorted by place and reduced, then only the groups that it touched become rows.
`group.GroupStep` is the definition: both must give the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tocsin.views.columns import Array, Columns, Encoder, Maker, Vector, vectorised
from tocsin.views.expression import Kind, Type
from tocsin.views.plan import Aggregate, Group, Node, Project, Relation, Select
from tocsin.views.relation import Advance, Key, Knowledge, ProjectStep, Row, SelectStep, Step
from tocsin.views.ticks import Ticks
from tocsin.views.value import UNKNOWN, Latest, SoFar, Value, interval
from tocsin.views.window import Windows

SAFE_SUM = 1 << 62
Thing = TypeVar("Thing")


class _Runs:
    """A batch sorted by group, so that each group is one run."""

    def __init__(self, whose: Array) -> None:
        self.whose = whose
        self.order = np.argsort(whose, kind="stable")
        places = whose[self.order]
        changes = places[1:] != places[:-1]
        self.starts = np.flatnonzero(np.concatenate([[True], changes])) if len(whose) else self.order
        self.places = places[self.starts]


class _Tallies:
    """One aggregate of all groups."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._seen = np.zeros(0, bool)
        self._values: Array = np.zeros(0, np.int64)

    def grow(self, size: int) -> None:
        """Makes room for new groups."""
        if size > len(self._seen):
            room = max(size, 2 * len(self._seen), 1024)
            self._seen = np.concatenate([self._seen, np.zeros(room - len(self._seen), bool)])
            self._values = np.concatenate([self._values, np.zeros(room - len(self._values), self._values.dtype)])

    def add(self, columns: Columns, runs: _Runs) -> None:
        """Counts a batch whose events stand in runs, one for each group."""
        vector, ticks = self._maker(columns), columns.ticks
        if vector.valid is not None and not vector.valid.all():
            vector, ticks, runs = vector.at(vector.valid), ticks[vector.valid], _Runs(runs.whose[vector.valid])
        if not len(runs.order):
            return
        self._reduce(vector.values[runs.order], ticks[runs.order], runs.places, runs.starts, vector)
        self._seen[runs.places] = True

    def _adopt(self, values: Array) -> None:
        """Takes on the type of what comes: reals, or integers beyond 64 bits."""
        if self._values.dtype not in (values.dtype, np.dtype(object)):
            self._values = self._values.astype(values.dtype)

    def _reduce(self, values: Array, ticks: Array, places: Array, starts: Array, vector: Vector) -> None:
        raise NotImplementedError

    def results(self, places: Array, mores: Sequence[int | None]) -> list[Value]:
        """What is certain of the groups at these places."""
        raise NotImplementedError


class _Counts(_Tallies):
    def _reduce(self, values: Array, ticks: Array, places: Array, starts: Array, vector: Vector) -> None:
        self._values[places] += np.diff(np.append(starts, len(values)))

    def results(self, places: Array, mores: Sequence[int | None]) -> list[Value]:
        counts = self._values[places].tolist()
        return [interval(n, n, None if more is None else n + more) for n, more in zip(counts, mores, strict=True)]


class _Sums(_Tallies):
    def _reduce(self, values: Array, ticks: Array, places: Array, starts: Array, vector: Vector) -> None:
        largest = max(abs(int(values.min())), abs(int(values.max())))
        held = max((abs(int(self._values.min())), abs(int(self._values.max())))) if len(self._values) else 0
        if largest * len(values) + held >= SAFE_SUM:
            values = values.astype(object)
        self._adopt(values)
        self._values[places] += np.add.reduceat(values, starts)

    def results(self, places: Array, mores: Sequence[int | None]) -> list[Value]:
        found = zip(self._values[places].tolist(), self._seen[places].tolist(), mores, strict=True)
        return [_so_far(value if seen else None, more) for value, seen, more in found]


def _so_far(value: Any, more: int | None) -> Value:
    if more == 0:
        return value  # type: ignore[no-any-return]
    return UNKNOWN if value is None else SoFar(value)


class _Extremes(_Tallies):
    def __init__(self, maker: Maker, sign: int) -> None:
        super().__init__(maker)
        self._sign = sign
        self._pick: Any = np.maximum if sign > 0 else np.minimum

    def _reduce(self, values: Array, ticks: Array, places: Array, starts: Array, vector: Vector) -> None:
        self._adopt(values)
        best = self._pick.reduceat(values, starts)
        before = self._values[places]
        self._values[places] = np.where(self._seen[places], self._pick(before, best), best)

    def results(self, places: Array, mores: Sequence[int | None]) -> list[Value]:
        values, seen = self._values[places].tolist(), self._seen[places]
        if seen.all() and 0 not in mores:  # nothing is final: the commonest case needs no look at each
            return [SoFar(one, one) for one in values] if self._sign > 0 else [SoFar(one, None, one) for one in values]
        return [self._result(*one) for one in zip(values, seen.tolist(), mores, strict=True)]

    def _result(self, value: Any, seen: bool, more: int | None) -> Value:
        if more == 0:
            return value if seen else None
        if not seen:
            return UNKNOWN
        return SoFar(value, value) if self._sign > 0 else SoFar(value, None, value)


class _Latests(_Tallies):
    def __init__(self, maker: Maker) -> None:
        super().__init__(maker)
        self._ticks = np.zeros(0, np.int64)
        self._words: list[str] | None = None

    def grow(self, size: int) -> None:
        super().grow(size)
        self._ticks = np.concatenate([self._ticks, np.zeros(len(self._seen) - len(self._ticks), np.int64)])

    def _reduce(self, values: Array, ticks: Array, places: Array, starts: Array, vector: Vector) -> None:
        self._adopt(values)
        self._words = None if vector.words is None else vector.words.words
        last = np.append(starts[1:], len(values)) - 1  # a batch is in tick order, and so is what comes after it
        self._values[places], self._ticks[places] = values[last], ticks[last]

    def results(self, places: Array, mores: Sequence[int | None]) -> list[Value]:
        values = self._values[places].tolist()
        if self._words is not None:
            values = [self._words[code] for code in values]
        found = zip(values, self._ticks[places].tolist(), self._seen[places].tolist(), mores, strict=True)
        return [self._result(value, tick, seen, more) for value, tick, seen, more in found]

    def _result(self, value: Any, tick: int, seen: bool, more: int | None) -> Value:
        if more == 0:
            return value if seen else None
        return Latest(value, tick) if seen else UNKNOWN


class ColumnSelectStep(SelectStep):
    """Selection by an array of truths."""

    columnar = True

    def __init__(self, node: Select, inputs: Sequence[Step]) -> None:
        super().__init__(node, inputs)
        self._maker = _must(vectorised(node.condition))

    def step(self, increments: Sequence[Any], advance: Advance) -> Any:
        """The events for which the condition is true, not null."""
        columns = increments[0]
        if not isinstance(columns, Columns):
            return super().step([columns], advance)
        truths = self._maker(columns)
        return columns.at(truths.values & truths.there())


class ColumnProjectStep(ProjectStep):
    """Project and extend, array by array."""

    columnar = True

    def __init__(self, node: Project, inputs: Sequence[Step]) -> None:
        super().__init__(node, inputs)
        self._makers = [_must(vectorised(expression)) for _, expression in node.outputs]

    def step(self, increments: Sequence[Any], advance: Advance) -> Any:
        """All outputs of all events."""
        columns = increments[0]
        if not isinstance(columns, Columns):
            return super().step([columns], advance)
        return Columns(columns.ticks, tuple(maker(columns) for maker in self._makers))


class ColumnGroupStep:
    """Groups of one source's events."""

    columnar = True

    def __init__(self, node: Group, source: Relation, knowledge: Knowledge) -> None:
        self._source, self._encoder = source.name, Encoder(node.input.columns)
        self._keys = [_must(vectorised(expression)) for _, expression in node.keys]
        self._tallies = [_tallies(part) for part in node.aggregates]
        self._counts = any(a.function == "count" for a in node.aggregates)
        self._windows = Windows(node.origins, knowledge, watched=self._counts)
        self._covered = Ticks()
        self._place: dict[Key, int] = {}
        self._key_at: list[Key] = []

    def is_quiet(self) -> bool:
        """Events come from new ticks only."""
        return True

    def step(self, increments: Sequence[Any], advance: Advance) -> list[Row]:
        """Tallies a batch, then tells of the groups that changed or whose ticks became known."""
        given = increments[0]
        columns = given if isinstance(given, Columns) else self._encoder.rows(given)
        columns = self._uncounted(columns)
        touched = self._add(columns) if len(columns) else np.zeros(0, np.int64)
        for first, last in advance.get(self._source, ()):
            self._covered.add(first, last)
        known = [self._place[key] for key in self._windows.touched(advance)]
        both = np.unique(np.concatenate([touched, np.array(known, np.int64)])) if known else touched
        return self._rows(both)

    def _uncounted(self, columns: Columns) -> Columns:
        last = self._covered.last()
        if not len(columns) or last is None or columns.ticks[0] > last:
            return columns
        return columns.at(np.array([tick not in self._covered for tick in columns.ticks.tolist()], bool))

    def _add(self, columns: Columns) -> Array:
        runs = _Runs(self._places(columns))
        for tallies in self._tallies:
            tallies.grow(len(self._key_at))
            tallies.add(columns, runs)
        return runs.places

    def _places(self, columns: Columns) -> Array:
        """The place of each event's group; new groups are given one."""
        codes = np.zeros(len(columns), np.int64)
        for vector in [key(columns) for key in self._keys]:
            values = vector.values if vector.valid is None else _null_coded(vector)
            codes = _paired(codes, values)
        _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
        representatives = columns.at(firsts)
        keys = list(zip(*(key(representatives).scalars() for key in self._keys), strict=True))
        return np.array([self._placed(key) for key in keys], np.int64)[inverse.reshape(-1)]

    def _placed(self, key: Key) -> int:
        place = self._place.get(key)
        if place is None:
            place = self._place[key] = len(self._key_at)
            self._key_at.append(key)
            self._windows.register(key, key)
        return place

    def _rows(self, places: Array) -> list[Row]:
        keys = [self._key_at[place] for place in places.tolist()]
        mores = [self._more(key) for key in keys]
        results = [tallies.results(places, mores) for tallies in self._tallies]
        cells = zip(*results, strict=True) if results else [()] * len(keys)
        return [Row(key, key + values, True) for key, values in zip(keys, cells, strict=True)]

    def _more(self, key: Key) -> int | None:
        """How many events may still come to a group; only counts need to know it exactly."""
        if self._counts:
            return self._windows.unknown(key)
        return None if self._windows.is_open(key) else 0


def _null_coded(vector: Vector) -> Array:
    """A code for each value, and one of its own for null."""
    _, inverse = np.unique(vector.values, return_inverse=True)
    return np.where(vector.there(), inverse.reshape(-1) + 1, 0)


def _paired(codes: Array, values: Array) -> Array:
    """One code for each pair of a code and a value."""
    if values.dtype != np.int64 or len(values) == 0 or int(values.max()) - int(values.min()) >= 1 << 31:
        _, values = np.unique(values, return_inverse=True)
        values = values.reshape(-1)
    low = values.min()
    span = int(values.max()) - int(low) + 1
    if int(codes.max()) >= (1 << 62) // span:
        _, codes = np.unique(codes, return_inverse=True)
    made: Array = codes * span + (values - low)
    return made


def _must(thing: Thing | None) -> Thing:
    assert thing is not None
    return thing


def _tallies(node: Aggregate) -> _Tallies:
    maker = _must(vectorised(node.arguments[0]))
    if node.function in ("max", "min"):
        return _Extremes(maker, 1 if node.function == "max" else -1)
    made: dict[str, Callable[[Maker], _Tallies]] = {"count": _Counts, "sum": _Sums, "latest": _Latests}
    return made[node.function](maker)


def source_of(node: Node) -> Relation | None:
    """The one relation that a chain of selections and projections reads."""
    while isinstance(node, Select | Project):
        node = node.input
    return node if isinstance(node, Relation) else None


def column_step(node: Node, inputs: Sequence[Step], knowledge: Knowledge) -> Step | None:
    """The operator on arrays, if a node has one."""
    source = source_of(node) if isinstance(node, Select | Project) else None
    if isinstance(node, Select) and source is not None and vectorised(node.condition) is not None:
        return ColumnSelectStep(node, inputs)
    if isinstance(node, Project) and source is not None and all(vectorised(e) is not None for _, e in node.outputs):
        return ColumnProjectStep(node, inputs)
    if isinstance(node, Group) and can_group(node):
        return ColumnGroupStep(node, _must(source_of(node.input)), knowledge)
    return None


def can_group(node: Group) -> bool:
    """Whether there is an array form of a grouping; the others are done row by row."""
    source = source_of(node.input)
    if source is None or node.whole or not node.keys:
        return False
    tick = node.input.columns[node.input.key[0]]
    for _, expression in node.keys:
        if expression.kind is not Kind.FINAL or vectorised(expression) is None or expression.type is Type.NULL:
            return False
    return all(_can_tally(part, tick) for part in node.aggregates)


def _can_tally(node: Aggregate, tick: Any) -> bool:
    argument = node.arguments[0]
    if vectorised(argument) is None or argument.type is Type.NULL or node.function == "collect":
        return False
    if node.function == "latest":
        return bool(node.order == tick)
    return node.function != "sum" or argument.type is Type.INTEGER
