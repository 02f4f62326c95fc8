"""What a query would have brought: the stream's own stages over the stored history.

The preview of a query over all of the log equals what a subscription made before the first document was told,
documents whose content was deleted since left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

from tocsin.markup import read_accepted
from tocsin.match.explain import why
from tocsin.match.registry import Registry
from tocsin.model import Subscription
from tocsin.pipeline.inbox import ALWAYS, Period, history
from tocsin.pipeline.nested import is_nested
from tocsin.pipeline.stages import FAILED, SnapshotRef, find_matches
from tocsin.pipeline.statistics import StatisticsRef, open_statistics
from tocsin.query.parse import parse
from tocsin.query.score import Statistics
from tocsin.query.semantics import Knowledge
from tocsin.query.vector import attached, from_text
from tocsin.query.xpath import parse_xpath
from tocsin.query.xpath.ast import Path as XPath
from tocsin.query.xpath.semantics import holds_xpath
from tocsin.store import Store, documents
from tocsin.store.search import Hit, Library
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
    if is_nested(asked, analysis or Analysis()):
        return _preview_nested(store, asked, period, analysis or Analysis(), statistics)
    registry = Registry(analysis or Analysis())
    registry.add("preview", asked.query, asked.xpath, asked.namespaces, asked.moved)
    with TemporaryDirectory(prefix="tocsin-preview-") as folder:
        version = registry.save(Path(folder))
        past = history(spark, store, 0, documents.last_position(store), period=period)
        found = find_matches(past, SnapshotRef(folder, version), statistics)
        told = found.where(found.position > FAILED).select("position", "document", "version", "score")
        rows = told.orderBy("position").toArrow()
    columns = [rows.column(name).to_pylist() for name in rows.column_names]
    subscription = registry.subscription(0)
    return _summary(
        store,
        [Hit(id, version, value, at) for at, id, version, value in zip(*columns, strict=True)],
        subscription,
        Knowledge(registry.analysis, _weights(statistics)),
    )


def _preview_nested(
    store: Store, asked: Asked, period: Period, analysis: Analysis, statistics: StatisticsRef | None
) -> Preview:
    """Older documents may qualify through later ones, so what would have been told is the answer of today."""
    query = attached(parse(asked.query or "", analysis), from_text(asked.moved))
    path = None if asked.xpath is None else parse_xpath(asked.xpath, asked.namespaces)
    with TemporaryDirectory(prefix="tocsin-preview-") as folder:
        answer = Library(folder, analysis).search(store, query, _weights(statistics), None)
    since, until = period
    moments = documents.moments(store, [hit.position for hit in answer.hits])
    hits = [
        hit
        for hit in sorted(answer.hits, key=lambda hit: hit.position)
        if (since is None or moments[hit.position] >= since) and (until is None or moments[hit.position] < until)
    ]
    if path is not None:
        hits = [hit for hit in hits if _selects(store, path, hit.position)]
    return _summary(store, hits, Subscription("preview", query, asked.query or "", path), Knowledge(analysis))


def _selects(store: Store, path: XPath, position: int) -> bool:
    markup = read_accepted(documents.at_positions(store, [position])[position].document().xml)
    return markup is not None and holds_xpath(path, markup)


def _weights(statistics: StatisticsRef | None) -> Statistics:
    return Statistics() if statistics is None else open_statistics(statistics)


def _summary(store: Store, hits: Sequence[Hit], subscription: Subscription, knowledge: Knowledge) -> Preview:
    """Of hits in the order of the log."""
    moments = documents.moments(store, [hit.position for hit in hits])
    days = Counter(datetime.fromtimestamp(moments[hit.position], UTC).date().isoformat() for hit in hits)
    newest = sorted(hits, key=lambda hit: (moments[hit.position], hit.position))[: -SAMPLE - 1 : -1]
    contents = documents.at_positions(store, [hit.position for hit in newest])
    sample = []
    for hit in newest:
        if hit.position in contents:
            evidence = why(subscription, contents[hit.position].document(), knowledge)
            sample.append(Sighting(hit.id, hit.version, moments[hit.position], hit.score, evidence))
    return Preview(len(hits), sorted(days.items()), sample, [(hit.id, hit.version) for hit in hits])
