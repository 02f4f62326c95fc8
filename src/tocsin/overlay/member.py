"""A whole node of the ring: routing, membership, items and multicast under one address.

Placements and deliveries are further components: `member.add(component)`, `member.receive(type, receiver)`,
`member.items.watch(kind, watcher)`.
"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.overlay.chord import Chord, ChordSettings
from tocsin.overlay.items import Disk, Items
from tocsin.overlay.membership import Membership
from tocsin.overlay.message import Address, Peer, peer
from tocsin.overlay.multicast import Multicast, MulticastSettings
from tocsin.overlay.node import Node

CHORD = ChordSettings()
MULTICAST = MulticastSettings()


class Router(Node):
    """Routing and multicast only: for rings that do not change, where the table is filled in (`sim.ring`)."""

    __slots__ = ("chord", "multicast")

    def __init__(
        self, me: Peer, chord: ChordSettings = CHORD, multicast: MulticastSettings = MULTICAST, incarnation: int = 0
    ) -> None:
        super().__init__(me)
        self.chord = Chord(self, chord)
        self.multicast = Multicast(self.chord, multicast, incarnation)


class Member(Router):
    """A node that joins, keeps items, and leaves."""

    __slots__ = ("items", "membership")

    def __init__(
        self,
        address: Address,
        contacts: Iterable[Address] = (),
        *,
        chord: ChordSettings = CHORD,
        multicast: MulticastSettings = MULTICAST,
        disk: Disk | None = None,
        incarnation: int = 0,
    ) -> None:
        """`contacts` are nodes to ask for the ring (none: found one); `incarnation` is new in each life."""
        super().__init__(peer(address), chord, multicast, incarnation)
        self.membership = Membership(self.chord, contacts)
        self.items = Items(self.membership, disk)
        self.multicast.join(self.membership)
