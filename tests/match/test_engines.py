"""One contract for every engine: exactly what the oracle says, for every form of query."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin import Analysis, Document, Knowledge, Statistics, holds, parse
from tocsin.match.engine import Engine
from tocsin.match.engines import ENGINES, engine_named
from tocsin.query import Query
from tocsin.sim.workload import random_documents, random_query

MIXED = Analysis({"title": "english", "author": "keyword"})
ANALYSES = {"standard": Analysis(), "mixed": MIXED}

pytestmark = pytest.mark.parametrize("name", ENGINES)


def oracle(queries: dict[int, Query], documents: list[Document], knowledge: Knowledge) -> list[list[int]]:
    return [
        sorted(number for number, query in queries.items() if holds(query, document, knowledge))
        for document in documents
    ]


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=ANALYSES.keys())
@pytest.mark.parametrize("seed", range(6))
def test_equal_to_the_oracle_on_every_form(name: str, analysis: Analysis, seed: int) -> None:
    rng = np.random.default_rng([seed, 11])
    documents = random_documents(rng, 80)
    knowledge = Knowledge(analysis, Statistics.of(documents, analysis))
    queries = {number: random_query(rng, 1 + number % 4, nested=False) for number in range(120)}
    engine = engine_named(name, analysis)
    for number, query in queries.items():
        engine.add(number, query)
    assert engine.match(documents, knowledge) == oracle(queries, documents, knowledge)
    assert engine.match(documents[:1], knowledge) == oracle(queries, documents[:1], knowledge)
    assert engine.match([], knowledge) == []


@pytest.mark.row("X2")
@pytest.mark.parametrize("seed", range(5))
def test_adding_and_removing_in_any_order(name: str, seed: int) -> None:
    rng = np.random.default_rng([seed, 12])
    documents = random_documents(rng, 30)
    knowledge = Knowledge(MIXED, Statistics.of(documents, MIXED))
    engine = engine_named(name, MIXED)
    queries: dict[int, Query] = {}
    number = 0
    for _ in range(12):
        for _ in range(rng.integers(0, 12)):
            queries[number] = random_query(rng, 2, nested=False)
            engine.add(number, queries[number])
            number += 1
        for gone in [one for one in queries if rng.random() < 0.2]:
            engine.remove(gone)
            del queries[gone]
        assert engine.match(documents, knowledge) == oracle(queries, documents, knowledge)


def one(name: str, query: str, document: Document) -> bool:
    engine: Engine = engine_named(name, Analysis())
    engine.add(7, parse(query))
    return engine.match([document], Knowledge()) == [[7]]


def test_equal_queries_under_two_numbers_both_match(name: str) -> None:
    engine = engine_named(name, Analysis())
    engine.add(1, parse("peer"))
    engine.add(2, parse("peer"))
    assert engine.match([Document("d", {"t": ("peer",)})], Knowledge()) == [[1, 2]]
    engine.remove(1)
    assert engine.match([Document("d", {"t": ("peer",)})], Knowledge()) == [[2]]


@pytest.mark.row("S12")
def test_a_disjunction_of_which_all_parts_hold_is_told_once(name: str) -> None:
    assert one(name, "a OR b OR c", Document("d", {"t": ("a b c",)}))


@pytest.mark.row("S14")
@pytest.mark.parametrize("query", ["NOT x", "year > 5", "year:[1 TO 9] AND NOT x", "NOT x OR NOT y", "t:*"])
def test_queries_without_a_positive_word_see_every_document(name: str, query: str) -> None:
    assert one(name, query, Document("d", {"t": ("z",), "year": (7,)}))


def test_words_of_any_script(name: str) -> None:
    document = Document("d", {"t": ("Straße ﬁlter ΣΊΣΥΦΟΣ 日本語 naïve e\u0301tude",)})
    for query in ["strasse", "FILTER", "σίσυφοσ", "日本語", "NAÏVE", "étude", "straße filter"]:
        assert one(name, query, document), query


def test_special_fields_are_found_only_when_named(name: str) -> None:
    document = Document("Doc-1", {"t": ("x",)}, source="Nordic Press", time="2020-01-01T00:00:00Z")
    assert one(name, "id:doc-1", document)
    assert one(name, 'source:"nordic press"', document)
    assert one(name, "time >= 2020-01-01", document)
    assert not one(name, "nordic", document)


def test_a_long_conjunction_and_a_long_disjunction(name: str) -> None:
    words = [f"w{number}" for number in range(300)]
    document = Document("d", {"t": (" ".join(words),)})
    assert one(name, " ".join(words), document)
    assert not one(name, " ".join([*words, "absent"]), document)
    assert one(name, " OR ".join([f"absent{number}" for number in range(300)] + ["w299"]), document)


def test_a_word_of_many_kilobytes(name: str) -> None:
    long = "x" * 5000
    assert one(name, long, Document("d", {"t": (f"a {long} b",)}))
    assert not one(name, long, Document("d", {"t": (f"a {long}x b",)}))
