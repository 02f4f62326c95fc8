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
from tocsin.match.lexicon import pack
from tocsin.match.snapshot import open_arrays, write_arrays
from tocsin.model import Document
from tocsin.pipeline.schema import COUNTS, COUNTS_ARROW
from tocsin.query.score import Statistics, word_counts
from tocsin.settings import DocumentLimits
from tocsin.text import Analysis

I64 = npt.NDArray[np.int64]

FORMAT = 1
KEEP = 2  # versions that saving leaves on the disk
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
    """Counts of the documents that it was shown."""

    def __init__(self, analysis: Analysis) -> None:
        self.documents = 0
        self.words: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self._analysis = analysis

    def add(self, document: Document) -> None:
        """One more document."""
        self.documents += 1
        self.words.update(word_counts(document, self._analysis).keys())
        if document.source is not None:
            self.sources[document.source] += 1

    def batch(self) -> pa.RecordBatch:
        """As rows of COUNTS."""
        kinds = [DOCUMENT, *[WORD] * len(self.words), *[SOURCE] * len(self.sources)]
        names = ["", *self.words, *self.sources]
        counts = [self.documents, *self.words.values(), *self.sources.values()]
        return pa.RecordBatch.from_pydict({"kind": kinds, "name": names, "count": counts}, COUNTS_ARROW)


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
