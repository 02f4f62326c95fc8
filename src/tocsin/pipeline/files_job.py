"""`tocsin match --spark`: the same lines as `tocsin match`, made by many workers.

Three steps. *Look*: every piece is read once; workers check records, count words, and tell id, version and fingerprint
of each document. *Admit*: where ids repeat, the rule of versions (`intake.Admission`) decides in the order of
positions; documents that do not count are taken away from the statistics again. *Match*: every piece is read a second
time, matched and scored, and gives its lines in order, so putting the pieces in order puts all lines in order.

Nested subscriptions depend on all documents before: they run here, on one core, and their lines are merged in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from itertools import accumulate, chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tocsin.errors import DocumentError
from tocsin.files import Entry, Input, Rejection
from tocsin.intake import fingerprint, shown
from tocsin.markup import read_markup
from tocsin.match.engines import engine_named, path_engine_named
from tocsin.match.explain import why
from tocsin.match.lines import Found, Lines
from tocsin.match.matcher import Matcher
from tocsin.match.registry import Registry
from tocsin.model import Document, Subscription
from tocsin.pipeline.files_source import ROWS_TOGETHER, Piece, PieceReader, batched, divide, is_document, over_pieces
from tocsin.pipeline.schema import COUNTS, MATCHES, spark_schema
from tocsin.pipeline.stages import Scorer, SnapshotRef, open_scorer
from tocsin.pipeline.statistics import DOCUMENT, SOURCE, WORD, Collected, StatisticsRef, Tally, add_up
from tocsin.query.ast import nested
from tocsin.query.semantics import Knowledge
from tocsin.settings import DEFAULTS
from tocsin.text import Analysis

SAMPLE = 100  # documents that tell which words are rare
ADMITTED, REFUSED, LENGTH = "admitted", "refused", "lines"
LOOK_ARROW = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("position", pa.int64()),
        pa.field("piece", pa.int32()),
        pa.field("line", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("mark", pa.binary()),
    ]
)
"""What a look finds: documents (name = id, count = version), rejections (name = reason), lines of a piece, counts."""
LINES_ARROW = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("subscription", pa.string(), nullable=False),
        pa.field("line", pa.string(), nullable=False),
    ]
)
"""A line of output and where it stands; at position -1: a subscription that failed, and why."""

Line = tuple[int, str, str]
HEAD = ["position", "id", "version"]


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be matched."""

    registry: Registry
    nested: Sequence[Subscription]
    analysis: Analysis
    evidence: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look found: the pieces with what is to be passed over, the statistics, and what was refused, in order."""

    pieces: list[Piece]
    collected: Collected
    rejections: list[Rejection]


# --- look ------------------------------------------------------------------------------------------------------------


def look(spark: SparkSession, inputs: Sequence[Input], analysis: Analysis, piece_bytes: int | None = None) -> Seen:
    """Reads all files once."""
    pieces = divide(inputs, spark.sparkContext.defaultParallelism, piece_bytes)
    found = over_pieces(spark, pieces, partial(_look_at, analysis), spark_schema(LOOK_ARROW))
    found = found.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counts = add_up(found.where(F.col("kind").isin(DOCUMENT, WORD, SOURCE)).select(*COUNTS.names)).toArrow()
        collected = Collected(analysis).plus(counts)
        first_line = _first_lines(found, pieces)
        repeats = _repeats(found.where(F.col("kind") == ADMITTED)).toArrow().to_pylist()
        refused = (
            found.where(F.col("kind") == REFUSED).select("position", "piece", "line", "name").toArrow().to_pylist()
        )
    finally:
        found.unpersist()
    refused += [row | {"name": reason} for row in repeats if (reason := _conflict(row))]
    rejections = [
        Rejection(pieces[row["piece"]].name, row["line"] and row["line"] + first_line[row["piece"]], row["name"])
        for row in sorted(refused, key=itemgetter("position"))
    ]
    if repeats:
        dropped = _only(pieces, [row for row in repeats if not row["admitted"] or row["replaced"]])
        taken = over_pieces(spark, dropped, partial(_count_only, analysis), COUNTS)
        collected = collected.plus(add_up(taken).toArrow(), sign=-1)
        pieces = _without(pieces, [row for row in repeats if not row["admitted"]])
    return Seen(pieces, collected, rejections)


def _look_at(analysis: Analysis, piece: Piece) -> Iterator[pa.RecordBatch]:
    tally, reader = Tally(analysis), PieceReader(piece)
    for records in batched(reader.read(), ROWS_TOGETHER):
        rows: list[tuple[Any, ...]] = []
        for record in records:
            document = record.document
            if document is None:
                rows.append((REFUSED, record.position, piece.number, record.line, record.reason, None, None))
                continue
            tally.add(document)
            mark = fingerprint(document)
            row = (ADMITTED, record.position, piece.number, record.line, document.id, document.version, mark)
            rows.append(row)
        yield _rows(rows)
    yield _rows([(LENGTH, None, piece.number, None, None, reader.lines, None)])
    counts = tally.batch()
    nothing = [pa.nulls(counts.num_rows, kind) for kind in (pa.int64(), pa.int32(), pa.int64())]
    kind, name, count = counts.columns
    columns = [kind, *nothing, name, count, pa.nulls(counts.num_rows, pa.binary())]
    yield pa.RecordBatch.from_arrays(columns, schema=LOOK_ARROW)


def _rows(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, LOOK_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LOOK_ARROW)


def _first_lines(found: DataFrame, pieces: Sequence[Piece]) -> list[int]:
    """How many lines stand before each piece in its file."""
    rows = found.where(F.col("kind") == LENGTH).select("piece", "count").toArrow().to_pylist()
    lines = {row["piece"]: row["count"] for row in rows}
    before = list(accumulate((lines.get(piece.number, 0) for piece in pieces), initial=0))
    first = {piece.file: before[at] for at, piece in reversed(list(enumerate(pieces)))}
    return [before[at] - first[piece.file] for at, piece in enumerate(pieces)]


# --- admit -----------------------------------------------------------------------------------------------------------


def _repeats(documents: DataFrame) -> DataFrame:
    """The documents whose id came more than once and that were not admitted, or were replaced later.

    The rule in words of windows: what is known when a document comes is the highest version before it, and the first
    document that had that version.
    """
    repeated = documents.groupBy("name").count().where("count > 1").select("name")
    by_id = Window.partitionBy("name").orderBy("position")
    by_version = Window.partitionBy("name", "count").orderBy("position")
    known: Column = F.max("count").over(by_id.rowsBetween(Window.unboundedPreceding, -1))
    highest: Column = F.max("count").over(Window.partitionBy("name"))
    placed = documents.join(repeated, "name", "left_semi").select(
        "position",
        "piece",
        "line",
        "name",
        F.col("count").alias("version"),
        known.alias("known"),
        (F.col("mark") == F.first("mark").over(by_version)).alias("same"),
        (highest > F.col("count")).alias("replaced"),
    )
    admitted = F.col("known").isNull() | (F.col("version") > F.col("known"))
    return placed.withColumn("admitted", admitted).where("replaced OR NOT admitted")


def _conflict(row: dict[str, Any]) -> str:
    """Why a document that came again is refused, in the words of intake.Admission; "" if it is not."""
    if row["admitted"] or (row["version"] == row["known"] and row["same"]):
        return ""
    if row["version"] < row["known"]:
        said = f"has version {row['version']}, but version {row['known']} came before"
    else:
        said = f"came before with version {row['version']} and other content"
    return f"{shown(row['name'])} {said}: a new version needs a higher number"


def _without(pieces: Sequence[Piece], rows: Iterable[dict[str, Any]]) -> list[Piece]:
    """The pieces, told to pass over these documents."""
    by_piece: dict[int, list[int]] = {}
    for row in rows:
        by_piece.setdefault(row["piece"], []).append(row["position"])
    return [
        replace(piece, left_out=np.sort(np.array(by_piece[piece.number], np.int64)).tobytes())
        if piece.number in by_piece
        else piece
        for piece in pieces
    ]


def _only(pieces: Sequence[Piece], rows: Sequence[dict[str, Any]]) -> list[Piece]:
    """The pieces that hold these documents; what they pass over is what is wanted here."""
    return [piece for piece in _without(pieces, rows) if piece.left_out]


def _count_only(analysis: Analysis, piece: Piece) -> Iterator[pa.RecordBatch]:
    """Counts of just the documents that the piece would pass over."""
    wanted = set(np.frombuffer(piece.left_out, np.int64).tolist())
    tally = Tally(analysis)
    for record in PieceReader(replace(piece, left_out=b"")).read():
        if record.position in wanted and record.document is not None:
            tally.add(record.document)
    yield tally.batch()


# --- match -----------------------------------------------------------------------------------------------------------


def match_pieces(
    spark: SparkSession,
    pieces: Sequence[Piece],
    snapshot: SnapshotRef,
    statistics: StatisticsRef | None = None,
    *,
    evidence: bool = False,
) -> DataFrame:
    """MATCHES of the pieces, in order. Workers read the files themselves: only matches travel."""
    return over_pieces(spark, pieces, partial(match_piece, snapshot, statistics, evidence), MATCHES)


def match_piece(
    snapshot: SnapshotRef, statistics: StatisticsRef | None, evidence: bool, piece: Piece
) -> Iterator[pa.RecordBatch]:
    """The Arrow side of match_pieces: MATCHES of one piece."""
    scorer, reader = open_scorer(snapshot, statistics), PieceReader(piece)
    quick = reader.quickly()
    if quick is not None:
        positions, lines = quick
        found = _found(scorer, lines)
        if found is not None:
            yield from _match_lines(scorer, found, positions, piece, evidence)
            return
    records = ((one.position, one.document) for one in reader.read() if one.document is not None)
    for some in batched(records, ROWS_TOGETHER):
        documents = [document for _, document in some]
        heads = zip(*((position, document.id, document.version) for position, document in some), strict=True)
        rows = pa.RecordBatch.from_arrays([pa.array(column) for column in heads], HEAD)
        owners, places = scorer.find_in(documents)
        yield from scorer.rows(owners, places, documents.__getitem__, rows, evidence)


def _found(scorer: Scorer, lines: Lines) -> Found | None:
    """What is found in lines as they lie; None if one of them must be looked at closer than that."""
    try:
        found = scorer.find(lines, DEFAULTS.document)
        for document in found.odd.values():
            if document.xml is not None:
                read_markup(document.xml)  # XML is checked before its document counts
    except DocumentError:
        return None
    return None if any(is_document(lines[line]) for line in found.refused) else found


def _match_lines(
    scorer: Scorer, found: Found, positions: npt.NDArray[np.int64], piece: Piece, evidence: bool
) -> Iterator[pa.RecordBatch]:
    """Only lines that match become rows."""
    kept = ~np.isin(positions[found.places], np.frombuffer(piece.left_out, np.int64))
    owners, places = found.owners[kept], found.places[kept]
    lines, places = np.unique(places, return_inverse=True)
    if lines.size:
        heads = pa.RecordBatch.from_arrays(
            [pa.array(positions[lines]), _ids(found, lines), pa.array(found.version[lines])], HEAD
        )
        yield from scorer.rows(owners, places, lambda at: found.document(int(lines[at])), heads, evidence)


def _ids(found: Found, lines: npt.NDArray[np.int64]) -> pa.Array:
    """The ids of lines; those of plain lines are copied together from where they lie."""
    starts, ends = found.id_start[lines], found.id_end[lines]
    if (starts < 0).any():
        return pa.array([found.id(line) for line in lines.tolist()])
    sizes = ends - starts
    upto = np.cumsum(sizes)
    texts = found.lines.buffer[np.arange(upto[-1]) + np.repeat(starts - upto + sizes, sizes)]
    offsets = np.concatenate([[0], upto]).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), lines.size, [None, pa.py_buffer(offsets), pa.py_buffer(texts)])


def _lines_of(
    snapshot: SnapshotRef, statistics: StatisticsRef | None, evidence: bool, piece: Piece
) -> Iterator[pa.RecordBatch]:
    for batch in match_piece(snapshot, statistics, evidence, piece):
        columns = (batch.column(name).to_pylist() for name in ("subscription", "document", "score", "evidence"))
        lines = [_line(*row) for row in zip(*columns, strict=True)]
        arrays = [batch.column("position"), batch.column("subscription"), pa.array(lines)]
        yield pa.RecordBatch.from_arrays(arrays, schema=LINES_ARROW)
    failed = open_scorer(snapshot, statistics).registry.errors()
    told = {"position": [-1 for _ in failed], "subscription": list(failed), "line": list(failed.values())}
    yield pa.RecordBatch.from_pydict(told, LINES_ARROW)


def _line(subscription: str, document: str, score: float, evidence: str | None = None) -> str:
    names = (_json(name) for name in (subscription, document))
    told = "" if evidence is None else f', "evidence": {evidence}'
    return '{{"subscription": {}, "document": {}, "score": {}{}}}'.format(*names, score, told)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


class FilesJob:
    """One run over files; `folder` is an empty folder that this process and all workers can write."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.failed: dict[str, str] = {}
        """Subscriptions that could not be evaluated, with the reason; known after the lines were read."""
        self._spark = spark
        self._folder = folder

    def look(self, inputs: Sequence[Input], analysis: Analysis, piece_bytes: int | None = None) -> Seen:
        """The first step; the statistics are kept for the others."""
        return look(self._spark, inputs, analysis, piece_bytes)

    def run(self, seen: Seen, question: Question) -> None:
        """Matches; the lines are kept until they are read."""
        statistics = seen.collected.save(self._folder / "statistics")
        index = self._folder / "index"
        _order_by_sample(question.registry, seen)
        snapshot = SnapshotRef(str(index), question.registry.save(index))
        work = partial(_lines_of, snapshot, statistics, question.evidence)
        lines = over_pieces(self._spark, seen.pieces, work, spark_schema(LINES_ARROW))
        lines.write.parquet(str(self._folder / "lines"))

    def lines(self, seen: Seen, question: Question) -> Iterator[str]:
        """All lines of output, in document order, then by subscription."""
        if not question.nested:
            return (line for _, _, line in self._found())
        found = merge(self._found(), _nested_lines(seen, question), key=itemgetter(0, 1))
        return (line for _, _, line in found)

    def _found(self) -> Iterator[Line]:
        for path in sorted(
            (self._folder / "lines").glob("part-*.parquet"), key=lambda path: (len(path.name), path.name)
        ):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches():
                    columns = (batch.column(name).to_pylist() for name in LINES_ARROW.names)
                    for position, subscription, line in zip(*columns, strict=True):
                        if position < 0:
                            self.failed[subscription] = line
                        else:
                            yield position, subscription, line


