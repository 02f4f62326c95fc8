"""Alerts reach people: by mail with both forms, by chat, in digests, as Atom; and can be ended by a link."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import feedparser  # type: ignore[import-untyped]
import pytest

from tests.site.mailbox import receiving_mail
from tests.site.test_addresses import CLOSED_HOSTS
from tocsin.site import accounts, intake, life
from tocsin.site.accounts import Account
from tocsin.site.channels import atom, links, saved
from tocsin.site.channels.address import Target, channel_of, is_channel, target_of
from tocsin.site.channels.digest import compose, groups_of
from tocsin.site.channels.sender import ChannelSender, mail_to
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.channels.telling import Telling, Told, told_of
from tocsin.site.delivery.caller import Answer
from tocsin.site.local import LocalPipeline
from tocsin.site.problems import Invalid, NotFound, OverQuota
from tocsin.site.site import Site
from tocsin.store import Store, channels, inbox, subscriptions
from tocsin.store.inbox import Item

PUBLIC = "https://tocsin.example.org"
OPEN = ChannelSettings(public_url=PUBLIC, channel_allows_private=True)
SAME = (
    "Peers that publish documents reach their subscribers through super peers that keep the queries of their clients."
)


def match(
    site: Site, account: Account, *texts: str, name: str = "Peers", id: str = "peers", tag: str = "p2p"
) -> list[Item]:
    """A subscription and documents that it matches; its items."""
    if subscriptions.find(site.store, account.name, id) is None:
        life.create(site, account, {"query": "peers", "id": id, "name": name, "tags": [tag]})
    start = inbox.last(site.store)
    documents = [
        {"id": f"{id}{start + n}", "title": f"Title {start + n}", "text": text, "link": f"https://example.org/{n}"}
        for n, text in enumerate(texts)
    ]
    intake.publish(site, account, documents)
    assert isinstance(site.pipeline, LocalPipeline)
    site.pipeline.run_batch()
    return inbox.items(site.store, account=account.name, after=start)


@contextmanager
def chat() -> Iterator[tuple[int, list[dict[str, object]]]]:
    """A service that takes JSON; its port, and what came."""
    taken: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status = 500 if self.path.startswith("/broken") else 200
            if self.path.startswith("/redirect"):
                status = 302
            if status == 200:
                taken.append(body)
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_port, taken
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(store: Store, settings: ChannelSettings, *what: tuple[Target, list[Item] | None]) -> list[Answer]:
    """Sends items, or a test, to each target."""

    async def run() -> list[Answer]:
        sender = ChannelSender(store, settings)
        try:
            return [
                await (sender.send_test(target) if items is None else sender.send(target.stored, items, "msg_1"))
                for target, items in what
            ]
        finally:
            await sender.close()

    return asyncio.run(run())


# --- mail ------------------------------------------------------------------------------------------------------------


def test_mail_has_both_forms_one_id_and_a_way_out(site, ann):
    items = match(site, ann, f"{SAME} <b>One</b>", "Other peers & others")
    with receiving_mail() as box:
        settings = replace(
            OPEN, mail_url=f"mailto://127.0.0.1:{box.port}?from=alerts@example.org&to=nobody@example.org"
        )
        target = channel_of({"kind": "mail", "to": "ann@example.org"}, settings)
        first, second = send(site.store, settings, (target, items), (target, items))
    assert first.is_taken
    assert second.is_taken
    assert len(box.letters) == 2
    sender, to, letter = box.letters[0]
    assert (sender, to) == ("alerts@example.org", ["ann@example.org"])
    assert letter["Subject"] == "Peers: 2 new documents"
    assert letter["Message-ID"] == box.letters[1][2]["Message-ID"] == "<msg_1@example.org>"
    number = items[0].number
    link = f"{PUBLIC}/unsubscribe/{links.unsubscribe_token(site.store, number)}"
    assert letter["List-Unsubscribe"] == f"<{link}>"
    assert letter["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    plain, html = (letter.get_body([kind]) for kind in ("plain", "html"))
    assert plain is not None
    assert html is not None
    for part in (plain.get_content(), html.get_content()):
        assert "Title 0" in part
        assert "Title 1" in part
        assert "https://example.org/1" in part
        assert link in part
    assert "<b>One</b>" not in html.get_content()
    assert "&lt;b&gt;One&lt;/b&gt;" in html.get_content()


def test_a_mail_server_that_refuses_or_is_not_there_is_a_reason_without_its_password(site, ann):
    items = match(site, ann, "peers")
    target = Target("mail", "ann@example.org")
    with receiving_mail() as box:
        box.refuses = True
        settings = replace(OPEN, mail_url=f"mailto://127.0.0.1:{box.port}?from=alerts@example.org")
        (refused,) = send(site.store, settings, (target, items))
    (away,) = send(
        site.store,
        replace(OPEN, mail_url="mailto://user:s3cret-word@127.0.0.1:9?from=alerts@example.org"),
        (target, items),
    )
    (none,) = send(site.store, OPEN, (target, items))
    for answer in (refused, away, none):
        assert not answer.is_taken
        assert answer.problem
        assert "s3cret" not in str(answer)


def test_mail_goes_to_the_one_who_asked_only():
    url = mail_to(
        "mailtos://u:p@mail.example.org:465/old@example.org?from=a@example.org&to=x@y.org&bcc=z@y.org", "ann@b.org"
    )
    assert url == "mailtos://u:p@mail.example.org:465/ann@b.org?from=a%40example.org"


# --- chat ------------------------------------------------------------------------------------------------------------


def test_chat_gets_the_plain_text(site, ann):
    items = match(site, ann, *(f"peers number{n} word{n} other{n}" for n in range(30)))
    with chat() as (port, taken):
        target = channel_of({"kind": "apprise", "url": f"json://127.0.0.1:{port}/room"}, OPEN)
        answers = send(site.store, OPEN, (target, items), (target, None))
    assert [answer.is_taken for answer in answers] == [True, True]
    assert taken[0]["title"] == "Peers: 30 new documents"
    assert "Title 9" in str(taken[0]["message"])
    assert "Title 10" not in str(taken[0]["message"])
    assert "… and 20 more." in str(taken[0]["message"])
    assert "test" in str(taken[1]["message"])


def test_what_a_service_does_not_take_is_told_and_the_address_is_nowhere(site, ann, caplog):
    items = match(site, ann, "peers")
    caplog.set_level(logging.DEBUG)
    with chat() as (port, taken):
        target = Target("apprise", f"json://user:s3cretpass@127.0.0.1:{port}/broken/t0kent0ken?x=1")
        moved = Target("apprise", f"json://127.0.0.1:{port}/redirect/t0kent0ken")
        answers = send(site.store, OPEN, (target, items), (target, None), (moved, None))
    assert taken == []
    for answer in answers:
        assert not answer.is_taken
        assert "s3cretpass" not in str(answer)
        assert "t0kent0ken" not in str(answer)
    for text in (repr(target), str(target.as_json()), caplog.text):
        assert "s3cretpass" not in text
        assert "t0kent0ken" not in text


def test_a_service_that_does_not_answer_is_given_up(site, ann):
    import socket

    items = match(site, ann, "peers")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = Target("apprise", f"json://127.0.0.1:{silent.getsockname()[1]}/room")
        (answer,) = send(site.store, replace(OPEN, channel_timeout_seconds=2.0), (target, items))
    assert str(answer) == "sending took more than 2 seconds"


# --- where a channel may lead ----------------------------------------------------------------------------------------


def test_no_connection_leads_inside(site):
    """The guard stands at the socket, so it does not matter how an address is written or what it redirects to."""
    strict = ChannelSettings()
    with chat() as (port, taken):
        targets = [
            Target("apprise", f"{start}{host}:{at}{end}")
            for host in "127.0.0.1 localhost [::1] 0.0.0.0 [::ffff:127.0.0.1] 127.0.0.2 0x7f000001 127.1".split()
            for start, at, end in (
                ("json://", port, "/room"), ("form://", port, "/room"), ("gotify://", port, "/token"),
            )
        ]  # fmt: skip
        answers = send(site.store, strict, *((target, None) for target in targets))
        assert taken == []
    assert not any(answer.is_taken for answer in answers)


@pytest.mark.parametrize("service", ["mailto", "mailtos", "MailTo"])
def test_a_mailbox_is_no_service(site, service):
    """It would be written to without its reader's word, and past mail_domains; earlier ones are told no more."""
    with receiving_mail() as box:
        url = f"{service}://127.0.0.1:{box.port}?from=a@example.org&to=ceo@victim.example"
        for services in (OPEN.channel_services, ("mailto", "mailtos")):
            settings = replace(OPEN, mail_domains=("example.org",), channel_services=services)
            with pytest.raises(Invalid, match='of kind "mail"'):
                channel_of({"kind": "apprise", "url": url}, settings)
        (answer,) = send(site.store, OPEN, (Target("apprise", url), None))
        assert 'of kind "mail"' in str(answer)
        assert box.letters == []


