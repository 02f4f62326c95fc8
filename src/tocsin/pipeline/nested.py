"""Nested subscriptions in the stream: Spark finds the documents that their plain parts match, the sets do the rest.

The plain parts of nested queries (`match.nested.translate`) are an index of their own, which workers map like the other
one. What they find is given to the sets, document by document in the order of the log, in the transaction that writes
the batch's notifications: sets and outbox never disagree, and a batch that is run again finds both undone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tocsin.errors import QueryError
from tocsin.markup import read_accepted
from tocsin.match.engine import Counts
from tocsin.match.explain import told, why
from tocsin.match.nested.subscriptions import NestedSubscriptions
from tocsin.match.registry import Registry
from tocsin.model import Document, Subscription
from tocsin.pipeline.stages import SnapshotRef
from tocsin.query.ast import Query, nested
from tocsin.query.parse import parse
from tocsin.query.score import Statistics, score
from tocsin.query.semantics import Knowledge
from tocsin.query.show import show
from tocsin.query.vector import attached, detached, from_text, to_text
from tocsin.query.xpath import parse_xpath
from tocsin.query.xpath.semantics import holds_xpath
from tocsin.store import Store, documents, sets
from tocsin.store.connect import Transaction, packed
from tocsin.store.outbox import Found
from tocsin.store.sets import StoredSets
from tocsin.store.subscriptions import Asked, Revision
from tocsin.text import Analysis

KEPT = 3
TOGETHER = 500  # documents that are read at a time
Hits = dict[int, list[int]]
"""By position: the numbers of the plain parts that hold."""


def is_nested(asked: Asked, analysis: Analysis) -> bool:
    """Does the query have a nested part? False if it cannot be read."""
    if asked.query is None or "IN" not in asked.query:
        return False
    try:
        return any(nested(parse(asked.query, analysis)))
    except QueryError:
        return False


class Nested:
    """Follows the nested revisions of a store, whose sets are in the store too. One process owns the folder."""

    def __init__(self, store: Store, folder: Path, analysis: Analysis) -> None:
        self._store = store
        self._folder = folder
        self._analysis = analysis
        self._parts = _Parts(analysis)
        self._sets = StoredSets()
        self._nested = NestedSubscriptions(analysis, tables=self._sets, engine=self._parts)
        self._asked: dict[int, Subscription] = {}
        self._ends: dict[int, int] = {}
        with store.write() as transaction:
            sets.create(transaction)

    def __len__(self) -> int:
        return len(self._nested)

    def add(self, revisions: Sequence[Revision], matched: int) -> dict[int, str]:
        """Takes new revisions up, before the documents after `matched`; returns those that were refused."""
        refused: dict[int, str] = {}
        wanted: list[tuple[int, Query, int, int | None]] = []
        for revision in revisions:
            asked = revision.asked
            try:
                query = attached(parse(asked.query or "", self._analysis), from_text(asked.moved))
                path = None if asked.xpath is None else parse_xpath(asked.xpath, asked.namespaces)
            except QueryError as error:
                refused[revision.number] = error.reason
                continue
            self._asked[revision.number] = Subscription(str(revision.number), query, asked.query or "", path)
            wanted.append((revision.number, query, revision.since, revision.until))
        if wanted:
            with self._store.write() as transaction:
                if not len(self._nested) and _last(transaction, self._sets) < matched:
                    sets.begin_at(transaction, matched)
                with self._sets.within(transaction):
                    self._nested.add_all(wanted)
        return refused

    def end(self, numbers: Iterable[int]) -> None:
        """These revisions are in force for no document that is left to match."""
        ended = [number for number in numbers if number in self._nested]
        if ended:
            with self._store.write() as transaction, self._sets.within(transaction):
                for number in ended:
                    self._nested.remove(number)
                    del self._asked[number]

    def forget_unused(self) -> None:
        """Once all revisions of an earlier run are taken up again: drops what nobody needs."""
        with self._store.write() as transaction, self._sets.within(transaction):
            self._nested.forget_unused()

    def snapshot(self) -> SnapshotRef:
        """The plain parts, for workers."""
        return self._parts.saved(self._folder)

    def tell(
        self, transaction: Transaction, first: int, last: int, hits: Hits, statistics: Statistics
    ) -> Iterator[Found]:
        """What the documents after `first` up to `last` bring, in this transaction."""
        self._nested.use(statistics)
        with self._sets.within(transaction):
            for id in self._sets.departed():
                self._nested.leave(id)
            for rows in documents.read_in(transaction, first, last, TOGETHER):
                arriving = [(row.position, row.document()) for row in rows]
                self._sets.expect(arriving)
                for position, document in arriving:
                    for one in self._nested.arrive(position, document, hits.get(position, ())):
                        yield from self._found(one.number, one.position, one.cause, statistics)
            for id in self._sets.departed():
                self._nested.leave(id)

    def _found(self, number: int, position: int, cause: int, statistics: Statistics) -> Iterator[Found]:
        subscription, document = self._asked[number], self._sets.document(position)
        if subscription.path is not None and not _path_holds(subscription, document):
            return
        assert subscription.query is not None
        value = score(subscription.query, document, self._analysis, statistics)
        knowledge = Knowledge(self._analysis, statistics, (), self._nested.knowledge.sets)
        evidence = why(subscription, document, knowledge)
        evidence["nested"] = [told(reason) for reason in self._nested.reasons(number, position)]
        yield Found(cause, number, document.id, document.version, value, packed(evidence))


def hits_of(found: Iterable[Found]) -> Hits:
    """What the workers found of the plain parts, by position."""
    hits: Hits = defaultdict(list)
    for one in found:
        hits[one.position].append(one.revision)
    return hits


def _path_holds(subscription: Subscription, document: Document) -> bool:
    path = subscription.path
    markup = None if path is None else read_accepted(document.xml)
    return path is not None and markup is not None and holds_xpath(path, markup)


def _last(transaction: Transaction, stored: StoredSets) -> int:
    with stored.within(transaction):
        return stored.last


class _Parts:
    """The plain parts of nested queries as an engine that only keeps them: workers do the matching."""

    def __init__(self, analysis: Analysis) -> None:
        self.counts = Counts()
        self._registry = Registry(analysis)
        self._is_saved = False

    def add(self, number: int, query: Query) -> None:
        self._registry.add(str(number), show(query), moved=to_text(detached(query)))
        self._is_saved = False

    def remove(self, number: int) -> None:
        self._registry.remove(str(number))
        self._is_saved = False

    def match(self, documents: Sequence[Document], knowledge: Knowledge) -> list[list[int]]:
        raise NotImplementedError("the workers match")

    def saved(self, folder: Path) -> SnapshotRef:
        if not self._is_saved:
            self._registry.save(folder, keep=KEPT)
            self._is_saved = True
        return SnapshotRef(str(folder), self._registry.version)
