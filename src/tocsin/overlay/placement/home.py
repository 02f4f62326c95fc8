"""The nodes where queries live (SmartSeer §III-B: query nodes; DHTrie: the nodes responsible for words).

A document comes as the owner of some keys receives it. The owner lists it under its words (one-time queries and
document frequencies are answered from these lists), checks the queries that live under the keys, and tells the
subscribers. When all of them have heard, and not before, the publisher is told that these keys are done; a publisher
that is not told publishes to them again. So a node may die at any moment: the next owner has the copies of the queries,
and does the same again; what a subscriber hears twice, it takes once.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from tocsin.match.rendezvous import payload as codec
from tocsin.match.rendezvous.adaptive import Reporter, encode_facts
from tocsin.match.rendezvous.conversation import QuerySide
from tocsin.match.rendezvous.cost import QueryFacts
from tocsin.match.rendezvous.payload import Answers, PackedDocument, Payload
from tocsin.match.rendezvous.registered import decide, held_keys
from tocsin.model import Document
from tocsin.overlay.delivery import Notice
from tocsin.overlay.items import mark_of
from tocsin.overlay.key import Key, hashed
from tocsin.overlay.message import Address, Item, Peer
from tocsin.overlay.node import Effect, Handler, Seconds, Send, Token, Wake
from tocsin.overlay.placement.entry import (
    EVERY,
    Entry,
    entry_of,
    keys_by_word,
    word_key,
)
from tocsin.overlay.placement.ground import Ground
from tocsin.overlay.placement.lists import Lists
from tocsin.overlay.placement.messages import (
    Announce,
    AskRange,
    Done,
    Inquire,
    OwnRange,
    Publish,
    Respond,
    Share,
    Shared,
)
from tocsin.query.normal import Key as WordKey

DOCUMENTS_KEPT = 64
"""Documents that a node keeps unpacked: one comes several times when its words have neighbouring keys."""
INQUIRY_SECONDS = 3.0
INQUIRY_ATTEMPTS_MAX = 8


@dataclass(frozen=True, slots=True)
class _Arrived:
    """A document as an owner sees it."""

    document: Document
    held: frozenset[WordKey]
    words: dict[Key, set[str]]
    present: frozenset[Key]
    """Its words' keys, and those of the dedicated nodes."""
    link: Address


@dataclass(slots=True)
class _Conversation:
    publisher: Peer
    number: int
    keys: tuple[Key, ...]
    document: str
    version: int
    side: QuerySide
    entries: dict[str, Entry]
    sent: Payload
    report: bytes
    turn: int = 0
    attempt: int = 0


