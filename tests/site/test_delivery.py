"""Webhooks against a real server: everything arrives, in order, signed, with ids that stay."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from tests.site.receiver import receiving, wait_for
from tocsin.site import accounts, intake, life, reading
from tocsin.site.channels import saved
from tocsin.site.delivery import undelivered
from tocsin.site.delivery.caller import Caller
from tocsin.site.delivery.retries import asked_to_wait, wait_seconds
from tocsin.site.delivery.signature import verify
from tocsin.site.local import LocalPipeline
from tocsin.site.problems import NotFound
from tocsin.site.settings import DeliverySettings, SiteSettings
from tocsin.site.site import Site
from tocsin.store import Store, inbox, webhooks

QUICK = DeliverySettings(
    delivery_allows_private=True,
    delivery_first_wait_seconds=0.02,
    delivery_longest_wait_seconds=0.2,
    delivery_timeout_seconds=2.0,
    delivery_attempts_max=6,
)


def open_site(place, delivery: DeliverySettings = QUICK) -> Site:
    store = Store(place)
    site = Site(store, SiteSettings(delivery=delivery))
    site.pipeline = LocalPipeline(store, noticed=site.noticed)
    return site


def close(site: Site) -> None:
    site.stop()
    site.store.close()


@pytest.fixture
def running(tmp_path):
    site = open_site(tmp_path / "store")
    accounts.create(site.store, "ann", "publisher")
    site.start()
    yield site
    close(site)


def subscribe(site: Site, id: str, url: str, **more: object) -> str:
    ann = accounts.find(site.store, "ann")
    made = life.create(site, ann, {"query": "peer", "id": id, "channel": url, **more}, with_contract=False)
    assert made.secret is not None
    return made.secret


def publish(site: Site, *ids: str) -> None:
    ann = accounts.find(site.store, "ann")
    assert intake.publish(site, ann, [{"id": id, "text": "peer"} for id in ids]).accepted == len(ids)


IDS = [f"d{number:03}" for number in range(60)]


def test_what_is_sent_is_signed_and_whole(running):
    with receiving() as received:
        secret = subscribe(running, "s", f"{received.url}/hook")
        publish(running, "1")
        wait_for(lambda: len(received.taken) == 1)
        _, headers, body = received.taken[0]
        assert verify(secret, headers, received.raw[0], time.time()) == headers["webhook-id"]
        assert headers["content-type"] == "application/json"
        assert body["type"] == "match"
        ann = accounts.find(running.store, "ann")
        assert body["data"] == reading.as_json(reading.notifications(running, ann).items[0])


def test_everything_arrives_in_order_though_some_calls_fail(running):
    """5 % of calls fail, some are slow; none is lost, and each subscription's order is kept."""

    def reply(path: str, attempt: int, number: int) -> tuple[int, float, dict[str, str]]:
        if number % 20 == 7:
            return 500, 0.0, {}
        return 200, 0.05 if number % 31 == 3 else 0.0, {}

    with receiving(reply) as received:
        for number in range(4):
            subscribe(running, f"s{number}", f"{received.url}/{number}")
        for id in IDS:
            publish(running, id)
        wait_for(lambda: all(len(received.documents(f"/{number}")) == len(IDS) for number in range(4)))
        assert all(received.documents(f"/{number}") == IDS for number in range(4))
        assert running.dispatcher.failed > 0


def test_one_that_fails_holds_up_nobody_else_and_is_given_up_in_the_end(running):
    broken = True

    def reply(path: str, attempt: int, number: int) -> tuple[int, float, dict[str, str]]:
        return (500 if path == "/broken" and broken else 200), 0.0, {}

    with receiving(reply) as received:
        subscribe(running, "broken", f"{received.url}/broken")
        subscribe(running, "works", f"{received.url}/works")
        publish(running, "1", "2")
        ann = accounts.find(running.store, "ann")
        wait_for(lambda: received.documents("/works") == ["1", "2"])
        wait_for(lambda: len(undelivered.listed(running, ann)) == 2)
        dead = undelivered.listed(running, ann)
        assert [(one.subscription, one.attempts, one.problem) for one in dead] == [("broken", 6, "answered 500")] * 2
        assert received.documents("/broken") == []
        bob = accounts.create(running.store, "bob", "subscriber")
        assert undelivered.listed(running, bob) == []
        assert undelivered.send_again(running, bob) == 0
        with pytest.raises(NotFound):
            undelivered.drop(running, bob, dead[0].number)
        tried = set(received.attempts)
        broken = False
        assert undelivered.send_again(running, ann) == 2
        wait_for(lambda: not undelivered.listed(running, ann))
        assert received.documents("/broken") == ["1", "2"]
        assert set(received.ids()) <= tried, "a repeated send keeps its id"


