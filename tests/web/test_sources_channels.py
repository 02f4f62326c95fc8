"""Sources and channels, over HTTP and on their pages, against real servers of feeds, mail and webhooks."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from tests.site.mailbox import Mailbox, receiving_mail
from tests.site.receiver import receiving
from tests.site.source_server import HERE, Served, item, rss
from tests.site.source_server import serving as serving_feeds
from tests.web.browsing import Visitor, tree
from tests.web.serving import Serving, error_of, eventually, serving
from tocsin import Analysis, Document, Statistics, parse
from tocsin.query.score import score
from tocsin.site.channels import saved as kept_channels
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.problems import Conflict
from tocsin.site.settings import DeliverySettings, SiteSettings
from tocsin.store import channels, documents
from tocsin.web import sending

OPML = {"Content-Type": "text/x-opml"}


def words(page: httpx.Response) -> str:
    return " ".join(" ".join(tree(page).itertext()).split())


@pytest.fixture(scope="module")
def box() -> Iterator[Mailbox]:
    with receiving_mail() as found:
        yield found


@pytest.fixture(scope="module")
def feeds() -> Iterator[Served]:
    answers = {f"{n}": rss(item("a", title=f"Paper {n} about churn"), item("b", title="Another")) for n in range(9)}
    with serving_feeds(answers | {"broken": b"<html>no feed</html>"}) as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, box: Mailbox) -> Iterator[Serving]:
    mail = f"mailto://127.0.0.1:{box.port}?from=alerts@example.org"
    settings = SiteSettings(
        delivery=DeliverySettings(delivery_allows_private=True),
        channels=ChannelSettings(public_url="https://tocsin.example.org", mail_url=mail, channel_allows_private=True),
        harvest=replace(HERE, near_window_seconds=0.0),
    )
    with serving(tmp_path_factory.mktemp("site"), settings=settings) as found:
        yield found


# --- sources over HTTP -----------------------------------------------------------------------------------------------


def test_a_source_is_added_visited_paused_resumed_and_removed(served, feeds):
    client = served.client("publisher-api")
    answer = client.post("sources", json={"address": feeds.url("0"), "name": "Journal", "tags": ["p2p"]})
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["health"], made["name"], made["kind"]) == ("new", "Journal", "feed")
    path = f"sources/{made['number']}"
    found = eventually(lambda: (now := client.get(path).json())["health"] == "ok" and now)
    assert found["documents"] == 2
    assert client.patch(path, json={"state": "paused"}).json()["health"] == "paused"
    assert client.patch(path, json={"state": "active", "name": "J."}).json()["name"] == "J."
    before = len(feeds.asked)
    assert client.post(f"{path}/visit").status_code == 202
    eventually(lambda: len(feeds.asked) > before)
    error_of(client.post("sources", json={"address": feeds.url("0")}), 409, "conflict")
    assert client.delete(path).status_code == 204
    error_of(client.get(path), 404, "not_found")
    error_of(client.post(f"{path}/visit"), 404, "not_found")


def test_why_a_source_fails_is_told(served, feeds):
    client = served.client("publisher-api")
    number = client.post("sources", json={"address": feeds.url("broken")}).json()["number"]
    found = eventually(lambda: (now := client.get(f"sources/{number}").json())["health"] == "failing" and now)
    assert found["problem"].startswith("this is no feed")
    page = Visitor(served, "publisher-api").get("/sources")
    assert "This is no feed" in words(page)
    assert "1 failing" in words(page)
    client.delete(f"sources/{number}")


@pytest.mark.parametrize(
    "body",
    [
        {}, {"address": "ftp://example.org/x"}, {"address": "https://example.org/", "kind": "fax"}, {"address": 7},
        {"address": "https://example.org/", "interval": 1}, {"address": "https://example.org/", "colour": "red"},
    ],
)  # fmt: skip
def test_a_source_that_cannot_be_is_refused(served, body):
    error_of(served.client("publisher-api").post("sources", json=body), 422)


def test_lists_of_feeds_go_out_and_come_in(served, feeds):
    client = served.client("publisher-lists")
    outlines = "".join(f'<outline text="F{n}" xmlUrl="{feeds.url(str(n))}"/>' for n in range(1, 4))
    text = f'<opml><body><outline text="Physics">{outlines}</outline><outline xmlUrl="ftp://x/"/></body></opml>'
    answer = client.post("opml", content=text.encode(), headers=OPML).json()
    assert [one["name"] for one in answer["added"]] == ["F1", "F2", "F3"]
    assert {tuple(one["tags"]) for one in answer["added"]} == {("Physics",)}
    assert len(answer["refused"]) == 1
    again = client.post("opml", content=text.encode(), headers=OPML).json()
    assert (again["added"], again["repeated"]) == ([], 3)
    out = client.get("opml")
    assert out.headers["content-type"].startswith("text/x-opml")
    assert out.text.count("xmlUrl") == 3
    error_of(client.post("opml", content=b"<html/>", headers=OPML), 422)
    error_of(client.post("opml", json={}), 415)
    for one in answer["added"]:
        client.delete(f"sources/{one['number']}")


# --- sources on their page -------------------------------------------------------------------------------------------


def test_sources_are_looked_after_on_their_page(served, feeds):
    visitor = Visitor(served, "publisher-page")
    refused = visitor.post("/sources/add", address="http://[::1", name="Kept")
    assert refused.status_code == 422
    assert tree(refused).xpath("string(//input[@name='name']/@value)") == "Kept"
    assert "The source's address is no address" in words(refused)
    visitor.post("/sources/add", address=feeds.url("4"), name="Fourth", tags="a, b", interval="900", kind="feed")
    number = str(max(one["number"] for one in served.client("publisher-page").get("sources").json()["items"]))
    path = f"sources/{number}"
    found = served.client("publisher-page").get(path).json()
    assert (found["name"], found["tags"], found["interval"]) == ("Fourth", ["a", "b"], 900)
    for action, state in (("pause", "paused"), ("resume", "active"), ("visit", "active")):
        assert visitor.post("/sources", number=number, do=action).status_code == 303
        assert served.client("publisher-page").get(path).json()["state"] == state
    text = f'<opml><body><outline text="Five" xmlUrl="{feeds.url("5")}"/><outline text="No" xmlUrl="x"/></body></opml>'
    page = visitor.post("/sources/import", opml=text)
    assert "1 feed added, 1 refused" in words(page)
    assert "Five" in visitor.get("/sources/opml").text
    assert visitor.post("/sources/import", opml="<html>").status_code == 422
    assert visitor.post("/sources", number=number, do="remove").status_code == 303
    assert visitor.post("/sources", number=number, do="remove").status_code == 404
    assert visitor.post("/sources", number="x", do="pause").status_code == 404


# --- channels --------------------------------------------------------------------------------------------------------


def test_a_mailbox_confirms_by_its_link_and_gets_a_test(served, box):
    """Added on the page, confirmed by whoever reads the mail, chosen in the editor."""
    visitor = Visitor(served, "publisher-mail")
    assert visitor.post("/channels/add", to="no mailbox").status_code == 422
    assert visitor.post("/channels/add", to="mail@example.org").status_code == 303
    page = visitor.get("/channels")
    assert "waits for its reader’s word" in words(page)
    number = tree(page).xpath("string(//input[@name='number']/@value)")
    assert "asked a moment ago" in words(visitor.post("/channels", number=number, do="ask"))
    assert "not confirmed" in words(visitor.post("/channels", number=number, do="test"))
    error_of(served.client("publisher-mail").post(f"channels/{number}/test"), 409)
    error_of(served.client("publisher-mail").post(f"channels/{number}/confirm", json={"code": "x"}), 404)
    part = box.letters[-1][2].get_body(["plain"])
    assert part is not None
    link = re.search(r"https://tocsin\.example\.org(/confirm/\S+)", part.get_content())
    assert link
    asked = httpx.get(served.url + link[1])
    assert "publisher-mail asks this site to send its alerts to mail@example.org" in words(asked)
    assert served.client("publisher-mail").get(f"channels/{number}").json()["state"] == "waiting"  # looking is nothing
    error_of(httpx.post(served.url + link[1]), 422)
    assert "Thank you" in words(httpx.post(served.url + tree(asked).xpath("string(//form[1]/@action)")))
    assert served.client("publisher-mail").get(f"channels/{number}").json()["state"] == "ready"
    assert "The test was taken" in words(
        visitor.get(visitor.post("/channels", number=number, do="test").headers["location"])
    )
    assert box.letters[-1][2]["Subject"].startswith("A test")
    saved = visitor.post("/editor", query="churn", name="Churn", mode="daily", at="08:00", zone="Europe/Athens",
                         where=f"channel-{number}", do="save")  # fmt: skip
    assert saved.status_code == 200, words(saved)
    (kept,) = served.client("publisher-mail").get("subscriptions").json()["items"]
    assert kept["channel"] == {"kind": "mail", "to": "mail@example.org"}
    assert kept["mode"] == {"every": "day", "at": "08:00", "zone": "Europe/Athens"}
    form = tree(visitor.get("/editor", id=kept["id"]))
    assert form.xpath("string(//select[@name='where']/option[@selected]/@value)") == "keep"
    assert form.xpath("string(//input[@name='at']/@value)") == "08:00"
    visitor.post("/editor", id=kept["id"], query="churn*", name="Churn", mode="daily", at="09:30", zone="UTC",
                 where="keep", do="save")  # fmt: skip
    (kept,) = served.client("publisher-mail").get("subscriptions").json()["items"]
    assert kept["channel"]["to"] == "mail@example.org"
    assert kept["mode"]["at"] == "09:30"
    assert "by mail to mail@example.org" in words(visitor.get("/subscriptions"))
    gone = visitor.post("/channels", number=number, do="remove")
    assert "1 of your subscriptions are told here only" in words(visitor.get(gone.headers["location"]))
    (kept,) = served.client("publisher-mail").get("subscriptions").json()["items"]
    assert kept["channel"] == {"kind": "inbox"}


def test_a_webhook_is_tested_and_its_health_is_shown(served):
    client, visitor = served.client("publisher-hook"), Visitor(served, "publisher-hook")
    with receiving() as received:
        client.post("subscriptions", json={"id": "h", "query": "x", "channel": f"{received.url}/hook?key=s3cret"})
        assert client.post("test", params={"subscription": "h"}).json() == {"sent": True}
        assert received.taken[0][2]["type"] == "test"
        page = visitor.get("/channels")
        assert "/hook" in words(page)
        assert "s3cret" not in page.text
        assert visitor.post("/channels", do="test-subscription", id="h").status_code == 303
        assert len(received.taken) == 2
    told = client.post("test", params={"subscription": "h"}).json()
    assert told["sent"] is False
    assert told["problem"]
    client.post("subscriptions", json={"id": "plain", "query": "x"})
    error_of(client.post("test", params={"subscription": "plain"}), 409)
    error_of(client.post("test", params={"subscription": "other"}), 404)
    error_of(client.post("test"), 422)
    client.delete("subscriptions/h")


def test_what_waits_for_other_servers_has_threads_of_its_own(served, monkeypatch):
    """Every call needs one of those that all share: slow places must not hold them."""
    client, visitor = served.client("publisher-slow"), Visitor(served, "publisher-slow")
    one = channels.save(served.site.store, "publisher-slow", "mail", "slow@example.org", name="x", is_confirmed=False)
    assert one is not None
    used: list[tuple[str, bool]] = []

    def noting(name: str) -> None:
        def do(*_: object) -> None:
            used.append((name, threading.current_thread().name.startswith(sending.NAME)))
            raise Conflict("that is all")

        monkeypatch.setattr(kept_channels, name, do)

    for name in ("add", "ask", "test", "test_subscription"):
        noting(name)
    client.post("channels", json={"kind": "mail", "to": "a@example.org"})
    client.post(f"channels/{one.number}/ask")
    client.post(f"channels/{one.number}/test")
    client.post("test", params={"subscription": "s"})
    visitor.post("/channels/add", to="a@example.org")
    for button in ("ask", "test", "test-subscription"):
        visitor.post("/channels", number=str(one.number), id="s", do=button)
    assert used == [(name, True) for name in ("add", "ask", "test", "test_subscription", "add", "ask", "test")] + [
        ("test_subscription", True)
    ]


def test_feeds_are_made_listed_and_ended(served):
    client, visitor = served.client("publisher-atom"), Visitor(served, "publisher-atom")
    visitor.post("/channels/feeds", tag="p2p")
    (feed,) = client.get("feeds").json()["items"]
    assert feed["tag"] == "p2p"
    assert feed["url"] in words(visitor.get("/channels"))
    here = served.url + feed["url"].removeprefix("https://tocsin.example.org")
    assert httpx.get(here).status_code == 200
    assert visitor.post("/channels", do="end-feed", mark="zz" * 16).status_code == 404
    assert client.delete(f"feeds/{feed['mark']}").status_code == 204
    error_of(client.delete(f"feeds/{feed['mark']}"), 404)
    assert httpx.get(here).status_code == 404
    assert visitor.post("/channels/feeds", tag="a", subscription="b").status_code == 422


# --- a threshold that is changed live --------------------------------------------------------------------------------


@pytest.mark.row("S18")
def test_a_threshold_that_is_changed_on_the_page_holds_for_the_next_document(served):
    """SmartSeer §VI-C: each result has its score, and the threshold is the user's to change."""
    visitor, client = Visitor(served, "publisher-alike"), served.client("publisher-alike")

    def query(threshold: float) -> str:
        return f'gossip AND abstract ~ "gossip among peers in overlays" >= {threshold}'

    def change(threshold: float, id: str = "") -> None:
        answer = visitor.post("/editor", id=id, query=query(threshold), name="Alike", where="inbox", do="save")
        assert answer.status_code == 200

    def told_of(number: int) -> list[float]:
        text = "gossip among peers in overlays" if number % 2 else "gossip about quite other things than these"
        client.post("documents", json={"id": f"alike{number}", "abstract": text})
        position = documents.last_position(store)
        eventually(lambda: served.site.progress().matched >= position)
        known = Statistics.of(
            (one.document() for chunk in documents.read(store, 0, position) for one in chunk), Analysis()
        )
        expected = score(parse(query(0)), Document(f"alike{number}", {"abstract": (text,)}), Analysis(), known)
        found = client.get("notifications", params={"limit": 1000}).json()["items"]
        scores = [one["score"] for one in found if one["document"] == f"alike{number}"]
        assert scores == pytest.approx([expected] * len(scores), abs=1e-9)
        return scores

    store = served.site.store
    change(0.02)
    (kept,) = client.get("subscriptions").json()["items"]
    assert [len(told_of(number)) for number in (1, 2)] == [1, 1]
    change(0.95, kept["id"])
    assert [len(told_of(number)) for number in (3, 4)] == [1, 0]
    change(0.0, kept["id"])
    assert [len(told_of(number)) for number in (5, 6)] == [1, 1]
