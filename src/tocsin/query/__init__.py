"""What a query means: its tree, its text, its normal forms and the oracle."""

from tocsin.query.ast import Query
from tocsin.query.covering import covers
from tocsin.query.parse import parse
from tocsin.query.score import Statistics, score
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.show import show
from tocsin.query.standing import parse_subscription

__all__ = [
    "Knowledge",
    "Query",
    "Statistics",
    "covers",
    "holds",
    "parse",
    "parse_subscription",
    "score",
    "show",
]
