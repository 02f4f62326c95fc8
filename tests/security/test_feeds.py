"""Feeds are strangers: they lead nowhere inside, are never larger than allowed, and bring text, not markup."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from tests.site.source_server import HERE, Reply, item, rss, serving
from tests.site.test_addresses import CLOSED_HOSTS
from tocsin.site.accounts import Account, Role
from tocsin.site.channels.digest import compose
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.channels.telling import Told, telling_of
from tocsin.site.harvest import sources
from tocsin.site.harvest.fetch import Fetched, Fetcher, SourceError
from tocsin.site.harvest.harvester import Harvester, Visited
from tocsin.site.harvest.politeness import Politeness
from tocsin.site.harvest.settings import HarvestSettings
from tocsin.site.problems import Invalid
from tocsin.store import Store, documents
from tocsin.store.outbox import Notification

ANN = Account("ann", Role.PUBLISHER)
STRICT = replace(HarvestSettings(), harvest_host_delay_seconds=0.0, harvest_timeout_seconds=5.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


def visit(store: Store, url: str, settings: HarvestSettings = HERE) -> Visited:
    number = sources.add(store, settings, ANN, {"address": url}).number
    (found,) = Harvester(store, settings).visit_once([number])
    assert sources.get(store, number).problem == (found.problem and found.problem[:500])
    return found


def fetch(url: str, settings: HarvestSettings, ask=None) -> bytes:
    async def run() -> bytes:
        more = {} if ask is None else {"ask": ask}
        fetcher = Fetcher(settings, Politeness(settings), **more)
        try:
            return (await fetcher.get(url)).body
        finally:
            await fetcher.close()

    return asyncio.run(run())


# --- no way inside ---------------------------------------------------------------------------------------------------


def test_there_are_at_least_eighty_closed_addresses():
    assert len(set(CLOSED_HOSTS)) >= 80


def test_no_closed_address_can_be_added(store):
    for host in CLOSED_HOSTS:
        for url in (f"https://{host}/feed", f"http://{host}:8080/feed"):
            for kind in ("feed", "oai"):
                with pytest.raises(Invalid) as caught:
                    sources.add(store, STRICT, ANN, {"address": url, "kind": kind})
                assert (caught.value.kind, caught.value.field) == ("source_refused", "address")
                assert "webhook" not in caught.value.message
    assert sources.listed(store) == []


class Redirecting(Fetcher):
    """Its first answer is a redirect to `place`; it remembers what else it was to ask."""

    place = ""
    asked: ClassVar[list[str]] = []

    async def _get(self, url: str, headers: Mapping[str, str]) -> Fetched:
        self.asked.append(url)
        return Fetched(302, url, {"location": self.place})


def test_no_redirect_leads_to_a_closed_address():
    first = "https://example.org/feed"

    async def run() -> None:
        fetcher = Redirecting(STRICT, Politeness(STRICT))
        for host in CLOSED_HOSTS:
            for place in (f"http://{host}/feed", f"//{host}/feed", f"https://{host}:8443/?x=1"):
                fetcher.place = place
                with pytest.raises(SourceError, match="the source's address"):
                    await fetcher.get(first)
        await fetcher.close()

    asyncio.run(run())
    assert set(Redirecting.asked) == {first}


def test_a_name_that_means_an_inner_address_is_not_connected_to():
    with serving({"feed": rss(item("a"))}) as served:

        async def inside(host: str, port: int) -> list[str]:
            return ["127.0.0.1"]

        with pytest.raises(SourceError, match="not in the open network"):
            fetch(f"http://inside.example.org:{served.port}/feed", STRICT, inside)

        answers = iter([["93.184.216.34", "127.0.0.1"], ["127.0.0.1"]])

        async def rebinding(host: str, port: int) -> list[str]:
            return next(answers)

        for _ in range(2):
            with pytest.raises(SourceError, match="not in the open network"):
                fetch(f"http://rebinding.example.org:{served.port}/feed", STRICT, rebinding)
        assert served.asked == []


def test_the_connection_goes_to_the_address_that_was_looked_at():
    """The name is asked for once, and means what it meant then."""
    with serving({"feed": rss(item("a"))}) as served:
        asked = []

        async def ask(host: str, port: int) -> list[str]:
            asked.append(host)
            return ["127.0.0.1"]

        assert fetch(f"http://nowhere.example.org:{served.port}/feed", HERE, ask) == rss(item("a"))
    assert asked == ["nowhere.example.org"]
    assert served.asked[0].headers["host"].startswith("nowhere.example.org")


def test_redirects_out_of_http_are_refused(store):
    for place in (
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "gopher://x/",
        "data:text/xml,<rss/>",
        "http://[::1",
    ):
        redirect = Reply(status=302, headers={"location": place})
        with serving(lambda path, headers, reply=redirect: reply) as served:  # type: ignore[misc]
            found = visit(store, served.url("feed"))
        assert found.problem
        assert len(served.asked) == 1


# --- no more than is allowed -----------------------------------------------------------------------------------------

MEGABYTE = b"x" * 1_048_576


def endless(start: bytes, part: bytes, most: int = 1_100) -> Iterator[bytes]:
    yield start
    for _ in range(most):
        yield part


def test_a_feed_of_a_gigabyte_is_left_after_its_first_megabytes(store):
    sent = 0

    def body() -> Iterator[bytes]:
        nonlocal sent
        for part in endless(b"<rss><channel><title>", MEGABYTE):
            yield part
            sent += len(part)

    with serving(lambda path, headers: Reply(body())) as served:
        found = visit(store, served.url("feed"))
    assert found.problem == "the answer has more than 16,777,216 bytes (harvest_bytes_max)"
    assert sent < 64 * len(MEGABYTE)


def test_a_feed_that_says_it_has_a_gigabyte_is_not_read(store):
    reply = Reply(iter([MEGABYTE]), headers={"content-length": str(1 << 30)})
    with serving(lambda path, headers: reply) as served:
        assert (
            visit(store, served.url("feed")).problem == "the answer has more than 16,777,216 bytes (harvest_bytes_max)"
        )


def test_a_feed_that_unpacks_to_a_gigabyte_is_left(store):
    packed = gzip.compress(b"<rss><channel>" + bytes(1 << 26))  # small as it comes
    with serving(lambda path, headers: Reply(packed, headers={"content-encoding": "gzip"})) as served:
        assert (
            visit(store, served.url("feed")).problem == "the answer has more than 16,777,216 bytes (harvest_bytes_max)"
        )


def test_packed_feeds_are_read(store):
    packed = gzip.compress(rss(item("a")))
    with serving(lambda path, headers: Reply(packed, headers={"content-encoding": "gzip"})) as served:
        assert visit(store, served.url("feed")).found.new == 1
        assert "gzip" in served.asked[0].headers["accept-encoding"]
    for body, packing in ((b"\x1f\x8bbroken", "gzip"), (packed, "br")):
        reply = Reply(body, headers={"content-encoding": packing})
        with serving(lambda path, headers, reply=reply: reply) as served:  # type: ignore[misc]
            assert "packed" in (visit(store, served.url("feed")).problem or "")


def test_a_feed_of_a_million_items_is_cut(store):
    settings = replace(HERE, harvest_items_max=1_000, harvest_bytes_max=1 << 26, near_window_seconds=0.0)
    items = b"".join(b"<item><guid>%d</guid><title>t%d</title></item>" % (n, n) for n in range(1_000_000))
    feed = b"<rss version='2.0'><channel><title>x</title>" + items + b"</channel></rss>"
    with serving({"feed": feed}) as served:
        found = visit(store, served.url("feed"), settings)
    assert (found.problem, found.found.new) == (None, 1_000)
    assert found.note == "it has more than 1,000 items: the others are left out"


def test_a_feed_that_never_ends_is_left_in_time(store):
    def slowly() -> Iterator[bytes]:
        yield b"<rss><channel>"
        for _ in range(1_000):
            time.sleep(0.05)
            yield b"<item></item>"

    with serving(lambda path, headers: Reply(slowly())) as served:
        found = visit(store, served.url("feed"), replace(HERE, harvest_timeout_seconds=1.0))
    assert found.problem == "no whole answer within 1 seconds"


def test_a_feed_that_takes_too_long_to_read_costs_its_own_reader_only(store):
    items = "".join(f"<item>{item(str(n))}</item>" for n in range(5_000))
    heavy = f"<rss version='2.0'><channel>{items}</channel></rss>".encode()
    with serving({"heavy": heavy, "light": rss(item("a"))}) as served:
        settings = replace(HERE, harvest_parse_seconds_max=0.3, harvest_parsers=1)
        found = visit(store, served.url("heavy"), settings)
        assert found.problem == "reading the feed took more than 0.3 seconds"
        assert visit(store, served.url("light"), replace(settings, harvest_parse_seconds_max=20.0)).found.new == 1


def test_a_feed_that_takes_too_much_memory_costs_its_own_reader_only(store):
    heavy = rss(item("a", text="words " * 2_500_000))
    with serving({"heavy": heavy}) as served:
        found = visit(store, served.url("heavy"), replace(HERE, harvest_parse_bytes_max=120_000_000))
    assert found.problem == "reading the feed failed: its process ended (out of memory?)"


LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "ha">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(12))
    + b"]><rss version='2.0'><channel><item><guid>1</guid><title>&m;</title></item></channel></rss>"
)
OUTSIDE = (
    b'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY f SYSTEM "file:///etc/passwd"><!ENTITY % p SYSTEM "http://127.0.0.1:1/">'
    b"%p;]><rss version='2.0'><channel><item><guid>1</guid><title>x&f;</title></item></channel></rss>"
)
HOSTILE = {
    "empty": b"",
    "zeros": bytes(100_000),
    "chance": bytes(n * 7919 % 256 for n in range(100_000)),
    "cut": rss(item("a"), item("b"))[:-60],
    "twice": rss(item("a")) * 2,
    "deep": b"<rss version='2.0'><channel><item><guid>1</guid><description>" + b"<p>" * 100_000,
    "deep html": rss(item("a", text="&lt;div&gt;" * 20_000)),
    "attributes": b"<rss version='2.0'><channel><item "
    + b"".join(b"a%d='x' " % n for n in range(50_000))
    + b"/></channel></rss>",
    "attribute": b"<rss version='2.0' x='" + b"y" * 1_000_000 + b"'><channel/></rss>",
    "laughs": LAUGHS,
    "outside": OUTSIDE,
    "utf-16 that is not": b"\xff\xfe" + rss(item("a")),
    "wrong encoding": b'<?xml version="1.0" encoding="utf-32"?>' + rss(item("a")).partition(b"?>")[2],
    "no encoding of this name": b'<?xml version="1.0" encoding="x-nothing"?>' + rss(item("a")).partition(b"?>")[2],
    "not utf-8": rss(item("a", "caf\u00e9")).decode().encode("latin-1"),
    "control": rss(item("a", "x\x01\x02\x0by")),
    "nul": rss(item("a")).replace(b"Title", b"Ti\0tle"),
    "surrogate": rss(item("a", "&#xD800;&#x110000;&#0;")),
    "years": rss(
        item("a") + "<pubDate>Mon, 31 May 99999 18:30:00 GMT</pubDate>", item("b") + "<pubDate>0000-00-00</pubDate>"
    ),
    "no guid": rss(*(f"<title>{n}</title>" for n in range(5))),
    "nothing": rss("", "", ""),
    "page": b"<!DOCTYPE html><html><body><h1>Sign in</h1></body></html>",
    "json": b'{"version": "https://jsonfeed.org/version/1", "items": []}',
}


def test_hostile_feeds_are_read_or_refused_with_a_reason_and_never_stop_the_others(store):
    with serving(HOSTILE) as served:
        numbers = {}
        for name in HOSTILE:
            numbers[
                sources.add(store, HERE, ANN, {"address": served.url(name.replace(" ", "%20")), "name": name}).number
            ] = name
        for body in list(HOSTILE):
            HOSTILE[body.replace(" ", "%20")] = HOSTILE[body]
        found = Harvester(store, replace(HERE, harvest_parse_seconds_max=5.0)).visit_once(list(numbers))
    by_name = {one.source.name: one for one in found}
    assert by_name.keys() == set(numbers.values())
    for name, one in by_name.items():
        assert one.problem is None or one.problem.startswith(("this is no feed", "reading the feed")), (
            name,
            one.problem,
        )
    for name in ("empty", "zeros", "chance", "page", "json"):
        assert by_name[name].problem, name
    for name in ("cut", "control", "not utf-8", "years", "no guid", "wrong encoding", "no encoding of this name"):
        assert by_name[name].found.new, name
    stored = [one for chunk in documents.read(store, 0, documents.last_position(store)) for one in chunk]
    assert all(len(one.body) < 1_000_000 for one in stored)
    text = json.dumps([one.body for one in stored])
    assert "root:" not in text
    assert "hahahahahaha" not in text
    assert "\\u0000" not in text


@pytest.mark.parametrize("kind", ["image/png", "application/pdf", "application/json", "video/mp4; x=y"])
def test_what_says_it_is_something_else_is_refused(store, kind):
    with serving(lambda path, headers: Reply(rss(item("a")), headers={"content-type": kind})) as served:
        assert visit(store, served.url("feed")).problem == f"this is no feed but {kind.partition(';')[0]}"


@pytest.mark.parametrize(
    "kind", ["text/html", "text/plain", "", "nonsense", "application/octet-stream; charset=klingon"]
)
def test_a_feed_that_lies_about_its_type_is_read_all_the_same(store, kind):
    with serving(lambda path, headers: Reply(rss(item("a")), headers={"content-type": kind})) as served:
        assert visit(store, served.url("feed")).found.new == 1


def test_hostile_headers_are_not_sent_back(store):
    evil = {"etag": '"' + "x" * 5_000 + '"', "last-modified": "caf\u00e9"}
    with serving(lambda path, headers: Reply(rss(item("a")), headers=evil)) as served:
        number = visit(store, served.url("feed")).source.number
    source = sources.get(store, number)
    assert (source.etag, source.modified) == (None, None)


# --- text, not markup ------------------------------------------------------------------------------------------------

EVIL = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "</title><script>alert(1)",
    "javascript:alert(1)", "<![CDATA[<script>alert(1)</script>]]>", "&lt;script&gt;alert(1)&lt;/script&gt;",
)  # fmt: skip


@pytest.mark.parametrize("evil", EVIL)
def test_what_a_feed_says_is_text_in_every_message(store, evil):
    from xml.sax.saxutils import escape

    once = escape(escape(evil)) if "<" in evil else escape(evil)
    with serving({"feed": rss(item("a", once, once))}) as served:
        number = sources.add(store, HERE, ANN, {"address": served.url("feed"), "name": evil}).number
        assert Harvester(store, HERE).visit_once([number])[0].found.new == 1
    stored = documents.at_positions(store, [1])[1]
    notification = Notification(1, "ann", evil, stored.id, 1, 1.0, 0, None, 0.0)
    message = compose([Told(1, "s", evil, (telling_of(store, notification),))], ChannelSettings(), "https://x/?a=1&b=2")
    inside = message.html.partition("<body")[2]
    for tag in ("<script", "<img", "<svg", "onerror=alert(1)>", "</title"):
        assert tag not in inside.lower()
    assert "\n" not in message.subject
