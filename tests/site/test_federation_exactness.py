"""Exactness against traffic, chosen per subscription: three sites in one process, whose documents are all known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.site.federated import QUICK, Joined, join, running, sites, until
from tests.web.browsing import Visitor, tree
from tests.web.serving import Serving, error_of, serving
from tocsin.query.parse import parse
from tocsin.site import accounts, life
from tocsin.site.exactness import Exactness, exactness_of
from tocsin.site.federation.asking import Part, Where, can_approximate, parts_of
from tocsin.site.problems import Invalid
from tocsin.site.site import Site
from tocsin.store import Store, documents, subscriptions
from tocsin.store.subscriptions import Asked
from tocsin.text import Analysis

SOME = {"kind": "approximate", "rho": 0.5, "alpha": 1.0}
ALL = {"kind": "approximate", "rho": 1.0, "alpha": 0.25}


class Press:
    """A site that publishes; each of its documents has its own id."""

    def __init__(self, name: str, site: Joined) -> None:
        self.name, self.site, self.count = name, site, 0

    def publish(self, *titles: str) -> set[str]:
        made = [{"id": f"{self.name}{self.count + place}", "title": title} for place, title in enumerate(titles)]
        self.count += len(made)
        self.site.publish(*made)
        return {one["id"] for one in made}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path / "reader", settings=QUICK) as served:
        yield served


def test_each_subscription_chooses_and_what_is_missed_is_measured_and_shown(tmp_path: Path, reader: Serving) -> None:
    with sites(tmp_path, 2) as (first, second):
        federation = join(reader.site, tmp_path / "node", (first.federation.node.address,))
        federation.start()
        home = Joined(reader.site, federation, accounts.find(reader.site.store, "admin"))
        until(home.is_begun)
        busy, quiet = Press("busy", first), Press("quiet", second)
        busy.publish(*["chord again"] * 6)
        quiet.publish("chord once", *["piano again"] * 5)
        home.publish({"id": "own", "title": "chord of our own"})  # a third publisher, but not one to choose
        client = reader.client()
        made = client.post("subscriptions", json={"id": "some", "query": "title:chord", "exactness": SOME})
        assert (made.status_code, made.json()["exactness"]) == (201, SOME)
        number = life.get(home.site, home.account, "some").number
        until(lambda: home.monitored(number) == (first.federation.node.address,))

        # One of two publishers is heard. What the other has is missed, and that is measured.
        heard: set[str] = set()
        missed: set[str] = set()

        def measured() -> Any:
            heard.update(busy.publish("chord", "another chord"))
            missed.update(quiet.publish("chord"))
            recall = client.get("subscriptions/some").json()["ring"]["recall"]
            is_measured = recall is not None and recall["value"] < 1 and recall["heard"]  # audits begin at any time
            return recall if is_measured else None

        recall = until(measured)
        assert recall["low"] <= recall["value"] <= recall["high"] < 1
        assert recall["asked"] > 0
        ring = client.get("subscriptions").json()["items"][0]["ring"]
        assert (ring["listens_to"], ring["publishers"]) == (1, 2)
        until(lambda: {id for _, id, _ in home.told()} >= heard)
        assert {id for _, id, _ in home.told()} == heard
        assert documents.count(home.site.store) == len(heard) + 1
        page = tree(Visitor(reader, "admin").get("/subscriptions"))
        (shown,) = page.xpath("//p[@class='ring']/text()")
        assert shown.startswith("It listens to 1 of 2 publishers on other sites. It was told of ")
        assert "% of what matches there (between " in shown
        assert "answers of a sample of the others say." in shown

        # A larger share: everybody who is known for the word. And exact: whoever publishes it, for the first time too.
        client.patch("subscriptions/some", json={"exactness": ALL})
        until(lambda: len(home.monitored(number)) == 2)
        both = busy.publish("chord") | quiet.publish("chord")
        until(lambda: {id for _, id, _ in home.told()} == heard | both)
        client.post("subscriptions", json={"id": "every", "query": "title:zither"})
        until(lambda: home.standing() == 2)
        first_ever = quiet.publish("zither")
        until(lambda: {id for name, id, _ in home.told() if name == "every"} == first_ever)
        assert len(home.told()) == len(set(home.told()))
        assert missed.isdisjoint(id for _, id, _ in home.told())

        # X2: nothing stays, anywhere.
        assert home.copies()
        assert (
            client.delete("subscriptions/some").status_code == client.delete("subscriptions/every").status_code == 204
        )
        until(lambda: [one.copies() for one in (home, first, second)] == [[], [], []])


def test_a_site_that_begins_again_keeps_what_was_chosen_and_a_change_of_mind_leaves_nothing(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path / "away") as away:
        away.publish({"id": "d0", "title": "chord"})
        with running(tmp_path / "home", away, port=port) as home:
            life.create(home.site, home.account, {"id": "s", "query": "title:chord", "exactness": ALL})
            life.create(home.site, home.account, {"id": "path", "xpath": "//name"})
            number = life.get(home.site, home.account, "s").number
            until(lambda: home.monitored(number) == (away.federation.node.address,))
            until(lambda: home.standing() == 2)
            (exported, _) = sorted(life.export(home.site, home.account), key=lambda one: "xpath" in one)
            assert exported["exactness"] == ALL
        with running(tmp_path / "home", away, port=port) as home:
            assert life.as_json(life.get(home.site, home.account, "s"))["exactness"] == ALL
            until(lambda: home.monitored(number) == (away.federation.node.address,))
            until(lambda: home.standing() == 2)
            away.publish({"id": "d1", "title": "chord"}, {"id": "d2", "title": "x", "xml": "<a><name>y</name></a>"})
            until(lambda: sorted(home.told()) == [("path", "d2", 1), ("s", "d1", 1)])

            life.edit(home.site, home.account, "s", {"exactness": "exact"})
            until(lambda: home.monitored(number) == () and home.standing() == 2)
            assert "exactness" not in life.as_json(life.get(home.site, home.account, "s"))
            away.publish({"id": "d3", "title": "chord"})
            until(lambda: ("s", "d3", 1) in home.told())
            life.edit(home.site, home.account, "s", {"exactness": {"rho": 0.5}})
            until(lambda: home.monitored(number) != () and home.standing() == 2)
            away.publish({"id": "d4", "title": "chord"})
            until(lambda: ("s", "d4", 1) in home.told())
            assert len(home.told()) == len(set(home.told()))
            life.delete(home.site, home.account, "s")
            life.delete(home.site, home.account, "path")
            until(lambda: home.copies() == away.copies() == [])


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"rho": 0}, "rho"), ({"rho": 1.01}, "rho"), ({"rho": "0.1"}, "rho"), ({"rho": True}, "rho"),
        ({"rho": float("nan")}, "rho"), ({"rho": 10**400}, "rho"), ({"alpha": -0.1}, "alpha"), ({"alpha": 2}, "alpha"),
        ({"alpha": None}, "alpha"), ({"kind": "exact", "rho": 0.5}, "rho"), ("sometimes", "exactness"),
        ({"kind": "most"}, "exactness"), ({"share": 1}, "exactness"), (3, "exactness"),
    ],
)  # fmt: skip
def test_a_bad_choice_names_its_field(value: object, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        exactness_of(value)
    assert caught.value.field == field
    assert field in caught.value.message


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (None, Exactness()), ("exact", Exactness()), ({"kind": "exact"}, Exactness()),
        ("approximate", Exactness(0.1, 0.25)), ({"rho": 1}, Exactness(1.0, 0.25)), ({"alpha": 0}, Exactness(0.1, 0.0)),
    ],
)  # fmt: skip
def test_a_choice_is_read_and_written(value: object, meant: Exactness) -> None:
    assert exactness_of(value) == meant
    assert exactness_of(meant.as_json()) == meant


def test_a_site_in_no_ring_says_what_to_do_and_offers_no_choice(reader: Serving) -> None:
    client = reader.client()
    refused = client.post("subscriptions", json={"query": "chord", "exactness": "approximate"})
    assert "--join" in error_of(refused, 422, "not_federated")["message"]
    assert client.post("subscriptions", json={"id": "s", "query": "chord", "exactness": "exact"}).status_code == 201
    refused = client.patch("subscriptions/s", json={"exactness": {"rho": 0.5}})
    assert "exactness" in error_of(refused, 422, "not_federated")["message"]
    assert '"exactness"' in error_of(client.patch("subscriptions/s", json={"mode": "approximate"}), 422)["message"]
    assert "exactness" not in client.get("subscriptions/s").json()
    visitor = Visitor(reader, "admin")
    assert not tree(visitor.get("/editor")).xpath("//input[@name='exactness']")
    assert (
        visitor.post("/editor", do="save", id="s", query="chords", where="inbox", mode="immediate").status_code == 200
    )


def test_the_editor_of_a_site_in_a_ring_offers_the_choice(tmp_path: Path, reader: Serving) -> None:
    federation = join(reader.site, tmp_path / "node")
    federation.start()
    client, visitor = reader.client(), Visitor(reader, "admin")
    page = tree(visitor.get("/editor"))
    assert page.xpath("//input[@name='exactness']/@value") == ["exact", "approximate"]
    assert page.xpath("//input[@name='exactness'][@checked]/@value") == ["exact"]
    form = {"do": "save", "query": "title:chord", "where": "inbox", "mode": "immediate", "key": "k"}
    refused = visitor.post("/editor", **form, exactness="approximate", rho="2", alpha="0")
    assert refused.status_code == 422
    assert "rho" in tree(refused).xpath("string(//*[@id='verdict'])")
    assert visitor.post("/editor", **form, exactness="approximate", rho="0,5", alpha="0").status_code == 200
    (made,) = client.get("subscriptions").json()["items"]
    assert made["exactness"] == {"kind": "approximate", "rho": 0.5, "alpha": 0.0}
    page = tree(visitor.get("/editor", id=made["id"]))
    assert page.xpath("//input[@name='exactness'][@checked]/@value") == ["approximate"]
    assert page.xpath("//input[@name='rho']/@value") == ["0.5"]
    assert visitor.post("/editor", **form, id=made["id"], exactness="exact").status_code == 200
    assert "exactness" not in client.get(f"subscriptions/{made['id']}").json()
    for body in ({"query": "year >= 2020"}, {"xpath": "//a"}, {"query": "author:IN:(title:ring)"}):
        refused = client.post("subscriptions", json={**body, "exactness": "approximate"})
        assert "exactness" in error_of(refused, 422, "no_words")["message"]


def test_an_approximate_subscription_cannot_lose_its_words(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "store")) as store:
        site = Site(store, QUICK)
        join(site, tmp_path)  # not started: what may be asked for does not depend on it
        account = accounts.create(store, "ann", "admin")
        life.create(site, account, {"id": "s", "query": "title:chord", "exactness": ALL})
        with pytest.raises(Invalid, match="exactness"):
            life.edit(site, account, "s", {"query": "year >= 2020"})
        assert life.get(site, account, "s").asked.query == "title:chord"
        life.edit(site, account, "s", {"query": "year >= 2020", "exactness": None})
        assert subscriptions.abouts(store, "exactness") == {}
        (body,) = life.export(site, account)
        other = Site(store, QUICK)
        results = life.restore(other, account, [body | {"id": "t"}, {"id": "u", "query": "a", "exactness": ALL}])
        assert [type(one).__name__ for one in results] == ["Made", "Invalid"]


# --- which placement is asked ----------------------------------------------------------------------------------------


HALF = Exactness(0.5)
PATH = Part(Where.STATES, "//a", (("x", "urn:x"),))


@pytest.mark.parametrize(
    ("asked", "exactness", "parts"),
    [
        (Asked("title:a"), Exactness(), [Part(Where.WORDS, "title:a")]),
        (Asked("title:a"), HALF, [Part(Where.PUBLISHERS, "title:a", exactness=HALF)]),
        (Asked(None, "//a", {"x": "urn:x"}), Exactness(), [PATH]),
        (Asked("title:a", "//a"), Exactness(), [Part(Where.WORDS, "title:a")]),
        (Asked("title:a", "//a"), HALF, [Part(Where.PUBLISHERS, "title:a", exactness=HALF)]),
        (Asked("NOT title:a", "//a", {"x": "urn:x"}), Exactness(), [PATH]),
        (
            Asked("a AND author:IN:(b)"),
            HALF,
            [
                Part(Where.PUBLISHERS, "a AND author:*", exactness=HALF),
                Part(Where.PUBLISHERS, "b", exactness=HALF),
            ],
        ),
        (Asked("author:IN:(b)"), Exactness(), [Part(Where.WORDS, "author:*"), Part(Where.WORDS, "b")]),
        (Asked(view="{}"), Exactness(), []),
        (Asked("no query ("), Exactness(), []),
    ],
)
def test_what_is_asked_of_the_ring(asked: Asked, exactness: Exactness, parts: list[Part]) -> None:
    assert parts_of(asked, exactness, Analysis()) == parts


def test_publishers_are_chosen_by_words() -> None:
    texts = {
        "a": True,
        "NOT a": False,
        "year > 3": False,
        'title ~ "x y" >= 0.2': True,
        "title:*": False,
        "a OR title:*": True,
    }
    assert {text: can_approximate(parse(text), Analysis()) for text in texts} == texts
    assert not can_approximate(None, Analysis())
