"""Stages: what Spark finds is what the oracle says."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from tocsin import Analysis, Document, Knowledge, QueryError, Statistics, holds, parse, score, show
from tocsin.intake import document_to_json
from tocsin.match.registry import Registry
from tocsin.pipeline import stages
from tocsin.pipeline.schema import MATCHES, RAW
from tocsin.pipeline.stages import TRIED, SnapshotRef
from tocsin.pipeline.statistics import open_statistics, update_statistics
from tocsin.query import Query
from tocsin.settings import DocumentLimits
from tocsin.sim.workload import random_documents, random_query

MIXED = Analysis({"title": "english", "author": "keyword"})


def raw(spark: SparkSession, documents: list[Document]):
    rows = [("test", at, document_to_json(document).encode()) for at, document in enumerate(documents)]
    return spark.createDataFrame(rows, RAW)


@pytest.mark.parametrize("seed", range(2))
def test_random_documents_match_and_score_as_the_oracle_says(spark, tmp_path, seed) -> None:
    rng = np.random.default_rng([seed, 4])
    documents = random_documents(rng, 150)
    registry, queries = Registry(MIXED), dict[str, Query]()
    while len(queries) < 200:
        query = random_query(rng, 2, nested=False)
        try:
            registry.add(f"s{len(queries)}", show(query))
        except QueryError:
            continue
        queries[f"s{len(queries)}"] = parse(show(query), MIXED)
    snapshot = SnapshotRef(str(tmp_path / "index"), registry.save(tmp_path / "index"))
    parsed = stages.parse(raw(spark, documents))
    assert stages.rejected(parsed).count() == 0
    accepted = stages.accepted(parsed)
    ref = update_statistics(accepted, tmp_path / "statistics", MIXED)
    statistics = Statistics.of(documents, MIXED)
    assert dict(open_statistics(ref).frequency) == dict(statistics.frequency)
    found = [row for row in stages.find_matches(accepted, snapshot, ref).collect() if row.position != TRIED]
    knowledge = Knowledge(MIXED, statistics)
    expected = {
        (position, document.id, document.version, id, score(query, document, MIXED, statistics))
        for position, document in enumerate(documents)
        for id, query in queries.items()
        if holds(query, document, knowledge)
    }
    assert {tuple(row)[:5] for row in found} == expected
    assert len(found) == len(expected) > 100


def lines(spark: SparkSession, *texts: bytes):
    return spark.createDataFrame([("f", at, bytearray(text)) for at, text in enumerate(texts)], RAW)


def saved(folder, *subscriptions: tuple[str, str | None, str | None]) -> SnapshotRef:
    registry = Registry()
    for id, query, xpath in subscriptions:
        registry.add(id, query, xpath)
    return SnapshotRef(str(folder), registry.save(folder))


def test_what_is_no_document_is_told_with_its_reason_and_the_rest_goes_on(spark) -> None:
    large = DocumentLimits(document_bytes_max=100)
    bad = [
        b"{",
        b"\xff\xfe",
        b'{"id": 7}',
        b'{"id": "x", "xml": "<a>"}',
        b'{"id": "y", "t": "' + b"a" * 100 + b'"}',
        b"",
    ]
    parsed = stages.parse(lines(spark, b'{"id": "a"}', *bad, b'\xef\xbb\xbf{"id": "b", "version": 3}'), large)
    assert [tuple(row) for row in stages.accepted(parsed).collect()] == [
        (0, "a", 1, '{"id": "a"}'),
        (7, "b", 3, '{"id": "b", "version": 3}'),
    ]
    refused = stages.rejected(parsed).collect()
    assert [(row.file, row.position) for row in refused] == [("f", at) for at in range(1, 7)]
    for row, reason in zip(
        refused, ["invalid JSON", "invalid UTF-8", "number", "XML", "more than 100 bytes", "empty"], strict=True
    ):
        assert reason.lower() in row.reason.lower()
    assert refused[0].excerpt == "{"


def test_paths_and_evidence(spark, tmp_path) -> None:
    snapshot = saved(tmp_path, ("words", "peer", None), ("path", None, "//b[@c = 1]"), ("both", "peer", "/a/b"))
    xml = [b"\"<a><b c='1'/></a>\"", b'"<a><b/></a>"', b"null"]
    texts = [b'{"id": "d%d", "t": "the peer", "xml": %s}' % (at, one) for at, one in enumerate(xml)]
    documents = stages.accepted(stages.parse(lines(spark, *texts)))
    matches = stages.find_matches(documents, snapshot, evidence=True).where("position >= 0")
    found = matches.orderBy("position", "subscription").collect()
    assert [(row.document, row.subscription, row.score) for row in found] == [
        ("d0", "both", 0.0),
        ("d0", "path", 1.0),
        ("d0", "words", 0.0),
        ("d1", "both", 0.0),
        ("d1", "words", 0.0),
        ("d2", "words", 0.0),
    ]
    told = {(row.document, row.subscription): json.loads(row.evidence) for row in found}
    assert told["d0", "words"]["atoms"][0]["positions"] == [1]
    assert told["d0", "path"]["xpath"]["path"] == "/a/b"
    assert set(told["d1", "both"]) == {"clause", "atoms", "score", "xpath"}


def test_a_worker_opens_each_version_that_it_is_told_and_keeps_it_open(spark, tmp_path) -> None:
    """Workers live from batch to batch: a version named later is found, one named again is not opened again."""
    registry, documents = Registry(), stages.accepted(stages.parse(lines(spark, b'{"id": "d", "t": "peer"}')))
    for turn in range(1, 5):
        registry.add(f"s{turn}", "peer")
        registry.save(tmp_path, keep=3)
        assert stages.find_matches(documents, SnapshotRef(str(tmp_path), turn)).count() == turn
    assert stages.find_matches(documents, SnapshotRef(str(tmp_path), 2)).count() == 2
    with pytest.raises(PythonException, match="no version 9"):
        stages.find_matches(documents, SnapshotRef(str(tmp_path), 9)).count()

    def opened_twice(batches):
        for _ in batches:
            ref = SnapshotRef(str(tmp_path), 4)
            same = stages.open_scorer(ref, None) is stages.open_scorer(SnapshotRef(str(tmp_path), 4), None)
            yield pa.RecordBatch.from_pydict({"same": [same], "hits": [stages.open_scorer.cache_info().hits]})

    for row in spark.range(0, 2, 1, 2).mapInArrow(opened_twice, "same boolean, hits long").collect():
        assert row.same
        assert row.hits > 0


def test_repeats_are_told_once(spark) -> None:
    rows = [
        (7, "d", 1, "s", 0.5, None),
        (3, "d", 1, "s", 0.5, None),
        (4, "d", 2, "s", 0.5, None),
        (5, "d", 1, "t", 0.1, "{}"),
    ]
    once = stages.deduplicate(spark.createDataFrame(rows, MATCHES)).orderBy("position").collect()
    assert [(row.position, row.version, row.subscription) for row in once] == [(3, 1, "s"), (4, 2, "s"), (5, 1, "t")]
