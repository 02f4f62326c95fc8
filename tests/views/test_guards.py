"""Negative curiosity about values between brokers (§3.2): the sold-out flight costs no more messages."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from tests.views.test_broker import placed
from tocsin.sim.brokers import SETTINGS, BrokerRun, BrokerScenario, BrokerWorld
from tocsin.sim.faults import Crash, Faults
from tocsin.views.broker.guards import JoinGuard
from tocsin.views.broker.messages import Increment
from tocsin.views.compile import compile_views
from tocsin.views.value import now_of

SQL = """
CREATE RELATION booked (tick BIGINT, flight TEXT, seats BIGINT);
CREATE RELATION quotes (tick BIGINT, flight TEXT, price BIGINT);
CREATE VIEW taken AS SELECT flight, max(seats) AS seats FROM booked GROUP BY flight;
CREATE VIEW open AS SELECT flight FROM taken WHERE seats < 10;
CREATE VIEW fares AS SELECT flight, latest(price) AS price, count(*) AS n FROM quotes GROUP BY flight;
CREATE VIEW offers AS SELECT o.flight, f.price, f.n FROM open o JOIN fares f ON o.flight = f.flight;
"""

TROUBLE = BrokerScenario(fault_seconds=10.0, heal_seconds=20.0, views_per_run=4)


def run(seed: int, is_selective: bool, faults: Faults | None = None) -> tuple[Any, int, int, BrokerWorld]:
    """Prices change all the time while flights sell out; the offers are joined where the subscribers are."""
    plan = compile_views(SQL).plan
    where = {"booked": "seller", "taken": "seller", "open": "seller", "quotes": "pricer", "fares": "pricer"}
    placement = placed(plan, where, "host", {"offers": ("host",)})
    settings = replace(SETTINGS, is_selective=is_selective)
    world = BrokerWorld(plan, placement, seed, faults=faults, settings=settings)
    carried = 0
    process = world.process("host")
    handle = process.handle
    fares = plan.nodes().index(plan.views["fares"])

    def listen(letter: Any, now: float) -> Any:
        nonlocal carried
        if isinstance(letter.body, Increment) and letter.body.relation == fares:
            carried += len(letter.body.rows)
        return handle(letter, now)

    process.handle = listen
    chance, names = Random(seed), [f"NW{number}" for number in range(6)]
    for at in range(240):
        flight, moment = chance.choice(names), at * 0.1
        if chance.random() < 0.3:
            world.at(moment, partial(_publish, "booked", (flight, min(10, at // 12 + chance.randint(0, 2)))))
        else:
            world.at(moment, partial(_publish, "quotes", (flight, chance.randint(20, 99))))
    for relation in plan.relations:
        world.at(25.0, partial(_close, relation))
    world.run(70.0)
    rows = world.broker("host").views["offers"].rows
    shown = {row.key: tuple(map(now_of, row.cells)) for row in rows.values() if row.is_shown()}
    spared = sum(outlet.spared for outlet in world.broker("pricer").outlets.values())
    return shown, carried, spared, world


def _publish(relation: str, values: tuple[Any, ...], world: BrokerWorld) -> None:
    world.publish(relation, values)


def _close(relation: str, world: BrokerWorld) -> None:
    world.close(relation)


@pytest.mark.row("G15")
@pytest.mark.parametrize("seed", range(3))
def test_prices_of_a_sold_out_flight_are_not_sent_and_nothing_else_changes(seed):
    shown, carried, spared, world = run(seed, True)
    plain, all_rows, none_spared, _ = run(seed, False)
    assert (
        shown == plain == {key: tuple(map(now_of, row.cells)) for key, row in world.recomputed().rows("offers").items()}
    )
    assert none_spared == 0
    assert spared > 10
    assert carried < all_rows


@pytest.mark.row("G15")
@pytest.mark.parametrize("seed", range(4))
def test_it_holds_through_loss_and_crashes_of_either_end(seed):
    chance = Random(seed)
    crashes = tuple(Crash(chance.uniform(4, 20), name, 22.0, keeps_disk=True) for name in ("host", "pricer"))
    shown, _, _, world = run(seed, True, Faults(seed, 24.0, loss=0.2, duplication=0.2, crashes=crashes))
    wanted = {key: tuple(map(now_of, row.cells)) for key, row in world.recomputed().rows("offers").items()}
    assert shown == wanted


def test_a_side_that_is_not_told_apart_by_the_join_decides_nothing():
    """Another row with the same value may come: rows are not spared."""
    sql = """
    CREATE RELATION a (tick BIGINT, k TEXT, w BIGINT);
    CREATE RELATION b (tick BIGINT, k TEXT);
    CREATE VIEW left_side AS SELECT k, w, count(*) AS n FROM a GROUP BY k, w HAVING count(*) < 2;
    CREATE VIEW right_side AS SELECT k, count(*) AS n FROM b GROUP BY k;
    CREATE VIEW both_sides AS SELECT l.k, l.w, r.n FROM left_side l JOIN right_side r ON l.k = r.k;
    """
    plan = compile_views(sql).plan
    where = {"a": "pa", "left_side": "pa", "b": "pb", "right_side": "pb"}
    world = BrokerWorld(plan, placed(plan, where, "host", {"both_sides": ("host",)}))
    broker = world.broker("host")
    right = plan.nodes().index(plan.views["right_side"])
    assert right in broker.inlets
    assert right not in broker.guards


def troubled(seed: int) -> tuple[BrokerRun, list[str]]:
    """Any placement, any faults; flights sell out soon."""
    chance, names = Random(seed), ["NW44", "NW45", "NW46"]
    booked = [(chance.choice(names), chance.randint(6, 11)) for _ in range(8)]
    quotes = [(chance.choice(names), chance.randint(20, 99)) for _ in range(24)]
    found = BrokerRun(seed, compile_views(SQL).plan, {"booked": booked, "quotes": quotes}, TROUBLE)
    return found, found.run().violations


def spared_in(world: BrokerWorld) -> int:
    return sum(outlet.spared for name in world.places for outlet in world.broker(name).outlets.values())


@pytest.mark.row("G15")
def test_nothing_false_is_seen_and_everything_in_the_end_while_rows_are_spared():
    """Safety and liveness under faults, wherever the join is placed; and rows were spared in some of the runs."""
    spared = 0
    for seed in range(80):
        found, violations = troubled(seed)
        assert not violations, (seed, violations)
        spared += spared_in(found.world)
    assert spared > 10


def test_a_guard_that_decides_too_early_is_found(monkeypatch):
    """The checker's canary: a row that is gone only so far is taken as gone for good."""

    def hasty(self, rows):
        for row in rows:
            if not row.is_shown() or row.present is not True:
                self.gone.add(self._key_of(row.cells)[0])
        return False

    monkeypatch.setattr(JoinGuard, "see", hasty)
    assert any(troubled(seed)[1] for seed in range(80))
