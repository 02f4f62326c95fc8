"""What passes between nodes: knowledge downstream, curiosity upstream (relational subscriptions §3.1, §3.2).

Nothing here sends, waits or looks at a clock: `handle` takes a message and says what should be sent, `wake` takes the
time. Messages may be lost, repeated and reordered; a node asks again for what is missing and ignores what it has.

    Publisher        logs events, numbers them, answers curiosity from its log, forgets what all have acknowledged
    Receiver         fills gaps, delivers events in tick order exactly once; the doubt horizon is where doubt begins
    Merger           passes events through at once, but silence only when all inputs are silent
    Interest         which events are wanted: by predicate (the sold-out flight), for good or for now
    BestTracker      best-k that keeps k + 2 and pulls when it runs short
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, TypeAlias

from tocsin.views.ticks import FIRST_TICK, LAST_TICK, Range, Ticks
from tocsin.views.value import SILENT, UNKNOWN, Special

Seconds: TypeAlias = float
Cells: TypeAlias = tuple[Any, ...]
PATIENCE_SECONDS: Seconds = 1.0


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A message downstream: at most one event, and ticks around it that are silent."""

    relation: str
    silent: tuple[Range, ...] = ()
    tick: int | None = None
    cells: Cells = ()


@dataclass(frozen=True, slots=True)
class Curiosity:
    """A message upstream. Positive: send these ticks. Negative: up to `acknowledged` nothing is needed any more."""

    relation: str
    wanted: tuple[Range, ...] = ()
    acknowledged: int = FIRST_TICK - 1


class TickStore:
    """What is known of each tick: unknown, silence or an event. Memory grows with gaps and held events, not ticks."""

    def __init__(self) -> None:
        self.known = Ticks()
        self._ticks: list[int] = []
        self._cells: dict[int, Cells] = {}
        self._dropped = FIRST_TICK - 1

    def put(self, knowledge: Knowledge) -> list[Range]:
        """Adds what a message says; the ticks that were new."""
        new: list[Range] = []
        if knowledge.tick is not None and knowledge.tick not in self.known:
            insort(self._ticks, knowledge.tick)
            self._cells[knowledge.tick] = knowledge.cells
            new += self.known.add(knowledge.tick, knowledge.tick)
        for first, last in knowledge.silent:
            new += self.known.add(first, last)
        return new

    def at(self, tick: int) -> Cells | Special:
        """An event, SILENT or UNKNOWN; events that were dropped look silent."""
        if tick in self._cells:
            return self._cells[tick]
        return SILENT if tick in self.known else UNKNOWN

    def horizon(self) -> int:
        """Every tick up to here is known (§3.1)."""
        return self.known.horizon()

    def gaps(self) -> list[Range]:
        """Unknown ticks before known ones: something was lost, or is late."""
        gaps = self.known.gaps()
        ranges = self.known.ranges()
        return [(FIRST_TICK, ranges[0][0] - 1), *gaps] if ranges and ranges[0][0] > FIRST_TICK else gaps

    def events(self, first: int, last: int) -> list[tuple[int, Cells]]:
        """The events in a range of ticks."""
        start, end = bisect_left(self._ticks, first), bisect_left(self._ticks, last + 1)
        return [(tick, self._cells[tick]) for tick in self._ticks[start:end]]

    def drop(self, tick: int) -> int:
        """Forgets the events up to a tick; how many."""
        end = bisect_left(self._ticks, tick + 1)
        for gone in self._ticks[:end]:
            del self._cells[gone]
        del self._ticks[:end]
        self._dropped = max(self._dropped, tick)
        return end

    @property
    def dropped(self) -> int:
        """Events up to here may be forgotten."""
        return self._dropped

    def size(self) -> int:
        """How many ranges and events are held."""
        return len(self.known) + len(self._ticks)