def _order_by_sample(registry: Registry, seen: Seen) -> None:
    """Clauses wait under words that are rare in these documents (SmartSeer §III bootstraps with 100 of them)."""
    some = chain.from_iterable(islice(PieceReader(piece).read(), SAMPLE) for piece in seen.pieces)
    documents = [record.document for record in islice(some, SAMPLE) if record.document is not None]
    if documents:
        registry.match_owners(documents, Knowledge(registry.analysis, seen.collected.statistics()))
        registry.index.reorganise()


def _nested_lines(seen: Seen, question: Question) -> Iterator[Line]:
    """The nested subscriptions, on this core; a match stands at the document that caused it."""
    analysis, statistics = question.analysis, seen.collected.statistics()
    engine, paths = engine_named("auto", analysis), path_engine_named("auto")
    matcher = Matcher(question.nested, engine, analysis, statistics, paths)
    positions: dict[tuple[str, int], int] = {}

    def documents() -> Iterator[Document]:
        for piece in seen.pieces:
            for record in PieceReader(piece).read():
                if record.document is not None:
                    positions[record.document.id, record.document.version] = record.position
                    yield record.document

    for hit in matcher.match(documents()):
        told = None
        if question.evidence:
            told = json.dumps(
                why(hit.subscription, hit.document, matcher.knowledge_of(hit.subscription)), ensure_ascii=False
            )
        line = _line(hit.subscription.id, hit.document.id, hit.score, told)
        yield positions[hit.cause.id, hit.cause.version], hit.subscription.id, line


def question_of(
    entries: Iterable[tuple[Subscription, Entry]], analysis: Analysis, *, evidence: bool = False
) -> Question:
    """Subscriptions that were read and checked before, each with what was written."""
    registry, with_sets = Registry(analysis), []
    for subscription, entry in entries:
        if subscription.query is not None and any(nested(subscription.query)):
            with_sets.append(subscription)
        else:
            registry.add(subscription.id, entry.query, entry.xpath, entry.namespaces)
    return Question(registry, with_sets, analysis, evidence)
