"""The directory: who publishes which word, and how much of it lately (MAPS, "Directory service").

The ring partitions the terms; the owner of a term's key keeps a summary of every publisher that has it, as an item of
the ring: copies at the successors, handed over with the key, compared now and then. So a directory node that dies takes
nothing with it. A summary is small, and is replaced, not added to: what arrives twice or late does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgpack

from tocsin.match.requirement import PRESENT
from tocsin.overlay.chord import Chord
from tocsin.overlay.items import Items, Replicate
from tocsin.overlay.key import Key, hashed
from tocsin.overlay.message import Address, Item, Peer
from tocsin.overlay.node import Effect, Handler, Seconds, Send, Token
from tocsin.overlay.placement.publishers.correlation import Correlations, words_of
from tocsin.overlay.placement.publishers.messages import (
    AskStatistics,
    AskTotals,
    Carried,
    Count,
    Figures,
    Post,
    Posted,
    Statistics,
    Totals,
)
from tocsin.overlay.placement.publishers.settings import PublishersSettings
from tocsin.query.normal import Key as WordKey
from tocsin.text import UNSEEN_BY_BARE

STATISTICS_KIND = 42
SET_KIND = 43
EVERYBODY = "*"
"""The "term" under which every publisher is listed: no analysis makes a star."""
SETS_MAX = 50
"""Sets that are kept for one word."""


def term_key(term: str) -> Key:
    """The key of a word or a set of words."""
    return hashed("statistics", term)


def counts(key: WordKey) -> bool:
    """Whether there are statistics of a word: not of what names one document, nor of which fields are there."""
    return key.analysis != PRESENT and key.field not in UNSEEN_BY_BARE


def summary_item(term: str, figures: Figures, version: int) -> Item:
    """A publisher's summary of a term as an item of the ring."""
    value = [term, figures.life, figures.documents, figures.words, figures.last, figures.series]
    name = f"{term}\0{figures.publisher}".encode()
    return Item(term_key(term), STATISTICS_KIND, name, version, msgpack.packb(value))


def figures_of(item: Item) -> tuple[str, Figures] | None:
    """The term and the summary in an item; None if it is removed, or nonsense of another node."""
    if item.kind != STATISTICS_KIND or item.value is None:
        return None
    try:
        term, life, documents, words, last, series = msgpack.unpackb(item.value, use_list=False)
        named, publisher = item.name.decode().split("\0")
        numbers = (life, documents, words, last, *series)
        is_right = term == named and all(type(count) is int and 0 <= count < 1 << 53 for count in numbers)
    except (ValueError, TypeError, msgpack.UnpackException):
        return None
    return (term, Figures(publisher, life, documents, words, last, tuple(series))) if is_right else None


class Directory:
    """A node's part of the directory."""

    name = "directory"

    def __init__(self, chord: Chord, items: Items, settings: PublishersSettings) -> None:
        self.chord, self.items, self.settings = chord, items, settings
        self.me = chord.me
        self.correlations = Correlations(settings.set_support, settings.set_confidence, settings.set_words_max)
        node = chord.node
        node.add(self)
        node.receive(AskStatistics, self._on_ask_statistics)
        node.receive(AskTotals, self._on_ask_totals)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Post: self._on_post, Carried: self._on_carried}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Nothing to wait for."""
        return []

    # --- posts -------------------------------------------------------------------------------------------------------

    def _on_carried(self, message: Carried, now: Seconds) -> list[Effect]:
        posted = self._on_post(Post(message.number, message.sender, message.items), now)
        return [*posted, *self.chord.node.handle(message.message, now)]

    def _on_post(self, message: Post, now: Seconds) -> list[Effect]:
        """A publisher may speak for itself only."""
        if any(not _is_of(message.sender, item) for item in message.items):
            self.chord.node.dropped += 1
            return []
        mine = [item for item in message.items if self.chord.owns(item.key)]
        if not mine and any(self.chord.owns(item.key) is None for item in message.items):
            return []  # not to be said now: the publisher will ask again
        low = self.chord.predecessor or self.me
        sets = sorted({name for item in mine for name in self.sets_of(item.key)})
        return [*self.take(mine), Send(message.sender.address, Posted(message.number, self.me, low.key, tuple(sets)))]

    def take(self, items: Sequence[Item]) -> list[Effect]:
        """Keeps items of keys that this node owns, and lets the successors keep copies."""
        if not items:
            return []
        self.items.take(items, 0.0)
        copies = Replicate(self.me, 0, tuple(items))
        return [Send(peer.address, copies) for peer in self.items.replicas()]

    # --- questions ---------------------------------------------------------------------------------------------------

    def figures(self, term: str) -> list[Figures]:
        """Every publisher's summary of a term that this node has."""
        found = (figures_of(item) for item in self.items.store.at(term_key(term)))
        return sorted((one[1] for one in found if one is not None and one[0] == term), key=lambda one: one.publisher)

    def sets_of(self, key: Key) -> list[str]:
        """The sets that were recognised at a word."""
        some = self.items.store.at(key)
        return [item.name.decode() for item in some if item.kind == SET_KIND and item.value is not None]

    def _on_ask_statistics(
        self, message: AskStatistics, keys: tuple[Key, ...], hops: int, now: Seconds
    ) -> list[Effect]:
        figures = self.figures(message.term)
        asked = set(message.query)
        subscription = f"{message.sender.address} {message.subscription}"
        found = self.correlations.learn(message.term, subscription, asked)
        effects = self._recognise(message.term, found, figures, now)
        sets = tuple(sorted(name for name in self._ripe(keys[0], now) if words_of(name) <= asked))
        return [*effects, Send(message.sender.address, Statistics(message.request, tuple(figures), sets))]

    def _recognise(self, word: str, found: Iterable[str], figures: Iterable[Figures], now: Seconds) -> list[Effect]:
        """Keeps new sets, and asks everybody who has the word to count them."""
        key = term_key(word)
        known = self.sets_of(key)
        new = [name for name in found if name not in known][: max(0, SETS_MAX - len(known))]
        if not new:
            return []
        since = msgpack.packb(self.settings.interval_of(now))
        effects = self.take([Item(key, SET_KIND, name.encode(), 1, since) for name in new])
        return [*effects, *(Send(one.publisher, Count(tuple(new))) for one in figures)]

    def _ripe(self, key: Key, now: Seconds) -> list[str]:
        """Sets that publishers have had a whole interval to post."""
        ripe = self.settings.interval_of(now) - 2
        some = [item for item in self.items.store.at(key) if item.kind == SET_KIND and item.value is not None]
        return [item.name.decode() for item in some if _number(item.value) <= ripe]

    def _on_ask_totals(self, message: AskTotals, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        figures = self.figures(EVERYBODY)
        drawn = sorted((hashed("audit", f"{message.draw} {one.publisher}"), one.publisher) for one in figures)
        sample = tuple(publisher for _, publisher in drawn[: message.sample])
        words = sum(one.words for one in figures)
        return [Send(message.sender.address, Totals(message.request, len(figures), words, sample))]


def _is_of(sender: Peer, item: Item) -> bool:
    return item.kind == STATISTICS_KIND and item.name.endswith(_tail(sender.address))


def _tail(address: Address) -> bytes:
    return b"\0" + address.encode()


def _number(value: bytes | None) -> int:
    try:
        found = msgpack.unpackb(value)
    except (ValueError, TypeError, msgpack.UnpackException):
        return 1 << 62  # nonsense: never ripe
    return found if isinstance(found, int) else 1 << 62
