"""How a placement by words works."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tocsin.errors import SettingError
from tocsin.match.rendezvous.bloom import CITESEER_BITS
from tocsin.match.rendezvous.notification import Notification
from tocsin.match.rendezvous.payload import Join
from tocsin.overlay.key import Key
from tocsin.overlay.node import Seconds
from tocsin.overlay.placement.entry import Disjunction, Mode, dedicated_key


@dataclass(frozen=True)
class PlacementSettings:
    """Alike on all nodes, except for what only publishers choose: join and notification."""

    mode: Mode = Mode.SMARTSEER
    """SmartSeer: on the most selective word; DHTrie: on every distinct word."""
    disjunction: Disjunction = Disjunction.WORDS
    """How SmartSeer registers OR."""
    dedicated_nodes: int = 2
    """Keys of nodes that see every document, for queries that can wait at no word."""
    join: Join | None = Join.SEND_DOCUMENT
    """How a publisher's documents meet the queries; None: what the cost model finds cheapest for each document."""
    notification: Notification | None = None
    """How the owners are told; None: by multicast, which reaches each owner once."""
    filter_bits: int = CITESEER_BITS
    """Size of a document's Bloom filter."""
    hot_queries: int = 0
    """An owner shares the checking of longer lists with the nodes that keep copies of them; 0: never."""
    again_seconds: Seconds = 15.0
    """Time after which a publisher publishes again to keys that are not done; doubles up to four times."""

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        if self.notification is Notification.BROADCAST and self.join not in (Join.SEND_DOCUMENT, None):
            raise SettingError(
                f"broadcast goes with {Join.SEND_DOCUMENT} only: with {self.join}, a node would not know which of its "
                "words the document holds (SmartSeer §IV-C); choose clustered or naive"
            )

    @cached_property
    def dedicated_keys(self) -> tuple[Key, ...]:
        """Where every document goes."""
        return tuple(dedicated_key(number) for number in range(self.dedicated_nodes))
