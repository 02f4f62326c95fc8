"""What super-peers and clients say to each other (P2P-DIET §3)."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.overlay.delivery import Notice
from tocsin.overlay.message import Address, Message, Peer, message, record

# --- among super-peers: the graph ------------------------------------------------------------------------------------


@record
@dataclass(frozen=True, slots=True)
class LinkState:
    """Which neighbours a super-peer finds alive; of two, that with the higher life and number counts.

    `retired` are super-peers that its operator said are gone for good.
    """

    origin: Address
    life: int
    number: int
    links: tuple[Address, ...]
    retired: tuple[Address, ...]
    card: bytes
    signature: bytes


@message(160)
@dataclass(frozen=True, slots=True)
class AreYouAlive(Message):
    """To a neighbour or a client; `mark` sums up all link states that the sender knows."""

    sender: Peer
    mark: int
    is_answer: bool


@message(161)
@dataclass(frozen=True, slots=True)
class LinkStates(Message):
    """These are new to you, I think; `is_all`: tell me what you have beyond them."""

    sender: Peer
    states: tuple[LinkState, ...]
    is_all: bool


@message(162)
@dataclass(frozen=True, slots=True)
class Relay(Message):
    """A sealed message on the shortest path from one super-peer to another."""

    origin: Address
    target: Address
    hops: int
    body: bytes


# --- among super-peers: what all must know ---------------------------------------------------------------------------


@record
@dataclass(frozen=True, slots=True)
class Line:
    """A line of a super-peer's sheet: a query that it forwards, or an advertisement of a client; None: removed."""

    name: str
    number: int
    value: bytes | None


@message(163)
@dataclass(frozen=True, slots=True)
class Forward(Message):
    """All that changed in a super-peer's sheet after one number and up to another, signed by it."""

    origin: Address
    after: int
    upto: int
    lines: tuple[Line, ...]
    signature: bytes


@message(164)
@dataclass(frozen=True, slots=True)
class Known(Message):
    """To the origin of a sheet: I have it up to here. `life` is that of who says so."""

    life: int
    upto: int


# --- among super-peers: streams --------------------------------------------------------------------------------------


@message(165)
@dataclass(frozen=True, slots=True)
class Flow(Message):
    """A numbered message from one super-peer to another; those before `first` have arrived."""

    life: int
    number: int
    first: int
    payload: Message


@message(166)
@dataclass(frozen=True, slots=True)
class Flowed(Message):
    """I have everything of this life up to here."""

    life: int
    upto: int


@message(167)
@dataclass(frozen=True, slots=True)
class News(Message):
    """A document was published; it matches a query that you forwarded."""

    link: Address
    document: bytes


# --- among super-peers: clients that moved, one-time queries, rendezvous ---------------------------------------------


@message(168)
@dataclass(frozen=True, slots=True)
class Collect(Message):
    """Your client is here now. I have what you stored up to a number; give me the rest. `is_final`: let it go."""

    client: str
    epoch: int
    upto: int
    is_final: bool


@record
@dataclass(frozen=True, slots=True)
class Stored:
    """Something that waits for a client."""

    number: int
    payload: bytes


@message(169)
@dataclass(frozen=True, slots=True)
class Handed(Message):
    """This was stored for your client; `is_released`: and I have nothing of it any more."""

    client: str
    epoch: int
    stored: tuple[Stored, ...]
    is_released: bool


@message(170)
@dataclass(frozen=True, slots=True)
class Question(Message):
    """A one-time query on its way down the tree of the access point that asks; answers go straight to the client."""

    access: Address
    client: Peer
    number: int
    attempt: int
    text: str


@message(171)
@dataclass(frozen=True, slots=True)
class Deposit(Message):
    """Something for a client of yours, from another client: a wish for a resource, or the resource."""

    client: str
    payload: bytes


# --- from clients ----------------------------------------------------------------------------------------------------


@message(180)
@dataclass(frozen=True, slots=True)
class Connect(Message):
    """Be my access point. `last`: the epoch in which I was connected before; `formers`: access points I have left."""

    sender: Peer
    client: str
    epoch: int
    last: int
    formers: tuple[Address, ...]
    card: bytes


@message(181)
@dataclass(frozen=True, slots=True)
class Welcome(Message):
    """I am; `knows`: I have all that you told me the last time."""

    sender: Peer
    epoch: int
    knows: bool
    card: bytes


