"""From arrival to the outbox: latency at 100 documents a second, and rows a second of a large batch.

    python -m benchmarks.bench_stream --size small|full

Documents are accepted one by one at a steady rate while the stream runs on `local[2]` with 100,000 subscriptions
(small: 10,000); the latency of a document is the time from its acceptance to the time its notifications were written.
Then a backlog is matched at once: documents and outbox rows a second, the sink's transaction included.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import select

from tocsin.model import Document
from tocsin.pipeline.session import SparkSettings, open_session
from tocsin.pipeline.stream import Stream, StreamSettings
from tocsin.store import Store, documents, outbox, schema, subscriptions
from tocsin.store.subscriptions import Asked, Wish

VOCABULARY = 50_000
WORDS = 200  # of a document
RATE = 100


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--size", choices=("small", "full"), default="small")
    is_full = given.parse_args().size == "full"
    queries, seconds, backlog = (100_000, 60, 100_000) if is_full else (10_000, 10, 5_000)
    with TemporaryDirectory(prefix="tocsin-bench-") as folder:
        print(json.dumps(measure(Path(folder), queries, seconds, backlog), indent=1))


def measure(folder: Path, queries: int, seconds: int, backlog: int) -> dict[str, Any]:
    chance = random.Random(1)
    store = Store(folder / "store")
    say(f"registering {queries:,} subscriptions")
    start = time.perf_counter()
    for first in range(0, queries, 10_000):
        wishes = [Wish(f"s{n}", Asked(query(chance))) for n in range(first, min(first + 10_000, queries))]
        subscriptions.add(store, "ann", wishes)
    registered = queries / (time.perf_counter() - start)
    spark = open_session(SparkSettings(master="local[2]"))
    stream = Stream(store, folder / "pipeline", spark, settings=StreamSettings(batch_documents_max=20_000))
    stream.start()
    documents.accept(store, [document(chance, f"warm{n}") for n in range(200)])
    stream.catch_up()
    say(f"{RATE} documents a second for {seconds} s")
    latencies = steady(store, stream, chance, seconds)
    stream.stop()
    say(f"a backlog of {backlog:,} documents")
    for first in range(0, backlog, 1_000):
        documents.accept(store, [document(chance, f"b{n}") for n in range(first, first + 1_000)])
    before, again = outbox.count(store), Stream(store, folder / "pipeline", spark)
    start = time.perf_counter()
    again.start()
    again.catch_up()
    elapsed = time.perf_counter() - start
    again.stop()
    rows = outbox.count(store) - before
    spark.stop()
    cuts = quantiles(latencies, n=100)
    return {
        "benchmark": "stream",
        "subscriptions": queries,
        "subscriptions_registered_per_second": round(registered),
        "latency_seconds": {
            "p50": round(median(latencies), 3),
            "p95": round(cuts[94], 3),
            "p99": round(cuts[98], 3),
            "bar_p50": 1.0,
            "holds": median(latencies) <= 1.0,
            "matched_documents": len(latencies),
        },
        "backlog": {
            "documents_per_second": round(backlog / elapsed),
            "outbox_rows_per_second": round(rows / elapsed),
            "matches_per_document": round(rows / backlog, 3),
        },
    }


def steady(store: Store, stream: Stream, chance: random.Random, seconds: int) -> list[float]:
    """Latencies of the documents that matched something."""
    after = documents.last_position(store)
    start = time.perf_counter()
    for number in range(seconds * RATE):
        time.sleep(max(0.0, start + number / RATE - time.perf_counter()))
        documents.accept(store, [document(chance, f"d{number}")])
    stream.catch_up()
    told, log = schema.notifications, schema.documents
    asked = select(told.c.made - log.c.accepted).join(log, log.c.position == told.c.position)
    with store.read() as transaction:
        return [float(one) for one in transaction.execute(asked.where(log.c.position > after)).scalars()]


def query(chance: random.Random) -> str:
    return " AND ".join({word(chance, 500) for _ in range(chance.randint(2, 4))})


def document(chance: random.Random, id: str) -> Document:
    return Document(id, {"text": (" ".join(word(chance, 1) for _ in range(WORDS)),)})


def word(chance: random.Random, first: int) -> str:
    """A word by Zipf's law over the ranks from `first` on."""
    return f"w{int(first * (VOCABULARY / first) ** chance.random())}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
