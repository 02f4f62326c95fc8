"""The two ends of a derived relation between brokers: state, not a log (relational subscriptions §1.1, §3.2).

Upstream numbers its changes and remembers each row's last one; who has missed some gets the rows that changed since, in
their last state, however many changes there were. Downstream takes a state only if it follows on what it has, and only
if it reflects at least the same ticks: an upstream that came back from a checkpoint knows less for a while.

Such an upstream may skip a state that it had told of in its earlier life, a row that was there for a moment, and then
never speak of that row again. Downstream takes such a row as not there so far, and as gone for good once no unknown
tick could bring it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tocsin.views.broker.messages import Increment, Known, Place, Question, Selective
from tocsin.views.broker.spared import Sieve, Verdict
from tocsin.views.knowledge import Seconds
from tocsin.views.plan import Node
from tocsin.views.relation import Key, Row
from tocsin.views.ticks import Range, Ticks
from tocsin.views.value import Value, may_evolve, refined
from tocsin.views.window import Windows


@dataclass(slots=True)
class Reader:
    """What upstream knows of one who reads."""

    sent: int = 0
    durable: int = 0
    heard_at: Seconds | None = None
    looked: int = 0
    """Up to this version it was counted what is spared."""
    sieve: Sieve | None = None
    """What it needs, if it says so; then `told` is kept, too."""
    told: dict[Key, tuple[int, Row | None]] = field(default_factory=dict)
    """When each row was last sent, and how it was; None if that may have been lost, and an earlier state is there."""
    stale: set[Key] = field(default_factory=set)
    """Rows that changed since they were told."""
    hidden: set[Key] = field(default_factory=set)
    """Rows that it has not heard of."""

    def hear(self, question: Question) -> None:
        """Who asks again may have missed everything after its version."""
        self.durable = max(self.durable, question.durable)
        if question.wanted:
            self.sent = min(self.sent, question.version)
            late = [(key, version) for key, (version, _) in self.told.items() if version > question.version]
            self.told.update((key, (version, None)) for key, version in late)

    def restart(self) -> None:
        """Everything is sent, whatever it says that it needs: it may hold rows of another life of ours."""
        self.sent = 0
        self.told.clear()
        self.stale.clear()
        self.hidden.clear()

    def judge(self, row: Row) -> Verdict:
        """Whether it needs a row now; takes note of rows that it does not get."""
        self.stale.discard(row.key)
        self.hidden.discard(row.key)
        if self.sieve is None:
            return Verdict.SEND
        _, told = known = self.told.get(row.key, (0, None))
        is_unsure = known[0] > 0 and told is None
        verdict = Verdict.SEND if is_unsure else self.sieve.judge(row, told)
        if verdict is Verdict.HOLD:
            (self.hidden if told is None else self.stale).add(row.key)
        return verdict

    def take(self, rows: Iterable[Row], version: int) -> None:
        """These were sent."""
        self.sent = version
        if self.sieve is not None:
            self.told.update((row.key, (version, row)) for row in rows)


class Outlet:
    """Upstream's end."""

    def __init__(self, relation: int, epoch: int, readers: Iterable[str], is_history: bool) -> None:
        self.relation, self.epoch = relation, epoch
        self.version = 0
        self._rows: dict[Key, tuple[int, Row]] = {}  # in the order of their versions
        self._readers = {name: Reader() for name in readers}
        self._is_history = is_history
        self.spared = 0
        """Rows that were not sent because they were not needed, or not then."""

    def take(self, rows: Iterable[Row]) -> None:
        """A new version, in which these rows changed."""
        self.version += 1
        for row in rows:
            self._rows.pop(row.key, None)
            self._rows[row.key] = self.version, row

    def news(self, reader: str, known: Mapping[str, Ticks], is_quiet: bool, asked: bool = True) -> Increment | None:
        """What a reader has not been sent. Unless it has asked, nothing where all of it is spared."""
        state = self._readers[reader]
        if state.sent >= self.version:
            return None
        is_whole, rows, spared = state.sent == 0, list[Row](), False
        for version, row in reversed(self._rows.values()):
            if version <= state.sent:
                break
            verdict = state.judge(row)
            if is_whole or verdict is Verdict.SEND:
                rows.append(row)
            else:
                spared = True
                self.spared += version > state.looked
        state.looked = self.version
        if is_whole:
            state.restart()
        if spared and not rows and not asked:
            return None
        since, rows = state.sent, rows[::-1]
        state.take(rows, self.version)
        told: Known = tuple((source, tuple(ticks.ranges())) for source, ticks in known.items())
        is_quiet, reach = is_quiet and not state.hidden, None
        if state.sieve is not None and (state.hidden or state.stale):
            reach = state.sieve.reach
        return Increment(self.relation, self.epoch, since, self.version, tuple(rows), told, is_quiet, reach)

    def sift(self, reader: str, said: Selective | None, make: Callable[[Selective], Sieve]) -> bool:
        """A reader says what it needs. Whether it should hear of rows that were held back, or that none are."""
        state = self._readers[reader]
        if said is None:
            return False
        if self._is_history:
            for key in state.told.keys() - self._rows.keys():
                del state.told[key]  # it is safe there, and a row of a history does not change
        if state.sieve is None:
            self._restart(state)
            state.sieve = make(said)
        if not state.sieve.hear(said, (row for _, row in self._rows.values())):
            return False
        was_hidden = bool(state.hidden)
        held = [self._rows[key][1] for key in (*state.stale, *state.hidden)]
        wanted = [row for row in held if state.judge(row) is Verdict.SEND]
        if not wanted and bool(state.hidden) is was_hidden:
            return False
        self.take(wanted)
        return True

    def hear(self, reader: str, question: Question, now: Seconds) -> None:
        """Takes note of what a reader has, and forgets what nobody will ask for again."""
        state = self._readers[reader]
        state.heard_at = now
        if question.epoch != self.epoch:
            self._restart(state)
            return
        state.hear(question)
        if self._is_history:
            self._trim(min(one.durable for one in self._readers.values()))

    def _restart(self, state: Reader) -> None:
        """Rows that were held back are as good as new: who misses what is sent now asks for what is new only."""
        held = [self._rows[key][1] for key in (*state.stale, *state.hidden)]
        if held:
            self.take(held)
        state.restart()

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
        held = set[Key]().union(*(reader.hidden for reader in self._readers.values()))
        for key, (told, _) in self._rows.items():
            if told > version:
                break
            if key not in held:
                gone.append(key)
        for key in gone:
            del self._rows[key]

    def save(self) -> list[Row]:
        """For a checkpoint."""
        return [row for _, row in self._rows.values()]

    def load(self, rows: list[Row]) -> None:
        """After a restart everything is new to everybody."""
        self.take(rows)


