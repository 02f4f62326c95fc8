"""Documents from elsewhere into the site's inbox: a watched folder, a topic of Kafka, generated ones.

Every source is a stream of Spark whose workers parse; the driver writes what they found into the store's log, a chunk
at a time, each in one transaction with its number. A record that cannot be read becomes a dead letter with its place
and reason; nothing else waits for it. From the log the documents go the way of all others (`stream`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.errors import InputError, PipelineError
from tocsin.files.inputs import Input, find_inputs
from tocsin.intake import document_from_json, document_to_json
from tocsin.model import Document
from tocsin.pipeline.checkpoint import Checkpoint
from tocsin.pipeline.files_source import Piece, PieceReader, divide, over_pieces
from tocsin.pipeline.schema import PARSED, PARSED_ARROW
from tocsin.pipeline.sinks import Staging
from tocsin.pipeline.stages import excerpt, parse
from tocsin.sim.scholarly import papers
from tocsin.store import Store
from tocsin.store.arrivals import arrive
from tocsin.store.outbox import Letter

CHUNKS = 1_000_000  # chunks of a batch are numbered within it
FOREVER = "36500d"
FILES = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"  # as Spark wants to be told
NOTHING: dict[str, object] = dict.fromkeys(PARSED_ARROW.names)


class Source(Protocol):
    """Where documents come from."""

    @property
    def name(self) -> str:
        """Its name: one stream each, so it must not change."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """What arrives, as a stream."""

    def parsed(self, arrived: DataFrame) -> DataFrame:
        """What arrived in a batch, as rows of PARSED in a fixed order."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Files of every kind that `tocsin match` reads; each once, when it appears: move it in when it is whole."""

    name: str
    path: Path
    batch_files_max: int = 100
    pattern: str = "*"

    def stream(self, spark: SparkSession) -> DataFrame:
        """The new files; their content is not read here."""
        if not self.path.is_dir():
            raise InputError(f"{self.path}: this is no folder that can be watched")
        reader = spark.readStream.format("binaryFile").schema(FILES).option("pathGlobFilter", self.pattern)
        reader = reader.option("maxFilesPerTrigger", str(self.batch_files_max)).option("maxFileAge", FOREVER)
        return reader.option("recursiveFileLookup", "true").load(str(self.path)).select("path", "modificationTime")

    def parsed(self, arrived: DataFrame) -> DataFrame:
        """The records of the files, oldest file first."""
        spark = arrived.sparkSession
        rows = arrived.orderBy("modificationTime", "path").collect()
        inputs: list[Input] = []
        unreadable: list[dict[str, object]] = []
        for path in (Path("/" + row.path.removeprefix("file:").lstrip("/")) for row in rows):  # Spark does not escape
            try:
                inputs += find_inputs([path])
            except InputError as error:
                unreadable.append(NOTHING | {"file": str(path), "position": len(unreadable), "reason": str(error)})
        pieces = divide(inputs, spark.sparkContext.defaultParallelism)
        parsed = over_pieces(spark, pieces, _parsed_piece, PARSED)
        if not unreadable:
            return parsed
        return parsed.union(spark.createDataFrame(pa.Table.from_pylist(unreadable, PARSED_ARROW)))


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of Kafka whose messages are documents in JSON; the session must have Kafka's connector."""

    name: str
    servers: str
    topic: str
    batch_messages_max: int = 20_000
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of Kafka (security and the like), by their own names."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """The messages, from the first that is kept; a gap stops the stream rather than losing documents silently."""
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", self.topic).option("startingOffsets", "earliest")
        reader = reader.option("maxOffsetsPerTrigger", str(self.batch_messages_max)).option("failOnDataLoss", "true")
        try:
            return reader.options(**self.options).load()
        except AnalysisException as error:
            raise PipelineError(
                "Spark has no connector for Kafka: give the session one by spark.jars.packages "
                f"(org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}) or spark.jars"
            ) from error

    def parsed(self, arrived: DataFrame) -> DataFrame:
        """The messages' documents, by partition and offset."""
        place = F.concat_ws("/", "topic", F.col("partition").cast("string"))
        raw = arrived.select(place.alias("file"), F.col("offset").alias("position"), F.col("value").alias("line"))
        return parse(raw.orderBy("file", "position")).withColumn("file", F.concat_ws(":", "file", "position"))


@dataclass(frozen=True, slots=True)
class Generated:
    """Papers that never were, so many a second, for demonstrations and tests; the same ones for a seed."""

    name: str
    documents_per_second: int = 10
    seed: int = 1

    def stream(self, spark: SparkSession) -> DataFrame:
        """Numbers."""
        reader = spark.readStream.format("rate").option("rowsPerSecond", str(self.documents_per_second))
        return reader.option("numPartitions", "1").load()

    def parsed(self, arrived: DataFrame) -> DataFrame:
        """The papers of these numbers."""
        return arrived.select("value").orderBy("value").mapInArrow(partial(_papers, self.seed), PARSED)


