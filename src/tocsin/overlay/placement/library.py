"""One-time queries on the ring, answered from the lists of documents at the owners of words (SmartSeer §II, S1).

The roles are swapped: the query visits the words, and the documents live there. A conjunction needs the list of one of
its words, the rarest; a disjunction one of each part; what can wait at no word needs the list of all documents. Who
published the documents of a list says which of them match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from tocsin.overlay.key import Key
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver, Effect, Seconds
from tocsin.overlay.placement.entry import EVERY, wanted_words, word_key
from tocsin.overlay.placement.ground import Ground
from tocsin.overlay.placement.messages import AskFrequency, AskList, Frequency, Judge, Judged, Listed
from tocsin.query.ast import Query
from tocsin.query.normal import Key as WordKey
from tocsin.query.normal import anchors
from tocsin.query.parse import parse


class Answer(NamedTuple):
    """Delivered for a one-time query."""

    number: int
    documents: tuple[tuple[str, int], ...]  # id and version
    is_complete: bool  # False: an owner or a publisher did not answer


class Counted(NamedTuple):
    """Delivered with the document frequencies that were asked for (DHTrie: to score, others ask; D8)."""

    number: int
    counts: dict[str, int]
    documents: int


Found: TypeAlias = Callable[[list[tuple[str, int, Address]], bool, Seconds], list[Effect]]
"""Called with id, version and publisher of what was found, and whether everybody answered."""


@dataclass(slots=True)
class _Search:
    text: str
    then: Found
    open: int = 0
    ids: dict[Address, set[str]] = field(default_factory=lambda: defaultdict(set))
    found: list[tuple[str, int, Address]] = field(default_factory=list)
    is_complete: bool = True


class Library:
    """Asks the ring."""

    def __init__(self, ground: Ground) -> None:
        self.me, self.asking = ground.chord.me, ground.asking
        self.knowledge, self.settings = ground.knowledge, ground.settings
        self._last = 0

    def search(self, text: str, now: Seconds) -> list[Effect]:
        """Asks a one-time query; `Answer` is delivered."""
        self._last += 1
        number = self._last

        def found(documents: list[tuple[str, int, Address]], is_complete: bool, now: Seconds) -> list[Effect]:
            answer = sorted({id: version for id, version, _ in documents}.items())
            return [Deliver(Answer(number, tuple(answer), is_complete))]

        return self.find(text, now, found)

    def find(self, text: str, now: Seconds, then: Found) -> list[Effect]:
        """Asks a one-time query for the sake of another part of this node."""
        query = parse(text, self.knowledge.analysis)
        search = _Search(text, then)
        if anchors(query, self.knowledge.analysis) is None:
            return self._ask_lists(search, [(key, EVERY) for key in self.settings.dedicated_keys], now)
        words = sorted(wanted_words(query, self.knowledge.analysis))

        def counted(counts: dict[str, int], now: Seconds) -> list[Effect]:
            return self._ask_lists(search, self._rarest(query, counts), now)

        return self._count([word.word for word in words], now, counted)

    def look(self, text: str, keys: AbstractSet[Key], now: Seconds, then: Found) -> list[Effect]:
        """Asks a one-time query where it is registered as a subscription: what came by before is listed there."""
        words = wanted_words(parse(text, self.knowledge.analysis), self.knowledge.analysis)
        lists = {(word_key(word.word), word.word) for word in words if word_key(word.word) in keys}
        if keys & set(self.settings.dedicated_keys):
            lists |= {(key, EVERY) for key in self.settings.dedicated_keys}
        return self._ask_lists(_Search(text, then), sorted(lists), now) if lists else then([], True, now)

    def _rarest(self, query: Query, counts: dict[str, int]) -> list[tuple[Key, str]]:
        def frequency(word: WordKey) -> int:
            return counts.get(word.word, 0)

        found = anchors(query, self.knowledge.analysis, frequency) or frozenset()
        return sorted({(word_key(word.word), word.word) for word in found})

    def count(self, words: Iterable[str], now: Seconds) -> list[Effect]:
        """Asks for document frequencies; `Counted` is delivered."""
        self._last += 1
        number, words = self._last, sorted(set(words))
        stars = [(key, f"{EVERY}{place}") for place, key in enumerate(self.settings.dedicated_keys)]

        def counted(counts: dict[str, int], now: Seconds) -> list[Effect]:
            documents = sum(counts.pop(name) for _, name in stars)
            return [Deliver(Counted(number, counts, documents))]

        asked = [(word_key(word), word, word) for word in words] + [(key, EVERY, name) for key, name in stars]
        return self._count_at(asked, now, counted)

    def _count(
        self, words: Iterable[str], now: Seconds, then: Callable[[dict[str, int], Seconds], list[Effect]]
    ) -> list[Effect]:
        return self._count_at([(word_key(word), word, word) for word in sorted(set(words))], now, then)

    def _count_at(
        self,
        asked: list[tuple[Key, str, str]],
        now: Seconds,
        then: Callable[[dict[str, int], Seconds], list[Effect]],
    ) -> list[Effect]:
        counts: dict[str, int] = {}

        def answered(name: str) -> Callable[[Frequency | None, Seconds], list[Effect]]:
            def take(answer: Frequency | None, now: Seconds) -> list[Effect]:
                counts[name] = 0 if answer is None else answer.count
                return then(counts, now) if len(counts) == len(asked) else []

            return take

        effects: list[Effect] = []
        for key, word, name in asked:
            effects += self.asking.ask(
                key, lambda request, word=word: AskFrequency(request, self.me, word), now, answered(name)  # type: ignore[misc]
            )  # fmt: skip
        return effects

    def _ask_lists(self, search: _Search, lists: list[tuple[Key, str]], now: Seconds) -> list[Effect]:
        search.open = len(lists)

        def listed(answer: Listed | None, now: Seconds) -> list[Effect]:
            search.open -= 1
            search.is_complete &= answer is not None
            for id, _, publisher in answer.documents if answer is not None else ():
                search.ids[publisher].add(id)
            return [] if search.open else self._judge(search, now)

        effects: list[Effect] = []
        for key, word in lists:
            effects += self.asking.ask(
                key, lambda request, word=word: AskList(request, self.me, word), now, listed  # type: ignore[misc]
            )  # fmt: skip
        return effects

    def _judge(self, search: _Search, now: Seconds) -> list[Effect]:
        search.open = len(search.ids)
        if not search.open:
            return search.then(search.found, search.is_complete, now)

        def judged(publisher: Address, answer: Judged | None, now: Seconds) -> list[Effect]:
            search.open -= 1
            search.is_complete &= answer is not None
            found = answer.documents if answer is not None else ()
            search.found += [(id, version, publisher) for id, version in found]
            return [] if search.open else search.then(search.found, search.is_complete, now)

        effects: list[Effect] = []
        for publisher, ids in sorted(search.ids.items()):
            effects += self.asking.ask(
                publisher,
                lambda request, ids=ids: Judge(request, self.me, search.text, tuple(sorted(ids))),  # type: ignore[misc]
                now,
                partial(judged, publisher),
            )
        return effects