def newer(before: Value, value: Value) -> Value:
    """Of two values that were said of the same thing, the one that says more."""
    if may_evolve(before, value):
        return value
    return before if may_evolve(value, before) else refined(before, value)


class Inlet:
    """Downstream's end."""

    columnar = False

    def __init__(self, relation: int, node: Node, sources: Iterable[str]) -> None:
        self.relation = relation
        self.known = {source: Ticks() for source in sources}
        self._is_history = node.history
        self._rows: dict[Key, Row] = {}  # each in the last state that was told
        self._orphans: set[Key] = set()  # told of by an earlier life of upstream, and not by this one
        self._windows = Windows(node.origins, self.known)
        self.epoch = self.version = self.durable = 0
        self.reach: Place | None = None
        """Rows that stand beyond this place may have changed since they were told of."""
        self._is_quiet = False
        self._heard_at: Seconds | None = None

    def is_quiet(self) -> bool:
        """What upstream said of itself."""
        return self._is_quiet

    def step(self, increments: Any, advance: Any) -> list[Row]:
        """Its rows come from upstream."""
        raise NotImplementedError

    def take(self, message: Increment, now: Seconds) -> tuple[list[Row], dict[str, list[Range]]] | None:
        """The changed rows and the ticks that became known, if the message is of use."""
        if message.epoch < self.epoch or (message.epoch == self.epoch and message.version <= self.version):
            return None
        is_new_life = message.epoch > self.epoch
        follows = message.since == 0 if is_new_life else message.since <= self.version
        told = {source: Ticks(ranges) for source, ranges in message.known}
        if not follows or not all(ticks <= told[source] for source, ticks in self.known.items()):
            return None
        if is_new_life:
            self.durable = 0  # versions of another life mean nothing
        self.epoch, self.version, self.reach = message.epoch, message.version, message.reach
        self._is_quiet = message.is_quiet
        self._heard_at = now
        advance = {
            source: [part for first, last in ticks.ranges() for part in self.known[source].add(first, last)]
            for source, ticks in told.items()
        }
        if self._is_history:
            return list(message.rows), advance
        fresh = {row.key for row in message.rows}
        rows = [row for row in map(self._newer, message.rows) if self._rows.get(row.key) != row]
        return rows + self._bereaved(fresh, rows, is_new_life, advance), advance

    def _newer(self, row: Row) -> Row:
        """A row as it is known now: what was said for certain is not unsaid by one who has forgotten it."""
        before = self._rows.get(row.key)
        if before is None:
            return row
        cells = tuple(map(newer, before.cells, row.cells))
        return Row(row.key, cells, newer(before.present, row.present))

    def _bereaved(
        self, fresh: set[Key], told: Iterable[Row], is_new_life: bool, advance: dict[str, list[Range]]
    ) -> list[Row]:
        """Rows of which upstream does not speak any more."""
        changed: dict[Key, Row] = {}
        self._orphans -= fresh
        if is_new_life:
            for key in [key for key, row in self._rows.items() if key not in fresh and row.present is not True]:
                self._orphans.add(key)
                self._windows.register(key, self._rows[key].cells)
                changed[key] = self._rows[key].absent(final=False)
        self._rows.update((row.key, row) for row in told)
        self._windows.touched(advance)
        if self._is_quiet:
            gone = [key for key in self._orphans if self._windows.is_complete(key)]
            changed.update((key, self._rows[key].absent(final=True)) for key in gone)
            self._orphans.difference_update(gone)
        self._rows.update(changed)
        return list(changed.values())

    def is_ahead(self, message: Increment) -> bool:
        """Whether something between what is here and the message is missing."""
        return message.epoch > self.epoch or message.since > self.version

    def question(self, wanted: bool, selective: Selective | None = None) -> Question:
        """What to tell upstream."""
        return Question(self.relation, self.epoch, self.version, self.durable, wanted, selective)

    def is_stalled(self, before: Seconds) -> bool:
        """Whether nothing of use came after a time."""
        return self._heard_at is None or self._heard_at < before

    def save(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "known": {source: ticks.ranges() for source, ticks in self.known.items()},
            "epoch": self.epoch, "version": self.version, "quiet": self._is_quiet, "reach": self.reach,
            "rows": dict(self._rows), "orphans": set(self._orphans),
        }  # fmt: skip

    def load(self, saved: dict[str, Any]) -> None:
        """After a restart."""
        self.epoch, self.version, self._is_quiet = saved["epoch"], saved["version"], saved["quiet"]
        self.durable, self.reach = self.version, saved["reach"]
        for source, ranges in saved["known"].items():
            for first, last in ranges:
                self.known[source].add(first, last)
        self._rows, self._orphans = dict(saved["rows"]), set(saved["orphans"])
        for key in self._orphans:
            self._windows.register(key, self._rows[key].cells)
