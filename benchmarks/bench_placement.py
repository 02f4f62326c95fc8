"""Where the objects of a plan live (relational subscriptions §3, §5: placement).

Quotes of two publishers are merged, selected and grouped for subscribers at three hosts. The same plan with all its
operators at the subscribers' hosts, at one broker in the middle, or with the selections at the publishers and the rest
in the middle: every placement must show the same, and the messages and rows between brokers differ. The promise:
selections near the source and groups before the fan-out need fewer rows than everything at the hosts.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from random import Random
from typing import Any

from tocsin.sim.brokers import BrokerWorld
from tocsin.views.broker.broker import BrokerSettings
from tocsin.views.broker.messages import Increment, Letter
from tocsin.views.broker.placement import Placement
from tocsin.views.compile import compile_views
from tocsin.views.knowledge import Knowledge
from tocsin.views.plan import Plan, Relation, Select

SQL = """
CREATE RELATION a (tick BIGINT, issue TEXT, volume BIGINT);
CREATE RELATION b (tick BIGINT, issue TEXT, volume BIGINT);
CREATE VIEW big AS SELECT issue, volume FROM a WHERE volume > 8 UNION ALL SELECT issue, volume FROM b WHERE volume > 8;
CREATE VIEW total AS SELECT issue, sum(volume) AS volume, count(*) AS n FROM big GROUP BY issue;
"""
HOSTS = ("s0", "s1", "s2")
SETTINGS = BrokerSettings(ticks_per_second=50.0, patience_seconds=2.0, checkpoint_seconds=10.0, away_seconds=20.0)


def placements(plan: Plan) -> dict[str, list[tuple[Plan, Placement]]]:
    """Each way as the worlds it takes: hosts that compute for themselves are a world each."""
    nodes = plan.nodes()
    sources = {at: f"p{node.name}" for at, node in enumerate(nodes) if isinstance(node, Relation)}

    def everything(home: str, watchers: tuple[str, ...]) -> Placement:
        return Placement({at: sources.get(at, home) for at in range(len(nodes))}, {"total": watchers})

    near = everything("middle", HOSTS)
    homes = dict(near.homes)
    for at, node in enumerate(nodes):
        if isinstance(node, Select) and isinstance(node.input, Relation):
            homes[at] = f"p{node.input.name}"
    return {
        "at the hosts": [(plan, everything(host, (host,))) for host in HOSTS],
        "in the middle": [(plan, near)],
        "selections at the publishers": [(plan, Placement(homes, near.watchers))],
    }


def run(number: int, issues: int = 8, seconds: float = 30.0, seed: int = 1) -> dict[str, Any]:
    """The same trades under every placement."""
    plan = compile_views(SQL).plan
    only = Plan(plan.relations, {"total": plan.views["total"]})
    chance = Random(seed)
    trades = [(chance.choice("ab"), (f"I{chance.randrange(issues)}", chance.randint(1, 10))) for _ in range(number)]
    found: dict[str, Any] = {"trades": number, "hosts": len(HOSTS)}
    shown = []
    for name, worlds in placements(only).items():
        messages = rows = 0
        for its_plan, placement in worlds:
            sent, carried, seen = _world(its_plan, placement, trades, seconds)
            messages, rows = messages + sent, rows + carried
            shown += seen
        found[name] = {"messages": messages, "rows": rows}
    found["same"] = all(one == shown[0] and one for one in shown)
    hosts, middle, near = (found[name]["rows"] for name in placements(only))
    found["holds"] = found["same"] and near < middle < hosts
    return found


def _world(plan: Plan, placement: Placement, trades: list[Any], seconds: float) -> tuple[int, int, list[Any]]:
    world = BrokerWorld(plan, placement, 1, settings=SETTINGS)
    counted = {"messages": 0, "rows": 0}
    for name in list(world.places):
        _listen(world, name, counted)
    for at, (relation, values) in enumerate(trades):
        world.at(seconds * at / len(trades), partial(_publish, relation, values))
    for relation in plan.relations:
        world.at(seconds + 1, partial(_close, relation))
    world.run(seconds + 30)
    wanted = world.recomputed().rows("total")
    seen = [world.broker(host).views["total"].rows for host in placement.watchers["total"]]
    assert all(rows == wanted for rows in seen), "a placement shows something else than one process"
    plain = [{key: row.cells for key, row in rows.items()} for rows in seen]
    return counted["messages"], counted["rows"], plain


def _listen(world: BrokerWorld, name: str, counted: dict[str, int]) -> None:
    process = world.process(name)
    handle = process.handle

    def listen(letter: Letter, now: float) -> Any:
        counted["messages"] += 1
        if isinstance(letter.body, Increment):
            counted["rows"] += len(letter.body.rows)
        elif isinstance(letter.body, Knowledge) and letter.body.tick is not None:
            counted["rows"] += 1
        return handle(letter, now)

    process.handle = listen


def _publish(relation: str, values: tuple[Any, ...], world: BrokerWorld) -> None:
    world.publish(relation, values)


def _close(relation: str, world: BrokerWorld) -> None:
    world.close(relation)


def main() -> None:
    """One JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    small = parser.parse_args().size == "small"
    print(json.dumps(run(300) if small else run(5_000, 40, 120.0)))


if __name__ == "__main__":
    main()
