"""Typing, refusals with a way out, shared parts, and the printed plan."""

from __future__ import annotations

import pytest

from tocsin.views.compile import compile_views
from tocsin.views.plan import Group, Node

RELATIONS = """
CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE, volume BIGINT);
CREATE RELATION wanted (tick BIGINT, issue TEXT, open BOOLEAN);
CREATE VIEW hourly AS SELECT issue, tick / 3600 AS hour, max(price) AS high, min(price) AS low, latest(price) AS now,
    count(*) AS n, sum(volume) AS volume, collect(tick, price) AS trades FROM quotes GROUP BY issue, tick / 3600;
"""


def view(query: str) -> Node:
    compiled = compile_views(f"{RELATIONS} CREATE VIEW v AS {query};")
    assert not compiled.refused, compiled.refused
    return compiled.plan.views["v"]


def kinds(node: Node) -> dict[str, str]:
    return {column.name: column.kind.value for column in node.columns[: node.visible]}


def test_every_column_gets_the_kind_that_its_expression_gives_it():
    compiled = compile_views(RELATIONS)
    assert kinds(compiled.plan.views["hourly"]) == {
        "issue": "final", "hour": "final", "high": "at_least", "low": "at_most", "now": "latest", "n": "between",
        "volume": "so_far", "trades": "so_far",
    }  # fmt: skip
    node = view(
        "SELECT high + 1 AS a, high - low AS spread, -high AS b, high * 2 AS c, high * -2 AS d, n - high AS e, "
        "high > 3 AS f, greatest(high, 5.0) AS g, n * n AS h, volume + high AS i, now + 1 AS j FROM hourly"
    )
    assert list(kinds(node).values()) == [
        "at_least", "at_least", "at_most", "at_least", "at_most", "at_most", "so_far", "at_least", "between", "so_far",
        "so_far",
    ]  # fmt: skip


@pytest.mark.parametrize(("query", "kind"), [
    ("SELECT count(*) AS n FROM quotes", "at_least"),
    ("SELECT count(*) AS n FROM quotes WHERE tick < 100", "between"),
    ("SELECT count(*) AS n FROM quotes WHERE 2 * tick BETWEEN 7 AND 9", "between"),
    ("SELECT count(*) AS n FROM quotes WHERE tick > 100", "at_least"),
    ("SELECT count(*) AS n FROM quotes GROUP BY issue", "at_least"),
    ("SELECT count(*) AS n FROM quotes GROUP BY tick - tick % 60", "between"),
    ("SELECT count(*) AS n FROM quotes GROUP BY 100 - tick / 60", "between"),
    ("SELECT count(*) AS n FROM hourly GROUP BY hour / 24", "between"),
    ("SELECT count(*) AS n FROM hourly WHERE high > 3", "so_far"),
    ("SELECT count(*) AS n FROM quotes AS q JOIN wanted AS w ON q.issue = w.issue GROUP BY q.tick", "at_least"),
])  # fmt: skip
def test_a_count_is_bounded_if_the_key_bounds_it(query, kind):
    assert kinds(view(query))["n"] == kind


