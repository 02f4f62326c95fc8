"""Source relations at a broker: the log where publishers are, and the memory of who is fed (§3.1).

An event gets its tick from the clock of the publisher-hosting broker, is written to stable storage, and only then goes
anywhere. Clocks of several brokers need not agree: ticks of one source rise, and that is all that is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tocsin.errors import EventError
from tocsin.views.broker.messages import Storage
from tocsin.views.knowledge import Cells, Curiosity, Knowledge, Publisher, Receiver, Seconds
from tocsin.views.plan import Relation
from tocsin.views.relation import Row
from tocsin.views.ticks import FIRST_TICK, LAST_TICK, Range, Ticks

HERE = ""  # the name under which a broker reads its own source


class Source:
    """A source whose publishers are here."""

    columnar = False

    def __init__(self, relation: Relation, readers: Iterable[str], is_used: bool, disk: Storage) -> None:
        self._relation, self._disk = relation, disk
        self.name = relation.name
        self.publisher = Publisher(relation.name, self._log)
        self.known = {self.name: Ticks()}  # what the views here reflect
        self._readers = [*readers, *([HERE] if is_used else [])]
        for reader in self._readers:
            self.publisher.subscribe(reader)
        self._recover()

    def is_quiet(self) -> bool:
        """Rows come from new ticks only."""
        return True

    def step(self, increments: Any, advance: Any) -> list[Row]:
        """Its rows come from publishers."""
        raise NotImplementedError

    def publish(self, values: Cells, clock: int) -> Knowledge:
        """An event, at the next tick of the clock that is free."""
        tick = max(self._next(), clock)
        at = self._relation.key[0]
        return self.publisher.publish(tick, (*values[:at], tick, *values[at:]))

    def silence(self, clock: int) -> Knowledge | None:
        """Nothing has happened up to now."""
        return self.publisher.silence(clock - 1) if clock > self._next() else None

    def close(self) -> Knowledge:
        """Nothing will happen any more."""
        return self.publisher.close()

    def handle(self, curiosity: Curiosity, reader: str) -> list[Knowledge]:
        """Answers, and forgets what is safe everywhere else."""
        before = self.publisher.store.dropped
        said = self.publisher.handle(curiosity, reader)
        dropped = self.publisher.store.dropped
        if dropped > before:
            self._disk.put(f"dropped {self.name}", dropped)
            for name in self._disk.names(f"log {self.name} "):
                if int(name.rsplit(" ", 1)[1]) <= dropped:
                    self._disk.remove(name)
        return said

    def learn(self) -> tuple[list[Row], list[Range]]:
        """What the views here do not reflect yet."""
        rows, new = [], list[Range]()
        for first, last in self.publisher.store.known.ranges():
            for start, end in self.known[self.name].missing(first, last):
                rows += [Row((tick,), cells, True) for tick, cells in self.publisher.store.events(start, end)]
                new.append((start, end))
        for start, end in new:
            self.known[self.name].add(start, end)
        return rows, new

    def load(self, ranges: Iterable[Range]) -> None:
        """After a restart: what the views here reflect; the rest of the log they still have to learn."""
        for first, last in ranges:
            self.known[self.name].add(first, last)

    def _next(self) -> int:
        last = self.publisher.store.known.last()
        if last == LAST_TICK:
            raise EventError(f"{self.name}: the relation is closed, so nothing can happen any more")
        return 0 if last is None else last + 1

    def has_readers(self) -> bool:
        """Whether anyone could acknowledge."""
        return bool(self._readers)

    def is_closed(self) -> bool:
        """Whether nothing can happen any more."""
        return self.publisher.store.known.last() == LAST_TICK

    def _log(self, knowledge: Knowledge) -> None:
        """The event first: a log that ends in the middle says nothing false."""
        if knowledge.tick is not None:
            self._disk.put(f"log {self.name} {knowledge.tick}", knowledge.cells)
            self._disk.put(f"known {self.name}", knowledge.tick)
        elif knowledge.silent:
            self._disk.put(f"known {self.name}", knowledge.silent[-1][1])

    def _recover(self) -> None:
        known = self._disk.get(f"known {self.name}")
        logged = [
            Knowledge(self.name, (), int(name.rsplit(" ", 1)[1]), self._disk.get(name) or ())
            for name in self._disk.names(f"log {self.name} ")
        ]
        self.publisher.recover(logged)
        last = max([FIRST_TICK - 1 if known is None else known, *(one.tick or 0 for one in logged)])
        missing = self.publisher.store.known.missing(FIRST_TICK, last)
        self.publisher.recover([Knowledge(self.name, tuple(missing))])
        dropped = self._disk.get(f"dropped {self.name}")
        if dropped is not None:
            self.publisher.store.drop(dropped)


class Taken(NamedTuple):
    """What came of a message: rows and ticks for the views here, whether readers should hear of it, what to ask."""

    rows: list[Row]
    new: list[Range]
    is_news: bool
    question: Curiosity | None


class SourceInlet:
    """A source whose publishers are at another broker; `readers` are fed from here."""

    columnar = False

    def __init__(
        self, relation: Relation, readers: Iterable[str], is_used: bool, patience: Seconds, now: Seconds
    ) -> None:
        self.name = relation.name
        self.receiver = Receiver(relation.name, patience, now, in_order=False)
        self.mirror = Publisher(relation.name)
        self.readers = tuple(readers)
        self.acknowledged: dict[str, int] = dict.fromkeys(self.readers, FIRST_TICK - 1)
        if is_used:
            self.acknowledged[HERE] = FIRST_TICK - 1
        for reader in self.readers:
            self.mirror.subscribe(reader)
        self.known = {self.name: Ticks()}  # what the views here reflect

    def is_quiet(self) -> bool:
        """Rows come from new ticks only."""
        return True

    def step(self, increments: Any, advance: Any) -> list[Row]:
        """Its rows come from upstream."""
        raise NotImplementedError

    def take(self, knowledge: Knowledge, now: Seconds) -> Taken:
        """An event is used at once, whatever is missing before it."""
        ranges = knowledge.silent if knowledge.tick is None else (*knowledge.silent, (knowledge.tick, knowledge.tick))
        held, known = self.receiver.store.known, self.known[self.name]
        is_news = not all(held.covers(first, last) for first, last in ranges)
        fresh = knowledge.tick is not None and knowledge.tick not in known
        rows = [Row((knowledge.tick,), knowledge.cells, True)] if fresh else []
        new = [part for first, last in ranges for part in known.add(first, last)]
        _, question = self.receiver.handle(knowledge, now)
        if self.readers:
            self.mirror.store.put(knowledge)
        return Taken(rows, new, is_news, question)

    def load(self, ranges: Iterable[Range]) -> None:
        """After a restart the views here still reflect these ticks; who is fed from here may need them again."""
        for first, last in ranges:
            self.known[self.name].add(first, last)
            if not self.readers:
                self.receiver.store.known.add(first, last)
        self.settle(HERE, self.known[self.name].horizon())

    def hear(self, curiosity: Curiosity, reader: str) -> list[Knowledge]:
        """Answers a reader from here as far as possible; what is unknown here is asked for upstream anyway."""
        said = self.mirror.handle(curiosity, reader)
        self.settle(reader, curiosity.acknowledged)
        return said

    def settle(self, reader: str, tick: int) -> None:
        """What is safe with everyone who needs it is acknowledged upstream."""
        if reader in self.acknowledged:
            self.acknowledged[reader] = max(self.acknowledged[reader], tick)
        self.receiver.acknowledge(min(self.acknowledged.values(), default=FIRST_TICK - 1))

    def question(self, now: Seconds) -> Curiosity:
        """Asks again for what is missing, and acknowledges."""
        asked = self.receiver.wake(now)
        return asked or Curiosity(self.name, (), self.receiver.horizon())