def test_later_items_wait_for_the_one_that_fails(running):
    def reply(path: str, attempt: int, number: int) -> tuple[int, float, dict[str, str]]:
        return (503 if attempt < 4 else 200), 0.0, {}

    with receiving(reply) as received:
        subscribe(running, "s", f"{received.url}/hook")
        publish(running, "1", "2", "3")
        wait_for(lambda: len(received.taken) == 3)
        assert received.documents() == ["1", "2", "3"]
        first = list(dict.fromkeys(received.attempts))
        assert received.attempts == [id for id in first for _ in range(4)]


@pytest.mark.parametrize("revived", ["set anew", "tested"])
def test_a_webhook_that_is_gone_is_left_alone_until_it_is_wanted_again(tmp_path, revived):
    """Standard Webhooks: 410 means no more calls. What it should have been told waits, through a restart, too."""
    gone = True

    def reply(path: str, attempt: int, number: int) -> tuple[int, float, dict[str, str]]:
        return (410 if gone else 200), 0.0, {}

    with receiving(reply) as received:
        site = open_site(tmp_path / "store")
        accounts.create(site.store, "ann", "publisher")
        site.start()
        ann = accounts.find(site.store, "ann")
        subscribe(site, "s", f"{received.url}/hook")
        number = life.get(site, ann, "s").number
        publish(site, "1", "2")
        wait_for(lambda: (hook := webhooks.hook(site.store, number)) is not None and hook.next_try == webhooks.GONE)
        close(site)
        site = open_site(tmp_path / "store")
        site.start()
        publish(site, "3")
        wait_for(lambda: len(reading.notifications(site, ann).items) == 3)
        time.sleep(0.5)
        assert len(received.attempts) == 1
        hook = webhooks.hook(site.store, number)
        assert hook is not None
        assert "410" in str(hook.problem)
        assert undelivered.listed(site, ann) == []
        gone = False
        if revived == "tested":
            assert saved.test_subscription(site, ann, "s").is_taken
        else:
            life.edit(site, ann, "s", {"channel": f"{received.url}/hook"})
        wait_for(lambda: [one for one in received.documents() if one != "digest"] == ["1", "2", "3"])
        hook = webhooks.hook(site.store, number)
        assert hook is not None
        assert hook.next_try is None
        close(site)


def test_one_connection_at_a_time_is_enough(tmp_path):
    """Nothing is sent twice because a connection could not be kept."""
    site = open_site(tmp_path / "store", replace(QUICK, delivery_connections_max=1))
    accounts.create(site.store, "ann", "publisher")
    site.start()
    with receiving() as received, receiving() as other:
        subscribe(site, "s", f"{received.url}/hook")
        subscribe(site, "t", f"{other.url}/hook")
        publish(site, *IDS[:5])
        wait_for(lambda: received.documents() == other.documents() == IDS[:5])
        assert len(received.attempts) == len(other.attempts) == 5
    close(site)


