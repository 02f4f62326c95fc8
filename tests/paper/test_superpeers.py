"""P2P-DIET §3, "Architecture, Routing and Query Processing": what the paper says of super-peers, claim by claim."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from benchmarks import bench_superpeers
from tocsin.model import Document
from tocsin.overlay.message import Address, decode
from tocsin.overlay.node import Effect, Seconds, Send
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.subscriber import Standing
from tocsin.overlay.placement.superpeers.advertisements import Advertisement
from tocsin.overlay.placement.superpeers.client import Fetched, Lost, Moved
from tocsin.overlay.placement.superpeers.desk import ClientGone
from tocsin.overlay.placement.superpeers.messages import Answers, Flow, Forward, News, Question, Relay
from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings
from tocsin.overlay.placement.superpeers.sheet import Sheets
from tocsin.query import holds, parse, parse_subscription, show
from tocsin.query.covering import covers
from tocsin.query.semantics import Knowledge
from tocsin.sim.superpeers import CalmBackbone, graph_of, random_graph
from tocsin.sim.workload import random_document, random_query

KNOWLEDGE = Knowledge()
QUIET = SuperpeerSettings(probe_seconds=20.0, again_seconds=40.0)
"""Nothing is said twice where nothing fails: messages can be counted."""
WORDS = ["peer", "ring", "grid", "query", "data", "word"]
SHAPES = {
    "line": [(0, 1), (1, 2), (2, 3), (3, 4)],
    "ring": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)],
    "star": [(0, 1), (0, 2), (0, 3), (0, 4)],
    "every": [(one, other) for one in range(5) for other in range(one)],
    "ladder": [(0, 1), (2, 3), (4, 5), (0, 2), (2, 4), (1, 3), (3, 5)],
    "two rings": [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)],
}


def calm(links: dict[Address, tuple[Address, ...]], clients: dict[str, Address], **changes: Any) -> CalmBackbone:
    return CalmBackbone(links, clients, **{"settings": QUIET, **changes})


def title(id: str, text: str, **more: Any) -> Document:
    return Document(id, {"title": (text,)} | {name: (value,) for name, value in more.items()})


class Wire:
    """Everything that is sent from now on: who, to whom, what."""

    def __init__(self, backbone: CalmBackbone) -> None:
        self.sent: list[tuple[Address, Address, Any]] = []
        send = backbone.world._send

        def logged(place: Any, to: Address, message: Any) -> None:
            self.sent.append((place.address, to, message))
            send(place, to, message)

        backbone.world._send = logged  # type: ignore[method-assign]

    def news(self) -> list[tuple[Address, Address, Relay]]:
        """Metadata of publications on links between super-peers."""
        return [
            (start, end, one)
            for start, end, one in self.sent
            if isinstance(one, Relay)
            and isinstance(inside := decode(one.body), Flow)
            and isinstance(inside.payload, News)
        ]

    def kinds(self) -> list[str]:
        return [type(one).__name__ for _, _, one in self.sent]


def distances(links: dict[Address, tuple[Address, ...]], start: Address) -> dict[Address, int]:
    """Links between super-peers, level by level."""
    found, level = {start: 0}, {start}
    while level:
        level = {other for one in level for other in links[one]} - found.keys()
        found |= dict.fromkeys(level, max(found.values()) + 1)
    return found


# --- any graph -------------------------------------------------------------------------------------------------------


@pytest.mark.row("P3")
@pytest.mark.parametrize("shape", [*SHAPES, *range(6)])
def test_on_any_graph_nothing_is_lost_or_doubled_and_resources_come_from_their_owners(shape):
    """§3: the subnetwork of super-peers "can be an arbitrary undirected graph"; a client has a single access point;
    "clients request resources directly from the resource owner client"."""
    chance, rng = Random(f"any graph {shape}"), np.random.default_rng(len(str(shape)))
    links = graph_of(SHAPES[shape]) if isinstance(shape, str) else random_graph(chance, 4 + shape, shape + 1)
    names = [f"c{number}" for number in range(6)]
    backbone = calm(links, {name: chance.choice(list(links)) for name in names})
    wanted = {}
    for number in range(12):
        owner, text = chance.choice(names), show(random_query(rng, 1, nested=False, subscription=True))
        backbone.subscribe(owner, number, text)
        wanted[backbone.client(owner).query_id(number)] = owner, parse_subscription(text)
    documents = {number: random_document(rng, number) for number in range(12)}
    owners = {}
    for document in documents.values():
        owners[document.id] = chance.choice(names)
        backbone.publish(owners[document.id], document, b"resource of " + document.id.encode())
    expected = sorted(
        (owner, id, document.id)
        for id, (owner, query) in wanted.items()
        for document in documents.values()
        if holds(query, document, KNOWLEDGE)
    )
    assert sorted((who, one.subscription, one.document) for who, one, _ in backbone.notices()) == expected
    assert len(expected) > 10
    assert sum(isinstance(effect.what, Published) for _, _, effect in backbone.seen) == len(documents)
    wire = Wire(backbone)
    who, notice, _ = chance.choice([one for one in backbone.notices() if client(one[1].link) != one[0]])
    backbone.do(who, lambda one, now: one.fetch(notice.link, notice.document, notice.version, now))
    assert backbone.fetched(who) == [b"resource of " + notice.document.encode()]
    assert [(start, end) for start, end, _ in wire.sent] == [
        (backbone.addresses[who], notice.link), (notice.link, backbone.addresses[who]),
    ]  # no super-peer in between  # fmt: skip
    for place in links:
        assert not any(b"resource of" in value for value in backbone.world.disks[place].values())


def client(address: Address) -> str:
    return address.partition("@")[0]


# --- advertisements --------------------------------------------------------------------------------------------------


@pytest.mark.row("P4")
@pytest.mark.parametrize("values", [True, False], ids=["attribute/value", "attribute"])
def test_what_was_not_advertised_is_advertised_before_it_is_routed(values):
    """§3, Advertisements: "… makes sure that it satisfies the advertisements made previously by the same client or else
    a new advertisement message, that contains the extra information for this client must be submitted"."""
    settings = SuperpeerSettings(probe_seconds=20.0, again_seconds=40.0, advertises_values=values)
    backbone = calm(graph_of(SHAPES["ring"]), {"ann": "s0", "bob": "s3"}, settings=settings)
    backbone.subscribe("bob", 1, "title:*")

    def publish(document: Document) -> list[str]:
        wire = Wire(backbone)
        backbone.publish("ann", document)
        return [
            "News" if (start, end, one) in wire.news() else type(one).__name__
            for start, end, one in wire.sent
            if (start, end, one) in wire.news() or type(one).__name__ in ("Advertise", "Forward", "PublishAt")
        ]

    def known() -> set[bytes | None]:
        return {
            line.value
            for place in backbone.links
            for name, line in backbone.superpeer(place).sheets.sheets()["s0"].items()
            if name == "c ann"
        }

    first = publish(title("d1", "peer", author="John Smith"))
    assert first[0] == "Advertise"
    assert first.index("Forward") < first.index("PublishAt") < first.index("News")
    assert first.count("Forward") == 5  # to each other super-peer once, though there is a cycle
    expected: dict[str, Any] = {"title": frozenset({"peer"}), "author": frozenset({"John Smith"})}
    if not values:
        expected = dict.fromkeys(expected)
    assert backbone.client("ann").advertisement == Advertisement(expected)
    assert len(known()) == 1
    again = publish(title("d2", "peer", author="John Smith"))
    assert again[0] == "PublishAt"
    assert "Advertise" not in again
    other_value = publish(title("d3", "peer", author="Tom Fox"))
    assert ("Advertise" in other_value) == values
    other_field = publish(title("d4", "peer", year=2004))
    assert other_field[0] == "Advertise"
    assert other_field.index("Forward") < other_field.index("News")
    assert backbone.client("ann").advertisement.is_satisfied(title("d5", "peer", author="Tom Fox", year=2004))
    assert len(known()) == 1  # the same, everywhere
    assert [notice.document for _, notice, _ in backbone.notices()] == ["d1", "d2", "d3", "d4"]


