"""A whole super-peer: its place in the graph, its clients, continuous and one-time queries, rendezvous.

    superpeer = SuperPeer("s1", neighbours=["s2", "s3"], knowledge=knowledge)

All super-peers are equal (P2P-DIET §3). `disk` keeps what it must not forget; without one it forgets when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any, TypeAlias

from tocsin.overlay.message import Address, peer
from tocsin.overlay.node import Node
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.superpeers.desk import Desk
from tocsin.overlay.placement.superpeers.filtering import Filtering
from tocsin.overlay.placement.superpeers.one_time import OneTime
from tocsin.overlay.placement.superpeers.rendezvous import Rendezvous
from tocsin.overlay.placement.superpeers.routes import Routes
from tocsin.overlay.placement.superpeers.sealing import CLEAR, Sealing
from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings
from tocsin.overlay.placement.superpeers.sheet import Sheets
from tocsin.overlay.placement.superpeers.streams import Streams
from tocsin.query.semantics import Knowledge

Disk: TypeAlias = MutableMapping[bytes, bytes]
SETTINGS = SuperpeerSettings()


class SuperPeer(Node):
    """A node of the backbone."""

    __slots__ = ("desk", "filtering", "one_time", "rendezvous", "routes", "sheets", "streams")

    def __init__(
        self,
        address: Address,
        neighbours: Iterable[Address],
        knowledge: Knowledge,
        *,
        settings: SuperpeerSettings = SETTINGS,
        sealing: Sealing = CLEAR,
        disk: Disk | None = None,
        life: int = 0,
    ) -> None:
        """`life` is another number each time the super-peer begins again."""
        super().__init__(peer(address))
        kept: Disk = {} if disk is None else disk
        self.routes = Routes(
            self, neighbours, settings=settings, sealing=sealing, disk=Drawer(kept, b"members "), life=life
        )
        self.sheets = Sheets(self.routes, Drawer(kept, b"sheets "))
        self.streams = Streams(self.routes)
        self.desk = Desk(self.routes, Drawer(kept, b"desk "))
        self.filtering = Filtering(self.desk, self.sheets, self.streams, knowledge)
        self.one_time = OneTime(self.desk, self.sheets, self.filtering)
        self.rendezvous = Rendezvous(self.desk, self.streams, self.one_time)

    def status(self) -> dict[str, Any]:
        """How it is, for the operator."""
        return {
            "links": list(self.routes.graph.neighbours(self.me.address)),
            "members": sorted(self.routes.members),
            "unreachable": sorted(self.routes.members - self.routes.graph.reachable(self.me.address)),
            "behind": self.sheets.behind(),
            "clients": {one.client: one.is_online for one in self.desk.records.values()},
            "queries": len(self.filtering.poset), "forwarded": len(self.filtering.poset.forwarded()),
            "documents": len(self.filtering.files), "refused": dict(sorted(self.routes.refused.items())),
            "pruned_links": self.one_time.pruned, "passed_links": self.one_time.passed,
        }  # fmt: skip
