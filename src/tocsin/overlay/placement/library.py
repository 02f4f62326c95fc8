"""One-time queries on the ring, answered from the lists of documents at the owners of words (SmartSeer §II, S1).

The roles are swapped: the query visits the words, and the documents live there. A conjunction needs the list of one of
its words, the rarest; a disjunction one of each part; what can wait at no word needs the list of all documents. Who
published the documents of a list says which of them match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

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


@dataclass(slots=True)
class _Search:
    number: int
    text: str
    open: int = 0
    ids: dict[Address, set[str]] = field(default_factory=lambda: defaultdict(set))
    found: dict[str, int] = field(default_factory=dict)
    is_complete: bool = True


class Library:
    """Asks the ring."""

    def __init__(self, ground: Ground) -> None:
        self.me, self.asking = ground.chord.me, ground.asking
        self.knowledge, self.settings = ground.knowledge, ground.settings
        self._last = 0

    def search(self, text: str, now: Seconds) -> list[Effect]:
        """Asks a one-time query; `Answer` is delivered."""
        query = parse(text, self.knowledge.analysis)
        self._last += 1
        search = _Search(self._last, text)
        if anchors(query, self.knowledge.analysis) is None:
            return self._ask_lists(search, [(key, EVERY) for key in self.settings.dedicated_keys], now)
        words = sorted(wanted_words(query, self.knowledge.analysis))

        def counted(counts: dict[str, int], now: Seconds) -> list[Effect]:
            return self._ask_lists(search, self._rarest(query, counts), now)

        return self._count([word.word for word in words], now, counted)

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
            return [self._answer(search)]

        def judged(answer: Judged | None, now: Seconds) -> list[Effect]:
            search.open -= 1
            search.is_complete &= answer is not None
            search.found |= dict(answer.documents) if answer is not None else {}
            return [] if search.open else [self._answer(search)]

        effects: list[Effect] = []
        for publisher, ids in sorted(search.ids.items()):
            effects += self.asking.ask(
                publisher,
                lambda request, ids=ids: Judge(request, self.me, search.text, tuple(sorted(ids))),  # type: ignore[misc]
                now,
                judged,
            )
        return effects

    @staticmethod
    def _answer(search: _Search) -> Deliver:
        return Deliver(Answer(search.number, tuple(sorted(search.found.items())), search.is_complete))
