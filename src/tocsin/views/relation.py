"""Operators as steps on increments (relational subscriptions §3.2).

An increment is a row in its new state: its cells, and whether it is there (finally, or so far). A step takes the rows
that changed in its inputs and the ticks that became known, and gives the rows that change in its output. A step that
is given what it has already counted changes nothing, so increments may come twice.

Rows that may still appear are told of as not there so far, so that who counts them knows how many may come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

from tocsin.views.expression import Column, Evaluator, Expression, evaluator
from tocsin.views.plan import Join, Merge, Project, Select
from tocsin.views.ticks import Range, Ticks
from tocsin.views.value import SoFar, Value, both, is_final, now_of, truth

Key: TypeAlias = tuple[Any, ...]
Cells: TypeAlias = tuple[Any, ...]
Knowledge: TypeAlias = Mapping[str, Ticks]
Advance: TypeAlias = Mapping[str, Sequence[Range]]


class Row(NamedTuple):
    """A row of a relation in one of its states."""

    key: Key
    cells: Cells
    present: Value  # True and False are final

    def is_final(self) -> bool:
        """Whether neither its cells nor its being there can change."""
        return self.present is False or (self.present is True and all(map(is_final, self.cells)))

    def is_shown(self) -> bool:
        """Whether it is there as far as is known."""
        return now_of(self.present) is True

    def absent(self, final: bool) -> Row:
        """The row once it has left."""
        return Row(self.key, self.cells, False if final else SoFar(False))


class Step(Protocol):
    """An operator with what it remembers; `columnar` if it takes batches of columns, too."""

    columnar: bool

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """Takes the changed rows of each input and the newly known ticks of each source; gives its changed rows."""

    def is_quiet(self) -> bool:
        """Whether rows that it has not told of can come from new ticks only."""


class Origin:
    """A source relation: its rows are made by the engine."""

    columnar = False

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """The events."""
        return list(increments[0])

    def is_quiet(self) -> bool:
        """Always."""
        return True


class Stateless:
    """Rows come when those of its inputs do."""

    columnar = False

    def __init__(self, inputs: Sequence[Step]) -> None:
        self._inputs = inputs

    def is_quiet(self) -> bool:
        """If its inputs are."""
        return all(step.is_quiet() for step in self._inputs)


class SelectStep(Stateless):
    """Rows for which the condition is finally false are not passed on, unless they were."""

    def __init__(self, node: Select, inputs: Sequence[Step]) -> None:
        super().__init__(inputs)
        self._condition = evaluator(node.condition)
        self._history = node.history

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """Each row on its own."""
        condition = self._condition
        if self._history:
            return [row for row in increments[0] if condition(row.cells) is True]
        return [Row(r.key, r.cells, both(r.present, truth(condition(r.cells)))) for r in increments[0]]


class ProjectStep(Stateless):
    """Project and extend."""

    def __init__(self, node: Project, inputs: Sequence[Step]) -> None:
        super().__init__(inputs)
        self._outputs = [evaluator(expression) for _, expression in node.outputs]
        places = [expression.index for _, expression in node.outputs if isinstance(expression, Column)]
        picks = len(places) == len(node.outputs) > 1
        self._pick: Callable[[Cells], Cells] = itemgetter(*places) if picks else self._computed

    def _computed(self, cells: Cells) -> Cells:
        return tuple([output(cells) for output in self._outputs])

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """Each row on its own; the key stays."""
        pick = self._pick
        return [Row(key, pick(cells), present) for key, cells, present in increments[0]]


class MergeStep(Stateless):
    """Passes rows of every input through, labelled."""

    def __init__(self, node: Merge, inputs: Sequence[Step]) -> None:
        super().__init__(inputs)
        self._visible = node.visible
        self._moves = [(label, node.moved(part, label)) for part, label in zip(node.inputs, node.labels, strict=True)]

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """All inputs, one after the other."""
        return [
            self._labelled(row, label, places)
            for rows, (label, places) in zip(increments, self._moves, strict=True)
            for row in rows
        ]

    def _labelled(self, row: Row, label: str, places: tuple[int | None, ...]) -> Row:
        key = (label, *[None if at is None else row.cells[at] for at in places])
        return Row(key, (*row.cells[: self._visible], *key), row.present)


def key_function(expressions: Sequence[Expression]) -> Callable[[Cells], tuple[Key, bool]]:
    """What several expressions come to now, and whether that is final."""
    parts: list[Evaluator] = [evaluator(expression) for expression in expressions]

    def key(cells: Cells) -> tuple[Key, bool]:
        values = [part(cells) for part in parts]
        return tuple(map(now_of, values)), all(map(is_final, values))

    return key


class Side:
    """One input of a join: its rows, found by what they are joined on."""

    def __init__(self, on: Sequence[Expression]) -> None:
        self.key_of = key_function(on)
        self.buckets: dict[Key, dict[Key, Row]] = {}
        self.place: dict[Key, Key] = {}
        self.unsettled: set[Key] = set()

    def remove(self, key: Key) -> Key | None:
        """Forgets a row; says where it was."""
        self.unsettled.discard(key)
        at = self.place.pop(key, None)
        if at is not None:
            bucket = self.buckets[at]
            del bucket[key]
            if not bucket:
                del self.buckets[at]
        return at

    def held(self, key: Key) -> Row | None:
        """A row as it was last seen."""
        at = self.place.get(key)
        return None if at is None else self.buckets[at][key]

    def put(self, row: Row, at: Key, settled: bool) -> None:
        """Remembers a row."""
        self.place[row.key] = at
        self.buckets.setdefault(at, {})[row.key] = row
        if not settled:
            self.unsettled.add(row.key)


class JoinStep(Stateless):
    """Pairs of rows that are equal on some expressions; null equals nothing.

    Where these expressions evolve, a pair may part and meet again: until it is decided it is a ghost, not there so far.
    """

    def __init__(self, node: Join, inputs: Sequence[Step]) -> None:
        super().__init__(inputs)
        self._left, self._right = Side(node.left_on), Side(node.right_on)
        self._ghosts: dict[Key, dict[Key, Row]] = {}  # for each row the pairs that it has left

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """First the left rows meet the old right ones, then the right rows meet all left ones."""
        changed: dict[Key, Row] = {}
        for row in increments[0]:
            self._take(row, self._left, self._right, changed)
        for row in increments[1]:
            self._take(row, self._right, self._left, changed)
        return list(changed.values())

    def is_quiet(self) -> bool:
        """Not while a row may find other partners."""
        return super().is_quiet() and not self._left.unsettled and not self._right.unsettled

    def _take(self, row: Row, side: Side, other: Side, changed: dict[Key, Row]) -> None:
        if side.held(row.key) == row:
            return
        at, settled = side.key_of(row.cells)
        before = side.remove(row.key)
        if before is not None and (before != at or row.present is False):
            for partner in other.buckets.get(before, {}).values():
                self._part(row, partner, side, changed)
        if row.present is not False:
            if None not in at:
                side.put(row, at, settled)
            elif not settled:
                side.unsettled.add(row.key)
            for partner in other.buckets.get(at, {}).values() if None not in at else ():
                self._meet(row, partner, side, settled and partner.key not in other.unsettled, changed)
        self._decide(row, side, other, changed)

    def _meet(self, row: Row, partner: Row, side: Side, sure: bool, changed: dict[Key, Row]) -> None:
        pair = self._pair(row, partner, side)
        changed[pair.key] = pair if sure else pair._replace(present=both(pair.present, SoFar(True)))
        for key in (self._ghost_key(row, side), self._ghost_key(partner, self._other(side))):
            if key in self._ghosts:
                self._ghosts[key].pop(pair.key, None)

    def _part(self, row: Row, partner: Row, side: Side, changed: dict[Key, Row]) -> None:
        """The pair is no longer equal; it may be again."""
        pair = self._pair(row, partner, side)
        changed[pair.key] = pair.absent(final=False)
        for key in (self._ghost_key(row, side), self._ghost_key(partner, self._other(side))):
            self._ghosts.setdefault(key, {})[pair.key] = pair

    def _decide(self, row: Row, side: Side, other: Side, changed: dict[Key, Row]) -> None:
        """Pairs that parted are gone for good once neither row can move, or one has left."""
        own = self._ghost_key(row, side)
        if own not in self._ghosts or row.key in side.unsettled:
            return
        length = len(row.key)
        for key, pair in list(self._ghosts[own].items()):
            partner = key[length:] if side is self._left else key[:-length] if length else key
            if row.present is False or partner not in other.unsettled:
                changed[key] = pair.absent(final=True)
                del self._ghosts[own][key]
                self._ghosts.get((other is self._left, partner), {}).pop(key, None)
        if not self._ghosts[own]:
            del self._ghosts[own]

    def _ghost_key(self, row: Row, side: Side) -> Key:
        return (side is self._left, row.key)

    def _other(self, side: Side) -> Side:
        return self._right if side is self._left else self._left

    def _pair(self, row: Row, partner: Row, side: Side) -> Row:
        left, right = (row, partner) if side is self._left else (partner, row)
        return Row(left.key + right.key, left.cells + right.cells, both(left.present, right.present))