# --- one-time queries ------------------------------------------------------------------------------------------------


def scattered(links: dict[Address, tuple[Address, ...]], seed: int, **changes: Any) -> CalmBackbone:
    """Clients with different fields and values, at different super-peers."""
    rng, chance = np.random.default_rng(seed), Random(f"scattered {seed}")
    backbone = calm(links, {f"c{number}": one for number, one in enumerate(links)}, **changes)
    for number in range(4 * len(links)):
        name = f"c{number % len(links)}"
        document = random_document(rng, number)
        kept = chance.sample(sorted(document.fields), min(3, len(document.fields)))
        backbone.publish(name, Document(document.id, {one: document.fields[one] for one in kept}))
    return backbone


@pytest.mark.row("P5")
@pytest.mark.parametrize("seed", range(3))
def test_one_time_queries_find_all_answers_on_pruned_paths_straight_to_the_client(seed):
    """§3, One-Time Queries: broadcast by reverse path forwarding; "advertisements … are used to prune broadcasting
    paths"; a super-peer "forwards a directly to C"."""
    chance, rng = Random(f"one-time {seed}"), np.random.default_rng([seed, 1])
    links = random_graph(chance, 7, 4)
    backbone = scattered(links, seed)
    files = {place: backbone.superpeer(place).filtering.files for place in links}
    crossed = saved = matched = 0
    texts = [*(show(random_query(rng, 1, nested=False)) for _ in range(25)), 'author = "nobody"', "unheard:word"]
    for text in texts:
        query, name = parse(text), chance.choice(list(backbone.addresses))
        local = {(document.id, document.version) for place in links for document in files[place].scan(query).values()}
        wire = Wire(backbone)
        answer = backbone.search(name, text)
        assert {(one.id, one.version) for one in answer.documents} == local, text
        assert len(answer.documents) == len(local)
        assert not answer.missing
        matched += len(local)
        asked = [(start, end) for start, end, one in wire.sent if type(one).__name__ == "Question"]
        assert len({end for _, end in asked}) == len(asked)  # each super-peer once, cycles or not
        assert len(asked) <= len(links) - 1
        crossed, saved = crossed + len(asked), saved + len(links) - 1 - len(asked)
        answers = [(start, end, one.found) for start, end, one in wire.sent if type(one).__name__ == "Answers"]
        assert {start for start, _, found in answers if found} == {place for place in links if files[place].scan(query)}
        assert all(end == backbone.addresses[name] for _, end, _ in answers)
        assert not any(
            isinstance(decode(one.body), Question | Answers) for _, _, one in wire.sent if isinstance(one, Relay)
        )
    pruned = sum(backbone.superpeer(place).one_time.pruned for place in links)
    assert pruned > 0
    assert saved >= pruned  # a pruned link saves all that lies behind it
    assert crossed > 0
    assert matched > 20


