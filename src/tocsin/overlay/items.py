"""Values under keys, at the owner of the key and at the hosts after it (MAPS, "Optimizations").

The layer above sees three verbs: put, get, watch. An item is opaque; of two with the same key, kind and name the
higher version counts, so copies can meet in any order. A removal is an item without a value, and stays.

    put         routed to the owner; answered when the owner and its replicas have it, and the first of them says that
                nobody is between them: else another may own the key already, and know nothing of it
    replicas    the next hosts (not: nodes) after the owner; every few ticks the owner sends them a digest of its range,
                16 numbers whatever is stored, and only buckets that differ are exchanged
    strays      items that are in nobody's digest any more are put again, then dropped: what was accepted on the wrong
                side of a split comes home
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import TypeAlias

import msgpack

from tocsin.overlay.chord import Chord
from tocsin.overlay.key import Key, host_of, is_between
from tocsin.overlay.membership import OTHER_KINDS, Membership
from tocsin.overlay.message import Address, Item, Message, Peer, message
from tocsin.overlay.node import Effect, Handler, Seconds, Send, Token, Wake

Disk: TypeAlias = MutableMapping[bytes, bytes]
Answer: TypeAlias = Callable[[tuple[Item, ...] | None, Seconds], list[Effect]]
Watcher: TypeAlias = Callable[[Item], None]

BUCKETS = 16
RANGES_KEPT = 32
DIGEST_TICKS = 2
STRAYS_PER_TICK = 20
CHARGE_TICKS = 12
"""A range that a digest named is in this node's charge for so many ticks."""
PUT_SECONDS = 2.0
PUT_ATTEMPTS_MAX = 20


@message(20)
@dataclass(frozen=True, slots=True)
class Put(Message):
    """Routed: keep these items of one key."""

    request: int
    sender: Peer
    items: tuple[Item, ...]


@message(21)
@dataclass(frozen=True, slots=True)
class Get(Message):
    """Routed: what is under this key?"""

    request: int
    sender: Peer


@message(22)
@dataclass(frozen=True, slots=True)
class Values(Message):
    """The answer to Put (nothing in it) and Get."""

    request: int
    items: tuple[Item, ...]


@message(23)
@dataclass(frozen=True, slots=True)
class Replicate(Message):
    """Keep copies of these."""

    sender: Peer
    number: int  # 0: no answer needed
    items: tuple[Item, ...]


@message(24)
@dataclass(frozen=True, slots=True)
class Replicated(Message):
    """Done; and this node is before me."""

    number: int
    sender: Peer
    before: Peer | None


@message(25)
@dataclass(frozen=True, slots=True)
class Digest(Message):
    """You keep copies of (low, me]: this is what there should be."""

    sender: Peer
    low: Key
    marks: tuple[int, ...]


@message(26)
@dataclass(frozen=True, slots=True)
class Differs(Message):
    """In these buckets of (low, you] I have this instead, or it begins with this: then it tells of no later key."""

    sender: Peer
    low: Key
    buckets: tuple[int, ...]
    items: tuple[Item, ...]


@dataclass(slots=True)
class _Question:
    key: Key
    message: Message
    then: Answer
    attempt: int = 0


@dataclass(slots=True)
class _Pending:
    """A put that replicas have not all answered; the first is the one that would own the key next."""

    put: Put
    first: Address
    waiting: set[Address]


def mark_of(item: Item) -> int:
    """A number that is another for every other item."""
    return int.from_bytes(blake2b(_packed(item), digest_size=8).digest(), "big")


def _packed(item: Item) -> bytes:
    data: bytes = msgpack.packb((item.key, item.kind, item.name, item.version, item.value))
    return data


def is_newer(item: Item, than: Item | None) -> bool:
    """Which of two items of one name counts; equal versions are settled by their bytes, alike everywhere."""
    if than is None or item.version != than.version:
        return than is None or item.version > than.version
    return (item.value is None, item.value or b"") > (than.value is None, than.value or b"")