class Publisher:
    """The publisher's end of one relation: the log that can always satisfy curiosity (§3.1).

    `log` is called before anything is handed on, so that a publisher that dies afterwards has lost nothing.
    """

    def __init__(self, relation: str, log: Callable[[Knowledge], None] = lambda knowledge: None) -> None:
        self.relation = relation
        self.store = TickStore()
        self._log = log
        self._acknowledged: dict[str, int] = {}

    def subscribe(self, subscriber: str) -> None:
        """From now on events are kept until this subscriber, too, has acknowledged them."""
        self._acknowledged.setdefault(subscriber, FIRST_TICK - 1)

    def publish(self, tick: int, cells: Cells) -> Knowledge:
        """An event, with the silence before it that no earlier message told of."""
        silent = self.store.known.missing(FIRST_TICK, tick - 1)
        return self._say(Knowledge(self.relation, tuple(silent), tick, cells))

    def silence(self, last: int) -> Knowledge:
        """Nothing happened up to a tick: keeps the horizon moving while there are no events."""
        return self._say(Knowledge(self.relation, tuple(self.store.known.missing(FIRST_TICK, last))))

    def close(self) -> Knowledge:
        """Nothing will happen any more."""
        return self.silence(LAST_TICK)

    def recover(self, logged: Iterable[Knowledge]) -> None:
        """Reads the log after a restart."""
        for knowledge in logged:
            self.store.put(knowledge)

    def handle(self, curiosity: Curiosity, subscriber: str) -> list[Knowledge]:
        """Answers with what is known of the wanted ticks; forgets what all have acknowledged."""
        if curiosity.acknowledged > self._acknowledged.get(subscriber, FIRST_TICK - 1):
            self._acknowledged[subscriber] = curiosity.acknowledged
            self.store.drop(min(self._acknowledged.values()))
        return answer(self.relation, self.store, curiosity.wanted)

    def _say(self, knowledge: Knowledge) -> Knowledge:
        self._log(knowledge)
        self.store.put(knowledge)
        return knowledge


def answer(relation: str, store: TickStore, wanted: Sequence[Range]) -> list[Knowledge]:
    """What a store knows of some ticks: each event with the silence before it, then the silence after the last.

    Events that were dropped look silent: everyone who needed them has acknowledged them.
    """
    found, silent = [], list[Range]()
    for start, last in wanted:
        for first, end in _overlap(store.known.ranges(), start, last):
            place = first
            for tick, cells in store.events(first, end):
                if place < tick:
                    silent.append((place, tick - 1))
                found.append(Knowledge(relation, tuple(silent), tick, cells))
                silent, place = [], tick + 1
            if place <= end:
                silent.append((place, end))
    if silent:
        found.append(Knowledge(relation, tuple(silent)))
    return found


def _overlap(ranges: Iterable[Range], first: int, last: int) -> Iterable[Range]:
    for start, end in ranges:
        if start <= last and first <= end:
            yield max(start, first), min(end, last)


class Receiver:
    """The subscriber's end: in order, each once, whatever the network does (§3.1, guaranteed delivery).

    Positive curiosity is raised at once for a gap, and for what lies beyond the horizon when it has not moved for a
    while; it is repeated until it is satisfied. Delivered events are acknowledged and forgotten.

    Who can use events in any order takes them at once (`in_order=False`), and says itself what it acknowledges.
    """

    def __init__(
        self, relation: str, patience_seconds: Seconds = PATIENCE_SECONDS, now: Seconds = 0.0, in_order: bool = True
    ) -> None:
        self.relation = relation
        self.store = TickStore()
        self._patience = patience_seconds
        self._in_order = in_order
        self._delivered = FIRST_TICK - 1
        self._moved_at: Seconds = now
        self._asked_at: dict[Range, Seconds] = {}

    def handle(self, knowledge: Knowledge, now: Seconds) -> tuple[list[tuple[int, Cells]], Curiosity | None]:
        """The events that can be delivered now, and what should be asked of upstream."""
        if not self._in_order:
            return self._take_at_once(knowledge, now)
        before = self.store.horizon()
        self.store.put(knowledge)
        horizon = self.store.horizon()
        if horizon > before:
            self._moved_at = now
        ready = self.store.events(self._delivered + 1, horizon)
        self._delivered = max(self._delivered, horizon)
        self.store.drop(self._delivered)
        return ready, self._curiosity(now, horizon > before)

    def _take_at_once(self, knowledge: Knowledge, now: Seconds) -> tuple[list[tuple[int, Cells]], Curiosity | None]:
        before, tick = self.store.horizon(), knowledge.tick
        fresh = tick is not None and tick not in self.store.known
        silent = knowledge.silent if tick is None else (*knowledge.silent, (tick, tick))
        self.store.put(Knowledge(self.relation, silent))
        if self.store.horizon() > before:
            self._moved_at = now
        ready = [(tick, knowledge.cells)] if fresh and tick is not None else []
        return ready, self._curiosity(now, acknowledge=False)

    def acknowledge(self, tick: int) -> None:
        """Everything up to a tick is safe here: upstream may forget it."""
        self._delivered = max(self._delivered, tick)

    def wake(self, now: Seconds) -> Curiosity | None:
        """Asks again for gaps, and for what follows a horizon that stands still."""
        if self.is_complete():
            return None
        return self._curiosity(now, acknowledge=True)

    def wakes_at(self) -> Seconds | None:
        """When it wants to be woken; None if it knows everything."""
        if self.is_complete():
            return None
        return min([self._moved_at + self._patience, *(at + self._patience for at in self._asked_at.values())])

    def is_complete(self) -> bool:
        """Whether the relation is closed and everything came."""
        return self.store.horizon() >= LAST_TICK

    def horizon(self) -> int:
        """Every tick up to here was delivered."""
        return self._delivered

    def _curiosity(self, now: Seconds, acknowledge: bool) -> Curiosity | None:
        missing = self.store.gaps()
        if now - self._moved_at >= self._patience:
            last = self.store.known.last()
            missing.append((FIRST_TICK if last is None else last + 1, LAST_TICK))
        recent = {gap: at for gap, at in self._asked_at.items() if now - at < self._patience}
        # A gap that is being filled shrinks with every message: what is left of it was asked for, too.
        wanted = [gap for gap in missing if not any(first <= gap[0] and gap[1] <= last for first, last in recent)]
        self._asked_at = recent | dict.fromkeys(wanted, now)
        if not wanted and not acknowledge:
            return None
        return Curiosity(self.relation, tuple(wanted), self._delivered)


