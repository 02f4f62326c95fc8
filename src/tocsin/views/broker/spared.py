"""What upstream makes of curiosity about values (relational subscriptions §3.2): which rows it sends, which not now.

A row that is held back stays with the reader in an older state, which is still true. Two things must not be lost by
that. What becomes certain is sent: others may wait for it. And a row that a reader has never heard of counts for it
as one that may come at any time: as long as there are such rows, the relation is not called quiet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from heapq import nsmallest
from typing import Protocol

from tocsin.views.best import Ranking
from tocsin.views.broker.messages import Place, Selective, Tracked, Unneeded
from tocsin.views.plan import Best, Join, Node
from tocsin.views.relation import Key, Row, key_function
from tocsin.views.value import is_final


class Verdict(Enum):
    """What to do with a row that changed."""

    SEND = "send"
    HOLD = "hold"
    NEVER = "never"


class Sieve(Protocol):
    """Upstream's memory of what one reader needs."""

    @property
    def reach(self) -> Place | None:
        """What stands beyond this place may be held back."""

    def hear(self, said: Selective, rows: Iterable[Row]) -> bool:
        """The reader says what it needs; `rows` are all there are. Whether rows may be judged otherwise than before."""

    def judge(self, row: Row, told: Row | None) -> Verdict:
        """Of a row, and the state that the reader has of it, if any."""


class JoinSieve:
    """Rows that would meet a row that is gone."""

    reach: None = None

    def __init__(self, relation: Node, join: Join) -> None:
        self._key_of = key_function(join.left_on if join.left == relation else join.right_on)
        self._for_good = self._for_now = frozenset[Key]()

    def hear(self, said: Selective, rows: Iterable[Row]) -> bool:
        """Takes note."""
        assert isinstance(said, Unneeded)
        before = self._for_good, self._for_now
        self._for_good, self._for_now = said.for_good, said.for_now
        return before != (self._for_good, self._for_now)

    def judge(self, row: Row, told: Row | None) -> Verdict:
        """Only changes wait, and only of cells: that a row comes or goes may be what the other side is waiting for."""
        value, is_settled = self._key_of(row.cells)
        if not is_settled:
            return Verdict.SEND
        if value in self._for_good:
            return Verdict.NEVER
        if told is None or value not in self._for_now:
            return Verdict.SEND
        is_news = is_firmer(row, told) or row.is_shown() is not told.is_shown()
        return Verdict.SEND if is_news else Verdict.HOLD


class BestSieve:
    """Rows that are far from being among the best k."""

    def __init__(self, best: Best) -> None:
        self._ranking = Ranking(best.order)
        self.reach: Place | None = None
        self._beaten: Place | None = None

    def hear(self, said: Selective, rows: Iterable[Row]) -> bool:
        """Reaches as far as the reader does; when it pulls, as far as so many more rows stand."""
        assert isinstance(said, Tracked)
        before = self.reach, self._beaten
        self._beaten = said.beaten
        if said.reach is not None and (self.reach is None or said.reach < self.reach):
            self.reach = said.reach
        elif said.pulled and self.reach is not None:
            beyond = (self._ranking.place(row) for row in rows if row.is_shown() and self._is_beyond(row))
            line = nsmallest(said.pulled, beyond)
            self.reach = line[-1] if len(line) == said.pulled else None
        return before != (self.reach, self._beaten)

    def judge(self, row: Row, told: Row | None) -> Verdict:
        """A row that the reader has, or should have, among the first is sent."""
        if told is not None:
            waits = self._is_beyond(row) and self._is_beyond(told) and not is_firmer(row, told)
            return Verdict.HOLD if waits else Verdict.SEND
        if row.present is False or self._is_beaten(row):
            return Verdict.NEVER
        return Verdict.HOLD if self._is_beyond(row) else Verdict.SEND

    def _is_beyond(self, row: Row) -> bool:
        return self.reach is not None and (not row.is_shown() or self._ranking.place(row) > self.reach)

    def _is_beaten(self, row: Row) -> bool:
        """k rows that will stay stand before it for good."""
        return self._beaten is not None and self._is_settled(row) and self._ranking.place(row) > self._beaten

    def _is_settled(self, row: Row) -> bool:
        return row.present is True and self._ranking.is_final(row.cells)


def is_firmer(row: Row, told: Row) -> bool:
    """Whether something became final since it was told."""
    before, after = (*told.cells, told.present), (*row.cells, row.present)
    return any(is_final(new) and not is_final(old) for old, new in zip(before, after, strict=True))


def sieve_of(nodes: Sequence[Node], relation: int, said: Selective) -> Sieve:
    """For a reader that begins to say what it needs."""
    if isinstance(said, Tracked):
        best = nodes[said.best]
        assert isinstance(best, Best)
        return BestSieve(best)
    join = nodes[said.join]
    assert isinstance(join, Join)
    return JoinSieve(nodes[relation], join)
