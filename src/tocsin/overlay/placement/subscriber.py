"""The nodes that want to be told: they register queries at their homes, and remove every copy when they go (X2).

A subscription stands when every home has acknowledged it, with its copies. What was registered where is written down
first: a node that stops in the middle goes on with it when it begins again, and forgets a subscription only when the
last of its copies is gone. A changed query is registered at its new homes before it leaves the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgpack

from tocsin.errors import SettingError
from tocsin.overlay.delivery import Notice
from tocsin.overlay.key import Key
from tocsin.overlay.message import Item
from tocsin.overlay.node import Deliver, Effect, Handler, Seconds, Token, Wake
from tocsin.overlay.placement.entry import (
    QUERY_KIND,
    Mode,
    Part,
    entry_value,
    item_name,
    parts_of,
    wanted_words,
    word_key,
)
from tocsin.overlay.placement.ground import Ground
from tocsin.overlay.placement.messages import AskFrequency, Fetch, Frequency, Resource
from tocsin.query.ast import Query
from tocsin.query.normal import Key as WordKey
from tocsin.query.show import show
from tocsin.query.standing import parse_subscription

Disk: TypeAlias = MutableMapping[bytes, bytes]
Then: TypeAlias = Callable[[Seconds], list[Effect]]
AGAIN_SECONDS = 5.0


class Standing(NamedTuple):
    """Delivered when a subscription is at all its homes."""

    id: str
    version: int


class Ended(NamedTuple):
    """Delivered when every copy of a subscription is gone."""

    id: str


class Paused(NamedTuple):
    """Delivered when every copy of a subscription is gone, and only its node still knows it."""

    id: str


class Fetched(NamedTuple):
    """Delivered for a link that was followed; None: the resource is not there."""

    document: str
    version: int
    data: bytes | None
    is_answered: bool = True  # False: its owner did not answer, and may do so later


@dataclass(slots=True)
class _Record:
    """What is known of a subscription here."""

    text: str  # "": it is ending, or paused
    version: int
    places: dict[tuple[Key, bytes], bytes | None]  # (key, name) of every copy that may exist; None: to be removed
    paused: str = ""  # what it will ask for again

    def packed(self) -> bytes:
        places = [[key, name, value] for (key, name), value in self.places.items()]
        data: bytes = msgpack.packb([self.text, self.version, places, self.paused])
        return data

    @classmethod
    def unpacked(cls, data: bytes) -> _Record:
        text, version, places, *rest = msgpack.unpackb(data)
        return cls(text, version, {(key, name): value for key, name, value in places}, *rest)


class Subscriber:
    """A node's subscriptions."""

    name = "subscriber"

    def __init__(self, ground: Ground, disk: Disk | None = None) -> None:
        self.items, self.asking, self.delivery = ground.items, ground.asking, ground.delivery
        self.knowledge, self.settings = ground.knowledge, ground.settings
        self.me = ground.chord.me
        self._disk: Disk = {} if disk is None else disk
        self._records = {key.decode(): _Record.unpacked(data) for key, data in sorted(self._disk.items())}
        self._waiting: dict[str, int] = {}  # puts without an answer, of the current version
        self._then: dict[str, Then] = {}
        ground.delivery.accept = self._accept
        ground.chord.node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """It takes answers only."""
        return {}

    def start(self, now: Seconds) -> list[Effect]:
        """Goes on with what was not finished: puts everything again, which changes nothing where it is."""
        return [effect for id, record in self._records.items() if record.places for effect in self._put_all(id, now)]

    def _accept(self, notice: Notice) -> bool:
        record = self._records.get(notice.subscription)
        return record is not None and record.text != ""

    # --- for the layer above -----------------------------------------------------------------------------------------

    def subscribe(self, id: str, text: str, now: Seconds, then: Then | None = None) -> list[Effect]:
        """Registers a query, or another query under the same id.

        When it stands, `Standing` is delivered, or `then` called. Nested queries are registered in parts (`nested`).
        """
        if " " in id or not id:
            raise SettingError(f"{id!r} is no name of a subscription: it is empty, or has a space")
        query = parse_subscription(text, self.knowledge.analysis)
        self._hook(id, then)
        if self.settings.mode is Mode.DHTRIE:
            return self._register(id, text, query, {}, now)
        return self._ask_frequencies(id, text, query, now)

    def _hook(self, id: str, then: Then | None) -> None:
        self._then.pop(id, None)
        if then is not None:
            self._then[id] = then

    def unsubscribe(self, id: str, now: Seconds, then: Then | None = None) -> list[Effect]:
        """Removes every copy; `Ended` is delivered, or `then` called, when the last is gone."""
        self._hook(id, then)
        self._records[id].paused = ""
        return self._remove(id, now)

    def _remove(self, id: str, now: Seconds) -> list[Effect]:
        record = self._records[id]
        record.text, record.version = "", record.version + 1
        record.places = dict.fromkeys(record.places)
        self._disk[id.encode()] = record.packed()
        return self._put_all(id, now) if record.places else self._removed(id, now)

    def pause(self, id: str, now: Seconds) -> list[Effect]:
        """Removes every copy, but not from here; `Paused` is delivered when the last is gone."""
        record = self._records[id]
        if not record.text:
            raise SettingError(f"{id!r} is paused or ending")
        self._hook(id, None)
        record.paused = record.text
        return self._remove(id, now)

    def resume(self, id: str, now: Seconds) -> list[Effect]:
        """Registers a paused subscription again; `Standing` is delivered when it stands."""
        record = self._records[id]
        if not record.paused:
            raise SettingError(f"{id!r} is not paused")
        return self.subscribe(id, record.paused, now)

    def standing(self) -> Iterator[tuple[str, str]]:
        """Subscriptions of this node: id and text."""
        return ((id, record.text) for id, record in self._records.items() if record.text)

    def keys(self, id: str) -> frozenset[Key]:
        """Where a subscription is registered."""
        return frozenset(key for (key, _), value in self._records[id].places.items() if value is not None)

    def fetch(self, notice: Notice, now: Seconds) -> list[Effect]:
        """Follows the link of a notice; `Fetched` is delivered."""

        def answered(answer: Resource | None, now: Seconds) -> list[Effect]:
            data = None if answer is None else answer.data
            return [Deliver(Fetched(notice.document, notice.version, data, answer is not None))]

        return self.asking.ask(
            notice.link, lambda request: Fetch(request, self.me, notice.document, notice.version), now, answered
        )

    # --- homes -------------------------------------------------------------------------------------------------------

    def _ask_frequencies(self, id: str, text: str, query: Query, now: Seconds) -> list[Effect]:
        """The most selective word is found by asking the owners of all words (SmartSeer §III-B)."""
        words = sorted(wanted_words(query, self.knowledge.analysis))
        counts: dict[WordKey, int] = {}
        if len(words) < 2:
            return self._register(id, text, query, counts, now)

        def asked(word: WordKey) -> Callable[[Frequency | None, Seconds], list[Effect]]:
            def answered(answer: Frequency | None, now: Seconds) -> list[Effect]:
                counts[word] = 0 if answer is None else answer.count
                return self._register(id, text, query, counts, now) if len(counts) == len(words) else []

            return answered

        effects: list[Effect] = []
        for word in words:
            effects += self.asking.ask(
                word_key(word.word), lambda request, word=word: AskFrequency(request, self.me, word.word), now,  # type: ignore[misc]
                asked(word),
            )  # fmt: skip
        return effects

    def homes(self, query: Query) -> frozenset[Key]:
        """The keys under which a query is kept, as far as frequencies do not matter."""
        parts = self._parts("", query, {})
        return frozenset().union(*(part.homes for part in parts))

    def _parts(self, id: str, query: Query, counts: dict[WordKey, int]) -> tuple[Part, ...]:
        settings = self.settings
        return parts_of(
            id,
            query,
            self.knowledge.analysis,
            mode=settings.mode,
            dedicated=settings.dedicated_nodes,
            frequency=lambda key: counts.get(key, 0),
            disjunction=settings.disjunction,
        )

    def _register(self, id: str, text: str, query: Query, counts: dict[WordKey, int], now: Seconds) -> list[Effect]:
        before = self._records.get(id)
        places: dict[tuple[Key, bytes], bytes | None] = {}
        for number, part in enumerate(self._parts(id, query, counts)):
            value = entry_value(part, self.me.address)
            for home in sorted(part.homes):
                places[home, item_name(id, number)] = value
        if before is not None:
            places |= dict.fromkeys(place for place in before.places if place not in places)
        version = 1 if before is None else before.version + 1
        self._records[id] = record = _Record(text or show(query), version, places)
        self._disk[id.encode()] = record.packed()
        return self._put_all(id, now)

    def _put_all(self, id: str, now: Seconds) -> list[Effect]:
        """New homes first, then the old ones."""
        record = self._records[id]
        self._waiting[id] = len(record.places)
        order = sorted(record.places, key=lambda place: record.places[place] is None)
        return [effect for place in order for effect in self._put(id, place, now)]

    def _put(self, id: str, place: tuple[Key, bytes], now: Seconds) -> list[Effect]:
        record = self._records[id]
        version = record.version
        item = Item(place[0], QUERY_KIND, place[1], version, record.places[place])

        def answered(answer: tuple[Item, ...] | None, now: Seconds) -> list[Effect]:
            current = self._records.get(id)
            if current is None or current.version != version:
                return []
            if answer is None:
                return [Wake(now + AGAIN_SECONDS, (self.name, id, place, version))]
            return self._is_put(id, current, now)

        return self.items.put([item], now, answered)

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """A home could not be reached: tries again."""
        _, id, place, version = token
        record = self._records.get(id)
        return [] if record is None or record.version != version else self._put(id, place, now)

    def _is_put(self, id: str, record: _Record, now: Seconds) -> list[Effect]:
        self._waiting[id] -= 1
        if self._waiting[id]:
            return []
        if not record.text:
            return self._removed(id, now)
        record.places = {place: value for place, value in record.places.items() if value is not None}
        self._disk[id.encode()] = record.packed()
        return self._then.pop(id)(now) if id in self._then else [Deliver(Standing(id, record.version))]

    def _removed(self, id: str, now: Seconds) -> list[Effect]:
        """No copy is left."""
        record = self._records[id]
        if record.paused:
            record.places = {}
            self._disk[id.encode()] = record.packed()
            return [Deliver(Paused(id))]
        del self._records[id], self._disk[id.encode()]
        self._waiting.pop(id, None)
        return self._then.pop(id)(now) if id in self._then else [Deliver(Ended(id))]
