"""The cheapest 3 at a distance: what to push and keep, and what to pull for (relational subscriptions §3.2, §5).

Flights come, change their price and sell out. The seller's broker has all of them; the subscriber's broker computes the
cheapest 3, is pushed changes of these and of some spare ones, and pulls when fewer than 3 are left. More spare rows:
more rows pushed, fewer pulls, each of which makes a subscriber wait. `all` pushes everything. The promise: the
subscriber sees what one process computes, pulls fall as the spare rows grow, and 3 + 2 needs less than half of the rows
that `all` needs.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from random import Random
from typing import Any

from tocsin.sim.brokers import SETTINGS, BrokerWorld
from tocsin.views.broker.guards import BestGuard
from tocsin.views.broker.messages import Increment
from tocsin.views.broker.placement import Placement
from tocsin.views.compile import compile_views
from tocsin.views.plan import Best
from tocsin.views.value import now_of

SPARES = (0, 1, 2, 4, 8, 16)
CHANGES_PER_SECOND = 10
SQL = """
CREATE RELATION quotes (tick BIGINT, flight BIGINT, price BIGINT);
CREATE VIEW fares AS SELECT flight, latest(price) AS price FROM quotes GROUP BY flight;
CREATE VIEW open AS SELECT flight, price FROM fares WHERE price > 0;
CREATE VIEW cheapest AS SELECT flight, price FROM open ORDER BY price, flight LIMIT 3;
"""


def changes(number: int, flights: int, seed: int) -> list[tuple[int, int]]:
    """(flight, its price; 0: it is sold out)."""
    chance = Random(seed)
    there: dict[int, None] = {}
    made: list[tuple[int, int]] = []
    for _ in range(number):
        flight = chance.randrange(flights)
        if flight in there and chance.random() < 0.35:
            del there[flight]
            made.append((flight, 0))
        else:
            there[flight] = None
            made.append((flight, chance.randint(20, 999)))
    return made


def at_a_distance(made: list[tuple[int, int]], spare: int | None) -> dict[str, Any]:
    """What goes over the link with so many spare rows; None: everything."""
    plan = compile_views(SQL).plan
    nodes = plan.nodes()
    homes = {at: "host" if isinstance(node, Best) else "seller" for at, node in enumerate(nodes)}
    homes[nodes.index(plan.views["cheapest"])] = "host"
    settings = replace(SETTINGS, is_selective=spare is not None, spare_rows=spare or 0, checkpoint_seconds=60.0)
    world = BrokerWorld(plan, Placement(homes, {"cheapest": ("host",)}), settings=settings)
    found: dict[str, Any] = {"spare": spare, "messages": 0, "rows": 0}
    process = world.process("host")
    handle = process.handle

    def listen(letter: Any, now: float) -> Any:
        if isinstance(letter.body, Increment):
            found["messages"] += 1
            found["rows"] += len(letter.body.rows)
        return handle(letter, now)

    process.handle = listen
    for at, values in enumerate(made):
        world.run(2.0 + at / CHANGES_PER_SECOND)
        world.publish("quotes", values)
    world.run(world.now + 5.0)
    host = world.broker("host")
    rows = {key: tuple(map(now_of, row.cells)) for key, row in host.views["cheapest"].rows.items() if row.is_shown()}
    wanted = {key: tuple(map(now_of, row.cells)) for key, row in world.recomputed().rows("cheapest").items()}
    pulls = sum(guard.pulls for guard in host.guards.values() if isinstance(guard, BestGuard))
    return {**found, "pulls": pulls, "same": rows == wanted and len(rows) == 3}


def run(number: int, flights: int, seed: int = 1) -> dict[str, Any]:
    """The same changes with ever more spare rows, and pushed whole."""
    made = changes(number, flights, seed)
    ways = [at_a_distance(made, spare) for spare in SPARES]
    everything = at_a_distance(made, None)
    pulls = [way["pulls"] for way in ways]
    two = next(way for way in ways if way["spare"] == 2)
    found: dict[str, Any] = {"changes": number, "flights": flights, "ways": ways, "all": everything}
    found["holds"] = (
        all(way["same"] for way in (*ways, everything))
        and pulls == sorted(pulls, reverse=True)
        and pulls[0] > two["pulls"]
        and two["rows"] < everything["rows"] / 2
    )
    return found


def main() -> None:
    """One JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    small = parser.parse_args().size == "small"
    print(json.dumps(run(2_000, 200) if small else run(10_000, 500)))


if __name__ == "__main__":
    main()
