"""JSON lines as columns: one buffer of UTF-8 with offsets, as Arrow keeps strings, matched without making documents.

Plain lines are read where they lie (`line_kernels`); the words of their values go from there to the index. Odd lines
take the slow door, `intake.document_from_json`, which takes or refuses them; so the result is what it would be if all
had. A plain line becomes a Document only when a query must look at more than words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from tocsin.errors import DocumentError
from tocsin.intake import document_from_json
from tocsin.match import line_kernels
from tocsin.match.kernels import I64, PADDING, U8, U32
from tocsin.match.segments import frozen
from tocsin.match.verify import Batch, Reading
from tocsin.model import Document
from tocsin.query.semantics import Knowledge
from tocsin.settings import DEFAULTS, DocumentLimits

LINES_MAX = 2_048  # read together: their bytes stay in the cache until their words are looked up
SPANS_MAX = 65_536
_BUFFER_MAX = 1 << 31  # bytes read together; a longer line is odd


@dataclass(frozen=True, slots=True)
class Lines:
    """Line i is buffer[offsets[i]:offsets[i + 1]], one JSON document.

    The data buffer and the offsets of an Arrow string column are these, as they are (offsets may have 32 bits).
    """

    buffer: U8
    offsets: npt.NDArray[np.int64] | npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        offsets = self.offsets
        if self.buffer.dtype != np.uint8 or self.buffer.ndim != 1 or offsets.ndim != 1 or not offsets.size:
            raise ValueError("lines are a buffer of bytes, and one more offset than there are lines")
        if int(offsets[0]) < 0 or int(offsets[-1]) > self.buffer.size or (offsets[1:] < offsets[:-1]).any():
            raise ValueError("the offsets of lines must rise, from 0 or more to at most the size of the buffer")
        object.__setattr__(self, "buffer", frozen(np.ascontiguousarray(self.buffer)))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, line: int) -> bytes:
        return self.buffer[self.offsets[line] : self.offsets[line + 1]].tobytes()

    @classmethod
    def of(cls, lines: Sequence[bytes]) -> Lines:
        """Copy lines into one buffer."""
        offsets = np.zeros(len(lines) + 1, np.int64)
        np.cumsum([len(line) for line in lines], out=offsets[1:])
        return cls(np.frombuffer(b"".join(lines) + bytes(PADDING), np.uint8), offsets)

    def cut(self, begin: int) -> tuple[U8, I64]:
        """A buffer with padding, and the offsets in it, of some lines from this one on."""
        end = min(begin + LINES_MAX, len(self))
        offsets = self.offsets[begin : end + 1].astype(np.int64)
        fits = int(np.searchsorted(offsets, offsets[0] + _BUFFER_MAX, "right"))
        offsets = offsets[: max(fits, 2)]
        first, last = int(offsets[0]), int(offsets[-1])
        piece = self.buffer[first : last + PADDING]
        missing = PADDING - (piece.size - (last - first))
        if missing > 0:
            piece = frozen(np.concatenate([piece, np.zeros(missing, np.uint8)]))
        return piece, frozen(offsets - first)


class Room:
    """Where the spans of lines are put, again and again."""

    def __init__(self, spans: int = SPANS_MAX) -> None:
        places = np.zeros((3, LINES_MAX), np.int64)
        self._heads = line_kernels.Heads(np.zeros(LINES_MAX, np.uint8), places[0], places[1], places[2])
        keys, values, numbers = (
            np.empty((2, spans), np.int64),
            np.empty((2, spans), np.int64),
            np.empty((2, spans), np.uint32),
        )
        kinds = np.empty(spans, np.uint8)
        self._spans = line_kernels.Spans(keys[0], keys[1], values[0], values[1], numbers[0], numbers[1], kinds)

    def scan(
        self, buffer: U8, offsets: I64, limits: DocumentLimits
    ) -> tuple[int, line_kernels.Heads, line_kernels.Spans]:
        """How many lines there was room for, and what was found in them."""
        most = min(limits.document_bytes_max, _BUFFER_MAX), limits.document_fields_max, limits.document_values_max
        lines, keys, values = line_kernels.scan_lines(buffer, offsets, *most, self._heads, self._spans)
        odd, id_start, id_end, version = self._heads
        key_start, key_end, start, end, key, line, kind = self._spans
        return (
            lines,
            line_kernels.Heads(odd[:lines], id_start[:lines], id_end[:lines], version[:lines]),
            line_kernels.Spans(
                frozen(key_start[:keys]),
                frozen(key_end[:keys]),
                frozen(start[:values]),
                frozen(end[:values]),
                frozen(key[:values]),
                frozen(line[:values]),
                frozen(kind[:values]),
            ),
        )


@dataclass(frozen=True, slots=True)
class Scan:
    """Some lines, read: valid until their room is used again."""

    begin: int
    """The number of the first."""
    buffer: U8
    offsets: I64
    heads: line_kernels.Heads
    spans: line_kernels.Spans
    rank: I64
    """How many documents come before each line."""
    odd: dict[int, Document]
    """The documents of odd lines that were accepted, by line."""
    refused: dict[int, str]
    """Why others were not."""

    @classmethod
    def of(cls, lines: Lines, begin: int, limits: DocumentLimits, room: Room) -> Scan:
        """Read some lines, from this one on."""
        buffer, offsets = lines.cut(begin)
        count, heads, spans = room.scan(buffer, offsets, limits)
        offsets = offsets[: count + 1]
        odd: dict[int, Document] = {}
        refused: dict[int, str] = {}
        for line in np.flatnonzero(heads.odd).tolist():
            raw = buffer[offsets[line] : offsets[line + 1]].tobytes()
            try:
                odd[line] = document_from_json(raw, limits)
                heads.version[line] = odd[line].version
            except DocumentError as error:
                refused[line] = str(error)
        is_document = np.ones(count, np.int64)
        is_document[list(refused)] = 0
        rank = np.zeros(count + 1, np.int64)
        np.cumsum(is_document, out=rank[1:])
        return cls(begin, buffer, offsets, heads, spans, frozen(rank), odd, refused)

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def documents(self) -> int:
        """How many lines are documents."""
        return int(self.rank[-1])

    def bytes_of(self, value: int) -> bytes:
        """A value as it is written, without quotation marks."""
        return self.buffer[self.spans.start[value] : self.spans.end[value]].tobytes()

    def document(self, line: int, limits: DocumentLimits) -> Document:
        """The document in a line that has one."""
        found = self.odd.get(line)
        raw = self.buffer[self.offsets[line] : self.offsets[line + 1]]
        return document_from_json(raw.tobytes(), limits) if found is None else found


class LateDocuments(Sequence[Document]):
    """The documents of some lines, made when first asked for."""

    def __init__(self, scan: Scan, lines: Sequence[int], limits: DocumentLimits) -> None:
        self._scan, self._lines, self._limits = scan, lines, limits
        self._made: dict[int, Document] = {}

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, at: int) -> Document: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Document]: ...
    def __getitem__(self, at: int | slice) -> Document | Sequence[Document]:
        if isinstance(at, slice):
            return [self[one] for one in range(len(self))[at]]
        if at not in self._made:
            self._made[at] = self._scan.document(self._lines[at], self._limits)
        return self._made[at]

    def __iter__(self) -> Iterator[Document]:
        return (self[at] for at in range(len(self)))


class LateReading(Reading):
    """A document that is made when something of it is read that words do not tell."""

    def __init__(self, documents: Sequence[Document], at: int, knowledge: Knowledge) -> None:
        self._documents, self._at = documents, at
        self._knowledge = knowledge
        self._occurrences = {}

    @cached_property
    def document(self) -> Document:  # type: ignore[override]
        """The document."""
        return self._documents[self._at]


class LateBatch(Batch):
    """A batch of documents that are made late."""

    def __init__(self, documents: Sequence[Document], knowledge: Knowledge, key_mask: Callable[[int], int]) -> None:
        super().__init__((), knowledge, key_mask)
        self.documents = documents
        self._readings = [LateReading(documents, at, knowledge) for at in range(len(documents))]


@dataclass(frozen=True, slots=True)
class Found:
    """What matching some lines gave."""

    lines: Lines
    owners: U32
    places: I64
    """(owners[i], line places[i]) for every match, by line, then by owner."""
    id_start: I64
    id_end: I64
    """The id of each line's document lies here in the lines' buffer; -1 if it does not: see `id`."""
    version: I64
    """Of each line's document; 0 if the line was refused."""
    odd: dict[int, Document]
    """The documents of lines that were not plain, by line."""
    refused: dict[int, str]
    """Why a line is no document."""

    def id(self, line: int) -> str:
        """The id of a line's document."""
        if line in self.odd:
            return self.odd[line].id
        if self.id_start[line] < 0:
            raise KeyError(f"line {line} is no document: {self.refused[line]}")
        return self.lines.buffer[self.id_start[line] : self.id_end[line]].tobytes().decode()

    def document(self, line: int, limits: DocumentLimits = DEFAULTS.document) -> Document:
        """The document of a line, read anew if it was plain."""
        return self.odd[line] if line in self.odd else document_from_json(self.lines[line], limits)


