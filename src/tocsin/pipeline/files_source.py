"""Files in pieces that workers read side by side, in the same way as `tocsin.files` reads them one after the other.

Plain JSON lines are split by bytes: a line belongs to the piece in which it starts. Parquet is split by row groups.
Whatever cannot be split (CSV, JSON arrays, packed data, XML) is one piece for the whole file. Every record has a
*position*, a number that orders all records of all files as one reader would meet them; lines are counted within a
piece, and where a piece's first line is in its file is known once the pieces before it were read.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tocsin.errors import DocumentError, InputError
from tocsin.files import Input, Rejection, read_documents
from tocsin.files.inputs import PACKINGS, reason_of
from tocsin.files.pieces import HEAD_BYTES, _format
from tocsin.files.unpacked import FOREIGN, GZIP, ZSTD, chunks
from tocsin.intake import (
    BOM,
    decode_utf8,
    document_from_json,
    document_from_object,
    document_to_json,
    too_large,
)
from tocsin.markup import read_markup
from tocsin.match.lines import Lines
from tocsin.model import Document
from tocsin.pipeline.schema import DOCUMENTS, DOCUMENTS_ARROW, REJECTIONS, REJECTIONS_ARROW
from tocsin.settings import DEFAULTS, DocumentLimits

T = TypeVar("T")

PIECE_BYTES_MIN, PIECE_BYTES_MAX = 1 << 20, 32 << 20
PIECES_PER_CORE = 4  # so that a slow one does not hold up the end
FILE_BITS = 42  # a position is a file's number and a place of 42 bits in it
FILES_MAX = 1 << 63 - FILE_BITS
ROWS_TOGETHER = 1_024
LINES, PARQUET, MARKUP, OTHER = "lines", "parquet", "xml", "other"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file: bytes (of lines) or row groups (of Parquet) from `start` to `end`, or all of it."""

    number: int
    file: int
    name: str
    path: str
    kind: str
    start: int = 0
    end: int = 0
    left_out: bytes = b""
    """Positions to pass over, ascending, as int64."""

    def position(self, place: int) -> int:
        """Where a record stands among all."""
        return self.file << FILE_BITS | place


class Read(NamedTuple):
    """A record of a piece: a document, or the reason why there is none. Line 0 is the file as a whole."""

    position: int
    line: int
    document: Document | None
    reason: str = ""
    raw: bytes | None = None
    """The document as it was written, if that was JSON."""


# --- dividing --------------------------------------------------------------------------------------------------------


