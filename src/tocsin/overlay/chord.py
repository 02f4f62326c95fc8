"""Chord: who owns a key, and how a message gets there (DHTrie, "Router service"; Chord §4).

    owns(key)                 yes, no, or not to be said now: the node is joining, leaving, or has lost its predecessor
    route(key, payload)       brings a message to the owner of a key, from node to node: O(log N) hops; may be lost
    lookup(key, then)         finds the owner, recursively (the question travels) or iteratively (the asker does);
                              asks again on another way when no answer comes

Where ownership cannot be told, messages for the owner are held until it can: acting on a guess would let two nodes
take what belongs to one. How the ring is kept together is `membership`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tocsin.overlay.key import MASK, Key
from tocsin.overlay.message import Address, Message, Peer, message
from tocsin.overlay.node import Deliver, Effect, Handler, Node, Seconds, Send, Token, Wake
from tocsin.overlay.table import BACK_STEPS, Table

HOPS_MAX = 48
"""Twice what a ring of millions needs: a message that goes further goes in circles while tables are wrong."""
Then: TypeAlias = Callable[[Peer | None, int, Seconds], list[Effect]]


@dataclass(frozen=True, slots=True)
class ChordSettings:
    """How the ring is kept together."""

    successors: int = 8
    """Nodes after it that each node knows, so that the ring survives that several fail at once."""
    replicas: int = 3
    """Copies of an item, on different hosts; the owner's is one of them."""
    tick_seconds: Seconds = 1.0
    """Time between two looks at the neighbours."""
    probes_missed_max: int = 3
    """Unanswered probes after which a neighbour is taken for dead."""
    suspicion_seconds: Seconds = 10.0
    """How long nothing is believed of a node that was taken for dead, unless it speaks itself."""
    losses_max: int = 1
    """Neighbours that may be lost at a time; after more a node does not know whether they died or it is cut off."""
    doubt_seconds: Seconds = 60.0
    """How long a lost neighbour counts; then it is taken to be gone for good, and the others go on without it."""
    fingers_per_tick: int = 2
    """Fingers that are looked up again at each tick."""
    lookup_seconds: Seconds = 2.0
    """Time after which a lookup is tried again."""
    lookup_attempts_max: int = 6
    """Tries of a lookup before it fails."""
    held_max: int = 1_000
    """Messages that are held while ownership is open; more are dropped, and come again from their senders."""
    page_items_max: int = 500
    """Items in one message."""


@message(1)
@dataclass(frozen=True, slots=True)
class Route(Message):
    """A message on its way to the owner of a key."""

    key: Key
    payload: Message
    hops: int
    attempt: int
    last: int  # steps back that are allowed: whoever sent it takes the receiver for the owner. 0: on the way


@message(2)
@dataclass(frozen=True, slots=True)
class FindOwner(Message):
    """Whoever owns the key that this is routed to should answer."""

    request: int
    sender: Peer
    is_place: bool  # whoever stands there on the ring should answer, even if it may not act as owner now


@message(3)
@dataclass(frozen=True, slots=True)
class Owner(Message):
    """I own it."""

    request: int
    owner: Peer
    hops: int


@message(4)
@dataclass(frozen=True, slots=True)
class AskNext(Message):
    """An iterative lookup: where would you send this?"""

    key: Key
    request: int
    sender: Peer
    attempt: int
    last: int


@message(5)
@dataclass(frozen=True, slots=True)
class Next(Message):
    """There; or it is mine."""

    request: int
    peer: Peer
    found: bool
    last: int


class Found(NamedTuple):
    """Delivered for a lookup of the layer above."""

    key: Key
    owner: Peer | None  # None: no answer after all attempts


@dataclass(slots=True)
class _Request:
    key: Key
    then: Then
    is_iterative: bool
    via: Address | None
    is_place: bool
    attempt: int = 0
    asked: int = 0


