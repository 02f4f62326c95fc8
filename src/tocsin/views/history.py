"""A source relation: what is known of each of its ticks (relational subscriptions §2.1, §3.1).

Every tick is unknown at first and becomes silent or an event, once; then it is final. A source tells its ticks in
order, so an event makes the earlier ticks that it skipped silent.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from tocsin.errors import EventError
from tocsin.views.columns import Array
from tocsin.views.events import Closed, Event, Item, Silence
from tocsin.views.ticks import FIRST_TICK, LAST_TICK, Range, Ticks
from tocsin.views.value import SILENT, UNKNOWN, Special

Cells = tuple[Any, ...]


class Log(Protocol):
    """The events of a source that were stored."""

    def at(self, tick: int) -> Cells | None:
        """The event at a tick."""

    def first(self, start: int) -> int | None:
        """The tick of the first event from a tick on."""


class _Part:
    """Some events, one after the other: a list that grows, or a batch that came whole. Never empty once it is seen."""

    __slots__ = ("events", "ticks")

    def __init__(self, ticks: Any, events: Sequence[Cells]) -> None:
        self.ticks, self.events = ticks, events

    def last(self) -> int:
        """The tick of its last event."""
        return int(self.ticks[-1])

    def append(self, tick: int, cells: Cells) -> None:
        """One more."""
        assert isinstance(self.events, list)
        self.ticks.append(tick)
        self.events.append(cells)


class History:
    """The event history of one source."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.known = Ticks()
        self.closed = False
        self.log: Log | None = None
        """Where events are found that are not held here."""
        self._parts: list[_Part] = []
        self._logged = 0  # events that are not held
        self._last_logged: int | None = None

    def take(self, item: Item) -> list[Range]:
        """The ticks that became known; none if this was known before. EventError if it contradicts what is known."""
        if isinstance(item, Event):
            return self._event(item.tick, item.cells)
        if isinstance(item, Silence):
            return self._silence(item)
        assert isinstance(item, Closed)
        self.closed = True
        return self.known.add(FIRST_TICK, LAST_TICK)

    def is_behind(self, ticks: Array) -> bool:
        """Whether ticks do not rise, or are not all new: then they must be taken one by one."""
        last = self.known.last()
        return (last is not None and int(ticks[0]) <= last) or not bool((ticks[1:] > ticks[:-1]).all())

    def extend(self, ticks: Array, events: Sequence[Cells]) -> list[Range]:
        """Takes many events whose ticks are not behind. They are kept as they come: in arrays, where they are ones."""
        self._parts.append(_Part(ticks, events))
        return self.known.add(FIRST_TICK, int(ticks[-1]))

    def at(self, tick: int) -> Cells | Special:
        """The event at a tick, SILENT or UNKNOWN."""
        number = bisect_left(self._parts, tick, key=_Part.last)
        if number < len(self._parts):
            part = self._parts[number]
            place = bisect_left(part.ticks, tick)
            if part.ticks[place] == tick:
                return part.events[place]
        if tick not in self.known:
            return UNKNOWN
        logged = self.log.at(tick) if self.log is not None and self._is_logged(tick) else None
        return SILENT if logged is None else logged

    def _is_logged(self, tick: int) -> bool:
        return self._last_logged is not None and tick <= self._last_logged

    def __len__(self) -> int:
        return self._logged + sum(len(part.ticks) for part in self._parts)

    def events(self, first: int = FIRST_TICK, last: int = LAST_TICK) -> list[tuple[int, Cells]]:
        """The events in a range of ticks that are held here: what satisfies any curiosity."""
        found: list[tuple[int, Cells]] = []
        for part in self._parts[bisect_left(self._parts, first, key=_Part.last) :]:
            start, end = bisect_left(part.ticks, first), bisect_right(part.ticks, last)
            if start == end:
                break
            found += zip(map(int, part.ticks[start:end]), part.events[start:end], strict=True)
        return found

    def last_event(self) -> int | None:
        """The tick of the last event."""
        return self._parts[-1].last() if self._parts else self._last_logged

    def resume(self, events: int, last: int | None, known: Iterable[Range], closed: bool) -> None:
        """Goes on after so many events, which the log has."""
        self._parts, self._logged, self._last_logged = [], events, last
        for first, end in known:
            self.known.add(first, end)  # in its place: operators look at it
        self.closed = closed

    def forget(self) -> None:
        """Leaves the events to the log."""
        self._logged, self._last_logged, self._parts = len(self), self.last_event(), []

    def _event(self, tick: int, cells: Cells) -> list[Range]:
        if tick in self.known:
            self._check_repeat(tick, cells)
            return []
        last = self.last_event()
        if last is not None and tick <= last:  # never: an event makes all ticks before it known
            raise EventError(f"{self.name}: tick {tick} goes back behind {last}")
        if not self._parts or not isinstance(self._parts[-1].ticks, list):
            self._parts.append(_Part([], []))
        self._parts[-1].append(tick, cells)
        return self.known.add(FIRST_TICK, tick)

    def _check_repeat(self, tick: int, cells: Cells) -> None:
        known = self.at(tick)
        if known == cells:
            return
        if isinstance(known, tuple):
            raise EventError(f"{self.name}: another event is known at tick {tick}; an event never changes")
        if self.closed:
            raise EventError(f"{self.name}: the relation is closed, so nothing can happen at tick {tick}")
        last = self.last_event()
        if last is not None and tick < last:
            raise EventError(f"{self.name}: tick {tick} goes back behind {last}; ticks must rise")
        raise EventError(f"{self.name}: tick {tick} is known to be silent")

    def _silence(self, item: Silence) -> list[Range]:
        tick = self._first_event(item.first)
        if tick is not None and tick <= item.last:
            raise EventError(f"{self.name}: tick {tick} holds an event, so it is not silent")
        return self.known.add(item.first, item.last)

    def _first_event(self, start: int) -> int | None:
        """The tick of the first event from a tick on."""
        if self.log is not None and self._is_logged(start):
            return self.log.first(start)
        number = bisect_left(self._parts, start, key=_Part.last)
        if number == len(self._parts):
            return None
        ticks = self._parts[number].ticks
        return int(ticks[bisect_left(ticks, start)])
