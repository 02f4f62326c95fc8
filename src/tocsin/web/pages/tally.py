"""How much came in and how much matched, hour by hour and day by day: what the charts show.

What was before does not change, so it is counted once and remembered; only the hour or the day that is under way is
counted at every look.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tocsin.store import Store, documents, glance, inbox

HOUR, DAY = 3_600.0, 86_400.0
SETTLED_SECONDS = 120.0  # after which nothing more is written under an earlier time
REMEMBERED_MAX = 200_000


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


class Tally:
    """Counts of one store. Safe to share between threads."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, Any] = OrderedDict()

    def came_in(self, step: float, number: int) -> Series:
        """Documents that were accepted, everybody's."""
        edges, now = self._edges(step, number)
        places = [self._at("in", edge, now, documents.accepted_by) for edge in edges]
        places.append(documents.last_position(self._store))
        counts = tuple(max(0, after - before) for before, after in pairwise(places))
        return Series(edges[0], step, counts)

    def matched(self, account: str, step: float, number: int) -> Series:
        """The account's notifications, those that are held among them."""
        edges, now = self._edges(step, number)
        cursors = self._cursors(edges, now)

        def count(missing: Sequence[int]) -> Mapping[Any, list[int]]:
            return {account: glance.between(self._store, missing, account)}

        return Series(edges[0], step, self._counted([account], edges, cursors, now, count)[account])

    def matched_each(self, numbers: Sequence[int], step: float, number: int) -> dict[int, Series]:
        """The same for each of these subscriptions, by its number in the store."""
        edges, now = self._edges(step, number)
        cursors = self._cursors(edges, now)

        def count(missing: Sequence[int]) -> Mapping[Any, list[int]]:
            return glance.between_each(self._store, missing, numbers)

        found = self._counted(list(numbers), edges, cursors, now, count)
        return {one: Series(edges[0], step, found[one]) for one in numbers}

    def _edges(self, step: float, number: int) -> tuple[list[float], float]:
        """Where the spans begin."""
        now = self._now()
        first = (now // step - number + 1) * step
        return [first + step * place for place in range(number)], now

    def _cursors(self, edges: Sequence[float], now: float) -> list[int]:
        found = [self._at("made", edge, now, glance.made_by) for edge in edges]
        return [*found, max(found[-1], inbox.last(self._store))]

    def _counted(
        self,
        keys: Sequence[Hashable],
        edges: Sequence[float],
        cursors: Sequence[int],
        now: float,
        count: Callable[[Sequence[int]], Mapping[Any, list[int]]],
    ) -> dict[Hashable, tuple[int, ...]]:
        """The counts of each key: what is remembered, and from the first span that is not, counted now."""
        whole = [place for place in range(len(edges) - 1) if edges[place + 1] < now - SETTLED_SECONDS]
        step = edges[1] - edges[0] if len(edges) > 1 else DAY
        known = {key: {place: self._recall((key, edges[place], step)) for place in whole} for key in keys}
        first = next(
            (place for place in range(len(edges)) if any(known[key].get(place) is None for key in keys)), len(edges) - 1
        )
        fresh = count(cursors[first:])
        found: dict[Hashable, tuple[int, ...]] = {}
        for key in keys:
            counts = [known[key][place] for place in range(first)] + fresh[key]
            found[key] = tuple(counts)
            for place in whole[first:]:
                self._remember((key, edges[place], step), counts[place])
        return found

    def _at(self, what: str, moment: float, now: float, look: Callable[[Store, float], int]) -> int:
        found = self._recall((what, moment))
        if found is None:
            found = look(self._store, moment)
            if moment < now - SETTLED_SECONDS:
                self._remember((what, moment), found)
        return int(found)

    def _recall(self, key: Hashable) -> Any:
        with self._lock:
            return self._known.get(key)

    def _remember(self, key: Hashable, value: Any) -> None:
        with self._lock:
            self._known[key] = value
            if len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
