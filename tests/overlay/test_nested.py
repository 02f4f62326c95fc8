"""Nested queries on the ring: what a node is told equals what one process finds (SmartSeer §VI-B; S15, S16)."""

from __future__ import annotations

from random import Random

import pytest

from tocsin import Analysis, Statistics, Subscription
from tocsin.errors import SettingError
from tocsin.match.index import IndexEngine
from tocsin.match.matcher import Matcher
from tocsin.model import Document
from tocsin.overlay import message as codec
from tocsin.overlay.delivery import Notified
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver
from tocsin.overlay.placement.entry import QUERY_KIND, Mode, entry_of
from tocsin.overlay.placement.library import Answer
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.overlay.placement.subscriber import Ended, Standing
from tocsin.overlay.placement.words import Words
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.standing import parse_subscription
from tocsin.sim.faults import NO_FAULTS, Crash, Faults
from tocsin.sim.placements import Site
from tocsin.sim.world import World

KNOWLEDGE = Knowledge()
BOB = "year:2004 AND author:IN:(networks AND author:Bob)"


def paper(id: str, year: int, *authors: str, title: str = "", cites: tuple[str, ...] = ()) -> Document:
    return Document(id, {"author": authors, "year": (year,), "title": (title,), "citation": cites})


class Ring:
    """Nodes of a world, and what the layer above was told."""

    def __init__(self, nodes: int = 6, mode: Mode = Mode.SMARTSEER, faults: Faults = NO_FAULTS) -> None:
        self.world, self.settings = World(3, faults=faults, decode=codec.decode), PlacementSettings(mode=mode)
        self.names = [f"n{number}" for number in range(nodes)]
        self.heard: list[tuple[Address, object]] = []
        self.world.observe = self._observe
        for number, name in enumerate(self.names):
            self.world.at(number * 0.5, lambda world, name=name: self._add(name))  # type: ignore[misc]
        self.world.run(nodes * 0.5 + 20)

    def _add(self, name: str) -> None:
        def make(disk: dict[bytes, bytes], life: int) -> Site:
            contacts = () if name == self.names[0] and not life else tuple(self.names[:2])
            site = Site(name, contacts, disk=None, incarnation=life)
            site.words = Words(site, KNOWLEDGE, self.settings, disk=disk, life=life)
            return site

        self.world.add(name, make)

    def _observe(self, now: float, address: Address, effect: Deliver) -> None:
        self.heard.append((address, effect.what))

    def told(self, id: str) -> list[str]:
        return [
            what.notice.document
            for _, what in self.heard
            if isinstance(what, Notified) and what.notice.subscription == id
        ]

    def subscribe(self, name: str, id: str, text: str) -> None:
        self.world.invoke(name, lambda node, now: node.words.nested.subscribe(id, text, now))
        self.wait()
        assert (name, Standing(id, 1)) in self.heard

    def publish(self, name: str, document: Document) -> None:
        self.world.invoke(name, lambda node, now: node.words.publisher.publish(document, now))

    def wait(self, seconds: float = 40.0) -> None:
        self.world.run(self.world.now + seconds)


@pytest.mark.row("S16")
@pytest.mark.parametrize("mode", Mode)
def test_carols_old_papers_are_told_when_she_first_writes_with_bob(mode):
    """S16 on the ring: the delta runs over history, and only what is new is told."""
    ring = Ring(mode=mode)
    history = [
        paper("X1", 2003, "Bob", "AuthorX", title="networks"),
        paper("old", 2004, "AuthorX"),
        paper("carol2004", 2004, "Carol", title="bees"),
        paper("carol2003", 2003, "Carol", title="bees"),
    ]
    for number, one in enumerate(history):
        ring.publish(ring.names[number % 3], one)
    ring.wait()
    ring.subscribe("n5", "bob", BOB)
    assert ring.told("bob") == []  # what matched before it stood is no news
    ring.publish("n1", paper("x2004", 2004, "AuthorX"))
    ring.wait()
    assert ring.told("bob") == ["x2004"]
    ring.publish("n2", paper("joint", 2004, "Bob", "Carol", title="networks of bees"))
    ring.wait()
    assert sorted(ring.told("bob")) == ["carol2004", "joint", "x2004"]
    ring.publish("n3", paper("later", 2004, "carol"))
    ring.publish("n3", paper("nobody", 2004, "Dan"))
    ring.wait()
    assert sorted(ring.told("bob")) == ["carol2004", "joint", "later", "x2004"]


QUERIES = {
    "co-authors": 'author:IN:(author = "A1")',
    "cites-mine": 'citation:IN:id(author = "A2")',
    "depth": 'author:IN:(citation:IN:id(author = "A3")) AND year >= 2002',
    "two": 'author:IN:(title:red) AND author:IN:(title:blue)',
    "or": 'title:green OR id:IN:citation(title:red)',
    "numbers": "year:IN:(title:blue AND title:red)",
}  # fmt: skip


