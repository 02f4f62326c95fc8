"""Notices on their way to a subscriber: numbered, asked for again where there is a gap, once into the outbox.

A sender numbers what it sends to each subscriber. The subscriber answers with how far it has everything; where a number
is missing it asks for it at once. What is not heard of is sent again, more and more rarely, for as long as the sender
lives. Whoever waits for a notice to arrive is called when the subscriber has it, not before: a publication is done when
its last notice is.

A subscriber may be told the same thing by several senders, and again by one that lost its memory. What counts is what
it is told of: subscription, document, version. Each goes once into the outbox, which has numbers of its own, is on disk
if there is one, and is read from any number on: a reader that was away resumes where it was. Of what a reader is done
with only a mark is kept, by which it is known if it comes again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple, TypeAlias

import msgpack

from tocsin.overlay.message import Address, Message, Peer, message, record
from tocsin.overlay.node import Deliver, Effect, Handler, Node, Seconds, Send, Token, Wake

Disk: TypeAlias = MutableMapping[bytes, bytes]
Then: TypeAlias = Callable[[Seconds], list[Effect]]

AGAIN_SECONDS = 3.0
AGAIN_SECONDS_MAX = 30.0
WINDOW = 50
"""Notices that are sent again at a time."""
ASKED_MAX = 1_000
"""Missing numbers that one answer asks for; the next asks for more."""


@record
@dataclass(frozen=True, slots=True)
class Notice:
    """A match, with a link to the document instead of the document (DHTrie, D3)."""

    subscription: str
    document: str
    version: int
    link: Address
    """Where the document is served."""

    @property
    def name(self) -> tuple[str, str, int]:
        """What makes it the same notice."""
        return self.subscription, self.document, self.version


@message(58)
@dataclass(frozen=True, slots=True)
class Notify(Message):
    """A numbered notice; numbers before `first` have been heard."""

    sender: Peer
    life: int
    number: int
    first: int
    notice: Notice


@message(59)
@dataclass(frozen=True, slots=True)
class Heard(Message):
    """I have all of this life's numbers up to `upto`, except that these are missing, and what is beyond `upto`."""

    sender: Peer
    life: int
    upto: int
    missing: tuple[int, ...]


class Notified(NamedTuple):
    """Delivered to the layer above when a notice enters the outbox."""

    number: int
    notice: Notice


@dataclass(slots=True)
class _Stream:
    """What is on its way to one subscriber."""

    last: int = 0
    open: dict[int, tuple[Notice, Then]] = field(default_factory=dict)
    attempt: int = 0


@dataclass(slots=True)
class _Ear:
    """What came from one life of a sender."""

    upto: int = 0
    beyond: set[int] = field(default_factory=set)


