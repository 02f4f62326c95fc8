"""Channels that accounts keep: a mailbox is told nothing before it confirms, what waits for it comes together."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.site.mailbox import Mailbox, receiving_mail
from tests.site.receiver import receiving, wait_for
from tests.site.test_delivery import QUICK
from tocsin.site import accounts, intake, life
from tocsin.site.accounts import Account
from tocsin.site.channels import links, saved
from tocsin.site.channels.address import Target
from tocsin.site.channels.digest import Message
from tocsin.site.channels.sender import ChannelSender
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.delivery.caller import Answer
from tocsin.site.delivery.messages import gathered
from tocsin.site.delivery.signature import verify
from tocsin.site.limits import Buckets
from tocsin.site.local import LocalPipeline
from tocsin.site.problems import Conflict, Invalid, NotFound, TooFast
from tocsin.site.settings import SiteSettings
from tocsin.site.site import Site
from tocsin.store import Store, channels, inbox, webhooks

PUBLIC = "https://tocsin.example.org"
ANN_MAIL = "ann@example.org"


def settings_for(box: Mailbox | None, **more: object) -> SiteSettings:
    port = 9 if box is None else box.port
    found = ChannelSettings(public_url=PUBLIC, mail_url=f"mailto://127.0.0.1:{port}?from=alerts@example.org")
    return SiteSettings(delivery=QUICK, channels=replace(found, channel_allows_private=True, **more))  # type: ignore[arg-type]


@contextmanager
def opened(folder: Path, box: Mailbox | None = None, **more: object) -> Iterator[Site]:
    """A site whose mail goes to the box; not started."""
    store = Store(folder)
    site = Site(store, settings_for(box, **more))
    site.pipeline = LocalPipeline(store, noticed=site.noticed)
    for name in ("ann", "bob"):
        if name not in {one.name for one in accounts.listed(store)}:
            accounts.create(store, name, "publisher")
    try:
        yield site
    finally:
        site.stop()
        store.close()


@pytest.fixture
def mailing(tmp_path: Path) -> Iterator[Site]:
    with opened(tmp_path / "store") as site:
        yield site


def ann(site: Site) -> Account:
    return accounts.find(site.store, "ann")


def subscribe(site: Site, id: str, query: str, to: str = ANN_MAIL, **more: object) -> None:
    body = {"query": query, "id": id, "name": id.title(), "channel": {"kind": "mail", "to": to}, **more}
    life.create(site, ann(site), body, with_contract=False)


def publish(site: Site, *texts: str) -> None:
    start = inbox.last(site.store)
    documents = [{"id": f"d{start}-{n}", "title": text, "text": text} for n, text in enumerate(texts)]
    intake.publish(site, ann(site), documents)


def plain(box: Postman | Mailbox, at: int = -1) -> str:
    if isinstance(box, Postman):
        return box.letters[at].message.text
    part = box.letters[at][2].get_body(["plain"])
    assert part is not None
    return str(part.get_content())


class Letter(NamedTuple):
    """What the postman was given."""

    to: str
    message: Message
    id: str
    unsubscribe: str | None


class Postman:
    """Takes messages in this process, where a mail server is not the point: to start one's client takes seconds."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.refuses = False

    async def sent(self, target: Target, message: Message, id: str, unsubscribe: str | None) -> Answer:
        if self.refuses:
            return Answer(None, "not taken: nobody of that name")
        self.letters.append(Letter(target.address, message, id, unsubscribe))
        return Answer(200)

    @property
    def subjects(self) -> list[str]:
        return [letter.message.subject for letter in self.letters]


@pytest.fixture
def postman(monkeypatch: pytest.MonkeyPatch) -> Postman:
    found = Postman()

    async def sent(_self: ChannelSender, *given: Any) -> Answer:
        return await found.sent(*given)

    monkeypatch.setattr(ChannelSender, "_sent", sent)
    return found


def code_in(text: str) -> str:
    found = re.search(r"/confirm/(\S+)", text)
    assert found
    return found[1]


# --- the word of whoever reads a mailbox -----------------------------------------------------------------------------


