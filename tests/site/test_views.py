"""Views of a site: stored with their events, told to those who subscribed, the same after a crash."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.store.scenes import contents
from tests.store.test_failing_writes import Crash, Crashing
from tocsin.errors import StoreError
from tocsin.site import accounts, audit, intake, life, reading
from tocsin.site.accounts import Account
from tocsin.site.local import LocalPipeline
from tocsin.site.problems import Conflict, Forbidden, Invalid, NotFound, TooLarge
from tocsin.site.settings import ViewSettings
from tocsin.site.site import Site
from tocsin.site.views import Views
from tocsin.store import Store, relations
from tocsin.store.backup import back_up, restore
from tocsin.store.views import events
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder

QUOTES = "CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE);"
HIGH = "CREATE VIEW high AS SELECT issue, max(price) AS high, latest(price) AS now FROM quotes GROUP BY issue;"
TOP = "CREATE VIEW top AS SELECT issue, high FROM high ORDER BY high DESC LIMIT 2;"


def quote(tick: int, issue: str, price: float) -> bytes:
    return json.dumps({"relation": "quotes", "tick": tick, "issue": issue, "price": price}).encode()


def told(site: Site, account: Account) -> list[dict[str, Any]]:
    return [reading.as_json(item) for item in reading.notifications(site, account, None, 1000).items]


def shown(views: Views, account: Account, name: str) -> list[Any]:
    return [change.json() for change in views.rows(account, name, 100_000)[1]]


def quiet(results: list[Any]) -> None:
    assert results == [None] * len(results)


# --- creating --------------------------------------------------------------------------------------------------------


def test_what_cannot_stand_is_named_by_its_line_and_the_rest_is_made(site, ann):
    text = f"""{QUOTES}
