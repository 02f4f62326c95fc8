"""The log matched in this process, without Spark: for audits, for tests, and for a site that is small.

It keeps the stream's promises by the same means: a batch is noted before it runs and its matches are written with
its end. Only one of the two may match a store at a time.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tocsin.errors import QueryError
from tocsin.match.explain import why
from tocsin.match.index import IndexEngine
from tocsin.match.matcher import Matcher
from tocsin.match.paths import PathIndex
from tocsin.model import Document, Subscription
from tocsin.query.ast import In, Similar, atoms
from tocsin.query.parse import parse
from tocsin.query.score import Statistics
from tocsin.query.vector import attached, from_text
from tocsin.query.xpath import parse_xpath
from tocsin.settings import QueryLimits
from tocsin.store import Store, documents, outbox, subscriptions
from tocsin.store.documents import MATCHING, Stored
from tocsin.store.outbox import Batch, Found, Receipt
from tocsin.store.subscriptions import Revision
from tocsin.text import Analysis

log = logging.getLogger(__name__)

ANY_SIZE = QueryLimits(1 << 31, 1 << 31, 1 << 31)  # the query was accepted before
BATCH_DOCUMENTS_MAX = 2_000
LOOK_SECONDS = 0.05


class RangeMatcher:
    """Matches ranges of the log with the revisions that are in force there."""

    def __init__(self, store: Store, analysis: Analysis, *, evidence: bool = True) -> None:
        self._store = store
        self._analysis = analysis
        self._evidence = evidence
        self.tried: dict[int, int] = {}
        self.errors: dict[int, str] = {}
        self._read: dict[int, Subscription | None] = {}  # those of the last range, so that few are read again

    def find(self, stored: Sequence[Stored], revisions: Iterable[Revision], statistics: Statistics) -> list[Found]:
        """Every match of these documents with a revision that is in force for it."""
        spans = {revision.number: revision for revision in revisions}
        self._read = {number: self._read.get(number) or self._subscription(one) for number, one in spans.items()}
        registered = [one for one in self._read.values() if one is not None]
        engine = IndexEngine(self._analysis)
        matcher = Matcher(registered, engine, self._analysis, statistics, PathIndex())
        contents = [(one, one.document()) for one in stored]
        places = {id(document): one for one, document in contents}
        found = []
        for hit in matcher.match(document for _, document in contents):
            at, revision = places[id(hit.document)], spans[int(hit.subscription.id)]
            if revision.since < at.position and (revision.until is None or at.position <= revision.until):
                told = self._why(matcher, hit.subscription, hit.document) if self._evidence else None
                found.append(Found(at.position, revision.number, at.id, at.version, hit.score, told))
        counts = matcher.counts
        self.tried = {int(matcher.subscriptions[n].id): tried for n, tried in counts.tried.items()}
        self.errors |= {int(matcher.subscriptions[n].id): reason for n, reason in counts.errors.items()}
        return sorted(found)

    def _why(self, matcher: Matcher, subscription: Subscription, document: Document) -> str:
        found = why(subscription, document, matcher.knowledge_of(subscription))
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"))

    def _subscription(self, revision: Revision) -> Subscription | None:
        asked = revision.asked
        try:
            query = None if asked.query is None else parse(asked.query, self._analysis, ANY_SIZE)
            if query is not None and asked.moved is not None:
                query = attached(query, from_text(asked.moved))
            path = None if asked.xpath is None else parse_xpath(asked.xpath, asked.namespaces, ANY_SIZE)
        except QueryError as error:
            self.errors[revision.number] = error.reason
            return None
        return Subscription(str(revision.number), query, asked.query or "", path)


def depends_on_history(revision: Revision, analysis: Analysis) -> bool:
    """Does what it matches depend on what came before: on how frequent words were (`~`), or on sets of values?"""
    text = revision.asked.query
    if text is None or ("~" not in text and "IN" not in text):
        return False
    return any(isinstance(atom, Similar | In) for atom in atoms(parse(text, analysis, ANY_SIZE)))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is; the names are the stream's."""

    matched: int
    accepted: int
    documents: int = 0
    matches: int = 0
    batch_documents: int = 0
    batch_seconds: float = 0.0

    @property
    def lag(self) -> int:
        """Documents that wait."""
        return self.accepted - self.matched


