"""One message to the owners of many keys, each exactly once (DHTrie, "Content-Based Multicasting").

    iterative    a message for each key, all at once: O(k log N) messages, lowest latency
    recursive    one message with the list of all keys, sorted from the sender on; each owner takes its keys off the
                 list and sends the rest on to the owner of the next: fewest messages, latency grows with the list
    hybrid       lists of at most `list_max` keys, split along the sender's fingers, sent at once, each recursive

Groups form by themselves: whoever owns a key is in. With an FCache the sender knows addresses from before and writes
them beside the keys; whoever has the list goes there directly. A node that does not own a key any more passes the
message on through the ring, and the receipt of the true owner corrects the sender's cache.

Exactly once: an owner sends a receipt to the sender; keys without one are sent again, without the cache; an owner
remembers which keys of which messages it had, and this memory changes hands with the keys. Only a node that dies with
its memory can make an owner hear something again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from tocsin.overlay.chord import HOPS_MAX, Chord
from tocsin.overlay.fcache import FCache
from tocsin.overlay.key import BITS, MASK, Key, is_between
from tocsin.overlay.membership import Membership
from tocsin.overlay.message import Address, Item, Message, Peer, message, passed_on, quick
from tocsin.overlay.node import Deliver, Effect, Handler, Seconds, Send, Token, Wake
from tocsin.overlay.table import BACK_STEPS

MEMORY_KIND = 1


class Method(StrEnum):
    """How many recipients are reached."""

    ITERATIVE = "iterative"
    RECURSIVE = "recursive"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class MulticastSettings:
    """How messages are spread."""

    method: Method = Method.HYBRID
    """Which of the three ways."""
    list_max: int = 30
    """Keys in one list of the hybrid method (the paper's maximum list size)."""
    cache_entries_max: int = 0
    """Entries of the FCache (the paper's: 10,000); 0: none."""
    receipt_seconds: Seconds = 4.0
    """Time after which keys without a receipt are sent again; doubles with each attempt."""
    receipt_key_seconds: Seconds = 0.5
    """Added for each key of a list, as one owner is reached after the other."""
    attempts_max: int = 12
    """Tries before keys are given up."""
    memory_casts_max: int = 10_000
    """Messages that an owner remembers so as not to take them twice."""


@message(30, kept=5)
@dataclass(frozen=True, slots=True)
class Cast(Message):
    """A message on its way to the owners of keys, first to that of the first."""

    origin: Peer
    number: int
    keys: tuple[Key, ...]
    hints: tuple[Address, ...]  # addresses from the sender's FCache, "" where it has none; () without FCache
    payload: Message
    hops: int
    attempt: int
    last: int  # as in Route
    since: int  # hops since the last owner: too many mean that tables are wrong


_Cast = quick(Cast)


@message(31)
@dataclass(frozen=True, slots=True)
class Receipt(Message):
    """I own these keys, and have it."""

    number: int
    keys: tuple[Key, ...]
    owner: Peer


class Reached(NamedTuple):
    """Delivered to the sender when every owner has it."""

    number: int


class Unreached(NamedTuple):
    """Delivered to the sender when it gave up; the keys are beside it."""

    number: int


@dataclass(slots=True)
class _Sent:
    payload: Message
    keys: dict[Key, None]  # those without a receipt, in the order of the list
    method: Method
    attempt: int = 0


class Multicast:
    """send(payload, keys) and everything that follows from it."""

    __slots__ = ("_last", "_memory", "_sent", "cache", "chord", "me", "node", "settings")
    name = "multicast"

    def __init__(self, chord: Chord, settings: MulticastSettings, incarnation: int = 0) -> None:
        """`incarnation` is another number in each life of a node: a message must not look like one of a former life."""
        self.chord = chord
        self.node = chord.node
        self.me = chord.me
        self.settings = settings
        self.cache = FCache(settings.cache_entries_max) if settings.cache_entries_max else None
        self._last = incarnation << 32
        self._sent: dict[int, _Sent] | None = None
        self._memory: dict[tuple[Key, int], set[Key]] | None = None  # made when needed: most of 100,000 nodes need none
        chord.node.add(self)

    def join(self, membership: Membership) -> None:
        """Lets the memory of what was had change hands with the keys."""
        membership.keyed[MEMORY_KIND] = self

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Cast: self._on_cast, Receipt: self._on_receipt}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    # --- the sender --------------------------------------------------------------------------------------------------

    def send(self, payload: Message, keys: Iterable[Key], now: Seconds, method: Method | None = None) -> list[Effect]:
        """Sends a message to the owners of keys; `Reached` is delivered when all have it."""
        start = self.me.key
        self._last += 1
        ordered = dict.fromkeys(sorted(set(keys), key=lambda key: (key - start) & MASK))
        if self._sent is None:
            self._sent = {}
        self._sent[self._last] = _Sent(payload, ordered, method or self.settings.method)
        return self._dispatch(self._last, now)

    def _dispatch(self, number: int, now: Seconds) -> list[Effect]:
        assert self._sent is not None
        sent = self._sent[number]
        mine = [key for key in sent.keys if self.chord.owns(key)]
        effects = self._have((self.me.key, number), tuple(mine), sent.payload, 0, now) if mine else []
        for key in mine:
            del sent.keys[key]
        if not sent.keys:
            return [*effects, *self._finish(number)]
        keys, hints = tuple(sent.keys), self._hints(sent)
        settings = self.settings
        longest = 1
        for start, end in self._lists(sent.method, keys):
            longest = max(longest, end - start)
            cast = Cast(self.me, number, keys[start:end], hints[start:end], sent.payload, 0, sent.attempt, 0, 0)
            effects += self._forward(cast, cast.keys, cast.hints, 0)
        patience = (settings.receipt_seconds + settings.receipt_key_seconds * longest) * 2 ** min(sent.attempt, 4)
        effects.append(Wake(now + patience, (self.name, number, sent.attempt)))
        return effects

    def _hints(self, sent: _Sent) -> tuple[Address, ...]:
        if self.cache is None:
            return ()
        if sent.attempt == 0:
            return tuple([self.cache.use(key) for key in sent.keys])
        for key in sent.keys:
            self.cache.doubt(key)
        return ()

    def _lists(self, method: Method, keys: Sequence[Key]) -> Iterator[tuple[int, int]]:
        """How the sorted keys are cut into lists."""
        if method is Method.RECURSIVE:
            yield 0, len(keys)
            return
        size = 1
        spans = [(0, len(keys))]
        if method is Method.HYBRID:
            size = self.settings.list_max
            hops = groupby(range(len(keys)), key=lambda at: self.chord.table.next_hop(keys[at])[0])
            spans = [(some[0], some[-1] + 1) for some in (list(group) for _, group in hops)]
        for start, end in spans:
            for at in range(start, end, size):
                yield at, min(at + size, end)

    def _finish(self, number: int) -> list[Effect]:
        assert self._sent is not None
        del self._sent[number]
        return [Deliver(Reached(number))]

    def _on_receipt(self, message: Receipt, now: Seconds) -> list[Effect]:
        if self.cache is not None:
            for key in message.keys:
                self.cache.learn(key, message.owner.address)
        sent = self._sent.get(message.number) if self._sent is not None else None
        if sent is None:
            return []
        for key in message.keys:
            sent.keys.pop(key, None)
        return [] if sent.keys else self._finish(message.number)

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Receipts are missing: sends again."""
        _, number, attempt = token
        sent = self._sent.get(number) if self._sent is not None else None
        if sent is None or sent.attempt != attempt:
            return []
        sent.attempt += 1
        if sent.attempt < self.settings.attempts_max:
            return self._dispatch(number, now)
        assert self._sent is not None
        del self._sent[number]
        return [Deliver(Unreached(number), tuple(sent.keys))]

    # --- on the way, and at an owner ---------------------------------------------------------------------------------

    def _on_cast(self, message: Cast, now: Seconds) -> list[Effect]:
        keys, hints, chord = message.keys, message.hints, self.chord
        if not keys or (hints and len(hints) != len(keys)):
            self.node.dropped += 1
            return []
        is_owner = chord.owns(keys[0])
        if not is_owner:
            if is_owner is None and (message.last or not chord.table.successors):
                return chord.hold(message)
            if message.last and hints and hints[0]:
                hints = ("", *hints[1:])  # an old address: from here on through the ring
            return self._forward(message, keys, hints, message.last)
        end = 1
        while end < len(keys) and chord.owns(keys[end]):
            end += 1
        mine, rest = keys[:end], keys[end:]
        name = message.origin.key, message.number
        effects = self._have(name, mine, message.payload, message.hops, now)
        effects.append(Send(message.origin.address, Receipt(message.number, mine, self.me)))
        if rest and self._is_first(name, message.attempt, mine[0]):
            effects += self._forward(message, rest, hints[end:], 0)
        return effects

    def _is_first(self, name: tuple[Key, int], attempt: int, key: Key) -> bool:
        """Whether this list comes for the first time in this attempt.

        The network may repeat a message; if each copy were sent on, copies of copies would fill it.
        """
        assert self._memory is not None
        mark = (attempt + 1 << BITS) | key  # no key is so large
        had = self._memory[name]
        is_first = mark not in had
        had.add(mark)
        return is_first

    def _forward(self, cast: Cast, keys: tuple[Key, ...], hints: tuple[Address, ...], last: int) -> list[Effect]:
        since = cast.since + 1 if keys is cast.keys else 1
        if hints and hints[0] and hints[0] != self.me.address:
            to, last = hints[0], BACK_STEPS
        else:
            hop, last = self.chord.step(keys[0], cast.attempt, last)
            if hop is None or since > HOPS_MAX:
                self.node.dropped += 1
                return []
            to = hop.address
        hops, attempt = cast.hops + 1, cast.attempt
        further = _Cast(cast.origin, cast.number, keys, hints, cast.payload, hops, attempt, last, since)
        cut = len(cast.keys) - len(keys)
        if cut or hints is cast.hints:
            passed_on(cast, further, cut)
        return [Send(to, further)]

    def _have(
        self, name: tuple[Key, int], keys: tuple[Key, ...], payload: Message, hops: int, now: Seconds
    ) -> list[Effect]:
        """Delivers what has not been had."""
        if self._memory is None:
            self._memory = {}
        had = self._memory.get(name)
        if had is None:
            had = self._memory[name] = set()
            if len(self._memory) > self.settings.memory_casts_max:
                del self._memory[next(iter(self._memory))]
        fresh = tuple([key for key in keys if key not in had]) if had else keys
        had.update(fresh)
        return self.node.deliver(payload, fresh, hops, now) if fresh else []

    # --- the memory changes hands ------------------------------------------------------------------------------------

    def items_in(self, low: Key, high: Key) -> Iterable[Item]:
        """What was had for the keys in (low, high]."""
        for (origin, number), had in (self._memory or {}).items():
            name = origin.to_bytes(8, "big") + number.to_bytes(8, "big")
            for key in sorted(had):
                if key <= MASK and is_between(key, low, high):
                    yield Item(key, MEMORY_KIND, name, 0, b"")

    def take(self, items: Sequence[Item], now: Seconds) -> None:
        """What the former owner had counts as had."""
        if self._memory is None:
            self._memory = {}
        for item in items:
            if len(item.name) == 16:
                origin, number = int.from_bytes(item.name[:8], "big"), int.from_bytes(item.name[8:], "big")
                self._memory.setdefault((origin, number), set()).add(item.key)
        while len(self._memory) > self.settings.memory_casts_max:
            del self._memory[next(iter(self._memory))]
