"""Views across brokers under trouble: what must never be seen, and what must be seen once the faults are over.

Any views, placed anywhere, on brokers that crash and come back, with clocks that disagree, over links that lose,
repeat, reorder and break. While that lasts nothing false may be seen (relational subscriptions §2.5):

    false       a subscriber was told something that the final state does not follow from
    back        a subscriber was told something that what it was told before cannot evolve to

Then the sources close and everything heals:

    missing     a subscriber does not see what one process computes of the same events
    kept        a log was not trimmed though everyone has acknowledged
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tocsin.overlay.node import Deliver, Effect, Seconds, Send, Token, Wake
from tocsin.sim.faults import FaultLimits, Faults, draw_faults
from tocsin.sim.world import Disk, World
from tocsin.views.broker import messages
from tocsin.views.broker.broker import Broker, BrokerSettings
from tocsin.views.broker.placement import Part, Placement, parts
from tocsin.views.engine import Engine
from tocsin.views.events import Closed, Event, Item
from tocsin.views.knowledge import Cells
from tocsin.views.plan import Plan
from tocsin.views.relation import Key, Row
from tocsin.views.ticks import FIRST_TICK, LAST_TICK
from tocsin.views.value import may_evolve

LIMITS = FaultLimits(
    loss_max=0.3, duplication_max=0.3, delayed_max=0.3, delay_seconds_max=4.0, crashes_max=4, crash_gap_seconds=0.5,
    slow_max=0, joins_max=0, leaves_max=0,
)  # fmt: skip
SETTINGS = BrokerSettings(ticks_per_second=2.0, checkpoint_seconds=3.0)
Make = Callable[..., Broker]


class PickledDisk:
    """Stable storage of one broker: what is put is copied, as a real disk would."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.reads: list[str] = []

    def get(self, name: str) -> Any | None:
        """What was put under a name."""
        self.reads.append(name)
        data = self._disk.get(name.encode())
        return None if data is None else pickle.loads(data)

    def put(self, name: str, value: Any) -> None:
        """Keeps a value."""
        self._disk[name.encode()] = pickle.dumps(value)

    def remove(self, name: str) -> None:
        """Forgets it."""
        del self._disk[name.encode()]

    def names(self, prefix: str) -> list[str]:
        """The names that begin like this."""
        return [name.decode() for name in self._disk if name.startswith(prefix.encode())]


class BrokerProcess:
    """A broker as something that the world can run."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def start(self, now: Seconds) -> list[Effect]:
        """It begins."""
        return translated(self.broker.start(now))

    def handle(self, letter: Any, now: Seconds, /) -> list[Effect]:
        """A letter came."""
        return translated(self.broker.handle(letter, now))

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Time has passed."""
        return translated(self.broker.wake(now))


def translated(effects: Sequence[messages.Effect]) -> list[Effect]:
    """A broker's effects as the world's."""
    made: list[Effect] = []
    for effect in effects:
        if isinstance(effect, messages.Say):
            made.append(Send(effect.to, effect.letter))  # type: ignore[arg-type]
        elif isinstance(effect, messages.Show):
            made.append(Deliver(effect))
        else:
            made.append(Wake(effect.at, ()))
    return made


