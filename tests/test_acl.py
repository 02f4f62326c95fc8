"""The 200 sample subscriptions over the papers of the ACL Anthology: `tocsin match` finds what the oracle finds.

The expectation knows nothing of engines and matchers. It asks `holds` of every pair; for nested subscriptions it asks
again, after each paper, about every paper so far. The papers lie outside the project: see CONTRIBUTING.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tocsin import Analysis, Document, Knowledge, Statistics, holds, parse_subscription, score
from tocsin.cli import main
from tocsin.intake import document_from_json
from tocsin.match.engines import ENGINES
from tocsin.query import Query
from tocsin.query.ast import nested

ROOT = Path(__file__).resolve().parent.parent
LINES = (ROOT / "examples" / "acl_subscriptions.jsonl").read_text(encoding="utf-8").splitlines()
QUERIES: dict[str, Query] = {entry["id"]: parse_subscription(entry["query"]) for entry in map(json.loads, LINES)}
NESTED = {id: query for id, query in QUERIES.items() if any(nested(query))}
PLAIN = {id: query for id, query in QUERIES.items() if id not in NESTED}

EVERY = 92  # one paper in so many: 401 of all years
# Papers that share authors, venues and years, so that the sets of nested subscriptions fill and grow.
CIRCLES = re.compile(
    r"Çöltekin|[Cc]uneiform|Quantum"
    r'|"title":"[^"]*(Poetry|Haiku|Rhyme|ACL Anthology|Peer Review|Treebank|Tensor|Speech.*Sennrich|Argument.*Gurevych)'
)

Line = dict[str, Any]


@pytest.fixture(scope="module")
def papers(data_dir: Path) -> Path:
    found = data_dir / "scholarly" / "acl_papers.jsonl.gz"
    if not found.is_file():
        pytest.skip(f"the ACL papers are absent: there is no {found}")
    return found


@pytest.fixture(scope="module")
def lines(papers: Path) -> list[str]:
    with gzip.open(papers, "rt", encoding="utf-8") as file:
        return list(file)


@pytest.fixture
def match(tmp_path: Path) -> Callable[..., list[Line]]:
    """The output of `tocsin match` for these subscriptions."""

    def match(queries: dict[str, Query], documents: list[str] | Path, engine: str = "auto") -> list[Line]:
        subscriptions, output = tmp_path / "subscriptions.jsonl", tmp_path / f"{engine}.jsonl"
        subscriptions.write_text("".join(f"{line}\n" for line in LINES if json.loads(line)["id"] in queries))
        if isinstance(documents, list):
            (tmp_path / "papers.jsonl").write_text("".join(documents), encoding="utf-8")
            documents = tmp_path / "papers.jsonl"
        given = ["-s", str(subscriptions), "-d", str(documents), "-o", str(output), "--engine", engine]
        assert main(["match", *given]) == 0
        return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]

    return match


def deliveries(queries: dict[str, Query], documents: list[Document]) -> Iterator[list[Line]]:
    """For each document as it arrives: the matches that are true now and were not told before, by subscription."""
    statistics = Statistics.of(documents, Analysis())
    told: set[tuple[str, str]] = set()
    for number, document in enumerate(documents, 1):
        seen = documents[:number]
        knowledge = Knowledge(Analysis(), statistics, seen)
        new = [
            (id, candidate)
            for id, query in sorted(queries.items())
            for candidate in (seen if id in NESTED else [document])
            if (id, candidate.id) not in told and holds(query, candidate, knowledge)
        ]
        told |= {(id, candidate.id) for id, candidate in new}
        yield [
            {"subscription": id, "document": found.id, "score": score(queries[id], found, Analysis(), statistics)}
            for id, found in new
        ]


def one_time(queries: dict[str, Query], documents: list[Document]) -> list[tuple[str, str, float]]:
    """The answer over all documents at once."""
    statistics = Statistics.of(documents, Analysis())
    knowledge = Knowledge(Analysis(), statistics, documents)
    return sorted(
        (id, document.id, score(query, document, Analysis(), statistics))
        for id, query in queries.items()
        for document in documents
        if holds(query, document, knowledge)
    )


def as_answer(lines: list[Line]) -> list[tuple[str, str, float]]:
    """What was delivered, whenever that was."""
    return sorted((line["subscription"], line["document"], line["score"]) for line in lines)


def test_a_sample_of_the_papers_matches_as_the_oracle_says(lines, match):
    sample = lines[::EVERY]
    steps = deliveries(PLAIN, [document_from_json(line) for line in sample])
    expected = list(chain.from_iterable(steps))
    assert match(PLAIN, sample) == expected
    assert len({line["subscription"] for line in expected}) > 80


@pytest.mark.row("S1")
def test_nested_subscriptions_deliver_each_paper_when_it_first_matches(lines, match):
    """SmartSeer §VI-B: a set that grows brings older papers with it."""
    sample = [line for line in lines if CIRCLES.search(line)]
    documents = [document_from_json(line) for line in sample]
    some = NESTED | dict(list(PLAIN.items())[::20])
    steps = list(deliveries(some, documents))
    expected = list(chain.from_iterable(steps))
    assert match(some, sample) == expected
    assert as_answer(expected) == one_time(some, documents)
    assert len({line["subscription"] for line in expected} & set(NESTED)) > 5
    arrivals = zip(documents, steps, strict=True)
    assert any(line["document"] != document.id for document, lines in arrivals for line in lines)


# --- all of them: minutes --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_engine_finds_in_all_papers_what_brute_force_finds(papers, match):
    expected = match(PLAIN, papers, "brute")
    for engine in ENGINES:
        if engine != "brute":
            assert match(PLAIN, papers, engine) == expected, engine


@pytest.mark.slow
@pytest.mark.row("S1")
def test_nested_subscriptions_end_with_the_one_time_answer(papers, lines, match):
    answer = one_time(NESTED, [document_from_json(line) for line in lines])
    assert as_answer(match(NESTED, papers)) == answer


@pytest.mark.slow
def test_the_page_tells_what_the_subscriptions_find(papers, match):
    told = re.findall(r"^`(\S+)` found ([\d,]+)", (ROOT / "docs" / "acl.md").read_text(encoding="utf-8"), re.MULTILINE)
    shown = {id: int(number.replace(",", "")) for id, number in told}
    assert len(shown) == 10
    found = match({id: QUERIES[id] for id in shown}, papers)
    assert Counter(line["subscription"] for line in found) == shown
