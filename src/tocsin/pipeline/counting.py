"""The site's statistics, brought up to date as documents come.

A new version is made when the collection has grown by a tenth, before the batch that makes it so: scores change slowly,
so most batches count nothing. Every accepted version of a document counts, once. A few documents are counted here,
many by Spark.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tocsin.pipeline.inbox import history
from tocsin.pipeline.statistics import Collected, StatisticsRef, Tally, count_documents, statistics_versions
from tocsin.store import Store, documents
from tocsin.text import Analysis

GROWTH = 1.1
HERE_MAX = 2_000  # documents that are counted without Spark
KEPT = 4  # versions on the disk


class Counting:
    """Follows the store's documents. One process owns the folder."""

    def __init__(self, store: Store, folder: Path, analysis: Analysis, spark: SparkSession) -> None:
        self._store = store
        self._folder = folder
        self._analysis = analysis
        self._spark = spark
        self._ref, self._counted = self._newest()

    def _newest(self) -> tuple[StatisticsRef | None, int]:
        """The last version that the store knows of, and the position up to which it counted."""
        for version in reversed(statistics_versions(self._folder)):
            ref = StatisticsRef(str(self._folder), version)
            counted = self._store.get(_key(version), "")
            if counted and Collected.open(ref).analysis == self._analysis:
                return ref, int(counted)
        return None, 0

    @property
    def current(self) -> StatisticsRef | None:
        """The newest version; None before the first document."""
        return self._ref

    def refresh(self, upto: int) -> StatisticsRef:
        """The statistics to use for documents up to the position."""
        if self._ref is None or upto > self._counted * GROWTH:
            self._ref = self._count(upto)
        return self._ref

    def at(self, version: int) -> StatisticsRef | None:
        """A version that was used before, if it is still there."""
        return StatisticsRef(str(self._folder), version) if version in statistics_versions(self._folder) else None

    def _count(self, upto: int) -> StatisticsRef:
        collected = Collected(self._analysis) if self._ref is None else Collected.open(self._ref)
        if upto - self._counted <= HERE_MAX:
            tally = Tally(self._analysis)
            for rows in documents.read(self._store, self._counted, upto):
                for row in rows:
                    tally.add(row.document())
            counts = pa.Table.from_batches([tally.batch()])
        else:
            new = history(self._spark, self._store, self._counted, upto)
            counts = count_documents(new, self._analysis).toArrow()
        ref = collected.plus(counts).save(self._folder, keep=KEPT)
        self._store.put(_key(ref.version), str(upto))
        self._store.drop(_key(ref.version - KEPT))
        self._counted = upto
        return ref


def _key(version: int) -> str:
    return f"statistics-{version}"
