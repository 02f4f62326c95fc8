"""What may stand as a subscription: any query that stays true once it was said, at a bearable cost."""

from __future__ import annotations

from tocsin.errors import QueryTooCostly
from tocsin.query.ast import In, Not, Query, children
from tocsin.query.normal import cost
from tocsin.query.parse import STANDARD_ANALYSIS, parse_monotone
from tocsin.settings import DEFAULTS, QueryLimits
from tocsin.text import Analysis


def parse_subscription(
    text: str, analysis: Analysis = STANDARD_ANALYSIS, limits: QueryLimits = DEFAULTS.query
) -> Query:
    """Like parse, and refuses NOT over a nested query (SmartSeer §VI-B) and what would cost too much."""
    query = parse_monotone(text, analysis, limits)
    price = cost(query)
    if price > limits.query_cost_max:
        reason = f"the query could cost {price:,} checks per document, at most {limits.query_cost_max:,} are allowed"
        raise QueryTooCostly(reason, text)
    return query


def nested_under_not(query: Query, under: bool = False) -> bool:
    """Does a NOT stand anywhere over a nested query?"""
    if isinstance(query, In):
        return under or nested_under_not(query.query)
    under = under or isinstance(query, Not)
    return any(nested_under_not(part, under) for part in children(query))
