"""Checkpoints are read before logs: a site that starts again reads few events, and shows what it showed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from sqlalchemy import func, select, update

from tests.site.test_views import HIGH, QUOTES, TOP, quiet, quote, shown
from tocsin.site import views as module
from tocsin.site.site import Site
from tocsin.store import relations
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder

MORE = """CREATE VIEW n AS SELECT issue, count(*) AS n, tick / 10 AS ten FROM quotes GROUP BY issue, tick / 10;
CREATE VIEW pairs AS SELECT a.tick AS t, b.tick AS u FROM quotes a JOIN quotes b ON a.price = b.price
    WHERE a.tick < b.tick;"""
ALL = QUOTES + HIGH + TOP + MORE


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ticks of the log that were read."""
    found: list[int] = []
    events = relations.Said.events

    def counted(said: Any, *given: Any) -> Any:
        for part in events(said, *given):
            found.extend(tick for tick, _ in part)
            yield part

    monkeypatch.setattr(relations.Said, "events", counted)
    monkeypatch.setattr(module, "CHECKPOINT_EVENTS", 20)
    monkeypatch.setattr(module, "BYTES_AN_EVENT", 1 << 40)
    return found


def quotes(first: int, last: int) -> list[bytes]:
    return [quote(tick, "abc"[tick % 3], tick * 37 % 11) for tick in range(first, last + 1)]


def recomputed(lines: list[bytes], name: str, sql: str = ALL) -> list[Any]:
    engine = Engine(compile_views(sql).plan)
    engine.step([Decoder(engine.plan.relations).line(line) for line in lines])
    return [change.json() for change in engine.state_of(name)]


def test_a_start_reads_the_checkpoint_and_then_only_the_rest_of_the_log(site, ann, read):
    site.views.create(ann, ALL)
    for first in range(1, 50, 8):
        quiet(site.views.publish(quotes(first, first + 7)))
    silent = b'{"relation": "quotes", "silent": [60, 64]}'
    quiet(site.views.publish([silent]))
    read.clear()
    again = Site(site.store).views
    lines = [*quotes(1, 56), silent]
    for name in ("high", "top", "n", "pairs"):
        assert shown(again, ann, name) == recomputed(lines, name), name
    assert read == list(range(49, 57)), "24 and 48 were checkpoints"
    assert again.described(ann, "quotes").size == 56
    quiet(again.publish(quotes(57, 59)))
    assert shown(again, ann, "n") == recomputed([*quotes(1, 59), silent], "n")


def test_what_the_log_has_is_still_compared_with_what_is_said_again(site, ann, read):
    site.views.create(ann, ALL)
    quiet(site.views.publish(quotes(1, 40)))
    again = Site(site.store).views
    quiet(again.publish(quotes(3, 5)))
    wrong = again.publish([quote(7, "z", 1), b'{"relation": "quotes", "silent": [9, 50]}', *quotes(41, 41)])
    assert ["another event is known" in str(wrong[0]), "holds an event" in str(wrong[1]), wrong[2]] == [
        True,
        True,
        None,
    ]
    assert read == []


def test_a_new_view_reads_the_log_from_its_beginning_and_the_others_do_not(site, ann, bob, read):
    site.views.create(ann, QUOTES + HIGH)
    quiet(site.views.publish(quotes(1, 30)))
    read.clear()
    site.views.create(ann, TOP + MORE)
    assert read == list(range(1, 31)), "once, for all that is new"
    quiet(site.views.publish(quotes(31, 33)))
    for name in ("high", "top", "n", "pairs"):
        assert shown(site.views, ann, name) == recomputed(quotes(1, 33), name), name
    site.views.create(bob, "CREATE VIEW own AS SELECT count(*) AS n FROM quotes;")
    assert shown(site.views, bob, "own")[0]["row"] == {"n": {"at_least": 33}}
    site.views.drop(ann, "pairs")
    read.clear()
    assert shown(Site(site.store).views, ann, "n") == recomputed(quotes(1, 33), "n")
    assert read == []


def test_a_relation_that_was_dropped_and_made_anew_knows_nothing(site, ann, read):
    site.views.create(ann, QUOTES)
    quiet(site.views.publish(quotes(1, 30)))
    site.views.drop(ann, "quotes")
    site.views.create(ann, QUOTES + HIGH)
    assert shown(site.views, ann, "high") == []
    quiet(site.views.publish(quotes(2, 4)))
    assert shown(Site(site.store).views, ann, "high") == recomputed(quotes(2, 4), "high")


@pytest.mark.parametrize("state", [b"", b"x\x9cK\x04\x00\x00b\x00b", b"[[]]"])
def test_a_damaged_checkpoint_is_passed_over(site, ann, read, state):
    site.views.create(ann, ALL)
    quiet(site.views.publish(quotes(1, 30)))
    with site.store.write() as transaction:
        transaction.execute(update(relations.checkpoints).values(state=state))
    read.clear()
    assert shown(Site(site.store).views, ann, "high") == recomputed(quotes(1, 30), "high")
    assert len(read) == 30


def test_stopping_takes_a_checkpoint_and_memory_does_not_hold_the_log(site, ann, read):
    site.views.create(ann, ALL)
    quiet(site.views.publish(quotes(1, 5)))
    site.views.stop()
    read.clear()
    again = Site(site.store).views
    assert shown(again, ann, "high") == recomputed(quotes(1, 5), "high")
    assert read == []
    quiet(again.publish(quotes(6, 60)))
    assert not again._sets[""].engine.histories["quotes"].events()
    with site.store.read() as transaction:
        assert transaction.execute(select(func.count()).select_from(relations.checkpoints)).scalar_one() > 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_starting_again_at_any_moment_shows_the_same(site, ann, bob, read, seed):
    chance, lines = random.Random(seed), list[bytes]()
    site.views.create(ann, QUOTES + HIGH)
    views, tick, made = site.views, 0, QUOTES + HIGH
    rest = [TOP, MORE]
    for _ in range(25):
        batch = []
        for _ in range(chance.randint(1, 9)):
            tick += chance.randint(1, 3)
            batch.append(quote(tick, chance.choice("abc"), chance.randint(0, 9)))
        if chance.random() < 0.2:
            batch.append(json.dumps({"relation": "quotes", "silent": [tick + 1, tick + 4]}).encode())
            tick += 4
        quiet(views.publish(batch))
        lines += batch
        if rest and chance.random() < 0.15:
            made += rest[0]
            views.create(ann, rest.pop(0))
        if chance.random() < 0.3:
            views = Site(site.store).views
        for name in compile_views(made).plan.views:
            assert shown(views, ann, name) == recomputed(lines, name, made)
