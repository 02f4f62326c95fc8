"""What is told when a subscription is saved."""

from __future__ import annotations

import random

import pytest

from tocsin.site import intake, life
from tocsin.site.history import share_interval


def contract(site, account, query: str, **more: object):
    found = life.create(site, account, {"query": query, **more}).contract
    assert found is not None
    return found


def test_it_tells_how_it_was_read_and_what_it_costs(site, ann):
    found = contract(site, ann, "peer (grid OR -cloud)")
    assert found.parsed == "peer AND (grid OR NOT cloud)"
    assert found.cost == 3
    assert (found.never_fires, found.always_fires, found.notes) == (False, False, ())


@pytest.mark.parametrize(
    ("query", "expected", "note"),
    [
        ("peer AND NOT peer", (True, False), "contradicts itself"),
        ("peer OR NOT peer", (False, True), "every document"),
        ("NOT peer", (False, False), "evaluated on every document"),
        ("year >= 2004", (False, False), "evaluated on every document"),
    ],
)
def test_it_says_when_a_query_never_or_always_holds(site, ann, query, expected, note):
    found = contract(site, ann, query)
    assert (found.never_fires, found.always_fires) == expected
    assert any(note in one for one in found.notes)


def test_it_foretells_hits_from_history_with_an_interval(site, ann):
    bodies = [{"id": str(n), "text": "peer" if n % 4 == 0 else "grid"} for n in range(200)]
    intake.publish(site, ann, bodies)
    found = contract(site, ann, "peer").forecast
    assert found is not None
    assert (found.hits, found.looked_at) == (50, 200)
    assert found.per_day == pytest.approx(found.documents_per_day / 4)
    assert found.low < found.per_day < found.high
    nothing = contract(site, ann, "cloud")
    assert nothing.forecast is not None
    assert nothing.forecast.high > 0
    assert any("none of 200 documents" in note for note in nothing.notes)


def test_the_interval_holds_nineteen_times_out_of_twenty():
    chance = random.Random(3)
    held = 0
    for _ in range(2_000):
        share, looked_at = chance.uniform(0.01, 0.5), chance.choice([50, 200, 1_000])
        low, high = share_interval(sum(chance.random() < share for _ in range(looked_at)), looked_at)
        held += low <= share <= high
    assert held >= 0.93 * 2_000
    assert share_interval(0, 0) == (0.0, 1.0)


def test_it_names_duplicates_and_what_covers_what_among_the_accounts_own(site, ann, bob):
    contract(site, ann, "peer", id="wide")
    contract(site, ann, "peer grid cloud", id="narrow")
    contract(site, bob, "grid peer", id="others")
    found = contract(site, ann, "grid peer", id="middle")
    assert (found.duplicate_of, found.covered_by, found.covers) == (None, ("wide",), ("narrow",))
    assert found.compared_with == 2
    assert contract(site, ann, "peer AND grid").duplicate_of == "middle"
    path = life.create(site, ann, {"xpath": "/a/b", "id": "path"}).contract
    assert path is not None
    assert (path.duplicate_of, path.xpath) == (None, "/a/b")
    both = life.create(site, ann, {"xpath": "/a/b", "query": "peer", "id": "both"}).contract
    assert both is not None
    assert both.covered_by == ("path",)
    again = life.create(site, ann, {"xpath": "/a/b"}).contract
    assert again is not None
    assert (again.duplicate_of, again.covers) == ("path", ("both",))


def test_an_edit_is_not_compared_with_itself(site, ann):
    contract(site, ann, "peer", id="s")
    found = life.edit(site, ann, "s", {"query": "peer grid"}).contract
    assert found is not None
    assert (found.covered_by, found.duplicate_of) == ((), None)
