"""Curiosity about values between brokers (relational subscriptions §3.2): downstream says what it does not need.

JoinGuard   where a row of one side of a join is gone, and no other row of that side can have its place, changes of the
            rows that it would meet do not show. Gone for good, as the sold-out flight: they are not sent again. Gone so
            far, as in `a AND b > 0` while a is false: they are not sent now, and when a is true again the last state is
BestGuard   best-k keeps k and some spare rows, and pulls when fewer than k are left

Each may be lost or late: upstream then sends what is not needed, or sends later, and neither is wrong. What upstream
makes of it is in `spared`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from tocsin.views.best import BestStep
from tocsin.views.broker.messages import Place, Selective, Tracked, Unneeded
from tocsin.views.expression import Column, Expression
from tocsin.views.plan import Best, Join, Node
from tocsin.views.relation import Key, Row, Step, key_function


class Guard(Protocol):
    """Who may say that rows of a relation are not needed here."""

    decides: int
    """The node whose rows it goes by."""

    def see(self, rows: Iterable[Row]) -> bool:
        """Rows of that node changed; whether upstream should hear at once what is wanted now."""

    def selective(self) -> Selective:
        """What to tell upstream."""

    def save(self) -> Any:
        """For a checkpoint."""

    def load(self, saved: Any) -> None:
        """After a restart."""


class JoinGuard:
    """What one join knows of values that are not there on its deciding side."""

    def __init__(self, at: int, decides: int, on: Sequence[Expression]) -> None:
        self.at, self.decides = at, decides
        self._key_of = key_function(on)
        self.gone: set[Key] = set()
        self.away: set[Key] = set()  # so far

    def see(self, rows: Iterable[Row]) -> bool:
        """Whether a value is there again."""
        urgent = False
        for row in rows:
            value, is_final = self._key_of(row.cells)
            if not is_final:
                continue
            if row.is_shown():
                urgent |= value in self.away
                self.away.discard(value)
            elif row.present is False:
                self.away.discard(value)
                self.gone.add(value)
            else:
                self.away.add(value)
        return urgent

    def selective(self) -> Unneeded:
        """The values that are gone, for good and so far."""
        return Unneeded(self.at, frozenset(self.gone), frozenset(self.away))

    def save(self) -> Any:
        """Both sets."""
        return set(self.gone), set(self.away)

    def load(self, saved: Any) -> None:
        """Both sets."""
        self.gone, self.away = set(saved[0]), set(saved[1])


class BestGuard:
    """What one best-k still has of the rows that upstream keeps it informed of."""

    def __init__(self, at: int, best: Best, step: BestStep, reach: Callable[[], Place | None], spare: int) -> None:
        self.at = self.decides = at
        self._number, self._spare = best.number, spare
        self._step, self._reach = step, reach
        self._was_short = False
        self.pulls = 0

    def see(self, rows: Iterable[Row]) -> bool:
        """Whether it has just run short of rows."""
        before, self._was_short = self._was_short, self._is_short()
        is_pull = self._was_short and not before
        self.pulls += is_pull
        return is_pull

    def _is_short(self) -> bool:
        reach = self._reach()
        return reach is not None and self._step.within(reach) < self._number

    def selective(self) -> Tracked:
        """How far the rows reach that are tracked, and how many more it needs if it is short of them."""
        tracked, limit = self._number + self._spare, self._reach()
        reach = self._step.place(tracked)
        if limit is not None and reach is not None and limit < reach:
            reach = None  # what stands there may have changed
        pulled = tracked - self._step.within(limit) if limit is not None and self._is_short() else 0
        return Tracked(self.at, reach, self._step.beaten(), pulled)

    def save(self) -> Any:
        """The operator has it all."""
        return None

    def load(self, saved: Any) -> None:
        """The operator has it all."""


def guards_of(
    nodes: Sequence[Node], inputs: Mapping[int, tuple[int, ...]], steps: Mapping[int, Step],
    reaches: Mapping[int, Callable[[], Place | None]], spare: int,
) -> dict[int, Guard]:  # fmt: skip
    """For each relation that is fed here (`reaches`) and read by one join or best-k only: who may say what of its rows
    is not needed."""
    found: dict[int, Guard] = {}
    for relation, reach in reaches.items():
        readers = [at for at, its in inputs.items() if relation in its]
        if len(readers) != 1:
            continue
        at, node = readers[0], nodes[readers[0]]
        if isinstance(node, Best):
            step = steps[at]
            assert isinstance(step, BestStep)
            found[relation] = BestGuard(at, node, step, reach, spare)
        elif isinstance(node, Join) and len(set(inputs[at])) == 2:
            left, right = inputs[at]
            decides, on = (left, node.left_on) if relation == right else (right, node.right_on)
            if _is_unique(nodes[decides], on):
                found[relation] = JoinGuard(at, decides, on)
    return found


def _is_unique(node: Node, on: Sequence[Expression]) -> bool:
    """Whether what is joined on tells a row of the side apart from all others."""
    places = {expression.index for expression in on if isinstance(expression, Column)}
    return len(places) == len(on) and set(node.key) <= places
