"""The nodes where documents come from: here queries wait, too (MAPS, "Publication service", "Resource Publication").

A publisher matches a new document against the queries that are kept here, tells their subscribers, and sends nothing
else. What it has published it only counts; the counts go to the directory at the end of each interval.

Work spreads by itself: who publishes much on many topics keeps many queries, who is specialised keeps those of its
topic.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgpack

from tocsin.errors import SettingError, TocsinError
from tocsin.match.rendezvous.payload import PackedDocument
from tocsin.match.rendezvous.registered import Registered, decide, held_keys, register
from tocsin.model import Document
from tocsin.overlay.delivery import Notice
from tocsin.overlay.message import Address, Item
from tocsin.overlay.node import Deliver, Effect, Handler, Seconds, Send, Token, Wake
from tocsin.overlay.placement.publishers.correlation import set_name, words_of
from tocsin.overlay.placement.publishers.directory import EVERYBODY, counts, summary_item
from tocsin.overlay.placement.publishers.messages import Audit, Audited, Figures, Keep, Kept
from tocsin.overlay.placement.publishers.posting import Posting
from tocsin.overlay.placement.publishers.settings import PublishersSettings
from tocsin.overlay.placement.words import Words
from tocsin.query.normal import Key as WordKey
from tocsin.query.normal import anchors
from tocsin.query.parse import parse

Disk: TypeAlias = MutableMapping[bytes, bytes]
Name: TypeAlias = tuple[Address, str]
SETS_MAX = 1_000
"""Sets of words that a publisher counts."""
HELD_MAX = 10_000
"""Documents, the newest, whose words are held in memory."""
DROPPED_MAX = 10_000
"""Queries that left, whose stamps are remembered so that no late message brings them back."""


class Told(NamedTuple):
    """Delivered when every subscriber whose query waits here and matches has been told of a document."""

    id: str
    version: int


@dataclass(slots=True)
class _Own:
    """A document of this node."""

    document: Document
    held: frozenset[WordKey] | None  # None: it is not among the newest, and looked up when it is needed
    at: Seconds
    told: frozenset[Name] = frozenset()
    """Queries that waited here and matched."""


class Publisher:
    """A node's documents, and the queries that wait for them."""

    name = "maps publisher"

    def __init__(
        self, words: Words, posting: Posting, settings: PublishersSettings, disk: Disk | None = None, life: int = 0
    ) -> None:
        """`life` is another number each time the node begins again."""
        self.words, self.posting, self.settings = words, posting, settings
        self.node, self.knowledge, self.delivery = words.node, words.knowledge, words.delivery
        self.me = words.node.me
        self.checked = 0
        """Queries that were checked here: the filtering load."""
        self.queries: dict[Name, Registered] = {}
        """Queries that wait here, by subscriber and subscription."""
        self._life = life
        self._disk: Disk = {} if disk is None else disk
        self._owns: dict[str, _Own] = {}
        self._newest: deque[_Own] = deque()
        self._stamps: dict[Name, int] = {}
        self._by_word: dict[WordKey | None, dict[Name, None]] = {}
        self._frequency: Counter[str] = Counter()
        self._intervals: dict[int, Counter[str]] = {}
        self._size = 0
        self._changed: set[str] = set()
        self._sets: dict[str, dict[str, frozenset[str]]] = {}  # by one of their words
        posting.count = self._count_sets
        words.node.add(self)
        self._read_disk()

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Keep: self._on_keep, Audit: self._on_audit}

    def _read_disk(self) -> None:
        for key in sorted(self._disk):
            if key[:1] == b"d":
                packed, resource, at = msgpack.unpackb(self._disk[key])
                self._add(PackedDocument(packed).unpacked(), at, resource)
            elif key[:1] == b"q":
                subscriber, subscription, stamp, text = msgpack.unpackb(self._disk[key])
                self._place((subscriber, subscription), stamp, text)

    def start(self, now: Seconds) -> list[Effect]:
        """Goes on with what was not told when the node stopped."""
        effects: list[Effect] = [self._next_interval(now)]
        for key in sorted(self._disk):
            if key[:1] == b"t":
                id, version, left = msgpack.unpackb(self._disk[key])
                effects += self._tell(id, version, [(to, name) for to, name in left], now)
        return effects

    # --- documents ---------------------------------------------------------------------------------------------------

    def publish(self, document: Document, now: Seconds, resource: bytes = b"") -> list[Effect]:
        """Publishes a document, or its next version; `Told` is delivered when everybody concerned knows."""
        before = self._owns.get(document.id)
        if before is not None and before.document.version >= document.version:
            raise SettingError(
                f"{document.id!r} was published in version {before.document.version}; "
                f"version {document.version} is not newer"
            )
        effects = self.words.publisher.publish(document, now, resource) if self.settings.exact else []
        if before is not None:
            self._remove(document.id)
        own = self._add(document, now, resource)
        self._disk[b"d" + document.id.encode()] = msgpack.packb((PackedDocument.of(document).data, resource, now))
        found = sorted(self._matches(own))
        own.told = frozenset(found)
        return [*effects, *self._tell(document.id, document.version, found, now)]

    def withdraw(self, id: str, now: Seconds) -> list[Effect]:
        """Takes a document back."""
        effects = self.words.publisher.withdraw(id, now) if self.settings.exact else []
        self._remove(id)
        self.words.publisher.documents.pop(id, None)
        del self._disk[b"d" + id.encode()]
        return effects

    def has(self, id: str) -> bool:
        """Whether a document of this id is published here."""
        return id in self._owns

    @property
    def is_active(self) -> bool:
        """Whether there are documents of this node."""
        return bool(self._owns)

    def _add(self, document: Document, at: Seconds, resource: bytes) -> _Own:
        own = self._owns[document.id] = _Own(document, held_keys(document, self.knowledge.analysis), at)
        self._newest.append(own)
        if len(self._newest) > HELD_MAX:
            self._newest.popleft().held = None
        self.words.publisher.documents[document.id] = document, resource  # who follows a link finds it there
        self._account(own, 1)
        interval = self._intervals.setdefault(self.settings.interval_of(at), Counter())
        interval.update(self._terms(self._words(own)))
        return own

    def _held(self, own: _Own) -> frozenset[WordKey]:
        return held_keys(own.document, self.knowledge.analysis) if own.held is None else own.held

    def _words(self, own: _Own) -> set[str]:
        return {key.word for key in self._held(own) if counts(key)}

    def _remove(self, id: str) -> None:
        self._account(self._owns.pop(id), -1)

    def _account(self, own: _Own, sign: int) -> None:
        words = self._words(own)
        self._size += sign * len(words)
        for term in self._terms(words):
            self._frequency[term] += sign
            self._changed.add(term)

    def _terms(self, words: set[str]) -> Iterator[str]:
        """What a document with these words counts for."""
        yield EVERYBODY
        for word in words:
            yield word
            for name, others in self._sets.get(word, {}).items():
                if others <= words:
                    yield name

    # --- queries -----------------------------------------------------------------------------------------------------

    def kept(self) -> list[Name]:
        """The queries that wait here: subscriber and subscription."""
        return sorted(self.queries)

    def _on_keep(self, message: Keep, now: Seconds) -> list[Effect]:
        name = message.sender.address, message.subscription
        if message.stamp > self._stamps.get(name, -1):
            try:
                self._place(name, message.stamp, message.text)
            except TocsinError:
                self.node.dropped += 1
                return []
            packed = msgpack.packb((*name, message.stamp, message.text))
            self._disk[b"q" + "\0".join(name).encode()] = packed
        return [Send(message.sender.address, Kept(message.request, self._life))]

    def _place(self, name: Name, stamp: int, text: str) -> None:
        query = parse(text, self.knowledge.analysis) if text else None
        self._displace(name)
        self._stamps[name] = stamp
        if query is None:
            self._forget_dropped()
            return
        self.queries[name] = register("", query, self.knowledge.analysis)
        for word in anchors(query, self.knowledge.analysis) or [None]:
            self._by_word.setdefault(word, {})[name] = None

    def _displace(self, name: Name) -> None:
        self._stamps.pop(name, None)  # what changes last stands last
        before = self.queries.pop(name, None)
        if before is None:
            return
        for word in anchors(before.query, self.knowledge.analysis) or [None]:
            del self._by_word[word][name]
            if not self._by_word[word]:
                del self._by_word[word]

    def _forget_dropped(self) -> None:
        if len(self._stamps) - len(self.queries) > DROPPED_MAX:
            oldest = next(name for name in self._stamps if name not in self.queries)
            del self._stamps[oldest]
            self._disk.pop(b"q" + "\0".join(oldest).encode(), None)

    def _matches(self, own: _Own) -> set[Name]:
        """The queries that a document matches; only those that wait at one of its words are looked at."""
        held = self._held(own)
        near = {name for word in (*held, None) for name in self._by_word.get(word, ())}
        self.checked += len(near)
        return {name for name in near if decide(self.queries[name], held, own.document, self.knowledge)}

    def _tell(self, id: str, version: int, names: list[Name], now: Seconds) -> list[Effect]:
        """What is not told is on disk: a publication is not over before the last subscriber has heard."""
        key = b"t" + f"{id} {version}".encode()
        left = set(names)
        if not left:
            return [Deliver(Told(id, version))]
        self._disk[key] = msgpack.packb((id, version, names))
        effects: list[Effect] = []
        for name in names:
            notice = Notice(name[1], id, version, self.me.address)

            def told(now: Seconds, name: Name = name) -> list[Effect]:
                left.discard(name)
                if left:
                    return []
                self._disk.pop(key, None)
                return [Deliver(Told(id, version))]

            effects += self.delivery.tell(name[0], notice, now, told)
        return effects

    def _on_audit(self, message: Audit, now: Seconds) -> list[Effect]:
        try:
            asked = register("", parse(message.text, self.knowledge.analysis), self.knowledge.analysis)
        except TocsinError:
            self.node.dropped += 1
            return []
        since, until = now - message.since_milliseconds / 1_000, now - message.until_milliseconds / 1_000
        name = message.sender.address, message.subscription
        silent = (own for own in self._owns.values() if since < own.at <= until and name not in own.told)
        count = sum(decide(asked, self._held(own), own.document, self.knowledge) for own in silent)
        return [Send(message.sender.address, Audited(message.request, count))]

    # --- statistics --------------------------------------------------------------------------------------------------

    def _next_interval(self, now: Seconds) -> Wake:
        interval = self.settings.interval_of(now)
        return Wake((interval + 1) * self.settings.interval_seconds, (self.name, interval))

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """An interval is over: what has changed is posted."""
        finished: int = token[1]
        for old in [interval for interval in self._intervals if interval <= finished - self.settings.window]:
            del self._intervals[old]
        items = [self._summary(term, finished) for term in sorted(self._changed)]
        self._changed.clear()
        later = Wake((finished + 2) * self.settings.interval_seconds, (self.name, finished + 1))
        return [later, *self.posting.post(items, now)]

    def figures(self, term: str, last: int) -> Figures:
        """What this node has of a term, up to an interval."""
        window = self.settings.window
        counters = [self._intervals.get(number) for number in range(last - window + 1, last + 1)]
        series = [0 if one is None else one[term] for one in counters]
        return Figures(self.me.address, self._life, self._frequency[term], self._size, last, tuple(series))

    def _summary(self, term: str, last: int) -> Item:
        return summary_item(term, self.figures(term, last), (last + 1) << 16 | self._life & 0xFFFF)

    def _count_sets(self, sets: Iterable[str], now: Seconds) -> list[Effect]:
        """The directory wants sets to be counted: those that some document has are posted at once."""
        finished = self.settings.interval_of(now) - 1
        found: list[str] = []
        for name in sets:
            words = words_of(name)
            first = min(words)
            is_set = 1 < len(words) <= self.settings.set_words_max and set_name(words) == name
            if not is_set or name in self._sets.get(first, {}) or sum(map(len, self._sets.values())) >= SETS_MAX:
                continue
            self._sets.setdefault(first, {})[name] = words
            for own in self._owns.values():
                if words <= self._words(own):
                    self._frequency[name] += 1
                    self._intervals.setdefault(self.settings.interval_of(own.at), Counter())[name] += 1
            if self._frequency[name]:
                found.append(name)
        if finished < 0:
            self._changed.update(found)
            return []
        return self.posting.post([self._summary(name, finished) for name in found], now) if found else []
