"""What keeping subscriptions costs: building, single additions, memory, saving, opening, two cores.

    python benchmarks/bench_registry.py --size full

Prints one JSON object. Rates are per second of one core's time (`process_time`), except where two cores
are compared, which is wall-clock time. Queries and documents are those of `workload_text`; the sets of
exactly three words and ids of eight bytes are for the promise on memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import workload_text
from tocsin import Document, Knowledge
from tocsin.match.registry import Registry

SEED = 1
SINGLE = 20_000


def building(count: int) -> tuple[Registry, dict[str, Any]]:
    """From query text, in bulk; ids of eight bytes."""
    lines = workload_text.queries(count, SEED)
    entries = [(f"{number:08x}", line) for number, line in enumerate(lines)]
    registry = Registry()
    start = time.process_time()
    refused = registry.add_many(entries)
    seconds = time.process_time() - start
    if refused:
        raise AssertionError(f"{len(refused)} queries were refused")
    return registry, {"queries": count, "bulk_per_second": round(count / seconds)}


def adding(registry: Registry) -> dict[str, Any]:
    """One at a time, each visible to the next batch."""
    lines = workload_text.queries(SINGLE, SEED + 1)
    document = [Document("d", {"text": (lines[-1],)})]
    start = time.process_time()
    for number, line in enumerate(lines):
        registry.add(f"new{number}", line)
    found = registry.match(document, Knowledge()).matches
    seconds = time.process_time() - start
    if (0, f"new{SINGLE - 1}") not in found:
        raise AssertionError("the last query that was added does not see the next batch")
    return {"queries_before": len(registry) - SINGLE, "single_per_second": round(SINGLE / seconds)}


def memory(count: int) -> dict[str, Any]:
    """Queries of exactly three words: index, dictionaries and ids, without the text."""
    lines = [line for line in workload_text.queries(3 * count, SEED + 2) if len(line.split()) == 3][:count]
    registry = Registry()
    registry.add_many([(f"{number:08x}", line) for number, line in enumerate(lines)])
    registry.index.reorganise()
    parts = {
        "clauses": registry.index.clauses.nbytes,
        "dictionaries": registry.index.interner.nbytes,
        "ids": registry.ids.nbytes,
        "frequencies": registry.index.nbytes - registry.index.clauses.nbytes - registry.index.interner.nbytes,
    }
    per_query = {name: round(size / len(lines), 2) for name, size in parts.items()}
    return {"queries": len(lines), "bytes_per_query": round(sum(parts.values()) / len(lines), 2), "parts": per_query}


def keeping(registry: Registry) -> dict[str, Any]:
    """Saving and opening."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        registry.save(Path(folder))
        saved = time.perf_counter() - start
        start = time.perf_counter()
        opened = Registry.open(Path(folder))
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        if len(opened) != len(registry):
            raise AssertionError("the opened index holds other subscriptions")
    return {"save_seconds": round(saved, 3), "open_milliseconds": round(1000 * seconds, 2), "megabytes": size // 10**6}


def matching(registry: Registry, documents: int) -> dict[str, Any]:
    """From `Document` objects to matches by id, which is what the command line does."""
    found = [
        Document(f"{number}", {"text": (text,)})
        for number, text in enumerate(workload_text.documents(documents, 200, SEED))
    ]
    registry.index.match(found[:64], Knowledge())
    start = time.process_time()
    owners, _ = registry.index.match(found, Knowledge())
    seconds = time.process_time() - start
    return {"documents_per_second": round(documents / seconds), "matches_per_document": owners.size / documents}


def _worker(folder: str, documents: int, seed: int) -> float:
    registry = Registry.open(Path(folder))
    found = [Document(f"{n}", {"text": (t,)}) for n, t in enumerate(workload_text.documents(documents, 200, seed))]
    registry.index.match(found[:64], Knowledge())
    start = time.perf_counter()
    registry.index.match(found, Knowledge())
    return time.perf_counter() - start


def two_cores(registry: Registry, documents: int) -> dict[str, Any]:
    """Two processes that map the same saved index, against one: wall-clock rates."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2) as pool:
        registry.save(Path(folder))
        one = pool.submit(_worker, folder, documents, SEED).result()
        both = [pool.submit(_worker, folder, documents, SEED + number) for number in range(2)]
        two = max(task.result() for task in both)
    return {
        "one_per_second": round(documents / one),
        "two_per_second": round(2 * documents / two),
        "ratio": 2 * one / two,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=["small", "full"], default="small", help="seconds, or the real thing")
    full = parser.parse_args(arguments).size == "full"
    registry, built = building(100_000)
    small = {"building": built, "matching": matching(registry, 3_200), "two_cores": two_cores(registry, 6_400)}
    large, built = building(2_500_000 if full else 200_000)
    result = {
        "small": small,
        "building": built,
        "adding": adding(large),
        "keeping": keeping(large),
        "memory": memory(1_000_000 if full else 100_000),
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
