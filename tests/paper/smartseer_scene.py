"""The experiments of SmartSeer §V in small: documents, queries registered on their rarest word, nodes on a ring."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from tocsin import Analysis, Knowledge
from tocsin.match.rendezvous.conversation import DocumentSide, QuerySide, converse
from tocsin.match.rendezvous.cost import DocumentFacts, QueryFacts
from tocsin.match.rendezvous.notification import Ring
from tocsin.match.rendezvous.payload import Join
from tocsin.match.rendezvous.registered import Registered, register
from tocsin.query.normal import Key
from tocsin.query.parse import parse
from tocsin.sim.workload import WorkloadSettings, document_table, documents, infer_frequency, query_ranks, vocabulary

TRAINING = 500
METADATA = "owner=reader@example.org;channel=mail;since=2006-01-01"


@dataclass(frozen=True)
class Pair:
    """A document at a document node and the queries that its notice concerns at one query node."""

    side: DocumentSide
    words: tuple[Key, ...]
    texts: tuple[tuple[str, str], ...]
    """Ids and texts of the queries."""

    @cached_property
    def queries(self) -> tuple[Registered, ...]:
        return registered(self.texts)


@lru_cache(maxsize=200_000)
def _registered(id: str, text: str) -> Registered:
    return register(id, parse(text), Analysis(), METADATA)


def registered(texts: Iterable[tuple[str, str]]) -> tuple[Registered, ...]:
    return tuple(_registered(id, text) for id, text in texts)


@dataclass(frozen=True)
class Scene:
    """A workload: the first 500 documents teach the frequencies of words, the others are measured."""

    settings: WorkloadSettings
    seed: int = 1
    measured: int = 20
    filter_bits: int = 1_000

    @cached_property
    def _table(self):
        return document_table(replace(self.settings, documents=TRAINING + self.measured), self.seed)

    @cached_property
    def ranks(self) -> dict[str, int]:
        return {word: rank for rank, word in enumerate(vocabulary(self.settings.vocabulary_words))}

    @cached_property
    def frequency(self) -> np.ndarray:
        """In how many of the first documents each rank occurs."""
        seen = np.zeros(self.settings.vocabulary_words + 1, np.int64)
        for number in range(TRAINING):
            seen[np.unique(self._table.row(number))] += 1
        return seen

    def df(self, key: Key) -> int:
        return int(self.frequency[self.ranks[key.word]])

    def share(self, key: Key) -> float:
        return self.df(key) / TRAINING

    @cached_property
    def sides(self) -> list[DocumentSide]:
        every = documents(replace(self.settings, documents=TRAINING + self.measured), self.seed)
        return [DocumentSide(document, Knowledge(), self.filter_bits) for document in list(every)[TRAINING:]]

    @cached_property
    def texts(self) -> list[str]:
        drawn = query_ranks(self.settings, self.seed, infer_frequency(self.settings, self.seed, TRAINING))
        return list(drawn.texts())

    @cached_property
    def lists(self) -> dict[str, list[tuple[str, str]]]:
        """The queries registered on each word: id and text."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for number, text in enumerate(self.texts):
            anchor = min(text.split(), key=lambda word: (self.frequency[self.ranks[word]], word))
            found[anchor].append((f"q{number}", text))
        return found

    def at(self, words: Iterable[Key]) -> tuple[Registered, ...]:
        """The queries registered on these words."""
        return registered(each for key in words for each in self.lists.get(key.word, ()))

    def words(self, side: DocumentSide) -> list[Key]:
        """The bare words of a document."""
        return sorted(key for key in side.held if not key.field and key.analysis == "standard")

    def by_word(self) -> Iterator[Pair]:
        """Pairs as naive notification makes them."""
        for side in self.sides:
            for key in self.words(side):
                if key.word in self.lists:
                    yield Pair(side, (key,), tuple(self.lists[key.word]))

    def by_node(self, nodes: int) -> Iterator[Pair]:
        """Pairs as clustered notification makes them."""
        ring = Ring(nodes)
        for side in self.sides:
            owned: dict[int, list[Key]] = defaultdict(list)
            for key in self.words(side):
                owned[ring.owner(key)].append(key)
            for keys in owned.values():
                texts = tuple(each for key in keys for each in self.lists.get(key.word, ()))
                if texts:
                    yield Pair(side, tuple(keys), texts)

    def of_size(self, queries: int) -> Iterator[Pair]:
        """Pairs with so many queries: words of a document are put together until their lists have as many."""
        for side in self.sides:
            keys: list[Key] = []
            texts: list[tuple[str, str]] = []
            for key in self.words(side):
                listed = self.lists.get(key.word, [])
                if listed and len(texts) + len(listed) <= queries:
                    keys.append(key)
                    texts += listed
                if len(texts) == queries:
                    yield Pair(side, tuple(keys), tuple(texts))
                    keys, texts = [], []

    def facts(self, pair: Pair) -> tuple[DocumentFacts, QueryFacts]:
        return DocumentFacts.of(pair.side), QueryFacts.of(pair.queries, pair.words, self.share)


def measure(pair: Pair, joins: Sequence[Join]) -> dict[Join, int]:
    """The bytes that each join really takes; the answers must agree."""
    outcomes = {join: converse(pair.side, QuerySide(pair.queries, Knowledge()), join, pair.words) for join in joins}
    assert len({outcome.matches for outcome in outcomes.values()}) == 1
    return {join: outcome.total_bytes() for join, outcome in outcomes.items()}