class Store:
    """Items by key, on a disk if there is one."""

    __slots__ = ("_disk", "_items", "_keys", "_marks", "count")

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk
        self._items: dict[Key, dict[tuple[int, bytes], tuple[Item, int]]] = {}
        self._keys: list[Key] | None = None  # sorted when it is needed
        self._marks: dict[tuple[Key, Key], tuple[int, ...]] = {}  # of ranges, until something changes
        self.count = 0
        for data in list(disk.values()) if disk is not None else []:
            self.merge(Item(*msgpack.unpackb(data)))

    def merge(self, item: Item) -> bool:
        """Adds an item unless a newer one is there; whether it was added."""
        under = self._items.get(item.key)
        if under is None:
            under = self._items[item.key] = {}
            self._keys = None
        name = (item.kind, item.name)
        old = under.get(name)
        if not is_newer(item, old and old[0]):
            return False
        self.count += old is None
        under[name] = item, mark_of(item)
        self._marks.clear()
        if self._disk is not None:
            self._disk[_disk_name(item)] = _packed(item)
        return True

    def drop(self, key: Key) -> None:
        """Forgets all items of a key."""
        for item, _ in self._items.pop(key, {}).values():
            self.count -= 1
            if self._disk is not None:
                del self._disk[_disk_name(item)]
        self._keys = None
        self._marks.clear()

    def at(self, key: Key) -> tuple[Item, ...]:
        """The items of a key, removals included."""
        return tuple([item for item, _ in self._items.get(key, {}).values()])

    def sorted_keys(self) -> list[Key]:
        """All keys, ascending."""
        if self._keys is None:
            self._keys = sorted(self._items)
        return self._keys

    def marked_in(self, low: Key, high: Key) -> Iterator[tuple[Item, int]]:
        """Items with keys in (low, high], and their marks."""
        keys = self.sorted_keys()
        start, end = bisect_right(keys, low), bisect_right(keys, high)
        for key in keys[start:end] if low < high else keys[start:] + keys[:end]:
            yield from self._items[key].values()

    def marks_in(self, low: Key, high: Key) -> tuple[int, ...]:
        """A digest of the items in (low, high]; empty if there are none."""
        found = self._marks.get((low, high))
        if found is None:  # neighbours ask at every tick, and seldom has anything changed
            marks, some = [0] * BUCKETS, False
            for item, mark in self.marked_in(low, high):
                marks[item.key % BUCKETS] ^= mark
                some = True
            if len(self._marks) >= RANGES_KEPT:
                self._marks.clear()
            found = self._marks[low, high] = tuple(marks) if some else ()
        return found


def _disk_name(item: Item) -> bytes:
    return item.key.to_bytes(8, "big") + item.kind.to_bytes(8, "big") + item.name


