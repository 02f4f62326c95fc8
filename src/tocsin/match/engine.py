"""What every engine does: many queries against many documents, exactly as the oracle says.

Engines know subscriptions by number and see no nested queries (`match.nested` turns those into sets of
values first). They differ in how much work they avoid; results are always equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tocsin.markup import Markup
from tocsin.model import Document
from tocsin.query.ast import Query
from tocsin.query.semantics import Knowledge
from tocsin.query.xpath.ast import Path


@dataclass(slots=True)
class Counts:
    """What matching has cost so far, so that expensive subscriptions can be found."""

    documents: int = 0
    candidates: int = 0
    """Pairs of query and document that were looked at one by one."""
    checks: int = 0
    """Atoms that were tested on a document."""
    tried: Counter[int] = field(default_factory=Counter)
    """For each query, on how many documents it was looked at by itself."""
    errors: dict[int, str] = field(default_factory=dict)
    """Queries that could not be evaluated, with the reason: their matches are unknown, those of others are not."""


class Engine(Protocol):
    """An index over queries."""

    @property
    def counts(self) -> Counts:
        """What it has cost so far."""

    def add(self, number: int, query: Query) -> None:
        """Registers a query under a number that is not in use."""

    def remove(self, number: int) -> None:
        """Forgets the query of this number."""

    def match(self, documents: Sequence[Document], knowledge: Knowledge) -> list[list[int]]:
        """For each document the numbers of the queries that hold, ascending."""


class PathEngine(Protocol):
    """An index over XPath queries."""

    def add(self, number: int, path: Path) -> None:
        """Registers a path under a number that is not in use."""

    def match(self, markup: Markup) -> Sequence[int] | NDArray[np.int64]:
        """The numbers of the paths that select something, ascending."""
