"""A ring with a placement on it where nothing fails: to see what one step takes, and what comes of it.

    calm = Calm(8, PlacementSettings(mode=Mode.DHTRIE))
    calm.subscribe("n1", "s1", "title:ring")
    calm.publish("n2", document)
    calm.notices(), calm.spent()

The tables are filled in, nobody looks after the ring: every message that is counted belongs to the placement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tocsin.model import Document
from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.delivery import Notice, Notified
from tocsin.overlay.key import Key
from tocsin.overlay.member import Member
from tocsin.overlay.message import Address, Peer
from tocsin.overlay.multicast import MulticastSettings
from tocsin.overlay.node import Deliver, Effect, Seconds
from tocsin.overlay.placement.library import Answer, Counted
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.overlay.placement.words import Words
from tocsin.query.semantics import Knowledge
from tocsin.sim.ring import make_ring
from tocsin.sim.world import World

ONE_COPY = ChordSettings(replicas=1)
MULTICAST = MulticastSettings()
NO_KNOWLEDGE = Knowledge()
STEP_SECONDS = 14.0
"""Long enough for anything to be over, too short for anything to be tried again."""


class CalmSite(Member):
    """A router with a placement on it."""

    words: Words


class Calm:
    """Nodes n0, n1, …; each has every role."""

    def __init__(
        self,
        nodes: int,
        settings: PlacementSettings,
        knowledge: Knowledge = NO_KNOWLEDGE,
        *,
        chord: ChordSettings = ONE_COPY,
        multicast: MulticastSettings = MULTICAST,
    ) -> None:
        self.world = World(0, traces=False)
        self.world.observe = self._observe
        self.seen: list[tuple[Seconds, Address, Any]] = []
        self.sites: dict[Address, CalmSite] = {}
        self._before: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        ring = make_ring(nodes)
        peers = [Peer(key, address) for key, address in zip(ring.keys.tolist(), ring.addresses, strict=True)]
        for index, me in enumerate(peers):
            site = self.sites[me.address] = CalmSite(me.address, chord=chord, multicast=multicast)
            table = site.chord.table
            table.set_successors(
                peers[(index + step) % nodes] for step in range(1, min(chord.successors, nodes - 1) + 1)
            )
            for bit, finger in enumerate(ring.finger[index].tolist()):
                table.set_finger(bit, peers[finger])
            site.chord.predecessor = peers[index - 1] if nodes > 1 else None
            site.chord.is_ready = site.chord.is_placed = True
            site.words = Words(site, knowledge, settings)
            self.world.settle(me.address, site)

    def _observe(self, now: Seconds, address: Address, effect: Deliver) -> None:
        self.seen.append((now, address, effect.what))

    def do(self, address: Address, call: Callable[[Words, Seconds], list[Effect]]) -> None:
        """A node does something, and everything that follows happens."""
        self.world.invoke(address, lambda site, now: call(site.words, now))
        self.world.run(self.world.now + STEP_SECONDS)

    def subscribe(self, address: Address, id: str, text: str) -> None:
        """A node subscribes."""
        self.do(address, lambda words, now: words.subscriber.subscribe(id, text, now))

    def publish(self, address: Address, document: Document, resource: bytes = b"") -> None:
        """A node publishes."""
        self.do(address, lambda words, now: words.publisher.publish(document, now, resource))

    def search(self, address: Address, text: str) -> set[tuple[str, int]]:
        """What a one-time query finds: ids and versions."""
        self.do(address, lambda words, now: words.library.search(text, now))
        answer = self.seen[-1][2]
        assert isinstance(answer, Answer)
        return set(answer.documents)

    def count(self, address: Address, words: list[str]) -> Counted:
        """Document frequencies, asked from the ring."""
        self.do(address, lambda own, now: own.library.count(words, now))
        counted = self.seen[-1][2]
        assert isinstance(counted, Counted)
        return counted

    def notices(self) -> list[tuple[Address, Notice]]:
        """Who was told what, in order."""
        return [(address, what.notice) for _, address, what in self.seen if isinstance(what, Notified)]

    def owner(self, key: Key) -> Address:
        """Who owns a key."""
        return next(address for address, site in self.sites.items() if site.chord.owns(key))

    def spent(self) -> tuple[Counter[str], Counter[str]]:
        """Messages and bytes by type since it was asked the last time."""
        now = self.world.count()
        messages, sizes = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        return messages, sizes