class BrokerWorld(World):
    """Brokers that run a plan."""

    def __init__(
        self, plan: Plan, placement: Placement, seed: int = 0, *, faults: Faults | None = None,
        settings: BrokerSettings = SETTINGS, make: Make = Broker,
    ) -> None:  # fmt: skip
        super().__init__(seed, faults=faults or Faults(), encode=lambda letter: b"", traces=False)
        self.plan, self.placement = plan, placement
        self.accepted: list[Event] = []
        self._settings, self._make = settings, make
        self.storages: dict[str, PickledDisk] = {}
        self._homes = {node.name: placement.homes[at] for at, node in enumerate(plan.nodes()) if not node.inputs}  # type: ignore[union-attr]
        for name, part in parts(plan, placement).items():
            self.add(name, self._factory(name, part))

    def _factory(self, name: str, part: Part) -> Callable[[Disk, int], BrokerProcess]:
        def make(disk: Disk, life: int) -> BrokerProcess:
            offset, drift = self.faults.skews.get(name, (0.0, 0.0))
            storage = self.storages[name] = PickledDisk(disk)
            clock = self.now * (1 + drift) + offset
            return BrokerProcess(self._make(
                name, self.plan, part, storage, now=clock, settings=self._settings, ordered=self.placement.ordered,
            ))  # fmt: skip

        return make

    def broker(self, name: str) -> Broker:
        """The broker of a name, in its present life."""
        found = self.process(name)
        assert isinstance(found, BrokerProcess)
        return found.broker

    def publish(self, relation: str, values: Cells) -> None:
        """A publisher's event, if its broker is up: else it was never accepted."""

        def call(process: BrokerProcess, now: Seconds) -> list[Effect]:
            source = next(one for one in process.broker.sources.values() if one.name == relation)
            effects = process.broker.publish(relation, values, now)
            tick = source.publisher.store.known.last()
            assert tick is not None
            at = self.plan.relations[relation].key[0]
            self.accepted.append(Event(relation, tick, (*values[:at], tick, *values[at:])))
            return translated(effects)

        self.invoke(self._homes[relation], call)

    def close(self, relation: str) -> None:
        """Nothing more of a relation."""
        self.invoke(self._homes[relation], lambda process, now: translated(process.broker.close(relation, now)))

    def recomputed(self) -> Engine:
        """What one process says of everything that was accepted."""
        engine = Engine(self.plan)
        items: list[Item] = [*self.accepted, *(Closed(name) for name in self.plan.relations)]
        engine.step(items)
        return engine


@dataclass(frozen=True, slots=True)
class BrokerScenario:
    """What is done on brokers while they are troubled."""

    publishers: int = 2
    intermediates: int = 2
    subscribers: int = 2
    fault_seconds: Seconds = 20.0
    heal_seconds: Seconds = 40.0
    events_per_relation: int = 14
    views_per_run: int = 5
    limits: FaultLimits = LIMITS


@dataclass(slots=True)
class BrokerOutcome:
    """What came of a run."""

    faults: Faults
    violations: list[str] = field(default_factory=list)
    shown: int = 0
    messages: int = 0
    accepted: int = 0

    def __str__(self) -> str:
        return "\n".join([str(self.faults), *self.violations])


def draw_placement(plan: Plan, scenario: BrokerScenario, chance: Random) -> Placement:
    """Every operator anywhere, some relations by way of a mirror."""
    publishers = [f"p{at}" for at in range(scenario.publishers)]
    middle = [f"m{at}" for at in range(scenario.intermediates)]
    hosts = [f"s{at}" for at in range(scenario.subscribers)]
    brokers = [*publishers, *middle, *hosts]
    nodes = plan.nodes()
    homes = {at: chance.choice(brokers if node.inputs else publishers) for at, node in enumerate(nodes)}
    watchers = {view: tuple(chance.sample(hosts, chance.randint(1, len(hosts)))) for view in plan.views}
    plain = parts(plan, Placement(homes, watchers))
    feeds = {}
    for broker, part in plain.items():
        for node in part.reads if broker not in middle else ():
            mirror = chance.choice(middle)
            if mirror != homes[node] and chance.random() < 0.3:
                feeds[node, broker] = mirror
    return Placement(homes, watchers, feeds)


Place = Callable[[Plan, BrokerScenario, Random], Placement]


