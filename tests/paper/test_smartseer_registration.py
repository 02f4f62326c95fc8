"""SmartSeer: where a query is registered (§III), scores and thresholds (§II, §VI), one test per claim."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import numpy.typing as npt
import pytest

from tocsin import Analysis, Document, Knowledge, Statistics, parse, score
from tocsin.match.index import QueryIndex
from tocsin.match.registry import Registry
from tocsin.match.segments import Segment
from tocsin.query.normal import anchors
from tocsin.sim.workload import WorkloadSettings, documents, query_ranks, word


def waiting(segment: Segment) -> npt.NDArray[np.int64]:
    """How many clauses wait under each key."""
    return (segment.first[1:] - segment.first[:-1]).astype(np.int64)


def longest(segment: Segment) -> int:
    """The longest list of clauses under one key."""
    return int(waiting(segment)[1:].max())


@pytest.mark.row("S3")
def test_a_conjunction_is_stored_once_on_its_most_selective_word_and_follows_it() -> None:
    """§III-B: selectivity is read from document frequencies, bootstrapped with 100 documents."""
    settings = WorkloadSettings(queries=20_000, documents=100)
    table = query_ranks(settings, seed=3)
    index = QueryIndex(Analysis())
    index.match(list(documents(settings, seed=3)), Knowledge())
    texts = [" ".join(word(int(rank)) for rank in dict.fromkeys(table.row(i).tolist())) for i in range(20_000)]
    index.add_plain([text.encode() for text in texts])
    index.match(list(documents(settings, seed=3)), Knowledge())  # the words are known now, so they are counted
    index.reorganise()
    (segment,) = index.segments()
    assert segment.clauses == 20_000, "one copy per query"

    frequency = index.frequency()
    assert_rarest(segment, frequency)
    rng = np.random.default_rng(1)
    first, keys, ids = segment.read(np.zeros(1, np.uint64))
    by_chance = Segment.build(first, keys, ids, rng.integers(1, 1 << 20, frequency.size).astype(np.uint32))
    commonest = Segment.build(first, keys, ids, np.uint32(1 << 20) - frequency)
    assert longest(segment) < longest(by_chance) < longest(commonest)


def assert_rarest(segment: Segment, frequency: np.ndarray) -> None:
    """Every clause waits under a key of which no other key of it is rarer."""
    under = np.repeat(np.arange(segment.keys), waiting(segment))
    two = segment.second > 0
    assert (frequency[under[two]] <= frequency[segment.second[two]]).all()
    three = (segment.third > 0) & (segment.third < 1 << 31)
    assert (frequency[segment.second[three]] <= frequency[segment.third[three]]).all()


@pytest.mark.row("S3")
def test_the_anchor_is_the_word_of_lowest_document_frequency() -> None:
    frequency = {"common": 50, "rare": 2, "middling": 9}
    waits = anchors(parse("common middling rare"), Analysis(), lambda key: frequency[key.word])
    assert waits is not None
    assert [key.word for key in waits] == ["rare"]


@pytest.mark.row("S18")
def test_the_score_of_a_result_is_the_cosine() -> None:
    """§II: results are ranked by cosine similarity with tf·idf weights."""
    collection = [
        Document("a", {"t": ("peer peer network",)}),
        Document("b", {"t": ("network",)}),
        Document("c", {"t": ("grid",)}),
    ]
    statistics = Statistics.of(collection, Analysis())
    idf = {"peer": log(1 + 3 / 1), "network": log(1 + 3 / 2)}
    weights = {"peer": (1 + log(2)) * idf["peer"], "network": idf["network"]}
    length = sqrt(sum(weight**2 for weight in weights.values()))
    expected = weights["peer"] * idf["peer"] / (length * idf["peer"])
    assert score(parse("peer"), collection[0], Analysis(), statistics) == pytest.approx(expected, abs=1e-9)


@pytest.mark.row("S18")
def test_a_changed_threshold_takes_effect_on_the_next_document() -> None:
    collection = [Document("a", {"t": ("peer network grid",)}), Document("b", {"t": ("other words here",)})]
    knowledge = Knowledge(Analysis(), Statistics.of(collection, Analysis()))
    registry = Registry()

    def found(threshold: float) -> bool:
        registry.add("similar", f't ~ "peer network" >= {threshold}')
        return bool(registry.match(collection[:1], knowledge).matches)

    assert [found(threshold) for threshold in (0.5, 0.99, 0.8, 0.82, 0)] == [True, False, True, False, True]


def test_document_frequencies_are_counted_as_documents_come_by() -> None:
    """D8's local part: what an index has seen equals a count over the collection."""
    collection = [Document(f"{n}", {"t": (" ".join(f"w{m}" for m in range(n % 9 + 1)),)}) for n in range(200)]
    registry = Registry()
    registry.add_many([(f"s{n}", f"w{n}") for n in range(9)])
    registry.match(collection, Knowledge())
    statistics = Statistics.of(collection, Analysis())
    lexicon = registry.index.interner.lexicons["standard"]
    keys = lexicon.bare_keys(lexicon.find([f"w{n}".encode() for n in range(9)]))
    counted = registry.index.frequency()[keys].tolist()
    assert counted == [statistics.frequency[f"w{n}"] for n in range(9)]
    assert registry.index.frequency()[0] == statistics.documents


def test_a_document_of_a_million_distinct_words_is_matched() -> None:
    registry = Registry()
    registry.add_many([("first", "w0 w999999"), ("absent", "w0 w1000000"), ("phrase", '"w7 w8"')])
    text = " ".join(f"w{number}" for number in range(1_000_000))
    found = registry.match([Document("big", {"t": (text,)})], Knowledge()).matches
    assert sorted(id for _, id in found) == ["first", "phrase"]
