"""The stream: documents of the inbox are matched and their matches are in the outbox, exactly once.

Spark notes a batch's range of positions, then calls `Stream._run` with it. That brings the snapshots up to date, notes
the batch with their versions in the store, matches, and writes matches and the batch's end in one transaction. Whatever
dies in between, Spark calls again with the same batch: a batch that is done is skipped, any other finds the same.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.errors import PipelineError
from tocsin.match.rendezvous.batch import BatchFacts, MeetingPlan, plan_meeting
from tocsin.pipeline import inbox
from tocsin.pipeline.checkpoint import Checkpoint
from tocsin.pipeline.counting import Counting
from tocsin.pipeline.inbox import ALWAYS, Period
from tocsin.pipeline.keeper import Keeper
from tocsin.pipeline.meeting import meet
from tocsin.pipeline.nested import Hits, hits_of
from tocsin.pipeline.preview import Preview, preview
from tocsin.pipeline.sinks import Staging, found
from tocsin.pipeline.stages import FAILED, TRIED, find_matches
from tocsin.pipeline.statistics import StatisticsRef, open_statistics
from tocsin.query.score import Statistics
from tocsin.store import Store, documents, journal, outbox, subscriptions
from tocsin.store.connect import Transaction
from tocsin.store.documents import MATCHING
from tocsin.store.outbox import Batch, Found, Receipt
from tocsin.store.subscriptions import Asked
from tocsin.text import Analysis

opened = lru_cache(maxsize=2)(open_statistics)
WORD_BYTES = 6.5  # of a word with what stands around it in JSON, about


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How the stream runs."""

    batch_documents_max: int = 20_000
    """Documents of one batch."""
    small_documents_max: int = 2_000
    """A batch up to this size comes to the driver without being staged."""
    parts: int = 2
    """Into how many tasks a large batch is split."""
    worker_index_bytes_max: int = 4 << 30
    """What one worker may map of the index; a larger one is split into parts."""
    evidence: bool = True
    """Keep with each match why it matched?"""
    stop_seconds_max: float = 30.0
    """How long a graceful stop waits for the batch that runs."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the stream is."""

    matched: int
    """The position up to which matches are in the outbox."""
    accepted: int
    """The position of the last document."""
    documents: int
    matches: int
    """Since the start."""
    batch_documents: int
    batch_seconds: float
    """Of the last batch."""

    @property
    def lag(self) -> int:
        """Documents that wait."""
        return self.accepted - self.matched