class Merger:
    """Several inputs as one: an event passes at once, silence waits until every input is silent there (§3.1)."""

    def __init__(self, relation: str, inputs: Sequence[str]) -> None:
        self.relation = relation
        self._stores = {name: TickStore() for name in inputs}
        self._silent = Ticks()

    def handle(self, knowledge: Knowledge) -> list[Knowledge]:
        """What becomes known of the merged relation; an event at a tick that two inputs share is told by its input."""
        store = self._stores[knowledge.relation]
        fresh = knowledge.tick is not None and knowledge.tick not in store.known
        new = store.put(knowledge)
        silent = tuple(gap for first, last in new for gap in self._all_silent(first, last))
        if not fresh and not silent:
            return []
        cells = (knowledge.relation, *knowledge.cells) if fresh else ()
        return [Knowledge(self.relation, silent, knowledge.tick if fresh else None, cells)]

    def _all_silent(self, first: int, last: int) -> list[Range]:
        ranges: list[Range] = [(first, last)]
        for store in self._stores.values():
            held = _silence(store, first, last)
            ranges = [part for start, end in ranges for part in _overlap(held, start, end)]
        return [gap for start, end in ranges for gap in self._silent.add(start, end)]

    def horizon(self) -> int:
        """Every tick up to here is known in every input."""
        return min(store.horizon() for store in self._stores.values())


def _silence(store: TickStore, first: int, last: int) -> list[Range]:
    events = Ticks((tick, tick) for tick, _ in store.events(first, last))
    known = _overlap(store.known.ranges(), first, last)
    return [gap for start, end in known for gap in events.missing(start, end)]


# --- curiosity about values ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """A change of what is wanted of rows with some key: all, or none, for good or until it is wanted again (§3.2)."""

    key: Any
    wanted: bool
    for_good: bool = False


class Interest:
    """Upstream's memory of what is not wanted: rows of these keys are held back, and sent when wanted again.

    The latest state is enough: who asks again gets one state, not everything that was held back.
    """

    def __init__(self) -> None:
        self._off: dict[Any, bool] = {}
        self._held: dict[Any, Any] = {}
        self.saved = 0

    def offer(self, key: Any, state: Any) -> Any | None:
        """The state if it is wanted; None if it is held back."""
        if key not in self._off:
            return state
        self.saved += 1
        if not self._off[key]:
            self._held[key] = state
        return None

    def handle(self, curiosity: Wanted) -> Any | None:
        """Takes note; gives the state that was held back if it is wanted again."""
        if not curiosity.wanted:
            self._off[curiosity.key] = self._off.get(curiosity.key, False) or curiosity.for_good
            if curiosity.for_good:
                self._held.pop(curiosity.key, None)
            return None
        if self._off.get(curiosity.key):
            return None
        self._off.pop(curiosity.key, None)
        return self._held.pop(curiosity.key, None)


