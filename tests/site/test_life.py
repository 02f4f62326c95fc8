"""The life of subscriptions: made, changed, muted, ended, always by their own account."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tocsin.site import accounts, intake, life, reading
from tocsin.site.accounts import Account
from tocsin.site.life import Made
from tocsin.site.problems import Conflict, Invalid, NotFound, OverQuota, Problem
from tocsin.site.site import Site

FAR = 4e9


def told(site, account) -> list[str]:
    """What the account can read, as subscription/document."""
    site.pipeline.catch_up()
    found = reading.notifications(site, account, limit=1_000).items
    return [f"{item.subscription}/{one.document}" for item in found for one in item.notifications]


def publish(site, account, *ids: str, text: str = "peer") -> None:
    assert intake.publish(site, account, [{"id": id, "text": text} for id in ids]).accepted == len(ids)


# --- what is refused -------------------------------------------------------------------------------------------------

BAD = [
    ([], None),
    ("peer", None),
    ({}, "query"),
    ({"query": None}, "query"),
    ({"query": 7}, "query"),
    ({"query": "peer", "querry": "x"}, "querry"),
    ({"query": "peer", "id": ""}, "id"),
    ({"query": "peer", "id": "a\nb"}, "id"),
    ({"query": "peer", "id": "x" * 201}, "id"),
    ({"query": "peer", "id": 7}, "id"),
    ({"query": "pe\x00er"}, "query"),
    ({"query": "\ud800"}, "query"),
    ({"query": "peer", "name": []}, "name"),
    ({"query": "peer", "tags": "a"}, "tags"),
    ({"query": "peer", "tags": [1]}, "tags"),
    ({"query": "peer", "tags": [""]}, "tags"),
    ({"query": "peer", "tags": [str(n) for n in range(101)]}, "tags"),
    ({"query": "peer", "namespaces": {"a": "b"}}, "namespaces"),
    ({"xpath": "/a", "namespaces": ["a"]}, "namespaces"),
    ({"xpath": "/a", "namespaces": {"a": None}}, "namespaces"),
    ({"query": "peer", "channel": "mail"}, "channel"),
    ({"query": "peer", "channel": {"kind": "mail"}}, "channel"),
    ({"query": "peer", "channel": {"kind": "webhook"}}, "channel"),
    ({"query": "peer", "channel": {"url": "https://example.org/", "x": 1}}, "channel"),
    ({"query": "peer", "channel": {"url": "https://127.0.0.1/"}}, "channel"),
    ({"query": "peer", "channel": {"url": "https://example.org/", "secret": "whsec_no"}}, "channel"),
    ({"query": "peer", "mode": "weekly"}, "mode"),
    ({"query": "peer", "mode": {"every": "day", "at": "25:00"}}, "mode"),
    ({"query": "peer", "mode": {"every": "day", "zone": "Mars/Olympus"}}, "mode"),
    ({"query": "peer", "mode": {"every": "day", "zone": "../../etc/passwd"}}, "mode"),
    ({"query": "peer", "mode": {"every": "day", "when": 1}}, "mode"),
    ({"query": "peer", "expires": "tomorrow"}, "expires"),
    ({"query": "peer", "expires": "2001-01-01"}, "expires"),
    ({"query": "peer", "expires": True}, "expires"),
]


@pytest.mark.parametrize(("body", "field"), BAD, ids=lambda value: str(value)[:60].encode("ascii", "replace").decode())
def test_a_body_that_is_wrong_is_refused_by_its_field(site, ann, body, field):
    with pytest.raises(Invalid) as caught:
        life.create(site, ann, body)
    assert caught.value.field == field
    assert life.listed(site, ann) == []


def test_a_query_that_is_wrong_is_refused_by_its_position(site, ann):
    with pytest.raises(Invalid) as caught:
        life.create(site, ann, {"query": "peer AND (grid"})
    assert caught.value.as_json()["code"] == "query_syntax"
    assert caught.value.position == 9
    with pytest.raises(Invalid) as caught:
        life.create(site, ann, {"xpath": "/a/following::b"})
    assert (caught.value.field, caught.value.kind) == ("xpath", "unsupported_xpath")


def test_quotas_bind_accounts_but_not_the_administrator(site):
    eve = accounts.create(site.store, "eve", "subscriber", {"subscriptions_max": 2, "query_cost_max": 3})
    root = accounts.create(site.store, "root", "admin", {"subscriptions_max": 0, "query_cost_max": 1})
    with pytest.raises(Invalid, match="checks per document"):
        life.create(site, eve, {"query": "a b c d"})
    assert [type(one) for one in life.create_many(site, eve, [{"query": "a"}] * 3)] == [Made, Made, OverQuota]
    with pytest.raises(OverQuota):
        life.create(site, eve, {"query": "b"})
    life.delete(site, eve, life.listed(site, eve)[0].id)
    life.create(site, eve, {"query": "c"})
    life.create(site, root, {"query": "a b c d"})


# --- making many -----------------------------------------------------------------------------------------------------


def test_a_bulk_call_reports_each_line_and_keeps_the_good_ones(site, ann):
    bodies = [
        {"query": "peer", "id": "one"},
        {"query": "(", "id": "two"},
        Invalid("no JSON"),
        {"query": "grid", "id": "one"},
        {"query": '"a phrase" AND NOT grid', "id": "three"},
        {"query": "x", "channel": "https://example.org/h"},
    ]
    results = life.create_many(site, ann, bodies)
    assert [isinstance(one, Made) for one in results] == [True, False, False, False, True, True]
    assert isinstance(results[1], Problem)
    assert results[1].position == 1
    assert isinstance(results[3], Conflict)
    assert isinstance(results[5], Made)
    assert results[5].secret is not None
    assert {"one", "three"} < {kept.id for kept in life.listed(site, ann)}


def test_plain_queries_go_the_quick_way_and_are_what_the_parser_accepts(site, ann):
    from hypothesis import given
    from hypothesis import strategies as st

    from tocsin.errors import QueryError
    from tocsin.query.standing import parse_subscription
    from tocsin.site.wishes import Reader
    from tocsin.store.subscriptions import Asked

    reader = site.reader(ann)

    @given(st.text(st.sampled_from('ab1 ANDORTE-:"('), max_size=12))
    def check(text: str) -> None:
        if Reader._is_quick(reader, Asked(text)):
            try:
                parse_subscription(text)
            except QueryError as error:
                raise AssertionError(text) from error

    check()


def test_the_same_idempotency_key_makes_nothing_twice(site, ann, bob):
    first = life.create(site, ann, {"query": "peer", "channel": "https://example.org/h"}, key="k")
    again = life.create(site, ann, {"query": "peer", "channel": "https://example.org/h"}, key="k")
    assert (again.kept.id, again.secret) == (first.kept.id, first.secret)
    assert life.create(site, bob, {"query": "peer"}, key="k").kept.id != first.kept.id
    bodies = [{"query": "a"}, {"query": "("}, {"query": "b", "id": "mine"}]
    many = [life.create_many(site, ann, bodies, key="many") for _ in range(2)]
    assert [getattr(one, "id", None) for one in many[0]] == [getattr(one, "id", None) for one in many[1]]
    assert len(life.listed(site, ann)) == 3
    assert isinstance(life.create_many(site, ann, bodies, key="other")[2], Conflict)


# --- isolation -------------------------------------------------------------------------------------------------------


ACTIONS: list[Callable[[Site, Account], object]] = [
    lambda site, other: life.get(site, other, "s"),
    lambda site, other: life.edit(site, other, "s", {"query": "x"}),
    lambda site, other: life.pause(site, other, "s"),
    lambda site, other: life.resume(site, other, "s"),
    lambda site, other: life.mute(site, other, "s", FAR, "drop"),
    lambda site, other: life.expire(site, other, "s", FAR),
    lambda site, other: life.tags(site, other, "s", ["mine"]),
    lambda site, other: life.delete(site, other, "s"),
]


def test_somebody_elses_subscription_is_simply_not_found(site, ann, bob):
    life.create(site, ann, {"query": "peer", "id": "s", "channel": "https://example.org/h"})
    root = accounts.create(site.store, "root", "admin")
    for other in (bob, root):
        for action in ACTIONS:
            with pytest.raises(NotFound):
                action(site, other)
        assert life.listed(site, other) == []
        assert list(life.export(site, other)) == []
        life.create(site, other, {"query": "grid", "id": "s"})
    publish(site, ann, "1")
    publish(site, ann, "2", text="grid")
    assert told(site, ann) == ["s/1"]
    assert told(site, bob) == ["s/2"]
    contract = life.create(site, bob, {"query": "peer"}).contract
    assert contract is not None
    assert contract.duplicate_of is None, "what others ask for is not told"


# --- changing --------------------------------------------------------------------------------------------------------


def test_a_change_holds_for_the_documents_that_are_accepted_after_it(site, ann):
    publish(site, ann, "before")
    life.create(site, ann, {"query": "peer", "id": "s"})
    publish(site, ann, "1")
    life.pause(site, ann, "s")
    publish(site, ann, "2")
    life.resume(site, ann, "s")
    publish(site, ann, "3")
    life.edit(site, ann, "s", {"query": "grid"})
    publish(site, ann, "4")
    publish(site, ann, "5", text="grid")
    life.delete(site, ann, "s")
    publish(site, ann, "6", text="grid")
    assert told(site, ann) == ["s/1", "s/3", "s/5"]
    with pytest.raises(NotFound):
        life.get(site, ann, "s")


def test_what_arrives_while_muted_is_dropped_or_held_as_was_chosen(site, ann):
    for how in ("drop", "hold"):
        life.create(site, ann, {"query": "peer", "id": how})
        life.mute(site, ann, how, FAR, how)
    life.create(site, ann, {"query": "peer", "id": "other"})
    publish(site, ann, "1", "2")
    assert told(site, ann) == ["other/1", "other/2"]
    place = reading.notifications(site, ann).next
    for how in ("drop", "hold"):
        life.resume(site, ann, how)
    publish(site, ann, "3")
    site.pipeline.catch_up()
    found = reading.notifications(site, ann, place).items
    new = [f"{item.subscription}/{item.notifications[0].document}" for item in found]
    assert new[:2] == ["hold/1", "hold/2"]
    assert sorted(new[2:]) == ["drop/3", "hold/3", "other/3"]


def test_a_mute_must_say_what_becomes_of_what_arrives(site, ann):
    life.create(site, ann, {"query": "peer", "id": "s"})
    for mute in (
        {"until": FAR},
        {"until": FAR, "arriving": "maybe"},
        {"arriving": "drop"},
        {"until": 1, "arriving": "drop"},
    ):
        with pytest.raises(Invalid) as caught:
            life.edit(site, ann, "s", {"mute": mute})
        assert caught.value.field == "mute"
    life.pause(site, ann, "s")
    with pytest.raises(Conflict):
        life.mute(site, ann, "s", FAR, "hold")


def test_mutes_and_lives_end_by_themselves_before_the_next_document(site, ann):
    life.create(site, ann, {"query": "peer", "id": "muted"})
    life.create(site, ann, {"query": "peer", "id": "mortal", "expires": time.time() + 0.25})
    life.mute(site, ann, "muted", time.time() + 0.25, "hold")
    publish(site, ann, "1")
    assert told(site, ann) == ["mortal/1"]
    time.sleep(0.3)
    publish(site, ann, "2")
    assert told(site, ann) == ["mortal/1", "muted/1", "muted/2"]
    assert life.get(site, ann, "muted").state == "active"
    assert life.get(site, ann, "mortal").state == "expired"
    with pytest.raises(Conflict, match="expired"):
        life.resume(site, ann, "mortal")
    life.edit(site, ann, "mortal", {"expires": None, "state": "active"})
    publish(site, ann, "3")
    assert sorted(told(site, ann)[-2:]) == ["mortal/3", "muted/3"]


def test_the_clock_of_a_running_site_ends_mutes(site, ann):
    site.start()
    life.create(site, ann, {"query": "peer", "id": "s"})
    life.mute(site, ann, "s", time.time() + 0.3, "drop")
    for _ in range(200):
        if life.get(site, ann, "s").state == "active":
            break
        time.sleep(0.05)
    assert life.get(site, ann, "s").state == "active"


def test_a_change_names_what_cannot_be_changed(site, ann):
    life.create(site, ann, {"query": "peer", "id": "s"})
    for change, field in (
        ({"id": "t"}, "id"),
        ({"x": 1}, "x"),
        ({"state": "deleted"}, "state"),
        ({"query": None}, "query"),
    ):
        with pytest.raises(Invalid) as caught:
            life.edit(site, ann, "s", change)
        assert caught.value.field == field
    with pytest.raises(Conflict):
        life.edit(site, ann, "s", {"name": "x"}, revision=9)
    assert life.edit(site, ann, "s", {"name": "x", "tags": ["b", "a", "b"]}, revision=1).kept.about == {
        "name": "x",
        "tags": ["b", "a"],
    }
    assert life.edit(site, ann, "s", {"name": None, "tags": []}).kept.about == {}
    assert [kept.id for kept in life.listed(site, ann, tag="a")] == []


def test_a_new_address_gets_a_new_secret(site, ann):
    first = life.create(site, ann, {"query": "peer", "id": "s", "channel": "https://example.org/a"})
    same = life.edit(site, ann, "s", {"channel": {"kind": "webhook", "url": "https://example.org/a"}})
    other = life.edit(site, ann, "s", {"channel": "https://example.org/b"})
    assert first.secret == same.secret != other.secret
    assert life.edit(site, ann, "s", {"channel": "inbox"}).secret is None


# --- out and in ------------------------------------------------------------------------------------------------------


def test_what_was_exported_can_be_imported_elsewhere(site, ann, bob):
    bodies = [
        {"query": "peer OR grid", "id": "a", "name": "A", "tags": ["x"]},
        {
            "xpath": "/n:a[b]",
            "namespaces": {"n": "urn:n"},
            "id": "b",
            "mode": {"every": "day", "at": "08:00", "zone": "Europe/Athens"},
        },
        {
            "query": "x",
            "id": "c",
            "channel": {"kind": "webhook", "url": "https://example.org/h"},
            "expires": "2999-01-01",
        },
    ]
    assert all(isinstance(one, Made) for one in life.create_many(site, ann, bodies))
    life.pause(site, ann, "a")
    exported = list(life.export(site, ann))
    assert all(isinstance(one, Made) for one in life.restore(site, bob, exported))
    assert list(life.export(site, bob)) == exported
    assert life.get(site, bob, "a").state == "paused"
