"""Every query against every document: the oracle as an engine (BF of P2P-DIET §4).

It is the yardstick that the other engines are measured and tested against.
"""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.markup import Markup
from tocsin.match.engine import Counts
from tocsin.model import Document
from tocsin.query.ast import Query
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.xpath.ast import Path
from tocsin.query.xpath.semantics import holds_xpath


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


class PathBrute:
    """Every path against every document, by the definition."""

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}

    def add(self, number: int, path: Path) -> None:
        """Registers a path."""
        self._paths[number] = path

    def match(self, markup: Markup) -> list[int]:
        """Asks about every path."""
        return sorted(number for number, path in self._paths.items() if holds_xpath(path, markup))
