"""EXCEPT and NOT EXISTS over a long stream: what is final is told and forgotten (§1.2.3, §2.4)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.views.recompute import canonical, recompute
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder
from tocsin.views.group import GroupStep
from tocsin.views.relation import Row
from tocsin.views.without import WithoutStep

RELATIONS = """
CREATE RELATION asked (tick BIGINT, k TEXT, x BIGINT);
CREATE RELATION answered (tick BIGINT, k TEXT, x BIGINT);
"""
CLOSING = {
    "windows": "SELECT k, tick / 5 AS w FROM asked EXCEPT SELECT k, tick / 5 AS w FROM answered WHERE x > 2",
    "at_once": "SELECT tick, k FROM asked WHERE NOT EXISTS "
    "(SELECT 1 FROM answered WHERE answered.tick = asked.tick AND answered.k = asked.k)",
    "in_window": "SELECT tick, x FROM asked WHERE NOT EXISTS "
    "(SELECT 1 FROM answered a WHERE a.tick / 10 = asked.tick / 10 AND a.k = asked.k AND a.x > 1)",
    "counted": "SELECT w, count(*) AS n FROM windows GROUP BY w",
    "calm": "SELECT w, n FROM counted EXCEPT SELECT tick / 5 AS w, x FROM answered",
}
"""Each row waits for the ticks of one window."""
NEVER = {
    "strangers": "SELECT tick, k FROM asked WHERE NOT EXISTS (SELECT 1 FROM answered WHERE answered.k = asked.k)",
    "kinds": "SELECT k, x FROM asked EXCEPT SELECT k, x FROM answered",
}
"""Deletions may come at any time: of each value that is deleted for good one bit stays."""


def text(views: dict[str, str]) -> str:
    return RELATIONS + "".join(f"CREATE VIEW {name} AS {query};\n" for name, query in views.items())


def long_stream(seed: int, length: int) -> list[dict[str, Any]]:
    chance, items, ticks = Random(seed), list[dict[str, Any]](), {"asked": 0, "answered": 0}
    for _ in range(length):
        relation = min(ticks, key=lambda one: (ticks[one], chance.random()))
        values = {"k": chance.choice(["a", "b", "c", None]), "x": chance.choice([None, 0, 1, 2, 3, 4])}
        items.append({"relation": relation, "tick": ticks[relation], **values})
        ticks[relation] += chance.choice([1, 1, 1, 2, 4])
    return [*items, *({"relation": relation, "closed": True} for relation in ticks)]


def held(engine: Engine) -> dict[str, int]:
    """How many rows, deletions, values, groups and members the operators hold."""
    steps = {node: step for node, step in engine.steps.items() if isinstance(step, WithoutStep | GroupStep)}
    return {str(node): step.size() for node, step in steps.items()}


def run(views: dict[str, str], items: list[dict[str, Any]], batch: int) -> tuple[Engine, list[dict[str, int]]]:
    compiled = compile_views(text(views))
    assert not compiled.refused, compiled.refused
    engine, decoder, sizes = Engine(compiled.plan), Decoder(compiled.plan.relations), list[dict[str, int]]()
    for at in range(0, len(items), batch):
        engine.step([decoder.item(item) for item in items[at : at + batch]])
        sizes.append(held(engine))
    for view, rows in recompute(text(views), items).items():
        found = [change.row or {} for change in engine.state_of(view)]
        assert canonical(found) == canonical(rows), view
    assert all(change.final for change in engine.state())
    return engine, sizes


@pytest.mark.parametrize("batch", [1, 50])
def test_a_window_that_closes_leaves_nothing_behind(batch):
    """Whatever the length of the stream: at no time more is held than a few windows have rows."""
    _, sizes = run(CLOSING, long_stream(batch, 2_000), batch)
    most = max(sum(one.values()) for one in sizes)
    assert 10 < most < 60 + 10 * batch, sizes
    assert max(sum(one.values()) for one in sizes[-len(sizes) // 4 :]) <= most
    assert set(sizes[-1].values()) == {0}, "at the end there is nothing to wait for"


def test_of_deletions_that_never_close_one_bit_for_each_value_stays():
    _, sizes = run(NEVER, long_stream(7, 2_000), 10)
    values = 4 + 4 * 6
    for one in sizes[len(sizes) // 2 : -1]:  # every value was deleted by then, but null, which equals nothing
        assert all(size <= 2 * values for size in one.values()), one


def test_what_comes_again_for_a_closed_value_is_not_said_again():
    """A broker may be told a row once more, long after it was deleted and forgotten."""
    compiled = compile_views(text({"at_once": CLOSING["at_once"]}))
    engine, decoder = Engine(compiled.plan), Decoder(compiled.plan.relations)
    items = [{"relation": name, "tick": tick, "k": "a", "x": 1} for tick in range(20) for name in ("asked", "answered")]
    engine.step([decoder.item(item) for item in items])
    step = next(step for step in engine.steps.values() if isinstance(step, WithoutStep))
    assert step.size() == 0
    again = [Row((3,), (3, "a", 1), True)]
    assert step.step([again, []], {}) == []
    assert step.step([again, again], {}) == []
    assert step.step([[], again], {}) == []
    assert step.size() == 0
    assert engine.size_of("at_once") == 0
