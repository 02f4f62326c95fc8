"""A document to every node of the ring, along the fingers (SmartSeer §IV-C: a tree; its third notification).

A node sends to every node that it knows, and makes each responsible for the keys up to the next: so each node is
reached once, after at most log N steps. What gets lost on the way is published again, by multicast, to the keys that
nobody is done with.
"""

from __future__ import annotations

from tocsin.match.rendezvous.payload import PackedDocument
from tocsin.match.rendezvous.registered import held_keys
from tocsin.overlay.chord import Chord
from tocsin.overlay.key import MASK, Key, is_between
from tocsin.overlay.node import Effect, Handler, Seconds, Send, Token
from tocsin.overlay.placement.entry import keys_by_word, word_key
from tocsin.overlay.placement.messages import Publish, Spread
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.query.semantics import Knowledge


class Broadcast:
    """A node's part of the tree."""

    name = "broadcast"

    def __init__(self, chord: Chord, knowledge: Knowledge, settings: PlacementSettings) -> None:
        self.chord, self.knowledge, self.settings = chord, knowledge, settings
        self.me = chord.me
        chord.node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Spread: self._on_spread}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Nothing to wait for."""
        return []

    def begin(self, publish: Publish, now: Seconds) -> list[Effect]:
        """Sends a document to everybody."""
        return self._on_spread(Spread(self.me.key, publish), now)

    def _on_spread(self, message: Spread, now: Seconds) -> list[Effect]:
        if not isinstance(message.payload, Publish):
            self.chord.node.dropped += 1
            return []
        return [*self._spread(message.payload, message.limit), *self._take_mine(message.payload, now)]

    def _spread(self, publish: Publish, limit: Key) -> list[Effect]:
        last = (limit - 1) & MASK
        if last == self.me.key:  # nobody stands between two keys that follow one upon the other
            return []
        near = [peer for peer in self.chord.table.known() if is_between(peer.key, self.me.key, last)]
        ends = [peer.key for peer in near[1:]] + [limit] * bool(near)
        return [Send(peer.address, Spread(end, publish)) for peer, end in zip(near, ends, strict=True)]

    def _take_mine(self, publish: Publish, now: Seconds) -> list[Effect]:
        try:
            document = PackedDocument(publish.document).unpacked()
        except ValueError:
            self.chord.node.dropped += 1
            return []
        words = keys_by_word(held_keys(document, self.knowledge.analysis))
        keys = {*words, *self.settings.dedicated_keys, *map(word_key, publish.gone)}
        mine = tuple(sorted(key for key in keys if self.chord.owns(key)))
        return self.chord.node.deliver(publish, mine, 0, now) if mine else []
