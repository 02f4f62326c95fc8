"""Every query against every document: the oracle as an engine (BF of P2P-DIET §4).

It is the yardstick that the other engines are measured and tested against.
"""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.match.engine import Counts
from tocsin.model import Document
from tocsin.query.ast import Query
from tocsin.query.semantics import Knowledge, holds


class Brute:
    """No index at all."""

    def __init__(self) -> None:
        self._queries: dict[int, Query] = {}
        self.counts = Counts()

    def add(self, number: int, query: Query) -> None:
        """Registers a query."""
        self._queries[number] = query

    def remove(self, number: int) -> None:
        """Forgets a query."""
        del self._queries[number]

    def match(self, documents: Sequence[Document], knowledge: Knowledge) -> list[list[int]]:
        """Asks the oracle about every pair."""
        self.counts.documents += len(documents)
        self.counts.candidates += len(documents) * len(self._queries)
        self.counts.tried.update(dict.fromkeys(self._queries, len(documents)))
        return [
            sorted(number for number, query in self._queries.items() if holds(query, document, knowledge))
            for document in documents
        ]
