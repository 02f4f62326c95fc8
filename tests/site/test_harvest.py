"""Feeds are harvested: each item once, politely, with a reason where it fails."""

from __future__ import annotations

import json
import sqlite3
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import event

from tests.site.source_server import HERE, Reply, item, rss, serving
from tocsin.site.accounts import Account, Role
from tocsin.site.harvest import politeness, sources
from tocsin.site.harvest.harvester import Harvester, Visited
from tocsin.site.harvest.settings import HarvestSettings
from tocsin.site.problems import Conflict, Forbidden, Invalid, NotFound, Problem
from tocsin.store import Store, documents
from tocsin.store import sources as kept
from tocsin.store.documents import Stored

ANN = Account("ann", Role.PUBLISHER)
BOB = Account("bob", Role.SUBSCRIBER)
ROOT = Account("admin", Role.ADMIN)
SAMPLE = 200


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


def add(store: Store, url: str, settings: HarvestSettings = HERE, **more: object) -> int:
    return sources.add(store, settings, ANN, {"address": url, **more}).number


def visit(store: Store, *numbers: int, settings: HarvestSettings = HERE) -> list[Visited]:
    return Harvester(store, settings).visit_once(numbers or [one.number for one in sources.listed(store)])


def one_visit(store: Store, number: int, settings: HarvestSettings = HERE) -> Visited:
    (found,) = visit(store, number, settings=settings)
    return found


def all_documents(store: Store) -> list[Stored]:
    return [one for chunk in documents.read(store, 0, documents.last_position(store)) for one in chunk]


# --- an item becomes a document --------------------------------------------------------------------------------------


def test_an_item_becomes_a_document_with_its_fields(store):
    feed = rss(
        "<guid>tag:1</guid><title>On &lt;b&gt;peers&lt;/b&gt;</title><link>https://example.org/1</link>"
        "<description>&lt;p&gt;First.&lt;/p&gt;&lt;script&gt;no&lt;/script&gt;&lt;p&gt;Second &amp;amp; last.&lt;/p&gt;"
        "</description><author>ann@example.org (Ann)</author><category>p2p</category><category>news</category>"
        "<pubDate>Mon, 31 May 2004 18:30:00 +0200</pubDate>"
    )
    with serving({"feed": feed}) as served:
        number = add(store, served.url("feed"), name="Example news")
        assert one_visit(store, number).found.new == 1
    (stored,) = all_documents(store)
    document = stored.document()
    assert document.id.startswith(sources.get(store, number).key + "/")
    assert (document.source, document.time) == ("Example news", "2004-05-31T16:30:00Z")
    assert dict(document.fields) == {
        "title": ("On peers",),
        "summary": ("First.\nSecond & last.",),
        "author": ("Ann",),
        "category": ("p2p", "news"),
        "link": ("https://example.org/1",),
    }


def test_the_content_of_atom_is_the_text(store):
    feed = (
        b'<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><entry><id>urn:1</id><title>One</title>'
        b'<link href="https://example.org/a"/><summary>Short</summary><content type="html">&lt;p&gt;Long text&lt;/p&gt;'
        b"</content><author><name>Ann</name></author><author><name>Bob</name></author>"
        b"<updated>2020-01-02T03:04:05Z</updated></entry></feed>"
    )
    with serving({"feed": feed}) as served:
        one_visit(store, add(store, served.url("feed")))
    fields = all_documents(store)[0].document().fields
    assert (fields["summary"], fields["text"], fields["author"]) == (("Short",), ("Long text",), ("Ann", "Bob"))


def test_a_link_that_is_no_web_address_is_left_out(store):
    feed = rss("<guid>1</guid><title>x</title><link>javascript:alert(1)</link>")
    with serving({"feed": feed}) as served:
        one_visit(store, add(store, served.url("feed")))
    assert "link" not in all_documents(store)[0].document().fields


def test_a_clock_in_the_future_costs_the_item_its_time_only(store):
    ahead = format_datetime(datetime.now(UTC) + timedelta(days=400))
    with serving({"feed": rss(item("a") + f"<pubDate>{ahead}</pubDate>", item("b"))}) as served:
        found = one_visit(store, add(store, served.url("feed")))
    assert found.found.new == 2
    assert found.note is not None
    assert "future" in found.note
    assert {one.document().time for one in all_documents(store)} == {None}


