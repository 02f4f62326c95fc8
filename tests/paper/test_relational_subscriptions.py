"""Relational Subscriptions (Jin, Strom), claim by claim, on the paper's examples and on real events."""

from __future__ import annotations

import csv
import gzip
import random
from datetime import date

import pytest

from tests.views.recompute import canonical, check_final, interleave, recompute, run
from tocsin.markup import read_markup
from tocsin.model import Document
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.xpath.parse import parse_xpath
from tocsin.query.xpath.semantics import holds_xpath
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder
from tocsin.views.value import DELETED, SILENT, UNKNOWN, Growing, Rows, add, both, json_of, less, may_evolve


def events(relation: str, rows: list[dict], first: int = 1) -> list[dict]:
    """Rows as events at successive ticks, then the end."""
    made = [{"relation": relation, "tick": at, **row} for at, row in enumerate(rows, start=first)]
    return [*made, {"relation": relation, "closed": True}]


def real(data_dir, name: str) -> list[dict[str, str]]:
    with gzip.open(data_dir / "events" / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- the airline example (§2.3, Figure 1) ----------------------------------------------------------------------------

AIRLINE = """
CREATE RELATION flights (tick BIGINT, flight TEXT, origin TEXT, dest TEXT, price DOUBLE, seats BIGINT);
CREATE RELATION booked (tick BIGINT, flight TEXT, seats BIGINT);
CREATE VIEW sold AS SELECT flight, sum(seats) AS seats FROM booked GROUP BY flight;
CREATE VIEW available AS SELECT flights.flight, dest, price, flights.seats - sold.seats AS free
    FROM flights JOIN sold ON flights.flight = sold.flight WHERE flights.seats - sold.seats >= 1;
CREATE VIEW cheapest AS SELECT flight, price, free FROM available WHERE dest = 'LHR' ORDER BY price, flight LIMIT 3;
CREATE VIEW planned AS SELECT flight, free FROM available WHERE flight = 'AA141' OR flight = 'UA23';
"""
FLIGHTS = [
    {"flight": "AA141", "origin": "JFK", "dest": "LHR", "price": 500, "seats": 100},
    {"flight": "NW44", "origin": "JFK", "dest": "LHR", "price": 450, "seats": 10},
    {"flight": "UA23", "origin": "EWR", "dest": "SFO", "price": 300, "seats": 80},
    {"flight": "BA178", "origin": "JFK", "dest": "LHR", "price": 700, "seats": 5},
    {"flight": "VS4", "origin": "JFK", "dest": "LHR", "price": 650, "seats": 90},
]
BOOKED = [("AA141", 3), ("NW44", 4), ("UA23", 1), ("BA178", 2), ("NW44", 6), ("AA141", 2), ("VS4", 1), ("BA178", 1)]
BOOKINGS = [{"flight": flight, "seats": seats} for flight, seats in BOOKED]


@pytest.mark.row("G4")
@pytest.mark.parametrize("seed", range(10))
def test_the_airline_example_end_to_end(seed):
    """§2.3, Figure 1: NW44 is deleted from Available once its 10 seats are booked; a circle of views is refused."""
    items = interleave(random.Random(seed), events("flights", FLIGHTS), events("booked", BOOKINGS))
    engine = check_final(AIRLINE, items)
    _, watcher = run(AIRLINE, items)
    rows = {view: [change.row for change in engine.state() if change.view == view] for view in engine.plan.views}
    assert [row["flight"] for row in rows["cheapest"]] == ["AA141", "VS4", "BA178"]  # type: ignore[index]
    assert {row["flight"]: row["free"] for row in rows["planned"]} == {"AA141": 95, "UA23": 79}  # type: ignore[index]
    assert "NW44" not in {row["flight"] for row in watcher.present("available")}
    circle = compile_views(AIRLINE + "CREATE VIEW a AS SELECT * FROM b; CREATE VIEW b AS SELECT * FROM a;")
    assert [error.name for error in circle.refused] == ["a", "b"]
    assert "circle" in str(circle.refused[1])


def test_available_is_one_node_for_both_subscriptions():
    """§2.3: Cheapest and Planned read the same Available."""
    plan = compile_views(AIRLINE).plan
    readers = [node for node in plan.nodes() if plan.views["available"] in node.inputs]
    assert len(readers) == 2
    assert plan.nodes().count(plan.views["available"]) == 1


# --- relations and values (§2.1) -------------------------------------------------------------------------------------


@pytest.mark.row("G2")
def test_special_values_are_values_and_a_column_may_hold_a_relation():
    """§2.1: operations are total on unknown, silent and deleted; a deletion is a value; relations nest."""
    for special in (UNKNOWN, SILENT, DELETED):
        assert add(special, 1) is special
        assert less(1, special) is special
        assert both(special, False) is False
    assert may_evolve(UNKNOWN, SILENT)
    assert not may_evolve(SILENT, 3)
    assert not may_evolve(DELETED, 3)
    sql = """
    CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE);
    CREATE VIEW tape AS SELECT issue, collect(tick, price) AS trades FROM quotes GROUP BY issue;
    """
    items = events("quotes", [{"issue": "IBM", "price": 80}, {"issue": "IBM", "price": 81}])
    engine, watcher = run(sql, items)
    (change,) = engine.state()
    assert change.row == {"issue": "IBM", "trades": [{"tick": 1, "price": 80.0}, {"tick": 2, "price": 81.0}]}
    told = watcher.told["tape", '{"issue": "IBM"}']
    assert told[0]["trades"] == {"so_far": [{"tick": 1, "price": 80.0}]}
    one, two = Rows(("x",), ((1,),)), Rows(("x",), ((1,), (2,)))
    assert may_evolve(Growing(one), Growing(two))
    assert json_of(DELETED) is None


BOOKED_NOT_CANCELLED = """
CREATE RELATION booked (tick BIGINT, booking TEXT, flight TEXT);
CREATE RELATION cancelled (tick BIGINT, booking TEXT);
CREATE VIEW valid AS SELECT tick, booking, flight FROM booked
    WHERE NOT EXISTS (SELECT 1 FROM cancelled WHERE cancelled.booking = booked.booking);
CREATE VIEW names AS SELECT booking FROM booked EXCEPT SELECT booking FROM cancelled;
CREATE VIEW load AS SELECT flight, count(*) AS bookings FROM valid GROUP BY flight;
CREATE VIEW net AS SELECT b.flight, b.n - c.n AS n FROM (SELECT flight, count(*) AS n FROM booked GROUP BY flight) AS b
    JOIN (SELECT flight, count(*) AS n FROM booked JOIN cancelled ON booked.booking = cancelled.booking GROUP BY flight)
    AS c ON b.flight = c.flight;
"""


@pytest.mark.row("G7")
@pytest.mark.parametrize("seed", range(15))
def test_deletion_and_subtraction_never_take_a_fact_back(seed):
    """§1.2.3: Booked − Cancelled as two growing sets: there so far, then gone for good, or there for good."""
    chance = random.Random(seed)
    names = [f"B{at}" for at in range(20)]
    bookings = [{"booking": name, "flight": chance.choice(["AA1", "UA2", "NW3"])} for name in names]
    gone = [{"booking": name} for name in chance.sample(names, 8)]
    items = interleave(chance, events("booked", bookings), events("cancelled", gone))
    check_final(BOOKED_NOT_CANCELLED, items)
    engine, watcher = run(BOOKED_NOT_CANCELLED, items[:-2])
    if {"relation": "cancelled", "closed": True} not in items[:-2]:
        shown = [change for change in engine.state() if change.view == "valid"]
        assert not any(change.final for change in shown), "any booking may still be cancelled"
    left = [change for (view, _), change in watcher.rows.items() if view == "valid" and change.row is None]
    assert all(change.final for change in left), "what is cancelled never comes back"


# --- hourly high, low and current (§1.1) -----------------------------------------------------------------------------

QUOTES = """
CREATE RELATION quotes (tick BIGINT, currency TEXT, rate DOUBLE);
CREATE VIEW monthly AS SELECT currency, tick / 1920 AS month, max(rate) AS high, min(rate) AS low,
    latest(rate) AS current, count(*) AS n FROM quotes GROUP BY currency, tick / 1920;
"""


def quotes(data_dir, number: int) -> list[dict]:
    """The ECB's daily rates; 64 ticks a day, so that 1920 ticks are 30 days."""
    start, seen, made = date(1999, 1, 1), dict[int, int](), list[dict]()
    for row in real(data_dir, "ecb_fx_daily")[:number]:
        day = (date.fromisoformat(row["date"]) - start).days
        seen[day] = seen.get(day, -1) + 1
        made.append({"relation": "quotes", "tick": day * 64 + seen[day], "currency": row["currency"],
                     "rate": float(row["rate_per_eur"])})  # fmt: skip
    return sorted(made, key=lambda item: item["tick"])


def test_high_low_and_current_of_the_ecb_quotes(data_dir):
    """§1.1: at least, at most and latest while the period runs; final as soon as it has ended."""
    items = quotes(data_dir, 4000)
    _, watcher = run(QUOTES.replace(", count(*) AS n", ""), items)
    finals = [change for change in watcher.rows.values() if change.final]
    assert len(finals) > 0.7 * len(watcher.rows), "periods that ended are final, though the relation is open"
    check_final(QUOTES.replace(", count(*) AS n", ""), [*items, {"relation": "quotes", "closed": True}])


@pytest.mark.parametrize("number", [30_000, pytest.param(250_000, marks=pytest.mark.slow)])
def test_many_quotes_by_column_equal_sql(data_dir, number):
    items = [*quotes(data_dir, number), {"relation": "quotes", "closed": True}]
    compiled = compile_views(QUOTES)
    engine, decoder = Engine(compiled.plan, columns=True), Decoder(compiled.plan.relations)
    for at in range(0, len(items), 5000):
        engine.step([decoder.item(item) for item in items[at : at + 5000]])
    assert all(change.final for change in engine.state())
    found = [change.row for change in engine.state()]
    assert canonical(found) == canonical(recompute(QUOTES, items)["monthly"])  # type: ignore[arg-type]


# --- the scoreboard (§1.2.2) -----------------------------------------------------------------------------------------

SCORES = """
CREATE RELATION scores (tick BIGINT, game TEXT, team1 TEXT, team2 TEXT, event TEXT, score1 BIGINT, score2 BIGINT);
CREATE VIEW scoreboard AS SELECT game, tick / 100 AS number, latest(team1) AS team1, latest(team2) AS team2,
    max(score1) AS score1, max(score2) AS score2 FROM scores GROUP BY game, tick / 100;
CREATE VIEW results AS SELECT game, score1, score2 FROM scores WHERE event = 'final';
CREATE VIEW goals AS SELECT max(score1) + max(score2) AS goals, game FROM scores GROUP BY game;
"""


def scores(data_dir) -> list[dict]:
    made, number = list[dict](), dict[str, int]()
    for row in real(data_dir, "football_scores"):
        game = number.setdefault(row["match"], len(number))
        made.append({
            "relation": "scores", "tick": game * 100 + int(row["seq"]), "game": row["match"], "team1": row["team1"],
            "team2": row["team2"], "event": row["event"], "score1": int(row["score1"]), "score2": int(row["score2"]),
        })  # fmt: skip
    return sorted(made, key=lambda item: item["tick"])


@pytest.mark.row("G8")
def test_the_scoreboard_on_football_events(data_dir):
    """§1.2.2: if I see 4-2, at least 6 goals were scored; some scores are final; nothing false is ever seen."""
    items = [*scores(data_dir), {"relation": "scores", "closed": True}]
    engine, watcher = run(SCORES, items)
    wanted = recompute(SCORES, items)
    for view, rows in wanted.items():
        assert canonical([c.row for c in engine.state() if c.view == view]) == canonical(rows)  # type: ignore[misc]
    final = {row["game"]: (row["score1"], row["score2"]) for row in wanted["results"]}
    board = {row["game"]: (row["score1"], row["score2"]) for row in watcher.present("scoreboard")}
    assert board == final
    for (view, _), told in watcher.told.items():
        if view == "goals":
            for row in told:
                goals = row["goals"]["at_least"] if isinstance(row["goals"], dict) else row["goals"]
                assert goals <= sum(final[row["game"]])
    _, early = run(SCORES, items[: len(items) // 2])
    shown = [change for (view, _), change in early.rows.items() if view == "scoreboard"]
    assert sum(not change.final for change in shown) == 1, "only the game that runs is provisional"


LED = """
CREATE RELATION goals (tick BIGINT, day BIGINT, team TEXT);
CREATE VIEW as_of AS SELECT moment.tick AS t, sum(CASE WHEN goals.team = 'Boston' THEN 1 ELSE 0 END) AS boston,
    sum(CASE WHEN goals.team = 'Detroit' THEN 1 ELSE 0 END) AS detroit
    FROM goals AS moment JOIN goals ON moment.day = goals.day WHERE goals.tick <= moment.tick GROUP BY moment.tick;
CREATE VIEW led AS SELECT t FROM as_of WHERE boston > detroit;
CREATE VIEW times AS SELECT count(*) AS n FROM led;
CREATE VIEW board AS SELECT team, count(*) AS goals FROM goals GROUP BY team;
"""


@pytest.mark.row("G9")
@pytest.mark.parametrize("seed", range(10))
def test_was_there_a_tick_when_boston_led_detroit(seed):
    """§1.2.2: the scoreboard cannot tell, the finer query can, and for each tick finally as soon as it is known."""
    chance = random.Random(seed)
    goals = [{"day": 1, "team": chance.choice(["Boston", "Detroit", "Chicago"])} for _ in range(15)]
    items = events("goals", goals)
    check_final(LED, items)
    boston = detroit = 0
    leads = []
    for at, goal in enumerate(goals, start=1):
        boston, detroit = boston + (goal["team"] == "Boston"), detroit + (goal["team"] == "Detroit")
        leads += [at] if boston > detroit else []
    engine, _ = run(LED, items[:-1])
    led = [change for change in engine.state() if change.view == "led"]
    assert [change.key["t"] for change in led] == leads
    assert all(change.final for change in led), "the relation is open, but these ticks are known"


# --- joins (§1.1) ----------------------------------------------------------------------------------------------------

BUY_LIST = """
CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE);
CREATE RELATION listed (tick BIGINT, issue TEXT);
CREATE RELATION dropped (tick BIGINT, issue TEXT);
CREATE VIEW buy AS SELECT issue FROM listed EXCEPT SELECT issue FROM dropped;
CREATE VIEW watched AS SELECT quotes.tick, quotes.issue, price FROM quotes JOIN buy ON quotes.issue = buy.issue;
CREATE VIEW highs AS SELECT issue, max(price) AS high, count(*) AS n FROM watched GROUP BY issue;
"""


@pytest.mark.row("G9")
@pytest.mark.parametrize("seed", range(10))
def test_quotes_of_another_partys_buy_list(seed):
    """§1.1, dynamic subscriptions: a join of several publishers; no gap and no double when the list changes."""
    chance = random.Random(seed)
    issues = ["IBM", "HP", "SUN", "DEC", "SGI"]
    prices = [{"issue": chance.choice(issues), "price": chance.randint(10, 99)} for _ in range(30)]
    listed = [{"issue": issue} for issue in chance.sample(issues, 4)]
    dropped = [{"issue": issue} for issue in chance.sample(issues, 2)]
    check_final(BUY_LIST, interleave(chance, events("quotes", prices), events("listed", listed),
                                     events("dropped", dropped)))  # fmt: skip


SEATS = """
CREATE RELATION planes (tick BIGINT, tailnum TEXT, seats BIGINT);
CREATE RELATION flights (tick BIGINT, carrier TEXT, tailnum TEXT, dest TEXT, day BIGINT, flown BOOLEAN);
CREATE VIEW seated AS SELECT flights.tick, carrier, dest, day, seats FROM flights
    JOIN planes ON flights.tailnum = planes.tailnum WHERE flown;
CREATE VIEW by_carrier AS SELECT carrier, sum(seats) AS seats, count(*) AS flights, max(seats) AS largest FROM seated
    GROUP BY carrier;
CREATE VIEW by_day AS SELECT day, dest, sum(seats) AS seats FROM seated GROUP BY day, dest HAVING sum(seats) > 1000;
CREATE VIEW most AS SELECT carrier, seats FROM by_carrier ORDER BY seats DESC, carrier LIMIT 3;
"""


def test_seats_on_new_york_flights(data_dir):
    """§2.2: join, sum, best-k and views over views, on 3,000 real flights and 3,322 planes."""
    planes = [{"tailnum": row["tailnum"], "seats": int(row["seats"])} for row in real(data_dir, "nyc_planes")]
    flights = [
        {"carrier": row["carrier"], "tailnum": row["tailnum"], "dest": row["dest"], "day": int(row["day"]),
         "flown": row["dep_time"] not in ("", "NA")}
        for row in real(data_dir, "nyc_flights_2013_01_02")[:3000]
    ]  # fmt: skip
    items = interleave(random.Random(1), events("planes", planes), events("flights", flights))
    check_final(SEATS, items, batch=200)


HIGH_TRADERS = """
CREATE RELATION quotes (tick BIGINT, issue TEXT, volume BIGINT);
CREATE VIEW high_traders AS SELECT issue, tick / 3600 AS hour FROM quotes GROUP BY issue, tick / 3600
    HAVING sum(volume) > 500000;
"""


@pytest.mark.row("G9")
def test_an_alert_tells_only_who_enters_and_who_leaves():
    """§1.1, alerts: an issue that becomes a high trader, not every quote of it."""
    chance = random.Random(4)
    ticks = sorted(chance.sample(range(10_000), 600))
    items = [{"relation": "quotes", "tick": tick, "issue": chance.choice("ABC"), "volume": chance.randint(1, 12_000)}
             for tick in ticks]  # fmt: skip
    items.append({"relation": "quotes", "closed": True})
    compiled = compile_views(HIGH_TRADERS)
    engine, decoder = Engine(compiled.plan), Decoder(compiled.plan.relations)
    messages = [change for item in items for change in engine.step([decoder.item(item)])]
    assert canonical([c.row for c in engine.state()]) == canonical(recompute(HIGH_TRADERS, items)["high_traders"])  # type: ignore[misc]
    assert 0 < len(messages) <= 2 * 9, "entered, then final: at most twice for each of 9 rows"


# --- one query, four ways --------------------------------------------------------------------------------------------

PAPERS = "CREATE RELATION papers (tick BIGINT, id TEXT, author TEXT, year BIGINT);"
FOUR_WAYS = [
    ("author:knuth year:[1990 TO *]", 'author = "knuth" AND year >= 1990',
     '/paper[author = "knuth"][year >= 1990]', "author = 'knuth' AND year >= 1990"),
    ("author:knuth OR author:lamport", 'author = "knuth" OR author = "lamport"',
     '/paper[author = "knuth" or author = "lamport"]', "author IN ('knuth', 'lamport')"),
    ("year:[1980 TO 1995} NOT author:lamport", 'year >= 1980 AND year < 1995 AND NOT author = "lamport"',
     '/paper[year >= 1980][year < 1995][not(author = "lamport")]',
     "year >= 1980 AND year < 1995 AND NOT author = 'lamport'"),
]  # fmt: skip


@pytest.mark.row("X1")
@pytest.mark.parametrize("ways", FOUR_WAYS, ids=range(len(FOUR_WAYS)))
def test_the_same_query_as_words_fields_path_and_relation(ways):
    """Keyword, AWP, XPath and relational form find the same papers."""
    words, fields, path, condition = ways
    chance = random.Random(1)
    papers = [
        Document(f"d{at}", {"author": (chance.choice(["knuth", "lamport", "gray"]),), "year": (1970 + at,)})
        for at in range(40)
    ]  # fmt: skip
    found: dict[str, set[str]] = {"words": set(), "fields": set(), "path": set(), "relation": set()}
    rows = []
    for paper in papers:
        author, year = paper.fields["author"][0], paper.fields["year"][0]
        markup = read_markup(f"<paper><author>{author}</author><year>{year}</year></paper>")
        for name, text in (("words", words), ("fields", fields)):
            found[name] |= {paper.id} if holds(parse(text), paper, Knowledge()) else set()
        found["path"] |= {paper.id} if holds_xpath(parse_xpath(path), markup) else set()
        rows.append({"id": paper.id, "author": author, "year": year})
    sql = f"{PAPERS} CREATE VIEW found AS SELECT id FROM papers WHERE {condition};"
    engine, _ = run(sql, events("papers", rows)[:-1])
    assert all(change.final for change in engine.state()), "an event that matches does so for good"
    found["relation"] = {change.row["id"] for change in engine.state()}  # type: ignore[index]
    assert found["words"] == found["fields"] == found["path"] == found["relation"]
    assert 0 < len(found["words"]) < len(papers)
