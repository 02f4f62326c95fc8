"""The nodes where documents come from: they keep them, and bring news of them to the owners of their words.

A document stays where it was published. What travels is what the join needs (SmartSeer §IV-A), or the fields of the
document that queries ask about (DHTrie); what lies behind it, the *resource*, is served by its owner to whoever
follows the link in a notice.

    multicast    the document, or a notice of it, to the owners of all words: each once (DHTrie)
    naive        a notice for each word
    clustered    the owners are found first, one lookup after the other; then a notice for each owner
    broadcast    the document to every node, along the fingers

However they were told, owners say when they are done; keys that nobody is done with are told again, by multicast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import msgpack

from tocsin.errors import SettingError, TocsinError
from tocsin.match.rendezvous import payload as codec
from tocsin.match.rendezvous.adaptive import Choice, Chooser, decode_facts
from tocsin.match.rendezvous.conversation import DocumentSide
from tocsin.match.rendezvous.cost import CostModel, DocumentFacts
from tocsin.match.rendezvous.notification import Notification
from tocsin.match.rendezvous.payload import Join, PackedDocument, Queries
from tocsin.model import Document
from tocsin.overlay.delivery import Notice
from tocsin.overlay.key import BITS, MASK, Key, is_between
from tocsin.overlay.message import Address, Peer
from tocsin.overlay.multicast import Method
from tocsin.overlay.node import Deliver, Effect, Handler, Seconds, Send, Token, Wake
from tocsin.overlay.placement.entry import keys_by_word, word_key
from tocsin.overlay.placement.ground import Ground
from tocsin.overlay.placement.messages import (
    Announce,
    AskDocument,
    AskRange,
    Done,
    Fetch,
    GivenDocument,
    Inquire,
    Judge,
    Judged,
    OwnRange,
    Publish,
    Resource,
    Respond,
)
from tocsin.query.normal import Key as WordKey
from tocsin.query.parse import parse
from tocsin.query.semantics import holds

Disk: TypeAlias = MutableMapping[bytes, bytes]
Broadcast: TypeAlias = Callable[[Publish, Seconds], list[Effect]]


class Published(NamedTuple):
    """Delivered when every subscriber that a document concerns has been told."""

    id: str
    version: int


class Withdrawn(NamedTuple):
    """Delivered when no list names a document any more."""

    id: str
    version: int


@dataclass(slots=True)
class _Publication:
    document: Document | None  # None: withdrawn
    id: str
    version: int
    side: DocumentSide | None
    words: dict[Key, set[str]]
    gone: tuple[str, ...]
    open: set[Key] = field(default_factory=set)  # keys that nobody is done with
    attempt: int = 0
    telling: set[tuple[Address, int]] = field(default_factory=set)  # conversations whose matches are being told


class Publisher:
    """A node's documents."""

    name = "publisher"

    def __init__(self, ground: Ground, broadcast: Broadcast, disk: Disk | None = None, life: int = 0) -> None:
        self.chord, self.multicast, self.asking = ground.chord, ground.multicast, ground.asking
        self.delivery, self.knowledge, self.settings = ground.delivery, ground.knowledge, ground.settings
        self.me = ground.chord.me
        self.documents: dict[str, tuple[Document, bytes]] = {}
        """Current documents by id, and the resources behind them."""
        self.chosen: list[Choice] = []
        """What the cost model chose, document by document, if it may."""
        self.archive: Callable[[str, int], bytes | None] | None = None
        """Where the layer above keeps what lies behind its documents, if not here: asked for an id and a version."""
        self.broadcast = broadcast
        self._disk: Disk = {} if disk is None else disk
        self._last = life << 32
        self._open: dict[int, _Publication] = {}
        self._ranges: dict[Address, tuple[Key, Key]] = {}
        self._chooser = Chooser(1, CostModel())
        ground.chord.node.add(self)
        for key in sorted(self._disk):
            if key[:1] == b"d":
                packed, resource = msgpack.unpackb(self._disk[key])
                document = PackedDocument(packed).unpacked()
                self.documents[document.id] = document, resource

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {
            Done: self._on_done, Inquire: self._on_inquire, Judge: self._on_judge, Fetch: self._on_fetch,
            AskDocument: self._on_ask_document,
        }  # fmt: skip

    def start(self, now: Seconds) -> list[Effect]:
        """Goes on with what was not done when the node stopped."""
        effects: list[Effect] = []
        for key in sorted(self._disk):
            if key[:1] == b"p":
                packed, id, version, gone = msgpack.unpackb(self._disk.pop(key))
                effects += self._begin(PackedDocument(packed).unpacked() if packed else None, id, version, gone, now)
        return effects

    # --- documents ---------------------------------------------------------------------------------------------------

    @property
    def under_way(self) -> int:
        """Publications that are not done."""
        return len(self._open)

    def publish(self, document: Document, now: Seconds, resource: bytes = b"") -> list[Effect]:
        """Publishes a document, or its next version; `Published` is delivered when everybody concerned knows."""
        before, _ = self.documents.get(document.id, (None, b""))
        if before is not None and before.version >= document.version:
            raise SettingError(
                f"{document.id!r} was published in version {before.version}; version {document.version} is not newer"
            )
        gone = self._words(before) - self._words(document) if before is not None else set()
        self.documents[document.id] = document, resource
        packed = PackedDocument.of(document).data
        self._disk[b"d" + document.id.encode()] = msgpack.packb((packed, resource))
        return self._begin(document, document.id, document.version, sorted(gone), now)

    def withdraw(self, id: str, now: Seconds) -> list[Effect]:
        """Takes a document back: no list names it any more."""
        document, _ = self.documents.pop(id)
        del self._disk[b"d" + id.encode()]
        return self._begin(None, id, document.version, sorted(self._words(document)), now)

    def _words(self, document: Document) -> set[str]:
        held = DocumentSide(document, self.knowledge).held
        return {word for words in keys_by_word(held).values() for word in words}

    def visit(self, document: Document) -> frozenset[Key]:
        """The keys whose owners a document visits."""
        held = DocumentSide(document, self.knowledge).held
        return frozenset([*keys_by_word(held), *self.settings.dedicated_keys])

    def _begin(
        self, document: Document | None, id: str, version: int, gone: Iterable[str], now: Seconds
    ) -> list[Effect]:
        self._last += 1
        number, gone = self._last, tuple(gone)
        side = None if document is None else DocumentSide(document, self.knowledge, self.settings.filter_bits)
        words = {} if side is None else keys_by_word(side.held)
        one = self._open[number] = _Publication(document, id, version, side, words, gone)
        one.open = {*words, *self.settings.dedicated_keys, *map(word_key, gone)}
        packed = b"" if side is None else side.packed.data
        self._disk[b"p" + number.to_bytes(8, "big")] = msgpack.packb((packed, id, version, gone))
        return [*self._tell(number, now), self._later(number, now)]

    def _later(self, number: int, now: Seconds) -> Wake:
        attempt = self._open[number].attempt
        return Wake(now + self.settings.again_seconds * 2 ** min(attempt, 2), (self.name, number, attempt))

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Keys are not done: tells their owners again."""
        _, number, attempt = token
        one = self._open.get(number)
        if one is None or one.attempt != attempt:
            return []
        one.attempt += 1
        one.telling.clear()
        return [*self._cast(number, one.open, now), self._later(number, now)]

    def _on_done(self, message: Done, now: Seconds) -> list[Effect]:
        self._ranges[message.owner.address] = message.low, message.owner.key
        if message.report:
            try:
                self._chooser.learn(message.owner.key, decode_facts(message.report))
            except ValueError:
                self.chord.node.dropped += 1
        one = self._open.get(message.number)
        if one is None:
            return []
        one.open.difference_update(message.keys)
        if one.open:
            return []
        del self._open[message.number]
        del self._disk[b"p" + message.number.to_bytes(8, "big")]
        return [Deliver((Withdrawn if one.document is None else Published)(one.id, one.version))]

    # --- telling the owners ------------------------------------------------------------------------------------------

    def _tell(self, number: int, now: Seconds) -> list[Effect]:
        one, settings = self._open[number], self.settings
        if one.side is None or (settings.join is Join.SEND_DOCUMENT and settings.notification is None):
            return self._cast(number, one.open, now)
        joins, notification = self._choose(one)
        if notification is Notification.BROADCAST:
            return self.broadcast(self._message(number), now)
        whole = set(settings.dedicated_keys) | (one.open - one.words.keys())
        effects = self._cast(number, whole, now)
        keys = sorted(one.words.keys() - whole, key=lambda key: (key - self.me.key) & MASK)
        if notification is Notification.CLUSTERED:
            return [*effects, *self._find(number, keys, joins, now)]
        if notification is Notification.NAIVE:
            for key in keys:
                effects += self._announce(number, [key], self._join_of(key, joins), now, Method.ITERATIVE)
            return effects
        return [*effects, *self._announce(number, keys, self._join_of(None, joins), now, None)]

    def _choose(self, one: _Publication) -> tuple[dict[int, Join], Notification | None]:
        """Fixed by the settings, or what the cost model finds cheapest (SmartSeer §V-E)."""
        settings = self.settings
        if settings.join is not None:
            return {}, settings.notification
        assert one.side is not None
        counts: dict[int, int] = {}
        for key, words in one.words.items():
            owner = self._known_owner(key)
            counts[owner] = counts.get(owner, 0) + len(words)
        every = [word for some in one.words.values() for word in some]
        word_bytes = sum(len(word) + 1 for word in every) / max(1, len(every))
        self._chooser.nodes = self._nodes()
        choice = self._chooser.choose(DocumentFacts.of(one.side), counts, word_bytes)
        self.chosen.append(choice)
        return dict(choice.joins), choice.notification

    def _nodes(self) -> int:
        """How many nodes the ring has, as the successors stand (their keys are even)."""
        after = self.chord.table.successors
        if not after:
            return max(1, len(self._ranges))
        return max(1, round(len(after) * (MASK + 1) / (((after[-1].key - self.me.key) & MASK) + 1)))

    def _known_owner(self, key: Key) -> Key:
        found = (high for low, high in self._ranges.values() if is_between(key, low, high))
        return next(found, key * self._nodes() >> BITS)  # not known yet; such near words will share one

    def _join_of(self, key: Key | None, joins: dict[int, Join]) -> Join:
        if self.settings.join is not None:
            return self.settings.join
        return joins.get(self._known_owner(key), Join.DIALOGUE) if key is not None else Join.DIALOGUE

    def _cast(self, number: int, keys: Iterable[Key], now: Seconds, method: Method | None = None) -> list[Effect]:
        """The whole document to the owners of keys."""
        keys = sorted(keys)
        return self.multicast.send(self._message(number), keys, now, method) if keys else []

    def _message(self, number: int) -> Publish:
        one = self._open[number]
        packed = b"" if one.side is None else one.side.packed.data
        return Publish(self.me, number, packed, one.id, one.version, one.gone)

    def _announce(self, number: int, keys: list[Key], join: Join, now: Seconds, method: Method | None) -> list[Effect]:
        """A notice to the owners of keys, in one message with what the join sends along."""
        one = self._open[number]
        if join is Join.SEND_DOCUMENT or not keys or one.side is None:
            return self._cast(number, keys, now, method)
        words = sorted(self._held_at(one.side, set(keys)))
        gone = tuple(word for word in one.gone if word_key(word) in keys)
        message = Announce(self.me, number, codec.encode(one.side.open(join, words)), gone)
        return self.multicast.send(message, keys, now, method)

    @staticmethod
    def _held_at(side: DocumentSide, keys: set[Key]) -> list[WordKey]:
        """The words of a document that these keys own: under every field and analysis."""
        return [word for word in side.held if word.analysis != "present" and word_key(word.word) in keys]

    def _find(self, number: int, keys: list[Key], joins: dict[int, Join], now: Seconds) -> list[Effect]:
        """Lookups, one after the other; each answer names all keys of its owner (§IV-C)."""
        groups: list[tuple[Peer | None, list[Key]]] = []
        rest = list(keys)

        def found(answer: OwnRange | None, now: Seconds) -> list[Effect]:
            if answer is None:
                groups.append((None, [rest.pop(0)]))
            else:
                low, high = answer.low, answer.owner.key
                mine = [key for key in rest if is_between(key, low, high)] or rest[:1]
                rest[:] = [key for key in rest if key not in mine]
                groups.append((answer.owner, mine))
                self._ranges[answer.owner.address] = low, high
            return next_one(now)

        def next_one(now: Seconds) -> list[Effect]:
            if number not in self._open:
                return []
            if rest:
                return self.asking.ask(rest[0], lambda request: AskRange(request, self.me), now, found)
            effects: list[Effect] = []
            for owner, some in groups:
                if owner is not None and self.multicast.cache is not None:
                    for key in some:
                        self.multicast.cache.use(key)
                        self.multicast.cache.learn(key, owner.address)
                join = self._join_of(some[0], joins)
                effects += self._announce(number, some, join, now, Method.RECURSIVE)
            return effects

        return next_one(now)

    # --- questions about documents -----------------------------------------------------------------------------------

    def _on_inquire(self, message: Inquire, now: Seconds) -> list[Effect]:
        one = self._open.get(message.number)
        if one is None or one.side is None:
            return []
        to = message.sender.address
        try:
            payload = codec.decode(message.payload)
            before = len(one.side.matches)
            answer = one.side.receive(payload)
        except (ValueError, TocsinError):
            self.chord.node.dropped += 1
            return []
        if answer is not None:
            return [Send(to, Respond(message.conversation, message.turn, codec.encode(answer)))]
        matches = one.side.matches[before:]
        del one.side.matches[before:]
        if (to, message.conversation) in one.telling:
            return []
        one.telling.add((to, message.conversation))
        assert isinstance(payload, Queries)
        return self._tell_owners(one, payload, set(matches), message, now)

    def _tell_owners(
        self, one: _Publication, queries: Queries, matches: set[str], message: Inquire, now: Seconds
    ) -> list[Effect]:
        """Queries came here whole: their owners are told from here, then the query node."""
        finished = Send(message.sender.address, Respond(message.conversation, message.turn, b""))
        left = 1

        def told(now: Seconds) -> list[Effect]:
            nonlocal left
            left -= 1
            if left:
                return []
            one.telling.discard((message.sender.address, message.conversation))
            return [finished]

        effects: list[Effect] = []
        for id, _, subscriber in queries.entries:
            if id in matches:
                left += 1
                notice = Notice(id.split(" ", 1)[1], one.id, one.version, self.me.address)
                effects += self.delivery.tell(subscriber, notice, now, told)
        return [*effects, *told(now)]

    def _on_judge(self, message: Judge, now: Seconds) -> list[Effect]:
        try:
            query = parse(message.text, self.knowledge.analysis)
        except TocsinError:
            self.chord.node.dropped += 1
            return []
        mine = [self.documents[id][0] for id in message.ids if id in self.documents]
        found = tuple([(one.id, one.version) for one in mine if holds(query, one, self.knowledge)])
        return [Send(message.sender.address, Judged(message.request, found))]

    def _on_ask_document(self, message: AskDocument, now: Seconds) -> list[Effect]:
        document, _ = self.documents.get(message.id, (None, b""))
        is_it = document is not None and document.version == message.version
        packed = PackedDocument.of(document).data if is_it and document is not None else b""
        return [Send(message.sender.address, GivenDocument(message.request, packed))]

    def _on_fetch(self, message: Fetch, now: Seconds) -> list[Effect]:
        document, data = self.documents.get(message.id, (None, b""))
        found = data if document is not None and document.version == message.version else None
        if self.archive is not None:
            found = self.archive(message.id, message.version)
        return [Send(message.sender.address, Resource(message.request, found))]
