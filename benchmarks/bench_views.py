"""Hourly high, low and current price with 10^5 groups: events a second in one process, against a recomputation.

The promise: 200,000 events a second, from lines of JSON to lines of JSON. `rising` has its groups one hour after the
other, as in a trading day; `wide` has all of them open at once. `beside` is what DuckDB needs for the same answer from
nothing after each batch. Seconds are of this process's CPU, so that what else the machine does is not counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
from time import process_time
from typing import Any

from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder

SQL = """
CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE, volume BIGINT);
CREATE VIEW hourly AS SELECT issue, tick / 3600000 AS hour, max(price) AS high, min(price) AS low,
    latest(price) AS current FROM quotes GROUP BY issue, tick / 3600000;
"""
HOUR = 3_600_000


def quotes(events: int, issues: int, hours: int, seed: int) -> list[bytes]:
    """Quotes at rising ticks, spread evenly over issues and hours."""
    chance = random.Random(seed)
    step = hours * HOUR / events
    return [
        json.dumps({
            "relation": "quotes", "tick": int(at * step), "issue": f"I{chance.randrange(issues)}",
            "price": round(chance.uniform(1, 500), 2), "volume": chance.randrange(1, 10_000),
        }).encode()
        for at in range(events)
    ]  # fmt: skip


def run(lines: list[bytes], batch: int) -> dict[str, Any]:
    """Events a second: taking them in only, and with every changed row written as JSON."""
    compiled = compile_views(SQL)
    engine, decoder = Engine(compiled.plan, keep=False, columns=True), Decoder(compiled.plan.relations)
    taking = writing = 0.0
    rows = 0
    for at in range(0, len(lines), batch):
        start = process_time()
        table = decoder.table(lines[at : at + batch])
        assert table is not None
        changes = engine.step_table(table)
        assert changes is not None
        middle = process_time()
        rows += sum(len(json.dumps(change.json())) > 0 for change in changes)
        taking, writing = taking + middle - start, writing + process_time() - middle
    return {
        "events": len(lines), "batch": batch, "rows": rows, "events_per_second": round(len(lines) / (taking + writing)),
        "events_per_second_without_writing": round(len(lines) / taking),
    }  # fmt: skip


def one_by_one(lines: list[bytes]) -> int:
    """Events a second where each line is a step."""
    compiled = compile_views(SQL)
    engine, decoder = Engine(compiled.plan, keep=False), Decoder(compiled.plan.relations)
    start = process_time()
    for line in lines:
        for change in engine.step([decoder.line(line)]):
            json.dumps(change.json())
    return round(len(lines) / (process_time() - start))


def beside(lines: list[bytes], batch: int) -> int | None:
    """Events a second of a recomputation by DuckDB after each batch (without reading and writing JSON)."""
    try:
        import duckdb
    except ImportError:
        return None
    rows = [json.loads(line) for line in lines]
    base = duckdb.connect()
    base.execute("SET threads = 1; SET integer_division = true")
    base.execute("CREATE TABLE quotes (tick BIGINT, issue TEXT, price DOUBLE)")
    spent = 0.0
    for at in range(0, len(rows), batch):
        part = rows[at : at + batch]
        columns = [[row[name] for row in part] for name in ("tick", "issue", "price")]
        start = process_time()
        base.execute("INSERT INTO quotes SELECT unnest(?), unnest(?), unnest(?)", columns)
        base.execute(
            "SELECT issue, tick / 3600000, max(price), min(price), arg_max(price, tick) FROM quotes GROUP BY 1, 2"
        ).fetchall()
        spent += process_time() - start
    return round(len(rows) / spent)


def main() -> None:
    """One JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    small = parser.parse_args().size == "small"
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)  # as `tocsin view run --batch` does
    events, groups, batch = (200_000, 10_000, 20_000) if small else (2_000_000, 100_000, 100_000)
    rising = quotes(events, groups // 100, 100, seed=1)
    wide = quotes(events, groups, 1, seed=2)
    result = {
        "groups": groups,
        "rising": run(rising, batch),
        "wide": run(wide, batch),
        "one_by_one_events_per_second": one_by_one(rising[:20_000]),
        "duckdb_recompute_events_per_second": beside(rising, batch),
    }
    result["holds"] = result["rising"]["events_per_second"] >= 200_000  # type: ignore[index]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