class Guard:
    """Downstream's part of `a AND condition(b)`: while a is false, changes of b do not matter (§3.2).

    `decide(a)` says what a means for b: True, wanted; None, not now; False, never again (the sold-out flight).
    """

    def __init__(self, decide: Callable[[Any], bool | None]) -> None:
        self._decide = decide
        self._said: dict[Any, bool | None] = {}

    def see(self, key: Any, a: Any) -> Wanted | None:
        """What to tell upstream now that a has this value; None if nothing changed."""
        wanted = self._decide(a)
        if self._said.get(key, True) is wanted or self._said.get(key, True) is False:
            return None
        self._said[key] = wanted
        return Wanted(key, wanted is True, for_good=wanted is False)


@dataclass(frozen=True, slots=True)
class Pull:
    """A request for more rows: `number` rows that come after a place in the order (None: the first ones)."""

    number: int
    after: Any | None


class BestTracker:
    """Best-k at a distance (§3.2): upstream pushes changes of the best k + 2 only, and the rest is pulled when needed.

    Rows are (place, key) with places that sort; a place tells the order and is unique.
    """

    def __init__(self, number: int, spare: int = 2) -> None:
        self._number, self._spare = number, spare
        self._rows: list[tuple[Any, Any]] = []
        self._place: dict[Any, Any] = {}
        self._limit: Any | None = None  # rows beyond this place were not pushed, or were dropped
        self._pulling = False
        self.pulls = 0

    def best(self) -> list[Any]:
        """The keys of the best k, as far as they are known for certain."""
        return [key for _, key in self._rows[: self._number]]

    def kept(self) -> list[Any]:
        """The keys of all rows that are tracked."""
        return [key for _, key in self._rows]

    def put(self, key: Any, place: Any) -> Pull | None:
        """A row that is new or moved; it is ignored if it lies beyond what is tracked."""
        self._take_out(key)
        if self._limit is None or place < self._limit:
            insort(self._rows, (place, key))
            self._place[key] = place
            self._trim()
        return self._need()

    def remove(self, key: Any) -> Pull | None:
        """A row that left; asks for more if fewer than k are left and there may be others."""
        self._take_out(key)
        return self._need()

    def wants(self, place: Any) -> bool:
        """Whether upstream should push a row at this place."""
        return self._limit is None or place < self._limit

    def answer(self, rows: Sequence[tuple[Any, Any]], exhausted: bool) -> None:
        """What was pulled: (place, key) in order; exhausted if there is nothing beyond."""
        self._pulling = False
        for place, key in rows:
            self._take_out(key)
            insort(self._rows, (place, key))
            self._place[key] = place
        self._limit = None if exhausted or not rows else _Beyond(rows[-1][0])
        self._trim()

    def _take_out(self, key: Any) -> None:
        place = self._place.pop(key, None)
        if place is not None:
            del self._rows[bisect_left(self._rows, (place, key))]

    def _trim(self) -> None:
        while len(self._rows) > self._number + self._spare:
            place, key = self._rows.pop()
            del self._place[key]
            self._limit = place

    def _need(self) -> Pull | None:
        if len(self._rows) >= self._number or self._limit is None or self._pulling:
            return None
        self._pulling = True
        self.pulls += 1
        after = self._rows[-1][0] if self._rows else None
        return Pull(self._number + self._spare - len(self._rows), after)


class _Beyond:
    """Just after a place."""

    def __init__(self, place: Any) -> None:
        self._place = place

    def __gt__(self, place: Any) -> bool:
        return not self._place < place


def pull(rows: Mapping[Any, Any], request: Pull) -> tuple[list[tuple[Any, Any]], bool]:
    """Upstream's answer from all its rows (key: place), and whether there is nothing beyond."""
    beyond = ((place, key) for key, place in rows.items() if request.after is None or place > request.after)
    line = nsmallest(request.number + 1, beyond)
    return line[: request.number], len(line) <= request.number
