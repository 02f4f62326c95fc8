"""However queries and documents meet on Spark, what is found is what the oracle finds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from tocsin import Analysis, Document, Knowledge, QueryError, Statistics, Subscription, holds, parse, score, show
from tocsin.errors import SnapshotError
from tocsin.intake import document_to_json
from tocsin.markup import read_markup
from tocsin.match.lines import Lines
from tocsin.match.registry import Registry
from tocsin.match.rendezvous.batch import BatchFacts, Strategy, plan_meeting
from tocsin.match.rendezvous.routing import Router, deal_by_word
from tocsin.match.written import Entry
from tocsin.pipeline import meeting
from tocsin.pipeline.meeting import PartsRef, Planner, Prepared, meet, open_parts, save_parts
from tocsin.pipeline.schema import DOCUMENTS
from tocsin.pipeline.stages import SnapshotRef
from tocsin.pipeline.statistics import update_statistics
from tocsin.query.xpath.semantics import holds_xpath
from tocsin.sim.workload import TREC, documents, query_ranks, random_documents, random_query

MIXED = Analysis({"title": "english", "author": "keyword"})
PATHS = {"p1": "//paper[@year > 2003]", "p2": "/paper/title"}


def table(spark: SparkSession, found: list[Document]) -> DataFrame:
    rows = [(at, each.id, each.version, document_to_json(each)) for at, each in enumerate(found)]
    return spark.createDataFrame(rows, DOCUMENTS)


def random_entries(rng: np.random.Generator, count: int, analysis: Analysis) -> list[tuple[str, Entry]]:
    """Queries of every kind that can be written under the analysis, some with a path, some a path alone."""
    found: list[tuple[str, Entry]] = []
    while len(found) < count:
        text = show(random_query(rng, 1 + len(found) % 3, nested=False))
        try:
            parse(text, analysis)
        except QueryError:
            continue
        xpath = PATHS["p1"] if len(found) % 40 == 7 else None
        found.append((f"s{len(found)}", Entry(text, xpath)))
    return [*found, *((id, Entry(None, xpath)) for id, xpath in PATHS.items())]


def with_markup(found: list[Document]) -> list[Document]:
    markup = [None, "<paper year='2004'><title>x</title></paper>", "<paper year='2001'/>"]
    return [replace(each, id=f"d{at}", xml=markup[at % 3]) for at, each in enumerate(found)]


def prepare(folder: Path, entries: list[tuple[str, Entry]], analysis: Analysis, parts: int = 3) -> Prepared:
    registry = Registry(analysis)
    assert not registry.add_many(entries)
    subscriptions = tuple(registry.subscription(registry.ids.find(id)) for id, _ in entries)
    return Prepared(
        SnapshotRef(str(folder / "whole"), registry.save(folder / "whole")),
        save_parts(folder / "by-id", entries, Strategy.BY_ID, parts, analysis=analysis),
        save_parts(folder / "by-word", entries, Strategy.BY_WORD, parts, analysis=analysis),
        subscriptions,
        analysis,
    )


def expected(subscriptions: tuple[Subscription, ...], found: list[Document], analysis: Analysis) -> set[tuple]:
    statistics = Statistics.of(found, analysis)
    knowledge = Knowledge(analysis, statistics)
    return {
        (at, document.id, each.id, 1.0 if each.query is None else score(each.query, document, analysis, statistics))
        for at, document in enumerate(found)
        for each in subscriptions
        if (each.query is None or holds(each.query, document, knowledge))
        and (each.path is None or (document.xml is not None and holds_xpath(each.path, read_markup(document.xml))))
    }


@pytest.mark.parametrize("analysis", [Analysis(), MIXED], ids=["standard", "mixed"])
def test_every_strategy_finds_what_the_oracle_finds(spark, tmp_path, analysis) -> None:
    rng = np.random.default_rng(11)
    found = with_markup(random_documents(rng, 60))
    prepared = prepare(tmp_path, random_entries(rng, 120, analysis), analysis)
    batch = table(spark, found)
    statistics = update_statistics(batch, tmp_path / "statistics", analysis)
    assert prepared.table is not None
    oracle = expected(prepared.table, found, analysis)
    assert len(oracle) > 200
    for strategy in Strategy:
        rows = meet(batch, prepared, strategy, statistics).where("position >= 0").collect()
        assert len(rows) == len(oracle), strategy
        assert {(row.position, row.document, row.subscription, row.score) for row in rows} == oracle, strategy


def test_evidence_is_the_same_however_they_meet(spark, tmp_path) -> None:
    entries = [("a", Entry("peer network")), ("b", Entry('"peer network" OR grid'))]
    prepared = prepare(tmp_path, entries, Analysis())
    batch = table(spark, [Document("d", {"t": ("peer network of grid nodes",)})])
    told = {}
    for strategy in Strategy:
        rows = meet(batch, prepared, strategy, evidence=True).where("position >= 0").collect()
        told[strategy] = {(row.subscription, row.evidence) for row in rows}
    assert len(told[Strategy.MIRROR]) == 2
    assert all(found == told[Strategy.MIRROR] for found in told.values())
    assert all(json.loads(evidence) for _, evidence in told[Strategy.MIRROR])


def zipf_entries(count: int) -> tuple[list[tuple[str, Entry]], list[Document]]:
    settings = replace(TREC, queries=count, documents=80, document_unique_words=60, document_words=80)
    return [(f"q{n}", Entry(text)) for n, text in enumerate(query_ranks(settings, 3).texts())], list(
        documents(settings, 3)
    )


def test_by_word_a_document_visits_only_parts_that_may_concern_it(spark, tmp_path) -> None:
    entries, found = zipf_entries(400)
    seen = Statistics.of(found, Analysis()).frequency
    ref = save_parts(tmp_path, entries, Strategy.BY_WORD, 16, frequency=lambda key: seen.get(key.word, 0))
    routed = meeting.route(table(spark, found), ref).select("parts").collect()
    visits = [bin(row.parts).count("1") for row in routed]
    assert 0 < np.mean(visits) < 14
    parts = open_parts(ref)
    assert sum(parts.queries) == 400
    assert max(parts.queries) <= 2 * 400 / 16, "parts are about equally large"
    rows = meeting.find_matches_in_parts(table(spark, found), ref).collect()
    oracle = {
        (document.id, id)
        for document in found
        for id, entry in entries
        if holds(parse(str(entry.query)), document, Knowledge())
    }
    assert {(row.document, row.subscription) for row in rows} == oracle


def test_parts_are_smaller_than_the_whole(tmp_path) -> None:
    """Partitioned indexes let the query set outgrow one worker's memory."""
    entries, _ = zipf_entries(8_000)
    prepared = prepare(tmp_path, entries, Analysis(), parts=8)
    assert prepared.snapshot is not None

    def mapped(folder: Path) -> int:
        return sum(path.stat().st_size for path in folder.iterdir())

    whole = mapped(tmp_path / "whole")
    for kind in ("by-id", "by-word"):
        parts = [mapped(part) for part in (tmp_path / kind).glob("part-*")]
        assert len(parts) == 8
        assert max(parts) < whole / 3