def test_a_mailbox_is_told_nothing_before_it_confirms_and_then_all_that_waited_at_once(tmp_path):
    with receiving_mail() as box, opened(tmp_path / "store", box) as mailing:
        check_first_word(mailing, box)


def check_first_word(mailing: Site, box: Mailbox) -> None:
    mailing.start()
    subscribe(mailing, "peers", "peers")
    publish(mailing, "peers one", "peers two")
    wait_for(lambda: len(box.letters) == 1)
    _, to, question = box.letters[0]
    assert to == [ANN_MAIL]
    assert question["Subject"] == "May Tocsin write to you?"
    assert "“ann”" in plain(box)
    assert "peers" not in plain(box)  # nothing that an account may choose
    publish(mailing, "peers three")
    time.sleep(1.5)
    assert len(box.letters) == 1
    assert saved.state(saved.listed(mailing, ann(mailing))[0]) == "waiting"
    saved.confirm(mailing, code_in(plain(box)))
    wait_for(lambda: len(box.letters) == 2)
    assert box.letters[1][2]["Subject"] == "Peers: 3 new documents"
    publish(mailing, "peers four")
    wait_for(lambda: len(box.letters) == 3)
    assert box.letters[2][2]["Subject"] == "Peers: peers four"


def test_no_number_of_accounts_can_flood_a_mailbox(mailing, postman):
    for name in ("ann", "bob", *(f"other{n}" for n in range(5))):
        account = (
            accounts.find(mailing.store, name) if len(name) == 3 else accounts.create(mailing.store, name, "publisher")
        )
        if name == "ann":
            saved.add(mailing, account, {"kind": "mail", "to": "victim@example.org"})
        else:
            with pytest.raises(TooFast, match="a moment ago"):
                saved.add(mailing, account, {"kind": "mail", "to": "Victim@Example.org"})
        with pytest.raises(TooFast):
            saved.add(mailing, account, {"kind": "mail", "to": "VICTIM@example.org"})
    (one,) = saved.listed(mailing, ann(mailing))
    with pytest.raises(TooFast):
        saved.ask(mailing, ann(mailing), one.number)
    saved.remove(mailing, ann(mailing), one.number)  # and again: what is remembered is the mailbox's
    with pytest.raises(TooFast):
        saved.add(mailing, ann(mailing), {"kind": "mail", "to": "victim@example.org"})
    assert len(postman.letters) == 1


def test_a_mailbox_that_does_not_answer_is_asked_a_few_times_only(tmp_path, postman):
    with opened(tmp_path / "store", mail_ask_wait_seconds=0.0) as site:
        one = saved.add(site, ann(site), {"kind": "mail", "to": ANN_MAIL})
        for _ in range(2):
            saved.ask(site, ann(site), one.number)
        with pytest.raises(TooFast, match="3 times"):
            saved.ask(site, ann(site), one.number)
        assert len(postman.letters) == 3


def test_an_account_may_ask_only_so_many_mailboxes_a_day(tmp_path, postman):
    with opened(tmp_path / "store", mail_asks_per_day_max=2) as site:
        for n in range(2):
            saved.add(site, ann(site), {"kind": "mail", "to": f"m{n}@example.org"})
        with pytest.raises(TooFast, match="mail_asks_per_day_max"):
            saved.add(site, ann(site), {"kind": "mail", "to": "m2@example.org"})
        subscribe(site, "s", "peers", to="m3@example.org")
        site.start()
        wait_for(lambda: any(one.problem for one in saved.listed(site, ann(site))))
        assert len(postman.letters) == 2


def test_whoever_says_never_is_never_asked_again_by_anybody(mailing, postman):
    one = saved.add(mailing, ann(mailing), {"kind": "mail", "to": ANN_MAIL})
    code = code_in(plain(postman))
    saved.confirm(mailing, code)
    subscribe(mailing, "peers", "peers")
    assert life.get(mailing, ann(mailing), "peers").about["channel"] == {"kind": "mail", "to": ANN_MAIL}
    saved.refuse(mailing, code)
    assert saved.get(mailing, ann(mailing), one.number).confirmed is None
    assert "channel" not in life.get(mailing, ann(mailing), "peers").about
    with pytest.raises(Invalid, match="wants no mail"):
        saved.add(mailing, accounts.find(mailing.store, "bob"), {"kind": "mail", "to": "ANN@example.org"})
    assert len(postman.letters) == 1