@message(182)
@dataclass(frozen=True, slots=True)
class Advertise(Message):
    """What I shall publish."""

    sender: Peer
    epoch: int
    number: int
    advertisement: bytes


@message(183)
@dataclass(frozen=True, slots=True)
class Subscribe(Message):
    """A continuous query, a new version of it, or (without text) its end."""

    sender: Peer
    epoch: int
    number: int
    id: str
    version: int
    text: str


@message(184)
@dataclass(frozen=True, slots=True)
class PublishAt(Message):
    """Metadata of a resource of mine; `is_old`: its subscribers have been told, keep it for one-time queries."""

    sender: Peer
    epoch: int
    number: int
    document: bytes
    is_old: bool


@message(185)
@dataclass(frozen=True, slots=True)
class WithdrawAt(Message):
    """A resource is gone."""

    sender: Peer
    epoch: int
    number: int
    id: str
    version: int


@message(186)
@dataclass(frozen=True, slots=True)
class Settled(Message):
    """I have told you everything: my former access points may forget me."""

    sender: Peer
    epoch: int
    number: int


@message(187)
@dataclass(frozen=True, slots=True)
class Search(Message):
    """A one-time query; `missing`: super-peers that have not answered (none: it is asked for the first time)."""

    sender: Peer
    epoch: int
    number: int
    attempt: int
    text: str
    missing: tuple[Address, ...]


@message(188)
@dataclass(frozen=True, slots=True)
class Meet(Message):
    """A rendezvous: keep this for another client, who is away or not where I thought (a wish, or what was wished)."""

    sender: Peer
    epoch: int
    number: int
    client: str
    payload: bytes


@message(189)
@dataclass(frozen=True, slots=True)
class Leave(Message):
    """I go off-line; keep what comes for me."""

    sender: Peer
    epoch: int


@message(190)
@dataclass(frozen=True, slots=True)
class Heard(Message):
    """I have all that waited for me up to here."""

    sender: Peer
    epoch: int
    upto: int


# --- to clients ------------------------------------------------------------------------------------------------------


@message(191)
@dataclass(frozen=True, slots=True)
class Done(Message):
    """Your request has been done."""

    sender: Peer
    epoch: int
    number: int


@message(192)
@dataclass(frozen=True, slots=True)
class Refused(Message):
    """Your request cannot be done (number 0: your connecting), for this reason; not final: connect first."""

    sender: Peer
    epoch: int
    number: int
    is_final: bool
    reason: str


@message(193)
@dataclass(frozen=True, slots=True)
class Asked(Message):
    """These super-peers may have answers to your one-time query; each will say what it has."""

    sender: Peer
    number: int
    superpeers: tuple[Address, ...]


@record
@dataclass(frozen=True, slots=True)
class Found:
    """An answer: a resource and its owner."""

    id: str
    version: int
    link: Address


@message(194)
@dataclass(frozen=True, slots=True)
class Answers(Message):
    """A super-peer's answers to a one-time query."""

    sender: Peer
    number: int
    found: tuple[Found, ...]


@message(195)
@dataclass(frozen=True, slots=True)
class Told(Message):
    """The next thing that waited for a client; those before `first` it has had."""

    sender: Peer
    epoch: int
    number: int
    first: int
    payload: bytes


# --- what waits for a client: inside Told ----------------------------------------------------------------------------


@message(196)
@dataclass(frozen=True, slots=True)
class Tell(Message):
    """A notice, the version of the query that it is for, and how many links of super-peers it crossed."""

    notice: Notice
    version: int
    hops: int


@message(197)
@dataclass(frozen=True, slots=True)
class LeftBehind(Message):
    """A former access point has let you go, who connected in this epoch."""

    access: Address
    epoch: int


@message(198)
@dataclass(frozen=True, slots=True)
class Wish(Message):
    """A client would like a resource: directly from its owner, or at a rendezvous when the owner is back."""

    sender: Peer
    request: int
    id: str
    version: int
    card: bytes


@message(199)
@dataclass(frozen=True, slots=True)
class Parcel(Message):
    """A resource, sealed for who wished it; None: there is no such thing."""

    owner: Address
    card: bytes
    to: Address
    request: int
    data: bytes | None