# --- each item once --------------------------------------------------------------------------------------------------


def test_a_second_visit_is_conditional_and_brings_nothing(store):
    feed = rss(item("a"), item("b"))

    def answer(_path: str, headers: Mapping[str, str]) -> Reply:
        if (
            headers.get("if-none-match") == '"v1"'
            and headers.get("if-modified-since") == "Mon, 31 May 2004 00:00:00 GMT"
        ):
            return Reply(status=304)
        return Reply(feed, headers={"etag": '"v1"', "last-modified": "Mon, 31 May 2004 00:00:00 GMT"})

    with serving(answer) as served:
        number = add(store, served.url("feed"))
        assert one_visit(store, number).found.new == 2
        second = one_visit(store, number)
    assert (second.found.told, second.found.repeated, second.problem) == (0, 0, None)
    assert "if-none-match" not in served.asked[0].headers
    assert "Tocsin" in served.asked[0].headers["user-agent"]


def test_without_validators_the_second_visit_finds_repeats_only(store):
    with serving({"feed": rss(item("a"), item("b"))}) as served:
        number = add(store, served.url("feed"))
        one_visit(store, number)
        second = one_visit(store, number)
    assert (second.found.told, second.found.repeated) == (0, 2)
    assert documents.last_position(store) == 2


LONG = "Peers that publish documents reach subscribers through super peers which keep the queries of their clients " * 3


def test_an_item_is_news_when_its_words_are(store):
    versions = [
        rss(item("a", "Peers meet", LONG)),
        rss(item("a", "Peers meet", LONG).replace("example.org/a", "example.org/a?utm=1")),  # another link
        rss(item("a", "Peers meet", LONG + " today")),  # nearly the same
        rss(
            item("a", "Peers part", "Nothing that was said before is said here again, for everything has changed now.")
        ),
    ]
    told = []
    with serving(lambda path, headers: Reply(versions[now])) as served:
        now = 0
        number = add(store, served.url("feed"))
        for now in range(len(versions)):  # noqa: B007 - the server reads it
            found = one_visit(store, number).found
            told.append((found.new, found.updated, found.repeated))
    assert told == [(1, 0, 0), (0, 0, 1), (0, 0, 1), (0, 1, 0)]
    assert [one.version for one in all_documents(store)] == [1, 2]


def test_near_identical_text_is_told_once_across_sources(store):
    bodies = {
        "one": rss(item("a", "Peers meet", LONG)),
        "two": rss(item("b", "Peers meet", LONG + "(agency)")),
        "three": rss(
            item("c", "Peers part", "Another text about other things that shares no run of words with it at all.")
        ),
    }
    with serving(bodies) as served:
        numbers = [add(store, served.url(name)) for name in bodies]
        for number in numbers:
            visit(store, number)
        again = visit(store, *numbers)
    assert [one.document().fields["title"] for one in all_documents(store)] == [("Peers meet",), ("Peers part",)]
    assert [one.twins for one in sources.listed(store)] == [0, 1, 0]
    assert sum(one.found.told + one.found.twins for one in again) == 0


def test_near_identical_text_is_compared_within_the_window_only(store):
    short = replace(HERE, near_window_seconds=0.5)
    with serving({"one": rss(item("a", "", LONG)), "two": rss(item("b", "", LONG))}) as served:
        one, two = add(store, served.url("one")), add(store, served.url("two"))
        visit(store, one, settings=short)
        time.sleep(0.6)
        visit(store, two, settings=short)
    assert documents.last_position(store) == 2


def test_items_that_share_one_guid_are_told_apart_by_their_words(store):
    same = [item("same", f"Title {number}", f"Text {number}") for number in range(3)]
    with serving({"feed": rss(*same)}) as served:
        number = add(store, served.url("feed"))
        assert one_visit(store, number).found.new == 3
        assert one_visit(store, number).found.told == 0
    assert {one.version for one in all_documents(store)} == {1}


