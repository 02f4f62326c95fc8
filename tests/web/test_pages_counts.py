"""Charts and previews count what is there: the quick ways agree with counting one by one, and with the oracle."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import date
from unittest import mock

import pytest

from tests.web.serving import Serving
from tocsin import Analysis, Document, Knowledge, holds, parse
from tocsin.site import accounts, intake, life
from tocsin.site.local import LocalPipeline
from tocsin.site.lookback import SAMPLE, look_back
from tocsin.site.site import Site
from tocsin.store import Store, glance, subscriptions
from tocsin.web.pages.charts import BARS_MAX, bars_of, bars_of_days, spark_of
from tocsin.web.pages.tally import DAY, HOUR, Series, Tally

WORDS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """A store of three days: (site, accepted times, (made, account, subscription number) of each match, now)."""
    store = Store(tmp_path_factory.mktemp("counted"))
    pipeline = LocalPipeline(store)
    site = Site(store, None, pipeline)
    chance, now = random.Random(3), time.time()
    start = now - 3 * DAY
    owners = [accounts.create(store, name, "publisher") for name in ("one", "two")]
    with mock.patch("time.time", return_value=start):
        for owner in owners:
            for word in WORDS:
                life.create(site, owner, {"id": word, "query": word}, with_contract=False)
    numbers = {(owner.name, word): life.get(site, owner, word).number for owner in owners for word in WORDS}
    accepted, made = [], []
    for n, moment in enumerate(sorted(start + chance.random() * 3 * DAY for _ in range(120))):
        said = chance.choice(WORDS)
        with mock.patch("time.time", return_value=moment):
            intake.publish(site, owners[0], [Document(f"d{n}", {"t": (said,)})])
            pipeline.catch_up()
        accepted.append(moment)
        made += [(moment, owner.name, numbers[owner.name, said]) for owner in owners]
    yield site, accepted, made, now
    store.close()


def buckets(moments, series: Series) -> tuple[int, ...]:
    counts = Counter(int((moment - series.start) // series.step) for moment in moments if moment > series.start)
    return tuple(counts.get(place, 0) for place in range(len(series.counts)))


@pytest.mark.parametrize(("step", "number"), [(HOUR, 24), (DAY, 14), (HOUR, 1), (DAY, 3), (HOUR, 72)])
def test_a_tally_counts_as_one_by_one(used, step, number):
    site, accepted, made, now = used
    tally = Tally(site.store, lambda: now)
    for _ in range(2):  # the second time from what is remembered
        came = tally.came_in(step, number)
        assert came.counts == buckets(accepted, came)
        one = tally.matched("one", step, number)
        assert one.counts == buckets([moment for moment, account, _ in made if account == "one"], one)
        numbers = sorted({number for _, account, number in made if account == "two"})
        for key, series in tally.matched_each(numbers, step, number).items():
            assert series.counts == buckets([moment for moment, _, number in made if number == key], series)
    assert tally.matched_each([], step, number) == {}
    assert tally.matched("nobody", step, number).total == 0


def test_a_tally_sees_what_came_since(used):
    site, _, made, now = used
    clock = [now]
    tally = Tally(site.store, lambda: clock[0])
    before = tally.matched("one", DAY, 14).total
    owner = accounts.find(site.store, "one")
    intake.publish(site, owner, [Document("later", {"t": ("red",)})])
    site.pipeline.catch_up()
    clock[0] = time.time() + 1
    assert tally.matched("one", DAY, 14).total == before + 1
    number = life.get(site, owner, "red").number
    assert tally.matched_each([number], DAY, 14)[number].total == sum(1 for one in made if one[2] == number) + 1


def test_a_tally_follows_what_arrives_and_what_was_held(used):
    """Looked at in between or not, the counts are those of a tally that has never looked before."""
    site, _, _, _ = used
    owner, chance = accounts.find(site.store, "two"), random.Random(5)
    numbers = [life.get(site, owner, word).number for word in WORDS]
    now = time.time()
    old = Tally(site.store, lambda: now)
    for n in range(12):
        if n == 3:
            life.mute(site, owner, "green", time.time() + HOUR, "hold")
        if n == 9:
            life.resume(site, owner, "green")  # what was held gets new cursors
        said = [Document(f"arriving{n}-{m}", {"t": (chance.choice(WORDS),)}) for m in range(chance.randrange(4))]
        intake.publish(site, owner, said)
        site.pipeline.catch_up()
        some = numbers if n % 4 else numbers[:2]  # not always the same ones
        new = Tally(site.store, lambda: now)
        assert old.matched("two", DAY, 2) == new.matched("two", DAY, 2)
        assert old.matched_each(some, DAY, 2) == new.matched_each(some, DAY, 2)


def test_the_newest_come_first_page_by_page(used):
    site, _, made, _ = used
    found, before = [], None
    while page := glance.newest(site.store, "two", before=before, limit=7):
        found += page
        before = page[-1].cursor
    assert [one.cursor for one in found] == sorted((one.cursor for one in found), reverse=True)
    assert len(found) >= sum(1 for one in made if one[1] == "two")
    assert {one.subscription for one in found} == set(WORDS)
    red = subscriptions.find(site.store, "two", "red")
    assert red is not None
    only = glance.newest(site.store, "two", subscription=red.number, limit=1_000)
    assert [one.cursor for one in only] == [one.cursor for one in found if one.subscription == "red"]


@pytest.mark.parametrize("query", ["red", "red OR blue", "NOT red", "red AND blue", 't:IN:(t = "green")'])
def test_looking_back_agrees_with_the_oracle(used, query):
    site, *_ = used
    owner = accounts.find(site.store, "one")
    parsed, path = site.reader(owner).parsed(site.reader(owner).asked(query, None, None))
    found = look_back(site.store, site.analysis, parsed, path)
    from tocsin.store import documents

    stored = [one for chunk in documents.read(site.store, 0, documents.last_position(site.store)) for one in chunk]
    contents = [one.document() for one in stored]
    knowledge = Knowledge(Analysis(), documents=contents) if ":IN:" in query else Knowledge(Analysis())
    expected = [one for one in stored if holds(parse(query), one.document(), knowledge)]
    assert found.total == len(expected)
    assert sum(count for _, count in found.per_day) == len(expected)
    newest = sorted(expected, key=lambda one: (one.moment, one.position), reverse=True)[:SAMPLE]
    assert [one.document for one in found.sample] == [one.id for one in newest]
    partial = look_back(site.store, site.analysis, parsed, path, documents_max=10)
    assert partial.is_partial
    assert partial.looked_at == 10


def test_days_of_a_preview_are_filled_up_and_gathered():
    assert bars_of_days([]) is None
    week = bars_of_days([("2026-11-01", 3), ("2026-11-10", 4)])
    assert week is not None
    assert [bar.count for bar in week.bars] == [3, 0, 0, 0, 0, 0, 0, 0, 0, 4]
    years = bars_of_days([(date(year, 5, 4).isoformat(), year) for year in range(1990, 2026)])
    assert years is not None
    assert len(years.bars) <= BARS_MAX
    assert sum(bar.count for bar in years.bars) == sum(range(1990, 2026))
    assert years.bars[0].label.startswith("1990-05-04 to ")
    first = bars_of_days([("0001-01-01", 1)])
    assert first is not None
    assert first.total == 1


def test_bars_and_sparks_stay_in_their_pictures():
    for counts in ((0,) * 14, (1,) * 14, tuple(range(14)), (5,)):
        series = Series(0.0, DAY, counts)
        chart, spark = bars_of(series), spark_of(series)
        assert all(0 <= bar.y <= bar.y + bar.height <= chart.height + 0.01 for bar in chart.bars)
        assert all(bar.x >= 0 and bar.x + bar.width <= chart.width + 0.01 for bar in chart.bars)
        for pair in spark.line.split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= spark.width
            assert 0 <= y <= spark.height
        assert chart.total == spark.total == sum(counts)


def test_the_overview_reads_little_however_much_is_stored(served: Serving):
    """The store is asked for what is new, not for everything: the number of statements does not grow."""
    from sqlalchemy import event

    from tests.web.browsing import Visitor

    visitor = Visitor(served, "publisher-busy")
    for n in range(5):
        visitor.post("/editor", query=f"busy{n}", do="save")
    statements = []
    engine = served.site.store.engine

    def count(_connection, _cursor, statement, *_):
        statements.append(statement)

    visitor.get("/")
    event.listen(engine, "before_cursor_execute", count)
    try:
        visitor.get("/")
    finally:
        event.remove(engine, "before_cursor_execute", count)
    own = [one for one in statements if "notifications" in one or "documents" in one]
    assert 0 < len(own) < 40