def test_a_code_confirms_the_mailbox_that_got_it_and_no_other(mailing, postman):
    one = saved.add(mailing, ann(mailing), {"kind": "mail", "to": "mine@example.org"})
    code = code_in(plain(postman))
    saved.remove(mailing, ann(mailing), one.number)
    other = saved.add(mailing, ann(mailing), {"kind": "mail", "to": "victim@example.org"})
    assert other.number == one.number  # the database gives the number again
    for wrong in (code, "", "x", "ü", code_in(plain(postman))[:-1], "A" * len(code)):
        with pytest.raises(NotFound):
            saved.confirm(mailing, wrong)
    assert saved.get(mailing, ann(mailing), other.number).confirmed is None


def test_a_question_that_could_not_be_sent_does_not_count(mailing, postman):
    postman.refuses = True
    one = saved.add(mailing, ann(mailing), {"kind": "mail", "to": ANN_MAIL})
    assert one.problem
    postman.refuses = False
    assert saved.ask(mailing, ann(mailing), one.number).problem is None
    assert len(postman.letters) == 1


def test_a_closed_site_may_do_without(tmp_path, postman):
    with opened(tmp_path / "store", mail_needs_confirmation=False) as site:
        site.start()
        subscribe(site, "peers", "peers")
        publish(site, "peers one")
        wait_for(lambda: len(postman.letters) == 1)
        assert postman.subjects[0] == "Peers: peers one"


def test_what_an_account_keeps_is_its_own_and_without_secrets(mailing, postman):
    one = saved.add(mailing, ann(mailing), {"kind": "apprise", "url": "ntfy://s3cret-topic", "name": "Phone"})
    assert saved.as_json(one)["state"] == "ready"
    assert "s3cret" not in str(saved.as_json(one)) + repr(one)
    with pytest.raises(Conflict):
        saved.add(mailing, ann(mailing), {"kind": "apprise", "url": "ntfy://s3cret-topic"})
    with pytest.raises(NotFound):
        saved.remove(mailing, accounts.find(mailing.store, "bob"), one.number)
    for body in (7, {}, {"kind": "fax", "to": "1"}, {"kind": "mail", "to": ANN_MAIL, "name": "x" * 300}):
        with pytest.raises(Invalid):
            saved.add(mailing, ann(mailing), body)


# --- together --------------------------------------------------------------------------------------------------------


def confirmed(site: Site, to: str = ANN_MAIL) -> None:
    channels.save(site.store, "ann", "mail", to, name=to, is_confirmed=True)


def test_the_digests_of_several_subscriptions_are_one_mail(mailing, postman):
    """Grouped by subscription and by near-identical text; what two of them found is listed once."""
    confirmed(mailing)
    confirmed(mailing, "other@example.org")
    same = "Super peers keep the queries of their clients and tell them what other peers have published since then."
    for id in ("peers", "queries"):
        subscribe(mailing, id, id, mode="daily")
    subscribe(mailing, "other", "peers", to="other@example.org", mode="daily")
    documents = [{"id": f"d{n}", "title": "Super peers", "text": same, "source": f"Source {n}"} for n in range(2)]
    intake.publish(mailing, ann(mailing), [*documents, {"id": "d2", "title": "Alone", "text": "queries"}])
    assert isinstance(mailing.pipeline, LocalPipeline)
    mailing.pipeline.catch_up()
    mailing.make_digests(now=4e9)
    mailing.start()
    wait_for(lambda: sorted(letter.to for letter in postman.letters) == [ANN_MAIL, "other@example.org"])
    letter = next(one for one in postman.letters if one.to == ANN_MAIL)
    assert letter.message.subject == "5 new documents for 2 subscriptions"
    for text in (letter.message.text, letter.message.html):
        assert text.index("Peers: 2 new documents") < text.index("Queries: 3 new documents")
        assert text.count("Nearly the same: 1 more (Source 1)") == 1
        assert text.count("Listed above already: Super peers; Super peers") == 1
        assert text.count("Alone") == 1
        assert text.count(f"{PUBLIC}/unsubscribe/") == 3
    assert letter.unsubscribe is not None
    stop = letter.unsubscribe.rpartition("/")[2]
    assert links.unsubscribe(mailing, stop) == f"all subscriptions to {ANN_MAIL}"
    told = {one.subscription: target for one in channels.uses(mailing.store, "ann") for target in [one.url]}
    assert told == {"other": "mail:other@example.org"}
    with pytest.raises(NotFound):
        links.unsubscribe(mailing, stop[:-4] + "AAAA")