def test_a_source_that_is_removed_and_added_again_knows_its_items(store):
    with serving({"feed": rss(item("a"))}) as served:
        number = add(store, served.url("feed"))
        one_visit(store, number)
        sources.remove(store, ANN, number)
        assert visit(store) == []
        assert one_visit(store, add(store, served.url("feed"))).found.repeated == 1
    assert documents.last_position(store) == 1


def test_what_a_visit_finds_is_never_noted_with_another_source_of_its_number(store):
    """The database may give the number of a source that was removed during its visit to the next one."""
    other: list[int] = []

    def answer(path: str, _headers: object) -> Reply:
        if path == "/first":
            sources.remove(store, ANN, first)
            other.append(add(store, served.url("second")))
        return Reply(rss(item(path)))

    with serving(answer) as served:
        first = add(store, served.url("first"))
        assert visit(store, first) == []
        assert other == [first]
        assert sources.health(sources.get(store, first)) == "new"
        assert one_visit(store, first).found.new == 1


# --- real feeds ------------------------------------------------------------------------------------------------------


def real_feeds(data_dir: Path, most: int | None) -> dict[str, bytes]:
    """Feeds of the test suites of four feed readers."""
    file = data_dir / "xml" / "feeds_rss_atom.tar.gz"
    if not file.exists():
        pytest.skip(f"real data is absent: {file.name}")
    found: dict[str, bytes] = {}
    with tarfile.open(file) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith((".xml", ".rss")):
                content = archive.extractfile(member)
                assert content is not None
                found[f"{len(found)}.xml"] = content.read()
    if most is None:
        return found
    return dict(list(found.items())[:: max(1, len(found) // most)][:most])


def check_real_feeds(store: Store, feeds: dict[str, bytes]) -> None:
    """Compared by id only: many of these feeds hold the same text on purpose."""
    settings = replace(HERE, near_window_seconds=0.0)

    @event.listens_for(store.engine, "connect")
    def hurry(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA synchronous=OFF")  # ten thousand transactions, none of which is to survive

    with serving(feeds) as served:
        for name in feeds:
            add(store, served.url(name), settings)
        numbers = [one.number for one in sources.listed(store, limit=10_000)]
        first = visit(store, *numbers, settings=settings)
        stored = documents.last_position(store)
        second = visit(store, *numbers, settings=settings)
    assert sorted(one.source.number for one in first) == numbers
    assert stored == sum(one.found.new for one in first) > len(feeds) // 2
    ids = [one.id for one in all_documents(store)]
    assert len(set(ids)) == len(ids) == stored
    assert sum(one.found.told for one in second) == 0
    assert sum(one.found.repeated for one in second) == stored
    assert documents.last_position(store) == stored
    # What is no feed says so; nothing failed for a reason of ours.
    assert all((one.problem or "this is no feed").startswith("this is no feed") for one in first + second)
    assert sum(one.problem is not None for one in first) <= len(feeds) // 100
    assert not any(one.found.refused for one in first)


def test_real_feeds_are_harvested_each_item_once(store, data_dir):
    check_real_feeds(store, real_feeds(data_dir, SAMPLE))


@pytest.mark.slow
def test_all_real_feeds_are_harvested_each_item_once(store, data_dir):
    feeds = real_feeds(data_dir, None)
    assert len(feeds) == 4_167
    check_real_feeds(store, feeds)


# --- manners ---------------------------------------------------------------------------------------------------------


def test_a_host_is_asked_one_at_a_time_with_a_pause(store):
    with serving(lambda path, headers: Reply(rss(item(path)), sleep=0.05)) as served:
        for number in range(4):
            add(store, served.url(f"{number}"))
        assert len(visit(store, settings=replace(HERE, harvest_host_delay_seconds=0.1))) == 4
    asked = sorted(served.asked, key=lambda one: one.begun)
    assert len(asked) == 4
    for before, after in pairwise(asked):
        assert after.begun - before.ended > 0.05


def test_a_slow_source_does_not_hold_up_the_others(store):
    def answer(path: str, _headers: object) -> Reply:
        return Reply(rss(item("x", text=path)), sleep=2.0 if path == "/slow" else 0.0)

    done: list[int] = []
    with serving(answer) as served:
        slow = add(store, served.url("slow", "127.0.0.2"))
        quick = [add(store, served.url(f"{number}", f"127.0.0.{number}")) for number in range(3, 8)]
        Harvester(store, HERE, told=lambda one: done.append(one.source.number)).visit_once()
    assert sorted(done[:-1]) == quick
    assert done[-1] == slow


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(store, status):
    with serving(lambda path, headers: Reply(status=status, headers={"retry-after": "7200"})) as served:
        number = add(store, served.url("feed"))
        assert one_visit(store, number).problem == f"answered {status}, asks for 7,200 seconds"
    assert sources.get(store, number).due > time.time() + 7_000


def test_what_a_host_asks_for_may_be_a_date_and_is_bounded():
    settings = HarvestSettings()
    date = format_datetime(datetime.fromtimestamp(1_000_600, UTC), usegmt=True)
    assert politeness.asked_to_wait(date, settings, now=1_000_000.0) == 600
    assert politeness.asked_to_wait("999999999999", settings) == settings.harvest_longest_wait_seconds
    for text in (None, "", "soon", "-5", "1e9", "٣", "Mon, 99 Foo 2004"):
        assert politeness.asked_to_wait(text, settings) == 0.0


def test_waits_double_up_to_the_longest_and_leave_something_to_chance():
    settings = HarvestSettings()
    longest = [politeness.wait_seconds(failed, settings, lambda: 0.0) for failed in range(1, 15)]
    assert longest[:3] == [60.0, 120.0, 240.0]
    assert longest[-1] == politeness.wait_seconds(10**6, settings, lambda: 0.0) == 86_400.0
    assert politeness.wait_seconds(1, settings, lambda: 1.0) == 48.0
    assert politeness.next_visit(1_000.0, settings, lambda: 0.0) == 900.0
    assert politeness.next_visit(1_000.0, settings, lambda: 1.0) == 1_100.0


def test_failures_are_counted_and_told_with_their_reason_until_a_visit_goes_well(store):
    status = 500
    with serving(lambda path, headers: Reply(rss(item("a")), status=status)) as served:
        number = add(store, served.url("feed"))
        assert sources.health(sources.get(store, number)) == "new"
        for failed in (1, 2):
            one_visit(store, number)
            source = sources.get(store, number)
            assert (sources.health(source), source.failures, source.problem) == ("failing", failed, "answered 500")
            assert source.due > time.time() + 0.75 * 60 * 2 ** (failed - 1)
        status = 200
        one_visit(store, number)
    source = sources.get(store, number)
    assert (sources.health(source), source.failures, source.problem, source.documents) == ("ok", 0, None, 1)
    assert source.succeeded is not None
    assert time.time() + 1_000 < source.due < time.time() + 2_200


def test_a_server_that_is_not_there_is_a_reason(store):
    number = add(store, "http://127.0.0.1:9/feed")
    problem = one_visit(store, number).problem
    assert problem is not None
    assert problem.startswith("cannot be reached")


def test_the_harvester_visits_in_its_thread_what_is_due_and_what_becomes_due(store):
    with serving({"a": rss(item("a")), "b": rss(item("b"))}) as served:
        add(store, served.url("a"))
        harvester = Harvester(store, HERE)
        harvester.start()
        try:
            _until(lambda: documents.last_position(store) == 1)
            add(store, served.url("b"))
            _until(lambda: documents.last_position(store) == 2)
        finally:
            harvester.stop()
        assert harvester.failure is None
    assert sorted(served.paths()) == ["/a", "/b"]


def _until(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


# --- redirects -------------------------------------------------------------------------------------------------------


def test_redirects_are_followed_and_told_when_they_are_for_good(store):
    def answer(path: str, _headers: object) -> Reply:
        if path.startswith("/moved"):
            return Reply(status=int(path[-3:]), headers={"location": "/feed"})
        return Reply(rss(item(path)))

    with serving(answer) as served:
        notes = [one_visit(store, add(store, served.url(f"moved{status}"))).note for status in (301, 302, 307, 308)]
    assert [note is not None for note in notes] == [True, False, False, True]


def test_a_source_that_has_moved_knows_its_items(store):
    with serving({"old": rss(item("a")), "new": rss(item("a"), item("b"))}) as served:
        number = add(store, served.url("old"))
        one_visit(store, number)
        sources.change(store, HERE, ANN, number, {"address": served.url("new")})
        found = one_visit(store, number).found
        assert (found.new, found.repeated) == (1, 1)
        begun = {"granularity": "YYYY-MM-DD", "from": "2026-01-01", "token": "t", "first": "2026-02-02", "pages": 3}
        kept.change(store, number, cursor=begun)
        sources.change(store, HERE, ANN, number, {"address": served.url("newer")})
        assert sources.get(store, number).cursor == {"granularity": "YYYY-MM-DD", "from": "2026-01-01"}
        sources.change(store, HERE, ANN, number, {"address": served.url("new")})
        for name in ("old", "new"):
            with pytest.raises(Conflict):
                add(store, served.url(name))
    with pytest.raises(Invalid):
        sources.change(store, HarvestSettings(), ANN, number, {"address": "http://127.0.0.1/feed"})


def test_endless_redirects_end(store):
    with serving(lambda path, headers: Reply(status=302, headers={"location": path + "x"})) as served:
        number = add(store, served.url("feed"))
        assert one_visit(store, number).problem == "redirects more than 5 times"
    assert len(served.asked) == 6


# --- who may do what -------------------------------------------------------------------------------------------------


def test_sources_are_common_but_their_addresses_are_not(store):
    number = sources.add(store, HERE, ANN, {"address": "https://example.org/feed?token=s3cret"}).number
    source = sources.get(store, number)
    assert "s3cret" in sources.as_json(source, ANN)["address"]
    assert "s3cret" in sources.as_json(source, ROOT)["address"]
    assert "s3cret" not in str(sources.as_json(source, BOB))
    assert "s3cret" not in repr(source)
    assert b"s3cret" not in sources.export_opml(store, BOB)
    with pytest.raises(Conflict):
        sources.add(store, HERE, ROOT, {"address": "https://example.org/feed?token=s3cret"})
    for do in (
        lambda: sources.add(store, HERE, BOB, {"address": "https://example.org/other"}),
        lambda: sources.change(store, HERE, BOB, number, {"name": "mine"}),
        lambda: sources.remove(store, BOB, number),
        lambda: sources.visit_soon(store, BOB, number),
    ):
        with pytest.raises(Forbidden):
            do()
    assert sources.change(store, HERE, ROOT, number, {"name": "x", "tags": ["a", "a"]}).tags == ("a",)
    sources.remove(store, ROOT, number)
    with pytest.raises(NotFound):
        sources.get(store, number)


@pytest.mark.parametrize(
    "body",
    [
        None, [], {}, {"address": 7}, {"address": "ftp://example.org/"},
        {"address": "https://example.org/", "kind": "x"},
        {"address": "https://example.org/", "interval": 1}, {"address": "https://example.org/", "interval": True},
        {"address": "https://example.org/", "interval": float("nan")}, {"address": "https://example.org/", "name": 5},
        {"address": "https://example.org/", "tags": "a"}, {"address": "https://example.org/", "tags": [""]},
        {"address": "https://example.org/", "what": 1}, {"address": "https://u:p@example.org/"},
        {"address": "https://example.org/", "kind": "oai", "prefix": "marc21"},
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_is_refused(store, body):
    with pytest.raises(Invalid):
        sources.add(store, HERE, ANN, body)


def test_a_paused_source_is_not_visited(store):
    with serving({"feed": rss(item("a"))}) as served:
        number = add(store, served.url("feed"))
        sources.change(store, HERE, ANN, number, {"state": "paused"})
        assert Harvester(store, HERE).visit_once() == []
        assert sources.health(sources.get(store, number)) == "paused"
        sources.change(store, HERE, ANN, number, {"state": "active"})
        assert len(Harvester(store, HERE).visit_once()) == 1
        assert Harvester(store, HERE).visit_once() == []  # it is not due again


# --- lists -----------------------------------------------------------------------------------------------------------

OPML = b"""<?xml version="1.0"?><opml version="1.0"><head><title>x</title></head><body>
<outline text="Science"><outline text="A &amp; B" type="rss" xmlUrl="https://example.org/a?x=1&amp;y=2"/>
<outline text="Deep"><outline title="C" xmlUrl="https://example.org/c"/></outline></outline>
<outline text="Bad" xmlUrl="http://127.0.0.1/feed"/><outline text="D" xmlUrl="https://example.org/d"/></body></opml>"""


def test_opml_goes_in_and_out(store):
    result = sources.import_opml(store, HarvestSettings(), ANN, OPML)
    assert [(one.name, one.tags) for one in result.added] == [
        ("A & B", ("Science",)),
        ("C", ("Science", "Deep")),
        ("D", ()),
    ]
    assert [name for name, _ in result.refused] == ["Bad"]
    again = sources.import_opml(store, HarvestSettings(), ANN, sources.export_opml(store, ANN))
    assert (len(again.added), again.repeated, again.refused) == (0, 3, ())


@pytest.mark.parametrize(
    "data",
    [
        b"", b"no xml", b"<rss/>", b"<opml><body>", b'<!DOCTYPE opml [<!ENTITY a "b">]><opml>&a;</opml>',
        b"<opml><body>" + b"<outline text='x'>" * 5_000 + b"</outline>" * 5_000 + b"</body></opml>",
    ],
)  # fmt: skip
def test_what_is_no_opml_is_refused(store, data):
    with pytest.raises(Problem):
        sources.import_opml(store, HarvestSettings(), ANN, data)
    assert sources.listed(store) == []


# --- folders ---------------------------------------------------------------------------------------------------------

AT_ONCE = replace(HERE, harvest_settle_seconds=0.0)


def test_a_watched_folder_brings_new_and_changed_files(store, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": "1", "text": "one"}\n{"id": 2}\n')
    number = sources.add(store, AT_ONCE, ROOT, {"kind": "folder", "address": str(folder)}).number
    first = one_visit(store, number, AT_ONCE)
    assert (first.found.new, len(first.found.refused)) == (1, 1)
    assert one_visit(store, number, AT_ONCE).found.repeated == 0  # the file is not read again
    (folder / "b.csv").write_text("id,text\n3,three\n")
    with (folder / "a.jsonl").open("a") as file:
        file.write('{"id": "4", "text": "four"}\n')
    second = one_visit(store, number, AT_ONCE)
    assert (second.found.new, second.found.repeated) == (2, 1)
    assert [one.id for one in all_documents(store)] == ["1", "4", "3"]


def test_a_file_with_bad_xml_loses_nothing_else(store, tmp_path):
    lines = [{"id": "1", "xml": "<a><b></a>"}, {"id": "2", "xml": "<a/>"}, {"id": "3\0"}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    number = sources.add(store, AT_ONCE, ROOT, {"kind": "folder", "address": str(tmp_path)}).number
    found = one_visit(store, number, AT_ONCE).found
    assert (found.new, len(found.refused)) == (1, 2)
    assert [one.id for one in all_documents(store)] == ["2"]


def test_a_file_that_is_still_written_waits(store, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "1"}\n')
    number = sources.add(store, HERE, ROOT, {"kind": "folder", "address": str(tmp_path)}).number
    found = one_visit(store, number, replace(HERE, harvest_settle_seconds=60.0))
    assert (found.found.new, found.note) == (0, "1 files are still being written")


def test_only_an_administrator_has_folders_watched(store, tmp_path):
    with pytest.raises(Forbidden):
        sources.add(store, HERE, ANN, {"kind": "folder", "address": str(tmp_path)})
    no_folders = replace(HERE, harvest_allows_folders=False)
    with pytest.raises(Forbidden):
        sources.add(store, no_folders, ROOT, {"kind": "folder", "address": str(tmp_path)})
    with pytest.raises(Invalid):
        sources.add(store, HERE, ROOT, {"kind": "folder", "address": "relative"})


def test_a_folder_that_is_gone_is_a_reason(store, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    number = sources.add(store, HERE, ROOT, {"kind": "folder", "address": str(folder)}).number
    folder.rmdir()
    assert one_visit(store, number).problem == "there is no such folder"