# --- routing without Spark -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("analysis", [Analysis(), MIXED], ids=["standard", "mixed"])
def test_a_document_visits_the_part_of_every_query_it_matches(analysis) -> None:
    rng = np.random.default_rng(5)
    found = random_documents(rng, 80)
    entries = random_entries(rng, 300, analysis)
    queries = {id: parse(entry.query, analysis) for id, entry in entries if entry.query is not None}
    deal = deal_by_word((entry.query for _, entry in entries), 7, analysis, lambda key: len(key.word))
    router = Router.of(deal, analysis)
    masks = router.route(found)
    lines = Lines.of([document_to_json(document).encode() for document in found])
    assert ((router.route_lines(lines) & masks) == masks).all()
    knowledge = Knowledge(analysis, Statistics.of(found, analysis))
    pairs = 0
    for (id, _), part in zip(entries, deal.parts, strict=True):
        for document, mask in zip(found, masks.tolist(), strict=True):
            if id in queries and holds(queries[id], document, knowledge):
                pairs += 1
                assert mask >> part & 1
    assert pairs > 300


def test_a_line_is_routed_as_its_document_is() -> None:
    """The quick way looks at bytes: escapes, marks and letters beyond ASCII go the slow way."""
    texts = ["Peer NETWORK", "caf\u00e9", "a\\u0062c", 'quoted "grid"', "new\nline", "Straße", "ﬁlter", ""]
    found = [Document(f"d{at}", {"t": (text,)}) for at, text in enumerate(texts)]
    asked = ["peer", "network", "café", "abc", "u0062c", "grid", "line", "strasse", "filter", "zebra"]
    deal = deal_by_word(asked, 10, Analysis(), lambda key: 0)
    router = Router.of(deal, Analysis())
    assert router.plain
    lines = Lines.of([document_to_json(document).encode() for document in found])
    assert router.route_lines(lines).tolist() == router.route(found).tolist()
    escaped = Lines.of([b'{"id": "x", "t": "\\u0067rid"}'])
    assert router.route_lines(escaped).tolist() == [1 << deal.parts[asked.index("grid")]]