def test_what_waits_is_read_at_once_for_many_or_by_itself(running):
    """All in one look; more than may be read at once makes each be asked for by itself."""
    with receiving(lambda path, attempt, number: (503, 0.0, {})) as received:
        for id in ("s", "t"):
            subscribe(running, id, f"{received.url}/{id}")
        running.dispatcher.stop()
        publish(running, *IDS[:3])
        ann = accounts.find(running.store, "ann")
        wait_for(lambda: len(reading.notifications(running, ann).items) == 6)
        numbers = [life.get(running, ann, id).number for id in ("s", "t")]
        found = webhooks.due(running.store, [*numbers, 999], 100)
        assert sorted(found) == numbers
        for number, (hook, items) in found.items():
            assert hook == webhooks.hook(running.store, number)
            assert items == inbox.items(running.store, subscription=number, after=hook.cursor)
            assert [one.notifications[0].document for one in items or ()] == IDS[:3]
        assert [items for _, items in webhooks.due(running.store, numbers, 5).values()] == [None, None]
        second = inbox.items(running.store, subscription=numbers[0])[1]
        webhooks.note(running.store, delivered={numbers[0]: second.cursor})
        left = webhooks.due(running.store, numbers, 100)
        assert [[one.notifications[0].document for one in items or ()] for _, items in left.values()] == [
            ["d002"],
            IDS[:3],
        ]


def test_redirects_are_not_followed(running):
    with receiving() as inside:

        def reply(path: str, attempt: int, number: int) -> tuple[int, float, dict[str, str]]:
            return 307, 0.0, {"Location": f"{inside.url}/hook"}

        with receiving(reply) as received:
            subscribe(running, "s", f"{received.url}/hook")
            publish(running, "1")
            ann = accounts.find(running.store, "ann")
            wait_for(lambda: len(undelivered.listed(running, ann)) == 1)
            assert "redirects are not followed" in undelivered.listed(running, ann)[0].problem
        assert inside.attempts == []


def test_a_receiver_that_never_answers_is_given_up(tmp_path):
    site = open_site(tmp_path / "store", replace(QUICK, delivery_timeout_seconds=0.2, delivery_attempts_max=2))
    ann = accounts.create(site.store, "ann", "publisher")
    site.start()
    with receiving(lambda path, attempt, number: (200, 1.0, {})) as received:
        subscribe(site, "s", f"{received.url}/hook")
        publish(site, "1")
        wait_for(lambda: len(undelivered.listed(site, ann)) == 1)
        assert "no answer within 0.2 seconds" in undelivered.listed(site, ann)[0].problem
    close(site)


def test_a_webhook_that_is_not_there_is_tried_again_until_it_is(running):
    with receiving() as received:
        pass  # the port is free again
    secret = subscribe(running, "s", f"{received.url}/hook")
    publish(running, "1")
    kept = life.get(running, accounts.find(running.store, "ann"), "s")
    wait_for(lambda: (hook := webhooks.hook(running.store, kept.number)) is not None and hook.attempts > 0)
    assert secret not in repr(webhooks.hook(running.store, kept.number))


def test_whoever_was_away_gets_everything_once_in_order_elsewhere(tmp_path):
    """P2P-DIET §3: off-line, the address changes meanwhile, notifications wait and are delivered on return."""
    site = open_site(tmp_path / "store", replace(QUICK, delivery_attempts_max=1_000_000))
    ann = accounts.create(site.store, "ann", "publisher")
    site.start()
    with receiving() as first:
        subscribe(site, "s", f"{first.url}/hook")
        publish(site, *IDS[:10])
        wait_for(lambda: len(first.taken) == 10)
    for id in IDS[10:30]:  # nobody is there
        publish(site, id)
    close(site)  # and the site restarts meanwhile
    site = open_site(tmp_path / "store", replace(QUICK, delivery_attempts_max=1_000_000))
    site.start()
    publish(site, *IDS[30:])
    with receiving() as second:
        life.edit(site, ann, "s", {"channel": f"{second.url}/hook"})
        wait_for(lambda: len(second.documents()) == len(IDS) - 10)
        assert first.documents() + second.documents() == IDS
        assert len(second.taken) == len(IDS) - 10, "each once"
    cursor, polled = None, []
    while (page := reading.notifications(site, ann, cursor, limit=7)).items:
        polled += [item.notifications[0].document for item in page.items]
        cursor = page.next
    assert polled == IDS
    close(site)


