"""Nested subscriptions: sets of values that grow with the collection (SmartSeer §VI-B).

`author:IN:(networks AND author:Bob)` waits for two things: documents that match the inner query, whose
values enlarge a set, and documents that hold a value of the set. When a set grows, older documents may
qualify only now; they are found through the values they hold, and told once. Sets with the same inner
query are kept once, innermost first, so one pass over them reaches the fixpoint: nesting has no cycles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tocsin.model import Document
from tocsin.query.ast import In, Query, atoms, nested
from tocsin.query.score import Statistics
from tocsin.query.semantics import Knowledge, holds
from tocsin.text import Analysis, value_key, values_of

Inner = tuple[Query, str]
"""A set's name: the inner query, and the field whose values it collects."""
Grown = dict[Inner, set[str | float]]


class NestedSubscriptions:
    """The subscriptions with nested queries, the documents seen, and the sets between them."""

    def __init__(self, queries: Mapping[int, Query], analysis: Analysis, statistics: Statistics) -> None:
        self._queries = dict(queries)
        every = [atom for query in queries.values() for atom in nested(query)]
        self._inner: list[Inner] = list(dict.fromkeys((atom.query, atom.source) for atom in every))
        self._fields = sorted({atom.field for atom in every})
        self._sets: dict[Inner, set[str | float]] = {inner: set() for inner in self._inner}
        self._members: dict[Inner, set[str]] = {inner: set() for inner in self._inner}
        self._documents: dict[str, Document] = {}
        self._arrived: dict[str, int] = {}
        self._holders: defaultdict[tuple[str, str | float], set[str]] = defaultdict(set)
        self._arrivals = 0
        self._told: dict[int, set[tuple[str, int]]] = {number: set() for number in queries}
        self.knowledge = Knowledge(analysis, statistics, (), dict(self._sets))

    def arrive(self, document: Document) -> list[tuple[int, Document]]:
        """The (subscription number, document) pairs that hold now and were not told before, older documents first."""
        if document.id in self._documents:
            self._replace(self._documents.pop(document.id))
        self._documents[document.id] = document
        self._arrivals += 1
        self._arrived[document.id] = self._arrivals
        for field in self._fields:
            for value in values_of(document, field):
                self._holders[field, value_key(value)].add(document.id)
        grown: Grown = {}
        for inner in self._inner:
            if new := self._enlarge(inner, self._candidates(inner[0], document, grown)):
                grown[inner] = new
        found = []
        for number, query in self._queries.items():
            told = self._told[number]
            for candidate in self._candidates(query, document, grown):
                key = (candidate.id, candidate.version)
                if key not in told and holds(query, candidate, self.knowledge):
                    told.add(key)
                    found.append((number, candidate))
        return found

    def _candidates(self, query: Query, document: Document, grown: Grown) -> list[Document]:
        """The documents that hold a value which has just entered a set of the query, and the new one; oldest first."""
        ids = {document.id}
        for atom in atoms(query):
            if isinstance(atom, In):
                for value in grown.get((atom.query, atom.source), ()):
                    ids.update(self._holders.get((atom.field, value), ()))
        return [self._documents[id] for id in sorted(ids, key=self._arrived.__getitem__)]

    def _enlarge(self, inner: Inner, candidates: Iterable[Document]) -> set[str | float]:
        """Adds what the candidates contribute to the set, and returns what is new in it."""
        query, source = inner
        new: set[str | float] = set()
        for candidate in candidates:
            if candidate.id not in self._members[inner] and holds(query, candidate, self.knowledge):
                self._members[inner].add(candidate.id)
                new |= {value_key(value) for value in values_of(candidate, source)} - self._sets[inner]
        self._sets[inner] |= new
        return new

    def _replace(self, old: Document) -> None:
        """Takes a document out: its values leave the sets, which are counted again; what was told stays told."""
        for field in self._fields:
            for value in values_of(old, field):
                self._holders[field, value_key(value)].discard(old.id)
        for inner in self._inner:
            self._sets[inner].clear()
            self._members[inner].clear()
            self._enlarge(inner, self._documents.values())
