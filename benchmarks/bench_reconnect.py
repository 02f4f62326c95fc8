"""Messages after 30 minutes away: one fresh state against a replay of the log (relational subscriptions §1.1).

40 issues, 10 quotes a second each; a subscriber of hourly high, low and current price is cut off for 30 minutes. Both
subscribers run on the same brokers: one reads the view, the other the quotes themselves with guaranteed delivery. The
promise: 100 times fewer messages.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from random import Random
from typing import Any

from tocsin.sim.brokers import BrokerWorld
from tocsin.sim.faults import Faults, Partition
from tocsin.views.broker.broker import BrokerSettings
from tocsin.views.broker.messages import Increment, Letter
from tocsin.views.broker.placement import Placement
from tocsin.views.compile import compile_views
from tocsin.views.knowledge import Knowledge
from tocsin.views.value import now_of

SQL = """
CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE, volume BIGINT);
CREATE VIEW hourly AS SELECT issue, tick / 3600000 AS hour, max(price) AS high, min(price) AS low,
    latest(price) AS current FROM quotes GROUP BY issue, tick / 3600000;
CREATE VIEW every AS SELECT tick, issue, price FROM quotes WHERE price > 0;
"""
SETTINGS = BrokerSettings(ticks_per_second=1000.0, checkpoint_seconds=60.0)


class Count:
    """What arrives at a subscriber: messages, and the rows or events in them."""

    def __init__(self, world: BrokerWorld) -> None:
        self.messages: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        for name in ("state", "log"):
            self._watch(world, name)

    def _watch(self, world: BrokerWorld, name: str) -> None:
        process = world.process(name)
        handle = process.handle

        def counted(letter: Letter, now: float) -> Any:
            if isinstance(letter.body, Increment):
                self.rows[name] += len(letter.body.rows)
                self.messages[name] += bool(letter.body.rows)
            elif isinstance(letter.body, Knowledge) and letter.body.tick is not None:
                self.rows[name] += 1
                self.messages[name] += 1
            return handle(letter, now)

        process.handle = counted


def run(issues: int, quotes_per_second: float, away_seconds: float, seed: int = 1) -> dict[str, Any]:
    """Cuts both subscribers off for a while, and counts what they are sent when they are back."""
    plan = compile_views(SQL).plan
    nodes = plan.nodes()
    hourly, every = nodes.index(plan.views["hourly"]), nodes.index(plan.views["every"])
    homes = {at: "broker" if node.inputs else "publisher" for at, node in enumerate(nodes)}
    for at, node in enumerate(nodes):
        if at == every or (node in nodes[every].inputs and node.inputs):
            homes[at] = "log"  # guaranteed delivery: select at the subscriber's own broker
    homes[hourly] = "broker"
    placement = Placement(homes, {"hourly": ("state",), "every": ("log",)}, ordered=frozenset({"every"}))
    cut = Partition(10.0, 10.0 + away_seconds, frozenset({"state", "log"}), is_one_way=False)
    world = BrokerWorld(plan, placement, seed, faults=Faults(seed, cut.end, partitions=(cut,)), settings=SETTINGS)
    count = Count(world)
    chance = Random(seed)
    step = 1 / (issues * quotes_per_second)
    state = {"next": 0.0}

    def quote(world: Any) -> None:
        world.publish("quotes", (f"I{chance.randrange(issues)}", round(chance.uniform(1, 99), 2), 100))
        state["next"] += step
        if state["next"] < cut.end:
            world.at(state["next"], quote)

    world.at(0.0, quote)
    world.run(cut.end - 0.001)
    before, rows_before = dict(count.messages), dict(count.rows)
    world.run(cut.end + 30.0)
    told = {name: count.messages[name] - before.get(name, 0) for name in ("state", "log")}
    rows = {name: count.rows[name] - rows_before.get(name, 0) for name in ("state", "log")}
    found = world.broker("state").views["hourly"].rows
    wanted = {key: row.cells[2:] for key, row in world.recomputed().rows("hourly").items()}
    same = {key: tuple(map(now_of, row.cells[2:])) for key, row in found.items()} == wanted
    return {
        "issues": issues, "quotes_per_second_each": quotes_per_second, "away_seconds": away_seconds,
        "quotes": len(world.accepted), "messages_with_state": told["state"], "rows_with_state": rows["state"],
        "messages_with_log": told["log"], "times_fewer_messages": round(told["log"] / max(1, told["state"])),
        "times_fewer_rows": round(rows["log"] / max(1, rows["state"])), "same_as_recomputed": same,
    }  # fmt: skip


def main() -> None:
    """One JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    small = parser.parse_args().size == "small"
    result = run(40, 1.0, 60.0) if small else run(40, 10.0, 1800.0)
    result["holds"] = result["times_fewer_messages"] >= 100 and result["same_as_recomputed"]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