def test_a_message_that_is_sent_again_is_the_same(mailing, postman):
    """Killed after it was sent and before that was noted: what came since goes into the next message."""
    confirmed(mailing)
    for id in ("a", "b"):
        subscribe(mailing, id, "peers")
    publish(mailing, "peers one", "peers two")
    assert isinstance(mailing.pipeline, LocalPipeline)
    mailing.pipeline.catch_up()
    number = life.get(mailing, ann(mailing), "a").number
    hook = webhooks.hook(mailing.store, number)
    assert hook is not None
    first = gathered(mailing.store, "site", hook, {})
    assert first is not None
    assert len(first.items) == 4
    publish(mailing, "peers three")
    mailing.pipeline.catch_up()
    other = webhooks.hook(mailing.store, life.get(mailing, ann(mailing), "b").number)
    assert other is not None
    assert gathered(mailing.store, "site", hook, {}) == first == gathered(mailing.store, "site", other, {})
    reached = {part.subscription: part.upto for part in first.parts}
    second = gathered(mailing.store, "site", hook, reached)
    assert second is not None
    assert [item.notifications[0].document for item in second.items] == ["d4-0", "d4-0"]
    assert second.id != first.id


def test_a_message_is_the_same_however_many_others_are_told_there(mailing, monkeypatch):
    """Only so many subscriptions are looked at for a new message; what was begun is looked up by itself."""
    monkeypatch.setattr(channels, "companions", partial(channels.companions, limit=2))
    confirmed(mailing)
    for id in "abcd":
        subscribe(mailing, id, "peers")
    publish(mailing, "peers one")
    assert isinstance(mailing.pipeline, LocalPipeline)
    mailing.pipeline.catch_up()
    first, _, _, last = (webhooks.hook(mailing.store, life.get(mailing, ann(mailing), id).number) for id in "abcd")
    assert first is not None
    assert last is not None
    begun = gathered(mailing.store, "site", last, {})
    assert begun is not None
    assert len(begun.items) == 3
    assert gathered(mailing.store, "site", first, {}) == begun == gathered(mailing.store, "site", last, {})


def test_what_waits_for_a_mailbox_goes_elsewhere_if_its_owner_says_so(mailing, postman, monkeypatch):
    looks = 0

    def may_tell(*_: object) -> bool:
        nonlocal looks
        looks += 1
        return False

    monkeypatch.setattr(saved, "may_tell", may_tell)
    mailing.start()
    subscribe(mailing, "peers", "peers")
    publish(mailing, "peers one")
    wait_for(lambda: looks >= 2)  # its task's own, and that of whoever waits for the mailbox's word
    with receiving() as received:
        life.edit(mailing, ann(mailing), "peers", {"channel": f"{received.url}/hook"})
        wait_for(lambda: len(received.documents()) == 1)


def test_a_mail_server_that_is_away_for_a_while_gets_the_same_message_later(mailing, postman):
    confirmed(mailing)
    postman.refuses = True
    for id in ("a", "b"):
        subscribe(mailing, id, "peers")
    mailing.start()
    publish(mailing, "peers one")
    wait_for(lambda: mailing.dispatcher.failed >= 1)
    postman.refuses = False
    wait_for(lambda: len(postman.letters) >= 1)
    wait_for(lambda: channels.message_with(mailing.store, life.get(mailing, ann(mailing), "a").number) is None)
    assert postman.subjects == ["2 new documents for 2 subscriptions"]
    assert webhooks.listed(mailing.store, "ann") == []


