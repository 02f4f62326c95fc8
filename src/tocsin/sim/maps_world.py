"""Rings with MAPS on them: calm ones, to see what a step takes; living ones, to see who survives what.

    ring = MapsRing(20, PublishersSettings(exact=False))
    ring.subscribe("n1", "s1", "modern art", Approximate(0.1))
    ring.publish("n2", document)
    ring.run(60)
    ring.notices(), ring.spent()

On a calm ring tables are filled in and nobody looks after them: every message that is counted belongs to MAPS, or to
the placement by words beside it. On a living ring nodes join, stabilise, and can be killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tocsin.model import Document
from tocsin.overlay import message as codec
from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.delivery import Notice, Notified
from tocsin.overlay.key import Key
from tocsin.overlay.member import CHORD, MULTICAST
from tocsin.overlay.message import Address, Peer
from tocsin.overlay.multicast import MulticastSettings
from tocsin.overlay.node import Deliver, Effect, Seconds
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.entry import Mode
from tocsin.overlay.placement.publishers.placement import Publishers
from tocsin.overlay.placement.publishers.posting import Carrier
from tocsin.overlay.placement.publishers.settings import Precision, PublishersSettings
from tocsin.overlay.placement.publishers.subscriber import Repositioned
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.overlay.placement.words import Words
from tocsin.query.semantics import Knowledge
from tocsin.sim.maps import Outcome, Workload
from tocsin.sim.ring import make_ring
from tocsin.sim.world import Disk, World

DHTRIE = PlacementSettings(mode=Mode.DHTRIE)
ONE_COPY = ChordSettings(replicas=1)
NO_KNOWLEDGE = Knowledge()
JOIN_SECONDS = 25.0


class MapsSite(Carrier):
    """A peer: router, directory, publisher and subscriber."""

    words: Words
    maps: Publishers


def equip(
    site: MapsSite,
    knowledge: Knowledge,
    settings: PublishersSettings,
    placement: PlacementSettings = DHTRIE,
    *,
    disk: Disk | None = None,
    life: int = 0,
) -> MapsSite:
    """Puts both placements on a node."""
    site.words = Words(site, knowledge, placement, disk=disk, life=life)
    site.maps = Publishers(site.words, settings, disk=disk, life=life)
    return site


class MapsRing:
    """Nodes n0, n1, …; each has every role."""

    def __init__(
        self,
        nodes: int,
        settings: PublishersSettings,
        knowledge: Knowledge = NO_KNOWLEDGE,
        *,
        chord: ChordSettings | None = None,
        multicast: MulticastSettings = MULTICAST,
        is_living: bool = False,
        carries: bool = True,
        seed: int = 0,
    ) -> None:
        """A calm ring keeps one copy of everything unless told otherwise, a living one three."""
        self.carries = carries
        self.settings, self.knowledge = settings, knowledge
        self.chord = chord or (CHORD if is_living else ONE_COPY)
        self.multicast = multicast
        self.world = World(seed, traces=False, decode=codec.decode)
        self.world.observe = self._observe
        self.seen: list[tuple[Seconds, Address, Any]] = []
        self._before: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        self.addresses = tuple(f"n{number}" for number in range(nodes))
        if is_living:
            self._assemble()
        else:
            self._fill(nodes)

    def _observe(self, now: Seconds, address: Address, effect: Deliver) -> None:
        self.seen.append((now, address, effect.what))

    def _fill(self, nodes: int) -> None:
        ring = make_ring(nodes)
        peers = [Peer(key, address) for key, address in zip(ring.keys.tolist(), ring.addresses, strict=True)]
        for index, me in enumerate(peers):
            site = MapsSite(me.address, chord=self.chord, multicast=self.multicast)
            table = site.chord.table
            table.set_successors(
                peers[(index + step) % nodes] for step in range(1, min(self.chord.successors, nodes - 1) + 1)
            )
            for bit, finger in enumerate(ring.finger[index].tolist()):
                table.set_finger(bit, peers[finger])
            site.chord.predecessor = peers[index - 1] if nodes > 1 else None
            site.chord.is_ready = site.chord.is_placed = True
            equip(site, self.knowledge, self.settings)
            if not self.carries:
                site.load = None
            self.world.settle(me.address, site)
            self.world.invoke(me.address, lambda site, now: site.maps.publisher.start(now))

    def _assemble(self) -> None:
        for number, address in enumerate(self.addresses):
            self.world.at(number * 0.5, lambda world, address=address: self._join(address))  # type: ignore[misc]
        self.world.run(len(self.addresses) * 0.5 + JOIN_SECONDS)

    def _join(self, address: Address) -> None:
        def make(disk: Disk, life: int) -> MapsSite:
            contacts = () if address == self.addresses[0] and not life else self.addresses[:3]
            items = Drawer(disk, b"items ")
            site = MapsSite(
                address, contacts, chord=self.chord, multicast=self.multicast, disk=items, incarnation=life
            )  # fmt: skip
            return equip(site, self.knowledge, self.settings, disk=disk, life=life)

        self.world.add(address, make)

    # --- what is done ------------------------------------------------------------------------------------------------

    def site(self, address: Address) -> MapsSite:
        """The node at an address."""
        found: MapsSite = self.world.process(address)
        return found

    def do(self, address: Address, call: Callable[[Publishers, Seconds], list[Effect]]) -> None:
        """A node does something."""
        self.world.invoke(address, lambda site, now: call(site.maps, now))

    def subscribe(self, address: Address, id: str, text: str, precision: Precision) -> None:
        """A node subscribes."""
        self.do(address, lambda maps, now: maps.subscriber.subscribe(id, text, now, precision))

    def unsubscribe(self, address: Address, id: str) -> None:
        """A node does not want to hear any more."""
        self.do(address, lambda maps, now: maps.subscriber.unsubscribe(id, now))

    def publish(self, address: Address, document: Document, resource: bytes = b"") -> None:
        """A node publishes."""
        self.do(address, lambda maps, now: maps.publisher.publish(document, now, resource))

    def run(self, seconds: Seconds) -> None:
        """Time goes on."""
        self.world.run(self.world.now + seconds)

    def run_to(self, interval: int, share: float = 0.0) -> None:
        """Time goes on to a place in an interval."""
        self.world.run((interval + share) * self.settings.interval_seconds)

    # --- what is seen ------------------------------------------------------------------------------------------------

    def notices(self) -> list[tuple[Address, Notice]]:
        """Who was told what, in order."""
        return [(address, what.notice) for _, address, what in self.seen if isinstance(what, Notified)]

    def sites(self) -> list[MapsSite]:
        """The nodes that are up."""
        up = (place.process for place in self.world.places.values() if place.is_up)
        return [site for site in up if isinstance(site, MapsSite)]

    def keepers(self, id: str) -> set[Address]:
        """Publishers that keep the query of a subscription."""
        return {site.me.address for site in self.sites() if any(name == id for _, name in site.maps.publisher.kept())}

    def owner(self, key: Key) -> Address:
        """Who owns a key."""
        return next(site.me.address for site in self.sites() if site.chord.owns(key))

    def spent(self) -> tuple[Counter[str], Counter[str]]:
        """Messages and bytes by type since it was asked the last time."""
        now = self.world.count()
        messages, sizes = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        return messages, sizes


def run_world(
    workload: Workload, precision: Precision, settings: PublishersSettings, *, carries: bool = True
) -> tuple[MapsRing, Outcome]:
    """The workload on real nodes: what was monitored and heard; publisher i is the i-th address by name.

    Documents come late in each interval: the posts of the last one have arrived by then, and subscriptions stand.
    """
    shape = workload.settings
    ring = MapsRing(shape.publishers, settings, carries=carries)
    names = sorted(ring.addresses)
    matching = 0
    where: dict[str, int] = {}
    for interval in range(shape.intervals):
        if interval == shape.first:
            ring.run_to(interval, 0.2)
            for query in range(len(workload.queries)):
                ring.subscribe(names[query % len(names)], f"q{query}", workload.text(query), precision)
        ring.run_to(interval, 0.85)
        batch = workload.batch(interval)
        for publisher, document in workload.documents(interval, batch):
            where[document.id] = interval
            ring.publish(names[publisher], document)
        if interval >= shape.first:
            matching += sum(int(batch.holds[:, words].all(axis=1).sum()) for words in workload.queries)
    ring.run_to(shape.intervals - 1, 0.98)
    outcome = Outcome({}, {(query, time): 0 for query in range(len(workload.queries))
                           for time in range(shape.first, shape.intervals)}, matching)  # fmt: skip
    for now, _, what in ring.seen:
        if isinstance(what, Repositioned):
            chosen = frozenset(names.index(one) for one in what.publishers)
            outcome.chosen[int(what.id[1:]), settings.interval_of(now)] = chosen
        elif isinstance(what, Notified):
            outcome.heard[int(what.notice.subscription[1:]), where[what.notice.document]] += 1
    return ring, outcome