CREATE VIEW text_sum AS SELECT sum(issue) AS s FROM quotes;
CREATE VIEW a AS SELECT * FROM b;
CREATE VIEW b AS SELECT * FROM a;
CREATE VIEW apart AS SELECT q.issue FROM quotes q JOIN quotes r ON q.price > r.price;
{HIGH}
CREATE VIEW broken AS SELEC;
CREATE VIEW matches AS SELECT tick FROM quotes;
DROP TABLE quotes"""
    result = site.views.create(ann, text)
    assert [one.name for one in result.made] == ["quotes", "high"]
    reasons = {line: problem.message for line, problem in result.rejected}
    assert sorted(reasons) == [2, 3, 4, 5, 7, 8, 9]
    for line, words in {2: "issue is TEXT", 3: "circle", 4: "circle", 5: "equality", 7: "broken", 8: "taken"}.items():
        assert words in reasons[line], line
    again = site.views.create(ann, f"{HIGH}\nCREATE VIEW high AS SELECT tick FROM quotes")
    assert (len(again.made), again.known) == (0, 1)
    assert "taken" in again.rejected[0][1].message
    assert [one.name for one in site.views.listed(ann)] == ["quotes", "high"]


def test_relations_are_common_and_what_reads_matches_is_ones_own(site, ann, bob):
    site.views.create(ann, QUOTES + HIGH)
    refused = site.views.create(bob, "CREATE RELATION mine (tick BIGINT)")
    assert isinstance(refused.rejected[0][1], Forbidden)
    count = "CREATE VIEW n AS SELECT subscription, day, count(*) AS n FROM matches GROUP BY subscription, day;"
    over = "CREATE VIEW many AS SELECT subscription FROM n WHERE n > 5;"
    assert [one.owner for one in site.views.create(ann, over + count).made] == ["ann", "ann"]
    assert [one.owner for one in site.views.create(bob, count + "CREATE VIEW q AS SELECT issue FROM high").made] == [
        "bob", "bob"]  # fmt: skip
    assert [one.name for one in site.views.listed(bob)] == ["quotes", "high", "n", "q"]
    with pytest.raises(NotFound):
        site.views.rows(bob, "many", 10)
    with pytest.raises(Forbidden):
        site.views.drop(bob, "high")
    with pytest.raises(Conflict, match="reads it"):
        site.views.drop(ann, "quotes")
    site.views.drop(bob, "q")
    site.views.drop(ann, "HIGH")
    assert [one.name for one in site.views.listed(bob)] == ["quotes", "n"]


def test_an_account_creates_as_many_as_it_may(site, ann):
    views = Views(site.store, site.bell, ViewSettings(statements_per_account_max=2, events_max=3))
    result = views.create(ann, QUOTES + HIGH + TOP)
    assert ([one.name for one in result.made], len(result.rejected)) == (["quotes", "high"], 1)
    quiet(views.publish([quote(1, "a", 1), quote(2, "a", 1)]))
    with pytest.raises(TooLarge, match="no room"):
        views.publish([quote(3, "a", 1), quote(4, "a", 1)])
    quiet(views.publish([quote(3, "a", 1)]))


# --- events ----------------------------------------------------------------------------------------------------------


def test_a_bad_event_is_named_and_the_rest_goes_on(site, ann):
    site.views.create(ann, QUOTES + HIGH)
    lines = [
        quote(1, "IBM", 80), quote(5, "IBM", 81), quote(3, "IBM", 82), b'{"relation": "quotes", "tick": 6, "issue": 7}',
        b'{"relation": "nope", "tick": 1}', b"{", quote(5, "IBM", 81), b'{"relation": "quotes", "silent": [6, 9]}',
        quote(8, "IBM", 1), b'{"relation": "quotes", "closed": true}', quote(99, "IBM", 1),
        b'{"relation": "matches", "tick": 1}', b'{"relation": "quotes", "tick": 70, "issue": "\\ud800"}', b"\xff",
    ]  # fmt: skip
    found = site.views.publish(lines)
    reasons = {place: problem.message for place, problem in enumerate(found) if problem is not None}
    assert sorted(reasons) == [2, 3, 4, 5, 8, 10, 11, 12, 13]
    words = {2: "goes back", 3: "column issue", 4: "no relation 'nope'", 8: "silent", 10: "closed", 11: "'matches'"}
    for place, said in words.items():
        assert said in reasons[place]
    (row,) = shown(site.views, ann, "high")
    assert row == {"view": "high", "key": {"issue": "IBM"}, "row": {"issue": "IBM", "high": 81.0, "now": 81.0},
                   "final": True}  # fmt: skip
    again = Site(site.store).views
    assert shown(again, ann, "high") == [row]
    assert again.publish([quote(100, "IBM", 1)])[0] is not None


def test_after_any_restart_views_are_those_of_one_process(site, ann):
    """Random events, silences and bad lines in random steps; a new Views on the same store at random."""
    chance = random.Random(7)
    sql = (
        QUOTES
        + HIGH
        + TOP
        + "CREATE VIEW tens AS SELECT tick / 10 AS ten, count(*) AS n FROM quotes GROUP BY tick / 10;"
    )
    views, taken, tick = Views(site.store, site.bell), list[bytes](), 0
    views.create(ann, sql)
    for _ in range(25):
        lines = []
        for _ in range(chance.randrange(1, 6)):
            tick += chance.randrange(1, 4)
            kind = chance.random()
            if kind < 0.7:
                lines.append(quote(tick, chance.choice("abc"), chance.randrange(50)))
            elif kind < 0.9:
                first, tick = tick, tick + chance.randrange(0, 8)
                lines.append(json.dumps({"relation": "quotes", "silent": [first, tick]}).encode())
            else:
                lines.append(quote(max(1, tick - 6), "z", -1))
        results = views.publish(lines)
        taken += [line for line, problem in zip(lines, results, strict=True) if problem is None]
        if chance.random() < 0.3:
            views = Views(site.store, site.bell)
        engine = Engine(compile_views(sql).plan)
        engine.step([Decoder(engine.plan.relations).line(line) for line in taken])
        wanted = [change.json() for change in engine.state()]
        assert [row for name in ("high", "top", "tens") for row in shown(views, ann, name)] == wanted
        with site.store.read() as transaction:
            stored = {(view, key): (row, final) for view, key, row, final in relations.rows_of(transaction, "")}
        assert stored == {(one["view"], _packed(one["key"])): (_packed(one["row"]), one["final"]) for one in wanted}


def _packed(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_a_view_that_is_made_later_shows_what_came_before(site, ann):
    site.views.create(ann, QUOTES)
    quiet(site.views.publish([quote(1, "a", 1), quote(2, "b", 5), quote(3, "c", 3)]))
    site.views.create(ann, HIGH + TOP)
    assert [row["row"]["issue"] for row in shown(site.views, ann, "top")] == ["b", "c"]


def test_two_who_write_one_store_do_not_lose_each_others_events(site, ann):
    first, second = Views(site.store, site.bell), Views(site.store, site.bell)
    first.create(ann, QUOTES + HIGH)
    for tick in range(1, 10, 2):
        quiet(first.publish([quote(tick, "a", tick)]))
        quiet(second.publish([quote(tick + 1, "b", tick)]))
    third = Views(site.store, site.bell)
    assert third.described(ann, "quotes").size == 10
    assert second.publish([quote(1, "x", 1)])[0] is not None


# --- being told ------------------------------------------------------------------------------------------------------


def test_changes_are_told_and_a_reader_who_was_away_gets_one_fresh_state(site, ann, bob):
    """G9: the outbox holds the last state of each row, not the log."""
    site.views.create(ann, QUOTES + HIGH)
    life.create(site, bob, {"view": "high", "id": "all"})
    quiet(site.views.publish([quote(1, "a", 5)]))
    (first,) = told(site, bob)
    assert (first["subscription"], first["row"]["high"]) == ("all", {"at_least": 5.0})
    for tick in range(2, 60):
        quiet(site.views.publish([quote(tick, "abcd"[tick % 4], tick % 97)]))
    fresh = reading.notifications(site, bob, first["cursor"], 1000).as_json()["items"]
    assert sorted(one["key"]["issue"] for one in fresh) == ["a", "b", "c", "d"]
    assert [{key: one[key] for key in ("view", "key", "row", "final")} for one in sorted(fresh, key=_issue)] == shown(
        site.views, bob, "high"
    )
    assert len(told(site, bob)) == 4


def _issue(one: dict[str, Any]) -> str:
    return str(one["key"]["issue"])


def test_a_condition_is_told_when_it_begins_and_ends_to_hold(site, ann, bob):
    """G9: enter and leave events only."""
    site.views.create(ann, QUOTES + HIGH)
    life.create(site, bob, {"view": {"name": "high", "when": "now > 80"}, "id": "w"})
    life.create(site, bob, {"view": {"name": "high", "where": "issue = 'b'"}, "id": "b"})
    seen: list[tuple[str, str, float | None]] = []
    cursor: str | None = None
    for tick, (issue, price) in enumerate([("a", 70), ("a", 81), ("a", 90), ("b", 99), ("a", 60), ("b", 98)], 1):
        quiet(site.views.publish([quote(tick, issue, price)]))
        page = reading.notifications(site, bob, cursor, 1000).as_json()
        cursor = page["next"]
        seen += [(one["subscription"], one["key"]["issue"], one["row"] and one["row"]["now"]["latest"])
                 for one in page["items"]]  # fmt: skip
    assert [one for one in seen if one[0] == "w"] == [("w", "a", 81), ("w", "b", 99), ("w", "a", None)]
    assert [one for one in seen if one[0] == "b"] == [("b", "b", 99), ("b", "b", 98)]


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("nope", "no relation or view"),
        ("quotes", "no view"),
        (7, "its name"),
        ({"name": "high", "colour": 1}, "its name"),
        ({"name": "high", "when": "a", "where": "b"}, "not both"),
        ({"name": "high", "when": "high >"}, "cannot be read"),
        ({"name": "high", "when": "volume > 3"}, "volume"),
        ({"name": "high", "when": "EXISTS (SELECT 1 FROM quotes)"}, "subquery"),
        ({"name": "high", "when": "x" * 2_001}, "2,000"),
    ],
)
def test_a_wish_that_cannot_be_kept_is_refused(site, ann, bob, wish, words):
    site.views.create(ann, QUOTES + HIGH)
    with pytest.raises((Invalid, NotFound, TooLarge), match=words):
        life.create(site, bob, {"view": wish})
    with pytest.raises(Invalid, match="not both"):
        life.create(site, bob, {"view": "high", "query": "x"})


def test_who_comes_late_or_was_paused_is_told_how_things_are(site, ann, bob):
    site.views.create(ann, QUOTES + HIGH)
    quiet(site.views.publish([quote(1, "a", 5), quote(2, "b", 6)]))
    life.create(site, bob, {"view": "high", "id": "late"})
    site.views.settle()
    assert sorted(one["key"]["issue"] for one in told(site, bob)) == ["a", "b"]
    cursor = reading.notifications(site, bob, None, 1000).next
    life.pause(site, bob, "late")
    quiet(site.views.publish([quote(3, "b", 7), quote(4, "b", 8), quote(5, "c", 1)]))
    assert reading.notifications(site, bob, cursor, 1000).items == []
    life.resume(site, bob, "late")
    site.views.settle()
    fresh = reading.notifications(site, bob, cursor, 1000).as_json()["items"]
    assert [(one["key"]["issue"], one["row"]["high"]) for one in fresh] == [
        ("b", {"at_least": 8.0}),
        ("c", {"at_least": 1.0}),
    ]
    site.views.settle()
    assert len(told(site, bob)) == 3, "nothing is told twice"
    assert life.as_json(life.get(site, bob, "late"))["view"] == {"name": "high"}


def test_more_than_so_many_matches_of_a_subscription_a_day(site, ann, bob):
    """Matches are a source relation; each counts once, and nobody sees another's."""
    count = "CREATE VIEW busy AS SELECT subscription, day, count(*) AS n FROM matches GROUP BY subscription, day;"
    pipeline = site.pipeline
    assert isinstance(pipeline, LocalPipeline)
    for account in (ann, bob):
        site.views.create(account, count)
    life.create(site, bob, {"query": "peer", "id": "p"})
    life.create(site, bob, {"view": {"name": "busy", "when": "n > 5"}, "id": "alarm"})
    for number in range(4):
        intake.publish(site, ann, [{"id": f"{number}-{at}", "t": "peer"} for at in range(2)])
        pipeline.catch_up()
        site.views.settle()
        found = [one for one in told(site, bob) if one["subscription"] == "alarm"]
        assert len(found) == (1 if number >= 2 else 0), number
    (row,) = shown(site.views, bob, "busy")
    assert row["row"] | {"day": 0} == {"subscription": "p", "day": 0, "n": {"at_least": 8}}
    assert shown(site.views, ann, "busy") == []
    life.mute(site, bob, "p", 9e9, "hold")
    life.resume(site, bob, "p")  # gives what was held new cursors
    again = Site(site.store).views
    again.settle()
    assert shown(again, bob, "busy") == [row]
    assert audit.audit(site.store, site.analysis).complete


