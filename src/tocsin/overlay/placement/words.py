"""The placement by words: SmartSeer's and DHTrie's, on one ring.

    member = Member("a", contacts)
    words = Words(member, knowledge, PlacementSettings(mode=Mode.DHTRIE))
    words.subscriber.subscribe("s1", "title:ring AND author:stoica", now)
    words.publisher.publish(document, now)

Routers own words. Publishers have documents, subscribers have queries. A node has any of these roles; one that is no
router is not in the ring, and reaches it through others (`client`).
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tocsin.model import Document
from tocsin.overlay.delivery import Delivery
from tocsin.overlay.key import Key
from tocsin.overlay.member import Member
from tocsin.overlay.message import Address, peer
from tocsin.overlay.node import Effect, Node, Seconds, Send
from tocsin.overlay.placement.asking import Asking
from tocsin.overlay.placement.broadcast import Broadcast
from tocsin.overlay.placement.client import Client
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.ground import Ground
from tocsin.overlay.placement.home import Home
from tocsin.overlay.placement.library import Library
from tocsin.overlay.placement.messages import Publish, Spread
from tocsin.overlay.placement.nested import Nested
from tocsin.overlay.placement.publisher import Publisher
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.overlay.placement.subscriber import Subscriber
from tocsin.query.ast import Query
from tocsin.query.semantics import Knowledge

Disk: TypeAlias = MutableMapping[bytes, bytes]
SETTINGS = PlacementSettings()


@dataclass(frozen=True, slots=True)
class Roles:
    """What a node does. Whether it is a router is told by what it is: a member of the ring, or a client."""

    publisher: bool = True
    subscriber: bool = True


EVERY_ROLE = Roles()


class Words:
    """A node's parts of the placement, as many as it has roles."""

    def __init__(
        self,
        node: Member | Client,
        knowledge: Knowledge,
        settings: PlacementSettings = SETTINGS,
        *,
        roles: Roles = EVERY_ROLE,
        disk: Disk | None = None,
        life: int = 0,
    ) -> None:
        """`life` is another number each time the node begins again."""
        self.node: Node = node
        self.settings, self.knowledge = settings, knowledge
        self.delivery = Delivery(node, _drawer(disk, b"outbox "), life)
        ground = Ground(
            node.chord, node.items, node.multicast, Asking(node.chord), self.delivery, knowledge, settings
        )  # fmt: skip
        self.home: Home | None = None
        if isinstance(node, Client):
            broadcast = _through(node.contact)
        else:
            self.home = Home(ground)
            broadcast = Broadcast(node.chord, knowledge, settings).begin
        publishes, subscribes = roles.publisher, roles.subscriber
        self._publisher = Publisher(ground, broadcast, _drawer(disk, b"publisher "), life) if publishes else None
        self._subscriber = Subscriber(ground, _drawer(disk, b"subscriber ")) if subscribes else None
        self.library = Library(ground)
        self._nested: Nested | None = None
        if self._subscriber is not None:
            self._nested = Nested(ground, self._subscriber, self.library, _drawer(disk, b"nested "))

    @property
    def publisher(self) -> Publisher:
        """Its documents."""
        if self._publisher is None:
            raise ValueError("this node has not the role of a publisher")
        return self._publisher

    @property
    def subscriber(self) -> Subscriber:
        """Its subscriptions."""
        if self._subscriber is None:
            raise ValueError("this node has not the role of a subscriber")
        return self._subscriber

    @property
    def nested(self) -> Nested:
        """Its nested subscriptions."""
        if self._nested is None:
            raise ValueError("this node has not the role of a subscriber")
        return self._nested

    def homes(self, query: Query) -> frozenset[Key]:
        """The keys under which a query is kept, as far as frequencies do not matter."""
        return self.subscriber.homes(query)

    def visit(self, document: Document) -> frozenset[Key]:
        """The keys whose owners a document visits."""
        return self.publisher.visit(document)

    def handle(self, message: Any, now: Seconds) -> list[Effect]:
        """A message of another node of the placement."""
        return self.node.handle(message, now)


def _drawer(disk: Disk | None, name: bytes) -> Drawer | None:
    return None if disk is None else Drawer(disk, name)


def _through(contact: Address) -> Callable[[Publish, Seconds], list[Effect]]:
    """A client's broadcast begins at a router."""
    return lambda publish, now: [Send(contact, Spread(peer(contact).key, publish))]
