"""Limits of views: what is too much is refused with a sentence that names it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.views.test_engine import SQL
from tocsin.errors import ViewError
from tocsin.views.best import BestStep
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Event
from tocsin.views.limits import LIMITS

WIDE = "CREATE RELATION r (tick BIGINT, " + ", ".join(f"c{at} BIGINT" for at in range(300)) + ");"
MANY = "CREATE RELATION r (tick BIGINT, x BIGINT); CREATE VIEW v AS " + " UNION ALL ".join(
    f"SELECT x FROM r WHERE x > {at}" for at in range(40)
)


def test_everything_in_the_tests_is_allowed():
    assert compile_views(SQL).plan.views


@pytest.mark.parametrize(
    ("limits", "sql", "message"),
    [
        (replace(LIMITS, views_max=3), SQL, "views, and 3 are allowed"),
        (replace(LIMITS, nodes_max=9), SQL, "operators, and 9 are allowed"),
        (LIMITS, WIDE, "relation r: it has 301 columns, and 256 are allowed"),
        (LIMITS, MANY, "it reads 40 relations, and 32 are allowed"),
    ],
)
def test_too_much_is_refused(limits, sql, message):
    unlimited = replace(LIMITS, views_max=10**9, nodes_max=10**9, columns_max=10**9, inputs_max=10**9)
    assert not compile_views(sql, unlimited).refused
    with pytest.raises(ViewError, match=message):
        compile_views(sql, limits)


def test_a_long_text_is_refused_before_it_is_compiled():
    with pytest.raises(ViewError, match="300,000 bytes"):
        compile_views("x" * 300_000)


def test_the_best_forget_those_that_were_beaten_for_good():
    plan = compile_views(
        "CREATE RELATION r (tick BIGINT, x BIGINT); CREATE VIEW best AS SELECT tick, x FROM r ORDER BY x, tick LIMIT 3;"
    ).plan
    engine = Engine(plan)
    for tick in range(2_000):
        engine.step([Event("r", tick, (tick, -tick // 7))])
    (step,) = (one for one in engine.steps.values() if isinstance(one, BestStep))
    assert len(step._told) <= 3
    assert [change.row for change in engine.state()] == [{"tick": tick, "x": -tick // 7} for tick in (1996, 1997, 1998)]
