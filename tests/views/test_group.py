"""Groups whose members may move: nothing is final before every member has its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tocsin.views.codec import dumped, loaded
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Closed, Event
from tocsin.views.group import GroupStep
from tocsin.views.value import UNKNOWN, may_evolve

SQL = """
CREATE RELATION r (tick BIGINT, k TEXT);
CREATE VIEW windows AS SELECT k, tick / 5 AS w, count(*) AS n FROM r GROUP BY k, tick / 5;
CREATE VIEW tied AS SELECT w, n, count(*) AS ks FROM windows GROUP BY w, n;
CREATE VIEW ties AS SELECT w, count(*) AS ns FROM tied GROUP BY w;
"""
MUTANTS: dict[str, Callable[[Any], bool]] = {
    "forgets its own members": lambda self: self._input.is_quiet(),
    "forgets its input": lambda self: not self._unsettled,
    "always": lambda self: True,
    "never": lambda self: False,
}


def finals(engine: Engine) -> dict[str, set[bool]]:
    return {view: {row.is_final() for row in engine.rows(view).values()} for view in ("tied", "ties")}


def told(events: list[tuple[int, str]]) -> list[dict[str, set[bool]]]:
    """Which rows are final after each event, and after the end."""
    engine = Engine(compile_views(SQL).plan)
    found = []
    for tick, k in events:
        engine.step([Event("r", tick, (tick, k))])
        found.append(finals(engine))
    engine.step([Closed("r")])
    return [*found, finals(engine)]


def test_no_group_is_final_while_a_member_may_move():
    """§2.4: the window of ticks 5 to 9 is open, so how often a was there in it can still move it to another group."""
    *before, end = told([(1, "a"), (2, "b"), (3, "a"), (6, "a"), (7, "a")])
    assert all(state["tied"] == {False} for state in before), before
    assert all(True not in state["ties"] for state in before), before
    assert end == {"tied": {True}, "ties": {True}}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_who_is_quiet_too_early_or_never_is_found(mutant, monkeypatch):
    monkeypatch.setattr(GroupStep, "is_quiet", MUTANTS[mutant])
    with pytest.raises(AssertionError):
        test_no_group_is_final_while_a_member_may_move()


LATEST = """
CREATE RELATION r (tick BIGINT, k TEXT);
CREATE RELATION s (tick BIGINT, k TEXT, z BIGINT);
CREATE VIEW pairs AS SELECT r.k, latest(s.z, r.tick) AS z FROM r JOIN s ON r.k = s.k GROUP BY r.k;
CREATE VIEW equal AS SELECT k, latest(z, tick / 100) AS z FROM s GROUP BY k;
"""


def test_of_rows_that_share_a_place_the_one_with_the_smaller_key_is_the_latest():
    """Whatever came first: the order of arrival shows in nothing that is said at the end, nor in a second saying."""
    events = [Event("r", 1, (1, "a")), Event("r", 2, (2, "a")), *(Event("s", t, (t, "a", 10 * t)) for t in (1, 2, 3))]
    orders = [events, [*events[2:], *events[:2]], [events[0], events[2], events[1], *events[3:]]]
    for order in orders:
        engine, said = Engine(compile_views(LATEST).plan), dict[str, Any]()
        for event in order:
            engine.step([event])
            for view in ("pairs", "equal"):
                for row in engine.rows(view).values():
                    assert may_evolve(said.get(view, UNKNOWN), row.cells[1])
                    said[view] = row.cells[1]
                    assert loaded(dumped(row.cells[1])) == row.cells[1]
        assert engine.rows("pairs")[("a",)].cells[1].now == 10
        assert engine.rows("equal")[("a",)].cells[1].now == 10
        engine.step([Closed("r"), Closed("s")])
        assert [change.row for change in engine.state()] == [{"k": "a", "z": 10}, {"k": "a", "z": 10}]
