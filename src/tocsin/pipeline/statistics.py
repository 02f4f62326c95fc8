"""How many documents hold each word, and how many each source sent: counted in parallel, kept in versions.

Workers count their own documents (`mapInArrow`), Spark adds up, and the sum is merged with the version before: the cost
is that of the new documents. Words are counted exactly as `query.score.Statistics.of` counts them, under each field's
analysis. A version is one file of arrays that is mapped into memory (`match.snapshot`), so a worker opens a million
words in milliseconds and looks up only those it meets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tocsin.errors import SnapshotError
from tocsin.intake import document_from_json
from tocsin.match.id_kernels import find_ids
from tocsin.match.ids import Ids
from tocsin.match.kernels import WORD_BYTES_MAX
from tocsin.match.lexicon import WordTable, pack, split
from tocsin.match.snapshot import open_arrays, write_arrays
from tocsin.model import Document
from tocsin.pipeline.schema import COUNTS, COUNTS_ARROW
from tocsin.query.score import Statistics
from tocsin.settings import DocumentLimits
from tocsin.text import STANDARD, Analysis, spaced, words

I64 = npt.NDArray[np.int64]

FORMAT = 1
KEEP = 2  # versions that saving leaves on the disk
TEXT_BYTES = 1 << 20  # text that is counted together
DOCUMENT, WORD, SOURCE = "document", "word", "source"

_VERSION = re.compile(r"statistics-(\d{10})\.tocsin")
_ANY_SIZE = DocumentLimits(1 << 62, 1 << 62, 1 << 62)


@dataclass(frozen=True, slots=True)
class StatisticsRef:
    """One version of the statistics, where every worker can open it."""

    folder: str
    version: int


# --- counting --------------------------------------------------------------------------------------------------------


def count_documents(documents: DataFrame, analysis: Analysis) -> DataFrame:
    """DOCUMENTS -> COUNTS, added up."""
    partial_counts = documents.select("body").mapInArrow(partial(count_batches, analysis), COUNTS)
    return add_up(partial_counts)


def add_up(counts: DataFrame) -> DataFrame:
    """COUNTS -> COUNTS, one row for each name."""
    return counts.groupBy("kind", "name").agg(F.sum("count").alias("count"))


def count_batches(analysis: Analysis, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The Arrow side of count_documents: what one worker saw."""
    tally = Tally(analysis)
    for batch in batches:
        for body in batch.column("body").to_pylist():
            tally.add(document_from_json(body, _ANY_SIZE))
    yield tally.batch()


class Tally:
    """Counts of the documents that it was shown.

    Words of `standard` text are split and numbered by kernels, some documents together; others are few, or need
    Python's stemmer, and are counted one by one. Either way they are the words of `query.score.word_counts`.
    """

    def __init__(self, analysis: Analysis) -> None:
        self.documents = 0
        self.sources: Counter[str] = Counter()
        self._analysis = analysis
        self._table = WordTable()
        self._held = np.zeros(1_024, np.int64)  # of a word's number: documents that hold it
        self._texts: list[bytes] = []
        self._owners: list[int] = []  # the document of each text
        self._others: list[bytes] = []
        self._other_owners: list[int] = []
        self._size = 0

    def add(self, document: Document) -> None:
        """One more document."""
        self.documents += 1
        if document.source is not None:
            self.sources[document.source] += 1
        for name, values in document.fields.items():
            analysis = self._analysis.of(name)
            for value in values:
                if isinstance(value, str):
                    self._add_text(value, analysis)
        if self._size >= TEXT_BYTES:
            self._count()

    def _add_text(self, value: str, analysis: str) -> None:
        if analysis == STANDARD:
            text = value.lower().encode() if value.isascii() else spaced(value).encode()
            self._texts.append(text)
            self._owners.append(self.documents)
            self._size += len(text)
        else:
            found = {word.encode() for word in words(value, analysis) if word}
            self._others += found
            self._other_owners += [self.documents] * len(found)
            self._size += len(value)

    def _count(self) -> None:
        """Numbers all words that wait, and counts each once a document."""
        buffer, starts, ends = pack(self._texts)
        first, begins, finishes = split(buffer, starts, ends)
        owners = np.repeat(np.array(self._owners, np.int64), np.diff(first))
        short = finishes - begins <= WORD_BYTES_MAX  # no query can ask for the others
        owners, begins, finishes = owners[short], begins[short], finishes[short]
        numbers = self._table.insert_spans(buffer, begins, finishes)
        pairs = owners << 32 | numbers
        if self._others:
            numbers = self._table.insert(self._others)
            pairs = np.concatenate([pairs, np.array(self._other_owners, np.int64) << 32 | numbers])
        if len(self._table) > self._held.size:
            self._held = np.concatenate([self._held, np.zeros(len(self._table), np.int64)])
        pairs.sort()
        once = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]
        counts = np.bincount(once & (1 << 32) - 1)
        self._held[: counts.size] += counts
        self._texts, self._owners, self._others, self._other_owners, self._size = [], [], [], [], 0

    def batch(self) -> pa.RecordBatch:
        """As rows of COUNTS."""
        self._count()
        words, sources = len(self._table), list(self.sources)
        kinds = pa.array([DOCUMENT, *[WORD] * words, *[SOURCE] * len(sources)])
        names = pa.concat_arrays([pa.array([""]), _words_of(self._table), pa.array(sources, pa.string())])
        counts = np.concatenate([[self.documents], self._held[:words], [self.sources[name] for name in sources]])
        arrays = [kinds, names, pa.array(counts.astype(np.int64))]
        return pa.RecordBatch.from_arrays(arrays, schema=COUNTS_ARROW)