@pytest.mark.row("P6")
def test_an_inverted_file_for_each_field_gives_what_a_scan_gives():
    """§3: "an inverted file index for each attribute … maps every word w in the vocabulary of A to the set of resource
    IDs that contain word w"."""
    backbone = scattered(graph_of(SHAPES["two rings"]), 11)
    rng = np.random.default_rng(12)
    answered = 0
    for place in backbone.links:
        files = backbone.superpeer(place).filtering.files
        for name in {field for document in files.scan(parse("NOT none:such")).values() for field in document.fields}:
            assert any(field == name for field, _ in files._files)
        for _ in range(60):
            query = random_query(rng, 2, nested=False)
            found = files.search(query)
            assert found == files.scan(query), show(query)
            answered += len(found)
    assert answered > 100
    report = bench_superpeers.measure(documents=300, queries=40, seed=1)
    assert report["equal"] is True
    assert set(report["p95_ms"]) == {"files", "scan"}
    assert report["looked_at"] < report["documents"] * report["queries"]


# --- continuous queries ----------------------------------------------------------------------------------------------


@pytest.mark.row("P7")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_publication_is_matched_where_it_is_published_and_a_notice_takes_the_shortest_path(shape):
    """§3, Continuous Queries: matching "at a super-peer that is as close as possible to the origin"; a notification
    "travels to the access point AP2 … following the shortest path from AP1 to AP2"."""
    links = graph_of(SHAPES[shape])
    backbone = calm(links, {f"c{place}": place for place in links})
    for place in links:
        backbone.subscribe(f"c{place}", 1, f"title:({place} OR all)")
        backbone.subscribe(f"c{place}", 2, f"title:{place} AND title:twice")
    for number, place in enumerate(links):
        far = distances(links, place)
        for to in links:
            wire = Wire(backbone)
            before = len(backbone.notices())
            backbone.publish(f"c{place}", title(f"{number} {to}", f"{to} twice"))
            notices = backbone.notices()[before:]
            # Two queries, one access point: two notices for one message, which crosses dist(AP1, AP2) links.
            assert [(who, hops) for who, _, hops in notices] == 2 * [(f"c{to}", far[to])]
            crossed = [(start, end) for start, end, _ in wire.news()]
            assert len(crossed) == far[to]
            assert [start for start, _ in crossed] + [to] == [place] + [end for _, end in crossed]
            assert all(end in links[start] for start, end in crossed)
        wire = Wire(backbone)
        backbone.publish(f"c{place}", title(f"{number} none", "nobody asked"))
        assert not wire.news()  # it does not match: nothing leaves the access point
        backbone.publish(f"c{place}", title(f"{number} all", "all"))
        assert len(wire.news()) == sum(far.values())
    assert not any(backbone.superpeer(place).streams.open_to(other) for place in links for other in links)


