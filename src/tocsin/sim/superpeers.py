"""Super-peers and clients in the false world: a calm one to see what one step takes, and a troubled one with an oracle.

In the troubled one, clients subscribe, change their minds, publish, update, withdraw and move to other access points
with new addresses, while machines, links and clocks fail. What may never happen, and what must have happened when the
faults are over:

    missed     a document matches a subscription that stood when it was published, and the subscriber never heard
    wrong      a notice of a document that does not match, or of a subscription that had ended before
    twice      a notice entered an outbox a second time
    open       a publication that is not done, though everybody is back
    copies     a query, advertisement or document of a client at a super-peer that is not its access point any more
    listed     a one-time query does not find what matches now, or finds something else
    crossed    a notice crossed more or fewer links than lie between the two access points (only where nothing fails)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from tocsin.errors import QueryError
from tocsin.model import Document
from tocsin.overlay import message as codec
from tocsin.overlay.delivery import Notice, Notified
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver, Effect, Seconds
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.subscriber import Ended, Standing
from tocsin.overlay.placement.superpeers.client import Answer, Client, Fetched
from tocsin.overlay.placement.superpeers.filtering import standing_query
from tocsin.overlay.placement.superpeers.routes import client_of
from tocsin.overlay.placement.superpeers.sealing import CLEAR, Sealing
from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings
from tocsin.overlay.placement.superpeers.superpeer import SuperPeer
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.show import show
from tocsin.sim.faults import NO_FAULTS, FaultLimits, Faults, draw_faults
from tocsin.sim.workload import random_document, random_query
from tocsin.sim.world import World

Links = Mapping[Address, tuple[Address, ...]]
SETTINGS = SuperpeerSettings()
NO_KNOWLEDGE = Knowledge()
CALM_SECONDS = 1.9
"""Long enough for anything to be over, too short for anything to be said again."""


def graph_of(edges: list[tuple[int, int]]) -> dict[Address, tuple[Address, ...]]:
    """Super-peers s0, s1, … with these links."""
    links: dict[Address, set[Address]] = defaultdict(set)
    for one, other in edges:
        links[f"s{one}"].add(f"s{other}")
        links[f"s{other}"].add(f"s{one}")
    return {one: tuple(sorted(links[one])) for one in sorted(links)}


def random_graph(chance: Random, nodes: int, more: int) -> dict[Address, tuple[Address, ...]]:
    """A connected graph: a random tree, and so many more links, which make cycles."""
    edges = {(chance.randrange(one), one) for one in range(1, nodes)}
    for _ in range(more if nodes > 2 else 0):
        one, other = sorted(chance.sample(range(nodes), 2))
        edges.add((one, other))
    return graph_of(sorted(edges))


class Backbone:
    """A world with super-peers and clients in it: what both kinds of runs share."""

    def __init__(
        self,
        links: Links,
        *,
        settings: SuperpeerSettings = SETTINGS,
        knowledge: Knowledge = NO_KNOWLEDGE,
        seed: int = 0,
        traces: bool = False,
        sealing: Callable[[str], Sealing] = lambda name: CLEAR,
    ) -> None:
        """`sealing` gives each node its keys, by its name."""
        self.links, self.settings, self.knowledge, self.sealing = links, settings, knowledge, sealing
        self.world = World(seed, decode=codec.decode, traces=traces)
        self.addresses: dict[str, Address] = {}
        self._disks: dict[str, dict[bytes, bytes]] = {}
        self._moves: Counter[str] = Counter()
        for name in links:
            self.world.add(name, lambda disk, life, name=name: self._superpeer(name, disk, life))  # type: ignore[misc]

    def _superpeer(self, name: Address, disk: dict[bytes, bytes], life: int) -> SuperPeer:
        return SuperPeer(
            name, self.links[name], self.knowledge, settings=self.settings, sealing=self.sealing(name), disk=disk,
            life=life,
        )  # fmt: skip

    def superpeer(self, name: Address) -> SuperPeer:
        """A super-peer."""
        found: SuperPeer = self.world.process(name)
        return found

    def client(self, name: str) -> Client:
        """A client, wherever it is."""
        found: Client = self.world.process(self.addresses[name])
        return found

    def come(self, name: str, access: Address) -> None:
        """A client connects: for the first time, or again, with a new address and what it kept."""
        address = self.addresses[name] = f"{name}@h{self._moves[name]}:1"
        self._moves[name] += 1
        disk = self._disks.setdefault(name, {})

        def make(_: dict[bytes, bytes], life: int) -> Client:
            return Client(
                address, [access, *(one for one in self.links if one != access)], self.knowledge,
                settings=self.settings, sealing=self.sealing(name), disk=disk,
            )  # fmt: skip

        is_new = not disk
        self.world.add(address, make, machine=name)
        if not is_new:
            self.world.invoke(address, lambda client, now: client.connect(access, now))

    def vanish(self, name: str) -> None:
        """A client goes without a word."""
        place = self.world.places[self.addresses[name]]
        place.is_up = False
        place.life += 1
        self.world.remove(place.address)

    def is_up(self, name: str) -> bool:
        """Whether a client is there."""
        place = self.world.places.get(self.addresses[name])
        return place is not None and place.is_up

    def call(self, name: str, call: Callable[[Client, Seconds], list[Effect]]) -> None:
        """A client does something."""
        self.world.invoke(self.addresses[name], call)


class CalmBackbone(Backbone):
    """Nothing fails: each step ends before the next begins."""

    def __init__(self, links: Links, clients: Mapping[str, Address], **options: Any) -> None:
        super().__init__(links, **options)
        self.seen: list[tuple[Seconds, str, Deliver]] = []
        self.world.observe = lambda now, address, effect: self.seen.append((now, client_of(address), effect))
        self._before: Counter[str] = Counter()
        self.wait(6 * self.settings.probe_seconds)
        for name, access in clients.items():
            self.come(name, access)
        self.wait()
        self.spent()

    def wait(self, seconds: Seconds = CALM_SECONDS) -> None:
        """Lets everything happen."""
        self.world.run(self.world.now + seconds)

    def do(self, name: str, call: Callable[[Client, Seconds], list[Effect]]) -> None:
        """A client does something, and everything that follows happens."""
        self.call(name, call)
        self.wait()

    def subscribe(self, name: str, number: int, text: str) -> None:
        """A client subscribes."""
        self.do(name, lambda client, now: client.subscribe(number, text, now))

    def publish(self, name: str, document: Document, resource: bytes = b"") -> None:
        """A client publishes."""
        self.do(name, lambda client, now: client.publish(document, now, resource))

    def search(self, name: str, text: str) -> Answer:
        """What a one-time query finds."""
        self.do(name, lambda client, now: client.search(text, now))
        return next(
            effect.what for _, who, effect in reversed(self.seen) if who == name and isinstance(effect.what, Answer)
        )

    def fetched(self, name: str) -> list[bytes | None]:
        """The resources that a client has got."""
        return [effect.what.data for _, who, effect in self.seen if who == name and isinstance(effect.what, Fetched)]

    def notices(self, name: str | None = None) -> list[tuple[str, Notice, int]]:
        """Who was told what, over how many links, in order."""
        return [
            (who, effect.what.notice, effect.hops)
            for _, who, effect in self.seen
            if isinstance(effect.what, Notified) and name in (None, who)
        ]

    def spent(self) -> Counter[str]:
        """Messages by type since it was asked the last time; without probes."""
        now, _ = self.world.count()
        spent, self._before = now - self._before, now
        del spent["AreYouAlive"]
        return spent


# --- trouble ---------------------------------------------------------------------------------------------------------

LIMITS = FaultLimits(joins_max=0, leaves_max=0, crash_gap_seconds=3.0)


@dataclass(frozen=True, slots=True)
class SuperpeerScenario:
    """What is done while the backbone is troubled."""

    superpeers: int = 4
    more_links: int = 2
    clients: int = 4
    subscriptions: int = 6
    operations: int = 16
    fault_seconds: Seconds = 16.0
    heal_seconds: Seconds = 30.0
    limits: FaultLimits | None = LIMITS
    settings: SuperpeerSettings = SuperpeerSettings(probe_seconds=2.0, again_seconds=2.0, hold_seconds=6.0)
    query_depth: int = 2


@dataclass(slots=True)
class _Wish:
    """A query in force under a subscription for a while."""

    id: str
    number: int
    owner: str
    text: str
    version: int
    stood: Seconds | None = None
    ending: Seconds | None = None
    ended: Seconds | None = None


@dataclass(slots=True)
class _Sheet:
    """A document as it was published."""

    document: Document
    owner: str
    at: Seconds
    done: Seconds | None = None


@dataclass(slots=True)
class SuperpeerOutcome:
    """What came of a run."""

    faults: Faults
    violations: list[str] = field(default_factory=list)
    notices: int = 0
    due: int = 0
    published: int = 0
    moves: int = 0
    covered: int = 0
    pruned: int = 0
    found: int = 0
    trace: str = ""

    def __str__(self) -> str:
        return "\n".join([str(self.faults), *self.violations])


class SuperpeerRun(Backbone):
    """One run of a scenario under the faults of a seed."""

    def __init__(self, seed: int, scenario: SuperpeerScenario) -> None:
        self.scenario, self.chance = scenario, Random(f"superpeers {seed}")
        links = random_graph(self.chance, scenario.superpeers, self.chance.randint(0, scenario.more_links))
        super().__init__(links, settings=scenario.settings, seed=seed, traces=True)
        self.names = [f"c{number}" for number in range(scenario.clients)]
        machines = [*links, *self.names]
        faults = NO_FAULTS
        if scenario.limits is not None:
            faults = draw_faults(seed, machines, scenario.fault_seconds, scenario.limits)
            # A super-peer promises what is on its disk: it comes back with it.
            faults = replace(faults, crashes=tuple(replace(one, keeps_disk=True) for one in faults.crashes))
        self.outcome = SuperpeerOutcome(faults)
        self.rng = np.random.default_rng(seed)
        self.wishes: dict[str, list[_Wish]] = {}
        self.sheets: dict[tuple[str, int], _Sheet] = {}
        self.current: dict[str, Document] = {}
        self.heard: dict[str, set[tuple[str, str, int]]] = defaultdict(set)
        self.told: dict[tuple[str, str, int], Seconds] = {}
        self.answers: dict[tuple[str, int], Answer] = {}

    def run(self) -> SuperpeerOutcome:
        """Both phases, then the checks."""
        world, scenario = self.world, self.scenario
        world.observe = self._observe
        world.run(4.0)
        for name in self.names:
            self.come(name, self.chance.choice(list(self.links)))
        world.run(6.0)
        for _ in range(scenario.subscriptions):
            self._subscribe(world)
        start = 9.0
        world.run(start)
        world.trouble(self.outcome.faults.shifted(start))
        world.schedule()
        for _ in range(scenario.operations):
            world.at(start + self.chance.uniform(0, scenario.fault_seconds), self._operate)
        world.run(start + scenario.fault_seconds + scenario.heal_seconds)
        self._check_notices()
        self._check_copies()
        self._check_listed()
        self.outcome.covered = sum(self.superpeer(one).filtering.covered for one in self.links)
        self.outcome.pruned = sum(self.superpeer(one).one_time.pruned for one in self.links)
        self.outcome.trace = world.trace()
        return self.outcome

    # --- what is done ------------------------------------------------------------------------------------------------

    def _operate(self, world: World) -> None:
        kind = self.chance.random()
        if kind < 0.55:
            self._publish(world)
        elif kind < 0.65:
            self._subscribe(world)
        elif kind < 0.78:
            self._change(world)
        elif kind < 0.85:
            self._withdraw(world)
        else:
            self._move()

    def _query(self) -> str:
        """Half of the time a narrower form of a query that is there, so that some cover others."""
        before = [wishes[-1].text for wishes in self.wishes.values() if wishes[-1].ending is None]
        while True:
            text = show(random_query(self.rng, self.scenario.query_depth, nested=False, subscription=True))
            if before and self.chance.random() < 0.5:
                text = f"({self.chance.choice(before)}) AND ({text})"
            try:
                standing_query(text, self.knowledge)
            except QueryError:
                continue
            return text

    def _subscribe(self, world: World) -> None:
        owner = self.chance.choice(self.names)
        if self.is_up(owner):
            self._wish(owner, self.chance.getrandbits(63), 1)

    def _wish(self, owner: str, number: int, version: int) -> None:
        text, id = self._query(), self.client(owner).query_id(number)
        self.wishes.setdefault(id, []).append(_Wish(id, number, owner, text, version))
        self.call(owner, lambda client, now: client.subscribe(number, text, now))

    def _change(self, world: World) -> None:
        """Another query under the same name, or the end, or after that another beginning."""
        wish = self.chance.choice([wishes[-1] for wishes in self.wishes.values()])
        if wish.ended is not None and self.is_up(wish.owner):
            self._wish(wish.owner, wish.number, wish.version + 2)  # it was paused: its end was a version too
            return
        if wish.stood is None or wish.ending is not None or not self.is_up(wish.owner):
            return
        wish.ending = world.now
        if self.chance.random() < 0.5:
            self._wish(wish.owner, wish.number, wish.version + 1)
        else:
            self.call(wish.owner, lambda client, now: client.unsubscribe(wish.number, now))

    def _mine(self, owner: str) -> list[str]:
        return [id for id, document in self.current.items() if self.sheets[id, document.version].owner == owner]

    def _publish(self, world: World) -> None:
        owner = self.chance.choice(self.names)
        if not self.is_up(owner):
            return
        mine = self._mine(owner)
        document = random_document(self.rng, len(self.sheets))
        if mine and self.chance.random() < 0.25:
            before = self.current[self.chance.choice(mine)]
            document = Document(before.id, document.fields, document.source, document.time, before.version + 1)
        self.current[document.id] = document
        self.sheets[document.id, document.version] = _Sheet(document, owner, world.now)
        self.call(owner, lambda client, now: client.publish(document, now))

    def _withdraw(self, world: World) -> None:
        owner = self.chance.choice(self.names)
        if self.is_up(owner) and (mine := self._mine(owner)):
            id = self.chance.choice(mine)
            del self.current[id]
            self.call(owner, lambda client, now: client.withdraw(id, now))

    def _move(self) -> None:
        """Goes without a word, and comes back elsewhere at another address."""
        name = self.chance.choice(self.names)
        if self.is_up(name):
            self.vanish(name)
            self.outcome.moves += 1
            self.come(name, self.chance.choice(list(self.links)))

    # --- what is seen ------------------------------------------------------------------------------------------------

    def _wrong(self, kind: str, text: str) -> None:
        self.outcome.violations.append(f"{kind}: {text} (at {self.world.now:.1f} s)")

    def _observe(self, now: Seconds, address: Address, effect: Deliver) -> None:
        name = client_of(address)
        match effect.what:
            case Notified(_, notice):
                self.outcome.notices += 1
                if notice.name in self.heard[name]:
                    self._wrong("twice", f"{name} had {notice}")
                self.heard[name].add(notice.name)
                self._check_right(name, notice)
                self.told.setdefault(notice.name, now)
            case Standing(id, version):
                for wish in self.wishes[id]:
                    if wish.version == version:
                        wish.stood = wish.stood or now
                    elif wish.version < version:
                        wish.ended = wish.ended or now
            case Ended(id):
                self.wishes[id][-1].ended = now
            case Published(id, version):
                sheet = self.sheets[id, version]
                sheet.done = sheet.done or now
            case Answer() as answer:
                self.answers[name, answer.number] = answer

    def _check_right(self, name: str, notice: Notice) -> None:
        sheet = self.sheets.get((notice.document, notice.version))
        if sheet is None or client_of(notice.link) != sheet.owner:
            self._wrong("wrong", f"{notice} was never published there")
            return
        for wish in self.wishes.get(notice.subscription, ()):
            in_force = wish.ended is None or wish.ended >= sheet.at
            if wish.owner == name and in_force and self._holds(wish.text, sheet.document):
                return
        self._wrong("wrong", f"{notice}: no query in force matches")

    def _holds(self, text: str, document: Document) -> bool:
        return holds(standing_query(text, self.knowledge), document, self.knowledge)

    # --- the checks --------------------------------------------------------------------------------------------------

    def _check_notices(self) -> None:
        outcome = self.outcome
        for sheet in self.sheets.values():
            outcome.published += sheet.done is not None
            if sheet.done is None:
                self._wrong("open", f"{sheet.document.id} {sheet.document.version} of {sheet.owner}")
                continue
            for wish in (wish for wishes in self.wishes.values() for wish in wishes):
                stood = wish.stood is not None and wish.stood < sheet.at
                # What is stored for a client that is away, it does not want any more once it ended the subscription.
                stayed = wish.ending is None or (self.scenario.limits is None and wish.ending > sheet.done)
                if stood and stayed and self._holds(wish.text, sheet.document):
                    outcome.due += 1
                    if (wish.id, sheet.document.id, sheet.document.version) not in self.told:
                        self._wrong("missed", f"{wish} by {sheet}")
        for wishes in self.wishes.values():
            if wishes[-1].stood is None and wishes[-1].ending is None:
                self._wrong("open", f"{wishes[-1]} does not stand")

    def _check_copies(self) -> None:
        """Everything of a client is at its access point, and nowhere else."""
        for place in self.links:
            superpeer = self.superpeer(place)
            for name, record in superpeer.desk.records.items():
                if self.client(name).access != place:
                    self._wrong("copies", f"{record} at {place}")
            ended = {wishes[-1].id for wishes in self.wishes.values() if wishes[-1].ended is not None}
            for id in ended & set(superpeer.filtering.poset):
                self._wrong("copies", f"{id} at {place}")

    def _check_listed(self) -> None:
        """One-time queries find what matches now."""
        texts = sorted({wishes[-1].text for wishes in self.wishes.values()})[:6]
        asked: dict[str, tuple[str, int]] = {}
        for text in texts:
            name = self.chance.choice(self.names)
            self.call(name, lambda client, now, text=text: client.search(text, now))  # type: ignore[misc]
            asked[text] = name, self.client(name).last_number
        self.world.run(self.world.now + 3)
        for text, key in asked.items():
            expected = {(one.id, one.version) for one in self.current.values() if self._holds(text, one)}
            answer = self.answers.get(key)
            found = set() if answer is None else {(one.id, one.version) for one in answer.documents}
            self.outcome.found += len(found)
            if answer is None or answer.missing or found != expected:
                less, more = sorted(expected - found), sorted(found - expected)
                self._wrong("listed", f"{text}: {less} missing, {more} too many, {answer and answer.missing} silent")


def run_superpeers(seed: int, scenario: SuperpeerScenario | None = None) -> SuperpeerOutcome:
    """Runs a scenario under the faults of a seed; `violations` says what went wrong."""
    return SuperpeerRun(seed, scenario or SuperpeerScenario()).run()
