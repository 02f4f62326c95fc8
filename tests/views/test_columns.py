"""The array form of an operator against its row form: equal rows after every batch."""

from __future__ import annotations

import json
import random

import pytest

from tests.views.recompute import interleave
from tests.views.test_engine import SQL, source, stream
from tocsin.views.column_group import ColumnGroupStep
from tocsin.views.columns import rows_of
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder
from tocsin.views.plan import Group

WIDE = """
CREATE RELATION r (tick BIGINT, k TEXT, x BIGINT, y DOUBLE);
CREATE VIEW a AS SELECT k, tick / 7 AS w, count(*) AS n, count(x) AS nx, max(y) AS high, min(x) AS low, sum(x) AS total,
    latest(k) AS word, latest(y) AS now, max(x * x - 3) AS square FROM r GROUP BY k, tick / 7;
CREATE VIEW b AS SELECT x % 2 AS odd, y > 1 AS over, max(x + y) AS top FROM r WHERE k = 'a' OR x > 1 GROUP BY 1, 2;
CREATE VIEW c AS SELECT y, min(tick) AS first FROM r WHERE NOT (x IS NULL) AND k <> 'b' GROUP BY y;
CREATE VIEW d AS SELECT x / y AS q, count(*) AS n FROM (SELECT x * 2 AS x, y - 1 AS y FROM r WHERE x <= 3) AS t
    GROUP BY 1;
CREATE VIEW plain AS SELECT k, x * 3 AS z FROM r WHERE y <> 2.0;
"""


def both(sql: str) -> tuple[Engine, Engine, Decoder]:
    compiled = compile_views(sql)
    assert not compiled.refused
    return Engine(compiled.plan), Engine(compiled.plan, columns=True), Decoder(compiled.plan.relations)


def sorted_changes(changes) -> list[str]:
    return sorted(json.dumps(change.json()) for change in changes)


@pytest.mark.parametrize("seed", range(30))
def test_columns_give_the_rows_that_rows_give(seed):
    rows, columns, decoder = both(WIDE)
    items = source(random.Random(seed), "r", 60)
    for at in range(0, len(items), 9):
        batch = [decoder.item(item) for item in items[at : at + 9]]
        assert sorted_changes(rows.step(batch)) == sorted_changes(columns.step(batch))
    assert [c.json() for c in rows.state()] == [c.json() for c in columns.state()]


@pytest.mark.parametrize("seed", range(6))
def test_columns_and_rows_agree_on_views_of_all_kinds(seed):
    rows, columns, decoder = both(SQL)
    items = stream(seed, length=30)
    for at in range(0, len(items), 7):
        batch = [decoder.item(item) for item in items[at : at + 7]]
        assert sorted_changes(rows.step(batch)) == sorted_changes(columns.step(batch))


def test_the_hourly_view_is_done_by_column():
    rows, columns, _ = both(WIDE)
    groups = [node for node in columns.plan.nodes() if isinstance(node, Group)]
    assert [isinstance(columns._steps[node], ColumnGroupStep) for node in groups] == [True] * 4
    assert not any(isinstance(rows._steps[node], ColumnGroupStep) for node in groups)


def test_integers_beyond_64_bits_are_exact():
    sql = "CREATE RELATION r (tick BIGINT, x BIGINT); CREATE VIEW v AS SELECT tick / 100 AS w, sum(x) AS s, " \
          "max(x * x) AS q, min(x - 9000000000000000000) AS m FROM r GROUP BY tick / 100;"  # fmt: skip
    rows, columns, decoder = both(sql)
    items = [decoder.item({"relation": "r", "tick": t, "x": (-1) ** t * (2**63 - 1 - t)}) for t in range(1, 40)]
    for at in range(0, 39, 10):
        assert sorted_changes(rows.step(items[at : at + 10])) == sorted_changes(columns.step(items[at : at + 10]))
    (change,) = columns.state()
    assert change.row is not None
    assert change.row["q"] == {"at_least": (2**63 - 2 - 1) ** 2} or change.row["q"]["at_least"] > 2**120


