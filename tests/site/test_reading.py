"""Reading by cursor: every item once, in order, whatever is held, released or gathered meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.site import intake, life, reading
from tocsin.site.bell import Bell
from tocsin.site.problems import Invalid
from tocsin.site.reading import cursor_of, place_of


@given(st.integers(0, 2**63 - 1))
def test_a_cursor_names_its_place_and_fits_into_an_address(place):
    cursor = cursor_of(place)
    assert place_of(cursor) == place
    assert all(c.isalnum() or c in "-_" for c in cursor)


@given(st.one_of(st.text(), st.text("AB=-_+/ 09", max_size=16)))
def test_anything_else_is_refused(text):
    try:
        place = place_of(text)
    except Invalid:
        return
    assert cursor_of(place) == text


@pytest.mark.parametrize("limit", [0, -1, 1_001])
def test_a_page_has_its_limits(site, ann, limit):
    with pytest.raises(Invalid):
        reading.notifications(site, ann, None, limit)


def publish(site, ann, *ids: str) -> None:
    intake.publish(site, ann, [{"id": id, "text": "peer"} for id in ids])
    site.pipeline.catch_up()


def test_an_empty_page_keeps_the_place(site, ann):
    page = reading.notifications(site, ann)
    assert (page.items, place_of(page.next)) == ([], 0)
    life.create(site, ann, {"query": "peer"})
    publish(site, ann, "1")
    page = reading.notifications(site, ann, page.next)
    assert [item.notifications[0].document for item in page.items] == ["1"]
    assert reading.notifications(site, ann, page.next) == ([], page.next)
    assert reading.newest(site) == page.next
    shown = reading.as_json(page.items[0])
    assert list(shown) == ["cursor", "subscription", "document", "version", "score", "evidence"]


def test_digests_stand_among_the_others_in_one_order(site, ann):
    life.create(site, ann, {"query": "peer", "id": "now"})
    life.create(site, ann, {"query": "peer", "id": "later", "mode": "hourly"})
    publish(site, ann, "1", "2")
    assert site.make_digests(time.time() + 4_000) == 1
    publish(site, ann, "3")
    cursor, seen = None, []
    while (page := reading.notifications(site, ann, cursor, limit=1)).items:
        cursor = page.next
        seen += [(item.subscription, [one.document for one in item.notifications]) for item in page.items]
    assert seen == [("now", ["1"]), ("now", ["2"]), ("later", ["1", "2"]), ("now", ["3"])]
    life.edit(site, ann, "later", {"mode": "immediate"})
    page = reading.notifications(site, ann, cursor)
    assert [(item.subscription, item.notifications[0].document) for item in page.items] == [("later", "3")]
    publish(site, ann, "4")
    assert {item.subscription for item in reading.notifications(site, ann, page.next).items} == {"now", "later"}


def test_a_muted_digest_waits_for_both(site, ann):
    life.create(site, ann, {"query": "peer", "id": "s", "mode": "hourly"})
    life.mute(site, ann, "s", 4e9, "hold")
    publish(site, ann, "1")
    assert site.make_digests(time.time() + 4_000) == 0
    life.resume(site, ann, "s")
    assert reading.notifications(site, ann).items == []
    assert site.make_digests(time.time() + 4_000) == 1
    assert len(reading.notifications(site, ann).items) == 1


def test_whoever_follows_is_woken_by_what_is_new(site, ann):
    life.create(site, ann, {"query": "peer"})
    site.start()
    found: list[str] = []

    def follow() -> None:
        for item in reading.follow(site, ann, None, 30.0):
            found.append(item.notifications[0].document)
            if len(found) == 3:
                return

    thread = threading.Thread(target=follow)
    thread.start()
    for id in ("1", "2", "3"):
        intake.publish(site, ann, [{"id": id, "text": "peer"}])
        time.sleep(0.05)
    thread.join(60)
    assert found == ["1", "2", "3"]


def test_a_bell_wakes_coroutines_and_misses_no_ring():
    bell = Bell()

    async def wait() -> list[bool]:
        seen = bell.count
        threading.Timer(0.05, bell.ring).start()
        first = await bell.wait_async(seen, 20)
        second = await bell.wait_async(seen, 0)  # it has rung since
        third = await bell.wait_async(bell.count, 0.02)
        return [first, second, third]

    assert asyncio.run(wait()) == [True, True, False]
    assert bell.wait(0, 0)
    assert not bell.wait(bell.count, 0.01)
