"""Which documents hold a word: lists at the owners of words, kept up by the messages that notify of documents (S2).

One-time queries are answered from them (S1), and document frequencies are their lengths (DHTrie, D8).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgpack

from tocsin.overlay.items import Replicate
from tocsin.overlay.key import Key
from tocsin.overlay.message import Item
from tocsin.overlay.node import Effect, Seconds, Send
from tocsin.overlay.placement.entry import EVERY, LIST_KIND, dedicated_for, word_key
from tocsin.overlay.placement.ground import Ground
from tocsin.overlay.placement.messages import AskFrequency, AskList, Frequency, Listed, Publish
from tocsin.query.normal import Key as WordKey


class Lists:
    """The lists of the words that a node owns."""

    def __init__(self, ground: Ground) -> None:
        self.items, self.settings = ground.items, ground.settings
        self.me = ground.chord.me
        ground.chord.node.receive(AskFrequency, self._on_ask_frequency)
        ground.chord.node.receive(AskList, self._on_ask_list)

    def add(
        self, message: Publish, keys: tuple[Key, ...], words: dict[Key, set[str]], held: frozenset[WordKey]
    ) -> list[Effect]:
        """Lists a document under its words here."""
        bare = {key.word for key in held if not key.field}
        found = [
            list_item(key, word, message, word in bare) for key in keys for word in sorted(words.get(key, ()))
        ]  # fmt: skip
        if dedicated_for(message.id, self.settings.dedicated_nodes) in keys:
            found.append(list_item(dedicated_for(message.id, self.settings.dedicated_nodes), EVERY, message, False))
        return [*self._keep(found), *self.remove(message, keys, frozenset(item.name for item in found))]

    def remove(
        self, message: Publish, keys: tuple[Key, ...], kept: frozenset[bytes], more: Sequence[str] = ()
    ) -> list[Effect]:
        """Removes a document from the lists of words that it holds no more."""
        gone = [(word_key(word), word) for word in message.gone]
        gone += [(dedicated_for(message.id, self.settings.dedicated_nodes), word) for word in more]
        items = [list_item(key, word, message, None) for key, word in gone if key in keys]
        return self._keep([item for item in items if item.name not in kept])

    def _keep(self, items: Sequence[Item]) -> list[Effect]:
        if not items:
            return []
        self.items.take(items, 0.0)
        copies = Replicate(self.me, 0, tuple(items))
        return [Send(peer.address, copies) for peer in self.items.replicas()]

    def _listed(self, key: Key, word: str) -> list[tuple[str, int, str, bool]]:
        found = []
        start = word.encode() + b"\0"
        for item in self.items.store.at(key):
            if item.kind == LIST_KIND and item.value is not None and item.name.startswith(start):
                try:
                    is_bare, address = msgpack.unpackb(item.value)
                    found.append((item.name[len(start) :].decode(), item.version, str(address), bool(is_bare)))
                except (ValueError, TypeError, msgpack.UnpackException):
                    continue  # nonsense of another node
        return sorted(found)

    def _on_ask_frequency(self, message: AskFrequency, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        counts = [is_bare or message.word == EVERY for _, _, _, is_bare in self._listed(keys[0], message.word)]
        return [Send(message.sender.address, Frequency(message.request, sum(counts)))]

    def _on_ask_list(self, message: AskList, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        documents = tuple([(id, version, link) for id, version, link, _ in self._listed(keys[0], message.word)])
        return [Send(message.sender.address, Listed(message.request, documents))]


def list_item(key: Key, word: str, message: Publish, is_bare: bool | None) -> Item:
    """A document in the list of a word; None: not any more."""
    value = None if is_bare is None else msgpack.packb([is_bare, message.publisher.address])
    return Item(key, LIST_KIND, word.encode() + b"\0" + message.id.encode(), message.version, value)