def hierarchy(backbone: CalmBackbone, chance: Random) -> list[tuple[str, int, str]]:
    """Queries of which many cover others."""
    found = []
    for number in range(30):
        name = f"c{chance.randrange(4)}"
        words = chance.sample(WORDS, chance.choice([1, 1, 2, 3]))
        found.append((name, number, " AND ".join(f"title:{word}" for word in words)))
        backbone.subscribe(*found[-1])
    return found


@pytest.mark.row("P8")
def test_a_covered_query_is_not_forwarded_until_what_covers_it_leaves():
    """§3: "identified by the identifier of C and a very large random number"; "no continuous query that is less general
    than one that has already been processed is actually forwarded". The trap: when the general one leaves."""
    links, forwarded, heard = graph_of(SHAPES["ladder"]), {}, {}
    for is_used in (True, False):
        settings = SuperpeerSettings(probe_seconds=20.0, again_seconds=40.0, covers=is_used)
        clients = {f"c{number}": f"s{number % 2}" for number in range(4)} | {"pub": "s5"}
        backbone, chance = calm(links, clients, settings=settings), Random("poset")
        queries = hierarchy(backbone, chance)
        large = 2**63 + 17
        backbone.subscribe("c0", large, "title:word AND title:grid")
        assert backbone.client("c0").query_id(large) == f"c0 {large:016x}"
        standing = [effect.what for _, _, effect in backbone.seen if isinstance(effect.what, Standing)]
        assert len(standing) == 31  # covered or not
        forwarded[is_used] = len([name for name in backbone.superpeer("s5").sheets.far("s0") if name[0] == "q"]) + len(
            [name for name in backbone.superpeer("s5").sheets.far("s1") if name[0] == "q"]
        )
        for number in range(20):
            backbone.publish("pub", title(f"d{number}", " ".join(chance.sample(WORDS, 3))))
        heard[is_used] = sorted((who, one.subscription, one.document) for who, one, _ in backbone.notices())
        # Those that cover others leave, one after the other; what they covered must not go deaf.
        left = {(name, number) for name, number, text in queries if "AND" not in text}
        for name, number in sorted(left):
            backbone.do(name, lambda one, now, number=number: one.unsubscribe(number, now))  # type: ignore[misc]
        stay = [one for one in queries if one[:2] not in left] + [("c0", large, "title:word AND title:grid")]
        before = len(backbone.notices())
        documents = [title(f"e{number}", " ".join(chance.sample(WORDS, 4))) for number in range(20)]
        for document in documents:
            backbone.publish("pub", document)
        expected = sorted(
            (name, backbone.client(name).query_id(number), document.id)
            for name, number, text in stay
            for document in documents
            if holds(parse(text), document, KNOWLEDGE)
        )
        assert sorted((who, one.subscription, one.document) for who, one, _ in backbone.notices()[before:]) == expected
        assert len(expected) > 30
    assert heard[True] == heard[False]
    assert len(heard[True]) > 50
    assert forwarded[True] < forwarded[False] / 2 == 31 / 2


