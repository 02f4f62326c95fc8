"""What the nodes of MAPS say to each other (MAPS, "Service Types", "Continuous Query Forwarding")."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.overlay.key import Key
from tocsin.overlay.message import Address, Item, Message, Peer, message, record


@message(110)
@dataclass(frozen=True, slots=True)
class Post(Message):
    """Statistics of a publisher for the keys of one owner, all in one message."""

    number: int
    sender: Peer
    items: tuple[Item, ...]


@message(111)
@dataclass(frozen=True, slots=True)
class Carried(Message):
    """A message that was on its way to this node anyway, and statistics that ride on it."""

    number: int
    sender: Peer
    items: tuple[Item, ...]
    message: Message


@message(112)
@dataclass(frozen=True, slots=True)
class Posted(Message):
    """I have what lies in (low, owner]; the rest is not mine. Please count these sets of words, too."""

    number: int
    owner: Peer
    low: Key
    sets: tuple[str, ...]


@message(113)
@dataclass(frozen=True, slots=True)
class Count(Message):
    """These words are asked for together: count documents that hold them all."""

    sets: tuple[str, ...]


@message(114)
@dataclass(frozen=True, slots=True)
class AskStatistics(Message):
    """Routed: who publishes this word, or set of words? The query's other words let the directory learn sets."""

    request: int
    sender: Peer
    term: str
    subscription: str
    query: tuple[str, ...]  # all its words


@record
@dataclass(frozen=True, slots=True)
class Figures:
    """What a directory knows of a publisher and a term."""

    publisher: Address
    life: int  # of the publisher: in another one it may have forgotten the queries it kept
    documents: int  # of its collection that hold the term
    words: int  # size of its collection
    last: int  # interval of the newest point of the series
    series: tuple[int, ...]  # documents with the term published in each interval, oldest first


@message(115)
@dataclass(frozen=True, slots=True)
class Statistics(Message):
    """All that is known of a term, and sets of the query's words that have statistics of their own."""

    request: int
    figures: tuple[Figures, ...]
    sets: tuple[str, ...]


@message(116)
@dataclass(frozen=True, slots=True)
class AskTotals(Message):
    """Routed: how many publishers are there? And draw some of them."""

    request: int
    sender: Peer
    draw: int
    sample: int


@message(117)
@dataclass(frozen=True, slots=True)
class Totals(Message):
    """So many, with so many words in all; and some, drawn as they were asked for."""

    request: int
    publishers: int
    words: int
    sample: tuple[Address, ...]


@message(118)
@dataclass(frozen=True, slots=True)
class Keep(Message):
    """Match this query against what you publish; of two orders the one with the higher stamp counts."""

    request: int
    sender: Peer
    subscription: str
    stamp: int
    text: str  # "": drop it


@message(119)
@dataclass(frozen=True, slots=True)
class Kept(Message):
    """I do, for the rest of this life."""

    request: int
    life: int


@message(120)
@dataclass(frozen=True, slots=True)
class Audit(Message):
    """How many documents that match did you publish, from so long ago until so long ago, without telling me?"""

    request: int
    sender: Peer
    subscription: str
    text: str
    since_milliseconds: int
    until_milliseconds: int


@message(121)
@dataclass(frozen=True, slots=True)
class Audited(Message):
    """So many."""

    request: int
    matches: int