@pytest.mark.row("G14")
@pytest.mark.parametrize("columns", [False, True])
def test_a_step_ignores_what_it_has_already_counted(columns):
    """Relational subscriptions §3.2: retransmissions of rows that were included are ignored; all come 3 times."""
    compiled = compile_views(SQL)
    engine, decoder = Engine(compiled.plan, columns=columns), Decoder(compiled.plan.relations)
    chance = random.Random(5)
    items = interleave(chance, source(chance, "r", 40), source(chance, "s", 40))
    for step in engine._steps.values():

        def thrice(increments, advance, once=step.step):
            return [row for _ in range(3) for row in rows_of(once(increments, advance))]

        step.step = thrice  # type: ignore[method-assign]
    for item in items:
        engine.step([decoder.item(item)])
    plain = Engine(compiled.plan)
    for item in items:
        plain.step([decoder.item(item)])
    assert [c.json() for c in engine.state()] == [c.json() for c in plain.state()]


def lines(items) -> list[bytes]:
    return [json.dumps(item).encode() for item in items]


def test_a_table_is_what_its_lines_say():
    _, engine, decoder = both(WIDE)
    items = [{"relation": "r", "tick": t, "k": "ab"[t % 2], "x": t, "y": t / 2} for t in range(1, 9)]
    table = decoder.table(lines(items))
    assert table is not None
    assert table["r"].cells == [(t, "ab"[t % 2], t, t / 2) for t in range(1, 9)]
    changes = engine.step_table(table)
    rows = Engine(engine.plan)
    assert sorted_changes(changes) == sorted_changes(rows.step([decoder.item(item) for item in items]))
    assert engine.step_table(table) is None, "these ticks are known"


GOOD = {"relation": "r", "tick": 5, "k": "a", "x": 1, "y": 0.5}


@pytest.mark.parametrize("bad", [
    b'{"relation": "r", "tick": 6, "k": "a}', b'{"relation": "r", "silent": [6, 7]}', b'{"relation": "q", "tick": 6}',
    b'{"relation": "r", "tick": 6, "x": true}', b'{"relation": "r", "tick": 6, "x": 1.5}', b"[]", b"7",
    b'{"relation": "r", "tick": 6, "y": 1e999}', b'{"relation": "r", "tick": 6, "y": NaN}',
    b'{"relation": "r", "tick": 6, "x": 9223372036854775808}', b'{"relation": "r", "tick": 6, "tick": 7}',
    b'{"relation": "r", "tick": 6, "z": 1}', b'{"relation": "r", "tick": null}', b'{"relation": "r", "tick": 6}, {}',
    b'{"relation": "r", "tick": 6, "k": "\xff"}', b'{"relation": ["r"], "tick": 6}', b'{"relation": "r", "tick": 6.0}',
])  # fmt: skip
def test_a_table_is_refused_if_a_line_needs_a_closer_look(bad):
    _, _, decoder = both(WIDE)
    assert decoder.table([json.dumps(GOOD).encode(), bad]) is None
    assert decoder.table([bad, json.dumps(GOOD).encode()]) is None


def test_a_text_with_a_colon_is_no_reason_for_a_closer_look():
    _, _, decoder = both(WIDE)
    assert decoder.table(lines([GOOD, GOOD | {"k": "12:30", "tick": 6}, {"relation": "r", "tick": 7}])) is not None


def test_two_lines_that_only_together_are_json_are_refused():
    _, _, decoder = both(WIDE)
    first, second = b'{"relation": "r", "tick": 5}, {"relation": "r", "tick": 6, "k": "a}', b'{b"}'
    assert decoder.table([first, second]) is None
    first, second = b'{"relation": "r", "tick": 5}, {"relation": "r", "tick": 6, "k": [{}', b"{}]}"
    assert decoder.table([first, second]) is None
