"""What a query would have brought: the stream's own stages over the stored history.

The preview of a query over all of the log equals what a subscription made before the first document was told,
documents whose content was deleted since left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

from tocsin.match.explain import why
from tocsin.match.registry import Registry
from tocsin.pipeline.inbox import ALWAYS, Period, history
from tocsin.pipeline.stages import FAILED, SnapshotRef, find_matches
from tocsin.pipeline.statistics import StatisticsRef, open_statistics
from tocsin.query.score import Statistics
from tocsin.query.semantics import Knowledge
from tocsin.store import Store, documents
from tocsin.store.subscriptions import Asked
from tocsin.text import Analysis

SAMPLE = 10  # of the newest matches


@dataclass(frozen=True, slots=True)
class Sighting:
    """A match of the preview."""

    document: str
    version: int
    moment: float
    score: float
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Preview:
    """How many documents would have matched, on which days, and the newest of them."""

    total: int
    per_day: list[tuple[str, int]]
    sample: list[Sighting]
    documents: list[tuple[str, int]]
    """All that matched, (id, version) in the order of the log."""


def preview(
    spark: SparkSession,
    store: Store,
    asked: Asked,
    *,
    period: Period = ALWAYS,
    analysis: Analysis | None = None,
    statistics: StatisticsRef | None = None,
) -> Preview:
    """Matches the history against one query; QueryError if the query is refused."""
    registry = Registry(analysis or Analysis())
    registry.add("preview", asked.query, asked.xpath, asked.namespaces)
    with TemporaryDirectory(prefix="tocsin-preview-") as folder:
        version = registry.save(Path(folder))
        past = history(spark, store, 0, documents.last_position(store), period=period)
        found = find_matches(past, SnapshotRef(folder, version), statistics)
        told = found.where(found.position > FAILED).select("position", "document", "version", "score")
        rows = told.orderBy("position").toArrow()
    positions, ids, versions, scores = (rows.column(name).to_pylist() for name in rows.column_names)
    moments = documents.moments(store, positions)
    days = Counter(datetime.fromtimestamp(moments[at], UTC).date().isoformat() for at in positions)
    newest = sorted(range(len(positions)), key=lambda n: (moments[positions[n]], positions[n]))[: -SAMPLE - 1 : -1]
    contents = documents.at_positions(store, [positions[n] for n in newest])
    weights = Statistics() if statistics is None else open_statistics(statistics)
    knowledge = Knowledge(registry.analysis, weights)
    subscription = registry.subscription(0)
    sample = [
        Sighting(ids[n], versions[n], moments[at], scores[n], why(subscription, contents[at].document(), knowledge))
        for n in newest
        if (at := positions[n]) in contents
    ]
    return Preview(len(positions), sorted(days.items()), sample, list(zip(ids, versions, strict=True)))
