"""What every engine does: many queries against many documents, exactly as the oracle says.

Engines know subscriptions by number and see no nested queries (`match.nested` turns those into sets of
values first). They differ in how much work they avoid; results are always equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tocsin.model import Document
from tocsin.query.ast import Query
from tocsin.query.semantics import Knowledge


class Engine(Protocol):
    """An index over queries."""

    def add(self, number: int, query: Query) -> None:
        """Registers a query under a number that is not in use."""

    def remove(self, number: int) -> None:
        """Forgets the query of this number."""

    def match(self, documents: Sequence[Document], knowledge: Knowledge) -> list[list[int]]:
        """For each document the numbers of the queries that hold, ascending."""
