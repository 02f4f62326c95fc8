"""Statistics on their way to the directory: in batches, and on the back of other messages (MAPS, "Directory service").

A publisher has a summary for each of its words; the words of a thousand-node ring have a thousand owners. All that one
owner should have goes in one message. Whose a key is, is asked once; every acknowledgement says it again. A batch waits
a little for any other message to the same node, such as those that hold the ring together, and rides on it.

What is not acknowledged is posted again, to whoever owns it then; of a summary only the newest version is of interest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from tocsin.overlay.chord import Chord
from tocsin.overlay.key import MASK, Key, is_between
from tocsin.overlay.member import Member
from tocsin.overlay.message import Address, Item, Message, size_of
from tocsin.overlay.node import Effect, Handler, Seconds, Send, Token, Wake
from tocsin.overlay.placement.asking import Asking
from tocsin.overlay.placement.messages import AskRange, OwnRange
from tocsin.overlay.placement.publishers.directory import Directory
from tocsin.overlay.placement.publishers.messages import Carried, Count, Post, Posted
from tocsin.overlay.placement.publishers.settings import PublishersSettings

AGAIN_SECONDS = 6.0
POSTS_MAX = 500
"""Summaries in one message."""
Load = Callable[[Send], Send]


class Carrier(Member):
    """A member whose messages, whatever they are, carry posts that wait for their receiver."""

    __slots__ = ("load",)

    load: Load | None

    def handle(self, message: Message, now: Seconds) -> list[Effect]:
        """A message came."""
        return self._laden(super().handle(message, now))

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """The time of a Wake has come."""
        return self._laden(super().wake(token, now))

    def _laden(self, effects: list[Effect]) -> list[Effect]:
        load: Load | None = getattr(self, "load", None)
        if load is None:
            return effects
        return [load(effect) if isinstance(effect, Send) else effect for effect in effects]


@dataclass(slots=True)
class Savings:
    """What batches and riding along have saved."""

    posts: int = 0
    """Summaries that were sent."""
    batches: int = 0
    """Messages of their own that they took."""
    carried: int = 0
    """Messages of others that they rode on."""
    bytes: int = 0
    """Bytes that they took, with acknowledgements; of carried ones only what they added."""
    bytes_alone: int = 0
    """Bytes that they would have taken one by one, each acknowledged."""


class Owners:
    """Who owns which keys, as far as it was said."""

    def __init__(self) -> None:
        self._highs: list[Key] = []
        self._ranges: dict[Key, tuple[Key, Address]] = {}

    def learn(self, low: Key, high: Key, address: Address) -> None:
        """All keys in (low, high] are this node's; whoever stood between is gone."""
        self._ranges = {key: one for key, one in self._ranges.items() if not is_between(key, low, high)}
        self._ranges[high] = low, address
        self._highs = sorted(self._ranges)

    def forget(self, address: Address) -> None:
        """Nothing is known of this node any more."""
        self._ranges = {key: one for key, one in self._ranges.items() if one[1] != address}
        self._highs = sorted(self._ranges)

    def of(self, key: Key) -> Address | None:
        """The owner of a key, if it is known."""
        if not self._highs:
            return None
        high = self._highs[bisect_left(self._highs, key) % len(self._highs)]
        low, address = self._ranges[high]
        return address if is_between(key, low, high) else None