def test_what_a_mail_server_never_takes_is_among_the_undelivered(mailing, postman):
    confirmed(mailing)
    postman.refuses = True
    subscribe(mailing, "a", "peers")
    mailing.start()
    publish(mailing, "peers one", "peers two")
    wait_for(lambda: len(webhooks.listed(mailing.store, "ann")) == 2)
    assert webhooks.listed(mailing.store, "ann")[0].attempts == QUICK.delivery_attempts_max
    postman.refuses = False
    publish(mailing, "peers three")
    wait_for(lambda: len(postman.letters) == 1)
    assert postman.subjects[0] == "A: peers three"


# --- test sends ------------------------------------------------------------------------------------------------------


def test_a_test_shows_whether_a_channel_works(mailing, postman):
    one = saved.add(mailing, ann(mailing), {"kind": "mail", "to": ANN_MAIL})
    with pytest.raises(Conflict, match="not confirmed"):
        saved.test(mailing, ann(mailing), one.number)
    saved.confirm(mailing, code_in(plain(postman)))
    assert saved.test(mailing, ann(mailing), one.number).is_taken
    assert postman.subjects[-1] == "A test of this channel: This is a test"
    postman.refuses = True
    assert not saved.test(mailing, ann(mailing), one.number).is_taken
    assert saved.state(saved.get(mailing, ann(mailing), one.number)) == "failing"


def test_a_webhook_gets_a_signed_call_that_says_it_is_a_test(mailing):
    with receiving() as received:
        made = life.create(mailing, ann(mailing), {"query": "x", "id": "hooked", "channel": f"{received.url}/hook"})
        assert made.secret is not None
        assert saved.test_subscription(mailing, ann(mailing), "hooked").is_taken
        _, headers, body = received.taken[0]
        assert verify(made.secret, headers, received.raw[0], time.time()) == headers["webhook-id"]
        assert (body["type"], body["data"]) == ("test", {"subscription": "hooked"})
    answer = saved.test_subscription(mailing, ann(mailing), "hooked")
    assert not answer.is_taken
    life.create(mailing, ann(mailing), {"query": "x", "id": "plain"})
    with pytest.raises(Conflict):
        saved.test_subscription(mailing, ann(mailing), "plain")
    with pytest.raises(NotFound):
        saved.test_subscription(mailing, accounts.find(mailing.store, "bob"), "hooked")


def test_tests_are_not_a_way_to_flood(mailing):
    mailing.buckets = Buckets(now=lambda: 0.0)
    with receiving() as received:
        life.create(mailing, ann(mailing), {"query": "x", "id": "hooked", "channel": f"{received.url}/hook"})
        for _ in range(5):
            saved.test_subscription(mailing, ann(mailing), "hooked")
        with pytest.raises(TooFast):
            saved.test_subscription(mailing, ann(mailing), "hooked")
    assert len(received.taken) == 5


def test_an_account_sends_one_test_at_a_time(mailing, monkeypatch):
    """Each holds a thread until its place has answered."""
    begun, go = threading.Event(), threading.Event()

    def tested(*_: object) -> Answer:
        begun.set()
        assert go.wait(60)
        return Answer(200)

    monkeypatch.setattr(saved, "_tested", tested)
    for account in (ann(mailing), accounts.find(mailing.store, "bob")):
        life.create(mailing, account, {"query": "x", "id": "hooked", "channel": "http://127.0.0.1:9/hook"})
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(saved.test_subscription, mailing, ann(mailing), "hooked")
        assert begun.wait(60)
        try:
            with pytest.raises(TooFast, match="is being sent"):
                saved.test_subscription(mailing, ann(mailing), "hooked")
        finally:
            go.set()
        assert first.result(60).is_taken
    assert saved.test_subscription(mailing, ann(mailing), "hooked").is_taken
    assert saved.test_subscription(mailing, accounts.find(mailing.store, "bob"), "hooked").is_taken