def stream(seed: int, many: int) -> list[Document]:
    chance = Random(seed)
    found = []
    for number in range(many):
        authors = tuple(chance.sample([f"A{one}" for one in range(8)], chance.randint(1, 2)))
        cites = tuple({f"d{chance.randrange(many)}" for _ in range(chance.randint(0, 2))})
        title = " ".join(chance.sample(["red", "blue", "green", "grey", "black", "white"], 2))
        found.append(paper(f"d{number}", 2000 + chance.randrange(6), *authors, title=title, cites=cites))
    return found


def one_process(text: str, documents: list[Document]) -> list[str]:
    matcher = Matcher([Subscription("s", parse_subscription(text))], IndexEngine(Analysis()), Analysis(), Statistics())
    return sorted(hit.document.id for hit in matcher.match(documents))


@pytest.mark.row("S16")
@pytest.mark.parametrize(("mode", "seed"), [(Mode.SMARTSEER, 1), (Mode.DHTRIE, 2)])
def test_random_streams_tell_what_one_process_does(mode, seed):
    """S16: what was delivered is the view at the end, each document once; any depth."""
    ring, documents = Ring(mode=mode), stream(seed, 24)
    for number, (id, text) in enumerate(QUERIES.items()):
        ring.subscribe(ring.names[number % 6], id, text)
    for number, one in enumerate(documents):
        ring.publish(ring.names[number % 5], one)
        ring.wait(1.0)
    ring.wait(60)
    knowledge = Knowledge(documents=documents)
    for id, text in QUERIES.items():
        told = ring.told(id)
        assert sorted(told) == one_process(text, documents), id
        assert sorted(told) == sorted(one.id for one in documents if holds(parse(text), one, knowledge)), id
        assert told, id


def test_what_was_heard_and_not_decided_survives_a_crash():
    """The subscriber dies between hearing of documents and asking for them; each is told once all the same."""
    start = 6 * 0.5 + 20
    ring, documents = Ring(), stream(4, 30)
    ring.subscribe("n5", "s", QUERIES["depth"])
    crashes = tuple(Crash(ring.world.now + at, "n5", ring.world.now + at + 2, True) for at in (5.05, 14.12, 23.3))
    ring.world.trouble(Faults(until=ring.world.now + 40, crashes=crashes))
    ring.world.schedule()
    assert ring.world.now > start
    for number, one in enumerate(documents):
        ring.publish(ring.names[number % 5], one)
        ring.wait(1.0)
    ring.wait(150)
    assert sorted(ring.told("s")) == one_process(QUERIES["depth"], documents)
    assert len(ring.told("s")) > 3


@pytest.mark.row("S15")
def test_an_instantaneous_nested_query_materialises_its_subquery_first():
    """S15 on the ring: the subquery's answer, then an OR of its values; equal to the oracle on all documents."""
    ring, documents = Ring(), stream(5, 30)
    for number, one in enumerate(documents):
        ring.publish(ring.names[number % 6], one)
    ring.wait(60)
    knowledge = Knowledge(documents=documents)
    for text in QUERIES.values():
        ring.heard.clear()
        ring.world.invoke("n2", lambda node, now, text=text: node.words.nested.search(text, now))  # type: ignore[misc]
        ring.wait(30)
        (answer,) = [what for _, what in ring.heard if isinstance(what, Answer)]
        expected = sorted((one.id, one.version) for one in documents if holds(parse(text), one, knowledge))
        assert list(answer.documents) == expected, text
        assert answer.is_complete
        assert expected


def test_unsubscribing_removes_every_copy_of_every_part():
    """X2: subqueries and deltas too."""
    ring, documents = Ring(), stream(6, 12)
    ring.subscribe("n4", "s", QUERIES["co-authors"])
    for one in documents:
        ring.publish("n1", one)
    ring.wait(60)

    def copies() -> int:
        stores = [place.process.items.store for place in ring.world.places.values()]  # type: ignore[attr-defined]
        items = [item for store in stores for key in store.sorted_keys() for item in store.at(key)]
        return sum(item.kind == QUERY_KIND and entry_of(item, KNOWLEDGE.analysis) is not None for item in items)

    assert copies() > 3
    ring.world.invoke("n4", lambda node, now: node.words.nested.unsubscribe("s", now))
    ring.wait(30)
    assert copies() == 0
    assert ("n4", Ended("s")) in ring.heard
    before = ring.told("s")
    ring.publish("n1", paper("late", 2004, "A1"))
    ring.wait(30)
    assert ring.told("s") == before


def test_a_name_that_is_taken_or_no_name_is_refused():
    ring = Ring(2)
    ring.subscribe("n0", "s", BOB)
    for id in ("s", "a/b", "a b", ""):
        with pytest.raises(SettingError, match="no name of a nested subscription"):
            ring.world.process("n0").words.nested.subscribe(id, BOB, ring.world.now)
