"""The nouns: documents, subscriptions and what comes of them. Frozen, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tocsin.query.ast import Query
    from tocsin.query.xpath.ast import Path

Value = str | int | float
"""One value of a field. Numbers are compared as float64."""


@dataclass(frozen=True, slots=True)
class Document:
    """Something that was published.

    Each field holds a tuple of values; an absent field is not in `fields`.
    """

    id: str
    fields: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    source: str | None = None
    time: str | None = None
    version: int = 1
    xml: str | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A query with an identity: its owner is told once of each document that matches.

    It asks for words (`query`), for paths of XML (`path`), or for both, which must then both hold.
    """

    id: str
    query: Query | None = None
    text: str = ""
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A document met a subscription; the score is in [0, 1]."""

    subscription: str
    document: str
    version: int
    score: float
