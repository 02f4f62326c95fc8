"""A source relation: what is known of each of its ticks (relational subscriptions §2.1, §3.1).

Every tick is unknown at first and becomes silent or an event, once; then it is final. A source tells its ticks in
order, so an event makes the earlier ticks that it skipped silent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from operator import ge
from typing import Any

from tocsin.errors import EventError
from tocsin.views.events import Closed, Event, Item, Silence
from tocsin.views.ticks import FIRST_TICK, LAST_TICK, Range, Ticks
from tocsin.views.value import SILENT, UNKNOWN, Special

Cells = tuple[Any, ...]


class History:
    """The event history of one source."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.known = Ticks()
        self.closed = False
        self._ticks: list[int] = []
        self._events: list[Cells] = []

    def take(self, item: Item) -> list[Range]:
        """The ticks that became known; none if this was known before. EventError if it contradicts what is known."""
        if isinstance(item, Event):
            return self._event(item.tick, item.cells)
        if isinstance(item, Silence):
            return self._silence(item)
        assert isinstance(item, Closed)
        self.closed = True
        return self.known.add(FIRST_TICK, LAST_TICK)

    def is_behind(self, ticks: Sequence[int]) -> bool:
        """Whether ticks do not rise, or are not all new: then they must be taken one by one."""
        last = self.known.last()
        return (last is not None and ticks[0] <= last) or any(map(ge, ticks, islice(ticks, 1, None)))

    def extend(self, ticks: Sequence[int], events: Sequence[Cells]) -> list[Range]:
        """Takes many events whose ticks are not behind."""
        self._ticks.extend(ticks)
        self._events.extend(events)
        return self.known.add(FIRST_TICK, ticks[-1])

    def at(self, tick: int) -> Cells | Special:
        """The event at a tick, SILENT or UNKNOWN."""
        place = bisect_left(self._ticks, tick)
        if place < len(self._ticks) and self._ticks[place] == tick:
            return self._events[place]
        return SILENT if tick in self.known else UNKNOWN

    def __len__(self) -> int:
        return len(self._ticks)

    def events(self, first: int = FIRST_TICK, last: int = LAST_TICK) -> list[tuple[int, Cells]]:
        """The events in a range of ticks: the log that satisfies any curiosity."""
        start, end = bisect_left(self._ticks, first), bisect_left(self._ticks, last + 1)
        return list(zip(self._ticks[start:end], self._events[start:end], strict=True))

    def _event(self, tick: int, cells: Cells) -> list[Range]:
        if tick in self.known:
            self._check_repeat(tick, cells)
            return []
        if not self._ticks or tick > self._ticks[-1]:
            self._ticks.append(tick)
            self._events.append(cells)
        else:  # never: an event makes all ticks before it known
            raise EventError(f"{self.name}: tick {tick} goes back behind {self._ticks[-1]}")
        return self.known.add(FIRST_TICK, tick)

    def _check_repeat(self, tick: int, cells: Cells) -> None:
        known = self.at(tick)
        if known == cells:
            return
        if isinstance(known, tuple):
            raise EventError(f"{self.name}: another event is known at tick {tick}; an event never changes")
        if self.closed:
            raise EventError(f"{self.name}: the relation is closed, so nothing can happen at tick {tick}")
        if self._ticks and tick < self._ticks[-1]:
            raise EventError(f"{self.name}: tick {tick} goes back behind {self._ticks[-1]}; ticks must rise")
        raise EventError(f"{self.name}: tick {tick} is known to be silent")

    def _silence(self, item: Silence) -> list[Range]:
        place = bisect_left(self._ticks, item.first)
        if place < len(self._ticks) and self._ticks[place] <= item.last:
            raise EventError(f"{self.name}: tick {self._ticks[place]} holds an event, so it is not silent")
        return self.known.add(item.first, item.last)
