"""The distributed automaton: YFilter's states on a ring (Miliaraki, Kaoudi, Koubarakis: XML filtering on a DHT).

All XPath queries together are one automaton, of which each state has an owner on the ring.

    member = Member("a", contacts)
    states = States(member, StateSettings(execution=Execution.RECURSIVE, length=1))
    states.subscriber.subscribe("s1", "/dblp/*/author[. = 'Codd']", now)
    states.publisher.publish(Document("d1", xml="<dblp>…</dblp>"), now)

    key          where a state lives
    fragment     what its owner keeps, and the transition function on it
    outline      the structure of a document as it travels
    messages     what owners say to each other
    errands      questions that are asked again
    subscriber   the nodes that want to be told
    owner        the nodes that own states: recursive execution
    shedding     copies of states to which too many documents come, made and given back
    publisher    the nodes where documents come from: iterative execution, predicates
    copies       which states have copies, since too many documents come to them
    ground       what all parts stand on
    settings     the knobs
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, TypeAlias

from tocsin.model import Document
from tocsin.overlay.delivery import Delivery
from tocsin.overlay.key import Key
from tocsin.overlay.member import Member
from tocsin.overlay.node import Effect, Seconds
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.states.copies import Copies
from tocsin.overlay.placement.states.errands import Errands
from tocsin.overlay.placement.states.fragment import states_of
from tocsin.overlay.placement.states.ground import Ground
from tocsin.overlay.placement.states.key import ring_key
from tocsin.overlay.placement.states.owner import Owner
from tocsin.overlay.placement.states.publisher import Publisher
from tocsin.overlay.placement.states.settings import Execution, StateSettings
from tocsin.overlay.placement.states.subscriber import Subscriber
from tocsin.query.xpath.ast import Path

__all__ = ["Execution", "StateSettings", "States"]

Disk: TypeAlias = MutableMapping[bytes, bytes]
SETTINGS = StateSettings()


class States:
    """A node's parts of the placement."""

    def __init__(
        self,
        node: Member,
        settings: StateSettings = SETTINGS,
        *,
        disk: Disk | None = None,
        life: int = 0,
        delivery: Delivery | None = None,
    ) -> None:
        """`life` is another number each time the node begins again; `delivery` is that of another placement here."""
        self.node, self.settings = node, settings
        self.delivery = delivery or Delivery(node, None if disk is None else Drawer(disk, b"outbox "), life)
        ground = Ground(
            node.chord, node.items, Errands(node.chord, life), self.delivery, Copies(), settings
        )  # fmt: skip
        self.owner = Owner(ground)
        self.publisher = Publisher(ground, None if disk is None else Drawer(disk, b"state publisher "), life)
        self.subscriber = Subscriber(ground, None if disk is None else Drawer(disk, b"state subscriber "), life)

    def homes(self, query: Path) -> frozenset[Key]:
        """The keys of a query's states."""
        return frozenset(ring_key(state) for state in states_of(query))

    def visit(self, document: Document) -> frozenset[Key]:
        """Where every document begins; the rest depends on the queries."""
        return frozenset([ring_key(())])

    def handle(self, message: Any, now: Seconds) -> list[Effect]:
        """A message of another node of the placement."""
        return self.node.handle(message, now)
