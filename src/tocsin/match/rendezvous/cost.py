"""What a meeting costs in bytes: the analytical model, and the law by which Send Query grows.

SmartSeer §IV-B, in words shipped: Send Document SD = d, Term Dialogue TD = δ·q, Bloom filter BF = f(d) + γ·q + ε·q,
where d and q are the different words of the document and of the queries. Of Q queries, Q′ = Q0 + Σ Qi·fⁱ survive a
filter of false positive rate f, if Qi queries have all but i of their words in the document. Send Query is left out
there, since a dialogue in one round asks for less than the queries themselves; here it has its formula too.

The constants are derived from statistics, not guessed: a query node knows its queries and the document frequencies of
their words (`QueryFacts.of`), a document node its document (`DocumentFacts.of`). One constant is fitted, κ
(`FITTED_OVERLAP`): how much queries that survive a filter share their words.

§III-C has the bandwidth of Send Query as β·R·C·F·Wd. **Trap:** its example (C = 10⁶ queries, Wd = 10⁴ words, F = 0.01,
selectivity 10⁻³, 10 bytes a query) multiplies to 1 MB for a document, while the text says "about 10 MB": that is so
only with β ≈ 10. `scaling_bytes` takes β, and reports should give both numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp

import numpy as np
import numpy.typing as npt

from tocsin.match.rendezvous.bloom import CITESEER_BITS, false_rate, filter_word
from tocsin.match.rendezvous.conversation import HEADER_BYTES, DocumentSide
from tocsin.match.rendezvous.payload import Join
from tocsin.match.rendezvous.registered import Registered
from tocsin.query.normal import Key

Share = Callable[[Key], float]
"""The share of documents that hold a word."""

MISSING_MAX = 3
"""Queries with more absent words than this survive no filter worth sending (§IV-B ignores even Q2)."""
FITTED_OVERLAP = 0.3
"""κ: how many different words surviving queries have, where 1 means words drawn evenly. Of 0.3, 0.6 and 1.0, on Zipf
workloads with documents of 200 and 2,000 words and queries of 2, 5 and 8 words, 0.3 chose the cheapest join most often:
97, 95 and 95 % of 588 pairs."""
_ENTRY_BYTES = 4  # msgpack: an array and three strings
_WORD_BYTES = 1  # msgpack: a short string's length
_FRAME_BYTES = 5  # msgpack: kind, counts


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """What a document node knows of its document."""

    words: int
    """d: different words."""
    packed_bytes: int
    """What the document takes when compressed."""
    filter_bits: int = CITESEER_BITS
    """f(d): the size of its filter."""

    @classmethod
    def of(cls, side: DocumentSide) -> DocumentFacts:
        """Counts a document."""
        return cls(len(set(map(filter_word, side.held))), len(side.packed.data), side.filter_bits)


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What a query node knows of the queries that a notice concerns."""

    queries: float = 0.0
    """Q."""
    query_bytes: float = 0.0
    """All queries whole, with metadata."""
    words: float = 0.0
    """q: different words that the notice does not answer already."""
    word_bytes: float = 0.0
    """W̄: mean length of such a word."""
    words_per_query: float = 0.0
    """ν: such words in a query."""
    present: float = 0.0
    """The share of the q words that a document is expected to hold."""
    missing: tuple[float, ...] = (0.0,) * (MISSING_MAX + 1)
    """γi: the share of the queries that is expected to have exactly i of its words absent."""

    @classmethod
    def of(cls, queries: Sequence[Registered], known: Iterable[Key], share: Share) -> QueryFacts:
        """Counts the queries; `known` are the words of the notice, which are there for certain."""
        if not queries:
            return cls()
        held = frozenset(known)
        asked: set[Key] = set()
        places, missing = 0, np.zeros(MISSING_MAX + 1)
        for registered in queries:
            unresolved = registered.keys - held
            asked |= unresolved
            places += len(unresolved)
            missing += _absent(sorted(unresolved), share)
        count = len(queries)
        whole = sum(_whole_bytes(each) for each in queries)
        length = sum(len(key.word.encode()) for key in asked) / max(1, len(asked))
        present = sum(map(share, asked)) / max(1, len(asked))
        return cls(count, whole, len(asked), length, places / count, present, tuple((missing / count).tolist()))

    def scaled(self, factor: float) -> QueryFacts:
        """As if the notice named so many times the words."""
        queries, size, words = self.queries * factor, self.query_bytes * factor, self.words * factor
        return replace(self, queries=queries, query_bytes=size, words=words)


def _whole_bytes(registered: Registered) -> int:
    return _ENTRY_BYTES + sum(len(part.encode()) for part in (registered.id, registered.text, registered.metadata))