class Delivery:
    """Both ends of the way: `tell` sends, the outbox receives."""

    name = "delivery"

    def __init__(self, node: Node, disk: Disk | None = None, life: int = 0) -> None:
        """`life` is another number each time the node begins again."""
        self.me = node.me
        self.accept: Callable[[Notice], bool] = lambda notice: True
        self.divert: Callable[[Notice, Seconds], list[Effect] | None] = lambda notice, now: None
        """Takes a notice that is not for the outbox: of a query that this node asks for its own sake."""
        self._life = life
        self._disk = disk
        self._streams: dict[Address, _Stream] = {}
        self._ears: dict[tuple[Address, int], _Ear] = {}
        self._outbox: deque[Notice] = deque()
        self._forgotten = 0  # notices that came before those of the outbox
        self._had: set[bytes] = set()
        for key in sorted(disk or ()):
            assert disk is not None
            kept = msgpack.unpackb(disk[key])
            if isinstance(kept, bytes):
                self._had.add(kept)
                self._forgotten += 1
            else:
                self._keep(Notice(*kept))
        node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Notify: self._on_notify, Heard: self._on_heard}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    # --- the sender --------------------------------------------------------------------------------------------------

    def tell(self, to: Address, notice: Notice, now: Seconds, then: Then) -> list[Effect]:
        """Sends a notice until it is heard, then calls `then`."""
        if to == self.me.address:
            return [*self.take(notice, now), *then(now)]
        stream = self._streams.setdefault(to, _Stream())
        stream.last += 1
        is_idle = not stream.open
        stream.open[stream.last] = notice, then
        effects: list[Effect] = [self._notify(to, stream, stream.last)]
        if is_idle:
            stream.attempt += 1
            effects.append(Wake(now + AGAIN_SECONDS, (self.name, to, stream.attempt, 0)))
        return effects

    def open_to(self, to: Address) -> int:
        """How many notices a subscriber has not heard."""
        return len(self._streams[to].open) if to in self._streams else 0

    def _notify(self, to: Address, stream: _Stream, number: int) -> Send:
        first = next(iter(stream.open))
        return Send(to, Notify(self.me, self._life, number, first, stream.open[number][0]))

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Something was not heard: sends it again."""
        _, to, attempt, times = token
        stream = self._streams[to]
        if not stream.open or stream.attempt != attempt:
            return []
        later = now + min(AGAIN_SECONDS * 2 ** (times + 1), AGAIN_SECONDS_MAX)
        again = [self._notify(to, stream, number) for number in list(stream.open)[:WINDOW]]
        return [*again, Wake(later, (self.name, to, attempt, min(times + 1, 10)))]

    def _on_heard(self, message: Heard, now: Seconds) -> list[Effect]:
        stream = self._streams.get(message.sender.address)
        if stream is None or message.life != self._life:
            return []
        missing = set(message.missing)
        effects: list[Effect] = []
        for number in [number for number in stream.open if number <= message.upto and number not in missing]:
            effects += stream.open.pop(number)[1](now)
        effects += [
            self._notify(message.sender.address, stream, number) for number in message.missing if number in stream.open
        ]
        return effects

    # --- the subscriber ----------------------------------------------------------------------------------------------

    def outbox(self, after: int = 0) -> Iterator[tuple[int, Notice]]:
        """Everything after a number, in order; not what was forgotten."""
        begin = max(after, self._forgotten)
        yield from enumerate(islice(self._outbox, begin - self._forgotten, None), begin + 1)

    def forget(self, upto: int) -> None:
        """Everything up to a number was read for good: it is known if it comes again, and no more."""
        while self._forgotten < upto and self._outbox:
            mark = _mark(self._outbox.popleft())
            self._forgotten += 1
            if self._disk is not None:
                self._disk[self._forgotten.to_bytes(8, "big")] = msgpack.packb(mark)

    def _keep(self, notice: Notice) -> bool:
        mark = _mark(notice)
        if mark in self._had:
            return False
        self._had.add(mark)
        self._outbox.append(notice)
        return True

    def take(self, notice: Notice, now: Seconds) -> list[Effect]:
        """Into the outbox, if it is wanted and not there."""
        diverted = self.divert(notice, now)
        if diverted is not None:
            return diverted
        if not self.accept(notice) or not self._keep(notice):
            return []
        number = self._forgotten + len(self._outbox)
        if self._disk is not None:
            packed = msgpack.packb((notice.subscription, notice.document, notice.version, notice.link))
            self._disk[number.to_bytes(8, "big")] = packed
        return [Deliver(Notified(number, notice))]

    def _on_notify(self, message: Notify, now: Seconds) -> list[Effect]:
        ear = self._ears.setdefault((message.sender.address, message.life), _Ear())
        ear.upto = max(ear.upto, message.first - 1)
        effects = self.take(message.notice, now)
        if message.number > ear.upto:
            ear.beyond.add(message.number)
        ear.beyond = {number for number in ear.beyond if number > ear.upto}
        while ear.upto + 1 in ear.beyond:
            ear.upto += 1
            ear.beyond.discard(ear.upto)
        highest = max(ear.beyond, default=ear.upto)
        gaps = range(ear.upto + 1, min(highest, ear.upto + ASKED_MAX) + 1)
        missing = tuple(number for number in gaps if number not in ear.beyond)
        heard = max(ear.upto, gaps.stop - 1) if missing else ear.upto
        return [*effects, Send(message.sender.address, Heard(self.me, message.life, heard, missing))]


def _mark(notice: Notice) -> bytes:
    return blake2b(msgpack.packb(notice.name), digest_size=16).digest()
