"""Every message is signed, numbered and addressed; what is not exactly right is refused.

An envelope is a msgpack array of two byte strings, content and signature; the content is an array too:

    version, sender, receiver, number, public key, body

The number is the sender's clock in nanoseconds, and never the same twice: so it is a time as well. A receiver refuses
what its own clock finds too old or too new, and remembers the numbers in between. A number is refused too if it is
from before this receiver began, because of that time it remembers nothing.

An envelope without a body introduces the sender, and one without a receiver greets whoever connects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import msgpack

from tocsin.net.identity import Identity, is_signed, name_and_endpoint, name_of
from tocsin.net.limits import NetError, NetLimits
from tocsin.overlay.message import Address

VERSION = 1
CONTEXT = b"tocsin envelope 1\n"  # a signature for something else is none for an envelope
NANOSECONDS = 1_000_000_000
NOBODY: Address = ""
WallClock: TypeAlias = Callable[[], int]


class Refusal(StrEnum):
    """Why something was dropped."""

    MALFORMED = "malformed"  # not the bytes of an envelope, or not those of a message inside
    OVERSIZED = "oversized"
    UNSIGNED = "unsigned"
    FORGED = "forged"  # the signature, the key and the sender's name do not belong together
    MISDIRECTED = "misdirected"  # for another node
    UNTIMELY = "untimely"  # the clocks of the two nodes differ too much
    REPLAYED = "replayed"
    INCREDIBLE = "incredible"  # it speaks for another node, or names one that cannot be
    UNKNOWN_VERSION = "unknown_version"  # of a node that is newer or older: one of the two is to be updated
    CROWDED = "crowded"  # too many connections or senders


class EnvelopeError(NetError):
    """An envelope is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"refused: {refusal}")
        self.refusal = refusal


class Envelope(NamedTuple):
    """What was in one that is rightly signed."""

    sender: Address
    to: Address
    number: int
    name: str
    body: bytes


class Sealer:
    """Puts messages into envelopes; one for each identity, as numbers must not repeat."""

    def __init__(self, identity: Identity, clock: WallClock) -> None:
        self._identity, self._clock = identity, clock
        self._last = 0

    def seal(self, sender: Address, to: Address, body: bytes = b"") -> bytes:
        """The bytes of an envelope."""
        self._last = max(self._last + 1, self._clock())
        content = msgpack.packb((VERSION, sender, to, self._last, self._identity.public, body))
        data: bytes = msgpack.packb((content, self._identity.sign(CONTEXT + content)))
        return data


def read_envelope(data: bytes, receivers: Collection[Address]) -> Envelope:
    """Opens an envelope that is rightly signed, and for one of these receivers."""
    outer = _array(data, 2)
    if type(outer[0]) is not bytes or type(outer[1]) is not bytes:
        raise EnvelopeError(Refusal.MALFORMED)
    content, signature = outer
    parts = _array(content, 6)
    if tuple(map(type, parts)) != (int, str, str, int, bytes, bytes) or parts[0] != VERSION or parts[3] < 0:
        raise EnvelopeError(Refusal.MALFORMED)
    _, sender, to, number, public, body = parts
    if to not in receivers:
        raise EnvelopeError(Refusal.MISDIRECTED)
    if not signature:
        raise EnvelopeError(Refusal.UNSIGNED)
    name = name_of(public)
    found = name_and_endpoint(sender)
    if found is None or found[0] != name or not is_signed(public, signature, CONTEXT + content):
        raise EnvelopeError(Refusal.FORGED)
    return Envelope(sender, to, number, name, body)


def _array(data: bytes, length: int) -> tuple[Any, ...]:
    try:
        parts = msgpack.unpackb(data, raw=False, use_list=False, max_map_len=0, max_ext_len=0)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise EnvelopeError(Refusal.MALFORMED) from error
    if type(parts) is not tuple or len(parts) != length:
        raise EnvelopeError(Refusal.MALFORMED)
    return parts


@dataclass(slots=True)
class _Numbers:
    """Those of one sender that came: every one above the floor, and all that are too old to come again below."""

    floor: int
    highest: int = 0
    seen: set[int] = field(default_factory=set)
    order: list[int] = field(default_factory=list)

    def add(self, number: int, horizon: int, most: int) -> bool:
        while self.order and (self.order[0] < horizon or len(self.order) > most):
            oldest = heappop(self.order)
            self.seen.discard(oldest)
            self.floor = max(self.floor, oldest)
        if number <= self.floor or number in self.seen:
            return False
        self.seen.add(number)
        heappush(self.order, number)
        self.highest = max(self.highest, number)
        return True


class Gate:
    """Lets each envelope through once, at its time."""

    def __init__(self, clock: WallClock, limits: NetLimits) -> None:
        self._clock, self._limits = clock, limits
        self._start = clock()
        self._senders: dict[str, _Numbers] = {}

    def check(self, envelope: Envelope) -> float:
        """How many seconds the sender's clock is ahead; raises if the envelope is untimely or came before."""
        now, width = self._clock(), int(self._limits.clock_seconds_max * NANOSECONDS)
        ahead = envelope.number - now
        if abs(ahead) > width:
            raise EnvelopeError(Refusal.UNTIMELY)
        numbers = self._senders.get(envelope.name)
        if numbers is None:
            numbers = self._admit(envelope.name, now - width)
        if not numbers.add(envelope.number, now - width, self._limits.sender_numbers_max):
            raise EnvelopeError(Refusal.REPLAYED)
        return ahead / NANOSECONDS

    def _admit(self, name: str, horizon: int) -> _Numbers:
        if len(self._senders) >= self._limits.senders_max:
            # Whoever was silent for so long needs no memory: all its numbers are too old by now.
            self._senders = {one: numbers for one, numbers in self._senders.items() if numbers.highest >= horizon}
            if len(self._senders) >= self._limits.senders_max:
                raise EnvelopeError(Refusal.CROWDED)
        self._senders[name] = _Numbers(self._start)
        return self._senders[name]
