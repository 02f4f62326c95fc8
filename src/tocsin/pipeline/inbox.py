"""The site's inbox as a source of Spark: documents by their position in the store's log.

An offset is a position, so Spark's own log of offsets says exactly which documents a batch has, and a batch that is
run again has the same ones. Workers read their part of the range from the store themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from tocsin.pipeline.schema import DOCUMENTS, DOCUMENTS_ARROW
from tocsin.store import Store, documents

PART_ROWS_MIN = 1_000  # documents that are worth a task of their own

Period = tuple[float | None, float | None]
"""Moments from the first on, before the second; None: open."""
ALWAYS: Period = (None, None)


class Range(InputPartition):
    """The documents of the log after a position, up to another."""

    def __init__(self, after: int, upto: int) -> None:
        super().__init__((after, upto))
        self.after, self.upto = after, upto


class Inbox(DataSource):
    """The format "tocsin_inbox": as a stream with the option batch_documents_max, as history with after and upto."""

    @classmethod
    def name(cls) -> str:
        """Its name as a format."""
        return "tocsin_inbox"

    def schema(self) -> StructType:
        """Of a document on its way."""
        return DOCUMENTS

    def streamReader(self, schema: StructType) -> InboxReader:
        """The reader of a stream."""
        return InboxReader(self.options["url"], int(self.options["batch_documents_max"]), int(self.options["parts"]))

    def reader(self, schema: StructType) -> HistoryReader:
        """The reader of a range."""
        whole = Range(int(self.options["after"]), int(self.options["upto"]))
        since, until = (self.options.get(name) for name in ("since", "until"))
        period = (float(since) if since else None, float(until) if until else None)
        return HistoryReader(self.options["url"], whole, int(self.options["parts"]), period)


class HistoryReader(DataSourceReader):
    """A range of the log, of all time or of a period."""

    def __init__(self, url: str, whole: Range, parts: int, period: Period) -> None:
        self._url, self._whole, self._parts, self._period = url, whole, parts, period

    def partitions(self) -> Sequence[InputPartition]:
        """The range in parts."""
        return split(self._whole.after, self._whole.upto, self._parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The documents of a part, as Arrow batches."""
        return read(self._url, partition, self._period)


class InboxReader(DataSourceStreamReader):
    """Offsets are `{"position": n}`: all documents up to there."""

    def __init__(self, url: str, batch_documents_max: int, parts: int) -> None:
        self._url = url
        self._max = batch_documents_max
        self._parts = parts
        self._opened: Store | None = None

    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store(self._url, create=False)
        return self._opened

    def initialOffset(self) -> dict[str, int]:
        """Where the store says that matching has come to: the first document ever, or where a lost checkpoint was."""
        with self._store().read() as transaction:
            return {"position": documents.matched(transaction)}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Admission control: no batch has more documents than this."""
        return ReadMaxRows(self._max)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """How far the next batch goes."""
        last = documents.last_position(self._store())
        return {"position": min(last, start["position"] + self._max)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The range in parts."""
        return split(start["position"], end["position"], self._parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The documents of a part, as Arrow batches."""
        return read(self._url, partition)

    def stop(self) -> None:
        """Lets go of the store."""
        if self._opened is not None:
            self._opened.close()


def split(after: int, upto: int, parts: int) -> list[InputPartition]:
    """A range in equal parts, none too small to be worth a task."""
    useful = max(1, min(parts, (upto - after) // PART_ROWS_MIN))
    step = max(1, ceil((upto - after) / useful))
    return [Range(first, min(first + step, upto)) for first in range(after, upto, step)]


def read(url: str, partition: InputPartition, period: Period = ALWAYS) -> Iterator[pa.RecordBatch]:
    """The documents of a part of the log, as rows of DOCUMENTS."""
    after, upto = partition.value
    store = Store(url, create=False)
    try:
        since, until = period
        for rows in documents.read(store, after, upto, chunk=4_096, since=since, until=until):
            columns = {name: [getattr(row, name) for row in rows] for name in DOCUMENTS_ARROW.names}
            yield pa.RecordBatch.from_pydict(columns, schema=DOCUMENTS_ARROW)
    finally:
        store.close()


def register(spark: SparkSession) -> None:
    """Makes the source known to the session."""
    spark.dataSource.register(Inbox)


def history(
    spark: SparkSession, store: Store, after: int, upto: int, *, period: Period = ALWAYS, parts: int = 8
) -> DataFrame:
    """The documents of a range of the log."""
    register(spark)
    options = {"url": store.url, "parts": str(parts), "after": str(after), "upto": str(upto)}
    options |= {name: str(bound) for name, bound in zip(("since", "until"), period, strict=True) if bound is not None}
    return spark.read.format(Inbox.name()).options(**options).load()