class Posting:
    """A node's posts."""

    name = "posting"

    def __init__(self, chord: Chord, asking: Asking, directory: Directory, settings: PublishersSettings) -> None:
        self.chord, self.asking, self.directory, self.settings = chord, asking, directory, settings
        self.me = chord.me
        self.owners = Owners()
        self.savings = Savings()
        self.count: Callable[[Iterable[str], Seconds], list[Effect]] = lambda sets, now: []
        """Called with sets of words that the directory wants to be counted."""
        self._waiting: dict[Address, dict[bytes, Item]] = {}  # for a message to this node
        self._unknown: dict[bytes, Item] = {}  # for their owner to be found
        self._sent: dict[int, tuple[Address, tuple[Item, ...]]] = {}
        self._newest: dict[bytes, int] = {}  # version of each summary that was posted last
        self._last = 0
        self._is_asking = False
        node = chord.node
        node.add(self)
        if isinstance(node, Carrier):
            node.load = self._load

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Posted: self._on_posted, Count: self._on_count}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    def post(self, items: Iterable[Item], now: Seconds) -> list[Effect]:
        """Brings summaries to the directory."""
        for item in items:
            self._newest[item.name] = item.version
            self._unknown[item.name] = item
        return self._sort(now)

    @property
    def open(self) -> int:
        """Summaries that the directory has not acknowledged."""
        waiting = sum(map(len, self._waiting.values())) + len(self._unknown)
        return waiting + sum(len(items) for _, items in self._sent.values())

    def _sort(self, now: Seconds) -> list[Effect]:
        """Each post to the others for its owner; if there is none, the owner is asked for."""
        effects: list[Effect] = []
        mine: list[Item] = []
        for name, item in list(self._unknown.items()):
            if self.chord.owns(item.key):
                mine.append(item)
            elif (owner := self.owners.of(item.key)) is None or owner == self.me.address:
                continue
            else:
                if owner not in self._waiting:
                    self._waiting[owner] = {}
                    effects.append(Wake(now + self.settings.carry_seconds, (self.name, "depart", owner)))
                self._waiting[owner][name] = item
            del self._unknown[name]
        effects += self.directory.take(mine)
        if mine:
            effects += self.count({name for item in mine for name in self.directory.sets_of(item.key)}, now)
        return [*effects, *self._find(now)]

    def _find(self, now: Seconds) -> list[Effect]:
        """One lookup after the other, around the ring: each answer tells of all keys of an owner."""
        if self._is_asking or not self._unknown:
            return []
        self._is_asking = True
        first = min((item.key for item in self._unknown.values()), key=lambda key: (key - self.me.key) & MASK)

        def found(answer: OwnRange | None, now: Seconds) -> list[Effect]:
            self._is_asking = False
            if answer is None:
                return [Wake(now + AGAIN_SECONDS, (self.name, "find"))]
            self.owners.learn(answer.low, answer.owner.key, answer.owner.address)
            return self._sort(now)

        return self.asking.ask(first, lambda request: AskRange(request, self.me), now, found)

    # --- departures --------------------------------------------------------------------------------------------------

    def _load(self, send: Send) -> Send:
        """A message to a node for which posts wait takes them along."""
        if send.to not in self._waiting or isinstance(send.message, Carried | Post):
            return send
        number, items = self._depart(send.to)
        laden = Carried(number, self.me, items, send.message)
        self.savings.carried += 1
        self.savings.bytes += size_of(laden) - size_of(send.message)
        return Send(send.to, laden)

    def _depart(self, owner: Address) -> tuple[int, tuple[Item, ...]]:
        waiting = self._waiting[owner]
        items = tuple(islice(waiting.values(), POSTS_MAX))
        for item in items:
            del waiting[item.name]
        if not waiting:
            del self._waiting[owner]
        self._last += 1
        self._sent[self._last] = owner, items
        self.savings.posts += len(items)
        self.savings.bytes_alone += sum(size_of(Post(self._last, self.me, (item,))) for item in items)
        return self._last, items

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Nothing came to ride on; or an acknowledgement did not come; or a lookup should be tried again."""
        if token[1] == "depart":
            effects: list[Effect] = []
            while token[2] in self._waiting:
                number, items = self._depart(token[2])
                message = Post(number, self.me, items)
                self.savings.batches += 1
                self.savings.bytes += size_of(message)
                effects.append(Send(token[2], message))
            return [*effects, Wake(now + AGAIN_SECONDS, (self.name, "again", self._last))]
        if token[1] == "again":
            for number in [number for number in self._sent if number <= token[2]]:
                owner, items = self._sent.pop(number)
                self.owners.forget(owner)
                self._keep_newest(items)
        return self._sort(now)

    def _keep_newest(self, items: Iterable[Item]) -> None:
        for item in items:
            if self._newest.get(item.name) == item.version:
                self._unknown[item.name] = item

    def _on_posted(self, message: Posted, now: Seconds) -> list[Effect]:
        self.owners.learn(message.low, message.owner.key, message.owner.address)
        _, items = self._sent.pop(message.number, ("", ()))
        self.savings.bytes += size_of(message)
        self.savings.bytes_alone += size_of(message) * len(items)
        self._keep_newest(item for item in items if not is_between(item.key, message.low, message.owner.key))
        return [*self.count(message.sets, now), *self._sort(now)]

    def _on_count(self, message: Count, now: Seconds) -> list[Effect]:
        return self.count(message.sets, now)
