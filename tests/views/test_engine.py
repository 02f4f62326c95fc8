"""Any views over any events: what is said is never false, and at the end it is what SQL says."""

from __future__ import annotations

import random

import pytest

from tests.views.random_views import RandomViews
from tests.views.recompute import canonical, check_final, interleave, recompute, run
from tocsin.views.compile import compile_views

RELATIONS = """
CREATE RELATION r (tick BIGINT, k TEXT, x BIGINT, y DOUBLE);
CREATE RELATION s (tick BIGINT, k TEXT, z BIGINT);
"""

VIEWS = {
    "selected": "SELECT tick, k, x FROM r WHERE x > 2 AND k <> 'c'",
    "extend": "SELECT k, x + 1 AS a, x * y AS b, x / 3 AS c, x % 3 AS d, x / 0 AS e, -x AS f, y / 4 AS g FROM r",
    "logic": "SELECT k, CASE WHEN x > 2 THEN 'big' WHEN x IS NULL THEN 'none' ELSE 'small' END AS size, "
    "coalesce(x, -1) AS x, x BETWEEN 1 AND 3 AS middle, k IN ('a', 'b') AS ab, NOT (x > 1) AS low FROM r",
    "whole": "SELECT count(*) AS n, count(x) AS nx, sum(x) AS total, max(y) AS high, min(y) AS low FROM r",
    "grouped": "SELECT k, count(*) AS n, sum(x) AS total, max(y) AS high, min(x) AS low, latest(x) AS now FROM r "
    "GROUP BY k",
    "windows": "SELECT k, tick / 5 AS w, count(*) AS n, max(x) AS high, min(x) AS low, latest(y) AS now FROM r "
    "GROUP BY k, w",
    "window_of_ticks": "SELECT tick - tick % 4 AS w, count(x) AS n, sum(y) AS total FROM r GROUP BY tick - tick % 4",
    "early": "SELECT count(*) AS n FROM r WHERE tick >= 3 AND tick <= 9",
    "above": "SELECT k, sum(x) AS total FROM r GROUP BY k HAVING sum(x) > 5 AND count(*) > 1",
    "average": "SELECT k, avg(y) AS mean, max(x) - min(x) AS spread, sum(x) / count(*) AS each FROM r GROUP BY k",
    "best": "SELECT tick, k, x FROM r WHERE x IS NOT NULL ORDER BY x DESC, tick LIMIT 3",
    "joined": "SELECT r.tick, s.tick AS t2, r.k, r.x, s.z FROM r JOIN s ON r.k = s.k",
    "joined_on_two": "SELECT r.tick, s.z FROM r JOIN s ON r.k = s.k AND r.x = s.z WHERE r.tick <= s.tick",
    "per_pair": "SELECT r.k, count(*) AS n, sum(s.z) AS total, max(r.y) AS high FROM r JOIN s ON r.k = s.k "
    "GROUP BY r.k",
    "as_of": "SELECT a.tick AS t, a.k, sum(b.x) AS total, count(*) AS n FROM r AS a JOIN r AS b ON a.k = b.k "
    "WHERE b.tick <= a.tick GROUP BY a.tick, a.k",
    "merged": "SELECT k, x AS v FROM r UNION ALL SELECT k, z FROM s",
    "merged_sum": "SELECT k, sum(v) AS total, count(*) AS n FROM "
    "(SELECT k, x AS v FROM r UNION ALL SELECT k, z FROM s) AS both_of_them GROUP BY k",
    "different": "SELECT DISTINCT k, x FROM r",
    "united": "SELECT k FROM r UNION SELECT k FROM s",
    "deleted": "SELECT k, x FROM r EXCEPT SELECT k, z FROM s",
    "deleted_ticks": "SELECT tick, k FROM r EXCEPT SELECT tick, k FROM s",
    "not_there": "SELECT tick, k, x FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND s.z > 2)",
    "count_left": "SELECT count(*) AS n, max(x) AS high FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.z = r.x)",
    # views over views
    "of_windows": "SELECT k, sum(high) AS total, max(high) AS top, min(low) AS bottom, count(*) AS ws FROM windows "
    "WHERE n > 1 GROUP BY k",
    "two_levels": "SELECT k, w / 2 AS ww, max(high) AS high, sum(n) AS n FROM windows GROUP BY k, w / 2",
    "best_groups": "SELECT k, total FROM grouped WHERE total IS NOT NULL ORDER BY total DESC, k LIMIT 2",
    "best_high": "SELECT k, high FROM grouped WHERE high IS NOT NULL ORDER BY high, k LIMIT 2",
    "join_groups": "SELECT g.k, g.total, p.n FROM grouped AS g JOIN per_pair AS p ON g.k = p.k",
    "join_evolving": "SELECT g.k, s.tick AS t FROM grouped AS g JOIN s ON g.high = s.z",
    "group_evolving": "SELECT n, count(*) AS ks, max(total) AS top FROM grouped GROUP BY n",
    "count_evolving": "SELECT count(*) AS groups FROM group_evolving WHERE ks > 0",
    "except_evolving": "SELECT k, n FROM grouped EXCEPT SELECT k, n FROM per_pair",
    "predicate": "SELECT k, high > 3 AS over, n > 2 AS many, total > 4 AS rich FROM grouped",
    "rows_left": "SELECT k, count(*) AS n FROM deleted GROUP BY k",
    "by_rows_left": "SELECT n, count(*) AS ks FROM rows_left GROUP BY n",
    "join_left": "SELECT a.k, r.tick AS t FROM rows_left AS a JOIN r ON a.n = r.x",
    "count_join_left": "SELECT k, count(*) AS n, max(t) AS last FROM join_left GROUP BY k",
    "best_left": "SELECT k, n FROM rows_left ORDER BY n DESC, k LIMIT 1",
    "left_of_best": "SELECT k FROM rows_left WHERE NOT EXISTS "
    "(SELECT 1 FROM best_left WHERE best_left.k = rows_left.k)",
}  # fmt: skip
SQL = RELATIONS + "".join(f"CREATE VIEW {name} AS {query};\n" for name, query in VIEWS.items())

