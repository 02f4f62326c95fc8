"""Delivery when something fails at a bad moment: a note, an address that is changed meanwhile, another's place."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.site.receiver import receiving, wait_for
from tests.site.test_delivery import QUICK, close, open_site, publish, subscribe
from tocsin.site import accounts, life
from tocsin.site.delivery import undelivered
from tocsin.site.delivery.again import send_again
from tocsin.site.delivery.caller import Answer
from tocsin.site.local import LocalPipeline
from tocsin.store import Store, inbox, webhooks
from tocsin.store.inbox import Item
from tocsin.store.webhooks import Attempt, GivenUp, Hook

ONCE = replace(QUICK, delivery_attempts_max=1)
SLOW = replace(QUICK, delivery_first_wait_seconds=3_600.0, delivery_longest_wait_seconds=3_600.0)
PATIENT = replace(QUICK, delivery_timeout_seconds=60.0)


def hook_of(store: Store, number: int) -> Hook:
    found = webhooks.hook(store, number)
    assert found is not None
    return found


def test_what_is_given_up_is_among_the_undelivered_though_its_note_fails_once(tmp_path, monkeypatch):
    """The webhook moves past the item with the next note: that one must tell of it, too."""
    site = open_site(tmp_path / "store", ONCE)
    ann = accounts.create(site.store, "ann", "publisher")
    written, failures = webhooks.note, 0

    def note(store: Store, **what: Any) -> None:
        nonlocal failures
        if what["given_up"] and not failures:
            failures += 1
            raise OSError("the disk is full")
        written(store, **what)

    monkeypatch.setattr(webhooks, "note", note)
    with receiving(lambda path, attempt, number: (500, 0.0, {})) as received:
        subscribe(site, "s", f"{received.url}/hook")
        site.start()
        publish(site, "1")
        number = life.get(site, ann, "s").number
        wait_for(lambda: bool(inbox.items(site.store, subscription=number)))
        wait_for(lambda: hook_of(site.store, number).cursor >= inbox.items(site.store, subscription=number)[0].cursor)
        assert failures == 1
        assert [one.problem for one in undelivered.listed(site, ann)] == ["answered 500"]
    close(site)


def test_a_failure_of_the_old_address_is_not_noted_at_the_new_one(tmp_path):
    site = open_site(tmp_path / "store")
    ann = accounts.create(site.store, "ann", "publisher")
    subscribe(site, "s", "http://127.0.0.1:9/old")
    number = life.get(site, ann, "s").number
    old = hook_of(site.store, number).url
    webhooks.note(site.store, failed={number: Attempt(1, 5.0, "answered 500", old)})
    assert hook_of(site.store, number).attempts == 1
    life.edit(site, ann, "s", {"channel": "http://127.0.0.1:9/new"})
    webhooks.note(site.store, failed={number: Attempt(2, webhooks.GONE, "answered 410", old)})
    found = hook_of(site.store, number)
    assert (found.attempts, found.next_try, found.problem) == (0, None, None)
    close(site)


def test_an_address_that_is_set_while_the_old_one_says_that_it_is_gone_is_called(tmp_path):
    asked, answer = threading.Event(), threading.Event()

    def reply(path: str, attempt: int, number: int) -> tuple[int, float, dict[str, str]]:
        asked.set()
        answer.wait(60)
        return 410, 0.0, {}

    site = open_site(tmp_path / "store", PATIENT)
    ann = accounts.create(site.store, "ann", "publisher")
    site.start()
    with receiving(reply) as old, receiving() as new:
        subscribe(site, "s", f"{old.url}/hook")
        publish(site, "1")
        assert asked.wait(60)
        life.edit(site, ann, "s", {"channel": f"{new.url}/hook"})
        answer.set()
        wait_for(lambda: new.documents() == ["1"])
    close(site)


def test_an_address_that_is_set_after_a_failure_does_not_wait_for_the_old_one(tmp_path):
    site = open_site(tmp_path / "store", SLOW)
    ann = accounts.create(site.store, "ann", "publisher")
    site.start()
    with receiving(lambda path, attempt, number: (500, 0.0, {})) as old, receiving() as new:
        subscribe(site, "s", f"{old.url}/hook")
        number = life.get(site, ann, "s").number
        publish(site, "1")
        wait_for(lambda: hook_of(site.store, number).next_try is not None)
        life.edit(site, ann, "s", {"channel": f"{new.url}/hook"})
        wait_for(lambda: new.documents() == ["1"])
        assert len(old.attempts) == 1
    close(site)


# --- again -----------------------------------------------------------------------------------------------------------


def given_up(tmp_path: Any) -> tuple[Any, dict[str, int]]:
    """A site that is not started; of each account two items that were given up and are wanted again."""
    site = open_site(tmp_path / "store")
    numbers = {}
    for name in ("ann", "bob"):
        account = accounts.create(site.store, name, "publisher")
        body = {"query": "peer", "id": "s", "channel": "http://127.0.0.1:9/hook"}
        numbers[name] = life.create(site, account, body, with_contract=False).kept.number
    publish(site, "1", "2")
    assert isinstance(site.pipeline, LocalPipeline)
    site.pipeline.catch_up()
    for name, number in numbers.items():
        items = inbox.items(site.store, subscription=number)
        webhooks.note(site.store, given_up=[GivenUp(number, name, item.cursor, 6, "answered 500") for item in items])
        assert webhooks.want_again(site.store, name) == 2
    return site, numbers


def test_an_account_whose_webhook_hangs_holds_up_nobody_elses_repeats(tmp_path):
    """And it is called once, not once for every item."""
    site, numbers = given_up(tmp_path)
    sent: list[int] = []

    async def run() -> None:
        bobs, release = asyncio.Event(), asyncio.Event()

        async def send(hook: Hook, item: Item) -> Answer:
            sent.append(hook.subscription)
            if hook.account == "bob":
                bobs.set()
                return Answer(200)
            await release.wait()
            return Answer(None, "no answer within 10 seconds")

        task = asyncio.create_task(send_again(site.store, send, 2))
        async with asyncio.timeout(60):
            await bobs.wait()
            release.set()
            while webhooks.wanting_again(site.store):
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert sorted(sent) == sorted([numbers["ann"], numbers["bob"], numbers["bob"]])
    assert [one.problem for one in webhooks.listed(site.store, None)] == [
        "no answer within 10 seconds",
        "not tried again, because the one before it was not taken: no answer within 10 seconds",
    ]
    close(site)


@pytest.mark.parametrize("status", [410, 500])
def test_one_item_that_is_refused_does_not_hold_up_the_others_unless_nobody_is_there(tmp_path, status):
    site, numbers = given_up(tmp_path)
    last = inbox.items(site.store, subscription=numbers["ann"])[-1].cursor

    async def run() -> None:
        async def send(hook: Hook, item: Item) -> Answer:
            return Answer(200 if hook.account == "bob" or item.cursor == last else status)

        task = asyncio.create_task(send_again(site.store, send, 1))
        async with asyncio.timeout(60):
            while webhooks.wanting_again(site.store):
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert len(webhooks.listed(site.store, None)) == (2 if status == 410 else 1)
    close(site)