def _parsed_piece(piece: Piece) -> Iterator[pa.RecordBatch]:
    reader = PieceReader(piece)
    rows = []
    for record in reader.read():
        row = NOTHING | {"file": _place(piece, record.line), "position": record.position}
        if record.document is None:
            row |= {"reason": record.reason, "excerpt": excerpt(record.raw or b"")}
        else:
            row |= _columns(record.document)
        rows.append(row)
        if len(rows) >= 1_024:
            yield pa.RecordBatch.from_pylist(rows, PARSED_ARROW)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, PARSED_ARROW)


def _columns(document: Document) -> dict[str, object]:
    return {"id": document.id, "version": document.version, "body": document_to_json(document)}


def _place(piece: Piece, line: int) -> str:
    """File and line; in a file that was split, lines are counted from the piece's first byte."""
    start = f" from byte {piece.start}" if piece.start else ""
    return f"{piece.name}:{line}{start}"


def _papers(seed: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = []
        for number in batch.column("value").to_pylist():
            paper = _Papers.of(seed).at(number)
            rows.append(NOTHING | {"position": number} | _columns(paper))
        yield pa.RecordBatch.from_pylist(rows, PARSED_ARROW)


class _Papers:
    """The papers of a seed by number; asking for an earlier one begins anew."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._begin()

    def _begin(self) -> None:
        self._papers, self._next = papers(self._seed), 0

    def at(self, number: int) -> Document:
        if number < self._next:
            self._begin()
        while self._next < number:
            next(self._papers)
            self._next += 1
        self._next += 1
        return next(self._papers)

    @staticmethod
    @lru_cache(maxsize=4)
    def of(seed: int) -> _Papers:
        """A worker keeps them between batches."""
        return _Papers(seed)


class Ingest:
    """Brings a source's documents into the store, as they come."""

    def __init__(
        self, store: Store, folder: Path, spark: SparkSession, source: Source, *, chunk_documents_max: int = 2_000
    ) -> None:
        self._store = store
        self._spark = spark
        self._source = source
        self._chunk = chunk_documents_max
        self._job = f"ingest-{source.name}"
        self._checkpoint = Checkpoint(folder / self._job, store.id)
        self._staging = Staging(folder / f"{self._job}-staging")
        self._query: StreamingQuery | None = None
        self.accepted = 0
        self.refused = 0
        """Documents and records since the start."""

    def start(self) -> None:
        """Begins; comes back at once."""
        writer = self._source.stream(self._spark).writeStream.foreachBatch(self._run)
        self._query = writer.option("checkpointLocation", self._checkpoint.spark).start()

    @property
    def is_running(self) -> bool:
        """Does it take documents?"""
        return self._query is not None and self._query.isActive

    def failure(self) -> str | None:
        """Why it stopped by itself, if it did."""
        error = None if self._query is None else self._query.exception()
        return None if error is None else str(error).strip().splitlines()[0]

    def catch_up(self) -> None:
        """Waits until everything that is there now is in the store."""
        if self._query is not None:
            self._query.processAllAvailable()

    def stop(self) -> None:
        """Stops; what was under way is done again at the next start."""
        if self._query is not None:
            self._query.stop()
            self._query = None

    def _run(self, arrived: DataFrame, number: int) -> None:
        with self._staging.rows(self._source.parsed(arrived), f"{self._job}-{number}", is_small=False) as rows:
            for chunk, table in enumerate(_chunks(rows, self._chunk)):
                self._arrive(number * CHUNKS + chunk, table)

    def _arrive(self, number: int, rows: list[dict[str, object]]) -> None:
        documents, letters = [], []
        for row in rows:
            place = str(row["file"]) if row["file"] else f"{self._source.name}:{row['position']}"
            if row["reason"] is None:
                documents.append((place, document_from_json(str(row["body"]))))
            else:
                letters.append(Letter(place, str(row["reason"]), str(row["excerpt"] or "")))
        accepted = arrive(self._store, self._job, number, documents, letters)
        if accepted is not None:
            self.accepted += accepted.count
            self.refused += len(letters) + len(accepted.refused)


def _chunks(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[list[dict[str, object]]]:
    """Rows in lists of a size; where the cuts are depends on the rows alone, so a repeat has the same chunks."""
    rows: list[dict[str, object]] = []
    for batch in batches:
        for row in batch.to_pylist():
            rows.append(row)
            if len(rows) == size:
                yield rows
                rows = []
    if rows:
        yield rows