def test_to_hold_back_what_a_query_of_another_access_point_covers_would_lose_notices(monkeypatch):
    """Why the poset compares queries of one access point only, where the paper compares all that a super-peer has seen.

    On a ring of six, ann (at s2) asks for less than cat (at s0). s1 has seen cat's query when ann's comes by, and by
    the paper's rule would not pass ann's on to s0. But what is published at s0 stays there for cat, and what comes from
    s5 for cat takes s5-s0: neither passes s1, where ann's query waits.
    """
    links = graph_of(SHAPES["ring"])
    general, special = parse("title:peer"), parse("title:peer AND title:ring")
    assert covers(general, special)
    backbone = calm(links, {"ann": "s2", "cat": "s0", "pub": "s0", "far": "s5"})
    graph = backbone.superpeer("s1").routes.graph
    for source in ("s0", "s5"):
        assert graph.distance(source, "s2") in (2, 3)
        path, at = [source], source
        while at != "s0":
            at = graph.next_hop(at, "s0") or "s0"
            path.append(at)
        assert "s1" not in path  # the way to who asked for more does not pass where the other query would be held
    backbone.subscribe("cat", 1, "title:peer")
    backbone.subscribe("ann", 1, "title:peer AND title:ring")
    backbone.publish("pub", title("d1", "peer ring"))
    backbone.publish("far", title("d2", "peer ring"))
    told = sorted((who, one.document) for who, one, _ in backbone.notices())
    assert told == [("ann", "d1"), ("ann", "d2"), ("cat", "d1"), ("cat", "d2")]  # here both hear of both

    def literally(self: Sheets, message: Forward, now: Seconds) -> list[Effect]:
        """Passes a query on unless one that came from elsewhere covers it."""
        effects = self._on_far(message, message.origin, 0, now)
        others = [
            parse(line.value.decode())
            for origin, lines in self.sheets().items()
            for line in lines.values()
            if origin != message.origin and line.name[0] == "q" and line.value is not None
        ]
        asked = [parse(line.value.decode()) for line in message.lines if line.name[0] == "q" and line.value is not None]
        if any(covers(other, one) for other in others for one in asked):
            return effects
        return effects + [Send(one, message) for one in self._children(message.origin)]

    monkeypatch.setattr(Sheets, "_on_forward", literally)
    backbone = calm(links, {"ann": "s2", "cat": "s0", "pub": "s0", "far": "s5"})
    backbone.subscribe("cat", 1, "title:peer")
    backbone.subscribe("ann", 1, "title:peer AND title:ring")
    assert not backbone.superpeer("s0").sheets.far("s2").keys() & {f"q {backbone.client('ann').query_id(1)}"}
    backbone.publish("pub", title("d1", "peer ring"))
    assert [(who, one.document) for who, one, _ in backbone.notices()] == [("cat", "d1")]  # ann is deaf


# --- clients that come and go ----------------------------------------------------------------------------------------


@pytest.mark.row("P9")
@pytest.mark.parametrize("is_silent", [True, False], ids=["silently", "politely"])
def test_after_an_hour_away_a_client_gets_everything_once_in_order_elsewhere_at_another_address(is_silent):
    """§3: client migration, dynamic IP addresses, leaving silently, stored notifications, rendezvous."""
    settings = SuperpeerSettings(probe_seconds=10.0, again_seconds=10.0)
    links = graph_of([(0, 1), (1, 2), (2, 0), (2, 3)])
    backbone = calm(links, {"ann": "s0", "bob": "s3", "cat": "s1"}, settings=settings)
    backbone.subscribe("ann", 1, "title:peer")
    backbone.publish("ann", title("own", "ann's peer"), b"what ann has")
    backbone.publish("bob", title("d0", "peer 0"))
    if not is_silent:
        backbone.do("ann", lambda one, now: one.leave(now))
    backbone.vanish("ann")
    old = backbone.addresses["ann"]
    for number in range(1, 31):
        backbone.publish("bob" if number % 2 else "cat", title(f"d{number}", f"peer {number}"))
        backbone.wait(120.0 - 1.9)  # 30 of these are an hour
    gone = any(effect.what == ClientGone("ann") for _, _, effect in backbone.seen)
    assert gone == is_silent
    assert len(backbone.notices("ann")) == 2
    # The owner of a resource is away: who wants it sets up a rendezvous.
    backbone.subscribe("cat", 5, "title:nothing")
    backbone.call("cat", lambda one, now: one.fetch(old, "own", 1, now))
    backbone.wait(100.0)
    assert not backbone.fetched("cat")
    backbone.come("ann", "s2")
    assert backbone.addresses["ann"] != old
    backbone.wait(60.0)
    told = [notice.document for _, notice, _ in backbone.notices("ann")]
    assert told == ["own", *(f"d{number}" for number in range(31))]  # all, once, in order
    assert backbone.fetched("cat") == [b"what ann has"]
    # And from now on it is here: its former access point has nothing of it any more.
    assert any(effect.what == Moved("s0") for _, _, effect in backbone.seen)
    assert "ann" not in backbone.superpeer("s0").desk.records
    assert not len(backbone.superpeer("s0").filtering.poset)
    backbone.publish("bob", title("d31", "peer 31"))
    _who, notice, hops = backbone.notices("ann")[-1]
    assert (notice.document, hops) == ("d31", 1)  # bob is at s3, ann at s2 now
    answer = backbone.search("bob", "title:ann")
    assert [one.link for one in answer.documents] == [backbone.addresses["ann"]]
    backbone.do("bob", lambda one, now: one.fetch(answer.documents[0].link, "own", 1, now))
    assert backbone.fetched("bob") == [b"what ann has"]