def _absent(keys: Sequence[Key], share: Share) -> npt.NDArray[np.float64]:
    """How likely it is that exactly 0, 1, … of the words are absent, if words come independently."""
    found = np.zeros(MISSING_MAX + 1)
    found[0] = 1.0
    for key in keys:
        present = share(key)
        found[1:] = found[1:] * present + found[:-1] * (1 - present)
        found[0] *= present
    return found


def survivors(missing: Sequence[float], rate: float) -> float:
    """Q′ = Q0 + Σ Qi·fⁱ (§IV-B)."""
    return sum(count * rate**absent for absent, count in enumerate(missing))


@dataclass(frozen=True, slots=True)
class CostModel:
    """Bytes of each join for a document and the queries of one node."""

    header_bytes: int = HEADER_BYTES
    overlap: float = FITTED_OVERLAP

    def costs(self, document: DocumentFacts, queries: QueryFacts, notice_bytes: int = 0) -> dict[Join, float]:
        """The expected bytes of every join; `notice_bytes` are the words of the notice, which Send Document spares."""
        filter = (document.filter_bits + 7) // 8 + _FRAME_BYTES
        rate = false_rate(document.filter_bits, document.words)
        left = queries.queries * survivors(queries.missing, rate)
        asked = self._words_of(left, rate, queries)
        some = 1 - exp(-left) if left < 50 else 1.0  # whether anything survives, so that there is anything to say
        whole = queries.query_bytes * left / queries.queries if queries.queries else 0.0
        join = {
            Join.SEND_QUERY: queries.query_bytes + self.header_bytes if queries.queries else 0.0,
            Join.DIALOGUE: self._dialogue(queries.words, queries),
            Join.BLOOM_QUERY: filter + whole + some * self.header_bytes,
            Join.BLOOM_DIALOGUE: filter + some * self._dialogue(asked / some if some else 0.0, queries),
        }
        whole_document = {Join.SEND_DOCUMENT: float(document.packed_bytes + _FRAME_BYTES)}
        return whole_document | {name: notice_bytes + size for name, size in join.items()}

    def cheapest(
        self,
        document: DocumentFacts,
        queries: QueryFacts,
        notice_bytes: int = 0,
        among: Iterable[Join] = tuple(Join),
    ) -> Join:
        """The join of the fewest expected bytes."""
        costs = self.costs(document, queries, notice_bytes)
        return min(among, key=lambda join: costs[join])

    def _dialogue(self, words: float, queries: QueryFacts) -> float:
        """One round: the words, a bit for each, two messages."""
        if not words:
            return 0.0
        return words * (queries.word_bytes + _WORD_BYTES + 1 / 8) + _FRAME_BYTES + 2 * self.header_bytes

    def _words_of(self, left: float, rate: float, queries: QueryFacts) -> float:
        """Different words of the queries that a filter left, γ·q + ε·q: words that pass it, shared by many queries."""
        passing = queries.words * (queries.present + (1 - queries.present) * rate)
        if not passing:
            return 0.0
        return passing * (1 - exp(-self.overlap * queries.words_per_query * left / passing))


# --- §III-C: how Send Query grows ------------------------------------------------------------------------------------


def zipf(vocabulary: int, exponent: float) -> npt.NDArray[np.float64]:
    """Z(r, α): the share of each rank among words, the first place for rank 1."""
    weights: npt.NDArray[np.float64] = np.arange(1, vocabulary + 1, dtype=np.float64) ** -exponent
    weights /= weights.sum()
    return weights


def registered_share(vocabulary: int, exponent: float, words_per_query: int) -> npt.NDArray[np.float64]:
    """FZ(r, α, Wq): how likely a query of Wq words is registered on rank r, the rarest of its words."""
    below = np.concatenate([[0.0], np.cumsum(zipf(vocabulary, exponent))])
    return np.diff(below**words_per_query)


def list_selectivity(vocabulary: int, exponent: float, words_per_query: int) -> float:
    """Σr Z(r)·FZ(r): the share of all queries in the list of one word of a document."""
    return float(zipf(vocabulary, exponent) @ registered_share(vocabulary, exponent, words_per_query))


def scaling_bytes(
    queries: float,
    document_words: float,
    keyword_fraction: float,
    selectivity: float,
    query_bytes: float,
    *,
    documents_per_second: float = 1.0,
    beta: float = 1.0,
) -> float:
    """β·R·C·F·Wd with the average selectivity of a word and the size of a query: bytes a second, or for R documents."""
    return beta * documents_per_second * queries * keyword_fraction * document_words * selectivity * query_bytes
