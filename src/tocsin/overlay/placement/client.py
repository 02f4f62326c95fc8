"""A node that is not in the ring: it publishes or subscribes through a router (DHTrie: roles in any mix).

It owns no key and keeps nothing for others. What it routes goes to a router that it knows, another one at each
attempt; answers come to it directly.
"""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.overlay.chord import Chord, ChordSettings
from tocsin.overlay.items import Items
from tocsin.overlay.key import Key
from tocsin.overlay.member import CHORD
from tocsin.overlay.membership import Membership
from tocsin.overlay.message import Address, Peer, peer
from tocsin.overlay.multicast import Method, Multicast, MulticastSettings
from tocsin.overlay.node import Effect, Node, Seconds

CLIENT_MULTICAST = MulticastSettings(method=Method.ITERATIVE)
"""A client has no fingers along which lists could be split."""


class _Outside(Chord):
    """Routing for one who is not there: to a contact, and no further."""

    __slots__ = ("_contacts",)

    def __init__(self, node: Node, settings: ChordSettings, contacts: Sequence[Peer]) -> None:
        super().__init__(node, settings)
        self._contacts = contacts

    def owns(self, key: Key) -> bool | None:
        """Nothing."""
        return False

    def step(self, key: Key, attempt: int, last: int) -> tuple[Peer | None, int]:
        """To a contact, another one at each attempt."""
        return self._contacts[attempt % len(self._contacts)], 0


class _NoMembership(Membership):
    """Never joins."""

    __slots__ = ()

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []


class Client(Node):
    """A node with a publisher's or a subscriber's part, and no router's."""

    __slots__ = ("chord", "contact", "items", "membership", "multicast")

    def __init__(
        self,
        address: Address,
        contacts: Sequence[Address],
        *,
        chord: ChordSettings = CHORD,
        multicast: MulticastSettings = CLIENT_MULTICAST,
        incarnation: int = 0,
    ) -> None:
        """`contacts` are routers."""
        super().__init__(peer(address))
        self.contact = contacts[0]
        self.chord = _Outside(self, chord, [peer(contact) for contact in contacts])
        self.multicast = Multicast(self.chord, multicast, incarnation)
        self.membership = _NoMembership(self.chord, ())
        self.items = Items(self.membership)