class Stream:
    """Matches the store's documents against its subscriptions, as they come."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        spark: SparkSession,
        *,
        settings: StreamSettings | None = None,
        analysis: Analysis | None = None,
        noticed: Callable[[int], None] | None = None,
    ) -> None:
        """`noticed` is called with the number of new notifications after each batch that has some."""
        self._store = store
        self._spark = spark
        self._settings = settings or StreamSettings()
        self._noticed = noticed
        self._analysis = analysis or Analysis()
        self._checkpoint = Checkpoint(folder / "checkpoint", store.id)
        self._checkpoint.forget_beyond(documents.last_position(store))
        self._staging = Staging(folder / "staging")
        self._keeper = Keeper(store, folder / "snapshots", self._analysis)
        self._counting = Counting(store, folder / "statistics", self._analysis, spark)
        self._document_bytes = 1_500.0  # on average; known once a batch was seen
        self._meeting: MeetingPlan | None = None
        self._query: StreamingQuery | None = None
        self._busy = threading.Lock()
        with store.read() as transaction:
            matched = documents.matched(transaction)
        self._progress = Progress(matched, matched, 0, 0, 0, 0.0)

    # --- running -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins; comes back at once."""
        inbox.register(self._spark)
        settings = self._settings
        reader = self._spark.readStream.format("tocsin_inbox").option("url", self._store.url)
        reader = reader.option("batch_documents_max", str(settings.batch_documents_max))
        writer = reader.option("parts", str(settings.parts)).load().writeStream.foreachBatch(self._run)
        self._query = writer.option("checkpointLocation", self._checkpoint.spark).start()

    @property
    def is_running(self) -> bool:
        """Does it take documents?"""
        return self._query is not None and self._query.isActive

    def failure(self) -> str | None:
        """Why it stopped by itself, if it did."""
        error = None if self._query is None else self._query.exception()
        return None if error is None else str(error).strip().splitlines()[0]

    def stop(self) -> None:
        """Lets the batch that runs end, then stops."""
        if self._query is None:
            return
        ended = self._busy.acquire(timeout=self._settings.stop_seconds_max)
        try:
            self._query.stop()
        finally:
            if ended:
                self._busy.release()
            self._query = None

    def catch_up(self, seconds_max: float = 600.0) -> None:
        """Waits until everything that is accepted now is matched."""
        upto, start = documents.last_position(self._store), time.monotonic()
        while self._progress.matched < upto:
            if not self.is_running:
                raise PipelineError(f"the stream stopped: {self.failure() or 'it was told to'}")
            if time.monotonic() - start > seconds_max:
                raise PipelineError(f"the stream is {upto - self._progress.matched:,} documents behind")
            time.sleep(0.02)

    def statistics(self) -> Statistics | None:
        """What words weigh now; None before the first document was counted."""
        ref = self._counting.current
        return None if ref is None else opened(ref)

    def preview(self, asked: Asked, period: Period = ALWAYS) -> Preview:
        """What the query would have brought, from the stored history; QueryError if it is refused."""
        weights = self._counting.current
        return preview(self._spark, self._store, asked, period=period, analysis=self._analysis, statistics=weights)

    def progress(self) -> Progress:
        """How far it is."""
        now = self._progress
        accepted = max(now.matched, documents.last_position(self._store))
        return Progress(now.matched, accepted, now.documents, now.matches, now.batch_documents, now.batch_seconds)

    # --- a batch -------------------------------------------------------------------------------

    def _run(self, frame: DataFrame, number: int) -> None:
        with self._busy:
            start = time.monotonic()
            last = self._checkpoint.position(number)
            with self._store.read() as transaction:
                first = documents.matched(transaction)
            if last <= first:
                return  # done before a crash
            snapshot = self._keeper.refresh(first)
            statistics = self._counting.refresh(last)
            planned = Batch(MATCHING, last, first, last, snapshot.version, statistics.version)
            batch, is_done = outbox.begin(self._store, planned)
            if is_done:
                return
            statistics = self._counting.at(batch.statistics) or statistics
            batch = replace(batch, snapshot=snapshot.version, statistics=statistics.version)
            seen = Observation("seen")
            size = F.avg(F.octet_length("body")).alias("bytes")
            observed = frame.observe(seen, F.count(F.lit(1)).alias("documents"), size)
            plan = self._plan(last - first)
            prepared = self._keeper.prepared(plan)
            matches = meet(observed, prepared, plan.strategy, statistics, evidence=self._settings.evidence)
            is_small = last - first <= self._settings.small_documents_max
            with self._staging.rows(matches, f"{MATCHING}-{last}", is_small) as rows:
                every = list(found(rows))
            staged = [row for row in every if row.position >= 0]
            if len(staged) < len(every):
                self._remark([row for row in every if row.position < 0], staged)
            hits = self._hits(frame, statistics, f"nested-{last}", is_small)
            self._document_bytes = float(seen.get["bytes"] or self._document_bytes)
            receipt = Receipt(0, int(seen.get["documents"]), len(self._keeper))
            written = outbox.finish(self._store, batch, staged, [receipt], self._nested(batch, hits, statistics))
            self._note(last, receipt.documents, written, time.monotonic() - start)

    def _remark(self, remarks: Iterable[Found], matches: Iterable[Found]) -> None:
        """Notes which subscriptions failed, and which were looked at one document at a time."""
        if failed := {row.revision: row.evidence or "" for row in remarks if row.position == FAILED}:
            subscriptions.set_error(self._store, failed)
        tried: Counter[int] = Counter()
        for row in remarks:
            if row.position == TRIED:
                tried[row.revision] += row.version
        matched = Counter(row.revision for row in matches)
        journal.add_costs(self._store, {revision: (count, matched[revision]) for revision, count in tried.items()})

    def _plan(self, count: int) -> MeetingPlan:
        """How a batch of so many documents meets the subscriptions."""
        facts = BatchFacts(
            queries=len(self._keeper),
            index_bytes=self._keeper.nbytes,
            memory_bytes=self._settings.worker_index_bytes_max,
            documents=count,
            document_bytes=self._document_bytes,
            words=self._document_bytes / WORD_BYTES,
            cores=self._spark.sparkContext.defaultParallelism,
            candidates=self._keeper.candidates(),
        )
        self._meeting = plan_meeting(facts)
        return self._meeting

    def explain(self) -> str:
        """How the last batch met the subscriptions, and why so."""
        return "no batch was planned yet" if self._meeting is None else self._meeting.explain()

    def _hits(self, frame: DataFrame, statistics: StatisticsRef, name: str, is_small: bool) -> Hits | None:
        """Which plain parts of nested queries hold for the batch's documents; None if there are no nested queries."""
        if not len(self._keeper.nested):
            return None
        parts = find_matches(frame, self._keeper.nested.snapshot(), statistics)
        with self._staging.rows(parts.where(parts.position > FAILED), name, is_small) as rows:
            return hits_of(found(rows))

    def _nested(
        self, batch: Batch, hits: Hits | None, statistics: StatisticsRef
    ) -> Callable[[Transaction], Iterable[Found]] | None:
        """What the nested subscriptions are told, within the outbox's transaction."""
        if hits is None:
            return None
        weights = open_statistics(statistics)
        return lambda transaction: list(self._keeper.nested.tell(transaction, batch.first, batch.last, hits, weights))

    def _note(self, matched: int, documents: int, matches: int, seconds: float) -> None:
        was = self._progress
        total, told = was.documents + documents, was.matches + matches
        self._progress = Progress(matched, matched, total, told, documents, seconds)
        if matches and self._noticed is not None:
            self._noticed(matches)
