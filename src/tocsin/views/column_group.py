"""GROUP BY over batches of columns: what `group` does row by row, done array by array.

Groups have places in arrays; a batch is sorted by group and reduced, and the groups that it touched are told of by
array, too. `group.GroupStep` is the definition: both must give the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from tocsin.views.column_keys import Keys
from tocsin.views.column_tallies import Runs, grown, tallies
from tocsin.views.columns import Array, Columns, Encoder, Vector, vectorised
from tocsin.views.evolving import NO_END, Groups
from tocsin.views.expression import Column, Kind, Type, columns_of
from tocsin.views.plan import Aggregate, Group, Node, Project, Relation, Select
from tocsin.views.relation import Advance, Key, Knowledge, ProjectStep, SelectStep, Step
from tocsin.views.ticks import Ticks
from tocsin.views.window import Origin, Windows

Thing = TypeVar("Thing")


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


class ColumnPickStep(ProjectStep):
    """Some of the columns of groups."""

    columnar = True

    def __init__(self, node: Project, groups: GroupsStep) -> None:
        super().__init__(node, [groups])
        self._groups = groups
        self._places = [expression.index for _, expression in node.outputs if isinstance(expression, Column)]

    def step(self, increments: Sequence[Any], advance: Advance) -> Any:
        """The same columns of all of them."""
        groups = increments[0]
        return groups.pick(self._places) if isinstance(groups, Groups) else super().step(increments, advance)

    def everything(self) -> Groups:
        """Every group, as it was told last."""
        return self._groups.everything().pick(self._places)


class _Spans:
    """Which ticks groups wait for. Groups of one hour share theirs: they are looked at together."""

    def __init__(self, origins: Sequence[Origin], knowledge: Knowledge, counts: bool) -> None:
        self._counts = counts
        self._windows = Windows(origins, knowledge, watched=counts)
        limits = [limit for origin in origins for limit in origin.limits]
        self._reads = sorted({column.index for limit in limits for column in columns_of(limit.reference)})
        self._spans: dict[Key, int] = {}
        self._members: list[list[Array]] = []
        self._span_at: Array = np.zeros(0, np.int64)

    def register(self, first: int, keys: Sequence[Vector]) -> None:
        """Lets new groups, whose places begin at the first, wait for their ticks."""
        number = len(keys[0].values)
        runs = Runs.of(_coded([keys[at] for at in self._reads], number))
        one_of_each = list(zip(*(vector.at(runs.order[runs.starts]).scalars() for vector in keys), strict=True))
        if first + number > len(self._span_at):
            self._span_at = grown(self._span_at, max(first + number, 2 * len(self._span_at)))
        for key, members in zip(one_of_each, np.split(runs.order + first, runs.starts[1:]), strict=True):
            part = tuple([key[at] for at in self._reads])
            span = self._spans.get(part)
            if span is None:
                span = self._spans[part] = len(self._members)
                self._members.append([])
                self._windows.register((span,), key)
            self._members[span].append(members)
            self._span_at[members] = span

    def touched(self, advance: Advance) -> Array:
        """The groups that new knowledge may complete or, where they count, bound more tightly."""
        found = [members for (span,) in self._windows.touched(advance) for members in self._members[span]]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def mores(self, places: Array) -> Array:
        """How many events may still come to each group; only counts need to know it exactly."""
        spans, inverse = np.unique(self._span_at[places], return_inverse=True)
        return np.array([self._more((span,)) for span in spans.tolist()], np.int64)[inverse.reshape(-1)]

    def _more(self, span: Key) -> int:
        if not self._counts:
            return NO_END if self._windows.is_open(span) else 0
        more = self._windows.unknown(span)
        return NO_END if more is None else more


class ColumnGroupStep:
    """Groups of one source's events."""

    columnar = True

    def __init__(self, node: Group, source: Relation, knowledge: Knowledge) -> None:
        self._source, self._encoder = source.name, Encoder(node.input.columns)
        self._makers = [_must(vectorised(expression)) for _, expression in node.keys]
        self._tallies = [tallies(part.function, _must(vectorised(part.arguments[0]))) for part in node.aggregates]
        self._spans = _Spans(node.origins, knowledge, any(a.function == "count" for a in node.aggregates))
        self._covered = Ticks()
        self._keys = Keys([expression.type for _, expression in node.keys])
        self._is_final = np.zeros(0, bool)
        self._told = 0

    def is_quiet(self) -> bool:
        """Events come from new ticks only."""
        return True

    def step(self, increments: Sequence[Any], advance: Advance) -> Any:
        """Tallies a batch, then tells of the groups that changed or whose ticks became known."""
        given = increments[0]
        columns = given if isinstance(given, Columns) else self._encoder.rows(given)
        columns = self._uncounted(columns)
        touched = self._add(columns) if len(columns) else np.zeros(0, np.int64)
        for first, last in advance.get(self._source, ()):
            self._covered.add(first, last)
        known = self._spans.touched(advance)
        return self._groups(np.unique(np.concatenate([touched, known])) if len(known) else touched)

    def everything(self) -> Groups:
        """Every group, as it was told last."""
        return self._groups(np.arange(len(self._keys)))

    def _uncounted(self, columns: Columns) -> Columns:
        """The events that were not counted before, each once."""
        ticks, last = columns.ticks, self._covered.last()
        if len(ticks) > 1 and not (ticks[1:] > ticks[:-1]).all():
            columns = columns.at(np.unique(ticks, return_index=True)[1])
        if not len(columns) or last is None or columns.ticks[0] > last:
            return columns
        return columns.at(np.array([tick not in self._covered for tick in columns.ticks.tolist()], bool))

    def _add(self, columns: Columns) -> Array:
        vectors = [maker(columns) for maker in self._makers]
        runs = Runs.of(_coded(vectors, len(columns)))
        firsts = runs.order[runs.starts]
        runs.places = self._places([vector.at(firsts) for vector in vectors])
        for one in self._tallies:
            one.add(columns, runs)
        return runs.places

    def _places(self, keys: Sequence[Vector]) -> Array:
        """Where the groups of these keys stand; there is room for those that are new."""
        before = len(self._keys)
        places, new = self._keys.places(keys)
        if len(new):
            self._spans.register(before, [vector.at(new) for vector in keys])
        if len(self._keys) > len(self._is_final):
            self._is_final = grown(self._is_final, max(len(self._keys), 2 * len(self._is_final)))
        for one in self._tallies:
            one.grow(len(self._keys))
        return places

    def _groups(self, places: Array) -> Groups:
        mores = self._spans.mores(places)
        final = mores == 0
        ended = final & ~self._is_final[places]
        self._is_final[places] = final
        cells = tuple(one.told(places, mores, ended) for one in self._tallies)
        is_new, self._told = places >= self._told, len(self._keys)
        keys = self._keys.at(places)
        return Groups(keys, keys + cells, is_new)


GroupsStep = ColumnGroupStep | ColumnPickStep


def _coded(vectors: Sequence[Vector], number: int) -> Array:
    """A code for each of so many rows, equal where all values are."""
    codes = np.zeros(number, np.int64)
    for vector in vectors:
        codes = _paired(codes, vector.values if vector.valid is None else _null_coded(vector))
    return codes


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
    if isinstance(node, Project) and isinstance(inputs[0], ColumnGroupStep | ColumnPickStep) and picks(node):
        return ColumnPickStep(node, inputs[0])
    if isinstance(node, Group) and can_group(node):
        return ColumnGroupStep(node, _must(source_of(node.input)), knowledge)
    return None


def picks(node: Project) -> bool:
    """Whether it only chooses columns."""
    return all(isinstance(expression, Column) for _, expression in node.outputs)


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
