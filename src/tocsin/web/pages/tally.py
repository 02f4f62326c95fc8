"""How much came in and how much matched, hour by hour and day by day: what the charts show.

What lies before does not change, so it is counted once and remembered; of the hour or the day that is under way, what
came since the last look is added. Only when something that was held is shown do earlier counts change: then all of them
are counted again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tocsin.store import Store, documents, glance

HOUR, DAY = 3_600.0, 86_400.0
SETTLED_SECONDS = 120.0  # after which nothing more is written under an earlier time
REMEMBERED_MAX, RUNNING_MAX, PLACES_MAX = 200_000, 20_000, 10_000


@dataclass(frozen=True, slots=True)
class Series:
    """Counts of equal spans of time; the last one is under way."""

    start: float
    step: float
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class _Look:
    """When a count is taken, and which cursors its spans lie between."""

    now: float
    step: float
    edges: Sequence[float]
    cursors: Sequence[int]
    moved: int
    """How far cursors went when they last moved: what is remembered is of this state of them."""


@dataclass(frozen=True, slots=True)
class _Running:
    """What was counted of the span that is under way."""

    start: int
    upto: int
    count: int


class Tally:
    """Counts of one store. Safe to share between threads."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now
        self._lock = threading.Lock()
        self._places: OrderedDict[Hashable, int] = OrderedDict()
        self._spans: OrderedDict[Hashable, int] = OrderedDict()
        self._running: OrderedDict[Hashable, _Running] = OrderedDict()
        self._moved = 0

    def came_in(self, step: float, number: int) -> Series:
        """Documents that were accepted, everybody's."""
        edges, now = self._edges(step, number)
        places = [self._at("in", edge, now, documents.accepted_by) for edge in edges]
        places.append(documents.last_position(self._store))
        counts = tuple(max(0, after - before) for before, after in pairwise(places))
        return Series(edges[0], step, counts)

    def matched(self, account: str, step: float, number: int) -> Series:
        """The account's notifications, those that are held among them."""
        look = self._look(step, number)

        def count(missing: Sequence[int]) -> Mapping[Any, list[int]]:
            return {account: glance.between(self._store, missing, account)}

        return Series(look.edges[0], step, self._counted([account], look, count)[account])

    def matched_each(self, numbers: Sequence[int], step: float, number: int) -> dict[int, Series]:
        """The same for each of these subscriptions, by its number in the store."""
        look = self._look(step, number)

        def count(missing: Sequence[int]) -> Mapping[Any, list[int]]:
            return glance.between_each(self._store, missing, numbers)

        found = self._counted(list(numbers), look, count)
        return {one: Series(look.edges[0], step, found[one]) for one in numbers}

    def _edges(self, step: float, number: int) -> tuple[list[float], float]:
        """Where the spans begin."""
        now = self._now()
        first = (now // step - number + 1) * step
        return [first + step * place for place in range(number)], now

    def _look(self, step: float, number: int) -> _Look:
        last, moved = glance.stand(self._store)
        with self._lock:
            if moved > self._moved:
                self._spans.clear()
                self._running.clear()
                self._moved = moved
        edges, now = self._edges(step, number)
        found = [self._at("made", edge, now, glance.made_by) for edge in edges]
        return _Look(now, step, edges, [*found, max(found[-1], last)], moved)

    def _counted(
        self, keys: Sequence[Hashable], look: _Look, count: Callable[[Sequence[int]], Mapping[Any, list[int]]]
    ) -> dict[Hashable, tuple[int, ...]]:
        """The counts of each key: what is remembered, and from the first span that is not, counted now."""
        whole = sum(1 for edge in look.edges[1:] if edge < look.now - SETTLED_SECONDS)
        with self._lock:
            known = {key: self._leading(key, look, whole) for key in keys}
            first = min((len(counts) for counts in known.values()), default=whole)
            begun = self._begun(keys, look) if first == len(look.edges) - 1 else None
        fresh = count(look.cursors[first:] if begun is None else [begun[0], look.cursors[-1]])
        found: dict[Hashable, tuple[int, ...]] = {}
        for key in keys:
            counts = fresh[key] if begun is None else [begun[1][key] + fresh[key][0]]
            found[key] = (*known[key][:first], *counts)
        self._remember(found, look, first, whole)
        return found

    def _leading(self, key: Hashable, look: _Look, whole: int) -> list[int]:
        """What is remembered of the first spans, up to one that is not."""
        found: list[int] = []
        for edge in look.edges[:whole]:
            if (count := self._spans.get((key, edge, look.step))) is None:
                break
            found.append(count)
        return found

    def _begun(self, keys: Sequence[Hashable], look: _Look) -> tuple[int, dict[Hashable, int]] | None:
        """The cursor up to which the span under way was counted, for all of them, and what was counted of each."""
        found = {key: one for key in keys if (one := self._running.get((key, look.step))) is not None}
        states = {(one.start, one.upto) for one in found.values()}
        if len(found) < len(keys) or len(states) != 1:
            return None
        start, upto = states.pop()
        if start != look.cursors[-2] or upto > look.cursors[-1]:
            return None
        return upto, {key: one.count for key, one in found.items()}

    def _remember(self, found: Mapping[Hashable, Sequence[int]], look: _Look, first: int, whole: int) -> None:
        with self._lock:
            if look.moved != self._moved:
                return  # cursors have moved meanwhile
            for key, counts in found.items():
                for place in range(first, whole):
                    self._spans[key, look.edges[place], look.step] = counts[place]
                if whole == len(look.edges) - 1:
                    self._running[key, look.step] = _Running(look.cursors[-2], look.cursors[-1], counts[-1])
            _forget(self._spans, REMEMBERED_MAX)
            _forget(self._running, RUNNING_MAX)

    def _at(self, what: str, moment: float, now: float, look: Callable[[Store, float], int]) -> int:
        """The place in the log, or among the cursors, of an edge."""
        with self._lock:
            found = self._places.get((what, moment))
        if found is None:
            found = look(self._store, moment)
            if moment < now - SETTLED_SECONDS:
                with self._lock:
                    self._places[what, moment] = found
                    _forget(self._places, PLACES_MAX)
        return found


def _forget(known: OrderedDict[Hashable, Any], most: int) -> None:
    """The oldest, until no more than so many are left."""
    while len(known) > most:
        known.popitem(last=False)