def divide(inputs: Sequence[Input], cores: int, piece_bytes: int | None = None) -> list[Piece]:
    """The pieces of all files, in order; InputError if there are too many files."""
    if len(inputs) > FILES_MAX:
        raise InputError(f"{len(inputs):,} files at once: at most {FILES_MAX:,} can be read together")
    paths = [Path(each.path or "") for each in inputs]
    if piece_bytes is None:
        total = sum(path.stat().st_size for path in paths)
        piece_bytes = min(max(total // (cores * PIECES_PER_CORE), PIECE_BYTES_MIN), PIECE_BYTES_MAX)
    found: list[Piece] = []
    for file, (source, path) in enumerate(zip(inputs, paths, strict=True)):
        kind = _kind(source, path)
        for start, end in _spans(path, kind, piece_bytes):
            found.append(Piece(len(found), file, source.name, str(path.absolute()), kind, start, end))
    return found


def _kind(source: Input, path: Path) -> str:
    name = source.name.lower()
    if name.endswith(".parquet"):
        return PARQUET
    for packing in PACKINGS:
        name = name.removesuffix(packing)
    if name.endswith(".xml"):
        return MARKUP
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return OTHER  # the reader says what is wrong
    if GZIP.match(head) or ZSTD.match(head) or head.startswith(tuple(FOREIGN)):
        return OTHER
    return LINES if _format(head.removeprefix(BOM).lstrip(), source.format) == "lines" else OTHER


def _spans(path: Path, kind: str, piece_bytes: int) -> Iterator[tuple[int, int]]:
    size = path.stat().st_size
    if kind == LINES and size > piece_bytes:
        for start in range(0, size, piece_bytes):
            yield start, min(start + piece_bytes, size)
    elif kind == PARQUET:
        yield from _row_groups(path, piece_bytes)
    else:
        yield 0, size


def _row_groups(path: Path, piece_bytes: int) -> Iterator[tuple[int, int]]:
    try:
        with pq.ParquetFile(path) as file:
            sizes = [file.metadata.row_group(at).total_byte_size for at in range(file.metadata.num_row_groups)]
    except (OSError, pa.ArrowException):
        yield 0, 0  # the reader says what is wrong
        return
    start, held = 0, 0
    for at, size in enumerate(sizes):
        if held and held + size > piece_bytes:
            yield start, at
            start, held = at, 0
        held += size
    yield start, len(sizes)


# --- reading a piece -------------------------------------------------------------------------------------------------


class PieceReader:
    """Reads one piece; `lines` tells how many lines it has once it was read."""

    def __init__(self, piece: Piece, limits: DocumentLimits = DEFAULTS.document) -> None:
        self.piece = piece
        self.lines = 0
        self._limits = limits

    def read(self) -> Iterator[Read]:
        """Its records in order, but for those that the piece says are to be passed over."""
        left_out = set(np.frombuffer(self.piece.left_out, np.int64).tolist())
        read = {
            LINES: self._read_lines,
            PARQUET: self._read_parquet,
            MARKUP: self._read_markup,
            OTHER: self._read_other,
        }
        for record in read[self.piece.kind]():
            if record.position in left_out:
                continue
            yield _checked(record)

    def quickly(self) -> tuple[npt.NDArray[np.int64], Lines] | None:
        """All lines with their positions, if they can be matched as they lie; None if they must be read one by one."""
        if self.piece.kind != LINES:
            return None
        try:
            offset, data = _bytes_between(self.piece, self._limits.document_bytes_max)
        except OSError:
            return None
        ends, at = [0], 0
        while at := data.find(b"\n", at) + 1:  # one pass at the speed of memory; numpy would need three
            ends.append(at)
        if ends[-1] < len(data):
            ends.append(len(data))
        offsets = np.array(ends, np.int64)
        return offsets[:-1] + self.piece.position(offset), Lines(np.frombuffer(data, np.uint8), offsets)

    def _records(self) -> Iterator[Read]:
        match self.piece.kind:
            case "lines":
                return self._read_lines()
            case "parquet":
                return self._read_parquet()
            case "xml":
                return self._read_markup()
        return self._read_other()

    def _read_lines(self) -> Iterator[Read]:
        piece, limits = self.piece, self._limits
        try:
            offset, data = _bytes_between(piece, limits.document_bytes_max)
        except OSError as error:
            yield Read(piece.position(piece.start), 0, None, f"reading stopped: {reason_of(error)}")
            return
        for line in bytes(data).removesuffix(b"\n").split(b"\n") if data else ():
            self.lines += 1
            position, offset = piece.position(offset), offset + len(line) + 1
            if not line or line.isspace():
                continue
            try:
                if len(line) > limits.document_bytes_max:
                    raise DocumentError(too_large(limits.document_bytes_max))
                yield Read(position, self.lines, document_from_json(line, limits), raw=line)
            except DocumentError as error:
                yield Read(position, self.lines, None, error.reason, line)

    def _read_other(self) -> Iterator[Read]:
        """As `tocsin.files` does it: the order of documents and rejections is kept by numbering them together."""
        piece, place = self.piece, 0
        refused: list[Rejection] = []
        source = Input(piece.name, Path(piece.path))
        for located in read_documents([source], self._limits, refused.append):
            for one in refused:
                yield Read(piece.position(place), one.line, None, one.reason)
                place += 1
            refused.clear()
            yield Read(piece.position(place), located.line, located.document)
            place += 1
        for one in refused:
            yield Read(piece.position(place), one.line, None, one.reason)
            place += 1

    def _read_parquet(self) -> Iterator[Read]:
        piece = self.piece
        try:
            with pq.ParquetFile(piece.path) as file:
                groups = [file.metadata.row_group(at).num_rows for at in range(piece.end)]
                row = sum(groups[: piece.start])
                for batch in file.iter_batches(ROWS_TOGETHER, row_groups=[*range(piece.start, piece.end)]):
                    for values in batch.to_pylist():
                        row += 1
                        yield self._row(row, values)
        except (OSError, pa.ArrowException) as error:
            said = reason_of(error) if isinstance(error, OSError) and error.strerror else f"no Parquet ({error})"
            yield Read(piece.position(0), 0, None, f"reading stopped: {said}")

    def _row(self, row: int, values: dict[str, Any]) -> Read:
        limits, position = self._limits, self.piece.position(row)
        try:
            document = document_from_object({name: _plain(value) for name, value in values.items()}, limits)
            texts = (value for found in document.fields.values() for value in found if isinstance(value, str))
            may_be_too_large = 4 * sum(map(len, texts)) > limits.document_bytes_max
            if may_be_too_large and len(document_to_json(document).encode()) > limits.document_bytes_max:
                raise DocumentError(too_large(limits.document_bytes_max))
        except DocumentError as error:
            return Read(position, row, None, error.reason)
        return Read(position, row, document)

    def _read_markup(self) -> Iterator[Read]:
        """An XML file is one document, called by the file's name without its endings."""
        piece, limits = self.piece, self._limits
        held = b""
        try:
            for chunk in chunks(Input(piece.name, Path(piece.path))):
                held += chunk
                if len(held) > limits.document_bytes_max:
                    raise DocumentError(too_large(limits.document_bytes_max))
            id = Path(piece.path).name.partition(".xml")[0]
            document = document_from_object({"id": id, "xml": decode_utf8(held.removeprefix(BOM))}, limits)
        except DocumentError as error:
            yield Read(piece.position(0), 0, None, error.reason)
        except InputError as error:
            yield Read(piece.position(0), 0, None, str(error))
        else:
            yield Read(piece.position(0), 1, document)


def is_document(line: bytes, limits: DocumentLimits = DEFAULTS.document) -> bool:
    """Is it one without its line break, which counts as a byte where lines are matched as they lie?"""
    if len(line) < limits.document_bytes_max:
        return False
    try:
        document_from_json(line.removesuffix(b"\n"), limits)
    except DocumentError:
        return False
    return True


def _checked(record: Read) -> Read:
    """With its XML looked at."""
    if record.document is not None and record.document.xml is not None:
        try:
            read_markup(record.document.xml)
        except DocumentError as error:
            return record._replace(document=None, reason=error.reason)
    return record


def _plain(value: object) -> object:
    """A value of Parquet as JSON has it: times as text, decimals as numbers."""
    match value:
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case list():
            return [_plain(item) for item in value]
    return value


def _bytes_between(piece: Piece, bytes_max: int) -> tuple[int, bytearray]:
    """Where the first line of the piece starts, and its lines; one that is too long is cut after bytes_max bytes."""
    before = 1 if piece.start else 0
    with open(piece.path, "rb", buffering=0) as file:
        file.seek(piece.start - before)
        held = _read_exactly(file, piece.end - piece.start + before)
        skipped = held.find(b"\n") + 1 if before else 0
        if before and (not skipped or skipped == len(held)):
            return piece.end, bytearray()
        if not before and held.startswith(BOM):
            skipped = len(BOM)
        size = len(held) - held.rfind(b"\n") - 1
        while size and size <= bytes_max and (chunk := file.read(HEAD_BYTES)):  # the last line goes on behind the piece
            whole, broken, _ = chunk.partition(b"\n")
            held += whole + broken
            size += len(whole)
            if broken:
                break
    del held[:skipped]  # moves the beginning, not the bytes
    return piece.start - before + skipped, held


def _read_exactly(file: io.RawIOBase, size: int) -> bytearray:
    """So many bytes, or those that there are."""
    held = bytearray(size)
    with memoryview(held) as view:
        at = 0
        while at < size and (count := file.readinto(view[at:])):
            at += count
    del held[at:]
    return held


# --- on Spark --------------------------------------------------------------------------------------------------------


def over_pieces(
    spark: SparkSession, pieces: Sequence[Piece], work: Callable[[Piece], Iterator[pa.RecordBatch]], schema: Any
) -> DataFrame:
    """A DataFrame with a partition for each piece, in their order: what the work makes of it."""
    count = max(1, len(pieces))
    return spark.range(0, count, 1, count).mapInArrow(partial(_work_on, tuple(pieces), work), schema)


def _work_on(
    pieces: Sequence[Piece], work: Callable[[Piece], Iterator[pa.RecordBatch]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            if number < len(pieces):
                yield from work(pieces[number])


def documents(spark: SparkSession, pieces: Sequence[Piece]) -> DataFrame:
    """The pieces as DOCUMENTS; what cannot be read is left out (see rejections)."""
    return over_pieces(spark, pieces, _documents_of, DOCUMENTS)


def rejections(spark: SparkSession, pieces: Sequence[Piece]) -> DataFrame:
    """What cannot be read, as REJECTIONS."""
    return over_pieces(spark, pieces, _rejections_of, REJECTIONS)


def _documents_of(piece: Piece) -> Iterator[pa.RecordBatch]:
    records = (record for record in PieceReader(piece).read() if record.document is not None)
    for some in batched(records, ROWS_TOGETHER):
        rows = [
            (record.position, record.document.id, record.document.version, _body(record.document, record.raw))
            for record in some
            if record.document is not None
        ]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column) for column in zip(*rows, strict=True)], schema=DOCUMENTS_ARROW
        )


def _body(document: Document, raw: bytes | None) -> str:
    return document_to_json(document) if raw is None else raw.decode("utf-8-sig")


def _rejections_of(piece: Piece) -> Iterator[pa.RecordBatch]:
    from tocsin.pipeline.stages import excerpt

    records = (record for record in PieceReader(piece).read() if record.document is None)
    for some in batched(records, ROWS_TOGETHER):
        columns = {
            "file": [piece.name for _ in some],
            "position": [record.position for record in some],
            "reason": [record.reason for record in some],
            "excerpt": [None if record.raw is None else excerpt(record.raw) for record in some],
        }
        yield pa.RecordBatch.from_pydict(columns, REJECTIONS_ARROW)


def batched(items: Iterator[T], size: int) -> Iterator[list[T]]:
    """Lists of at most so many items."""
    held: list[T] = []
    for item in items:
        held.append(item)
        if len(held) == size:
            yield held
            held = []
    if held:
        yield held
