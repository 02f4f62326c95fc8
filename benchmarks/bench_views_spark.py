"""Hourly high, low and current price with 10^5 groups on Spark: events a second of four ways, side by side.

    python -m benchmarks.bench_views_spark --size small|full [--cores N]

The same batches, in Parquet files, on `local[2]`:
- `views`: Spark groups each batch, and what comes of it is merged and stored with the batch's number, in one
  transaction; every changed row is there to be told, with what is certain of it.
- `aggregation`: Spark groups each batch, in its own words, and nothing is merged or stored. The promise: `views` keeps
  80 % of it. Before anything is timed, both are compared over all batches.
- `streaming`: Spark's own streaming aggregation of the same files, in update mode, rows passed over.
- `duckdb`: a recomputation of everything after each batch, on as many threads.

All groups are open all the time, which is the worst case: each batch touches most of them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.bench_views import HOUR, SQL
from tocsin.cli.console import say
from tocsin.pipeline.session import SparkSettings, open_session
from tocsin.pipeline.view_tables import event_schema
from tocsin.pipeline.views import SparkViews
from tocsin.store import Store
from tocsin.store import views as kept
from tocsin.views.compile import compile_views

SHARE = 0.8


def main() -> None:
    """One JSON object."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--size", choices=("small", "full"), default="small")
    given.add_argument("--cores", type=int, default=2, help="for Spark and DuckDB alike")
    asked = given.parse_args()
    events, groups, batches = (3_500_000, 100_000, 7) if asked.size == "full" else (400_000, 10_000, 4)
    with TemporaryDirectory(prefix="tocsin-bench-") as folder:
        print(json.dumps(measure(Path(folder), events, groups, batches, asked.cores), indent=1))


def measure(folder: Path, events: int, groups: int, batches: int, cores: int) -> dict[str, Any]:
    """Each way once to warm up, then three times over all batches, in turns; the best time of each counts."""
    files = write(folder / "quotes", events, groups, batches)
    spark = open_session(SparkSettings(master=f"local[{cores}]", shuffle_partitions=cores))
    try:
        ways: dict[str, Callable[[list[Path], str], object]] = {
            "aggregation": lambda found, name: aggregation(spark, found),
            "views": lambda found, name: views(spark, folder / name, found),
            "streaming": lambda found, name: streaming(spark, folder / name, found),
            "duckdb": lambda found, name: duckdb(found, cores),
        }
        seconds: dict[str, list[float]] = {}
        say("comparing")
        compare(spark, folder / "compared", files)
        for name in ("streaming", "duckdb"):
            ways[name](files[:1], f"{name}-warm")
        for attempt in range(3):
            for name, way in ways.items():
                say(f"{name}, {attempt + 1} of 3")
                start = time.perf_counter()
                way(files, f"{name}-{attempt}")
                seconds.setdefault(name, []).append(time.perf_counter() - start)
    finally:
        spark.stop()
    rates = {name: round(events / min(found)) for name, found in seconds.items()}
    share = min(seconds["aggregation"]) / min(seconds["views"])
    return {
        "benchmark": "views on Spark", "events": events, "groups": groups, "batches": batches, "cores": cores,
        "events_per_second": rates, "seconds": {name: round(min(found), 2) for name, found in seconds.items()},
        "share_of_aggregation": round(share, 3), "bar": SHARE, "holds": share >= SHARE,
    }  # fmt: skip


def write(folder: Path, events: int, groups: int, batches: int) -> list[Path]:
    """Batches of quotes at rising ticks, all within one hour."""
    chance = np.random.default_rng(1)
    folder.mkdir()
    files = []
    for number, ticks in enumerate(np.array_split(np.arange(events), batches)):
        issues = pa.DictionaryArray.from_arrays(
            pa.array(chance.integers(0, groups, len(ticks))), pa.array([f"I{at}" for at in range(groups)])
        )
        table = pa.table({
            "tick": ticks, "issue": issues.cast(pa.string()),
            "price": np.round(chance.uniform(1, 500, len(ticks)), 2), "volume": chance.integers(1, 10_000, len(ticks)),
        })  # fmt: skip
        files.append(folder / f"{number:04}.parquet")
        pq.write_table(table, files[-1])
    return files


def hourly(quotes: DataFrame) -> DataFrame:
    """The view of `bench_views` in Spark's own words."""
    hour = F.call_function("div", F.col("tick"), F.lit(HOUR))
    return quotes.groupBy("issue", hour.alias("hour")).agg(
        F.max("price").alias("high"), F.min("price").alias("low"), F.max_by("price", "tick").alias("current")
    )


def aggregation(spark: SparkSession, files: list[Path]) -> None:
    """Native, alone."""
    for path in files:
        hourly(spark.read.parquet(str(path))).toArrow()


def views(spark: SparkSession, folder: Path, files: list[Path]) -> SparkViews:
    """Ours. A file's ticks are its line numbers: nobody needs to look for repeats."""
    folder.mkdir()
    store = Store(f"sqlite:///{folder}/store.db", create=True)
    kept.create(store)
    found = SparkViews(store, "hourly", compile_views(SQL).plan, spark, ticks_differ=True)
    for number, path in enumerate(files):
        assert len(found.run(number, {"quotes": spark.read.parquet(str(path))}))
    store.close()
    return found


def compare(spark: SparkSession, folder: Path, files: list[Path]) -> None:
    """What is certain after all batches is what Spark says of all events at once."""
    rows = views(spark, folder, files).rows("hourly")
    found = {
        (row["issue"], row["hour"]): (row["high"]["at_least"], row["low"]["at_most"], row["current"]["latest"])
        for row in rows
    }
    every = hourly(spark.read.parquet(*map(str, files))).toArrow().to_pylist()
    assert found == {(row["issue"], row["hour"]): (row["high"], row["low"], row["current"]) for row in every}


def streaming(spark: SparkSession, folder: Path, files: list[Path]) -> None:
    """Spark's own: state in its own store, a batch for each file."""
    folder.mkdir()
    source = folder / "source"
    source.mkdir()
    for path in files:
        (source / path.name).symlink_to(path)
    schema = event_schema(compile_views(SQL).plan.relations["quotes"])
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    query = (
        hourly(read.parquet(str(source))).writeStream.outputMode("update").format("noop").trigger(availableNow=True)
        .option("checkpointLocation", str(folder / "checkpoint")).start()
    )  # fmt: skip
    query.awaitTermination()


def duckdb(files: list[Path], cores: int) -> None:
    """Everything anew after each batch."""
    import duckdb as base

    connection = base.connect()
    connection.execute(f"SET threads = {cores}; SET integer_division = true")
    for number in range(1, len(files) + 1):
        read = ", ".join(f"'{path}'" for path in files[:number])
        connection.sql(
            f"SELECT issue, tick / {HOUR}, max(price), min(price), arg_max(price, tick) "
            f"FROM read_parquet([{read}]) GROUP BY 1, 2"
        ).to_arrow_table()
    connection.close()


if __name__ == "__main__":
    main()
