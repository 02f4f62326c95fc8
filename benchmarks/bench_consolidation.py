"""Many subscriptions as one plan against each on its own (relational subscriptions §5: consolidation).

Subscribers of quotes draw what they ask for from a pool of window lengths, aggregates and issues, so many ask for the
same, or for the same up to a last selection. One plan for all of them computes equal parts once. Counted: operators,
the rows that go through them, and events a second; every subscriber must see the same either way. The promise: fewer
operators and fewer rows than subscriptions on their own, by a factor that grows with their number.
"""

from __future__ import annotations

import argparse
import json
import time
from random import Random
from typing import Any

from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Event, Item
from tocsin.views.plan import Plan

RELATION = "CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE, volume BIGINT);"
WINDOWS = (60, 300, 3600)
WHAT = ("max(price) AS value", "min(price) AS value", "sum(volume) AS value", "latest(price) AS value")


def asked(subscriptions: int, issues: int, chance: Random) -> list[str]:
    """One view for each subscriber."""
    return [
        f"CREATE VIEW v{at} AS SELECT issue, w, value FROM (SELECT issue, tick / {chance.choice(WINDOWS)} AS w, "
        f"{chance.choice(WHAT)} FROM quotes GROUP BY issue, w) AS g "
        f"WHERE issue = 'I{int(chance.paretovariate(1)) % issues}';"
        for at in range(subscriptions)
    ]


class _Counted(Engine):
    """Counts the rows that operators take."""

    taken = 0

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        for step in self._steps.values():
            self._count(step)

    def _count(self, step: Any) -> None:
        take = step.step

        def counted(increments: Any, advance: Any) -> Any:
            self.taken += sum(map(len, increments))
            return take(increments, advance)

        step.step = counted


def events(number: int, issues: int, chance: Random) -> list[list[Item]]:
    """Quotes in steps of 50."""
    made: list[Item] = [
        Event("quotes", tick, (tick, f"I{chance.randrange(issues)}", chance.randrange(100) / 4, chance.randrange(9)))
        for tick in range(1, number + 1)
    ]
    return [made[at : at + 50] for at in range(0, number, 50)]


def run(subscriptions: int, number: int, issues: int = 40, seed: int = 1) -> dict[str, Any]:
    """The same events through one plan, and through a plan for each subscriber."""
    chance = Random(seed)
    views = asked(subscriptions, issues, chance)
    steps = events(number, issues, chance)
    together = _timed([compile_views("\n".join([RELATION, *views])).plan], steps)
    apart = _timed([compile_views(RELATION + view).plan for view in views], steps)
    found = {
        "subscriptions": subscriptions, "distinct": len({view.partition(" AS ")[2] for view in views}),
        "events": number,
        "operators_together": together["operators"], "operators_apart": apart["operators"],
        "rows_together": together["rows"], "rows_apart": apart["rows"],
        "events_per_second_together": together["rate"], "events_per_second_apart": apart["rate"],
        "times_fewer_operators": round(apart["operators"] / together["operators"], 1),
        "times_fewer_rows": round(apart["rows"] / together["rows"], 1),
        "same": together["seen"] == apart["seen"],
    }  # fmt: skip
    found["holds"] = found["same"] and found["times_fewer_operators"] > 2 and found["times_fewer_rows"] > 2
    return found


def _timed(plans: list[Plan], steps: list[list[Item]]) -> dict[str, Any]:
    engines = [_Counted(plan) for plan in plans]
    start = time.perf_counter()
    for items in steps:
        for engine in engines:
            engine.step(items)
    seconds = time.perf_counter() - start
    return {
        "operators": sum(len(plan.nodes()) for plan in plans),
        "rows": sum(engine.taken for engine in engines),
        "rate": round(sum(map(len, steps)) / seconds),
        "seen": {name: engine.rows(name) for engine in engines for name in engine.plan.views},
    }


def main() -> None:
    """One JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    small = parser.parse_args().size == "small"
    print(json.dumps(run(50, 1_000) if small else run(500, 5_000)))


if __name__ == "__main__":
    main()