def test_a_rendezvous_needs_never_both_at_the_same_time():
    """§3: who wished a resource may be away itself when its owner is back."""
    settings = SuperpeerSettings(probe_seconds=10.0, again_seconds=10.0)
    backbone = calm(graph_of(SHAPES["line"]), {"ann": "s0", "bob": "s4"}, settings=settings)
    backbone.publish("ann", title("own", "peer"), b"what ann has")
    link = backbone.addresses["ann"]
    backbone.vanish("ann")
    backbone.wait(60.0)
    backbone.call("bob", lambda one, now: one.fetch(link, "own", 1, now))
    backbone.wait(100.0)
    backbone.vanish("bob")
    backbone.wait(100.0)
    backbone.come("ann", "s0")
    backbone.wait(100.0)
    assert not backbone.fetched("bob")
    backbone.come("bob", "s2")
    backbone.wait(60.0)
    assert backbone.fetched("bob") == [b"what ann has"]


def test_routes_heal_within_the_probes_that_may_be_missed_and_no_notice_is_lost():
    """§3: "a simple fault-tolerance protocol based on are-you-alive messages"."""
    settings = SuperpeerSettings(probe_seconds=1.0, probes_missed_max=3, again_seconds=2.0)
    links = graph_of(SHAPES["ring"])
    backbone = calm(links, {"ann": "s0", "bob": "s3", "cat": "s1"}, settings=settings)
    backbone.subscribe("ann", 1, "title:peer")
    graph = backbone.superpeer("s3").routes.graph
    dead = graph.next_hop("s3", "s0")
    assert dead is not None
    backbone.world.crash(dead)
    start = backbone.world.now
    backbone.call("bob", lambda one, now: one.publish(title("d1", "peer"), now))
    healed: Seconds | None = None
    while healed is None and backbone.world.now < start + 20:
        backbone.world.run(backbone.world.now + 0.1)
        alive = [place for place in links if place != dead]
        if all(dead not in backbone.superpeer(one).routes.graph.reachable(one) for one in alive):
            healed = backbone.world.now - start
    assert healed is not None
    assert healed <= (settings.probes_missed_max + 1.5) * settings.probe_seconds
    backbone.wait(10.0)
    assert [(notice.document, hops) for _, notice, hops in backbone.notices("ann")] == [("d1", 3)]  # the other way
    backbone.world.restart(dead, keeps_disk=True)
    backbone.wait(10.0)
    backbone.publish("bob", title("d2", "peer"))
    assert [notice.document for _, notice, _ in backbone.notices("ann")] == ["d1", "d2"]
    assert dead in backbone.superpeer("s0").routes.graph.reachable("s0")


def test_a_client_whose_access_point_dies_finds_another_and_misses_nothing():
    settings = SuperpeerSettings(probe_seconds=1.0, again_seconds=1.0)
    backbone = calm(graph_of(SHAPES["ring"]), {"ann": "s0", "bob": "s3"}, settings=settings)
    backbone.subscribe("ann", 1, "title:peer")
    backbone.world.crash("s0")
    for number in range(10):
        backbone.publish("bob", title(f"d{number}", "peer"))
    backbone.wait(20.0)
    assert any(effect.what == Lost("s0") for _, _, effect in backbone.seen)
    assert backbone.client("ann").access != "s0"
    assert Counter(notice.document for _, notice, _ in backbone.notices("ann")) == {f"d{n}": 1 for n in range(10)}
    assert not any(isinstance(effect.what, Fetched) for _, _, effect in backbone.seen)