def _words_of(table: WordTable) -> pa.Array:
    """All words in the order of their numbers; those of up to 16 bytes lie in the table's records themselves."""
    records = table.arrays()["records"].reshape(-1, 4)
    sizes = (records[:, 2] >> np.uint64(40)).astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    texts = np.empty(int(sizes.sum()), np.uint8)
    inline = np.ascontiguousarray(records[:, :2]).view(np.uint8)
    rows, columns = np.nonzero(np.arange(16) < np.where(sizes > 16, 0, sizes)[:, None])
    texts[starts[rows] + columns] = inline[rows, columns]
    for number in np.flatnonzero(sizes > 16).tolist():
        texts[starts[number] : starts[number] + sizes[number]] = np.frombuffer(table.word(number), np.uint8)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    words = pa.Array.from_buffers(pa.large_string(), sizes.size, [None, pa.py_buffer(ends), pa.py_buffer(texts)])
    return words.cast(pa.string())


# --- versions --------------------------------------------------------------------------------------------------------


class Frequencies(Mapping[str, int]):
    """Names with a count each, in flat arrays that may be memory-mapped."""

    def __init__(self, ids: Ids | None = None, counts: I64 | None = None) -> None:
        self._ids = Ids() if ids is None else ids
        self._counts = np.empty(0, np.int64) if counts is None else counts

    def __getitem__(self, name: str) -> int:
        at = self._ids.find(name)
        if at < 0 or not self._counts[at]:
            raise KeyError(name)
        return int(self._counts[at])

    def __iter__(self) -> Iterator[str]:
        return (self._ids[at] for at in np.flatnonzero(self._counts).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._counts))

    def plus(self, names: Sequence[str], counts: I64) -> Frequencies:
        """With these counts added; names are given once each."""
        ids = Ids.from_arrays({name: np.array(array) for name, array in self._ids.arrays().items()})
        known = _find(ids, names)
        new = [name for name, at in zip(names, known.tolist(), strict=True) if at < 0]
        total = np.zeros(ids.count + len(new), np.int64)
        total[: ids.count] = self._counts
        known[known < 0] = np.arange(ids.count, total.size)
        ids.append(new)
        total[known] += counts
        return Frequencies(ids, total)

    def arrays(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """All there is to keep."""
        kept = {f"{prefix}.{name}": array for name, array in self._ids.arrays().items()}
        return kept | {f"{prefix}.counts": self._counts}

    @staticmethod
    def from_arrays(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Frequencies:
        """Undo arrays()."""
        kept = {name: arrays[f"{prefix}.{name}"] for name in ("blob", "ends", "slots")}
        return Frequencies(Ids.from_arrays(kept), arrays[f"{prefix}.counts"])


@dataclass(frozen=True, slots=True)
class Collected:
    """What is known of a collection: documents, words, sources; `version` names this state."""

    analysis: Analysis
    documents: int = 0
    words: Frequencies = field(default_factory=Frequencies)
    sources: Frequencies = field(default_factory=Frequencies)
    version: int = 0

    def plus(self, table: pa.Table, sign: int = 1) -> Collected:
        """With the rows of COUNTS added (or, with the sign -1, taken away); each name comes once."""
        kinds = np.asarray(table.column("kind").to_pylist(), object)
        names, numbers = table.column("name").to_pylist(), sign * table.column("count").to_numpy()
        words, sources = np.flatnonzero(kinds == WORD), np.flatnonzero(kinds == SOURCE)
        return Collected(
            self.analysis,
            self.documents + int(numbers[kinds == DOCUMENT].sum()),
            self.words.plus([names[at] for at in words.tolist()], numbers[words]),
            self.sources.plus([names[at] for at in sources.tolist()], numbers[sources]),
            self.version,
        )

    def statistics(self) -> Statistics:
        """As scores want it."""
        return Statistics(self.documents, self.words, self.version)

    def save(self, folder: Path, keep: int = KEEP) -> StatisticsRef:
        """Writes the next version, whole or not at all; older ones than the last `keep` are deleted."""
        folder.mkdir(parents=True, exist_ok=True)
        version = max([self.version, *statistics_versions(folder)]) + 1
        about = {
            "format": FORMAT,
            "version": version,
            "documents": self.documents,
            "analysis": dict(self.analysis.fields),
        }
        arrays = self.words.arrays("words") | self.sources.arrays("sources")
        write_arrays(folder / f"statistics-{version:010}.tocsin", arrays, about)
        for old in statistics_versions(folder)[:-keep]:
            (folder / f"statistics-{old:010}.tocsin").unlink(missing_ok=True)
        return StatisticsRef(str(folder), version)

    @staticmethod
    def open(ref: StatisticsRef) -> Collected:
        """A version, by memory-mapping."""
        file = open_arrays(Path(ref.folder, f"statistics-{ref.version:010}.tocsin"))
        about = file.about
        if about.get("format") != FORMAT:
            raise SnapshotError(f"{file.path}: format {about.get('format')}, this Tocsin reads format {FORMAT}")
        words, sources = (Frequencies.from_arrays(file.arrays, prefix) for prefix in ("words", "sources"))
        return Collected(Analysis(about["analysis"]), about["documents"], words, sources, about["version"])


def statistics_versions(folder: Path) -> list[int]:
    """The versions in a folder, oldest first."""
    found = (_VERSION.fullmatch(path.name) for path in folder.glob("statistics-*.tocsin"))
    return sorted(int(match[1]) for match in found if match)


def open_statistics(ref: StatisticsRef) -> Statistics:
    """A version, as scores want it."""
    return Collected.open(ref).statistics()


def _find(ids: Ids, names: Sequence[str]) -> I64:
    """Where each name is, or -1."""
    data, starts, ends = pack([name.encode() for name in names])
    arrays, owners = ids.arrays(), np.empty(len(names), np.int64)
    find_ids(data, starts, ends, arrays["blob"], arrays["ends"], arrays["slots"], owners)
    return owners


# --- the job ---------------------------------------------------------------------------------------------------------


def update_statistics(
    documents: DataFrame, folder: Path, analysis: Analysis, *, without: DataFrame | None = None
) -> StatisticsRef:
    """Counts new documents, takes away those that were replaced or deleted, and saves the next version."""
    known = statistics_versions(folder)
    collected = Collected.open(StatisticsRef(str(folder), known[-1])) if known else Collected(analysis)
    if collected.analysis != analysis:
        raise SnapshotError(f"{folder}: these statistics were counted under another analysis: count them anew")
    collected = collected.plus(count_documents(documents, analysis).toArrow())
    if without is not None:
        collected = collected.plus(count_documents(without, analysis).toArrow(), sign=-1)
    return collected.save(folder)
