"""Statistics: counted in parallel and in steps, they are what counting one by one gives."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from tocsin import Analysis, Document, Statistics
from tocsin.errors import SnapshotError
from tocsin.intake import document_to_json
from tocsin.pipeline.schema import DOCUMENTS
from tocsin.pipeline.statistics import (
    Collected,
    StatisticsRef,
    Tally,
    open_statistics,
    statistics_versions,
    update_statistics,
)
from tocsin.sim.workload import random_documents

MIXED = Analysis({"title": "english", "author": "keyword"})
FOLDED = "Größe STRASSE straße ﬁne e\u0301 é １２ 12 ½"
ODD = [
    Document("o1", {"title": ("The the THE of", "Running runs"), "body": (FOLDED, "a-b_c's")}),
    Document("o2", {"body": ("", "  ", "...", "x" * 70_000), "author": ("", "A  b ", "a b"), "year": (7,)}),
    Document("o3", {"title": ("peer",), "body": ("peer peer", "peer")}, source="s"),
]


def counted(documents: list[Document], analysis: Analysis) -> Collected:
    tally = Tally(analysis)
    for document in documents:
        tally.add(document)
    return Collected(analysis).plus(pa.Table.from_batches([tally.batch()]))


def rows(spark, documents: list[Document]):
    found = [(at, one.id, one.version, document_to_json(one)) for at, one in enumerate(documents)]
    return spark.createDataFrame(found, DOCUMENTS)


@pytest.mark.parametrize("analysis", [Analysis(), MIXED])
@pytest.mark.parametrize("seed", range(5))
def test_a_tally_counts_as_the_definition_does(seed, analysis, monkeypatch) -> None:
    documents = [*random_documents(np.random.default_rng([seed, 31]), 200), *ODD]
    monkeypatch.setattr("tocsin.pipeline.statistics.TEXT_BYTES", 500)
    found, expected = counted(documents, analysis), Statistics.of(documents, analysis)
    assert dict(found.words) == dict(expected.frequency)
    assert found.documents == expected.documents


def test_step_by_step_with_replacements_equals_counting_anew(spark, tmp_path) -> None:
    rng = np.random.default_rng(9)
    first, second = random_documents(rng, 150), random_documents(rng, 80)
    gone = first[::3]
    update_statistics(rows(spark, first), tmp_path, MIXED)
    ref = update_statistics(rows(spark, second), tmp_path, MIXED, without=rows(spark, gone))
    left = [one for at, one in enumerate(first) if at % 3] + second
    found, expected = open_statistics(ref), Statistics.of(left, MIXED)
    assert (found.documents, found.version, statistics_versions(tmp_path)) == (len(left), 2, [1, 2])
    assert dict(found.frequency) == dict(expected.frequency)
    assert all(found.weight(word, 3) == expected.weight(word, 3) for word in [*expected.frequency, "never", ""])
    sources = Collected.open(ref).sources
    assert dict(sources) == {
        name: count
        for name in {one.source for one in left if one.source is not None}
        if (count := sum(one.source == name for one in left))
    }
    with pytest.raises(SnapshotError, match="another analysis"):
        update_statistics(rows(spark, second), tmp_path, Analysis())


def test_a_version_of_many_words_opens_without_being_read(tmp_path) -> None:
    documents = [Document(f"d{n}", {"t": (" ".join(f"w{n * 100 + k}" for k in range(100)),)}) for n in range(2_000)]
    ref = counted(documents, Analysis()).save(tmp_path)
    start = time.perf_counter()
    found = open_statistics(ref)
    print(f"{len(found.frequency):,} words opened in {1e3 * (time.perf_counter() - start):.1f} ms")
    assert (found.frequency["w7"], found.frequency.get("absent", 0), len(found.frequency)) == (1, 0, 200_000)
    assert "absent" not in found.frequency
    with pytest.raises(SnapshotError, match="cannot be read"):
        open_statistics(StatisticsRef(str(tmp_path), 7))