# --- crashes ---------------------------------------------------------------------------------------------------------


def furnished(store: Store) -> tuple[Site, Account]:
    site = Site(store)
    ann = accounts.create(store, "ann", "publisher")
    site.views.create(ann, QUOTES + HIGH + TOP)
    life.create(site, ann, {"view": "high", "id": "all"})
    life.create(site, ann, {"view": {"name": "high", "when": "now > 80"}, "id": "w"})
    quiet(site.views.publish([quote(1, "a", 5), quote(2, "b", 90)]))
    return site, ann


CALLS: dict[str, Callable[[Site, Account], object]] = {
    "events": lambda site, ann: site.views.publish(
        [quote(3, "a", 95), quote(4, "b", 1), b'{"relation": "quotes", "silent": [5, 9]}']
    ),
    "close": lambda site, ann: site.views.publish([b'{"relation": "quotes", "closed": true}']),
    "create": lambda site, ann: site.views.create(ann, "CREATE VIEW n AS SELECT count(*) AS n FROM quotes"),
    "drop": lambda site, ann: site.views.drop(ann, "top"),
}


@pytest.mark.parametrize(
    "name", ["events", "create", *(pytest.param(x, marks=pytest.mark.slow) for x in ("close", "drop"))]
)
def test_a_crash_at_any_write_leaves_views_as_before_or_after(tmp_path, name):
    """And whoever tries again, in the same process or in a new one, gets there."""
    model, ann = furnished(Store(tmp_path / "model"))
    model.store.close()
    shutil.copytree(tmp_path / "model", tmp_path / "after")
    after = Site(Store(tmp_path / "after"))
    shown(after.views, ann, "high")
    with Crashing(after.store, 0) as counted:
        CALLS[name](after, ann)
    wanted = state(after.store)
    after.store.close()
    assert counted.count > 3
    for number in range(1, counted.count + 1):
        shutil.copytree(tmp_path / "model", tmp_path / str(number))
        crashed = Site(Store(tmp_path / str(number)))
        shown(crashed.views, ann, "high")
        with Crashing(crashed.store, number), pytest.raises((Crash, StoreError)):
            CALLS[name](crashed, ann)
        again = crashed if number % 2 else Site(crashed.store)
        if again.views.listed(ann) and state(crashed.store) != wanted:
            CALLS[name](again, ann)
        assert state(crashed.store) == wanted, number
        crashed.store.close()