class Items:
    """Items of every kind that no other component keeps."""

    __slots__ = (
        "_bringing", "_charge", "_last", "_pages", "_pending", "_questions", "_tick", "_watchers",
        "chord", "me", "membership", "store",
    )  # fmt: skip
    name = "items"

    def __init__(self, membership: Membership, disk: Disk | None = None) -> None:
        self.membership = membership
        self.chord: Chord = membership.chord
        self.me = membership.me
        self.store = Store(disk)
        self._last = self._tick = 0
        self._questions: dict[int, _Question] = {}
        self._pending: dict[int, _Pending] = {}
        self._charge: dict[Address, tuple[Key, Key, int]] = {}
        self._bringing: set[Key] = set()  # put again by this node, and nobody has asked it to keep a copy since
        self._pages: dict[Address, Key] = {}  # how far an owner was told what is kept for it, where that is much
        self._watchers: dict[int, list[Watcher]] = {}
        membership.keyed[OTHER_KINDS] = self
        node = self.chord.node
        node.add(self)
        node.receive(Put, self._on_put)
        node.receive(Get, self._on_get)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {
            Values: self._on_values, Replicate: self._on_replicate, Replicated: self._on_replicated,
            Digest: self._on_digest, Differs: self._on_differs,
        }  # fmt: skip

    def start(self, now: Seconds) -> list[Effect]:
        """Begins to compare with replicas."""
        return [Wake(now + self.chord.settings.tick_seconds, (self.name,))]

    # --- for the layer above -----------------------------------------------------------------------------------------

    def watch(self, kind: int, watcher: Watcher) -> None:
        """Calls `watcher` with each item of a kind that is added or changed here, as owner or replica."""
        self._watchers.setdefault(kind, []).append(watcher)

    def put(self, items: Sequence[Item], now: Seconds, then: Answer) -> list[Effect]:
        """Stores items of one key; `then` is called with () when they are safe, with None when that failed."""
        self._last += 1
        return self._question(items[0].key, Put(self._last, self.me, tuple(items)), then, now)

    def get(self, key: Key, now: Seconds, then: Answer) -> list[Effect]:
        """Asks the owner of a key for its items; `then` is called with them, or with None when nobody answered."""
        self._last += 1
        return self._question(key, Get(self._last, self.me), then, now)

    def _question(self, key: Key, message: Message, then: Answer, now: Seconds) -> list[Effect]:
        self._questions[self._last] = _Question(key, message, then)
        return self._ask(self._last, now)

    def _ask(self, number: int, now: Seconds) -> list[Effect]:
        question = self._questions[number]
        later = Wake(now + PUT_SECONDS, (self.name, number))
        return [later, *self.chord.route(question.key, question.message, now, question.attempt)]

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """A tick, or an answer that did not come."""
        if len(token) == 1:
            return [] if self.chord.is_gone else [Wake(now + self.chord.settings.tick_seconds, token), *self.tick(now)]
        question = self._questions.get(token[1])
        if question is None:
            return []
        question.attempt += 1
        if question.attempt < PUT_ATTEMPTS_MAX:
            return self._ask(token[1], now)
        del self._questions[token[1]]
        return question.then(None, now)

    def _on_values(self, message: Values, now: Seconds) -> list[Effect]:
        question = self._questions.pop(message.request, None)
        return [] if question is None else question.then(message.items, now)

    # --- the owner ---------------------------------------------------------------------------------------------------

    def replicas(self) -> list[Peer]:
        """The nodes that keep copies: the next ones on hosts of their own."""
        chosen, hosts = list[Peer](), {host_of(self.me.address)}
        for peer in self.chord.table.successors:
            if len(chosen) + 1 < self.chord.settings.replicas and host_of(peer.address) not in hosts:
                chosen.append(peer)
                hosts.add(host_of(peer.address))
        return chosen

    def _merge(self, items: Iterable[Item]) -> None:
        for item in items:
            if self.store.merge(item):
                for watcher in self._watchers.get(item.kind, ()):
                    watcher(item)

    def _on_put(self, message: Put, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        if any(item.key != keys[0] for item in message.items):
            return []  # misdirected: the items belong to other owners
        self._merge(message.items)
        replicas = self.replicas()
        if not replicas:
            return [Send(message.sender.address, Values(message.request, ()))]
        self._last += 1
        waiting = {peer.address for peer in replicas}
        self._pending[self._last] = _Pending(message, replicas[0].address, waiting)
        if len(self._pending) > self.chord.settings.held_max:
            del self._pending[next(iter(self._pending))]  # whoever still waits will ask again
        return [Send(peer.address, Replicate(self.me, self._last, message.items)) for peer in replicas]

    def _on_replicated(self, message: Replicated, now: Seconds) -> list[Effect]:
        pending, sender, before = self._pending.get(message.number), message.sender.address, message.before
        if pending is None:
            return []
        if sender == pending.first and (before is None or host_of(before.address) != host_of(self.me.address)):
            return []  # no answer: whoever waits asks again, and may find the other owner
        pending.waiting.discard(sender)
        if pending.waiting:
            return []
        del self._pending[message.number]
        return [Send(pending.put.sender.address, Values(pending.put.request, ()))]

    def _on_get(self, message: Get, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        alive = tuple(item for item in self.store.at(keys[0]) if item.value is not None)
        return [Send(message.sender.address, Values(message.request, alive))]

    # --- copies ------------------------------------------------------------------------------------------------------

    def tick(self, now: Seconds) -> list[Effect]:
        """Compares with the replicas and brings strays home."""
        self._tick += 1
        low = self.chord.predecessor
        if not self.chord.is_ready or low is None or self._tick % DIGEST_TICKS:
            return []
        marks = self.store.marks_in(low.key, self.me.key)
        digest = Digest(self.me, low.key, marks)
        return [*[Send(peer.address, digest) for peer in self.replicas()], *self._bring_home(now)]

    def _bring_home(self, now: Seconds) -> list[Effect]:
        self._charge = {who: one for who, one in self._charge.items() if one[2] > self._tick}
        self._pages = {who: key for who, key in self._pages.items() if who in self._charge}
        ranges = [(low, high) for low, high, _ in self._charge.values()]
        assert self.chord.predecessor is not None
        ranges.append((self.chord.predecessor.key, self.me.key))
        stray = (key for key in self.store.sorted_keys() if not any(is_between(key, low, high) for low, high in ranges))
        return [effect for key in list(islice(stray, STRAYS_PER_TICK)) for effect in self._bring(key, now)]

    def _bring(self, key: Key, now: Seconds) -> list[Effect]:
        if any(question.key == key for question in self._questions.values()):
            return []
        items = self.store.at(key)
        self._bringing.add(key)

        def safe(answer: tuple[Item, ...] | None, now: Seconds) -> list[Effect]:
            is_stray = key in self._bringing  # else the owner counts on the copy here, though its digest is yet to come
            self._bringing.discard(key)
            if is_stray and answer is not None and self.store.at(key) == items and self.chord.owns(key) is False:
                self.store.drop(key)
            return []

        return self.put(items, now, safe)

    def _on_replicate(self, message: Replicate, now: Seconds) -> list[Effect]:
        self._bringing.difference_update(item.key for item in message.items)
        self._merge(message.items)
        if not message.number:
            return []
        return [Send(message.sender.address, Replicated(message.number, self.me, self.chord.predecessor))]

    def _on_digest(self, message: Digest, now: Seconds) -> list[Effect]:
        low, high = message.low, message.sender.key
        self._charge[message.sender.address] = low, high, self._tick + CHARGE_TICKS
        self._bringing = {key for key in self._bringing if not is_between(key, low, high)}
        mine, theirs = (marks or (0,) * BUCKETS for marks in (self.store.marks_in(low, high), message.marks))
        if mine == theirs or len(theirs) != BUCKETS:
            return []
        buckets = tuple(bucket for bucket in range(BUCKETS) if mine[bucket] != theirs[bucket])
        start = self._pages.pop(message.sender.address, low)
        if not is_between(start, low, high) or start == high:
            start = low
        most = self.chord.settings.page_items_max
        items = tuple(islice(self._bucket_items(start, high, buckets), most))
        if len(items) == most:  # the next page begins where this one ends
            self._pages[message.sender.address] = items[-1].key
        return [Send(message.sender.address, Differs(self.me, start, buckets, items))]

    def _bucket_items(self, low: Key, high: Key, buckets: tuple[int, ...]) -> Iterator[Item]:
        return (item for item, _ in self.store.marked_in(low, high) if item.key % BUCKETS in buckets)

    def _on_differs(self, message: Differs, now: Seconds) -> list[Effect]:
        self._merge(item for item in message.items if self.chord.owns(item.key))
        theirs = {(item.key, item.kind, item.name): item for item in message.items}
        most = self.chord.settings.page_items_max
        high = message.items[-1].key if len(message.items) >= most else self.me.key
        mine = self._bucket_items(message.low, high, message.buckets)
        wanted = (item for item in mine if is_newer(item, theirs.get((item.key, item.kind, item.name))))
        page = tuple(islice(wanted, most))
        return [Send(message.sender.address, Replicate(self.me, 0, page))] if page else []

    # --- a range changes hands ---------------------------------------------------------------------------------------

    def items_in(self, low: Key, high: Key) -> Iterable[Item]:
        """What belongs to the keys in (low, high]."""
        return (item for item, _ in self.store.marked_in(low, high))

    def take(self, items: Sequence[Item], now: Seconds) -> None:
        """Adds what another node had."""
        self._merge(items)
