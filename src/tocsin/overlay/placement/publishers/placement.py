"""MAPS on a node, beside the placement by words: each subscription chooses between all and enough.

member = Carrier("a", contacts)
words = Words(member, knowledge, PlacementSettings(mode=Mode.DHTRIE))
maps = Publishers(words, PublishersSettings())
maps.subscriber.subscribe("s1", "title:ring", now, Approximate(rho=0.1, alpha=0.25))
maps.subscriber.subscribe("s2", "title:ring", now, EXACT)
maps.publisher.publish(document, now)
maps.subscriber.report("s1").recall
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeAlias

from tocsin.overlay.member import Member
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.publishers.directory import Directory
from tocsin.overlay.placement.publishers.posting import Posting
from tocsin.overlay.placement.publishers.publisher import Publisher
from tocsin.overlay.placement.publishers.questions import Questions
from tocsin.overlay.placement.publishers.settings import PublishersSettings
from tocsin.overlay.placement.publishers.subscriber import Subscriber
from tocsin.overlay.placement.words import Words

Disk: TypeAlias = MutableMapping[bytes, bytes]
SETTINGS = PublishersSettings()


class Publishers:
    """A node's parts of MAPS: every peer is directory, publisher and subscriber (MAPS, "Service Types")."""

    def __init__(
        self, words: Words, settings: PublishersSettings = SETTINGS, *, disk: Disk | None = None, life: int = 0
    ) -> None:
        """`life` is another number each time the node begins again."""
        node = words.node
        if not isinstance(node, Member):
            raise TypeError("MAPS runs on members of the ring: each of them keeps a part of the directory")
        self.words, self.settings, self.library = words, settings, words.library
        self.directory = Directory(node.chord, node.items, settings)
        self.posting = Posting(node.chord, words.library.asking, self.directory, settings)
        self.publisher = Publisher(words, self.posting, settings, _drawer(disk, b"maps publisher "), life)
        questions = Questions(node.chord)
        self.subscriber = Subscriber(words, questions, settings, _drawer(disk, b"maps subscriber "), life)


def _drawer(disk: Disk | None, name: bytes) -> Drawer | None:
    return None if disk is None else Drawer(disk, name)