class BrokerRun:
    """One run of a scenario under the faults of a seed."""

    def __init__(
        self, seed: int, plan: Plan, events: Mapping[str, Sequence[Cells]],
        scenario: BrokerScenario = BrokerScenario(), *,  # noqa: B008
        make: Make = Broker, place: Place = draw_placement,
    ) -> None:  # fmt: skip
        self.scenario = scenario
        chance = self.chance = Random(f"brokers {seed}")
        views = chance.sample(sorted(plan.views), min(len(plan.views), scenario.views_per_run))
        self.plan = Plan(plan.relations, {view: plan.views[view] for view in views})
        placement = place(self.plan, scenario, chance)
        names = sorted(parts(self.plan, placement))
        drawn = draw_faults(seed, names, scenario.fault_seconds, scenario.limits)
        crashes = tuple(replace(crash, keeps_disk=True) for crash in drawn.crashes)  # storage is stable by contract
        self.outcome = BrokerOutcome(replace(drawn, crashes=crashes))
        self.world = BrokerWorld(self.plan, placement, seed, faults=self.outcome.faults, make=make)
        self.events = events
        self.seen: dict[tuple[str, str, Key], list[tuple[int, Row]]] = {}

    def run(self) -> BrokerOutcome:
        """Both phases, then the checks."""
        world, scenario = self.world, self.scenario
        world.observe = self._observe
        world.schedule()
        for relation, events in self.events.items():
            for cells in events:
                at = self.chance.uniform(0, scenario.fault_seconds)
                world.at(at, lambda world, r=relation, c=cells: self.world.publish(r, c))  # type: ignore[misc]
            end = scenario.fault_seconds + self.chance.uniform(0, 3)
            world.at(end, lambda world, r=relation: self.world.close(r))  # type: ignore[misc]
        world.run(scenario.fault_seconds + scenario.heal_seconds)
        engine = world.recomputed()
        self._check_safety(engine)
        self._check_liveness(engine)
        self._check_logs()
        self.outcome.accepted = len(world.accepted)
        self.outcome.messages = sum(world.count()[0].values())
        return self.outcome

    def _wrong(self, kind: str, text: str) -> None:
        self.outcome.violations.append(f"{kind}: {text}")

    def _observe(self, now: Seconds, address: str, effect: Deliver) -> None:
        show = effect.what
        life = self.world.places[address].life
        told = self.seen.setdefault((address, show.view, show.row.key), [])
        if told and told[-1][0] == life and not row_may_evolve(told[-1][1], show.row):
            self._wrong("back", f"{address} saw {told[-1][1]} of {show.view}, then {show.row} at {now:.1f} s")
        told.append((life, show.row))
        self.outcome.shown += 1

    def _check_safety(self, engine: Engine) -> None:
        final = {view: engine.rows(view) for view in self.plan.views}
        for (address, view, key), told in self.seen.items():
            end = final[view].get(key)
            for _, row in told:
                if end is None and row.present is True:
                    self._wrong("false", f"{address} saw {row} of {view} for good, but it is not there in the end")
                if end is not None and not row_may_evolve(row, end):
                    self._wrong("false", f"{address} saw {row} of {view}, but it is {end} in the end")

    def _check_liveness(self, engine: Engine) -> None:
        for view, brokers in self.world.placement.watchers.items():
            wanted = engine.rows(view)
            for name in brokers:
                rows = self.world.broker(name).views[view].rows
                found = {key: row for key, row in rows.items() if row.is_shown()}
                if found != wanted:
                    extra = {key: row for key, row in found.items() if wanted.get(key) != row}
                    lost = [row for key, row in wanted.items() if key not in found]
                    self._wrong("missing", f"{name} sees of {view}: {extra}, and not {lost}")

    def _check_logs(self) -> None:
        for name, place in self.world.places.items():
            broker = self.world.broker(name)
            for source in broker.sources.values():
                held = len(source.publisher.store.events(FIRST_TICK, LAST_TICK))
                if held and place.is_up and source.has_readers():
                    self._wrong("kept", f"{name} still holds {held} events of {source.name}")


def row_may_evolve(row: Row, later: Row) -> bool:
    """Whether a row may be followed by another: its being there, and, where it is there, every cell."""
    if (row.present is False or row.present is True) and later.present is not row.present:
        return False
    if later.present is False or not row.is_shown():
        return True
    return all(map(may_evolve, row.cells, later.cells))


def run_brokers(
    seed: int, plan: Plan, events: Mapping[str, Sequence[Cells]],
    scenario: BrokerScenario = BrokerScenario(), make: Make = Broker,  # noqa: B008
) -> BrokerOutcome:  # fmt: skip
    """Runs a scenario under the faults of a seed; `violations` says what went wrong."""
    return BrokerRun(seed, plan, events, scenario, make=make).run()
