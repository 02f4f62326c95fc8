"""Tocsin: standing queries over streams of documents and events.

>>> from tocsin import Document, Knowledge, holds, parse
>>> holds(parse('title:(peer NEAR/2 networks)'), Document("d1", {"title": ("Peer to peer networks",)}), Knowledge())
True
"""

from tocsin.errors import DocumentError, QueryError, TocsinError
from tocsin.model import Document, Match, Subscription
from tocsin.query import Knowledge, Statistics, covers, holds, parse, parse_subscription, score, show
from tocsin.text import Analysis

__all__ = [
    "Analysis",
    "Document",
    "DocumentError",
    "Knowledge",
    "Match",
    "QueryError",
    "Statistics",
    "Subscription",
    "TocsinError",
    "covers",
    "holds",
    "parse",
    "parse_subscription",
    "score",
    "show",
]
