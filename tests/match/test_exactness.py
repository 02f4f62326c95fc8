"""Volume: the index and the oracle on a million random pairs over every operator, and on real corpora."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tocsin import Analysis, Document, Knowledge, Statistics, holds
from tocsin.intake import document_from_object
from tocsin.match.brute import Brute
from tocsin.match.engine import Engine
from tocsin.match.index import IndexEngine
from tocsin.query import Query, parse_subscription
from tocsin.query.score import similarity
from tocsin.sim.workload import random_documents, random_query
from tocsin.text import words

MIXED = Analysis({"title": "english", "author": "keyword"})


def check_pairs(seed: int, queries: int, documents: int) -> int:
    """Compares every pair; returns how many matched."""
    rng = np.random.default_rng([seed, 99])
    analysis = MIXED if seed % 2 else Analysis()
    found = random_documents(rng, documents)
    knowledge = Knowledge(analysis, Statistics.of(found, analysis))
    asked = {number: random_query(rng, 1 + number % 4, nested=False) for number in range(queries)}
    engine = IndexEngine(analysis)
    for number, query in asked.items():
        engine.add(number, query)
    matched = engine.match(found, knowledge)
    for document, numbers in zip(found, matched, strict=True):
        assert numbers == [number for number, query in asked.items() if holds(query, document, knowledge)]
    return sum(map(len, matched))


def test_twenty_thousand_random_pairs_equal_the_oracle() -> None:
    assert sum(check_pairs(seed, 100, 50) for seed in range(4)) > 1_000


@pytest.mark.slow
def test_a_million_random_pairs_equal_the_oracle() -> None:
    assert sum(check_pairs(1_000 + seed, 500, 100) for seed in range(20)) > 50_000


def papers(path: Path, names: tuple[str, ...], most: int) -> Iterator[Document]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number >= most:
                return
            found = json.loads(line)
            yield document_from_object({"id": f"{number}"} | {name: found[name] for name in names if found.get(name)})


def keyword_queries(data_dir: Path, count: int) -> list[str]:
    """Author-given keywords as phrases and conjunctions."""
    with gzip.open(data_dir / "terms" / "elife_keywords.tsv.gz", "rt", encoding="utf-8") as lines:
        terms = [line.split("\t")[0] for line in lines]
    usable = [term for term in terms if words(term) and '"' not in term and "\\" not in term]
    step = max(1, len(usable) // count)
    return [f'"{term}"' if number % 2 else " ".join(words(term)) for number, term in enumerate(usable[::step])]


def generated_queries(documents: list[Document], count: int, seed: int) -> list[str]:
    """Words, phrases, distances, prefixes and negations drawn from the documents themselves."""
    rng = np.random.default_rng(seed)
    forms = ["{a} {b}", '"{p} {q}"', "{p} NEAR/4 {r}", "title:{a} AND NOT {b}", "{a} OR {b} {c}", "{a}* {b}"]
    forms += ['abstract ~ "{a} {b} {c} {p} {q} {r}" >= 0.2', '{a} AND NOT abstract ~ "{p} {q} {r}" >= 0.1']
    queries = []
    for number in range(count):
        document = documents[int(rng.integers(len(documents)))]
        text = [word for word in words(str(document.fields["abstract"][0])) if word.isascii() and len(word) > 3]
        if len(text) < 8:
            continue
        at = int(rng.integers(len(text) - 4))
        a, b, c = (text[int(rng.integers(len(text)))] for _ in range(3))
        parts = {"a": a, "b": b, "c": c, "p": text[at], "q": text[at + 1], "r": text[at + 3]}
        queries.append(forms[number % len(forms)].format(**parts))
    return queries


def compare(documents: list[Document], texts: list[str]) -> int:
    analysis = Analysis({"abstract": "english"})
    knowledge = Knowledge(analysis, Statistics.of(documents, analysis))
    engines: list[Engine] = [IndexEngine(analysis), Brute()]
    queries: list[Query] = [parse_subscription(text, analysis) for text in texts]
    for engine in engines:
        for number, query in enumerate(queries):
            engine.add(number, query)
    fast, slow = (engine.match(documents, knowledge) for engine in engines)
    assert fast == slow
    return sum(map(len, fast))


CORPORA = [
    ("acl_papers.jsonl.gz", ("title", "abstract", "authors", "year")),
    ("elife_papers.jsonl.gz", ("title", "abstract", "authors")),
]


@pytest.mark.parametrize(("name", "fields"), CORPORA, ids=["acl", "elife"])
def test_a_sample_of_real_papers_equals_brute(data_dir: Path, name: str, fields: tuple[str, ...]) -> None:
    documents = list(papers(data_dir / "scholarly" / name, fields, 60))
    assert compare(documents, keyword_queries(data_dir, 60) + generated_queries(documents, 120, 3)) > 100


@pytest.mark.parametrize(("name", "fields"), CORPORA, ids=["acl", "elife"])
def test_thresholds_are_decided_exactly_on_real_papers(data_dir: Path, name: str, fields: tuple[str, ...]) -> None:
    """Titles are compared with abstracts, with thresholds that are some paper's cosine, and a digit above and below."""
    documents = list(papers(data_dir / "scholarly" / name, fields, 60))
    analysis = Analysis({"abstract": "english"})
    statistics = Statistics.of(documents, analysis)
    rng = np.random.default_rng(5)
    queries, reached = [], 0
    for document in documents:
        title = str(document.fields["title"][0]).replace("\\", " ").replace('"', " ")
        for other in (document, documents[int(rng.integers(len(documents)))]):
            score = similarity("abstract", title, other, analysis, statistics)
            reached += score > 0
            for threshold in {score, min(1.0, score + 1e-12), max(0.0, score - 1e-12)}:
                queries.append(f'abstract ~ "{title}" >= {threshold:.12f}')
    assert reached > 60
    assert compare(documents, queries) > len(queries) / 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fields"), CORPORA, ids=["acl", "elife"])
def test_real_papers_equal_brute(data_dir: Path, name: str, fields: tuple[str, ...]) -> None:
    documents = list(papers(data_dir / "scholarly" / name, fields, 3_000))
    assert compare(documents, keyword_queries(data_dir, 400) + generated_queries(documents, 600, 4)) > 1_000
