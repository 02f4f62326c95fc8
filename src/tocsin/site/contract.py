"""What a subscription amounts to, told when it is saved: how it was read, what it costs, how often it will be told.

A query that can never hold, or always does, or says what another one says already, is accepted; but whoever
wrote it should know before the first document comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from tocsin.errors import QueryError
from tocsin.model import Subscription
from tocsin.query.ast import Not, Query
from tocsin.query.covering import covers
from tocsin.query.normal import clauses, is_supportable
from tocsin.query.parse import parse
from tocsin.query.show import show
from tocsin.query.xpath import Path, show_xpath
from tocsin.settings import QueryLimits
from tocsin.site.history import Forecast, History
from tocsin.site.wishes import price
from tocsin.store.subscriptions import Asked, Kept
from tocsin.text import Analysis

ANY_SIZE = QueryLimits(1 << 31, 1 << 31, 1 << 31)  # the query was accepted before


@dataclass(frozen=True, slots=True)
class Contract:
    """What the owner of a subscription is told when it is saved."""

    parsed: str | None
    """The query as it was understood."""
    xpath: str | None
    cost: int
    """Checks per document in the worst case."""
    forecast: Forecast | None
    never_fires: bool
    always_fires: bool
    duplicate_of: str | None
    """One of the account's own that asks for the same."""
    covered_by: tuple[str, ...]
    """Of the account's own that are told of everything that this one is told of."""
    covers: tuple[str, ...]
    """Of the account's own that are told of nothing that this one is not told of."""
    compared_with: int
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """As the API answers it."""
        found = asdict(self)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}


def contract_of(
    asked: Asked,
    query: Query | None,
    path: Path | None,
    analysis: Analysis,
    *,
    history: History | None = None,
    others: Iterable[Kept] = (),
) -> Contract:
    """Draws it up."""
    never = query is not None and clauses(query) == ()
    always = query is not None and path is None and not never and clauses(Not(query)) == ()
    forecast = None if history is None else history.forecast(Subscription("new", query, asked.query or "", path))
    same, wider, narrower, compared = _compare(asked, query, analysis, others)
    notes = []
    if query is not None and not never and not is_supportable(query) and path is None:
        notes.append("it has no word or equality that must hold, so it is evaluated on every document")
    if never:
        notes.append("it contradicts itself: it never holds")
    if always:
        notes.append("it holds for every document")
    if forecast is not None and not forecast.hits and forecast.looked_at and not never:
        notes.append(f"none of {forecast.looked_at:,} documents of the last week matched")
    return Contract(
        None if query is None else show(query),
        None if path is None else show_xpath(path),
        price(query, path),
        forecast,
        never,
        always,
        same,
        tuple(wider),
        tuple(narrower),
        compared,
        tuple(notes),
    )


def _compare(
    asked: Asked, query: Query | None, analysis: Analysis, others: Iterable[Kept]
) -> tuple[str | None, list[str], list[str], int]:
    same: str | None = None
    wider: list[str] = []
    narrower: list[str] = []
    compared = 0
    for other in others:
        compared += 1
        if (other.asked.xpath, dict(other.asked.namespaces)) != (asked.xpath, dict(asked.namespaces)):
            continue
        if other.asked.moved is not None:
            continue  # feedback has moved it away from its text
        theirs = _parsed(other.asked.query, analysis)
        if theirs is None and other.asked.query is not None:
            continue  # it was accepted by an earlier Tocsin, and cannot be read now
        over = theirs is None or (query is not None and covers(theirs, query, analysis))
        under = query is None or (theirs is not None and covers(query, theirs, analysis))
        if over and under:
            same = same or other.id
        elif over:
            wider.append(other.id)
        elif under:
            narrower.append(other.id)
    return same, wider, narrower, compared


def _parsed(text: str | None, analysis: Analysis) -> Query | None:
    if text is None:
        return None
    try:
        return _remembered(text, tuple(sorted(analysis.fields.items())))
    except QueryError:
        return None


@lru_cache(maxsize=4_096)
def _remembered(text: str, fields: tuple[tuple[str, str], ...]) -> Query:
    return parse(text, Analysis(dict(fields)), ANY_SIZE)