OTHER_FORMS = {
    "forms": "SELECT k LIKE 'a%' AS a, k NOT ILIKE '_' AS b, x IS DISTINCT FROM 2 AS c, (x > 2) IS TRUE AS d, "
    "nullif(x, 2) AS e, if(x > 1, 'm', 'n') AS f, round(y * 1.37, 1) AS g, substr(k || 'xyz', -2) AS h, "
    "floor(y) / 4 AS i, ceil(-y / 2) / 4 AS j, "
    "CAST(CASE WHEN x > 1 THEN y ELSE x END AS TEXT) AS l, k || greatest(x, y) AS m FROM r",
    "filtered": "SELECT k, count(*) FILTER (WHERE x > 1) AS n, sum(x) FILTER (WHERE y > 1) AS total, "
    "round(max(y)) AS high FROM r GROUP BY k",
    "by_number": "SELECT k, x, tick FROM r ORDER BY 2 NULLS FIRST, 3 DESC LIMIT 3",
    "three": "SELECT a.tick AS t1, b.tick AS t2, c.tick AS t3 FROM r AS a, s AS b JOIN s AS c ON b.z = c.z "
    "WHERE a.k = b.k AND c.tick < b.tick",
    "from_several": "SELECT r.tick, s.z FROM r CROSS JOIN s WHERE s.k = r.k AND s.z = r.x",
    "alias_in_where": "SELECT tick, x + 1 AS more FROM r WHERE more > 2 AND `tick` < 9",
    "of_parts": "(SELECT tick, x FROM r WHERE x IS NOT NULL) ORDER BY x DESC, tick FETCH FIRST 2 ROWS ONLY",
    "by_both": "SELECT count(*) AS n FROM r JOIN s ON r.x = s.z GROUP BY r.k, s.k",
    "once": "SELECT k, max(DISTINCT x) AS high, avg(x) FILTER (WHERE k LIKE '%a%') AS mean FROM r GROUP BY k, r.k",
}  # fmt: skip
OTHER_SQL = RELATIONS + "".join(f"CREATE VIEW {name} AS {query};\n" for name, query in OTHER_FORMS.items())


