"""The distributed automaton in the false world: on a calm ring, and while machines, links and clocks fail.

    calm = CalmStates(8, StateSettings(length=1))
    calm.subscribe("n1", "s1", "//a[b]/c")
    calm.publish("n2", Document("d1", xml="<a><b/><c/></a>"))
    calm.notices(), calm.spent()

On a calm ring the tables are filled in and nobody looks after them: every message that is counted belongs to the
placement. Under faults the rules are those of `sim.placements`, with `query.xpath.holds_xpath` as the oracle, and one
more: when subscriptions have ended, no owner keeps anything that only they needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from tocsin.errors import TocsinError
from tocsin.markup import Markup, read_markup
from tocsin.model import Document
from tocsin.overlay import message as codec
from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.delivery import Notice, Notified
from tocsin.overlay.key import BITS, hashed, virtual_addresses
from tocsin.overlay.member import Member
from tocsin.overlay.message import Address, Item, Peer
from tocsin.overlay.node import Deliver, Seconds
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.states import Execution, States, StateSettings
from tocsin.overlay.placement.states.fragment import places_of
from tocsin.overlay.placement.states.key import STATE_KIND, ring_key
from tocsin.overlay.placement.states.shedding import COPIED_NAME
from tocsin.query.xpath import parse_xpath
from tocsin.query.xpath.semantics import holds_xpath
from tocsin.sim.calm import ONE_COPY
from tocsin.sim.markup import NAMESPACES, Tangle
from tocsin.sim.placements import BRISK, PlacementOutcome, PlacementRun, PlacementScenario, Site, _Sheet, _Wish
from tocsin.sim.ring import Ring, make_ring
from tocsin.sim.world import Latency, World, constant

STEP_SECONDS = 3.5
"""Long enough for anything to be over, too short for anything to be tried again."""
ELEMENTS_MAX = 30
"""Of a document that is published under faults."""
HOP_SECONDS = 1 / 1024
"""A link of an experiment that counts hops: exact in binary, so that times are multiples of it."""


class StateSite(Member):
    """A node with its states."""

    states: States


class CalmStates:
    """Nodes of a ring that nothing happens to."""

    def __init__(
        self,
        ring: Ring | int,
        settings: StateSettings | None = None,
        *,
        chord: ChordSettings = ONE_COPY,
        latency: Latency | None = None,
        decode: Any = None,
    ) -> None:
        """`decode`: let every message go through the codec."""
        self.ring = make_ring(ring) if isinstance(ring, int) else ring
        self.world = World(
            0, latency=latency or constant(HOP_SECONDS), encode=self._encode, decode=decode, traces=False
        )  # fmt: skip
        self.bytes_max = 0
        """Of the largest message so far."""
        self.world.observe = self._observe
        self.seen: list[tuple[Seconds, Address, Any]] = []
        self.sites: dict[Address, StateSite] = {}
        self.arrived: list[Seconds] = []
        """When requests of documents came to owners, and answers of owners to publishers."""
        self._before: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        peers = [Peer(key, address) for key, address in zip(self.ring.keys.tolist(), self.ring.addresses, strict=True)]
        for index, me in enumerate(peers):
            site = self.sites[me.address] = StateSite(me.address, chord=chord)
            table = site.chord.table
            after = min(chord.successors, len(peers) - 1)
            table.set_successors(peers[(index + step) % len(peers)] for step in range(1, after + 1))
            for bit, finger in enumerate(self.ring.finger[index].tolist()):
                table.set_finger(bit, peers[finger])
            site.chord.predecessor = peers[index - 1] if len(peers) > 1 else None
            site.chord.is_ready = site.chord.is_placed = True
            site.states = States(site, settings or StateSettings())
            site.states.owner.arrivals = lambda hops, now: self.arrived.append(now)
            site.states.publisher.answers = self.arrived.append
            self.world.settle(me.address, site)

    def _observe(self, now: Seconds, address: Address, effect: Deliver) -> None:
        self.seen.append((now, address, effect.what))

    def _encode(self, message: Any) -> bytes:
        data = codec.encode(message)
        self.bytes_max = max(self.bytes_max, len(data))
        return data

    def _run(self) -> None:
        self.world.run(self.world.now + STEP_SECONDS)

    def subscribe(self, address: Address, id: str, text: str, namespaces: Mapping[str, str] | None = None) -> None:
        """A node subscribes."""
        self.world.invoke(
            address, lambda site, now: site.states.subscriber.subscribe(id, text, now, namespaces)
        )  # fmt: skip
        self._run()

    def unsubscribe(self, address: Address, id: str) -> None:
        """A node ends a subscription."""
        self.world.invoke(address, lambda site, now: site.states.subscriber.unsubscribe(id, now))
        self._run()

    def publish(self, address: Address, document: Document) -> None:
        """A node publishes."""
        self.world.invoke(address, lambda site, now: site.states.publisher.publish(document, now))
        self._run()

    def what(self, kind: type) -> list[Any]:
        """What was delivered to the layers above, of one type."""
        return [what for _, _, what in self.seen if isinstance(what, kind)]

    def notices(self) -> list[tuple[Address, Notice]]:
        """Who was told what, in order."""
        return [(address, what.notice) for _, address, what in self.seen if isinstance(what, Notified)]

    def told(self, document: str) -> list[str]:
        """The subscriptions that were told of a document."""
        return sorted(notice.subscription for _, notice in self.notices() if notice.document == document)

    def requests(self) -> Counter[str]:
        """Requests that owners had, by type."""
        return sum((site.states.owner.requests for site in self.sites.values()), Counter())

    def load(self) -> list[int]:
        """Requests of documents by node, in the order of the ring."""
        owners = (self.sites[address].states.owner for address in self.ring.addresses)
        return [owner.requests["RecExpandState"] + owner.requests["ExpandState"] for owner in owners]

    def owner(self, key: int) -> Address:
        """Who owns a key."""
        return self.ring.addresses[self.ring.owner(key)]

    def items(self) -> list[tuple[Address, Item]]:
        """Everything that is kept for queries, removals not counted."""
        return [
            (address, item)
            for address, site in self.sites.items()
            for key in site.items.store.sorted_keys()
            for item in site.items.store.at(key)
            if item.kind == STATE_KIND and item.value is not None
        ]

    def spent(self) -> tuple[Counter[str], Counter[str]]:
        """Messages and bytes by type since it was asked the last time."""
        now = self.world.count()
        messages, sizes = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        return messages, sizes


def virtual_ring(hosts: int, nodes: int, name: str = "n") -> Ring:
    """A ring of hosts that are several nodes each (Chord §6.1)."""
    return make_ring_of([one for host in range(hosts) for one in virtual_addresses(f"{name}{host}", nodes)])


def make_ring_of(addresses: list[Address]) -> Ring:
    """A ring of nodes with these addresses."""
    named = sorted((hashed("node", address), address) for address in addresses)
    keys = np.array([key for key, _ in named], dtype=np.uint64)
    finger = np.empty((len(named), BITS), dtype=np.int32)
    for bit in range(BITS):
        finger[:, bit] = np.searchsorted(keys, keys + np.uint64(1 << bit)) % len(named)
    return Ring(tuple(address for _, address in named), keys, finger)


# --- under faults ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StatesScenario(PlacementScenario):
    """What is done while the ring is troubled."""

    subscriptions: int = 12
    operations: int = 24
    states: StateSettings = field(default_factory=StateSettings)


class StatesRun(PlacementRun):
    """One run of a scenario under the faults of a seed."""

    scenario: StatesScenario

    def __init__(self, seed: int, scenario: StatesScenario) -> None:
        super().__init__(seed, scenario)
        self.tangle = Tangle(seed)
        self._read: dict[str, Markup] = {}

    def _site(self, address: Address, disk: dict[bytes, bytes], life: int) -> Site:
        contacts = () if address == self.routers[0] and not life and not disk else self.routers[:3]
        site = Site(
            address, contacts, chord=self.scenario.chord, disk=Drawer(disk, b"items "), incarnation=life
        )  # fmt: skip
        site.words = States(site, self.scenario.states, disk=disk, life=life)  # type: ignore[assignment]
        return site

    def _operate(self, world: World) -> None:
        kind = self.chance.random()
        if kind < 0.6:
            self._publish(world)
        elif kind < 0.8:
            self._subscribe(world)
        else:
            self._change(world)

    def _query(self) -> str:
        while True:
            text = self.tangle.query()
            try:
                places_of(parse_xpath(text, NAMESPACES), "s", "a", 0)
            except TocsinError:
                continue
            return text

    def _wish(self, world: World, id: str, owner: Address, version: int) -> None:
        text = self._query()
        self.wishes.setdefault(id, []).append(_Wish(id, owner, text, world.now, version))
        world.invoke(owner, lambda node, now: node.words.subscriber.subscribe(id, text, now, NAMESPACES))

    def _publish(self, world: World) -> None:
        owner = self.chance.choice(self.publishers)
        if not self._is_up(owner):
            return
        mine = self._current(owner)
        document = Document(f"d{len(self.sheets)}", xml=self._document())
        if mine and self.chance.random() < 0.25:
            before = self.current[self.chance.choice(mine)]
            document = replace(document, id=before.id, version=before.version + 1)
        self.current[document.id] = document
        self.sheets[document.id, document.version] = _Sheet(document, owner, world.now)
        world.invoke(owner, lambda node, now: node.words.publisher.publish(document, now))

    def _document(self) -> str:
        """Not too large for the iterative execution, which takes a while for each element."""
        while True:
            text = self.tangle.document()
            if len(read_markup(text).tree.names) <= ELEMENTS_MAX:
                return text

    def _holds(self, wish: _Wish, document: Document) -> bool:
        assert document.xml is not None
        markup = self._read.get(document.xml)
        if markup is None:
            markup = self._read[document.xml] = read_markup(document.xml)
        return holds_xpath(parse_xpath(wish.text, NAMESPACES), markup)

    def _check_copies(self) -> None:
        """Nothing is kept that no subscription needs; who lost its disk has forgotten to remove it."""
        wanted: set[tuple[int, bytes]] = set()
        settings = self.scenario.states
        helped = {help.state: help.numbers for site in self.sites() for help in site.words.owner.shedding.helped()}
        for wishes in self.wishes.values():
            for wish in wishes:
                if wish.ended is None or wish.is_forgotten:
                    query = parse_xpath(wish.text, NAMESPACES)
                    places = places_of(query, wish.id, wish.owner, settings.length)
                    for state, name in places:
                        copies = (0, *helped.get(state, ()))
                        wanted |= {(ring_key(state, copy), name) for copy in copies}
        for site in self.sites():
            for key in site.items.store.sorted_keys():
                for item in site.items.store.at(key):
                    is_kept = item.kind == STATE_KIND and item.value is not None and item.name != COPIED_NAME
                    if is_kept and (key, item.name) not in wanted:
                        self._wrong("copies", f"{item.name!r} at {site.me.address}")

    def _check_lists(self) -> None:
        """There are no lists of documents."""


BRISK_STATES = StatesScenario(
    routers=6,
    subscriptions=8,
    operations=12,
    fault_seconds=12.0,
    heal_seconds=30.0,
    limits=BRISK.limits,
    chord=BRISK.chord,
    join_seconds=8.0,
)
"""A small ring and a short time: for many seeds."""


def draw_states(seed: int, base: StatesScenario | None = None, **changes: Any) -> StatesScenario:
    """Other settings for each seed: execution, length of fragments, size of pieces, shedding and its end."""
    chance = Random(f"states of {seed}")
    settings = StateSettings(
        execution=chance.choice([Execution.RECURSIVE, Execution.RECURSIVE, Execution.ITERATIVE]),
        length=chance.randrange(5),
        fragment_bytes_max=chance.choice([100, 65_536]),
        copies=chance.choice([0, 2]),
        overload_documents_min=3,
        relief_share=chance.choice([0.0, 0.1]),
        relief_documents_min=3,
    )
    return replace(base or StatesScenario(), **({"states": settings} | changes))


def run_states(seed: int, scenario: StatesScenario | None = None) -> PlacementOutcome:
    """Runs a scenario under the faults of a seed; `violations` says what went wrong."""
    return StatesRun(seed, scenario or StatesScenario()).run()
