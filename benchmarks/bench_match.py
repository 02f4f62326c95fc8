"""Faster than Lucene Monitor? Both sides in one run, on the same queries and documents, raw text in, matches out.

    python benchmarks/bench_match.py --size full

Prints one JSON object. Ours: documents per second of one core's time, from a column of UTF-8 text (one buffer, as Arrow
keeps strings) to (query, mask of 64 documents), the median of several passes, with pairs beside it. Theirs: the best
configuration that `lucene_monitor` finds within its budget, median over three JVMs, per core-second. Where Lucene
cannot be had (no Java, no Maven), it says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import bench_kernel, lucene_monitor, workload_text
from tocsin.match.segments import Segment

BARS = {100_000: 100, 1_000_000: 250}
DOCUMENTS, SEED = 10_000, 1
OURS_DOCUMENTS, PASSES = 1_024, 7


def ours(queries_file: Path, documents_file: Path) -> dict[str, Any]:
    """The index on these files."""
    lines = queries_file.read_text(encoding="utf-8").splitlines()
    documents = documents_file.read_bytes().splitlines()[:OURS_DOCUMENTS]
    queries = bench_kernel.Queries.read(lines)
    sample = [line.encode() for line in bench_kernel.sample_documents()]
    frequency = bench_kernel.frequencies(queries.lexicon, sample)
    segment = Segment.build(queries.first, queries.keys, np.arange(len(lines), dtype=np.uint32), frequency)
    return bench_kernel.measure_ours(segment, queries.lexicon, documents, PASSES)


def compare(size: int, budget_seconds: float, *, quick: bool) -> dict[str, Any]:
    """One number of queries: both sides, and how many times faster ours is."""
    files = lucene_monitor.workload_files(size, DOCUMENTS, workload_text.SHORT_DISTINCT_WORDS, 0, SEED, dense=False)
    cell: dict[str, Any] = {"queries": size, "bar": BARS[size], "ours": ours(*files)}
    theirs = lucene_monitor.best_lucene(*files, budget_seconds, quick=quick)
    cell["ours_again"] = ours(*files)  # machines are noisy: once before, once after
    if not theirs["available"] or theirs["best"] is None:
        return cell | {"lucene": theirs, "ratio": None, "holds": None}
    rates = [cell["ours"]["documents_per_second_median"], cell["ours_again"]["documents_per_second_median"]]
    ratio = min(rates) / theirs["best"]["documents_per_core_second"]
    kept = {name: theirs[name] for name in ("lucene", "java", "best", "registered_per_second", "heap_bytes_per_query")}
    return cell | {"lucene": kept, "ratio": round(ratio, 1), "holds": ratio >= BARS[size]}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=["small", "full"], default="small", help="two minutes, or the real thing")
    full = parser.parse_args(arguments).size == "full"
    sizes = BARS if full else [100_000]
    print(json.dumps({"cells": [compare(size, 600.0 if full else 90.0, quick=not full) for size in sizes]}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
