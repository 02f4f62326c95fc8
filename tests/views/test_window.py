"""The ticks that can change a row, against trying every tick."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.views.compile import compile_views
from tocsin.views.plan import Group
from tocsin.views.ticks import FIRST_TICK, LAST_TICK, Ticks
from tocsin.views.window import Solver, Windows

KEYS = [
    "tick", "tick / 7", "tick - tick % 5", "tick / 3 / 4", "(tick + 10) / 6", "100 - tick / 6", "-tick", "tick * 2",
    "floor(tick / 2.5)", "CAST(tick / 3.0 AS BIGINT)", "tick / -4", "tick * 0.5", "(tick - tick % 5) / 10",
    "tick / 3 - (tick / 3) % 2",
]  # fmt: skip


def group(query: str) -> Group:
    compiled = compile_views(f"CREATE RELATION r (tick BIGINT, x BIGINT); CREATE VIEW v AS {query}")
    assert not compiled.refused, compiled.refused
    return next(node for node in compiled.plan.nodes() if isinstance(node, Group))


@pytest.mark.parametrize("key", KEYS)
def test_a_window_holds_exactly_the_ticks_of_its_group(key):
    node = group(f"SELECT {key} AS k, count(*) AS n FROM r GROUP BY {key}")
    (solver,) = map(Solver, node.origins)
    from tocsin.views.expression import evaluator

    read = evaluator(node.keys[0][1])
    place = node.input.key[0]
    ticks = range(-60, 60)
    values = {tick: read((tick,) if place == 0 else (None, tick)) for tick in ticks}
    for value in set(list(values.values())[20:-20]):
        first, last = solver.window((value,))
        assert list(range(max(first, -60), min(last, 59) + 1)) == [t for t in ticks if values[t] == value]


@pytest.mark.parametrize(("where", "window"), [
    ("tick < 10", (FIRST_TICK, 9)), ("tick <= 10 AND tick > 3", (4, 10)), ("tick BETWEEN 5 AND 7", (5, 7)),
    ("tick / 10 = 2", (20, 29)), ("3 > tick", (FIRST_TICK, 2)), ("-tick < -4", (5, LAST_TICK)),
    ("tick >= 2.5", (3, LAST_TICK)), ("tick = 7", (7, 7)), ("tick < 10 OR x = 1", (FIRST_TICK, LAST_TICK)),
    ("tick + x < 10", (FIRST_TICK, LAST_TICK)), ("tick * 1e300 < 1e301", (FIRST_TICK, 9)),
])  # fmt: skip
def test_conditions_on_the_tick_bound_the_window(where, window):
    node = group(f"SELECT count(*) AS n FROM r WHERE {where}")
    (solver,) = map(Solver, node.origins)
    assert solver.window(()) == window


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=15), st.integers(1, 9))
def test_rows_are_told_of_when_their_windows_are_known(additions, width):
    node = group(f"SELECT tick / {width} AS k, count(*) AS n FROM r WHERE tick >= 0 GROUP BY tick / {width}")
    known = Ticks()
    windows = Windows(node.origins, {"r": known})
    keys = [(k,) for k in range(50 // width)]
    for key in keys:
        windows.register(key, key)
    complete = set()
    for first, length in [(FIRST_TICK, 0 - FIRST_TICK - 1), *additions]:
        new = known.add(first, first + length)
        complete |= {key for key in windows.touched({"r": new}) if not windows.is_open(key)}
        for key in keys:
            missing = known.missing(key[0] * width, key[0] * width + width - 1)
            assert (key in complete) == (not missing)
            assert windows.unknown(key) == sum(b - a + 1 for a, b in missing)
