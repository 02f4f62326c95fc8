"""Two sites in one process, each a node: what one publishes, the other's subscribers are told, as the oracle says."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from tests.ports import free_port
from tests.site.federated import PACE, Joined, running, sites, until
from tocsin.model import Document
from tocsin.net.host import Host, HostSettings, keeper
from tocsin.net.identity import Endpoint, client_context, open_identity
from tocsin.net.limits import DEFAULT_LIMITS
from tocsin.net.link import FAILURES, connect, frame
from tocsin.overlay.delivery import Notice
from tocsin.overlay.key import MASK
from tocsin.overlay.message import peer
from tocsin.overlay.placement.cover import cover
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge, holds
from tocsin.site import intake, life
from tocsin.site.federation import JOB, Federation, owed
from tocsin.store import documents, outbox
from tocsin.text import Analysis
from tocsin.web.federated import gauges

QUERIES = {
    "words": "title:kestrel AND NOT abstract:seed",
    "either": "title:ring OR abstract:ring",
    "similar": 'title ~ "kestrel over water" >= 0.3',
    "range": "year >= 2020",
    "nested": "author:IN:(title:networks AND author:Bob)",
}


def paper(number: int) -> dict[str, object]:
    words = ["kestrel", "ring", "water", "networks", "seed"]
    chosen = [word for place, word in enumerate(words) if number >> place & 1]
    author = ["Bob", "Carol"] if number % 5 == 0 else ["Carol" if number % 2 else "Dan"]
    return {
        "id": f"d{number}", "title": " ".join(chosen) or "none", "abstract": " ".join(chosen[::-2]),
        "year": 2000 + number, "author": author,
    }  # fmt: skip


def test_what_one_site_publishes_the_subscribers_of_the_other_are_told_once(tmp_path):
    with sites(tmp_path, 2) as (home, away):
        here, ann, there, bob = home.site, home.account, away.site, away.account
        for name, query in QUERIES.items():
            life.create(here, ann, {"id": name, "query": query})
        life.create(here, ann, {"id": "path", "xpath": "//title"})
        until(lambda: home.standing() == len(QUERIES) + 2)  # with the inner query of the nested one
        papers = [paper(number) for number in range(24)]
        intake.publish(there, bob, papers[:16])
        intake.publish(here, ann, papers[16:])
        published = [Document(str(one["id"]), {k: _values(v) for k, v in one.items() if k != "id"}) for one in papers]
        knowledge = Knowledge(documents=published)
        exact = ("words", "either", "range")
        expected = {
            (name, one.id, 1) for name in exact for one in published if holds(parse(QUERIES[name]), one, knowledge)
        }  # fmt: skip
        needed = {one.id for one in published[:16] if holds(parse(QUERIES["nested"]), one, knowledge)}
        needed |= {one.id for one in published[:16] if holds(parse("title:networks AND author:Bob"), one, knowledge)}
        until(lambda: expected <= set(home.told()))
        until(lambda: all(documents.find(here.store, id) is not None for id in needed))
        time.sleep(0.5)
        found = home.told()
        assert len(found) == len(set(found))
        assert {one for one in found if one[0] in exact} == expected
        titles = {str(one["id"]): str(one["title"]).split() for one in papers}
        assert all({"kestrel", "over", "water"} & set(titles[id]) for name, id, _ in found if name == "similar")
        assert any(name == "similar" for name, _, _ in found)
        assert any(name == "path" for name, _, _ in found) is False  # none of these has XML
        assert away.told() == []
        assert documents.count(there.store) == 16  # what came from here stayed here: nobody asked for it there


def _values(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def test_pausing_changing_and_deleting_reach_the_ring(tmp_path):
    """X2, across sites: no copy stays, and what was told before stays told."""
    with sites(tmp_path, 2) as (home, away):
        here, ring, ann, there, bob = home.site, home.federation, home.account, away.site, away.account
        life.create(here, ann, {"id": "s", "query": "title:kestrel"})
        until(lambda: home.standing() == 1)
        intake.publish(there, bob, [{"id": "one", "title": "kestrel"}])
        until(lambda: home.told() == [("s", "one", 1)])
        life.edit(here, ann, "s", {"state": "paused"})
        until(lambda: not ring._ask(lambda: ring._words.subscriber._records))
        intake.publish(there, bob, [{"id": "two", "title": "kestrel"}])
        life.edit(here, ann, "s", {"state": "active", "query": "title:osprey"})
        until(lambda: home.standing() == 1)
        intake.publish(there, bob, [{"id": "three", "title": "osprey"}, {"id": "four", "title": "kestrel"}])
        intake.publish(there, bob, [{"id": "three", "title": "osprey again", "version": 2}])
        until(lambda: home.told() == [("s", "one", 1), ("s", "three", 1), ("s", "three", 2)])
        life.edit(here, ann, "s", {"expires": time.time() + 1.0})
        until(lambda: not ring._ask(lambda: ring._words.subscriber._records))  # it has expired
        life.edit(here, ann, "s", {"expires": None, "state": "active"})
        until(lambda: home.standing() == 1)
        life.delete(here, ann, "s")
        until(lambda: not ring._ask(lambda: ring._words.subscriber._records))
        intake.delete(there, bob, "three")
        until(lambda: "three" not in there.federation._ask(lambda: there.federation._words.publisher.documents))  # type: ignore[union-attr]


def test_another_document_of_the_same_name_is_refused_and_kept_among_the_letters(tmp_path):
    with sites(tmp_path, 2) as (home, away):
        here, ann, there, bob = home.site, home.account, away.site, away.account
        intake.publish(here, ann, [{"id": "same", "title": "mine"}])
        life.create(here, ann, {"id": "s", "query": "title:theirs"})
        until(lambda: home.standing() == 1)
        intake.publish(there, bob, [{"id": "same", "title": "theirs"}])
        until(lambda: bool(outbox.letters(here.store, JOB)))
        (letter,) = outbox.letters(here.store, JOB)
        assert "other content" in letter.reason
        assert home.told() == []


def test_what_a_store_could_not_take_for_a_moment_is_taken_later(tmp_path, monkeypatch):
    """No match lost: a document counts as taken when it is in the log, not when it has come."""
    accept, failures = documents.accept, list[str]()

    def failing(store: Any, some: Any, by: str = "", **more: Any) -> Any:
        if "@" in by and len(failures) < 2:
            failures.append(by)
            raise OperationalError("INSERT", {}, Exception("database is locked"))
        return accept(store, some, by, **more)

    monkeypatch.setattr(documents, "accept", failing)
    with sites(tmp_path, 2) as (home, away):
        life.create(home.site, home.account, {"id": "s", "query": "title:kestrel"})
        until(lambda: home.standing() == 1)
        away.publish({"id": "one", "title": "kestrel"}, {"id": "two", "title": "kestrel again"})
        until(lambda: set(home.told()) == {("s", "one", 1), ("s", "two", 1)}, home.told)
        assert len(home.told()) == len(failures) == 2


def test_a_publisher_that_is_away_holds_up_nobody_and_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(owed, "PAUSE_SECONDS", 0.1)
    is_back, fetch = threading.Event(), Federation._fetch

    def followed(self: Federation, wanted: dict[tuple[str, int], Notice]) -> set[tuple[str, int]]:
        lost = set() if is_back.is_set() else {name for name in wanted if name[0] == "gone"}
        return lost | fetch(self, {name: one for name, one in wanted.items() if name not in lost})

    monkeypatch.setattr(Federation, "_fetch", followed)
    with sites(tmp_path, 2) as (home, away):
        life.create(home.site, home.account, {"id": "s", "query": "title:kestrel"})
        until(lambda: home.standing() == 1)
        away.publish({"id": "gone", "title": "kestrel"})
        until(lambda: len(home.federation._owed) == 1)
        away.publish({"id": "there", "title": "kestrel again"})
        until(lambda: home.told() == [("s", "there", 1)], home.told)
        is_back.set()
        until(lambda: set(home.told()) == {("s", "there", 1), ("s", "gone", 1)}, home.told)
        until(lambda: len(home.federation._owed) == 0)


def test_what_is_owed_waits_on_the_disk_more_and_more_patiently():
    disk: dict[bytes, bytes] = {}
    notices = [Notice("s", f"d{number}", 1, f"{'ab'[number % 2]}@x") for number in range(4)]
    first = owed.Owed(disk)
    first.put(enumerate(notices), 0.0)
    assert first.due(1.0, 9) == []
    assert [number for number, _ in first.due(5.0, 3)] == [0, 1, 2]
    first.unanswered("a@x", 5.0)
    first.unanswered("a@x", 6.0)  # of the same round
    assert [one.link for _, one in first.due(14.0, 9)] == ["b@x", "b@x"]
    assert len(first.due(15.0, 9)) == 4
    first.drop([0, 1])
    again = owed.Owed(disk)
    assert again.due(0.0, 9) == [(2, notices[2]), (3, notices[3])]
    assert again.overdue(owed.KEPT_SECONDS) == []
    assert [number for number, _ in again.overdue(owed.KEPT_SECONDS + 1)] == [2, 3]


def test_how_the_node_is_stands_among_the_metrics(tmp_path):
    async def nonsense(where: Endpoint) -> None:
        connection = await connect(where, None, client_context(), DEFAULT_LIMITS)
        connection.writer.write(frame(b"nonsense"))
        await connection.writer.drain()
        with suppress(*FAILURES):
            await connection.reader.read()  # until it is thrown out
        connection.close()

    with running(tmp_path / "one", port=(port := free_port())) as one:

        def found() -> dict[str, float]:
            return {name: value for name, (_, _, value) in gauges(one.site).items()}

        assert found() == {"tocsin_ring_ready": 1.0, "tocsin_ring_refused_total": 0.0}
        asyncio.run(nonsense(Endpoint("127.0.0.1", port)))
        until(lambda: found() == {"tocsin_ring_ready": 1.0, "tocsin_ring_refused_total": 1.0})
    assert found()["tocsin_ring_ready"] == 0.0
    one.site.federation = None
    assert found() == {}


# --- a node without a site -------------------------------------------------------------------------------------------


@contextmanager
def keeping(folder: Path, port: int, contact: Joined) -> Iterator[Host]:
    """`tocsin node join`, in a thread of this process."""
    settings = HostSettings(
        folder, Endpoint("127.0.0.1", port), contacts=(contact.federation.node.address,), chord=PACE
    )  # fmt: skip
    host, loops = keeper(settings, lambda text: None, Analysis()), list[asyncio.AbstractEventLoop]()

    async def run() -> int:
        loops.append(asyncio.get_running_loop())
        return await host.run()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        until(lambda: host.member is not None and host.member.chord.is_ready)
        yield host
    finally:
        loops[0].call_soon_threadsafe(host.stop)
        thread.join()


def central_port(folder: Path, others: list[str]) -> int:
    """Where a node with this folder owns at least a third of the ring."""
    keys = [peer(address).key for address in others]
    while True:
        port = free_port()
        mine = peer(open_identity(folder).address(Endpoint("127.0.0.1", port))).key
        if min((mine - key) & MASK for key in keys) > MASK // 3:
            return port


def test_a_node_without_a_site_keeps_what_it_owns_for_the_sites(tmp_path):
    """`tocsin node` in a ring of sites: it has all placements, and hands over what it has when it leaves."""
    port = free_port()
    there = open_identity(tmp_path / "away" / "node").address(Endpoint("127.0.0.1", port))
    with sites(tmp_path, 1) as (home,):
        middle = central_port(tmp_path / "plain", [home.federation.node.address, there])
        asked = {f"w{number}": f"title:word{number}" for number in range(8)}
        paths = {f"p{number}": f"/a/b{number}" for number in range(8)}
        with keeping(tmp_path / "plain", middle, home) as plain, running(tmp_path / "away", home, port=port) as away:
            for name, text in asked.items():
                life.create(home.site, home.account, {"id": name, "query": text})
            for name, text in paths.items():
                life.create(home.site, home.account, {"id": name, "xpath": text})
            until(lambda: home.standing() == len(asked) + len(paths))
            assert plain.member is not None
            assert plain.member.items.store.count > 0
            one = {"title": " ".join(f"word{number}" for number in range(4)), "xml": "<a><b0/><b1/><b2/><b3/></a>"}
            two = {"title": " ".join(f"word{number}" for number in range(8)), "xml": "<a><b4/><b5/><b6/><b7/></a>"}
            away.publish({"id": "one", **one})
            first = {(f"{kind}{number}", "one", 1) for kind in "wp" for number in range(4)}
            until(lambda: set(home.told()) == first, lambda: first - set(home.told()))
        with running(tmp_path / "away", home, port=port) as away:  # the other node has left
            away.publish({"id": "two", **two})
            second = {(f"w{number}", "two", 1) for number in range(8)}
            second |= {(f"p{number}", "two", 1) for number in range(4, 8)}
            until(lambda: set(home.told()) == first | second, lambda: second - set(home.told()))
            assert len(home.told()) == len(first) + len(second)


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("title:a AND b", "title:a AND b"),
        ('title ~ "some words" >= 0.5', 'title:"some" OR title:"words"'),
        ('title ~ "some-words here" >= 0.5', "title:*"),
        ('title ~ "x" >= 0', "id:*"),
        ('a AND NOT title ~ "x" >= 0.5', "a AND id:*"),
        ('NOT (a OR title ~ "x" >= 0.5)', "NOT a AND id:*"),
        ("a OR author:IN:(b)", "a OR author:*"),
    ],
)
def test_a_cover_is_plain(text, covered):
    assert cover(parse(text), Analysis()) == parse(covered)
