"""What a query would have found in the documents that are stored, matched in this process, without Spark.

For a site whose pipeline cannot look back (`site.local`). It looks at the newest documents, as many as it may.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tocsin.match.explain import why
from tocsin.match.index import IndexEngine
from tocsin.match.matcher import Matcher
from tocsin.match.paths import PathIndex
from tocsin.model import Subscription
from tocsin.query.ast import Query
from tocsin.query.score import Statistics
from tocsin.query.xpath import Path
from tocsin.store import Store, documents
from tocsin.text import Analysis

SAMPLE = 10  # of the newest matches
DOCUMENTS_MAX = 20_000  # that one look back may read in this process


@dataclass(frozen=True, slots=True)
class Sighting:
    """A match in the past."""

    document: str
    version: int
    moment: float
    score: float
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Past:
    """How many documents would have matched, on which days, and the newest of them."""

    total: int
    per_day: list[tuple[str, int]]
    sample: list[Sighting]
    looked_at: int
    is_partial: bool
    """Are there older documents that were not looked at?"""


def look_back(
    store: Store,
    analysis: Analysis,
    query: Query | None,
    path: Path | None,
    documents_max: int = DOCUMENTS_MAX,
) -> Past:
    """Matches the newest stored documents with one query."""
    last = documents.last_position(store)
    first = max(0, last - documents_max)
    stored = [one for chunk in documents.read(store, first, last) for one in chunk]
    contents = [one.document() for one in stored]
    places = {id(document): one for one, document in zip(stored, contents, strict=True)}
    subscription = Subscription("past", query, "", path)
    statistics = Statistics.of(contents, analysis)
    matcher = Matcher([subscription], IndexEngine(analysis), analysis, statistics, PathIndex())
    hits = [(places[id(hit.document)], hit) for hit in matcher.match(contents)]
    days = Counter(datetime.fromtimestamp(at.moment, UTC).date().isoformat() for at, _ in hits)
    newest = sorted(hits, key=lambda pair: (pair[0].moment, pair[0].position), reverse=True)[:SAMPLE]
    knowledge = matcher.knowledge_of(subscription)
    sample = [
        Sighting(at.id, at.version, at.moment, hit.score, why(subscription, hit.document, knowledge))
        for at, hit in newest
    ]
    return Past(len(hits), sorted(days.items()), sample, len(stored), first > 0)
