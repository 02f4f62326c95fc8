"""Best-k: the first k rows in an order that may itself evolve (relational subscriptions §2.2, §3.2)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from tocsin.views.aggregate import sort_key
from tocsin.views.expression import Evaluator, evaluator
from tocsin.views.plan import Best, Order
from tocsin.views.relation import Advance, Cells, Key, Knowledge, Row, Step
from tocsin.views.value import SoFar, Value, both, is_final, now_of
from tocsin.views.window import Windows, regroup


class _Falling:
    """Turns an order round."""

    __slots__ = ("part",)

    def __init__(self, part: Any) -> None:
        self.part = part

    def __lt__(self, other: _Falling) -> bool:
        return bool(other.part < self.part)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Falling) and bool(self.part == other.part)

    def __hash__(self) -> int:
        return hash((_Falling, self.part))


class Ranking:
    """Where rows stand: ORDER BY, then the key, so that no two rows stand in the same place."""

    def __init__(self, order: Sequence[Order]) -> None:
        self._parts: list[tuple[Evaluator, Order]] = [(evaluator(part.by), part) for part in order]

    def place(self, row: Row) -> tuple[Any, ...]:
        """Sorts before the place of every later row."""
        return (*(self._part(read(row.cells), part) for read, part in self._parts), sort_key(row.key))

    def is_final(self, cells: Cells) -> bool:
        """Whether the place can no longer change."""
        return all(is_final(read(cells)) for read, _ in self._parts)

    @staticmethod
    def _part(value: Value, order: Order) -> tuple[int, Any]:
        scalar = now_of(value)
        if scalar is None:
            return (0 if order.nulls_first else 2), 0
        return 1, _Falling(scalar) if order.descending else scalar


class BestStep:
    """Rows outside of the best k are told of as not there so far; once k final rows stand before them, as gone."""

    columnar = False

    def __init__(self, node: Best, inputs: Sequence[Step], knowledge: Knowledge) -> None:
        self._input, self._number = inputs[0], node.number
        self._ranking = Ranking(node.order)
        self._rows: dict[Key, tuple[Row, tuple[Any, ...], bool]] = {}
        self._line: list[tuple[tuple[Any, ...], Key]] = []  # the rows that are there so far, in order
        self._settled = 0
        self._told: dict[Key, Row] = {}
        self._windows = Windows(regroup(node.origins, ()), knowledge)
        self._windows.register((), ())

    def is_quiet(self) -> bool:
        """All rows are told of."""
        return self._input.is_quiet()

    def ranks(self) -> dict[Key, int]:
        """Where the best rows stand."""
        return {key: rank for rank, (_, key) in enumerate(self._line[: self._number])}

    def within(self, place: tuple[Any, ...]) -> int:
        """How many of the rows that are there so far stand no further than a place."""
        return bisect_right(self._line, place, key=itemgetter(0))

    def place(self, number: int) -> tuple[Any, ...] | None:
        """Where the last of so many rows stands; None if there are fewer so far."""
        return self._line[number - 1][0] if number <= len(self._line) else None

    def beaten(self) -> tuple[Any, ...] | None:
        """Beyond this place a row that cannot move will never be among the best."""
        settled = (place for place, key in self._line if self._rows[key][2])
        return next(islice(settled, self._number - 1, None), None)

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """Moves the changed rows to their places, then tells who entered, left, or is certain."""
        self._windows.touched(advance)
        before = {key for _, key in self._line[: self._number]}
        changed: dict[Key, Row] = {}
        for row in increments[0]:
            self._take(row, changed)
        self._drop_beaten(changed)
        top = {key for _, key in self._line[: self._number]}
        for key in (before ^ top) & self._rows.keys():
            changed.setdefault(key, self._rows[key][0])
        complete = self._windows.is_complete(()) and self._input.is_quiet()
        if complete:
            changed.update((key, self._rows[key][0]) for key in top)
        return self._tell(changed, top, complete)

    def _take(self, row: Row, changed: dict[Key, Row]) -> None:
        if row.key not in self._rows and row.key in self._told and self._told[row.key].present is False:
            return  # it was beaten for good
        self._remove(row.key)
        changed[row.key] = row
        if row.present is False:
            return
        place = self._ranking.place(row)
        settled = row.present is True and self._ranking.is_final(row.cells)
        self._rows[row.key] = row, place, settled
        self._settled += settled
        if row.is_shown():
            insort(self._line, (place, row.key))

    def _remove(self, key: Key) -> None:
        held = self._rows.pop(key, None)
        if held is None:
            return
        row, place, settled = held
        self._settled -= settled
        if row.is_shown():
            del self._line[bisect_left(self._line, (place, key))]

    def _drop_beaten(self, changed: dict[Key, Row]) -> None:
        """A final row with k final rows before it will never be among the best."""
        if self._settled <= self._number:
            return
        final = [key for _, key in self._line if self._rows[key][2]]
        for key in final[self._number :]:
            row = self._rows[key][0]
            self._remove(key)
            changed[key] = row.absent(final=True)

    def _tell(self, changed: dict[Key, Row], top: set[Key], complete: bool) -> list[Row]:
        told = []
        for key, row in changed.items():
            shown = row._replace(present=both(row.present, self._is_best(key, top, complete)))
            if self._told.get(key) != shown:
                told.append(shown)
                self._told[key] = shown
                if shown.present is False and all(map(is_final, row.cells)):
                    del self._told[key]  # nothing can be said of it any more, so it need not be known
        return told

    def _is_best(self, key: Key, top: set[Key], complete: bool) -> Value:
        if key not in top:
            return SoFar(False)
        settled = self._rows[key][2]
        movable = len(self._rows) - self._settled
        rank = bisect_left(self._line, (self._rows[key][1], key))
        certain = settled and complete and rank + movable < self._number
        return True if certain else SoFar(True)
