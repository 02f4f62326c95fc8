"""The array form of an operator against its row form: equal rows after every batch."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from tests.views.recompute import interleave
from tests.views.test_engine import SQL, source, stream
from tocsin.views.column_group import ColumnGroupStep
from tocsin.views.columns import Columns
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder, Event
from tocsin.views.evolving import Groups
from tocsin.views.plan import Group
from tocsin.views.told import lines_of

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
            made = [once(increments, advance) for _ in range(3)]
            if isinstance(made[0], Groups | Columns):
                return made[0].at(np.tile(np.arange(len(made[0])), 3))
            return [row for rows in made for row in rows]

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
    assert table["r"].cells() == [(t, "ab"[t % 2], t, t / 2) for t in range(1, 9)]
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


VALUES = [
    "1", "-0", "7.0", "1e3", "0.1", "-0.0", "1e999", "NaN", "Infinity", "true", "null", '"5"', '"a"', '"\\u00e9"',
    "[1]", '"\\ud800"', '"\\ud83d\\ude00"', "9223372036854775807", "9223372036854775808",
    "123456789012345678901234567890", "{}",
    "4.9e-324", "1.7976931348623159e308", "0.30000000000000004", '"a\\nb"', '"\\u0000"', "01", "+1", ".5", '"}"',
]  # fmt: skip
NAMES = ['"tick"', '"k"', '"x"', '"y"', '"relation"', '"\\u006b"', '"K"', '"z"']


def odd_lines(chance: random.Random) -> list[bytes]:
    found = list[bytes]()
    for tick in range(1, chance.randint(2, 4)):
        event = {"relation": '"r"', "tick": str(tick), "k": '"a"', "x": "3", "y": "0.5"}
        pairs = [(f'"{name}"', value) for name, value in event.items() if chance.random() < 0.95]
        if chance.random() < 0.3:
            pairs.insert(chance.randint(0, len(pairs)), (chance.choice(NAMES), chance.choice(VALUES)))
        if chance.random() < 0.5 and pairs:
            at = chance.randrange(len(pairs))
            pairs[at] = pairs[at][0], chance.choice(VALUES)
        line = "{" + ", ".join(f"{name}: {value}" for name, value in pairs) + "}"
        if chance.random() < 0.1:
            at = chance.randrange(len(line))
            line = line[:at] + chance.choice(['"', "{", "}", ",", "\t", " ", "é", "\\", "/"]) + line[at + 1 :]
        found.append(line.encode())
    return found


@pytest.mark.parametrize("sql", [WIDE, SQL])
def test_a_table_says_what_its_lines_say_or_nothing(sql):
    """Arrow and the strict reader: whatever a table holds the strict reader accepts, and reads alike."""
    chance, taken = random.Random(7), 0
    _, _, decoder = both(sql)
    for _ in range(1500):
        found = odd_lines(chance)
        table = decoder.table(found)
        if table is None:
            continue
        taken += 1
        items = [decoder.line(line) for line in found]
        for name, columns in table.items():
            events = [item for item in items if isinstance(item, Event) and item.relation == name]
            own = [(item.tick, repr(item.cells)) for item in events]
            ticks = columns.ticks.tolist()
            assert [(t, repr(cells)) for t, cells in zip(ticks, columns.cells(), strict=True)] == own
            assert [(ticks[at], repr(columns[at])) for at in range(len(columns))] == own
    assert 200 < taken < 1300


@pytest.mark.parametrize("batch", [1, 7, 400])
def test_lines_are_written_from_arrays_as_from_rows(batch):
    """Every form of value, null, text, large integers; open and final groups; what did not change is not told."""
    chance = random.Random(batch)
    items = [
        {"relation": "r", "tick": t, "k": chance.choice(["a", 'b"%s', "é", None]),
         "x": chance.choice([None, 1, 2, 2**62]), "y": chance.choice([None, 0.1, 1e300, -2.5])}
        for t in range(1, 400)
    ]  # fmt: skip
    rows, columns, decoder = both(WIDE)
    for at in range(0, len(items), batch):
        part = lines(items[at : at + batch])
        table = decoder.table(part)
        assert table is not None
        told = columns.step_table(table)
        assert told is not None
        wanted = sorted(lines_of(rows.step([decoder.line(line) for line in part])))
        assert sorted(lines_of(told)) == wanted
        assert sorted_changes(told) == sorted(json.dumps(json.loads(line)) for line in wanted)
        assert len(told) == len(wanted)
        assert [told[0], *told[1:]] == list(told)
    assert [c.json() for c in rows.state()] == [c.json() for c in columns.state()]
    assert all(columns.size_of(view) == rows.size_of(view) for view in columns.plan.views)


def test_two_lines_that_only_together_are_json_are_refused():
    _, _, decoder = both(WIDE)
    first, second = b'{"relation": "r", "tick": 5}, {"relation": "r", "tick": 6, "k": "a}', b'{b"}'
    assert decoder.table([first, second]) is None
    first, second = b'{"relation": "r", "tick": 5}, {"relation": "r", "tick": 6, "k": [{}', b"{}]}"
    assert decoder.table([first, second]) is None