def test_queries_of_one_anchor_live_together() -> None:
    deal = deal_by_word(["a b", "a c", "d", "NOT a", "a OR d"], 2, Analysis(), lambda key: ord(key.word))
    assert deal.parts[0] == deal.parts[1] == deal.parts[4]
    assert deal.everywhere == deal.parts[3] == 2
    assert {b"a", b"d"} <= set(deal.words[deal.parts[4]])


# --- planning --------------------------------------------------------------------------------------------------------

FACTS = BatchFacts(
    queries=1_000_000, index_bytes=100_000_000, memory_bytes=10**9, documents=50_000, document_bytes=2_000, words=300,
    cores=2, visited_share=0.5, candidates=5_000,
)  # fmt: skip


def test_what_fits_is_mirrored_and_what_does_not_is_split() -> None:
    assert plan_meeting(FACTS).strategy is Strategy.MIRROR
    tight = plan_meeting(replace(FACTS, memory_bytes=10_000_000))
    assert tight.strategy is not Strategy.MIRROR
    assert tight.parts == 10
    assert "a worker may map 10.0 MB" in tight.refused[Strategy.MIRROR]


def test_filters_pay_when_documents_visit_few_parts() -> None:
    tight = replace(FACTS, memory_bytes=10_000_000)
    assert plan_meeting(replace(tight, visited_share=0.2)).strategy is Strategy.BY_WORD
    assert plan_meeting(replace(tight, visited_share=1.0)).strategy is Strategy.BY_ID


def test_the_plan_says_why() -> None:
    planner = Planner(1_000_000, 100_000_000, 10_000_000, 2)
    assert planner.explain() == "no batch was planned yet"
    planner.choose(50_000, 2_000, 300)
    told = planner.explain()
    assert "by-id: 50,000 documents of 300 words meet 1,000,000 queries" in told
    assert "mirror: not possible: the index takes 100.0 MB" in told
    assert "(chosen)" in told
    for _ in range(20):
        planner.learn(visits=60_000, documents=50_000, parts=10)
    assert planner.choose(50_000, 2_000, 300).strategy is Strategy.BY_WORD
    assert "a document in 1.2 of 10 parts" in planner.explain()


# --- what cannot be done ---------------------------------------------------------------------------------------------


def test_what_was_not_prepared_is_named(spark) -> None:
    with pytest.raises(ValueError, match="by-word was not prepared"):
        meet(table(spark, []), Prepared(), Strategy.BY_WORD)


def test_parts_that_are_missing_or_of_another_kind_are_refused(tmp_path) -> None:
    with pytest.raises(SnapshotError, match="cannot be read"):
        open_parts(PartsRef(str(tmp_path), 1))
    with pytest.raises(ValueError, match="mirror has no parts"):
        save_parts(tmp_path, [], Strategy.MIRROR, 2)
    with pytest.raises(QueryError):
        save_parts(tmp_path, [("bad", Entry("a AND"))], Strategy.BY_ID, 2)


def test_old_versions_of_parts_are_removed(tmp_path) -> None:
    for turn in range(1, 6):
        ref = save_parts(tmp_path, [(f"q{n}", Entry(f"word{n}")) for n in range(turn)], Strategy.BY_ID, 2)
        assert open_parts(ref).queries == ((turn + 1) // 2, turn // 2)
    assert sorted(path.name for path in tmp_path.glob("*.tocsin")) == [f"parts-{n:010}.tocsin" for n in (3, 4, 5)]
