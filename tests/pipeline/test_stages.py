"""Stages: what Spark finds is what the oracle says."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tocsin import Analysis, Document, Knowledge, QueryError, Statistics, holds, parse, score, show
from tocsin.intake import document_to_json
from tocsin.match.registry import Registry
from tocsin.pipeline import stages
from tocsin.pipeline.schema import RAW
from tocsin.pipeline.stages import SnapshotRef
from tocsin.pipeline.statistics import open_statistics, update_statistics
from tocsin.sim.workload import random_documents, random_query

MIXED = Analysis({"title": "english", "author": "keyword"})


def raw(spark: SparkSession, documents: list[Document]):
    rows = [("test", at, document_to_json(document).encode()) for at, document in enumerate(documents)]
    return spark.createDataFrame(rows, RAW)


@pytest.mark.parametrize("seed", range(2))
def test_random_documents_match_and_score_as_the_oracle_says(spark, tmp_path, seed) -> None:
    rng = np.random.default_rng([seed, 4])
    documents = random_documents(rng, 150)
    registry, queries = Registry(MIXED), {}
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
    found = stages.find_matches(accepted, snapshot, ref).collect()
    knowledge = Knowledge(MIXED, statistics)
    expected = {
        (position, document.id, document.version, id, score(query, document, MIXED, statistics))
        for position, document in enumerate(documents)
        for id, query in queries.items()
        if holds(query, document, knowledge)
    }
    assert {tuple(row)[:5] for row in found} == expected
    assert len(found) == len(expected) > 100
