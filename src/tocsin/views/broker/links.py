"""The two ends of a derived relation between brokers: state, not a log (relational subscriptions §1.1, §3.2).

Upstream numbers its changes and remembers each row's last one; who has missed some gets the rows that changed since, in
their last state, however many changes there were. Downstream takes a state only if it follows on what it has, and only
if it reflects at least the same ticks: an upstream that came back from a checkpoint knows less for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.views.broker.messages import Increment, Known, Question
from tocsin.views.knowledge import Seconds
from tocsin.views.relation import Key, Row
from tocsin.views.ticks import Range, Ticks


@dataclass(slots=True)
class Reader:
    """What upstream knows of one who reads."""

    sent: int = 0
    durable: int = 0
    heard_at: Seconds | None = None


class Outlet:
    """Upstream's end."""

    def __init__(self, relation: int, epoch: int, readers: Iterable[str], is_history: bool) -> None:
        self.relation, self.epoch = relation, epoch
        self.version = 0
        self._rows: dict[Key, tuple[int, Row]] = {}  # in the order of their versions
        self._readers = {name: Reader() for name in readers}
        self._is_history = is_history

    def take(self, rows: Iterable[Row]) -> None:
        """A new version, in which these rows changed."""
        self.version += 1
        for row in rows:
            self._rows.pop(row.key, None)
            self._rows[row.key] = self.version, row

    def news(self, reader: str, known: Mapping[str, Ticks], is_quiet: bool) -> Increment | None:
        """What a reader has not been sent."""
        state = self._readers[reader]
        if state.sent >= self.version:
            return None
        rows = []
        for version, row in reversed(self._rows.values()):
            if version <= state.sent:
                break
            rows.append(row)
        since, state.sent = state.sent, self.version
        told: Known = tuple((source, tuple(ticks.ranges())) for source, ticks in known.items())
        return Increment(self.relation, self.epoch, since, self.version, tuple(reversed(rows)), told, is_quiet)

    def hear(self, reader: str, question: Question, now: Seconds) -> None:
        """Takes note of what a reader has, and forgets what nobody will ask for again."""
        state = self._readers[reader]
        state.heard_at = now
        if question.epoch != self.epoch:
            state.sent = 0
            return
        state.durable = max(state.durable, question.durable)
        if question.wanted:
            state.sent = min(state.sent, question.version)
        if self._is_history:
            self._trim(min(one.durable for one in self._readers.values()))

    def is_heard(self, reader: str, since: Seconds) -> bool:
        """Whether a reader was heard of lately: nothing is pushed to who is away."""
        heard_at = self._readers[reader].heard_at
        return heard_at is not None and heard_at >= since

    def size(self) -> int:
        """How many rows are held."""
        return len(self._rows)

    def _trim(self, version: int) -> None:
        """Rows of a history are told once; those that are safe downstream are not needed here."""
        gone = []
        for key, (told, _) in self._rows.items():
            if told > version:
                break
            gone.append(key)
        for key in gone:
            del self._rows[key]

    def save(self) -> list[Row]:
        """For a checkpoint."""
        return [row for _, row in self._rows.values()]

    def load(self, rows: list[Row]) -> None:
        """After a restart everything is new to everybody."""
        self.take(rows)


class Inlet:
    """Downstream's end."""

    columnar = False

    def __init__(self, relation: int, sources: Iterable[str]) -> None:
        self.relation = relation
        self.known = {source: Ticks() for source in sources}
        self.epoch = self.version = self.durable = 0
        self._is_quiet = False
        self._heard_at: Seconds | None = None

    def is_quiet(self) -> bool:
        """What upstream said of itself."""
        return self._is_quiet

    def step(self, increments: Any, advance: Any) -> list[Row]:
        """Its rows come from upstream."""
        raise NotImplementedError

    def take(self, message: Increment, now: Seconds) -> dict[str, list[Range]] | None:
        """The ticks that became known, if the message is of use; its rows are then the new state."""
        if message.epoch < self.epoch or (message.epoch == self.epoch and message.version <= self.version):
            return None
        follows = message.since == 0 if message.epoch > self.epoch else message.since <= self.version
        told = {source: Ticks(ranges) for source, ranges in message.known}
        if not follows or not all(ticks <= told[source] for source, ticks in self.known.items()):
            return None
        self.epoch, self.version = message.epoch, message.version
        self._is_quiet = message.is_quiet
        self._heard_at = now
        return {
            source: [part for first, last in ticks.ranges() for part in self.known[source].add(first, last)]
            for source, ticks in told.items()
        }

    def is_ahead(self, message: Increment) -> bool:
        """Whether something between what is here and the message is missing."""
        return message.epoch > self.epoch or message.since > self.version

    def question(self, wanted: bool) -> Question:
        """What to tell upstream."""
        return Question(self.relation, self.epoch, self.version, self.durable, wanted)

    def is_stalled(self, before: Seconds) -> bool:
        """Whether nothing of use came after a time."""
        return self._heard_at is None or self._heard_at < before

    def save(self) -> dict[str, Any]:
        """For a checkpoint."""
        known = {source: ticks.ranges() for source, ticks in self.known.items()}
        return {"known": known, "epoch": self.epoch, "version": self.version, "quiet": self._is_quiet}

    def load(self, saved: dict[str, Any]) -> None:
        """After a restart."""
        self.epoch, self.version, self._is_quiet = saved["epoch"], saved["version"], saved["quiet"]
        self.durable = self.version
        for source, ranges in saved["known"].items():
            for first, last in ranges:
                self.known[source].add(first, last)