@pytest.mark.parametrize(("query", "names"), [
    ("SELECT issue FROM quotes", ("tick",)),
    ("SELECT tick AS t, issue FROM quotes", ("tick",)),
    ("SELECT issue AS i, max(price) AS m FROM quotes GROUP BY issue", ("i",)),
    ("SELECT max(price) AS m FROM quotes GROUP BY issue, tick / 60", ("issue", "tick / 60")),
    ("SELECT tick / 60 AS minute, count(*) AS n FROM quotes GROUP BY 1", ("minute",)),
    ("SELECT count(*) AS n FROM quotes", ()),
    ("SELECT high FROM hourly WHERE hour > 3", ("issue", "hour")),
    ("SELECT q.price FROM quotes AS q JOIN wanted AS w ON q.issue = w.issue", ("quotes.tick", "wanted.tick")),
    ("SELECT q.price FROM quotes AS q JOIN hourly ON q.issue = hourly.issue", ("tick", "issue", "hour")),
    ("SELECT a.price FROM quotes AS a JOIN quotes AS b ON a.issue = b.issue", ("a.tick", "b.tick")),
    ("SELECT a.price FROM quotes AS a JOIN wanted AS b ON a.issue = b.issue JOIN wanted AS c ON c.issue = b.issue",
     ("quotes.tick", "b.tick", "c.tick")),
    ("SELECT count(*) AS n FROM quotes JOIN wanted ON quotes.tick = wanted.tick GROUP BY quotes.issue, wanted.issue",
     ("quotes.issue", "wanted.issue")),
    ("SELECT issue FROM quotes UNION ALL SELECT issue FROM wanted", ("source", "tick")),
    ("SELECT issue FROM quotes UNION ALL SELECT issue FROM hourly", ("source", "tick", "issue", "hour")),
    ("SELECT issue FROM quotes EXCEPT SELECT issue FROM wanted", ("issue",)),
    ("SELECT tick, issue FROM quotes EXCEPT SELECT tick, issue FROM wanted", ("tick",)),
    ("SELECT issue, price FROM quotes ORDER BY price LIMIT 3", ("tick",)),
])  # fmt: skip
def test_the_key_follows_from_the_inputs_or_the_grouping(query, names):
    assert view(query).key_names == names


