"""The subscriptions of the store as snapshots that workers map: brought up to date before each batch.

The index holds revisions, by number. It may hold more than are in force for a document (one that has ended is taken out
when no document before its end is left to match); which ones count is decided by their spans, in the outbox's
transaction. So a snapshot that is lost is built again from the store, and a batch that is run again finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tocsin.errors import QueryError, SnapshotError
from tocsin.match.registry import Registry
from tocsin.match.rendezvous.batch import MeetingPlan, Strategy
from tocsin.match.written import Entry
from tocsin.model import Subscription
from tocsin.pipeline.meeting import PartsRef, Prepared, save_parts
from tocsin.pipeline.nested import Nested, is_nested
from tocsin.pipeline.stages import SnapshotRef
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge
from tocsin.query.vector import attached, from_text
from tocsin.query.xpath import parse_xpath
from tocsin.store import Store, documents, subscriptions
from tocsin.store.subscriptions import Revision
from tocsin.text import Analysis

SAMPLE = 256  # documents by which words are known to be rare
KEPT = 3  # versions on the disk: one in use, one being made, one for a batch that is run again


class Keeper:
    """Follows the store's subscriptions. One process owns the folder."""

    def __init__(self, store: Store, folder: Path, analysis: Analysis) -> None:
        self._store = store
        self._folder = folder
        self._analysis = analysis
        self._registry, self._newest, self._matched = self._open(analysis)
        self._is_saved = self._registry.version > 0
        self._parts: tuple[tuple[int, Strategy, int], PartsRef] | None = None
        self.nested = Nested(store, folder / "nested", analysis)
        self._take_up_nested()

    def _open(self, analysis: Analysis) -> tuple[Registry, int, int]:
        """The last snapshot, with the number of the newest revision in it and the position it was made for."""
        try:
            registry = Registry.open(self._folder)
        except SnapshotError:
            return Registry(analysis), 0, 0
        known = self._store.get(_key(registry.version), "")
        if not known or registry.analysis != analysis:
            return Registry(analysis), 0, 0
        newest, matched = known.split()
        return registry, int(newest), int(matched)

    def __len__(self) -> int:
        return len(self._registry)

    def refresh(self, matched: int) -> SnapshotRef:
        """A snapshot with every revision that can count for documents after the position `matched`."""
        ended = subscriptions.ended_within(self._store, self._matched, matched)
        self.nested.end(ended)
        for number in ended:
            if str(number) in self._registry:
                self._registry.remove(str(number))
                self._is_saved = False
        errors: dict[int, str] = {}
        with_sets: list[Revision] = []
        for revision in self._begun(matched):
            asked = revision.asked
            if is_nested(asked, self._analysis):
                with_sets.append(revision)
                self._newest = revision.number
                self._is_saved = False
                continue
            try:
                self._registry.add(str(revision.number), asked.query, asked.xpath, asked.namespaces, asked.moved)
            except QueryError as error:
                errors[revision.number] = error.reason
            self._newest = revision.number
            self._is_saved = False
        errors |= self.nested.add(with_sets, matched)
        if errors:
            subscriptions.set_error(self._store, errors)
        self._matched = max(self._matched, matched)
        if not self._is_saved:
            self._save()
        return SnapshotRef(str(self._folder), self._registry.version)

    @property
    def nbytes(self) -> int:
        """Memory of the index."""
        return self._registry.nbytes

    def candidates(self) -> float:
        """Clauses that a document visits in the index, on average."""
        return self._registry.index.work()

    def prepared(self, plan: MeetingPlan) -> Prepared:
        """What the plan's strategy needs on the disk; made anew when subscriptions have changed."""
        snapshot = SnapshotRef(str(self._folder), self._registry.version)
        analysis = self._analysis
        if plan.strategy is Strategy.MIRROR:
            return Prepared(snapshot=snapshot, analysis=analysis)
        if plan.strategy is Strategy.SEND_QUERY:
            table = tuple(_subscription(id, entry, analysis) for id, entry in self._registry.entries())
            return Prepared(table=table, analysis=analysis)
        wanted = (snapshot.version, plan.strategy, plan.parts)
        if self._parts is None or self._parts[0] != wanted:
            folder = self._folder / plan.strategy
            ref = save_parts(folder, list(self._registry.entries()), plan.strategy, plan.parts, analysis=analysis)
            self._parts = wanted, ref
        if plan.strategy is Strategy.BY_ID:
            return Prepared(by_id=self._parts[1], analysis=analysis)
        return Prepared(by_word=self._parts[1], analysis=analysis)

    def _take_up_nested(self) -> None:
        """The nested revisions of an earlier run: their sets are in the store, what they wait for is not."""
        if self._newest:
            found, after = [], 0
            while chunk := subscriptions.begun_after(self._store, after, self._matched, containing="IN"):
                after = chunk[-1].number
                found += [one for one in chunk if one.number <= self._newest and is_nested(one.asked, self._analysis)]
            self.nested.add(found, self._matched)
            self.nested.forget_unused()

    def _begun(self, matched: int) -> Iterator[Revision]:
        while chunk := subscriptions.begun_after(self._store, self._newest, matched):
            yield from chunk

    def _save(self) -> None:
        self._look_at_words()
        version = self._registry.save(self._folder, keep=KEPT)
        self._store.put(_key(version), f"{self._newest} {self._matched}")
        self._store.drop(_key(version - KEPT))
        self._is_saved = True

    def _look_at_words(self) -> None:
        """Lets the index see the newest documents, so that each query waits under a word that is rare now (S3)."""
        last = documents.last_position(self._store)
        sample = [row.document() for rows in documents.read(self._store, last - SAMPLE, last) for row in rows]
        if sample and len(self._registry):
            self._registry.match_owners(sample, Knowledge(self._registry.analysis))
            self._registry.index.reorganise_if_drifted()


def _subscription(id: str, entry: Entry, analysis: Analysis) -> Subscription:
    query = None if entry.query is None else attached(parse(entry.query, analysis), from_text(entry.moved))
    path = None if entry.xpath is None else parse_xpath(entry.xpath, entry.namespaces)
    return Subscription(id, query, entry.query or "", path)


def _key(version: int) -> str:
    return f"snapshot-{version}"
