"""Who is told of a new document, in how many messages, after how long (SmartSeer §IV-C).

*Naive* sends a notice for each word to whoever owns it. *Clustered* finds the owners first, one lookup after the other
(each answer names the owner's whole range of keys, so further words in it need no lookup), and sends each owner one
notice. *Broadcast* sends the document down a tree to all nodes; only the whole document tells a node which of its words
are concerned, so it goes with Send Document and with nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tocsin.errors import SettingError
from tocsin.match.rendezvous.bloom import filter_word, hashes_of
from tocsin.match.rendezvous.conversation import HEADER_BYTES, DocumentSide
from tocsin.match.rendezvous.payload import Join, encode
from tocsin.query.normal import Key

LOOKUP_BYTES = 32
"""A lookup's payload there and back: a key of 8 bytes; an address of 8 and a range of 16."""

Owner = Callable[[Key], int]
"""The node that owns a word."""


class Notification(StrEnum):
    """How the nodes are told."""

    NAIVE = "naive"
    CLUSTERED = "clustered"
    BROADCAST = "broadcast"


@dataclass(frozen=True, slots=True)
class Visit:
    """A notice to a node, about these words."""

    node: int
    words: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class NotificationPlan:
    """The visits of a document, and what finding the nodes takes."""

    kind: Notification
    visits: tuple[Visit, ...]
    lookups: int
    """Lookups before the notices go out, one after the other."""
    steps: int
    """Messages that must follow one upon the other until the last node knows: the latency."""

    @property
    def messages(self) -> int:
        """Notices, and lookups with their answers."""
        return len(self.visits) + 2 * self.lookups

    def bytes(self, side: DocumentSide, join: Join, header_bytes: int = HEADER_BYTES) -> int:
        """All notices with what the join sends along, and the lookups; the conversations after that come on top."""
        sizes = sum(len(encode(side.open(join, visit.words))) for visit in self.visits)
        return sizes + self.lookups * LOOKUP_BYTES + self.messages * header_bytes


def plan(kind: Notification, join: Join, words: Iterable[Key], owner: Owner, nodes: Sequence[int]) -> NotificationPlan:
    """How a document with these words reaches the nodes."""
    if kind is Notification.BROADCAST:
        if join is not Join.SEND_DOCUMENT:
            raise SettingError(
                f"broadcast goes with {Join.SEND_DOCUMENT} only: with {join}, a node would not know which of its "
                "words the document holds (SmartSeer §IV-C); choose clustered or naive"
            )
        return NotificationPlan(kind, tuple(Visit(node, ()) for node in nodes), 0, max(1, len(nodes) - 1).bit_length())
    found = sorted(words)
    if kind is Notification.NAIVE:
        return NotificationPlan(kind, tuple(Visit(owner(key), (key,)) for key in found), 0, 1)
    owned: dict[int, list[Key]] = {}
    for key in found:
        owned.setdefault(owner(key), []).append(key)
    visits = tuple(Visit(node, tuple(keys)) for node, keys in owned.items())
    return NotificationPlan(kind, visits, len(owned), 2 * len(owned) + 1)


class Ring:
    """Words and nodes on a circle of 64 bits: a word belongs to the first node at or after its hash."""

    def __init__(self, nodes: int, virtual: int = 1) -> None:
        self.nodes = tuple(range(nodes))
        names = [(f"node {node}.{copy}".encode(), node) for node in self.nodes for copy in range(virtual)]
        placed = sorted(zip(hashes_of([name for name, _ in names]).tolist(), (node for _, node in names), strict=True))
        self._places = [place for place, _ in placed]
        self._owners = [node for _, node in placed]
        self._known: dict[Key, int] = {}

    def owner(self, key: Key) -> int:
        """The node that owns a word; the field does not matter, so that a word's queries are together."""
        if key not in self._known:
            place = int(hashes_of([filter_word(key)])[0])
            self._known[key] = self._owners[bisect_left(self._places, place) % len(self._places)]
        return self._known[key]
