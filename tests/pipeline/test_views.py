"""Views on Spark: equal to the engine in one process, whatever dies between two batches."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import insert

from tests.views.recompute import canonical, recompute
from tests.views.test_engine import RELATIONS, VIEWS
from tocsin.cli import main
from tocsin.pipeline.view_tables import event_schema, is_joined, is_native
from tocsin.pipeline.views import MATCHES, SparkViews, matches
from tocsin.store import Store, schema
from tocsin.store import views as kept
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Closed, Event
from tocsin.views.plan import Join

CHOSEN = ["selected", "grouped", "windows", "whole", "joined", "of_windows", "best_groups", "above", "count_left"]
SQL = RELATIONS + "".join(f"CREATE VIEW {name} AS {VIEWS[name]};\n" for name in CHOSEN)
SQL += "CREATE VIEW last_of_largest AS SELECT k, latest(y, x) AS y, latest(k, tick) AS own FROM r GROUP BY k;\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = Store(f"sqlite:///{tmp_path}/store.db", create=True)
    kept.create(opened)
    return opened


def batches(seed: int, number: int, length: int) -> list[dict[str, list[tuple[Any, ...]]]]:
    chance = random.Random(seed)
    tick = {"r": 0, "s": 0}
    made = []
    for _ in range(number):
        batch: dict[str, list[tuple[Any, ...]]] = {"r": [], "s": []}
        for _ in range(length):
            relation = chance.choice("rs")
            tick[relation] += chance.randint(1, 3)
            key, x = chance.choice(["a", "b", "c", None]), chance.choice([None, 0, 1, 2, 3, 4, 1 << 62])
            more = (chance.choice([None, 0.1, 0.2, 3.5]),) if relation == "r" else ()
            batch[relation].append((tick[relation], key, x, *more))
        made.append(batch)
    return made


def frames(spark: SparkSession, plan: Any, batch: dict[str, list[tuple[Any, ...]]]) -> dict[str, DataFrame]:
    return {
        name: spark.createDataFrame(rows, event_schema(plan.relations[name])).repartition(2)
        for name, rows in batch.items() if rows
    }  # fmt: skip


def printed(changes: Any) -> list[str]:
    return sorted(str(change.json()) for change in changes)


def test_batches_on_spark_equal_the_engine_in_one_process(spark, store):
    """Groups in parts, joins and lists by rows, views of views; a restart and a repeat after every batch."""
    plan = compile_views(SQL).plan
    engine, views = Engine(plan), SparkViews(store, "mine", plan, spark)
    native = [node for node in plan.nodes() if is_native(node)]
    assert len(native) >= 3
    assert set(views._engine.tallied.values()) == set(native)
    items: list[dict[str, Any]] = []
    for number, batch in enumerate(batches(5, 3, 40)):
        told = engine.step([Event(name, row[0], row) for name, rows in batch.items() for row in rows])
        repeated = {name: [*rows, *rows[:3]] for name, rows in batch.items()}
        assert printed(views.run(number, frames(spark, plan, repeated))) == printed(told)
        views = SparkViews(store, "mine", plan, spark)
        assert printed(views.state()) == printed(engine.state())
        assert views.run(number, frames(spark, plan, batch)) == []
        names = {"r": ("tick", "k", "x", "y"), "s": ("tick", "k", "z")}
        items += [{"relation": r, **dict(zip(names[r], row, strict=True))} for r, rows in batch.items() for row in rows]
    engine.step([Closed("r"), Closed("s")])
    views.run(9, {}, closed=("r", "s"))
    assert printed(views.state()) == printed(engine.state())
    assert all(change.final for change in views.state())
    for view, rows in recompute(SQL, items).items():
        assert canonical(views.rows(view)) == canonical(rows), view
    kept.forget(store, "mine")
    assert kept.read(store, "mine") == ([], [], [])


PAIRS = ["windows", "joined", "joined_on_two", "per_pair", "as_of"]


@pytest.mark.parametrize("seed", [7, pytest.param(8, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.slow)])
def test_joins_are_sparks_own_whatever_dies_between_two_batches(spark, store, monkeypatch, seed):
    """Pairs of new and old events, groups of pairs, a self-join; random cuts, replays, deaths before and after the
    transaction, and parts that become one."""
    monkeypatch.setattr("tocsin.pipeline.views.PARTS_MAX", 3)
    chance = random.Random(seed)
    sql = RELATIONS + "".join(f"CREATE VIEW {name} AS {VIEWS[name]};\n" for name in PAIRS)
    plan = compile_views(sql).plan
    engine, views = Engine(plan), SparkViews(store, "joins", plan, spark)
    joins = [node for node in plan.nodes() if isinstance(node, Join)]
    assert all(map(is_joined, joins))
    assert set(views._engine.joined.values()) == set(joins)
    assert not views._engine.needs_rows, "no event comes to the driver as a row"
    write = kept.write

    def die(*given: Any, **named: Any) -> bool:
        if chance.random() < 0.5:
            write(*given, **named)
        raise OSError("killed")

    for number, batch in enumerate(batches(seed, 4, 24)):
        engine.step([Event(name, row[0], row) for name, rows in batch.items() for row in rows])
        if number % 2:
            with monkeypatch.context() as patched:
                patched.setattr("tocsin.store.views.write", die)
                with pytest.raises(OSError, match="killed"):
                    views.run(number, frames(spark, plan, batch))
            views = SparkViews(store, "joins", plan, spark)
        repeated = {name: [*rows, *rows[:3]] for name, rows in batch.items()}
        views.run(number, frames(spark, plan, repeated))
        assert printed(views.state()) == printed(engine.state()), number
        assert not views.run(number, frames(spark, plan, batch))
    assert printed(SparkViews(store, "joins", plan, spark).state()) == printed(engine.state())


def test_a_batch_that_dies_before_its_transaction_changes_nothing(spark, store, monkeypatch):
    plan = compile_views(SQL).plan
    views = SparkViews(store, "mine", plan, spark)
    first, second = batches(6, 2, 20)
    views.run(0, frames(spark, plan, first))
    before = printed(views.state())

    def die(*arguments: Any, **named: Any) -> bool:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("tocsin.store.views.write", die)
        with pytest.raises(OSError, match="disk is full"):
            views.run(1, frames(spark, plan, second))
    assert printed(views.state()) == before
    assert views.run(1, frames(spark, plan, second))
    assert printed(SparkViews(store, "mine", plan, spark).state()) == printed(views.state())


def test_who_matched_more_than_five_times_a_day(spark, store):
    """Matches are a source relation like any other: the outbox's cursor is their tick."""
    chance = random.Random(2)
    sql = (
        MATCHES
        + """
    CREATE VIEW busy AS SELECT subscription, day, count(*) AS n FROM matches GROUP BY subscription, day
        HAVING count(*) > 5;
    """
    )
    with store.write() as transaction:
        for number in (1, 2, 3):
            transaction.execute(insert(schema.subscriptions).values(
                number=number, account="ada", id=f"s{number}", gone=0, state="active", about="{}", revision=1,
                created=0.0, changed=0.0,
            ))  # fmt: skip
        for cursor in range(1, 61):
            transaction.execute(insert(schema.notifications).values(
                cursor=cursor, account="ada", subscription=chance.choice([1, 1, 1, 2, 3]), document=f"d{cursor}",
                version=1, position=cursor, score=0.5, statistics=0, made=86_400.0 * (cursor // 20),
            ))  # fmt: skip
    plan = compile_views(sql).plan
    views = SparkViews(store, "alerts", plan, spark)
    views.run(0, {"matches": matches(store, spark, 0, 25)})
    views.run(1, {"matches": matches(store, spark, 25)})
    rows = kept.matches_after(store, 0, 1000)
    wanted = {(row.subscription, row.day): sum(r[1:2] + r[5:] == row[1:2] + row[5:] for r in rows) for row in rows}
    found = {(row["subscription"], row["day"]): row["n"] for row in views.rows("busy")}
    assert found.keys() == {key for key, n in wanted.items() if n > 5}
    assert all(n == {"at_least": wanted[key]} for key, n in found.items())


COMMAND = """
CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE);
CREATE RELATION buys (tick BIGINT, issue TEXT, below DOUBLE);
CREATE VIEW high AS SELECT issue, tick / 50 AS hour, max(price) AS high, latest(price, tick) AS now
  FROM quotes GROUP BY issue, tick / 50;
CREATE VIEW total AS SELECT count(*) AS n FROM quotes;
CREATE VIEW wanted AS SELECT q.issue, q.price FROM quotes q JOIN buys b ON q.issue = b.issue WHERE q.price < b.below;
CREATE VIEW best AS SELECT issue, price FROM quotes ORDER BY price DESC LIMIT 3;
"""


def random_lines(seed: int, count: int) -> list[dict[str, Any]]:
    """Quotes and buys in order, silence between them, repeats, and what must be refused."""
    chance, tick, found = random.Random(seed), {"quotes": 0, "buys": 0}, list[dict[str, Any]]()
    for _ in range(count):
        relation = chance.choice(["quotes", "quotes", "quotes", "buys"])
        value = {"quotes": "price", "buys": "below"}[relation]
        tick[relation] += chance.randint(1, 3)
        event = {
            "relation": relation,
            "tick": tick[relation],
            "issue": chance.choice("ABC"),
            value: chance.randint(1, 90) / 2,
        }
        bad = {"relation": relation, "tick": chance.randint(1, tick[relation]), "issue": "Z", value: 1.0}
        silence = {"relation": relation, "silent": [tick[relation] + 1, tick[relation] + 4]}
        more: list[list[dict[str, Any]]] = [[], [], [event], [bad], [silence]]
        found += [event, *chance.choice(more)]
        tick[relation] += 4 * (found[-1] is silence)
    closed = [{"relation": "quotes", "closed": True}, {"relation": "buys", "closed": True}]
    return [*found, closed[0], {**found[0], "tick": 10**6}, closed[1]]


def test_the_command_prints_with_spark_what_it_prints_without(spark, tmp_path, capsys):
    (tmp_path / "views.sql").write_text(COMMAND)
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in random_lines(4, 150)))
    asked = ["view", "run", "-f", str(tmp_path / "views.sql"), "-e", str(tmp_path / "events.jsonl")]
    for more in (["--batch", "60"], ["--final"]):
        told = []
        for how in ([], ["--spark"]):
            assert main([*asked, *more, *how]) == 1
            found = capsys.readouterr()
            assert "another event is known" in found.err
            told.append((sorted(found.out.splitlines()), found.err))
        assert told[0] == told[1]
        assert len(told[0][0]) > 20
