"""Where a batch ends: its rows come to the driver, and into the store in one transaction.

A small batch comes straight as Arrow; a large one is staged as files by the workers first, so that the driver never
holds it whole. What a crash leaves staged is collected at the next start: the batch is run again anyway.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tocsin.store.outbox import Found

ROWS_TOGETHER = 16_384


class Staging:
    """A folder for rows on their way to the store; it belongs to one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():
            shutil.rmtree(left)

    @contextmanager
    def rows(self, frame: DataFrame, name: str, is_small: bool) -> Iterator[Iterator[pa.RecordBatch]]:
        """The frame's rows, in the order of its partitions; runs the frame's job."""
        if is_small:
            yield iter(frame.toArrow().to_batches())
            return
        place = self.folder / name
        try:
            frame.write.mode("overwrite").parquet(str(place))
            yield _staged(place)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _staged(place: Path) -> Iterator[pa.RecordBatch]:
    for file in sorted(place.glob("part-*.parquet")):
        yield from pq.ParquetFile(file).iter_batches(ROWS_TOGETHER)


def found(batches: Iterator[pa.RecordBatch]) -> Iterator[Found]:
    """Rows of MATCHES, whose subscription is the number of a revision."""
    names = ("position", "subscription", "document", "version", "score", "evidence")
    for batch in batches:
        columns: list[list[Any]] = [batch.column(name).to_pylist() for name in names]
        columns[1] = list(map(int, columns[1]))
        yield from map(Found._make, zip(*columns, strict=True))