class LocalPipeline:
    """Matches the store's documents with its subscriptions, as they come, in a thread of this process."""

    def __init__(
        self,
        store: Store,
        analysis: Analysis | None = None,
        *,
        noticed: Callable[[int], None] | None = None,
        batch_documents_max: int = BATCH_DOCUMENTS_MAX,
        costs: Callable[[dict[int, tuple[int, int]]], None] | None = None,
    ) -> None:
        self._store = store
        self._matcher = RangeMatcher(store, analysis or Analysis())
        self._analysis = analysis or Analysis()
        self._noticed = noticed
        self._costs = costs
        self._most = batch_documents_max
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: str | None = None
        self._progress = Progress(self._matched(), 0)
        self._counted: tuple[int, Counter[str]] | None = None
        self._weights: Statistics | None = None

    def start(self) -> None:
        """Begins."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._keep_running, name="tocsin-local", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Lets the batch that runs end, then stops."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def is_running(self) -> bool:
        """Does it take documents?"""
        return self._thread is not None and self._thread.is_alive()

    def failure(self) -> str | None:
        """What went wrong last, if the last batch did not end."""
        return self._failure

    def progress(self) -> Progress:
        """How far it is."""
        return replace(self._progress, accepted=max(self._progress.matched, documents.last_position(self._store)))

    def _keep_running(self) -> None:
        while not self._stopping.is_set():
            try:
                while not self._stopping.is_set() and self.run_batch() is not None:
                    pass
                self._failure = None
            except Exception as error:  # the documents wait in the store; the next look tries again
                self._failure = str(error).strip().splitlines()[0]
                log.exception("the local pipeline")
                self._stopping.wait(1.0)
            self._stopping.wait(LOOK_SECONDS)

    def catch_up(self) -> int:
        """Matches everything that is accepted now; returns how many notifications are new."""
        written = 0
        while (new := self.run_batch()) is not None:
            written += new
        return written

    def run_batch(self) -> int | None:
        """Matches the next documents; returns how many notifications are new, or None if no document waits."""
        start = time.monotonic()
        first = self._matched()
        last = min(documents.last_position(self._store), first + self._most)
        if last <= first:
            return None
        batch, is_done = outbox.begin(self._store, Batch(MATCHING, last, first, last, 0, last))
        if is_done:
            return 0
        stored = [one for chunk in documents.read(self._store, batch.first, batch.last) for one in chunk]
        revisions = subscriptions.within(self._store, batch.first, batch.last)
        found = self._matcher.find(stored, revisions, self._statistics(stored, batch.last))
        if self._matcher.errors:
            subscriptions.set_error(self._store, self._matcher.errors)
            self._matcher.errors = {}
        written = outbox.finish(self._store, batch, found, [Receipt(0, len(stored), len(revisions))])
        self._note(batch.last, len(stored), written, time.monotonic() - start)
        if self._costs is not None:
            self._costs({number: (tried, 0) for number, tried in self._matcher.tried.items()})
        return written

    def _note(self, matched: int, seen: int, written: int, seconds: float) -> None:
        was = self._progress
        self._progress = Progress(matched, matched, was.documents + seen, was.matches + written, seen, seconds)
        if written and self._noticed is not None:
            self._noticed(written)

    def _matched(self) -> int:
        with self._store.read() as transaction:
            return documents.matched(transaction)

    def _statistics(self, stored: Sequence[Stored], upto: int) -> Statistics:
        """Of the documents that were current at the start, and all that came since."""
        if self._counted is None:
            stored = documents.sample(self._store, 0, upto, upto)
            self._counted = (0, Counter())
        number, frequency = self._counted
        new = Statistics.of((one.document() for one in stored), self._analysis)
        frequency.update(new.frequency)
        self._counted = (number + new.documents, frequency)
        self._weights = Statistics(number + new.documents, dict(frequency), upto)
        return self._weights

    def statistics(self) -> Statistics | None:
        """What words weigh now; None before the first batch."""
        return self._weights
