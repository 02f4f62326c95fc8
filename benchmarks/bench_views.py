"""Hourly high, low and current price with 10^5 groups: events a second in one process, against a recomputation.

The promise: 200,000 events a second, from lines of JSON to lines of JSON. `rising` has its groups one hour after the
other, as in a trading day; `wide` has all of them open at once. `beside` is what DuckDB needs for the same answer from
nothing after each batch. Seconds are of this process's CPU, so that what else the machine does is not counted.

Of the paper's open questions (§5) three are answered by counting: `consolidation`, what 200 subscriptions to one group
cost against one; `placement`, messages with the group at the publisher's broker against the subscriber's;
`checkpoints`, events that are read again after a crash, with a checkpoint and without.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
from collections import Counter
from time import process_time
from typing import Any

from tocsin.sim.brokers import BrokerWorld
from tocsin.views.broker.broker import BrokerSettings
from tocsin.views.broker.messages import Letter
from tocsin.views.broker.placement import Placement
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder
from tocsin.views.knowledge import Knowledge
from tocsin.views.told import lines_of

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
        rows += len(lines_of(changes))
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


TRADES = """
CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE, volume BIGINT);
CREATE VIEW hourly AS SELECT issue, max(price) AS high FROM quotes GROUP BY issue;
"""


def consolidation(lines: list[bytes], subscriptions: int) -> dict[str, Any]:
    """Alerts on the same group, each with a threshold of its own: equal parts of their plans are one."""
    alert = "CREATE VIEW v{0} AS SELECT issue, max(price) AS high FROM quotes GROUP BY issue HAVING max(price) > {0};"
    relation = TRADES.split(";", maxsplit=1)[0] + ";"
    found: dict[str, Any] = {"subscriptions": subscriptions}
    for name, number in (("one", 1), ("all", subscriptions)):
        plan = compile_views(relation + "".join(alert.format(499 - at) for at in range(number))).plan
        engine, decoder = Engine(plan, keep=False), Decoder(plan.relations)
        items = [decoder.line(line) for line in lines]
        start = process_time()
        for at in range(0, len(items), 500):
            engine.step(items[at : at + 500])
        found[f"{name}_operators"] = len(plan.nodes())
        found[f"{name}_seconds"] = round(process_time() - start, 3)
    return found


def _brokers(home: str, checkpoint_seconds: float, quotes: int) -> tuple[BrokerWorld, Counter[str]]:
    """Quotes at one broker, their subscriber at another, and the group at one of them; what reaches the subscriber."""
    plan = compile_views(TRADES).plan
    homes = {at: home if node.inputs else "publisher" for at, node in enumerate(plan.nodes())}
    settings = BrokerSettings(ticks_per_second=1000.0, checkpoint_seconds=checkpoint_seconds)
    world = BrokerWorld(plan, Placement(homes, {"hourly": ("subscriber",)}), settings=settings)
    chance, heard = random.Random(3), Counter[str]()
    for at in range(quotes):
        values = (f"I{chance.randrange(20)}", round(chance.uniform(1, 500), 2), 1)
        world.at(1 + at * 0.05, lambda world, values=values: world.publish("quotes", values))  # type: ignore[misc]
    handle = world.process("subscriber").handle

    def counted(letter: Letter, now: float) -> Any:
        has_news = letter.body.tick is not None if isinstance(letter.body, Knowledge) else bool(letter.body.rows)  # type: ignore[union-attr]
        heard["messages"] += has_news
        return handle(letter, now)

    world.process("subscriber").handle = counted
    world.run(2 + quotes * 0.05)
    return world, heard


def placement(quotes: int) -> dict[str, int]:
    """Messages with news at the subscriber's broker."""
    return {home: _brokers(home, 5.0, quotes)[1]["messages"] for home in ("publisher", "subscriber")}


def checkpoints(quotes: int) -> dict[str, int]:
    """Events that the subscriber's broker needs again after a crash."""
    found = {}
    for name, seconds in (("with", 5.0), ("without", 1e9)):
        world, _ = _brokers("subscriber", seconds, quotes)
        world.crash("subscriber")
        world.restart("subscriber", keeps_disk=True)
        heard = Counter[str]()
        handle = world.process("subscriber").handle

        def counted(letter: Letter, now: float, handle: Any = handle, heard: Counter[str] = heard) -> Any:
            heard["events"] += isinstance(letter.body, Knowledge) and letter.body.tick is not None
            return handle(letter, now)

        world.process("subscriber").handle = counted
        world.run(world.now + 5)
        found[name] = heard["events"]
    return found


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
        "consolidation": consolidation(rising[: 5_000 if small else 50_000], 200),
        "placement_messages": placement(500),
        "events_read_after_a_crash": checkpoints(500),
    }
    result["holds"] = all(result[name]["events_per_second"] >= 200_000 for name in ("rising", "wide"))  # type: ignore[index]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