def source(chance: random.Random, relation: str, length: int) -> list[dict]:
    """Events, silences and the end of one relation."""
    items, tick = list[dict](), chance.randint(0, 2)
    for _ in range(length):
        kind = chance.random()
        if kind < 0.12:
            last = tick + chance.randint(0, 3)
            items.append({"relation": relation, "silent": [tick, last]})
            tick = last + 1
        else:
            item = {"relation": relation, "tick": tick, "k": chance.choice(["a", "b", "c", None])}
            if relation == "r":
                item |= {"x": chance.choice([None, 0, 1, 2, 3, 4]), "y": chance.choice([None, 0.5, 2.0, 3.0, 4.25])}
            else:
                item |= {"z": chance.choice([None, 0, 1, 2, 3, 4])}
            items.append(item)
            tick += chance.choice([1, 1, 1, 2, 4])
        if items and chance.random() < 0.1:
            items.append(items[-1])
    return [*items, {"relation": relation, "closed": True}]


def stream(seed: int, length: int = 12) -> list[dict]:
    chance = random.Random(seed)
    lengths = [chance.randint(0, length), chance.randint(0, length)]
    return interleave(chance, source(chance, "r", lengths[0]), source(chance, "s", lengths[1]))


@pytest.mark.row("G3")
@pytest.mark.parametrize("seed", range(24))
def test_every_operator_equals_sql_once_all_is_known(seed):
    check_final(SQL, stream(seed), batch=[1, 1, 3, 1000][seed % 4])


@pytest.mark.parametrize("seed", range(6))
def test_other_ways_to_say_it_equal_sql_too(seed):
    """What people write in SQL without thinking of it; each was refused or read wrongly once."""
    check_final(OTHER_SQL, stream(seed, length=16), batch=[1, 4, 1000][seed % 3])


def check_random_views(seed: int, streams: int) -> None:
    """Whatever can be kept of random SQL equals it in the end, and nothing false was said before."""
    views = RandomViews(random.Random(seed), 4, lambda sql: not compile_views(RELATIONS + sql).refused)
    for number in range(streams):
        items = stream(seed * 10 + number)
        engine, _ = run(RELATIONS + views.sql, items, batch=[1, 2, 1000][(seed + number) % 3])
        for view, rows in recompute(RELATIONS + views.sql, items, plainly=True).items():
            found = [change.row or {} for change in engine.state() if change.view == view]
            assert canonical(found) == canonical(rows), (view, views.sql)
        assert all(change.final for change in engine.state()), views.sql


@pytest.mark.parametrize("seed", range(12))
def test_random_views_equal_sql_once_all_is_known(seed):
    check_random_views(seed, streams=1)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_random_views_equal_sql_once_all_is_known_many_times(block):
    for seed in range(1000 + 60 * block, 1060 + 60 * block):
        check_random_views(seed, streams=3)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_every_operator_equals_sql_once_all_is_known_many_times(block):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check_final(SQL, stream(seed, length=20), batch=[1, 2, 7][seed % 3])


@pytest.mark.parametrize("seed", range(5))
def test_the_rows_that_are_there_so_far_are_what_sql_says_of_the_events_so_far(seed):
    items = stream(seed)
    for end in (len(items) // 3, len(items) // 2):
        engine, _ = run(SQL, items[:end])
        for view, rows in recompute(SQL, items[:end]).items():
            shown = [change.row or {} for change in engine.state() if change.view == view]
            assert len(shown) == len(rows), view
            plain = set(rows[0]) if rows else set()
            plain = {name for name in plain if not any(isinstance(row[name], dict) for row in shown)}
            cut = [[{name: row[name] for name in plain} for row in found] for found in (shown, rows)]
            assert canonical(cut[0]) == canonical(cut[1]), view


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_arrival_and_the_batches_do_not_show_in_the_end(seed):
    chance = random.Random(seed)
    sources = source(chance, "r", 12), source(chance, "s", 12)
    ends = []
    for batch in (1, 2, 5, 100):
        engine, _ = run(SQL, interleave(chance, *sources), batch)
        ends.append([change.json() for change in engine.state()])
    assert all(end == ends[0] for end in ends)