class Chord:
    """Routing by key."""

    __slots__ = (
        "_held",
        "_last_request",
        "_low",
        "_predecessor",
        "_requests",
        "_span",
        "is_gone",
        "is_placed",
        "is_ready",
        "me",
        "node",
        "settings",
        "table",
    )
    name = "chord"

    def __init__(self, node: Node, settings: ChordSettings) -> None:
        self.node = node
        self.me = node.me
        self.settings = settings
        self.table = Table(node.me, settings.successors)
        self._predecessor: Peer | None = None
        self._low = 0  # the first key of its range
        self._span: int | None = None  # the last, counted from the first; None: no predecessor
        self.is_ready = False  # it has what belongs to its range; before that it owns nothing
        self.is_placed = False  # it has been in the ring, and others can build on where it stands
        self.is_gone = False  # it left, and passes on what still comes
        self._held: list[Message] | None = None
        self._requests: dict[int, _Request] = {}
        self._last_request = 0
        node.add(self)
        node.receive(FindOwner, self._on_find_owner)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Route: self._on_route, Owner: self._on_owner, AskNext: self._on_ask_next, Next: self._on_next}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    # --- ownership ---------------------------------------------------------------------------------------------------

    @property
    def predecessor(self) -> Peer | None:
        """The node before this one, if it is known."""
        return self._predecessor

    @predecessor.setter
    def predecessor(self, peer: Peer | None) -> None:
        self._predecessor = peer
        if peer is None:
            self._span = None
        else:  # every message asks whether its key is here: the range is found once
            self._low = peer.key + 1
            self._span = (self.me.key - self._low) & MASK

    def owns(self, key: Key) -> bool | None:
        """Whether a key is this node's; None: not to be said now."""
        if not self.is_ready:
            return False if self.is_gone else None
        if self._span is None:
            return None if self.table.successors else True
        return (key - self._low) & MASK <= self._span

    def stands(self, key: Key, last: int) -> bool | None:
        """Whether the place of a key on the ring is this node's, as far as it knows."""
        if self.is_gone or not self.is_placed:
            return False if self.is_gone else None
        if self._span is None:
            return bool(last) or not self.table.successors
        return (key - self._low) & MASK <= self._span

    def hold(self, message: Message) -> list[Effect]:
        """Keeps a message until ownership is clear."""
        if self._held is None:
            self._held = []
        if len(self._held) < self.settings.held_max:
            self._held.append(message)
        return []

    def release(self, now: Seconds) -> list[Effect]:
        """Ownership may be clear now: looks again at what was held."""
        if not self._held:
            return []
        held, self._held = self._held, None
        return self.node.handle_all(held, now)

    # --- routing -----------------------------------------------------------------------------------------------------

    def step(self, key: Key, attempt: int, last: int) -> tuple[Peer | None, int]:
        """The next node for a message that is not for this one."""
        if self.is_gone:
            return (self.table.successors[0], last - 1 if last else BACK_STEPS) if self.table.successors else (None, 0)
        if last and self._predecessor is not None:
            return self._predecessor, last - 1
        return self.table.next_hop(key, attempt)

    def route(self, key: Key, payload: Message, now: Seconds, attempt: int = 0) -> list[Effect]:
        """Brings a message to the owner of a key. It may get lost; whoever needs an answer asks again."""
        return self._on_route(Route(key, payload, 0, attempt, 0), now)

    def _on_route(self, message: Route, now: Seconds) -> list[Effect]:
        key, last, payload = message.key, message.last, message.payload
        is_place = type(payload) is FindOwner and payload.is_place
        is_owner = self.stands(key, last) if is_place else self.owns(key)
        if is_owner:
            return self.node.deliver(payload, (key,), message.hops, now)
        if is_owner is None and (last or not self.table.successors):
            return self.hold(message)
        hop, last = self.step(key, message.attempt, last)
        if hop is None or message.hops >= HOPS_MAX:
            self.node.dropped += 1
            return []
        return [Send(hop.address, Route(key, payload, message.hops + 1, message.attempt, last))]

    # --- lookups -----------------------------------------------------------------------------------------------------

    def lookup(self, key: Key, now: Seconds, then: Then | None = None, is_iterative: bool = False) -> list[Effect]:
        """Finds the owner of a key and calls `then` with it, or with None after too many attempts.

        Without `then` the answer goes to the layer above.
        """
        if then is None:

            def then(owner: Peer | None, hops: int, now: Seconds) -> list[Effect]:
                return [Deliver(Found(key, owner), (key,), hops)]

        if self.owns(key):
            return then(self.me, 0, now)
        return self._begin(_Request(key, then, is_iterative, None, False), now)

    def find_place(self, key: Key, now: Seconds, then: Then, via: Address | None = None) -> list[Effect]:
        """Finds who stands at the place of a key; `via` is a node of the ring, for one that is not in it."""
        if via is None and self.stands(key, 0):
            return then(self.me, 0, now)
        return self._begin(_Request(key, then, False, via, True), now)

    def _begin(self, request: _Request, now: Seconds) -> list[Effect]:
        self._last_request += 1
        self._requests[self._last_request] = request
        return self._ask(self._last_request, now)

    def _ask(self, number: int, now: Seconds) -> list[Effect]:
        request = self._requests[number]
        later = Wake(now + self.settings.lookup_seconds, (self.name, number, request.attempt))
        if request.is_iterative:
            request.asked = 0
            hop, last = self.step(request.key, request.attempt, 0)
            return [later, *self._ask_next(number, request, hop, last)]
        question = FindOwner(number, self.me, request.is_place)
        if request.via is not None:
            return [later, Send(request.via, Route(request.key, question, 1, request.attempt, 0))]
        return [later, *self.route(request.key, question, now, request.attempt)]

    def _ask_next(self, number: int, request: _Request, hop: Peer | None, last: int) -> list[Effect]:
        if hop is None or request.asked >= HOPS_MAX:
            return []
        request.asked += 1
        return [Send(hop.address, AskNext(request.key, number, self.me, request.attempt, last))]

    def _on_find_owner(self, message: FindOwner, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        return [Send(message.sender.address, Owner(message.request, self.me, hops))]

    def _on_owner(self, message: Owner, now: Seconds) -> list[Effect]:
        request = self._requests.pop(message.request, None)
        return [] if request is None else request.then(message.owner, message.hops, now)

    def _on_ask_next(self, message: AskNext, now: Seconds) -> list[Effect]:
        is_owner = self.owns(message.key)
        if is_owner:
            answer = Next(message.request, self.me, True, 0)
        else:
            hop, last = self.step(message.key, message.attempt, message.last)
            if hop is None or (is_owner is None and message.last):
                return []  # it cannot tell now; the asker tries again
            answer = Next(message.request, hop, False, last)
        return [Send(message.sender.address, answer)]

    def _on_next(self, message: Next, now: Seconds) -> list[Effect]:
        request = self._requests.get(message.request)
        if request is None:
            return []
        if message.found:
            del self._requests[message.request]
            return request.then(message.peer, request.asked, now)
        if message.peer.address == self.me.address:  # the way leads back to the asker, who is not the owner: stale
            return []
        return self._ask_next(message.request, request, message.peer, message.last)

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """No answer came in time: tries another way, or gives up."""
        _, number, attempt = token
        request = self._requests.get(number)
        if request is None or request.attempt != attempt:
            return []
        request.attempt += 1
        if request.attempt < self.settings.lookup_attempts_max:
            return self._ask(number, now)
        del self._requests[number]
        return request.then(None, 0, now)