def test_closed_hosts_are_refused_when_they_are_saved():
    for host in CLOSED_HOSTS:
        with pytest.raises(Invalid):
            channel_of({"kind": "apprise", "url": f"json://{host}/room"}, ChannelSettings())


@pytest.mark.parametrize(
    "url",
    [
        "dbus://", "gnome://", "syslog://", "windows://", "macosx://", "file:///etc/passwd", "slack", "", 7, None,
        "json://example.org/?template=/etc/passwd", "mailto://u:p@example.org?pgpkey=/etc/passwd", "json://[::1",
        "json://example.org/\n", "slack://nothing", "json://" + "x" * 3_000, "apprise://example.org/x",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_without_repeating_it(url):
    with pytest.raises(Invalid) as caught:
        channel_of({"kind": "apprise", "url": url}, ChannelSettings())
    assert caught.value.field == "channel"
    assert "passwd" not in caught.value.message


def test_services_are_taken_and_shown_without_their_secrets():
    for url in (
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general",
        "json://hooks.example.org/t0ken",
        "ntfy://topic",
    ):
        target = channel_of({"kind": "apprise", "url": url}, ChannelSettings())
        assert is_channel(target.stored)
        assert target_of(target.stored) == target
        assert target.as_json() == {"kind": "apprise", "url": f"{url.partition(':')[0]}://…"}
    assert not is_channel("https://example.org/hook")


@pytest.mark.parametrize(
    "to", ["", "ann", "a b@example.org", "a@b", "a@example.org,b@example.org", "a@example.org\nBcc: x@y.org", 7]
)
def test_what_is_no_mailbox_is_refused(to):
    with pytest.raises(Invalid):
        channel_of({"kind": "mail", "to": to}, ChannelSettings(mail_url="mailto://example.org"))


def test_mail_can_be_kept_to_some_domains():
    settings = ChannelSettings(mail_url="mailto://example.org", mail_domains=("Example.org",))
    assert channel_of({"kind": "mail", "to": "ann@EXAMPLE.org"}, settings).kind == "mail"
    with pytest.raises(Invalid, match="mail_domains"):
        channel_of({"kind": "mail", "to": "ann@example.com"}, settings)
    with pytest.raises(Invalid, match="mail_url"):
        channel_of({"kind": "mail", "to": "ann@example.org"}, ChannelSettings())


# --- digests ---------------------------------------------------------------------------------------------------------


def telling(number: int, text: str, title: str = "") -> Telling:
    return Telling(f"d{number}", 1, title or f"Title {number}", None, f"Source {number}", "2026-11-15", text, 1.0, 0.0)


def test_a_digest_groups_by_subscription_and_by_near_identical_text():
    told = [
        Told(
            1,
            "a",
            "Peers",
            (telling(1, SAME, "P"), telling(2, "Quite another text about gossip and rumours."), telling(3, SAME, "P")),
        ),
        Told(2, "b", "Grids", (telling(4, SAME, "P"),), more=7),
    ]
    assert [(one.document, len(others)) for one, others in groups_of(told[0], OPEN)] == [("d1", 1), ("d2", 0)]
    message = compose(told, OPEN)
    assert message.subject == "11 new documents for 2 subscriptions"
    assert message.text.index("Peers: 3 new documents") < message.text.index("Grids: 8 new documents")
    assert message.text.count("Nearly the same: 1 more (Source 3)") == 1
    assert message.html.count("Nearly the same: 1 more (Source 3)") == 1
    assert "… and 7 more." in message.html


def test_a_digest_made_by_the_clock_is_one_message(site, ann):
    life.create(site, ann, {"query": "peers", "id": "daily", "name": "Daily", "mode": "daily"})
    assert match(site, ann, "peers one", "peers two", id="daily") == []
    site.make_digests(now=4e9)
    (item,) = inbox.items(site.store, account="ann")
    (told,) = told_of(site.store, [item], 10)
    assert (told.name, told.total) == ("Daily", 2)


def test_a_document_that_was_deleted_since_is_told_by_its_id(site, ann):
    items = match(site, ann, "peers")
    intake.delete(site, ann, "peers0")
    (told,) = told_of(site.store, items, 10)
    assert told.tellings[0].title == "peers0"
    assert compose([told], OPEN).subject == "Peers: peers0"


# --- the link that ends messages -------------------------------------------------------------------------------------


def test_the_link_puts_the_subscription_back_to_the_inbox(site, ann):
    body = {"query": "peers", "id": "hooked", "channel": {"kind": "webhook", "url": "https://example.org/hook"}}
    number = life.create(site, ann, body).kept.number
    token = links.unsubscribe_token(site.store, number)
    assert links.unsubscribe(site, token) == "hooked"
    kept = life.get(site, ann, "hooked")
    assert (kept.state, "channel" in kept.about) == ("active", False)
    assert links.unsubscribe(site, token) == "hooked"  # again changes nothing
    life.delete(site, ann, "hooked")
    with pytest.raises(NotFound):
        links.unsubscribe(site, token)


def test_a_link_cannot_be_made_up(site, ann, tmp_path):
    number = life.create(site, ann, {"query": "peers", "id": "a"}).kept.number
    other = Store(tmp_path / "other")
    token = links.unsubscribe_token(site.store, number)
    wrong = [
        "",
        "x",
        "ü",
        token[:-1],
        token + "A",
        token.swapcase(),
        links.unsubscribe_token(other, number),
        "A" * len(token),
    ]
    other.close()
    for one in wrong:
        with pytest.raises(NotFound):
            links.unsubscribe(site, one)
    assert links.subscription_in(site.store, token) == ("ann", "a")


# --- Atom ------------------------------------------------------------------------------------------------------------


def entries(store: Store, secret: str) -> list[str]:
    return [one.title for one in _read(store, secret).entries]


def _read(store: Store, secret: str):
    text = atom.feed_text(store, OPEN, secret)
    found = feedparser.parse(text)
    assert (found.bozo, found.version) == (False, "atom10")
    return found


def test_a_feed_shows_the_newest_of_a_subscription_a_tag_or_all(site, ann, bob):
    match(site, ann, "peers one", "peers two")
    match(site, ann, "peers three", id="other", name="Other", tag="news")
    mine = links.make_feed(site.store, ann, subscription="other")
    tagged = links.make_feed(site.store, ann, tag="p2p")
    everything = links.make_feed(site.store, ann)
    secret = {feed: links.feed_secret(site.store, feed) for feed in (mine, tagged, everything)}
    assert len(set(secret.values())) == 3
    assert all(len(one) >= 32 for one in secret.values())
    assert entries(site.store, secret[mine]) == ["Title 2"]
    assert sorted(entries(site.store, secret[tagged])) == ["Title 0", "Title 1", "Title 2"]
    assert len(entries(site.store, secret[everything])) == 4  # the first subscription matches the third document, too
    assert entries(site.store, links.feed_secret(site.store, links.make_feed(site.store, bob))) == []
    assert channels.feeds_of(site.store, "ann") == [mine, tagged, everything]
    links.drop_feed(site.store, ann, mine)
    with pytest.raises(NotFound):
        atom.feed_text(site.store, OPEN, secret[mine])
    with pytest.raises(NotFound):
        links.drop_feed(site.store, bob, tagged)


def test_a_feed_keeps_its_ids_and_escapes_what_it_shows(site, ann):
    evil = "peers <script>alert(1)</script> ]]> &amp; \x0b\ufffe"
    intake.publish(site, ann, [{"id": "seed", "text": "x"}])
    match(site, ann, evil, name="<b>Peers</b>")
    secret = links.feed_secret(site.store, links.make_feed(site.store, ann, subscription="peers"))
    first = _read(site.store, secret)
    assert b"<script" not in atom.feed_text(site.store, OPEN, secret)
    assert "<script>" in first.entries[0].content[0].value  # the reader gets it as the text that it is
    assert first.entries[0].content[0].type == "text/plain"
    match(site, ann, "peers again")
    second = _read(site.store, secret)
    assert second.entries[1].id == first.entries[0].id
    assert second.feed.id == first.feed.id


def test_a_feed_answers_to_nobody_who_does_not_know_its_secret(site, ann, tmp_path: Path):
    feed = links.make_feed(site.store, ann)
    secret = links.feed_secret(site.store, feed)
    for wrong in ("", "x", secret[:-1], secret + "A", secret.lower(), feed.mark.hex(), "\ud800"):
        with pytest.raises(NotFound):
            atom.feed_text(site.store, OPEN, wrong)
    accounts.disable(site.store, "ann")
    with pytest.raises(NotFound):
        atom.feed_text(site.store, OPEN, secret)


def test_a_feed_of_somebody_elses_subscription_cannot_be_made(site, ann, bob):
    life.create(site, ann, {"query": "peers", "id": "mine"})
    with pytest.raises(NotFound):
        links.make_feed(site.store, bob, subscription="mine")
    with pytest.raises(Invalid):
        links.make_feed(site.store, ann, subscription="mine", tag="x")


def test_a_token_with_a_number_that_no_store_has_is_none_of_ours(site, ann):
    for raw in (b"\xff" * 32, b"\x80" + bytes(31), bytes(32)):
        token = links.written(raw)
        assert links.mailbox_in(site.store, token) is None
        with pytest.raises(NotFound):
            links.unsubscribe(site, token)
        with pytest.raises(NotFound):
            saved.with_code(site.store, token)


def test_an_account_has_a_limited_number_of_feeds(site, ann, bob, monkeypatch):
    monkeypatch.setattr(links, "FEEDS_MAX", 3)
    for tag in "abc":
        links.make_feed(site.store, ann, tag=tag)
    with pytest.raises(OverQuota, match="at most 3 feeds"):
        links.make_feed(site.store, ann, tag="d")
    links.make_feed(site.store, bob, tag="a")