def test_a_site_that_stops_in_the_middle_sends_the_rest_after_the_next_start(tmp_path):
    with receiving(lambda path, attempt, number: (200, 0.01, {})) as received:
        for start in range(0, len(IDS), 20):
            site = open_site(tmp_path / "store")
            if not start:
                accounts.create(site.store, "ann", "publisher")
                subscribe(site, "s", f"{received.url}/hook")
            site.start()
            publish(site, *IDS[start : start + 20])
            wait_for(lambda start=start: len(received.documents()) > start + 5)  # type: ignore[misc]
            close(site)
        site = open_site(tmp_path / "store")
        site.start()
        wait_for(lambda: len(received.documents()) == len(IDS))
        assert received.documents() == IDS
        assert len(received.taken) == len(IDS), "a site that stops gently sends nothing twice"
        close(site)


def test_a_muted_webhook_is_silent_until_it_is_told_again(running):
    with receiving() as received:
        subscribe(running, "s", f"{received.url}/hook")
        subscribe(running, "other", f"{received.url}/other")
        ann = accounts.find(running.store, "ann")
        life.mute(running, ann, "s", 4e9, "hold")
        publish(running, "1", "2")
        wait_for(lambda: received.documents("/other") == ["1", "2"])
        assert received.documents() == []
        life.resume(running, ann, "s")
        wait_for(lambda: received.documents() == ["1", "2"])


def test_a_deleted_subscription_is_not_called_any_more(running):
    with receiving(lambda path, attempt, number: (500, 0.0, {})) as received:
        subscribe(running, "s", f"{received.url}/hook")
        publish(running, "1")
        wait_for(lambda: len(received.attempts) >= 1)
        life.delete(running, accounts.find(running.store, "ann"), "s")
        time.sleep(0.5)
        count = len(received.attempts)
        time.sleep(0.5)
        assert len(received.attempts) == count


def test_a_digest_is_one_call(running):
    with receiving() as received:
        subscribe(running, "s", f"{received.url}/hook", mode="hourly")
        publish(running, "1", "2", "3")
        wait_for(lambda: running.progress().lag == 0)
        assert received.taken == []
        assert running.make_digests(time.time() + 3_700) == 1
        wait_for(lambda: len(received.taken) == 1)
        _, _, body = received.taken[0]
        assert body["type"] == "digest"
        assert [one["document"] for one in body["data"]["digest"]] == ["1", "2", "3"]
        ann = accounts.find(running.store, "ann")
        items = reading.notifications(running, ann).items
        assert [len(item.notifications) for item in items] == [3]
        assert running.make_digests(time.time() + 7_300) == 0, "nothing new, no digest"


# --- waits -----------------------------------------------------------------------------------------------------------


def test_waits_double_up_to_the_longest_and_are_partly_left_to_chance():
    settings = DeliverySettings(delivery_jitter_share=0.5)
    longest = [wait_seconds(failed, settings, lambda: 0.0) for failed in (1, 2, 3, 12, 13, 500)]
    assert longest == [1.0, 2.0, 4.0, 2_048.0, 3_600.0, 3_600.0]
    assert wait_seconds(3, settings, lambda: 1.0) == 2.0
    assert asked_to_wait(429, "120", settings) == 120
    assert asked_to_wait(503, "99999999999", settings) == 3_600
    for status, said in ((200, "5"), (500, "5"), (429, None), (429, "soon"), (429, "-5"), (429, "²")):
        assert asked_to_wait(status, said, settings) == 0


def test_a_name_that_leads_inside_is_not_called_even_if_it_did_not_when_it_was_saved():
    """Rebinding: the address is looked at where the connection is made."""
    with receiving() as received:
        port = int(received.url.rpartition(":")[2])
        answers = [["93.184.216.34"], ["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], []]

        async def ask(host: str, port: int) -> list[str]:
            return answers.pop(0)

        async def call() -> list[str]:
            settings = DeliverySettings(delivery_timeout_seconds=0.3)
            caller = Caller(settings, ask)
            found = [str(await caller.call(f"http://hook.example.org:{port}/", {}, b"{}")) for _ in range(4)]
            await caller.close()
            return found

        first, second, third, fourth = asyncio.run(call())
        assert "open network" not in first
        assert "127.0.0.1, which is not in the open network" in second
        assert "127.0.0.1, which is not in the open network" in third
        assert "no address" in fourth
        assert received.attempts == []
