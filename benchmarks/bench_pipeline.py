"""From files to a counted DataFrame of matches on Spark: how much of the kernel's rate is left, and is it worth it?

    python -m benchmarks.bench_pipeline --size small|full

Prints one JSON object. Documents and queries are those of `workload_text` (200 distinct words a document, user-like
queries of 2 to 4 words). For each number of subscriptions: `kernel`, documents a second of one core from text in memory
to masks; `jsonl` and `parquet`, documents a second from files to `count()` of the matches, on local[1] and local[2],
wall time, the median of several runs in a session that is warm; `look`, the pass that checks and counts words.
`share` is local[2] from JSON lines against the kernel, which is one core's (bar 0.5), `share_of_one` that of local[1],
`scaling` local[2] against local[1] (bar 1.7). `worker` is the part of a Python worker alone in core
time, which other programs on the machine disturb less.

`join` is the best that Spark does without an index: each document's words joined with the rarest word of each query,
then `forall` over the others, on queries whose words are all rarer than rank 5,000. It must count what we count.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import bench_kernel, workload_text
from tocsin.files import Input
from tocsin.match.registry import Registry
from tocsin.match.segments import Segment
from tocsin.model import Document
from tocsin.pipeline import files_job, files_source
from tocsin.pipeline.session import SparkSettings, open_session
from tocsin.pipeline.stages import SnapshotRef
from tocsin.query.semantics import Knowledge
from tocsin.text import Analysis

SEED, SAMPLE_SEED, SAMPLE_DOCUMENTS = 1, 2, 1_024
SELECTIVE_RANK = 5_000
KERNEL_DOCUMENTS, PASSES = 1_024, 5
SHARE_BAR, SCALING_BAR = 0.5, 1.7


def write_files(folder: Path, count: int) -> dict[str, Path]:
    texts = workload_text.documents(count, workload_text.SHORT_DISTINCT_WORDS, SEED)
    paths = {name: folder / f"documents.{name}" for name in ("jsonl", "parquet")}
    with paths["jsonl"].open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": f"d{number}", "text": text}) + "\n" for number, text in enumerate(texts))
    ids = [f"d{number}" for number in range(count)]
    pq.write_table(pa.table({"id": ids, "text": texts}), paths["parquet"], row_group_size=4_096)
    return paths


def save_index(folder: Path, queries: list[str]) -> SnapshotRef:
    """Registered, put in order by the words of other documents, and saved."""
    registry = Registry()
    registry.add_many([(f"q{number}", query) for number, query in enumerate(queries)])
    sample = workload_text.documents(SAMPLE_DOCUMENTS, workload_text.SHORT_DISTINCT_WORDS, SAMPLE_SEED)
    registry.match_owners([Document(f"{n}", {"text": (text,)}) for n, text in enumerate(sample)], Knowledge())
    registry.index.reorganise()
    return SnapshotRef(str(folder), registry.save(folder))


def kernel_rate(queries: list[str]) -> dict[str, Any]:
    read = bench_kernel.Queries.read(queries)
    sample = [line.encode() for line in bench_kernel.sample_documents()]
    frequency = bench_kernel.frequencies(read.lexicon, sample)
    segment = Segment.build(read.first, read.keys, np.arange(len(queries), dtype=np.uint32), frequency)
    texts = workload_text.documents(KERNEL_DOCUMENTS, workload_text.SHORT_DISTINCT_WORDS, SEED)
    return bench_kernel.measure_ours(segment, read.lexicon, [text.encode() for text in texts], PASSES)


def rate(work: Callable[[], Any], documents: int, runs: int) -> tuple[Any, float]:
    """What the work gives, and documents a second: the median run after one that warms up."""
    result = work()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return result, round(documents / median(seconds), 1)


def on_spark(master: str, paths: dict[str, Path], documents: int, index: SnapshotRef, runs: int) -> dict[str, Any]:
    spark = open_session(SparkSettings(master=master, driver_memory_megabytes=3_072), "bench")
    found: dict[str, Any] = {}
    try:
        for name, path in paths.items():
            pieces = files_source.divide([Input(path.name, path)], spark.sparkContext.defaultParallelism)
            matches = files_job.match_pieces(spark, pieces, index)
            found[f"{name}_matches"], found[name] = rate(matches.count, documents, runs)
        jsonl = [Input(paths["jsonl"].name, paths["jsonl"])]
        _, found["look"] = rate(lambda: files_job.look(spark, jsonl, Analysis()), documents, max(1, runs - 1))
    finally:
        spark.stop()
    return found


def worker_rate(path: Path, documents: int, index: SnapshotRef) -> float:
    """Documents a second of one core's time, of a worker's part alone: from the file to batches of matches."""
    pieces, best = files_source.divide([Input(path.name, path)], 1), float("inf")
    for _ in range(PASSES):
        start = time.process_time()
        for piece in pieces:
            for _batch in files_job.match_piece(index, None, False, piece):
                pass
        best = min(best, time.process_time() - start)
    return round(documents / best, 1)


def selective_queries() -> Iterator[str]:
    spelling = workload_text.vocabulary()
    for block in workload_text.query_ranks(1 << 40, SEED):
        for row in block[((block == 0) | (block >= SELECTIVE_RANK)).all(axis=1)].tolist():
            yield " ".join([spelling[rank] for rank in row if rank])


def join_matches(spark: SparkSession, path: Path, queries: list[str]) -> Callable[[], int]:
    """The rarest word of each query, and all others by forall; ranks tell which word is rarest."""
    rank = {word: number for number, word in enumerate(workload_text.vocabulary())}
    ordered = [sorted(query.split(), key=rank.__getitem__, reverse=True) for query in queries]
    table = pa.table({"rarest": [words[0] for words in ordered], "others": [words[1:] for words in ordered]})
    asked = spark.createDataFrame(table).persist()
    asked.count()
    texts = spark.read.schema("id string, text string").json(str(path))
    words = F.array_distinct(F.split(F.lower("text"), "[^a-z0-9]+"))
    documents = texts.select(words.alias("words"))
    exploded = documents.select("words", F.explode("words").alias("rarest"))
    candidates = exploded.join(F.broadcast(asked), "rarest")
    return candidates.where(F.forall("others", lambda word: F.array_contains("words", word))).count


def compare_join(folder: Path, path: Path, documents: int, queries: int) -> dict[str, Any]:
    asked = list(islice(selective_queries(), queries))
    index = save_index(folder / "selective", asked)
    spark = open_session(SparkSettings(master="local[2]", driver_memory_megabytes=6_144), "bench")
    try:
        pieces = files_source.divide([Input(path.name, path)], spark.sparkContext.defaultParallelism)
        ours, our_rate = rate(files_job.match_pieces(spark, pieces, index).count, documents, 2)
        joined = join_matches(spark, path, asked)
        start = time.perf_counter()
        theirs = joined()
        their_rate = round(documents / (time.perf_counter() - start), 1)
    finally:
        spark.stop()
    assert ours == theirs, f"{ours} matches, the join has {theirs}"
    return {
        "queries": queries,
        "documents": documents,
        "matches_per_document": round(ours / documents, 4),
        "ours": our_rate,
        "join": their_rate,
        "ratio": round(our_rate / their_rate, 2),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=["small", "full"], default="small", help="three minutes, or the real thing")
    full = parser.parse_args(arguments).size == "full"
    documents, sizes, runs = (300_000, (100_000, 1_000_000), 3) if full else (10_000, (100_000,), 2)
    result: dict[str, Any] = {"documents": documents, "cells": []}
    with TemporaryDirectory(prefix="tocsin-bench-") as name:
        folder = Path(name)
        paths = write_files(folder, documents)
        for size in sizes:
            queries = workload_text.queries(size, SEED)
            cell: dict[str, Any] = {"queries": size, "kernel": kernel_rate(queries)}
            index = save_index(folder / f"index-{size}", queries)
            del queries
            for master in ("local[1]", "local[2]"):
                cell[master] = on_spark(master, paths, documents, index, runs)
            cell["worker"] = {name: worker_rate(path, documents, index) for name, path in paths.items()}
            cell["worker_share"] = round(cell["worker"]["jsonl"] / cell["kernel"]["documents_per_second"], 2)
            cell["share"] = round(cell["local[2]"]["jsonl"] / cell["kernel"]["documents_per_second_median"], 2)
            cell["share_of_one"] = round(cell["local[1]"]["jsonl"] / cell["kernel"]["documents_per_second_median"], 2)
            cell["scaling"] = round(cell["local[2]"]["jsonl"] / cell["local[1]"]["jsonl"], 2)
            cell["holds"] = {"share": cell["share"] >= SHARE_BAR, "scaling": cell["scaling"] >= SCALING_BAR}
            result["cells"].append(cell)
            print(json.dumps(cell), file=sys.stderr, flush=True)  # it takes long: this is how far it has come
        result["join"] = compare_join(folder, paths["jsonl"], documents, 1_000_000 if full else 100_000)
    result["load_average"] = os.getloadavg()
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
