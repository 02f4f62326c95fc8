"""SmartSeer §V: documents, queries registered on their rarest word, and what joins send; for the experiments.

The first 500 documents teach the frequencies of words (§V: 500 of 1,000 documents train), the others are measured.
Bytes are those of the codec. The paper's figures leave packet headers out; so do these, unless they say otherwise.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
import numpy.typing as npt

from tocsin.match.rendezvous.bloom import CITESEER_BITS
from tocsin.match.rendezvous.conversation import DocumentSide, QuerySide, converse
from tocsin.match.rendezvous.payload import Join, encode
from tocsin.match.rendezvous.registered import Registered, register
from tocsin.query.normal import Key
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge
from tocsin.sim.workload import (
    CITESEER,
    TREC,
    RankTable,
    WorkloadSettings,
    document_table,
    documents,
    infer_frequency,
    query_ranks,
    vocabulary,
)
from tocsin.text import STANDARD, Analysis

TRAINING = 500
TREC_BITS = 1_000
METADATA = "owner=reader@example.org;channel=mail;since=2006-01-01"
"""A query is kept with what is known of its owner (§IV-B); Send Query ships it too."""
NAMES = {
    Join.SEND_QUERY: "Send Query",
    Join.SEND_DOCUMENT: "Send Document",
    Join.DIALOGUE: "Term Dialogue",
    Join.BLOOM_DIALOGUE: "Bloom Filter",
}


@lru_cache(maxsize=200_000)
def _registered(id: str, text: str) -> Registered:
    return register(id, parse(text), Analysis(), METADATA)


@dataclass(frozen=True)
class Pair:
    """A document and the queries that its notice concerns at one query node."""

    side: DocumentSide
    words: tuple[Key, ...]
    texts: tuple[tuple[str, str], ...]
    """Ids and texts of the queries."""

    @cached_property
    def queries(self) -> tuple[Registered, ...]:
        """The queries, parsed: most pairs are drawn and not measured."""
        return tuple(_registered(id, text) for id, text in self.texts)

    def join_bytes(self, join: Join) -> int:
        """What a join sends beside the notice."""
        if join is Join.SEND_DOCUMENT:  # nothing is said after it; to unpack and match it would take most of the time
            notice = self.side.open(join, self.words)
            return len(encode(notice)) - len(encode(replace(notice, body=None)))
        return converse(self.side, QuerySide(self.queries, Knowledge()), join, self.words).join_bytes


@dataclass(frozen=True)
class Scene:
    """A workload."""

    settings: WorkloadSettings
    seed: int
    measured: int
    filter_bits: int

    @cached_property
    def _table(self) -> RankTable:
        return document_table(replace(self.settings, documents=TRAINING + self.measured), self.seed)

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The rank of each word."""
        return {word: rank for rank, word in enumerate(vocabulary(self.settings.vocabulary_words))}

    @cached_property
    def frequency(self) -> npt.NDArray[np.int64]:
        """In how many of the first documents each rank occurs."""
        seen = np.zeros(self.settings.vocabulary_words + 1, np.int64)
        for number in range(TRAINING):
            seen[np.unique(self._table.row(number))] += 1
        return seen

    @cached_property
    def sides(self) -> list[DocumentSide]:
        """The measured documents."""
        every = documents(replace(self.settings, documents=TRAINING + self.measured), self.seed)
        return [DocumentSide(one, Knowledge(), self.filter_bits) for one in islice(every, TRAINING, None)]

    @cached_property
    def texts(self) -> list[str]:
        """The queries."""
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

    def listed(self, words: Iterable[Key]) -> tuple[tuple[str, str], ...]:
        """The queries registered on these words: ids and texts."""
        return tuple([each for key in words for each in self.lists.get(key.word, ())])

    def at(self, words: Iterable[Key]) -> tuple[Registered, ...]:
        """The same, parsed."""
        return tuple(_registered(id, text) for id, text in self.listed(words))

    @staticmethod
    def words(side: DocumentSide) -> list[Key]:
        """The words of a document, whatever field."""
        found = (key for key in side.held if not key.field and key.analysis == STANDARD)
        return sorted(found, key=lambda key: key.word)

    def by_word(self) -> Iterator[Pair]:
        """Pairs as naive notification makes them."""
        for side in self.sides:
            for key in self.words(side):
                if key.word in self.lists:
                    yield Pair(side, (key,), self.listed([key]))

    def of_size(self, queries: int) -> Iterator[Pair]:
        """Pairs with so many queries, one of each document, then the next of each.

        A long document has many pairs with one query and few with eighty: one document after the other, short lists
        would be measured on other documents than long ones.
        """
        waiting = [self._of_size(side, queries) for side in self.sides]
        while waiting:
            found = [(pairs, next(pairs, None)) for pairs in waiting]
            yield from [pair for _, pair in found if pair is not None]
            waiting = [pairs for pairs, pair in found if pair is not None]

    def _of_size(self, side: DocumentSide, queries: int) -> Iterator[Pair]:
        """Words of a document are put together until their lists have as many."""
        keys: list[Key] = []
        count = 0
        for key in self.words(side):
            listed = len(self.lists.get(key.word, ()))
            if listed and count + listed <= queries:
                keys.append(key)
                count += listed
            if count == queries:
                yield Pair(side, tuple(keys), self.listed(keys))
                keys, count = [], 0

    def mean_bytes(self, queries: int, joins: Iterable[Join], pairs: int) -> dict[Join, float]:
        """Mean bytes of joins for lists of so many queries, over at most so many pairs; empty if there are none."""
        totals: Counter[Join] = Counter()
        found = list(islice(self.of_size(queries), pairs))
        for pair in found:
            for join in joins:
                totals[join] += pair.join_bytes(join)
        return {join: totals[join] / len(found) for join in joins} if found else {}


@lru_cache(maxsize=2)
def news(seed: int, measured: int, **changes: object) -> Scene:
    """Like TREC's: about 200 different words in a document, filters of 1 Kbit."""
    return Scene(replace(TREC, **changes), seed, measured, TREC_BITS)  # type: ignore[arg-type]


@lru_cache(maxsize=2)
def papers(seed: int, measured: int, **changes: object) -> Scene:
    """Like CiteSeer's: about 2,000 different words in a document, filters of 10 Kbit."""
    return Scene(replace(CITESEER, **changes), seed, measured, CITESEER_BITS)  # type: ignore[arg-type]


CORPORA = {"TREC": news, "CiteSeer": papers}
