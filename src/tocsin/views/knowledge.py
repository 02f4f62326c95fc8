"""What passes between nodes: knowledge downstream, curiosity upstream (relational subscriptions §3.1, §3.2).

Nothing here sends, waits or looks at a clock: `handle` takes a message and says what should be sent, `wake` takes the
time. Messages may be lost, repeated and reordered; a node asks again for what is missing and ignores what it has.

    Publisher        logs events, numbers them, answers curiosity from its log, forgets what all have acknowledged
    Receiver         fills gaps, delivers events in tick order exactly once; the doubt horizon is where doubt begins
    Merger           passes events through at once, but silence only when all inputs are silent

Curiosity about values (§3.2) passes between brokers: `broker.guards` and `broker.spared`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