class Finding:
    """Collects what is found, scan by scan."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._owners: list[U32] = []
        self._places: list[I64] = []
        self._id_start, self._id_end = np.full(len(lines), -1, np.int64), np.full(len(lines), -1, np.int64)
        self._version = np.zeros(len(lines), np.int64)
        self._odd: dict[int, Document] = {}
        self._refused: dict[int, str] = {}

    def add_scan(self, scan: Scan) -> None:
        """What is known of lines without matching them."""
        here, plain = slice(scan.begin, scan.begin + len(scan)), scan.heads.odd == 0
        base = int(self._lines.offsets[scan.begin])
        self._id_start[here] = np.where(plain, scan.heads.id_start + base, -1)
        self._id_end[here] = np.where(plain, scan.heads.id_end + base, -1)
        self._version[here] = scan.heads.version
        self._version[[scan.begin + line for line in scan.refused]] = 0
        self._odd.update((scan.begin + line, document) for line, document in scan.odd.items())
        self._refused.update((scan.begin + line, reason) for line, reason in scan.refused.items())

    def add_matches(self, owners: U32, places: I64) -> None:
        """Matches, by line."""
        self._owners.append(owners)
        self._places.append(places)

    def found(self) -> Found:
        """All of it."""
        owners = np.concatenate([np.empty(0, np.uint32), *self._owners])
        places = np.concatenate([np.empty(0, np.int64), *self._places])
        return Found(self._lines, owners, places, self._id_start, self._id_end, self._version, self._odd, self._refused)
