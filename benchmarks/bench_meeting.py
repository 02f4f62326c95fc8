"""How should queries and documents meet on Spark? Every strategy timed where the cost model changes its mind.

    python benchmarks/bench_meeting.py --size full

Prints one JSON object: for each cell (queries, documents, words in a document, memory of a worker) the seconds of every
strategy that fits into that memory, which one `match.rendezvous.batch` chose, and whether that was the fastest or
within 10 % of it. `--calibrate` also fits the constants of `MeetingCosts` to what was measured (least squares, none
negative): that is where those in the source come from. Queries and documents are those of `workload_text`.

A cell counts matches of documents that lie in memory, on two cores: the median of several runs after one to warm up,
the strategies taken in turn, so that a noisy minute meets all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pyspark.sql import DataFrame, SparkSession

from benchmarks import workload_text
from tocsin import Knowledge, Subscription, parse
from tocsin.match.lines import Lines
from tocsin.match.registry import Registry
from tocsin.match.rendezvous.batch import BatchFacts, MeetingCosts, Strategy, plan_meeting, seconds
from tocsin.match.written import Entry
from tocsin.pipeline.meeting import Prepared, meet, open_parts, save_parts
from tocsin.pipeline.session import SparkSettings, open_session
from tocsin.pipeline.stages import SnapshotRef
from tocsin.query.normal import Key

SEED, CORES, WITHIN, BAR = 1, 2, 1.1, 0.9
TABLE_MAX = 1_000  # queries that send query is tried with
HOPELESS = 8  # strategies that are expected to take so many times the chosen one's time are not timed
SAMPLE = 500  # documents that teach frequencies and visits


@dataclass(frozen=True)
class Cell:
    """One case: the index is `squeeze` times as large as what a worker may map."""

    queries: int
    documents: int
    words: int
    squeeze: float


SMALL = [
    Cell(queries, documents, 200, squeeze)
    for queries in (500, 20_000)
    for documents in (500, 6_000)
    for squeeze in (0.5, 6)
]
FULL = [
    Cell(queries, documents, words, squeeze)
    for queries in (500, 10_000, 100_000, 1_000_000)
    for documents, words in ((1_000, 200), (16_000, 200), (64_000, 30), (4_000, 1_000))
    for squeeze in (0.5, 4, 12)
]


@dataclass
class Queries:
    """A query set, prepared in every way."""

    registry: Registry
    entries: list[tuple[str, Entry]]
    folder: Path
    index_bytes: int
    seen: Counter[str]

    @classmethod
    def of(cls, count: int, folder: Path, sample: list[str]) -> Queries:
        entries = [(f"{n:08x}", Entry(text)) for n, text in enumerate(workload_text.queries(count, SEED))]
        registry = Registry()
        registry.add_many([(id, entry.query or "") for id, entry in entries])
        registry.match_lines(Lines.of([line.encode() for line in sample]), Knowledge())
        registry.index.reorganise()
        registry.save(folder / "whole")
        size = sum(path.stat().st_size for path in (folder / "whole").iterdir())
        seen = Counter(word for line in sample for word in set(json.loads(line)["text"].lower().split()))
        return cls(registry, entries, folder, size, seen)

    def df(self, key: Key) -> int:
        return self.seen[key.word]

    def prepared(self, parts: int) -> Prepared:
        place = self.folder / f"parts-{parts}"
        table = None
        if len(self.entries) <= TABLE_MAX:
            table = tuple(Subscription(id, parse(str(entry.query)), str(entry.query)) for id, entry in self.entries)
        return Prepared(
            SnapshotRef(str(self.folder / "whole"), self.registry.version),
            save_parts(place / "by-id", self.entries, Strategy.BY_ID, parts, frequency=self.df),
            save_parts(place / "by-word", self.entries, Strategy.BY_WORD, parts, frequency=self.df),
            table,
        )


def document_lines(count: int, words: int) -> list[str]:
    texts = workload_text.documents(count, words, SEED)
    return [json.dumps({"id": f"d{n}", "text": text}) for n, text in enumerate(texts)]


def in_memory(spark: SparkSession, lines: list[str]) -> DataFrame:
    ids = [f"d{n}" for n in range(len(lines))]
    columns = {"position": list(range(len(lines))), "id": ids, "version": [1] * len(lines), "body": lines}
    found = spark.createDataFrame(pa.Table.from_pydict(columns)).repartition(CORES).cache()
    found.count()
    return found


def measure(spark: SparkSession, cell: Cell, queries: Queries, lines: list[str], repeats: int) -> dict[str, Any]:
    """All strategies on one case."""
    memory = int(queries.index_bytes / cell.squeeze)
    sizes = [len(line) for line in lines]
    sample = lines[:SAMPLE]
    facts = BatchFacts(
        cell.queries,
        queries.index_bytes,
        memory,
        cell.documents,
        statistics.mean(sizes),
        statistics.mean(line.count(" ") for line in sample),
        CORES,
        1.0,
        queries.registry.index.work(),
    )
    prepared = queries.prepared(facts.parts)
    router = open_parts(prepared.by_word).router if prepared.by_word else None
    assert router is not None
    masks = router.route_lines(Lines.of([line.encode() for line in sample]))
    facts = BatchFacts(**asdict(facts) | {"visited_share": float(np.bitwise_count(masks).mean()) / facts.parts})
    plan = plan_meeting(facts)
    tried = [each for each in Strategy if each not in plan.refused]
    tried = [each for each in tried if each is not Strategy.SEND_QUERY or prepared.table is not None]
    tried = [each for each in tried if plan.seconds[each] <= HOPELESS * plan.seconds[plan.strategy]]
    documents = in_memory(spark, lines)
    taken: dict[Strategy, list[float]] = {strategy: [] for strategy in tried}
    counts = {}
    for run in range(repeats + 1):
        for strategy in tried:
            start = time.perf_counter()
            counts[strategy] = meet(documents, prepared, strategy).count()
            if run:
                taken[strategy].append(time.perf_counter() - start)
    documents.unpersist()
    if len(set(counts.values())) != 1:
        raise AssertionError(f"the strategies found different numbers of matches: {counts}")
    medians = {strategy: statistics.median(times) for strategy, times in taken.items()}
    good = medians[plan.strategy] <= WITHIN * min(medians.values())
    return {
        "cell": asdict(cell),
        "facts": asdict(facts),
        "matches": next(iter(counts.values())),
        "seconds": {strategy.value: round(taken, 3) for strategy, taken in medians.items()},
        "expected": {strategy.value: round(plan.seconds[strategy], 3) for strategy in tried},
        "chosen": plan.strategy.value,
        "fastest": min(medians, key=lambda strategy: medians[strategy]).value,
        "good": good,
    }


def calibrate(cells: list[dict[str, Any]]) -> dict[str, float]:
    """The constants that fit best, relative to what was measured; none is negative."""
    names = [field.name for field in fields(MeetingCosts)]
    rows, target = [], []
    for cell in cells:
        facts = BatchFacts(**cell["facts"])
        units = {name: MeetingCosts(**{other: float(other == name) for other in names}) for name in names}
        parts = {name: seconds(facts, unit) for name, unit in units.items()}
        for strategy, taken in cell["seconds"].items():
            rows.append([parts[name][Strategy(strategy)] / taken for name in names])
            target.append(1.0)
    matrix, wanted = np.array(rows), np.array(target)
    scale = np.maximum(matrix.max(axis=0), 1e-30)
    found = np.zeros(len(names))
    for _ in range(20_000):  # projected gradient: slow, obvious, and needs no library
        gradient = (matrix / scale).T @ (matrix / scale @ found - wanted)
        found = np.maximum(0.0, found - gradient / len(wanted))
    return {name: float(f"{value:.3g}") for name, value in zip(names, found / scale, strict=True)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=["small", "full"], default="small", help="minutes, or the real thing")
    parser.add_argument("--calibrate", action="store_true", help="also fit the constants of the cost model")
    given = parser.parse_args(arguments)
    chosen, repeats = (FULL, 5) if given.size == "full" else (SMALL, 3)
    spark = open_session(SparkSettings(master=f"local[{CORES}]", driver_memory_megabytes=2_048), "bench_meeting")
    cells = []
    try:
        for count in sorted({cell.queries for cell in chosen}):
            with tempfile.TemporaryDirectory() as folder:
                queries = Queries.of(count, Path(folder), document_lines(SAMPLE, 200))
                for cell in (each for each in chosen if each.queries == count):
                    lines = document_lines(cell.documents, cell.words)
                    cells.append(measure(spark, cell, queries, lines, repeats))
                    print(json.dumps(cells[-1]), file=sys.stderr)
    finally:
        spark.stop()
    share = sum(cell["good"] for cell in cells) / len(cells)
    result = {"cells": cells, "cores": CORES, "share_good": round(share, 3), "bar": BAR, "holds": share >= BAR}
    if given.calibrate:
        result["calibrated"] = calibrate(cells)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
