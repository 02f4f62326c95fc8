"""What of a subscription the ring is asked for: which placement, and how plain.

    a query                      the owners of its words (`words`)
    a query, approximately       the most promising publishers (`publishers`)
    a path                       the owners of its states (`states`)
    a query and a path           as the query; if it has no word to wait at, as the path

The ring need not decide everything: it brings each document that could matter, and the site judges it as any other. So
where a query depends on what only the site knows, the ring is asked for a plainer one (`cover`); and of a query and a
path, both of which must hold, it is enough to be brought what one of them finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tocsin.errors import QueryError
from tocsin.overlay.placement.cover import cover
from tocsin.overlay.placement.entry import wanted_words
from tocsin.overlay.placement.publishers.directory import counts
from tocsin.query.ast import Query, nested
from tocsin.query.normal import anchors
from tocsin.query.show import show
from tocsin.query.standing import parse_subscription
from tocsin.settings import QueryLimits
from tocsin.site.exactness import Exactness
from tocsin.site.feedback import moved_query
from tocsin.store.subscriptions import Asked
from tocsin.text import Analysis

_ANY_SIZE = QueryLimits(1 << 31, 1 << 31, 1 << 31)  # the site has accepted the query


class Where(StrEnum):
    """A placement, by the letter that its names of subscriptions have. A change of placement is a change of name: the
    one begins to hear while the other is still being taken back."""

    WORDS = ""
    PUBLISHERS = "p"
    STATES = "s"


@dataclass(frozen=True, slots=True)
class Part:
    """A query or path as the ring is asked for it."""

    where: Where
    text: str
    namespaces: tuple[tuple[str, str], ...] = ()
    exactness: Exactness = Exactness()


def parts_of(asked: Asked, exactness: Exactness, analysis: Analysis) -> list[Part]:
    """What a subscription amounts to on the ring: its query or path, and the queries that are nested in it."""
    path = None if asked.xpath is None else Part(Where.STATES, asked.xpath, tuple(sorted(asked.namespaces.items())))
    if asked.query is None:
        return [] if path is None else [path]
    try:
        query = moved_query(asked, parse_subscription(asked.query, analysis, _ANY_SIZE))
    except QueryError:
        return []  # the pipeline has noted why
    outer = cover(query, analysis)
    found = [_part(cover(inner.query, analysis), exactness, analysis) for inner in nested(query)]
    if path is not None and anchors(outer, analysis) is None:
        return [path, *found]
    return [_part(outer, exactness, analysis), *found]


def _part(query: Query, exactness: Exactness, analysis: Analysis) -> Part:
    if exactness.is_exact or not has_words(query, analysis):
        return Part(Where.WORDS, show(query))
    return Part(Where.PUBLISHERS, show(query), exactness=exactness)


def has_words(query: Query, analysis: Analysis) -> bool:
    """Does it ask for words that publishers could be chosen by?"""
    return any(counts(key) for key in wanted_words(query, analysis))


def can_approximate(query: Query | None, analysis: Analysis) -> bool:
    """Can the promising publishers of a subscription be told from the others?"""
    return query is not None and has_words(cover(query, analysis), analysis)
