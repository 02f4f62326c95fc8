"""What a placement must never do, and what it must have done once the faults are over.

Nodes subscribe, change their minds, publish, update and withdraw, while machines, links and clocks fail. The oracle
(`query.semantics.holds`) says what should have come of it:

    missed       a document matches a subscription that stood when it was published, and the subscriber never heard
    wrong        a notice of a document that does not match, or of a subscription that had ended before
    twice        a notice entered an outbox a second time
    early        a publication was called done before somebody whom it concerns had heard
    open         a publication that is not done, though its publisher lives
    copies       an entry of a subscription that ended is still at some home
    listed       a one-time query does not find what matches now, or finds something else

A node that lost its disk has forgotten what it wanted and what it published: nothing is missed there, but nothing may
be wrong or come twice, and what had been done stays done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from tocsin.match.rendezvous.notification import Notification
from tocsin.match.rendezvous.payload import Join
from tocsin.model import Document
from tocsin.overlay import message as codec
from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.delivery import Notified
from tocsin.overlay.member import CHORD, Member
from tocsin.overlay.message import Address
from tocsin.overlay.multicast import MulticastSettings
from tocsin.overlay.node import Deliver, Seconds
from tocsin.overlay.placement.client import Client
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.entry import QUERY_KIND, Disjunction, Mode, entry_of
from tocsin.overlay.placement.library import Answer
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.overlay.placement.subscriber import Ended, Standing
from tocsin.overlay.placement.words import EVERY_ROLE, Roles, Words
from tocsin.query.ast import Query
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.show import show
from tocsin.query.standing import parse_subscription
from tocsin.sim.faults import LIMITS, NO_FAULTS, FaultLimits, Faults, Machine, draw_faults
from tocsin.sim.workload import random_document, random_query
from tocsin.sim.world import World

WordsFactory = Callable[..., Words]
ROLES = ("publisher", "subscriber")


class Site(Member):
    """A router with a placement on it."""

    words: Words


class Visitor(Client):
    """A client with a placement on it."""

    words: Words


@dataclass(frozen=True, slots=True)
class PlacementScenario:
    """What is done while the ring is troubled."""

    routers: int = 8
    clients: int = 0
    roles: tuple[Roles, ...] = (EVERY_ROLE,)
    """Given to the nodes in turn."""
    settings: PlacementSettings = PlacementSettings()
    knowledge: Knowledge = field(default_factory=Knowledge)
    subscriptions: int = 20
    operations: int = 40
    """Publications and changes, spread over the time of the faults."""
    fault_seconds: Seconds = 40.0
    heal_seconds: Seconds = 90.0
    """A neighbour is missed after 5 s, doubted for 60 s, and what waited for it is told again after 15 s at most."""
    limits: FaultLimits | None = LIMITS
    """None: no faults at all."""
    chord: ChordSettings = CHORD
    multicast: MulticastSettings = MulticastSettings()
    query_depth: int = 2
    through_codec: bool = True
    """Every message is encoded and decoded; else receivers get what was sent."""
    join_seconds: Seconds = 25.0
    """After the last node has joined, before anything is done."""


BRISK = PlacementScenario(
    routers=6,
    subscriptions=10,
    operations=16,
    fault_seconds=16.0,
    heal_seconds=40.0,
    limits=replace(LIMITS, crash_gap_seconds=10.0, joins_max=2, leaves_max=1, delay_seconds_max=2.0),
    chord=replace(CHORD, fingers_per_tick=1, suspicion_seconds=5.0, doubt_seconds=20.0),
    join_seconds=12.0,
)
"""A small ring and a short time: for many seeds. As in a large one, all kinds of faults meet all kinds of work."""


@dataclass(slots=True)
class _Wish:
    """A query in force under a subscription for a while."""

    id: str
    owner: Address
    text: str
    asked: Seconds
    version: int
    stood: Seconds | None = None
    ending: Seconds | None = None  # it was changed or ended from here on
    ended: Seconds | None = None
    is_forgotten: bool = False


@dataclass(slots=True)
class _Sheet:
    """A document as it was published."""

    document: Document
    owner: Address
    at: Seconds
    done: Seconds | None = None
    is_forgotten: bool = False


@dataclass(slots=True)
class PlacementOutcome:
    """What came of a run."""

    faults: Faults
    violations: list[str] = field(default_factory=list)
    notices: int = 0
    due: int = 0
    published: int = 0
    trace: str = ""

    def __str__(self) -> str:
        return "\n".join([str(self.faults), *self.violations])


class PlacementRun:
    """One run of a scenario under the faults of a seed."""

    def __init__(self, seed: int, scenario: PlacementScenario, words: WordsFactory = Words) -> None:
        self.seed, self.scenario, self.words = seed, scenario, words
        self.routers = [f"m{number}" for number in range(scenario.routers)]
        self.clients = [f"c{number}" for number in range(scenario.clients)]
        machines = [*self.routers, *self.clients]
        faults = (
            Faults(seed, scenario.fault_seconds)
            if scenario.limits is None
            else draw_faults(seed, machines, scenario.fault_seconds, scenario.limits)
        )
        gone = {machine for _, machine in faults.leaves}
        self.outcome = PlacementOutcome(faults)
        self.world = World(seed, faults=NO_FAULTS, decode=codec.decode if scenario.through_codec else None)
        self.chance = Random(f"placement {seed}")
        self.rng = np.random.default_rng(seed)
        self.roles = {
            address: scenario.roles[number % len(scenario.roles)] for number, address in enumerate(machines)
        }  # fmt: skip
        if not all(any(getattr(self.roles[one], role) for one in machines if one not in gone) for role in ROLES):
            self.roles[machines[0]] = EVERY_ROLE  # the first never leaves; somebody must publish, and somebody hear
        self.publishers = [one for one in machines if self.roles[one].publisher and one not in gone]
        self.subscribers = [one for one in machines if self.roles[one].subscriber and one not in gone]
        self.wishes: dict[str, list[_Wish]] = {}
        self.queries: dict[str, Query] = {}
        self.sheets: dict[tuple[str, int], _Sheet] = {}
        self.current: dict[str, Document] = {}
        self.heard: dict[tuple[Address, int], list[tuple[str, str, int]]] = defaultdict(list)
        self.told: dict[tuple[str, str, int], Seconds] = {}
        self.answers: dict[tuple[Address, int], Answer] = {}
        self.disk_lives: defaultdict[Address, int] = defaultdict(int)

    # --- the nodes ---------------------------------------------------------------------------------------------------

    def _site(self, address: Address, disk: dict[bytes, bytes], life: int) -> Site:
        contacts = () if address == self.routers[0] and not life and not disk else self.routers[:3]
        scenario = self.scenario
        site = Site(
            address, contacts, chord=scenario.chord, multicast=scenario.multicast,
            disk=Drawer(disk, b"items "), incarnation=life,
        )  # fmt: skip
        roles = self.roles.get(address, Roles(False, False))
        site.words = self.words(site, scenario.knowledge, scenario.settings, roles=roles, disk=disk, life=life)
        return site

    def _visitor(self, address: Address, disk: dict[bytes, bytes], life: int) -> Visitor:
        visitor = Visitor(address, self.routers[:3], incarnation=life)
        visitor.words = self.words(
            visitor, self.scenario.knowledge, self.scenario.settings, roles=self.roles[address], disk=disk, life=life
        )
        return visitor

    def _join(self, address: Machine) -> None:
        make = self._visitor if address in self.clients else self._site
        self.world.add(address, lambda disk, life: make(address, disk, life))

    def _leave(self, address: Machine) -> None:
        if self.world.places[address].is_up:
            self.world.invoke(address, lambda node, now: node.membership.leave(now))

    def sites(self) -> list[Any]:
        """Routers that are up and have not left."""
        found = (place.process for place in self.world.places.values() if place.is_up)
        return [process for process in found if isinstance(process, Site) and not process.chord.is_gone]

    def _is_up(self, address: Address) -> bool:
        place = self.world.places.get(address)
        return place is not None and place.is_up

    # --- a run -------------------------------------------------------------------------------------------------------

    def run(self) -> PlacementOutcome:
        """Both phases, then the checks."""
        world, scenario = self.world, self.scenario
        world.observe = self._observe
        for number, address in enumerate([*self.routers, *self.clients]):
            world.at(number * 0.5, lambda world, address=address: self._join(address))  # type: ignore[misc]
        start = (scenario.routers + scenario.clients) * 0.5 + scenario.join_seconds
        world.run(start)
        for _ in range(scenario.subscriptions):
            self._subscribe(world)
        start += scenario.join_seconds * 0.6
        world.run(start)
        world.trouble(self.outcome.faults.shifted(start))
        world.schedule(join=self._join, leave=self._leave)
        for crash in world.faults.crashes:
            if not crash.keeps_disk:
                world.at(crash.at, lambda world, crash=crash: self._forget(crash.machine))  # type: ignore[misc]
        for _ in range(scenario.operations):
            world.at(start + self.chance.uniform(0, scenario.fault_seconds), self._operate)
        world.run(start + scenario.fault_seconds + scenario.heal_seconds)
        self._check_notices()
        self._check_copies()
        self._check_lists()
        self.outcome.trace = world.trace()
        return self.outcome

    def _forget(self, address: Address) -> None:
        """A node loses its disk: what it wanted and what it had not finished."""
        self.disk_lives[address] += 1
        for wishes in self.wishes.values():
            for wish in wishes:
                wish.is_forgotten |= wish.owner == address
        for sheet in self.sheets.values():
            sheet.is_forgotten |= sheet.owner == address

    # --- what is done ------------------------------------------------------------------------------------------------

    def _operate(self, world: World) -> None:
        kind = self.chance.random()
        if kind < 0.7:
            self._publish(world)
        elif kind < 0.8:
            self._subscribe(world)
        elif kind < 0.9:
            self._change(world)
        else:
            self._withdraw(world)

    def _query(self) -> str:
        while True:
            query = random_query(self.rng, self.scenario.query_depth, nested=False, subscription=True)
            text = show(query)
            try:
                parse_subscription(text, self.scenario.knowledge.analysis)
            except ValueError:
                continue
            return text

    def _subscribe(self, world: World) -> None:
        owner = self.chance.choice(self.subscribers)
        if self._is_up(owner):
            self._wish(world, f"s{len(self.wishes)}", owner, 1)

    def _wish(self, world: World, id: str, owner: Address, version: int) -> None:
        text = self._query()
        self.wishes.setdefault(id, []).append(_Wish(id, owner, text, world.now, version))
        world.invoke(owner, lambda node, now: node.words.subscriber.subscribe(id, text, now))

    def _change(self, world: World) -> None:
        """Another query under the same name, or the end."""
        wish = self.chance.choice([wishes[-1] for wishes in self.wishes.values()])
        if wish.stood is None or wish.ending is not None or wish.is_forgotten or not self._is_up(wish.owner):
            return
        wish.ending = world.now
        if self.chance.random() < 0.5:
            self._wish(world, wish.id, wish.owner, wish.version + 1)
        else:
            world.invoke(wish.owner, lambda node, now: node.words.subscriber.unsubscribe(wish.id, now))

    def _current(self, owner: Address | None = None) -> list[str]:
        """Documents that their publishers, or this one, still know and could change."""
        sheets = [self.sheets[id, document.version] for id, document in self.current.items()]
        return [
            sheet.document.id
            for sheet in sheets
            if not sheet.is_forgotten and (sheet.owner == owner if owner else self._is_up(sheet.owner))
        ]

    def _publish(self, world: World) -> None:
        owner = self.chance.choice(self.publishers)
        if not self._is_up(owner):
            return
        mine = self._current(owner)
        document = random_document(self.rng, len(self.sheets))
        if mine and self.chance.random() < 0.25:
            before = self.current[self.chance.choice(mine)]
            document = Document(before.id, document.fields, document.source, document.time, before.version + 1)
        self.current[document.id] = document
        self.sheets[document.id, document.version] = _Sheet(document, owner, world.now)
        world.invoke(owner, lambda node, now: node.words.publisher.publish(document, now))

    def _withdraw(self, world: World) -> None:
        if mine := self._current():
            id = self.chance.choice(mine)
            owner = self.sheets[id, self.current.pop(id).version].owner
            world.invoke(owner, lambda node, now: node.words.publisher.withdraw(id, now))

    # --- what is seen ------------------------------------------------------------------------------------------------

    def _wrong(self, kind: str, text: str) -> None:
        self.outcome.violations.append(f"{kind}: {text} (at {self.world.now:.1f} s)")

    def _observe(self, now: Seconds, address: Address, effect: Deliver) -> None:
        match effect.what:
            case Notified(_, notice):
                self.outcome.notices += 1
                had = self.heard[address, self.disk_lives[address]]
                if notice.name in had:
                    self._wrong("twice", f"{address} had {notice}")
                had.append(notice.name)
                self._check_right(notice.name, notice.link, now)
                self.told.setdefault(notice.name, now)
            case Standing(id, version):
                for wish in self.wishes[id]:
                    if wish.version == version and wish.owner == address:
                        wish.stood = wish.stood or now
                    elif wish.version < version:
                        wish.ended = wish.ended or now
            case Ended(id):
                self.wishes[id][-1].ended = now
            case Published(id, version):
                sheet = self.sheets[id, version]
                sheet.done = sheet.done or now
            case Answer() as answer:
                self.answers[address, answer.number] = answer

    def _check_right(self, name: tuple[str, str, int], link: Address, now: Seconds) -> None:
        id, document, version = name
        sheet = self.sheets.get((document, version))
        if sheet is None or link != sheet.owner:
            self._wrong("wrong", f"{name} of {link} was never published there")
            return
        for wish in self.wishes.get(id, ()):
            if (wish.ended is None or wish.ended >= sheet.at) and self._holds(wish, sheet.document):
                return
        self._wrong("wrong", f"{name}: no query in force matches")

    def _holds(self, wish: _Wish, document: Document) -> bool:
        knowledge = self.scenario.knowledge
        query = self.queries.get(wish.text)
        if query is None:
            query = self.queries[wish.text] = parse_subscription(wish.text, knowledge.analysis)
        return holds(query, document, knowledge)

    # --- the checks --------------------------------------------------------------------------------------------------

    def _check_notices(self) -> None:
        outcome = self.outcome
        for sheet in self.sheets.values():
            outcome.published += sheet.done is not None
            if sheet.done is None:
                if not sheet.is_forgotten:
                    self._wrong("open", f"{sheet.document.id} {sheet.document.version} of {sheet.owner}")
                continue
            for wish in (wish for wishes in self.wishes.values() for wish in wishes):
                stood = wish.stood is not None and wish.stood < sheet.at and not wish.is_forgotten
                stayed = wish.ending is None or wish.ending > sheet.done
                if stood and stayed and self._holds(wish, sheet.document):
                    outcome.due += 1
                    told = self.told.get((wish.id, sheet.document.id, sheet.document.version))
                    if told is None:
                        self._wrong("missed", f"{wish} by {sheet}")
                    elif told > sheet.done:
                        self._wrong("early", f"{wish} by {sheet}")

    def _check_copies(self) -> None:
        ended = {wishes[-1].id for wishes in self.wishes.values() if wishes[-1].ended is not None}
        for site in self.sites():
            for key in site.items.store.sorted_keys():
                for item in site.items.store.at(key):
                    entry = entry_of(item, self.scenario.knowledge.analysis) if item.kind == QUERY_KIND else None
                    if entry is not None and entry.subscription in ended:
                        self._wrong("copies", f"{entry.subscription} at {site.me.address}")

    def _check_lists(self) -> None:
        """One-time queries find what matches now: the documents of all publishers that kept them."""
        texts = sorted({wishes[-1].text for wishes in self.wishes.values()})[:10]
        address = self.sites()[0].me.address
        for text in texts:
            self._search(address, text)
        self.world.run(self.world.now + 30)
        kept = [self.sheets[id, document.version] for id, document in self.current.items()]
        documents = [sheet.document for sheet in kept if not sheet.is_forgotten]
        knowledge = self.scenario.knowledge
        for number, text in enumerate(texts, 1):
            query = parse_subscription(text, knowledge.analysis)
            expected = {(one.id, one.version) for one in documents if holds(query, one, knowledge)}
            answer = self.answers.get((address, number))
            found = set() if answer is None else set(answer.documents)
            if answer is None or found != expected:
                less, more = sorted(expected - found), sorted(found - expected)
                self._wrong("listed", f"{text}: {less} missing, {more} too many")

    def _search(self, address: Address, text: str) -> None:
        self.world.invoke(address, lambda node, now: node.words.library.search(text, now))


ROLE_MIXES = (
    (EVERY_ROLE,),
    (Roles(publisher=True, subscriber=False), Roles(publisher=False, subscriber=True)),
    (Roles(publisher=False, subscriber=False), Roles(publisher=True, subscriber=False), EVERY_ROLE),
    (EVERY_ROLE, Roles(publisher=False, subscriber=False), Roles(publisher=False, subscriber=True)),
)


def draw_scenario(seed: int, base: PlacementScenario | None = None, **changes: Any) -> PlacementScenario:
    """Another placement for each seed: mode, join, notification, roles, hot words."""
    chance = Random(f"scenario of {seed}")
    join = chance.choice([*Join, Join.SEND_DOCUMENT, Join.SEND_DOCUMENT, None])
    notifications: list[Notification | None] = [None, Notification.NAIVE, Notification.CLUSTERED]
    if join in (Join.SEND_DOCUMENT, None):
        notifications.append(Notification.BROADCAST)
    settings = PlacementSettings(
        mode=chance.choice(list(Mode)),
        disjunction=chance.choice(list(Disjunction)),
        join=join,
        notification=chance.choice(notifications),
        hot_queries=chance.choice([0, 2]),
        filter_bits=1_000,
    )
    drawn = {"roles": chance.choice(ROLE_MIXES), "clients": chance.choice([0, 0, 3]), "settings": settings}
    return replace(base or PlacementScenario(), **(drawn | changes))


def run_placement(
    seed: int, scenario: PlacementScenario | None = None, words: WordsFactory = Words
) -> PlacementOutcome:
    """Runs a scenario under the faults of a seed; `violations` says what went wrong."""
    return PlacementRun(seed, scenario or PlacementScenario(), words).run()