@pytest.mark.row("G11")
@pytest.mark.parametrize(("query", "why"), [
    ("SELECT nothing FROM quotes", "no column nothing here; there are tick, issue"),
    ("SELECT issue FROM trades", "no relation or view trades"),
    ("SELECT issue FROM quotes AS q JOIN wanted AS w ON q.issue = w.issue", "issue is ambiguous"),
    ("SELECT max(issue) AS m FROM quotes", "max.issue.: issue is TEXT.*write latest.issue"),
    ("SELECT sum(issue) AS m FROM quotes", "sum.issue.: issue is TEXT"),
    ("SELECT issue, max(price) AS m FROM quotes", "issue is neither grouped nor aggregated.*add it to GROUP BY"),
    ("SELECT * FROM quotes JOIN wanted ON quotes.tick > wanted.tick", "needs an equality.*write JOIN"),
    ("SELECT * FROM quotes, wanted", "needs an equality"),
    ("SELECT * FROM quotes CROSS JOIN wanted", "needs an equality"),
    ("SELECT q.price FROM quotes AS q LEFT JOIN wanted AS w ON q.issue = w.issue", "LEFT JOIN is not kept.*NOT EXISTS"),
    ("SELECT issue FROM quotes ORDER BY price", "add LIMIT k"),
    ("SELECT issue FROM quotes LIMIT 3", "LIMIT needs an ORDER BY"),
    ("SELECT issue FROM quotes ORDER BY price LIMIT 3 OFFSET 2", "OFFSET"),
    ("SELECT issue FROM quotes WHERE issue > 3", "compares TEXT with BIGINT: write CAST"),
    ("SELECT issue + 1 AS x FROM quotes", "needs a number, and issue is TEXT"),
    ("SELECT issue FROM quotes WHERE price", "WHERE needs a condition"),
    ("SELECT issue FROM quotes WHERE max(price) > 3", "belongs into HAVING"),
    ("SELECT issue FROM quotes WHERE issue NOT IN (SELECT issue FROM wanted)", "cannot stand here.*NOT EXISTS"),
    ("SELECT issue FROM quotes WHERE NOT EXISTS (SELECT 1 FROM wanted)", "NOT EXISTS needs an equality"),
    ("SELECT issue FROM quotes INTERSECT SELECT issue FROM wanted", "INTERSECT is not kept: write a JOIN"),
    ("SELECT issue FROM quotes WHERE NOT EXISTS (SELECT max(tick) FROM wanted WHERE wanted.issue = quotes.issue)",
     "NOT EXISTS of an aggregate is never true"),
    ("SELECT issue FROM quotes EXCEPT ALL SELECT issue FROM wanted", "EXCEPT ALL is not kept"),
    ("SELECT issue FROM quotes UNION ALL SELECT open FROM wanted", "BOOLEAN and TEXT: write CAST"),
    ("SELECT issue, price FROM quotes UNION ALL SELECT issue FROM wanted", "equally many columns"),
    ("SELECT count(DISTINCT issue) AS n FROM quotes", "make a view of SELECT DISTINCT issue"),
    ("SELECT (SELECT max(price) FROM quotes) AS m FROM wanted", "a subquery cannot stand here"),
    ("SELECT DISTINCT ON (issue) issue FROM quotes", "DISTINCT ON is not kept: write GROUP BY"),
    ("SELECT issue FROM quotes TABLESAMPLE (10 PERCENT)", "TABLESAMPLE is not kept in a view: leave it out"),
    ("SELECT p FROM quotes AS q(t, i, p, v)", "renames columns: write SELECT column AS name"),
    ("WITH a(p) AS (SELECT price FROM quotes) SELECT p FROM a", "renames columns"),
    ("SELECT issue FROM quotes UNION ALL BY NAME SELECT issue FROM wanted", "BY NAME is not kept"),
    ("SELECT issue FROM quotes WHERE volume BETWEEN SYMMETRIC 3 AND 1", "SYMMETRIC is not kept"),
    ("SELECT issue, max_by(price, tick, 2) AS p FROM quotes GROUP BY issue", "a number of results is not kept"),
    ("SELECT ceil(price, 1) AS p FROM quotes", "a number of digits is not kept"),
    ("SELECT issue FROM quotes ORDER BY 2 LIMIT 3", "ORDER BY 2: there is no such column"),
    ("SELECT issue FROM quotes ORDER BY price FETCH FIRST 10 PERCENT ROWS ONLY", "write LIMIT k"),
    ("SELECT issue FROM quotes WHERE price > 1e999", "too large for a DOUBLE"),
    ("SELECT issue FROM quotes WHERE issue LIKE 3", "LIKE needs text, and 3 is BIGINT"),
    ("SELECT * EXCEPT (price) FROM quotes", "EXCEPT is not kept in a view: leave it out"),
    ("SELECT w.* FROM quotes", "there is no w here"),
    ("SELECT sqrt(price) AS p FROM quotes", "not understood in a view: write arithmetic"),
    ("SELECT max(price) OVER () AS m FROM quotes", "window functions are not kept"),
    ("SELECT latest(high) AS x FROM hourly GROUP BY issue", "no single tick to go by; write latest.column, order"),
    ("SELECT latest(high, n) AS x FROM hourly GROUP BY issue", "BIGINT that does not change"),
    ("SELECT max(sum(price)) AS x FROM quotes", "a view of its own for the inner one"),
    ("SELECT rank() OVER (ORDER BY price) AS r FROM quotes", "window functions are not kept"),
    ("SELECT stddev(price) AS s FROM quotes", "no aggregate that we keep"),
    ("SELECT trades FROM hourly WHERE trades = trades", "holds a relation"),
    ("SELECT trades, count(*) AS n FROM hourly GROUP BY trades", "cannot be grouped by"),
    ("SELECT issue, issue FROM quotes", "two columns are called issue"),
    ("SELECT issue FROM v", "in a circle .v → v."),
    ("SELECT CASE WHEN price > 1 THEN 'a' ELSE 2 END AS x FROM quotes", "BIGINT and TEXT: write CAST"),
    ("SELECT 1 AS one", "a view reads a relation"),
])  # fmt: skip
def test_a_refusal_says_why_and_what_to_write_instead(query, why):
    compiled = compile_views(f"{RELATIONS} CREATE VIEW v AS {query};")
    (refused,) = compiled.refused
    assert refused.name == "v"
    with pytest.raises(type(refused), match=why):
        raise refused
    assert list(compiled.plan.views) == ["hourly"], "the others run"