class Home:
    """A node's part as an owner of words."""

    name = "home"

    def __init__(self, ground: Ground) -> None:
        self.chord, self.items, self.asking = ground.chord, ground.items, ground.asking
        self.delivery, self.knowledge, self.settings = ground.delivery, ground.knowledge, ground.settings
        self.me = ground.chord.me
        self.filtered: Counter[Key] = Counter()
        """Queries that were checked here, by key: the filtering load."""
        self._documents: OrderedDict[tuple[bytes, str], _Arrived | None] = OrderedDict()
        self._conversations: dict[int, _Conversation] = {}
        self._last = 0
        self._reporter = Reporter()
        self.lists = Lists(ground)
        node = ground.chord.node
        node.add(self)
        node.receive(Publish, self._on_publish)
        node.receive(Announce, self._on_announce)
        node.receive(AskRange, self._on_ask_range)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Respond: self._on_respond, Share: self._on_share}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    # --- a whole document --------------------------------------------------------------------------------------------

    def _on_publish(self, message: Publish, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        if not message.document:
            listed = self.lists.remove(message, keys, frozenset(), [EVERY])
            return [*listed, self._done(message.publisher, message.number, keys)]
        arrived = self._arrived(message)
        if arrived is None:
            self.chord.node.dropped += 1
            return []
        effects = self.lists.add(message, keys, arrived.words, arrived.held)
        waiting = _Countdown(self._done(message.publisher, message.number, keys))
        for key in keys:
            effects += self._check(message, key, arrived, waiting, now)
        return [*effects, *waiting.release()]

    def _arrived(self, message: Publish) -> _Arrived | None:
        name = message.document, message.publisher.address
        if name not in self._documents:
            self._documents[name] = self._unpacked(message)
            if len(self._documents) > DOCUMENTS_KEPT:
                self._documents.popitem(last=False)
        return self._documents[name]

    def _unpacked(self, message: Publish) -> _Arrived | None:
        try:
            document = PackedDocument(message.document).unpacked()
        except ValueError:
            return None
        if (document.id, document.version) != (message.id, message.version):
            return None
        held = held_keys(document, self.knowledge.analysis)
        words = keys_by_word(held)
        present = frozenset([*words, *self.settings.dedicated_keys])
        return _Arrived(document, held, words, present, message.publisher.address)

    def _check(self, message: Publish, key: Key, arrived: _Arrived, waiting: _Countdown, now: Seconds) -> list[Effect]:
        """Checks the queries under a key; those of a hot word together with the nodes that have copies."""
        items = [item for item in self.items.store.at(key) if entry_of(item, self.knowledge.analysis) is not None]
        helpers = self.items.replicas() if len(items) > self.settings.hot_queries > 0 else []
        shares = len(helpers) + 1
        mine = [item for item in items if share_of(item, shares) == 0]
        effects = self._match(key, mine if helpers else items, arrived, waiting, now)
        for share, helper in enumerate(helpers, 1):
            theirs = [item for item in items if share_of(item, shares) == share]
            ask = partial(Share, key=key, share=share, shares=shares, mark=mark_of_all(theirs), payload=message)
            spare = partial(self._match, key, theirs, arrived, waiting)
            effects += self._let_check(helper, ask, spare, waiting, now)
        return effects

    def _match(
        self, key: Key, items: Sequence[Item], arrived: _Arrived, waiting: _Countdown, now: Seconds
    ) -> list[Effect]:
        found: list[Entry] = []
        for item in items:
            entry = entry_of(item, self.knowledge.analysis)
            if entry is None:
                continue
            self.filtered[key] += 1
            if entry.is_spoken_by(key, arrived.present) and decide(
                entry.registered, arrived.held, arrived.document, self.knowledge
            ):
                found.append(entry)
        return self._tell(found, (arrived.document.id, arrived.document.version, arrived.link), waiting, now)

    def _tell(
        self, found: Iterable[Entry], what: tuple[str, int, Address], waiting: _Countdown, now: Seconds
    ) -> list[Effect]:
        effects: list[Effect] = []
        for entry in found:
            waiting.count += 1
            notice = Notice(entry.subscription, *what)
            effects += self.delivery.tell(entry.subscriber, notice, now, waiting.one)
        return effects

    def _done(self, publisher: Peer, number: int, keys: tuple[Key, ...], report: bytes = b"") -> Send:
        low = self.chord.predecessor or self.me
        return Send(publisher.address, Done(number, keys, self.me, low.key, report))

    def _on_ask_range(self, message: AskRange, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        low = self.chord.predecessor or self.me
        return [Send(message.sender.address, OwnRange(message.request, self.me, low.key))]

    # --- hot words: those who have copies help (DHTrie, load shedding) -----------------------------------------------

    def _let_check(
        self,
        helper: Peer,
        ask: Callable[..., Share],
        spare: Callable[[Seconds], list[Effect]],
        waiting: _Countdown,
        now: Seconds,
    ) -> list[Effect]:
        waiting.count += 1

        def answered(answer: Shared | None, now: Seconds) -> list[Effect]:
            # Dead, or its copies are not mine: nothing may be missed.
            effects = spare(now) if answer is None or not answer.is_done else []
            return [*effects, *waiting.one(now)]

        return self.asking.ask(helper.address, lambda number: ask(request=number, sender=self.me), now, answered, 3)

    def _on_share(self, message: Share, now: Seconds) -> list[Effect]:
        sent = message.payload
        arrived = self._arrived(sent) if isinstance(sent, Publish) else None
        items = [
            item for item in self.items.store.at(message.key)
            if entry_of(item, self.knowledge.analysis) is not None and message.shares > 0
            and share_of(item, message.shares) == message.share
        ]  # fmt: skip
        if arrived is None or mark_of_all(items) != message.mark or not isinstance(sent, Publish):
            return [Send(message.sender.address, Shared(message.request, False))]
        waiting = _Countdown(Send(message.sender.address, Shared(message.request, True)))
        effects = self._match(message.key, items, arrived, waiting, now)
        return [*effects, *waiting.release()]

    # --- a notice, and a conversation (SmartSeer §IV-A) --------------------------------------------------------------

    def _on_announce(self, message: Announce, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        try:
            notice = codec.decode(message.notice)
        except ValueError:
            notice = None
        if not isinstance(notice, codec.Notice) or isinstance(notice.body, PackedDocument):
            self.chord.node.dropped += 1
            return []
        mine = [word for word in notice.words if word_key(word.word) in keys]
        listed = Publish(message.publisher, message.number, b"", notice.document, notice.version, message.gone)
        effects = self.lists.add(listed, keys, keys_by_word(mine), frozenset(mine))
        entries: dict[str, Entry] = {}
        for key in keys:
            for item in self.items.store.at(key):
                entry = entry_of(item, self.knowledge.analysis)
                if entry is not None:
                    self.filtered[key] += 1
                    entries[entry.registered.id] = entry
        side = QuerySide([entry.registered for entry in entries.values()], self.knowledge)
        known = notice.words  # of other owners too, when ownership has changed on the way
        report = self._report([entry.registered for entry in entries.values()], mine)
        answer = side.receive(codec.Notice(notice.join, notice.document, notice.version, known, notice.body))
        talk = _Conversation(
            message.publisher, message.number, keys, notice.document, notice.version, side, entries,
            answer or Answers.of([]), report,
        )  # fmt: skip
        if answer is None:
            return [*effects, *self._conclude(talk, now)]
        self._last += 1
        self._conversations[self._last] = talk
        return [*effects, *self._inquire(self._last, now)]

    def _report(self, registered: Sequence[object], words: Sequence[WordKey]) -> bytes:
        facts = QueryFacts.of(registered, words, self._share_of_documents)  # type: ignore[arg-type]
        told = self._reporter.observe(facts, len(words))
        return b"" if told is None else encode_facts(told)

    def _share_of_documents(self, word: WordKey) -> float:
        """The share of the documents that hold a word, as far as this node can tell."""
        statistics = self.knowledge.statistics
        return min(1.0, statistics.frequency.get(word.word, 0) / max(1, statistics.documents))

    def _inquire(self, conversation: int, now: Seconds) -> list[Effect]:
        talk = self._conversations[conversation]
        inquiry = Inquire(self.me, talk.number, conversation, talk.turn, codec.encode(talk.sent))
        patience = INQUIRY_SECONDS * (talk.attempt + 1)
        return [
            Send(talk.publisher.address, inquiry),
            Wake(now + patience, (self.name, conversation, talk.turn, talk.attempt)),
        ]

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """The document node did not answer."""
        _, conversation, turn, attempt = token
        talk = self._conversations.get(conversation)
        if talk is None or (talk.turn, talk.attempt) != (turn, attempt):
            return []
        talk.attempt += 1
        if talk.attempt < INQUIRY_ATTEMPTS_MAX:
            return self._inquire(conversation, now)
        del self._conversations[conversation]  # the publisher, if it lives, will announce again
        return []

    def _on_respond(self, message: Respond, now: Seconds) -> list[Effect]:
        talk = self._conversations.get(message.conversation)
        if talk is None or talk.turn != message.turn:
            return []
        answer = None
        if message.payload:
            try:
                answer = talk.side.receive(codec.decode(message.payload))
            except ValueError:
                self.chord.node.dropped += 1
                return []
        if answer is None:
            del self._conversations[message.conversation]
            return self._conclude(talk, now)
        talk.sent, talk.turn, talk.attempt = answer, talk.turn + 1, 0
        return self._inquire(message.conversation, now)

    def _conclude(self, talk: _Conversation, now: Seconds) -> list[Effect]:
        waiting = _Countdown(self._done(talk.publisher, talk.number, talk.keys, talk.report))
        found = [talk.entries[id] for id in talk.side.matches]
        effects = self._tell(found, (talk.document, talk.version, talk.publisher.address), waiting, now)
        return [*effects, *waiting.release()]


def share_of(item: Item, shares: int) -> int:
    """Which of so many shares a query belongs to."""
    return hashed("share", item.name.decode(errors="replace")) % shares


def mark_of_all(items: Iterable[Item]) -> int:
    """A number that is another for every other set of items."""
    mark = 0
    for item in items:
        mark ^= mark_of(item)
    return mark


class _Countdown:
    """Sends a message when everything that it waits for has happened."""

    def __init__(self, then: Send) -> None:
        self.count = 1  # until release()
        self._then = then

    def one(self, now: Seconds) -> list[Effect]:
        """One thing has happened."""
        self.count -= 1
        return [] if self.count else [self._then]

    def release(self) -> list[Effect]:
        """Everything that it waits for has been counted."""
        return self.one(0.0)
