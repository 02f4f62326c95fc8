"""What the nodes of a placement say to each other (SmartSeer §IV; DHTrie, "The DHTrie Protocols")."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.overlay.key import Key
from tocsin.overlay.message import Message, Peer, message


@message(40)
@dataclass(frozen=True, slots=True)
class Publish(Message):
    """A document for the owners of its words. They match it, and list it: both in this one message (S2, D8)."""

    publisher: Peer
    number: int
    document: bytes  # compressed; b"": it is withdrawn
    id: str
    version: int
    gone: tuple[str, ...]  # words that only the version before had


@message(41)
@dataclass(frozen=True, slots=True)
class Announce(Message):
    """A document for the owners of some words, who will ask about it; lists are updated from this message too."""

    publisher: Peer
    number: int
    notice: bytes  # `match.rendezvous.payload`: names the words that these owners have
    gone: tuple[str, ...]


@message(42)
@dataclass(frozen=True, slots=True)
class Done(Message):
    """All subscribers that a document concerns at these keys have been told."""

    number: int
    keys: tuple[Key, ...]
    owner: Peer
    low: Key  # the owner's range begins after this key
    report: bytes  # for the publisher's next choice (SmartSeer §V-E); b"": nothing new


@message(43)
@dataclass(frozen=True, slots=True)
class Inquire(Message):
    """A query node asks a document node."""

    sender: Peer
    number: int  # of the publication
    conversation: int
    turn: int
    payload: bytes


@message(44)
@dataclass(frozen=True, slots=True)
class Respond(Message):
    """A document node answers; with nothing, when it has told the owners of the queries itself."""

    conversation: int
    turn: int
    payload: bytes


@message(45)
@dataclass(frozen=True, slots=True)
class AskFrequency(Message):
    """Routed: how many documents hold this word?"""

    request: int
    sender: Peer
    word: str


@message(46)
@dataclass(frozen=True, slots=True)
class Frequency(Message):
    """So many."""

    request: int
    count: int


@message(47)
@dataclass(frozen=True, slots=True)
class AskRange(Message):
    """Routed: who are you, and which keys are yours? (SmartSeer §IV-C: a lookup returns the owner's range.)"""

    request: int
    sender: Peer


@message(48)
@dataclass(frozen=True, slots=True)
class OwnRange(Message):
    """All keys in (low, owner]."""

    request: int
    owner: Peer
    low: Key


@message(49)
@dataclass(frozen=True, slots=True)
class Spread(Message):
    """A document for every node up to a key: broadcast along fingers."""

    limit: Key
    payload: Message


@message(50)
@dataclass(frozen=True, slots=True)
class AskList(Message):
    """Routed: which documents hold this word?"""

    request: int
    sender: Peer
    word: str


@message(51)
@dataclass(frozen=True, slots=True)
class Listed(Message):
    """These: id, version, address of the publisher."""

    request: int
    documents: tuple[tuple[str, int, str], ...]


@message(52)
@dataclass(frozen=True, slots=True)
class Judge(Message):
    """Which of these documents of yours match?"""

    request: int
    sender: Peer
    text: str
    ids: tuple[str, ...]


@message(53)
@dataclass(frozen=True, slots=True)
class Judged(Message):
    """These: id and version."""

    request: int
    documents: tuple[tuple[str, int], ...]


@message(54)
@dataclass(frozen=True, slots=True)
class Fetch(Message):
    """Follows a link: give me what lies behind the document."""

    request: int
    sender: Peer
    id: str
    version: int


@message(55)
@dataclass(frozen=True, slots=True)
class Resource(Message):
    """Here it is; None: I have no such thing."""

    request: int
    data: bytes | None


@message(56)
@dataclass(frozen=True, slots=True)
class Share(Message):
    """Your node has copies of a hot word's queries: check one share of them (DHTrie, load shedding)."""

    request: int
    sender: Peer
    key: Key
    share: int
    shares: int
    mark: int  # what the copies of this share must add up to
    payload: Message


@message(57)
@dataclass(frozen=True, slots=True)
class Shared(Message):
    """Checked, and everybody told; or not, as my copies differ from yours."""

    request: int
    is_done: bool


# Tags 58 to 60 are those of `delivery`.


@message(61)
@dataclass(frozen=True, slots=True)
class AskDocument(Message):
    """What does this document say? Asked by a subscriber whose query depends on other documents, too."""

    request: int
    sender: Peer
    id: str
    version: int


@message(62)
@dataclass(frozen=True, slots=True)
class GivenDocument(Message):
    """This; b"": I have no such document now."""

    request: int
    document: bytes  # compressed
