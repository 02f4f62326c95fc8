"""A broker without I/O: it is given letters and the time, and says what should happen (relational subscriptions §3).

    publish(relation, values, now)   a publisher's event        -> effects
    handle(letter, now)              a letter of another broker -> effects
    wake(now)                        time has passed            -> effects

Every node that is placed here is an operator with the ticks that its rows reflect: of each source, those that all of
its inputs reflect. So each rests on what its own inputs have said, wherever they are, and no broker needs to know what
another one knows. A checkpoint holds all of that; what is in a checkpoint is acknowledged, and only that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, TypeAlias

from tocsin.views.broker.guards import guards_of
from tocsin.views.broker.links import Inlet, Outlet
from tocsin.views.broker.messages import Call, Effect, Increment, Letter, Question, Say, Show, Storage
from tocsin.views.broker.placement import Part
from tocsin.views.broker.shown import InOrder, Shown
from tocsin.views.broker.sources import HERE, Source, SourceInlet
from tocsin.views.broker.spared import sieve_of
from tocsin.views.engine import make_step
from tocsin.views.kept import load, save
from tocsin.views.knowledge import Cells, Curiosity, Knowledge, Seconds
from tocsin.views.plan import Group, Node, Plan, Relation
from tocsin.views.relation import Key, Row, Step
from tocsin.views.ticks import Range, Ticks
from tocsin.views.value import Value, refined

Advance: TypeAlias = dict[str, list[Range]]


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """How a broker behaves in time."""

    ticks_per_second: float = 10.0
    """How many ticks a source counts in a second."""
    patience_seconds: Seconds = 1.0
    """After this long without news a broker asks, and asks again."""
    checkpoint_seconds: Seconds = 5.0
    """Between two checkpoints, which are read before logs after a crash."""
    away_seconds: Seconds = 6.0
    """Nothing is pushed to a reader of whom nothing was heard for this long; it gets one state when it is back."""
    is_selective: bool = True
    """Tells upstream which rows are not needed, for good or for now."""
    spare_rows: int = 2
    """How many rows a best-k tracks beyond its k; it pulls when they are used up."""


DEFAULTS = BrokerSettings()


class Broker:
    """One broker in one life; what it remembers of earlier ones is on its disk."""

    def __init__(
        self, name: str, plan: Plan, part: Part, disk: Storage, *, now: Seconds = 0.0,
        settings: BrokerSettings = DEFAULTS, ordered: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.name, self.part, self.settings = name, part, settings
        self._disk = disk
        self._nodes = plan.nodes()
        numbers = {node: at for at, node in enumerate(self._nodes)}
        self._inputs = {at: tuple(numbers[one] for one in self._nodes[at].inputs) for at in part.computes}
        self._used = {one for found in self._inputs.values() for one in found} | set(part.views.values())
        self.epoch = int(disk.get("epoch") or 0) + 1
        disk.put("epoch", self.epoch)
        self.sources: dict[int, Source] = {}
        self.source_inlets: dict[int, SourceInlet] = {}
        self.inlets: dict[int, Inlet] = {}
        self._known: dict[int, Mapping[str, Ticks]] = {}
        self._steps: dict[int, Step] = {}
        self._make(now)
        guardable = set(self.inlets) - set(part.tells) - set(part.views.values()) if settings.is_selective else ()
        reaches = {at: partial(getattr, self.inlets[at], "reach") for at in guardable}
        self.guards = guards_of(self._nodes, self._inputs, self._steps, reaches, settings.spare_rows)
        derived = [at for at in part.tells if at not in self.sources and at not in self.source_inlets]
        self.outlets = {at: Outlet(at, self.epoch, part.tells[at], self._nodes[at].history) for at in derived}
        self._facts: dict[int, dict[Key, Row]] = {
            at: {} for at in part.computes if isinstance(self._nodes[at], Group)
        }  # fmt: skip
        self.views: dict[str, Shown] = {}
        for view, at in part.views.items():
            make = InOrder if view in ordered else Shown
            self.views[view] = make(view, self._nodes[at], self._known[at], disk)
        self._asked_at: dict[int, Seconds] = {}
        self._heard_at: dict[tuple[int, str], Seconds] = {}
        self._checkpoint_at = now
        self.is_from_checkpoint = self._recover()

    def _make(self, now: Seconds) -> None:
        part = self.part
        for at in part.hosts:
            self.sources[at] = Source(self._relation(at), part.tells.get(at, ()), at in self._used, self._disk)
            self._known[at], self._steps[at] = self.sources[at].known, self.sources[at]
        for at in part.reads:
            node = self._nodes[at]
            if isinstance(node, Relation):
                made = SourceInlet(
                    node, part.tells.get(at, ()), at in self._used, self.settings.patience_seconds, now
                )  # fmt: skip
                self.source_inlets[at], self._known[at], self._steps[at] = made, made.known, made
            else:
                inlet = self.inlets[at] = Inlet(at, node, sources_of(node))
                self._known[at], self._steps[at] = inlet.known, inlet
        for at in part.computes:
            known = self._known[at] = {source: Ticks() for source in sources_of(self._nodes[at])}
            self._steps[at] = make_step(self._nodes[at], [self._steps[one] for one in self._inputs[at]], known)

    def _relation(self, at: int) -> Relation:
        node = self._nodes[at]
        assert isinstance(node, Relation)
        return node

    # --- what happens ------------------------------------------------------------------------------------------------

    def start(self, now: Seconds) -> list[Effect]:
        """It begins, or begins again: first with what is here, then by asking."""
        made: dict[int, list[Row]] = {}
        advance: dict[int, Advance] = {}
        for at, source in self.sources.items():
            rows, new = source.learn() if at in self._used else ([], [])
            made[at], advance[at] = rows, {source.name: new}
        first = not self.is_from_checkpoint
        return [*self._flow(made, advance, now, first=first), *self._ask(now), self._call(now)]

    def publish(self, relation: str, values: Cells, now: Seconds) -> list[Effect]:
        """An event of a publisher; the cells without the tick, which is given here."""
        source = self._source(relation)
        return self._said(source, source.publish(values, self._clock(now)), now)

    def close(self, relation: str, now: Seconds) -> list[Effect]:
        """A publisher says that nothing will happen any more."""
        source = self._source(relation)
        return self._said(source, source.close(), now)

    def handle(self, letter: Letter, now: Seconds) -> list[Effect]:
        """A letter came."""
        body, sender = letter.body, letter.sender
        if isinstance(body, Knowledge):
            return self._learn(body, now)
        if isinstance(body, Curiosity):
            return self._satisfy(body, sender, now)
        if isinstance(body, Increment):
            return self._take(body, sender, now)
        return self._answer(body, sender, now)

    def wake(self, now: Seconds) -> list[Effect]:
        """Time has passed: silence, checkpoint, questions."""
        effects: list[Effect] = []
        for source in self.sources.values():
            silence = None if source.is_closed() else source.silence(self._clock(now))
            if silence is not None:
                effects += self._said(source, silence, now)
        if now >= self._checkpoint_at + self.settings.checkpoint_seconds:
            self._checkpoint_at = now
            self.checkpoint()
        return [*effects, *self._ask(now), self._call(now)]

    def _call(self, now: Seconds) -> Call:
        return Call(now + self.settings.patience_seconds)

    def _clock(self, now: Seconds) -> int:
        return max(0, int(now * self.settings.ticks_per_second))

    def _source(self, relation: str) -> Source:
        return next(source for source in self.sources.values() if source.name == relation)

    def _number(self, relation: str) -> int:
        return next(at for at, node in enumerate(self._nodes) if isinstance(node, Relation) and node.name == relation)

    # --- source relations --------------------------------------------------------------------------------------------

    def _said(self, source: Source, knowledge: Knowledge, now: Seconds) -> list[Effect]:
        at = self._number(source.name)
        effects = self._push(at, [knowledge], now)
        if at in self._used:
            rows, new = source.learn()
            effects += self._flow({at: rows}, {at: {source.name: new}}, now)
        return effects

    def _learn(self, knowledge: Knowledge, now: Seconds) -> list[Effect]:
        at = self._number(knowledge.relation)
        inlet = self.source_inlets[at]
        taken = inlet.take(knowledge, now)
        effects: list[Effect] = []
        if taken.question is not None:
            effects.append(self._say(self.part.reads[at], taken.question))
        if taken.is_news:
            effects += self._push(at, [knowledge], now)
        if taken.new and at in self._used:
            effects += self._flow({at: taken.rows}, {at: {inlet.name: taken.new}}, now)
        return effects

    def _satisfy(self, curiosity: Curiosity, sender: str, now: Seconds) -> list[Effect]:
        at = self._number(curiosity.relation)
        self._heard_at[at, sender] = now
        if at in self.sources:
            said = self.sources[at].handle(curiosity, sender)
        else:
            said = self.source_inlets[at].hear(curiosity, sender)
        return [self._say(sender, one) for one in said]

    def _push(self, at: int, said: Sequence[Knowledge], now: Seconds) -> list[Effect]:
        since = now - self.settings.away_seconds
        here = [one for one in self.part.tells.get(at, ()) if self._heard_at.get((at, one), since - 1) >= since]
        return [self._say(reader, one) for reader in here for one in said]

    # --- derived relations -------------------------------------------------------------------------------------------

    def _take(self, message: Increment, sender: str, now: Seconds) -> list[Effect]:
        at = message.relation
        inlet = self.inlets[at]
        ahead = inlet.is_ahead(message)
        taken = inlet.take(message, now)
        if taken is None:
            patient = now < self._asked_at.get(at, -inf) + self.settings.patience_seconds
            if not ahead or patient:
                return []
            self._asked_at[at] = now
            return [self._say(sender, self._question(at, wanted=True))]
        rows, new = taken
        return self._flow({at: rows}, {at: new}, now)

    def _answer(self, question: Question, sender: str, now: Seconds) -> list[Effect]:
        at = question.relation
        outlet = self.outlets[at]
        outlet.hear(sender, question, now)
        is_news = outlet.sift(sender, question.selective, partial(sieve_of, self._nodes, at))
        return self._news(at, [sender]) if question.wanted or is_news else []

    def _news(self, at: int, readers: Iterable[str], asked: bool = True) -> list[Effect]:
        effects: list[Effect] = []
        for reader in readers:
            news = self.outlets[at].news(reader, self._known[at], self._steps[at].is_quiet(), asked)
            if news is not None:
                effects.append(self._say(reader, news))
        return effects

    def _ask(self, now: Seconds) -> list[Effect]:
        """Positive curiosity where nothing came for a while; negative for what is safe here."""
        stalled = now - self.settings.patience_seconds
        effects: list[Effect] = []
        for at, inlet in self.inlets.items():
            effects.append(self._say(self.part.reads[at], self._question(at, inlet.is_stalled(stalled))))
        for at, source in self.source_inlets.items():
            effects.append(self._say(self.part.reads[at], source.question(now)))
        return effects

    def _question(self, at: int, wanted: bool) -> Question:
        guard = self.guards.get(at)
        return self.inlets[at].question(wanted, None if guard is None else guard.selective())

    def _say(self, to: str, body: Any) -> Say:
        return Say(to, Letter(self.name, body))

    # --- the flow ----------------------------------------------------------------------------------------------------

    def _flow(
        self, made: dict[int, list[Row]], advance: dict[int, Advance], now: Seconds, first: bool = False
    ) -> list[Effect]:
        """Lets what changed run once through the operators here, then tells readers and subscribers."""
        for at in self.part.computes:
            inputs = self._inputs[at]
            if not first and not any(one in made for one in inputs):
                continue
            advance[at] = self._new_ticks(at, advance)
            rows = self._steps[at].step([made.get(one, []) for one in inputs], advance[at])
            made[at] = self._with_facts(at, rows)
        effects: list[Effect] = []
        for at, guard in self.guards.items():
            if guard.see(made.get(guard.decides, ())):
                effects.append(self._say(self.part.reads[at], self._question(at, wanted=False)))
        for at, rows in made.items():
            if at in self.outlets:
                self.outlets[at].take(rows)
                since = now - self.settings.away_seconds
                heard = [reader for reader in self.part.tells[at] if self.outlets[at].is_heard(reader, since)]
                effects += self._news(at, heard, asked=False)
        for view, at in self.part.views.items():
            if at in made:
                effects += [Show(view, row) for row in self.views[view].take(made[at])]
        return effects

    def _new_ticks(self, at: int, advance: Mapping[int, Advance]) -> Advance:
        """Of each source the ticks that are now reflected by every input that reads it."""
        found: Advance = {}
        for one in self._inputs[at]:
            for source, ranges in advance.get(one, {}).items():
                others = [self._known[other][source] for other in self._inputs[at] if source in self._known[other]]
                for first, last in ranges:
                    for start, end in common(others, first, last):
                        new = self._known[at][source]
                        found.setdefault(source, []).extend(new.add(start, end))
        return {source: ranges for source, ranges in found.items() if ranges}

    def _with_facts(self, at: int, rows: list[Row]) -> list[Row]:
        """What was said of a group stays true: where one input is ahead of another, a count has two bounds to meet."""
        facts = self._facts.get(at)
        if facts is None:
            return rows
        told = []
        for row in rows:
            before = facts.get(row.key)
            cells: tuple[Value, ...] = row.cells if before is None else tuple(map(refined, before.cells, row.cells))
            facts[row.key] = row._replace(cells=cells)
            told.append(facts[row.key])
        return told

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Everything that is known here becomes safe, and may be forgotten upstream."""
        self._disk.put("checkpoint", {
            "inlets": {at: inlet.save() for at, inlet in self.inlets.items()},
            "sources": {at: one.known[one.name].ranges() for at, one in self._source_ends() if at in self._used},
            "known": {at: {s: ticks.ranges() for s, ticks in self._known[at].items()} for at in self.part.computes},
            "steps": {at: save(self._steps[at]) for at in self.part.computes},
            "outlets": {at: outlet.save() for at, outlet in self.outlets.items()},
            "facts": {at: dict(facts) for at, facts in self._facts.items()},
            "views": {view: shown.save() for view, shown in self.views.items()},
            "guards": {at: guard.save() for at, guard in self.guards.items()},
        })  # fmt: skip
        for inlet in self.inlets.values():
            inlet.durable = inlet.version
        for at, one in self._source_ends():
            if at in self._used:
                safe = one.known[one.name].horizon()
                if isinstance(one, SourceInlet):
                    one.settle(HERE, safe)
                else:
                    one.handle(Curiosity(one.name, (), safe), HERE)

    def _source_ends(self) -> list[tuple[int, Source | SourceInlet]]:
        return [*self.sources.items(), *self.source_inlets.items()]

    def _recover(self) -> bool:
        """Reads the checkpoint, if there is one: the logs of publishers are the last resort, not the first."""
        kept = self._disk.get("checkpoint")
        if kept is None:
            return False
        for at, saved in kept["inlets"].items():
            self.inlets[at].load(saved)
        for at, one in self._source_ends():
            if at in self._used:
                one.load(kept["sources"][at])
        for at in self.part.computes:
            for source, ranges in kept["known"][at].items():
                for first, last in ranges:
                    self._known[at][source].add(first, last)
            load(self._steps[at], kept["steps"][at])
        for at, rows in kept["outlets"].items():
            self.outlets[at].load(rows)
        self._facts.update({at: dict(facts) for at, facts in kept["facts"].items()})
        for view, saved in kept["views"].items():
            self.views[view].load(saved)
        for at, saved in kept["guards"].items():
            self.guards[at].load(saved)
        return True


def common(sets: Sequence[Ticks], first: int, last: int) -> list[Range]:
    """The ranges of first..last that are in all of the sets."""
    ranges = [(first, last)]
    for ticks in sets:
        inside = Ticks()
        for start, end in ranges:
            gaps = Ticks(ticks.missing(start, end))
            for low, high in gaps.missing(start, end):
                inside.add(low, high)
        ranges = inside.ranges()
    return ranges


def sources_of(node: Node) -> frozenset[str]:
    """The relations that a node is derived from."""
    if isinstance(node, Relation):
        return frozenset([node.name])
    return frozenset().union(*(sources_of(part) for part in node.inputs))
