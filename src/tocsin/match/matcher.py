"""Subscriptions against a stream of documents: the façade over engines and nested sets.

Matches come in document order, then by subscription id; a nested match stands at the document that
caused it, which may be later than the one that matched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice

from tocsin.markup import read_markup
from tocsin.match.brute import PathBrute
from tocsin.match.engine import Counts, Engine, PathEngine
from tocsin.match.explain import Traced
from tocsin.match.nested import NestedSubscriptions, Reason
from tocsin.model import Document, Match, Subscription
from tocsin.query.ast import Query, nested
from tocsin.query.score import Statistics, Vector, cosine, document_vector, query_vector
from tocsin.query.semantics import Knowledge
from tocsin.text import Analysis

BATCH = 64  # documents given to an engine at a time


@dataclass(frozen=True, slots=True)
class Hit:
    """A match with the documents and the subscription that it names."""

    subscription: Subscription
    document: Document
    cause: Document
    score: float

    def match(self) -> Match:
        """The ids only."""
        return Match(self.subscription.id, self.document.id, self.document.version, self.score)


class Matcher:
    """Holds the subscriptions and tells which documents match them."""

    def __init__(
        self,
        subscriptions: Iterable[Subscription],
        engine: Engine,
        analysis: Analysis,
        statistics: Statistics,
        paths: PathEngine | None = None,
    ) -> None:
        self.subscriptions = sorted(subscriptions, key=lambda subscription: subscription.id)
        self._engine = engine
        self._analysis = analysis
        self._statistics = statistics
        self._knowledge = Knowledge(analysis, statistics)
        self._paths = PathBrute() if paths is None else paths
        self._with_path = {n for n, subscription in enumerate(self.subscriptions) if subscription.path is not None}
        self._path_only = {n for n in self._with_path if self.subscriptions[n].query is None}
        self._nested = self._register()
        self._document_vector = lru_cache(maxsize=4096)(self._vector_of_document)
        self._query_vector = lru_cache(maxsize=None)(self._vector_of_query)

    def _register(self) -> NestedSubscriptions | None:
        with_sets: list[tuple[int, Query, int, int | None]] = []
        for number, subscription in enumerate(self.subscriptions):
            if subscription.path is not None:
                self._paths.add(number, subscription.path)
            if subscription.query is not None:
                if any(nested(subscription.query)):
                    with_sets.append((number, subscription.query, 0, None))
                else:
                    self._engine.add(number, subscription.query)
        if not with_sets:
            return None
        found = NestedSubscriptions(
            self._analysis, self._statistics, engine=self._engine, first=len(self.subscriptions)
        )
        found.add_all(with_sets)
        return found

    def knowledge_of(self, subscription: Subscription) -> Knowledge:
        """What this subscription's truth depends on now; of a nested one also where the values come from."""
        if self._nested is None or subscription.query is None or not any(nested(subscription.query)):
            return self._knowledge
        known = self._nested.knowledge
        reasons = partial(self._reasons, subscription)
        return Traced(known.analysis, known.statistics, known.documents, known.sets, reasons)

    def reasons(self, hit: Hit) -> tuple[Reason, ...]:
        """Which documents put the values into the sets through which the last matches hold."""
        return self._reasons(hit.subscription, hit.document)

    def _reasons(self, subscription: Subscription, document: Document) -> tuple[Reason, ...]:
        number = bisect_left(self.subscriptions, subscription.id, key=lambda subscription: subscription.id)
        position = None if self._nested is None else self._nested.tables.current(document.id)
        if self._nested is None or position is None or number not in self._nested:
            return ()
        return self._nested.reasons(number, position)

    @property
    def counts(self) -> Counts:
        """What the engine has done, by the number of the subscription in `subscriptions`."""
        counts = self._engine.counts
        if self._nested is None:
            return counts
        # What was registered for a nested query is its subscription's doing.
        tried: Counter[int] = Counter()
        for number, count in counts.tried.items():
            tried[self._owner(number)] += count
        errors = {self._owner(number): reason for number, reason in counts.errors.items()}
        return Counts(counts.documents, counts.candidates, counts.checks, tried, errors)

    def _owner(self, number: int) -> int:
        owner = number if self._nested is None or number < len(self.subscriptions) else self._nested.owner(number)
        assert owner is not None  # a query is registered as long as a subscription needs it
        return owner

    def match(self, documents: Iterable[Document]) -> Iterator[Hit]:
        """The matches of a stream of documents."""
        stream = iter(documents)
        while batch := list(islice(stream, BATCH)):
            yield from self._batch(batch)

    def _batch(self, batch: Sequence[Document]) -> Iterator[Hit]:
        for document, numbers in zip(batch, self._engine.match(batch, self._knowledge), strict=True):
            if self._nested is None:
                found = [(number, document) for number in numbers]
            else:
                found = self._with_nested(document, numbers, self._nested)
            if self._with_path:
                found = self._where_paths_hold(found, document)
            found.sort(key=lambda pair: pair[0])
            for number, matching in found:
                yield Hit(self.subscriptions[number], matching, document, self._score(number, matching))

    def _with_nested(
        self, document: Document, numbers: Sequence[int], nested: NestedSubscriptions
    ) -> list[tuple[int, Document]]:
        """The engine's numbers up to the last subscription are matches, those after it are for the nested ones."""
        own = bisect_left(numbers, len(self.subscriptions))
        told = nested.arrive(nested.tables.last + 1, document, numbers[own:])
        return [(number, document) for number in numbers[:own]] + [
            (one.number, nested.tables.document(one.position)) for one in told
        ]

    def _where_paths_hold(self, found: list[tuple[int, Document]], new: Document) -> list[tuple[int, Document]]:
        """Keeps what has no path or whose path holds too, and adds what asks for a path only."""
        held = self._paths_held(new)
        kept = []
        for number, document in found:
            here = held if document is new or number not in self._with_path else self._paths_held(document)
            if number not in self._with_path or number in here:
                kept.append((number, document))
        return kept + [(number, new) for number in held & self._path_only]

    def _paths_held(self, document: Document) -> set[int]:
        return set() if document.xml is None else set(map(int, self._paths.match(read_markup(document.xml))))

    def _score(self, number: int, document: Document) -> float:
        if number in self._path_only:
            return 1.0
        vector = self._query_vector(number)
        return cosine(self._document_vector(_ById(document)), vector) if vector.weights else 0.0

    def _vector_of_document(self, document: _ById) -> Vector:
        return document_vector(document.document, self._analysis, self._statistics)

    def _vector_of_query(self, number: int) -> Vector:
        query = self.subscriptions[number].query
        return query_vector(query, self._analysis, self._statistics) if query is not None else Vector({}, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _ById:
    """A document as a key: by what it is called, not by all that it holds."""

    document: Document

    def __hash__(self) -> int:
        return hash((self.document.id, self.document.version))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.document is other.document