@pytest.mark.parametrize(("sql", "why"), [
    ("CREATE RELATION a (tick TEXT)", "tick BIGINT"),
    ("CREATE RELATION a (tick BIGINT, x DATE)", "x has DATE: write BIGINT"),
    ("CREATE RELATION a (tick BIGINT, x TEXT, X TEXT)", "X is there twice"),
    ("CREATE RELATION a (tick BIGINT, PRIMARY KEY (tick))", "the key is always the tick"),
    ("CREATE RELATION quotes (tick BIGINT)", "the name is taken"),
    ("CREATE RELATION a (tick BIGINT PRIMARY KEY, x TEXT NOT NULL)", "column x: NOT NULL is not checked"),
    ("CREATE VIEW a.b AS SELECT issue FROM quotes", "a name without dots, not a.b"),
    ("CREATE RELATION a (tick BIGINT, relation TEXT)", "give the column another one"),
    ("CREATE VIEW deep AS SELECT " + "(" * 20_000 + "1" + ")" * 20_000 + " AS x FROM quotes", "too deeply|cannot"),
    ("CREATE VIEW sum AS SELECT " + "+".join(["price"] * 20_000) + " AS x FROM quotes", "nested too deeply"),
    ("INSERT INTO quotes VALUES (1)", "only CREATE RELATION and CREATE VIEW"),
    ("CREATE VIEW broken AS SELECT FROM", "broken: cannot be read as SQL|broken: a view reads"),
    ("CREATE VIEW a AS SELECT * FROM b; CREATE VIEW b AS SELECT * FROM a", "in a circle"),
])  # fmt: skip
def test_bad_statements_are_refused_and_the_others_run(sql, why):
    compiled = compile_views(f"{RELATIONS} {sql};")
    assert compiled.refused
    with pytest.raises(type(compiled.refused[0]), match=why):
        raise compiled.refused[0]
    assert "hourly" in compiled.plan.views


def test_a_refused_view_takes_down_those_that_read_it():
    compiled = compile_views(
        f"{RELATIONS} CREATE VIEW up AS SELECT * FROM bad; CREATE VIEW bad AS SELECT x FROM quotes;"
    )
    assert {error.name for error in compiled.refused} == {"up", "bad"}
    assert "it reads bad, which was refused" in str(compiled.refused[0])


def test_equal_parts_of_views_are_one_node():
    """§2.3: one graph, shared by the subscriptions."""
    sql = (
        RELATIONS
        + """
    CREATE VIEW again AS SELECT issue, tick / 3600 AS hour, max(price) AS high, min(price) AS low, latest(price) AS now,
        count(*) AS n, sum(volume) AS volume, collect(tick, price) AS trades FROM quotes GROUP BY issue, tick / 3600;
    CREATE VIEW other AS SELECT issue, max(price) AS high FROM quotes WHERE volume > 5 GROUP BY issue;
    CREATE VIEW another AS SELECT issue, max(price) AS high FROM quotes WHERE volume > 5 GROUP BY issue
        HAVING max(price) > 3;
    """
    )
    plan = compile_views(sql).plan
    assert plan.views["again"] is plan.views["hourly"]
    assert sum(isinstance(node, Group) for node in plan.nodes()) == 2


@pytest.mark.row("G11")
def test_the_plan_is_printed_with_types():
    shown = compile_views(RELATIONS).plan.show()
    assert "[1] relation quotes" in shown
    assert "-> view hourly" in shown
    assert "high DOUBLE at_least, low DOUBLE at_most, now DOUBLE latest, n BIGINT between" in shown


def test_create_relation_is_read_in_any_case_and_as_create_table():
    sql = """create relation A (x TEXT); CREATE TABLE b (Tick BIGINT, y TEXT);
    CREATE VIEW c AS SELECT a.X, b.TICK FROM a JOIN b ON a.x = B.y"""
    plan = compile_views(sql).plan
    assert list(plan.relations) == ["A", "b"]
    assert [column.name for column in plan.relations["A"].columns] == ["tick", "x"]
    assert plan.views["c"].key_names == ("A.tick", "b.tick")