def state(store: Store) -> Any:
    """What is kept of views, but for the moments and the numbers of steps."""
    found = contents(store)
    statements = [row[1:6] for row in found["view_statements"]]
    rows = [row[:5] for row in found["view_rows"]]
    outbox = sorted((row[2], row[3], row[8]) for row in found["notifications"])
    progress = [(row[1], *row[3:]) for row in found["view_progress"]]
    return statements, rows, outbox, progress, found["view_events"], found["view_silences"], found["view_told"]


def test_a_back_up_holds_the_views(tmp_path):
    site, ann = furnished(Store(tmp_path / "one"))
    back_up(site.store, tmp_path / "copy")
    other = Store(tmp_path / "two")
    restore(other, tmp_path / "copy")
    assert state(other) == state(site.store)
    again = Site(other)
    assert shown(again.views, ann, "high") == shown(site.views, ann, "high")
    quiet(again.views.publish([quote(3, "a", 95)]))
    assert told(again, ann)[-1]["row"]["now"] == {"latest": 95.0, "tick": 3}
    site.store.close()
    other.close()


def test_a_step_that_the_store_refuses_changes_nothing_in_memory(tmp_path: Path):
    site, ann = furnished(Store(tmp_path))
    before = shown(site.views, ann, "high")
    with Crashing(site.store, 2), pytest.raises(Crash):
        site.views.publish([quote(3, "a", 95)])
    assert shown(site.views, ann, "high") == before
    with site.store.read() as transaction:
        assert transaction.execute(select(events.c.tick)).scalars().all() == [1, 2]
    site.store.close()


def test_rows_that_fall_out_of_the_best_and_odd_text_are_told(site, ann, bob):
    site.views.create(ann, QUOTES + HIGH + TOP + 'CREATE VIEW "odd name" AS SELECT issue FROM quotes;')
    life.create(site, bob, {"view": "top", "id": "t"})
    life.create(site, bob, {"view": {"name": "top", "when": "high > 5"}, "id": "w"})
    quiet(site.views.publish([quote(1, "a", 9), quote(2, "\0\u2028'\"", 8)]))
    quiet(site.views.publish([quote(3, "c", 10), quote(4, "d", 11)]))
    for subscription in ("t", "w"):
        last = {one["key"]["issue"]: one["row"] for one in told(site, bob) if one["subscription"] == subscription}
        assert {issue for issue, row in last.items() if row is not None} == {"c", "d"}
        assert {issue for issue, row in last.items() if row is None} == {"a", "\0\u2028'\""}
    assert [row["row"]["issue"] for row in shown(site.views, ann, "top")] == ["d", "c"]
    assert len(shown(site.views, ann, "odd name")) == 4
    assert len(site.views.create(ann, "CREATE VIEW nul AS SELECT issue FROM quotes WHERE issue = '\0'").rejected) == 1
