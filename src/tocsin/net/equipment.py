"""What every member of a ring is equipped with: the three placements, on one node.

    words        SmartSeer's and DHTrie's: every match, the documents travel to the owners of their words
    publishers   MAPS: the queries travel to the most promising publishers; how much is missed is measured
    states       the distributed automaton: paths of XML

Queries, statistics and states are kept by whoever owns their keys. A member without one of the placements would let
what comes to it fall, and others would wait for its answers: so a node without a site (`tocsin node`) has them too.
They share one delivery, so each notice has its place in one outbox, whichever placement it is of.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeAlias

from tocsin.overlay.delivery import Delivery, Notice
from tocsin.overlay.member import Member
from tocsin.overlay.placement.publishers.placement import Publishers
from tocsin.overlay.placement.publishers.settings import PublishersSettings
from tocsin.overlay.placement.states import States
from tocsin.overlay.placement.words import Words
from tocsin.query.semantics import Knowledge
from tocsin.text import Analysis

Disk: TypeAlias = MutableMapping[bytes, bytes]


class Equipment:
    """A member's placements. To be called in the node's thread."""

    def __init__(self, member: Member, analysis: Analysis, maps: PublishersSettings, disk: Disk, life: int) -> None:
        """`analysis` and `maps` are alike at all members of a ring; `life` is another number in each life."""
        self.words = Words(member, Knowledge(analysis=analysis), disk=disk, life=life)
        self.publishers = Publishers(self.words, maps, disk=disk, life=life)
        self.publishers.subscriber.is_heard_here = lambda: self.publishers.publisher.is_active
        others = self.delivery.accept
        self.states = States(member, disk=disk, life=life, delivery=self.delivery)
        paths = self.delivery.accept

        def accept(notice: Notice) -> bool:
            return paths(notice) or others(notice)  # the others last: they send away what nobody here asks for

        self.delivery.accept = accept

    @property
    def delivery(self) -> Delivery:
        """What came for this node's subscriptions."""
        return self.words.delivery
