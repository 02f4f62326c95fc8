"""Super-peers piece by piece, and their contract: what `query.semantics.holds` says, each notice once, whatever fails.

The suite itself is tested too: bugs that are planted on purpose must be caught.
"""

from __future__ import annotations

import typing
from contextlib import suppress
from dataclasses import fields, replace
from random import Random
from typing import Any

import numpy as np
import pytest

from tocsin.errors import QueryError
from tocsin.match.rendezvous.payload import PackedDocument
from tocsin.model import Document
from tocsin.overlay.delivery import Notice
from tocsin.overlay.message import Message, OverlayError, Peer, encode, message_types, peer
from tocsin.overlay.node import Send
from tocsin.overlay.placement.superpeers import poset, streams
from tocsin.overlay.placement.superpeers.advertisements import Advertisement, advertisement
from tocsin.overlay.placement.superpeers.belongings import Belongings
from tocsin.overlay.placement.superpeers.client import Client
from tocsin.overlay.placement.superpeers.desk import Desk
from tocsin.overlay.placement.superpeers.fields import FieldFiles
from tocsin.overlay.placement.superpeers.graph import Graph
from tocsin.overlay.placement.superpeers.messages import (
    Advertise,
    AreYouAlive,
    Connect,
    Forward,
    Heard,
    LinkStates,
    Meet,
    PublishAt,
    Refused,
    Relay,
    Search,
    Subscribe,
    Welcome,
    Wish,
)
from tocsin.overlay.placement.superpeers.poset import Change, Poset
from tocsin.overlay.placement.superpeers.routes import Refusal
from tocsin.overlay.placement.superpeers.superpeer import SuperPeer
from tocsin.overlay.placement.superpeers.table import Arrived, QueryTable
from tocsin.query import covers, holds, parse, parse_subscription, show
from tocsin.query.semantics import Knowledge
from tocsin.sim.superpeers import CalmBackbone, SuperpeerScenario, graph_of, random_graph, run_superpeers
from tocsin.sim.workload import random_document, random_query

KNOWLEDGE = Knowledge()
SEEDS = 200
SEEDS_SLOW = 5_000
CALM = SuperpeerScenario(limits=None, operations=40)


# --- the contract ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_without_faults_it_is_the_oracle(seed):
    outcome = run_superpeers(seed, CALM)
    assert not outcome.violations, str(outcome)
    assert outcome.due > 5


@pytest.mark.row("X2")
@pytest.mark.parametrize("first", range(0, SEEDS, 25))
def test_nothing_is_missed_wrong_or_twice_under_faults(first):
    """X2: queries and documents come, change and go, clients move, machines and links fail; the oracle replays it."""
    due = moves = covered = pruned = 0
    for seed in range(first, first + 25):
        outcome = run_superpeers(seed)
        assert not outcome.violations, str(outcome)
        due, moves = due + outcome.due, moves + outcome.moves
        covered, pruned = covered + outcome.covered, pruned + outcome.pruned
    assert min(due, moves, covered, pruned) > 15


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + SEEDS_SLOW, 100))
def test_nothing_is_missed_wrong_or_twice_under_many_faults(first):
    for seed in range(first, first + 100):
        outcome = run_superpeers(seed)
        assert not outcome.violations, str(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_larger_graphs_for_a_longer_time(seed):
    scenario = SuperpeerScenario(
        superpeers=9, more_links=6, clients=12, subscriptions=30, operations=80, fault_seconds=60, heal_seconds=60
    )
    outcome = run_superpeers(seed, scenario)
    assert not outcome.violations, str(outcome)
    assert outcome.due > 50


def test_equal_seeds_are_equal_to_the_last_byte():
    """X3 for this placement."""
    assert run_superpeers(11).trace == run_superpeers(11).trace != run_superpeers(12).trace


# --- bugs that must be caught ----------------------------------------------------------------------------------------


def caught(seeds: range, scenario: SuperpeerScenario | None = None) -> set[str]:
    return {text.partition(":")[0] for seed in seeds for text in run_superpeers(seed, scenario).violations}


def test_an_orphan_that_is_not_forwarded_again_is_missed(monkeypatch):
    """P8's trap: a covering query leaves, and those that it covered are forgotten."""

    def forgetful(self: Poset, name: str) -> Change:
        change = right(self, name)
        return Change((), change.removed)

    right = Poset.remove
    monkeypatch.setattr(Poset, "remove", forgetful)
    graph = graph_of([(0, 1)])
    calm = CalmBackbone(graph, {"ann": "s0", "bob": "s1"})
    calm.subscribe("ann", 1, "title:peer")
    calm.subscribe("ann", 2, "title:(peer AND ring)")
    calm.do("ann", lambda client, now: client.unsubscribe(1, now))
    calm.publish("bob", Document("d", {"title": ("peer ring",)}))
    assert not calm.notices()


def test_covering_by_too_much_is_missed(monkeypatch):
    monkeypatch.setattr(poset, "covers", lambda general, special, analysis: True)
    assert "missed" in caught(range(2), CALM)


def test_a_stream_that_forgets_is_missed(monkeypatch):
    monkeypatch.setattr(streams.Streams, "wake", lambda self, token, now: [])
    assert caught(range(2)) & {"missed", "open"}


def test_an_advertisement_that_blocks_too_much_loses_answers(monkeypatch):
    monkeypatch.setattr(Advertisement, "allows", lambda self, query, knowledge: False)
    assert "listed" in caught(range(2), CALM)


def test_a_client_that_keeps_no_memory_of_notices_has_them_twice(monkeypatch):
    def careless(self: Belongings, notice: Notice) -> bool:
        self._outbox.append(notice)
        return True

    monkeypatch.setattr(Belongings, "_keep_notice", careless)
    assert "twice" in caught(range(4))


def test_what_is_not_collected_from_a_former_access_point_is_missed(monkeypatch):
    monkeypatch.setattr(Desk, "_on_handed", lambda self, message, origin, hops, now: [])
    assert caught(range(2)) & {"missed", "copies"}


# --- graphs ----------------------------------------------------------------------------------------------------------


def test_trees_of_shortest_paths_reach_everybody_once():
    chance = Random(3)
    for _ in range(60):
        links = random_graph(chance, chance.randint(2, 12), chance.randint(0, 10))
        graph = Graph(links)
        for root in links:
            met = [root]
            for one in met:
                met += graph.children(one, root)
            assert sorted(met) == sorted(links)  # each exactly once, cycles or not
            for one in links:
                assert graph.distance(one, root) == graph.distance(root, one) == breadth_first(links, root)[one]
                assert graph.below(one, root) == {
                    other for other in links if one in way(graph, other, root)
                }  # what a link leads to


def breadth_first(links, root):
    far, front = {root: 0}, [root]
    while front:
        front = [other for one in front for other in links[one] if far.setdefault(other, far[one] + 1) == far[one] + 1]
        front = list(dict.fromkeys(front))
        front = [one for one in front if one != root]
        if len(far) == len(links):
            break
    return far


def way(graph, start, end):
    found = [start]
    while found[-1] != end:
        found.append(graph.next_hop(found[-1], end))
    return found


def test_a_link_needs_both_ends():
    graph = Graph({"a": ["b", "c"], "b": ["a"], "c": []})
    assert graph.neighbours("a") == ("b",)
    assert graph.distance("a", "c") is None
    assert graph.next_hop("a", "c") is None


# --- advertisements --------------------------------------------------------------------------------------------------


def test_an_advertisement_blocks_only_what_none_of_its_documents_can_match():
    rng, chance = np.random.default_rng(5), Random(5)
    blocked = 0
    for _ in range(150):
        documents = [random_document(rng, number) for number in range(4)]
        wide = Advertisement()
        for document in documents:
            wide = wide.widened(document, chance.choice([0, 2, 32]))
        assert all(wide.is_satisfied(document) for document in documents)
        assert advertisement(wide.packed()) == wide
        for _ in range(10):
            query = random_query(rng, 2, nested=False)
            if not wide.allows(query, KNOWLEDGE):
                blocked += 1
                assert not any(holds(query, document, KNOWLEDGE) for document in documents), (show(query), wide)
    assert blocked > 50


def test_what_each_kind_of_advertisement_blocks():
    """P2P-DIET §2: fields; or fields with the values that are expected."""
    fields = Advertisement({"title": None, "author": None})
    values = Advertisement({"title": None, "author": frozenset({"John Smith", "Tom Fox"})})
    for text, by_fields, by_values in [
        ("title:peer", True, True), ("year:2004", False, False), ("title:peer AND year:2004", False, False),
        ("title:peer OR year:2004", True, True), ('author = "John Smith"', True, True),
        ('author = "John Brown"', True, False), ("author:fox", True, True), ("author:brown", True, False),
        ("NOT year:2004", True, True), ("peer", True, True), ("id:d7", True, True), ("author:sm*", True, True),
        ("author:br*", True, False),
    ]:  # fmt: skip
        query = parse(text)
        assert (fields.allows(query, KNOWLEDGE), values.allows(query, KNOWLEDGE)) == (by_fields, by_values), text
    assert not Advertisement().allows(parse("title:peer"), KNOWLEDGE)


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b'{"a": 3}', b'{"a": [true]}', b'{"a": [[]]}', b"\xff"])
def test_nonsense_is_no_advertisement(data):
    with pytest.raises(ValueError):  # noqa: PT011 — whatever JSON says, or we
        advertisement(data)


# --- the poset, the table, the files ---------------------------------------------------------------------------------


def test_whatever_comes_and_goes_every_query_is_forwarded_or_covered_by_one_that_is():
    """P8: and others were told so, change by change."""
    rng, chance = np.random.default_rng(7), Random(7)
    queries = Poset(KNOWLEDGE.analysis)
    told: set[str] = set()
    texts: list[str] = []
    covered = again = 0
    for step in range(600):
        if len(queries) > 3 and chance.random() < 0.45:
            change = queries.remove(chance.choice(list(queries)))
            again += len(change.forwarded)
        else:
            text = show(random_query(rng, 1, nested=False, subscription=True))
            if texts and chance.random() < 0.6:
                text = f"({chance.choice(texts)}) AND ({text})"
            try:
                query = parse_subscription(text)
            except QueryError:
                continue
            texts.append(text)
            change = queries.add(f"q{step}", query)
            covered += not change.forwarded
        told = (told | set(change.forwarded)) - set(change.removed)
        assert told == set(queries.forwarded())
        for name in queries:
            cover = queries.cover(name)
            assert cover in told
            assert cover == name or covers(queries.query(cover), queries.query(name))
    assert covered > 30
    assert again > 5


def test_the_table_finds_what_a_scan_finds():
    rng = np.random.default_rng(8)
    table: QueryTable[int] = QueryTable(KNOWLEDGE)
    queries = {number: random_query(rng, 2, nested=False) for number in range(300)}
    for number, query in queries.items():
        table.set(number, query)
    for number in range(0, 300, 3):
        table.remove(number)
        del queries[number]
    assert len(table) == len(queries)
    for number in range(40):
        document = random_document(rng, number)
        expected = {name for name, query in queries.items() if holds(query, document, KNOWLEDGE)}
        assert set(table.matching(Arrived(document, KNOWLEDGE))) == expected


def test_the_files_find_what_a_scan_finds():
    """P6, for every form of query; while documents change and go."""
    rng = np.random.default_rng(9)
    files = FieldFiles(KNOWLEDGE)
    for number in range(120):
        files.add(f"d{number % 80}", random_document(rng, number))
    for number in range(0, 80, 5):
        files.remove(f"d{number}")
    assert len(files) == 64
    for _ in range(300):
        query = random_query(rng, 2, nested=False)
        assert files.search(query) == files.scan(query), show(query)
    assert files.checked < 300 * len(files) * 0.8  # some queries needed no look at all documents


# --- what is refused -------------------------------------------------------------------------------------------------


def refusals(effects: list) -> list[str]:
    return [effect.what.kind for effect in effects if hasattr(effect, "what") and isinstance(effect.what, Refusal)]


class Alone:
    """A super-peer with one client, and messages given by hand."""

    def __init__(self) -> None:
        self.node = SuperPeer("s0", ["s1"], KNOWLEDGE)
        self.ann = peer("ann@h0:1")
        self.node.start(0.0)
        self.give(Connect(self.ann, "ann", 1, 0, (), b""))

    def give(self, message: Message) -> list:
        return self.node.handle(message, 1.0)


def document(**fields: str) -> bytes:
    return PackedDocument.of(Document("d", {name: (text,) for name, text in fields.items()})).data


def test_a_client_that_claims_anothers_name_is_refused_counted_and_told():
    alone = Alone()
    effects = alone.give(Connect(peer("eve@h0:1"), "ann", 9, 0, (), b""))
    assert refusals(effects) == ["impostor"]
    assert [type(one.message) for one in effects if isinstance(one, Send)] == [Refused]
    assert alone.node.routes.refused == {"impostor": 1}
    assert alone.node.desk.records["ann"].address == "ann@h0:1"
    assert refusals(alone.give(Subscribe(alone.ann, 1, 1, "bob 0007", 1, "peer"))) == ["impostor"]
    wish = encode(Wish(peer("bob@h0:1"), 1, "d", 1, b""))
    assert refusals(alone.give(Meet(alone.ann, 1, 2, "cat", wish))) == ["impostor"]
    assert alone.node.status()["refused"] == {"impostor": 3}


def test_who_is_not_connected_is_told_to_connect():
    alone = Alone()
    eve = peer("eve@h0:1")
    for message in (
        Subscribe(eve, 1, 7, "eve 1", 1, "peer"), Subscribe(alone.ann, 2, 7, "ann 1", 1, "peer"),
        PublishAt(eve, 1, 7, document(title="x"), False), Search(eve, 1, 7, 1, "x", ()),
    ):  # fmt: skip
        (effect,) = alone.give(message)
        assert effect.message.number == 7
        assert not effect.message.is_final


def test_an_advertisement_that_lies_is_refused_and_others_go_on():
    """What a client publishes must be what it advertised; nothing of it is listed or told."""
    alone = Alone()
    alone.give(Subscribe(alone.ann, 1, 1, "ann 1", 1, "title:peer"))
    packed = Advertisement({"title": frozenset({"a ring"})}).packed()
    alone.give(Advertise(alone.ann, 1, 2, packed))
    for data in (document(title="a peer"), document(title="a ring", year="2004")):
        effects = alone.give(PublishAt(alone.ann, 1, 3, data, False))
        assert refusals(effects) == ["unadvertised"]
        assert not alone.node.filtering.files.search(parse("title:*"))
    assert alone.node.routes.refused["unadvertised"] == 2
    assert not refusals(alone.give(PublishAt(alone.ann, 1, 4, document(title="a ring"), False)))
    assert len(alone.node.filtering.files) == 1


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (Subscribe(peer("ann@h0:1"), 1, 1, "ann 1", 1, "title:("), "query"),
        (Subscribe(peer("ann@h0:1"), 1, 1, "ann 1", 1, "author:IN:(peer)"), "query"),
        (Search(peer("ann@h0:1"), 1, 1, 1, "AND", ()), "query"),
        (PublishAt(peer("ann@h0:1"), 1, 1, b"nonsense", False), "malformed"),
        (Advertise(peer("ann@h0:1"), 1, 1, b"nonsense"), "malformed"),
        (Meet(peer("ann@h0:1"), 1, 1, "bob", b"nonsense"), "malformed"),
        (AreYouAlive(peer("s9"), 0, False), "stranger"),
        (LinkStates(peer("s9"), (), True), "stranger"),
        (Relay("s1", "s0", 1, b"nonsense"), None),
        (Forward("s0", 0, 1, (), b""), "forged"),
    ],
)
def test_nonsense_is_refused(message, kind):
    alone = Alone()
    assert refusals(alone.give(message)) == ([] if kind is None else [kind])
    assert not alone.node.filtering.files
    assert not alone.node.filtering.poset


def test_an_advertisement_with_too_many_values_is_refused():
    alone = Alone()
    long = Advertisement({"title": frozenset(map(str, range(33)))})
    assert refusals(alone.give(Advertise(alone.ann, 1, 1, long.packed()))) == ["malformed"]
    assert not alone.node.desk.records["ann"].advertisement.fields


class Absurd:
    """Messages of any type, with values that nobody would send."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(f"absurd {seed}")
        self.types = [cls for tag, cls in sorted(message_types().items()) if 160 <= tag < 200]

    def value(self, hint: object, depth: int) -> object:
        chance = self.chance
        if hint is int:
            return chance.choice([0, 1, 2, 3, 255, 1 << 32, (1 << 64) - 2])
        if hint is bool:
            return chance.random() < 0.5
        if hint is str:
            return chance.choice(
                ["", "ann", "ann 1", "ann@h0:1", "s0", "s1", "s2", "q ann 1", "c ann", "é\0", "title:peer", "("]
            )
        if hint is Peer:
            return peer(chance.choice(["ann@h0:1", "s1", "s2", "eve@h0:1", ""]))
        if hint is Message:
            return self.message(depth + 1) if depth < 2 else AreYouAlive(peer("s1"), 0, False)
        if hint is bytes:
            nothing = chance.randbytes(chance.choice([0, 1, 30]))
            return chance.choice(
                [nothing, b"title:peer", document(title="peer")]
                + ([encode(self.message(depth + 1))] if depth < 2 else [])
            )
        if typing.get_origin(hint) is tuple:
            return tuple(self.value(typing.get_args(hint)[0], depth) for _ in range(chance.choice([0, 1, 3])))
        if typing.get_args(hint):
            return None if chance.random() < 0.3 else self.value(typing.get_args(hint)[0], depth)
        return self.made(hint, depth)

    def made(self, cls: object, depth: int) -> object:
        hints = typing.get_type_hints(cls)
        return cls(*(self.value(hints[field.name], depth) for field in fields(cls)))  # type: ignore[operator, arg-type]

    def message(self, depth: int = 0) -> Any:
        return self.made(self.chance.choice(self.types), depth)


@pytest.mark.parametrize(
    "seed", [0, 18, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(60) if seed not in (0, 18))]
)
def test_no_absurd_message_makes_a_super_peer_or_a_client_fail(seed):
    absurd, alone = Absurd(seed), Alone()
    client = Client("ann@h0:1", ["s0"], KNOWLEDGE)
    client.start(0.0)
    client.handle(Welcome(peer("s0"), 1, False, b""), 0.5)
    client.subscribe(1, "title:peer", 0.5)
    for step in range(1_500):
        message = absurd.message()
        for node in (alone.node, client):
            for effect in node.handle(message, 1.0 + step):
                if isinstance(effect, Send):
                    with suppress(OverlayError):  # a driver counts what cannot be sent
                        encode(effect.message)
    assert alone.node.routes.refused


def test_late_messages_of_an_old_connection_change_nothing():
    alone = Alone()
    new = peer("ann@h1:1")
    alone.give(Connect(new, "ann", 5, 1, (), b""))
    assert alone.give(Connect(alone.ann, "ann", 1, 0, (), b"")) == []
    assert alone.give(Heard(alone.ann, 1, 99)) == []
    assert alone.node.desk.records["ann"].address == "ann@h1:1"


def test_a_query_that_cannot_be_is_said_to_the_caller():
    client = Client("ann@h0:1", ["s0"], KNOWLEDGE)
    for text in ("title:(", "author:IN:(peer)"):
        with pytest.raises(QueryError):
            client.subscribe(1, text, 0.0)


def test_settings_can_switch_everything_off():
    calm = CalmBackbone(
        graph_of([(0, 1), (1, 2)]), {"ann": "s0", "bob": "s2"},
        settings=replace(SuperpeerScenario().settings, covers=False, prunes=False, advertises_values=False),
    )  # fmt: skip
    calm.subscribe("ann", 1, "title:peer")
    calm.subscribe("ann", 2, "title:(peer AND ring)")
    assert len(calm.superpeer("s0").filtering.poset.forwarded()) == 2
    calm.publish("bob", Document("d", {"title": ("peer",)}))
    assert calm.client("bob").advertisement.fields == {"title": None}
    calm.search("ann", "year:2004")
    assert calm.superpeer("s1").one_time.pruned == 0
    assert calm.superpeer("s1").one_time.passed == 1


def test_a_super_peer_that_begins_again_has_what_it_had():
    """Its clients, queries, documents and what is stored; and with other settings, it forwards what it must."""
    disk: dict[bytes, bytes] = {}
    settings = SuperpeerScenario().settings

    def begin(life: int, covers: bool) -> SuperPeer:
        changed = replace(settings, covers=covers)
        node = SuperPeer("s0", ["s1"], KNOWLEDGE, settings=changed, disk=disk, life=life)
        node.start(float(life))
        return node

    node, ann = begin(1, True), peer("ann@h0:1")
    node.handle(Connect(ann, "ann", 1, 0, (), b""), 1.0)
    node.handle(Subscribe(ann, 1, 1, "ann 1", 1, "title:peer"), 1.0)
    node.handle(Subscribe(ann, 1, 2, "ann 2", 1, "title:(peer AND ring)"), 1.0)
    node.handle(Advertise(ann, 1, 3, Advertisement({"title": None}).packed()), 1.0)
    node.handle(PublishAt(ann, 1, 4, document(title="peer ring"), False), 1.0)
    before = node.status()
    assert (before["queries"], before["forwarded"], before["documents"]) == (2, 1, 1)
    again = begin(2, True)
    assert again.status() == before
    assert again.desk.records["ann"].queue == node.desk.records["ann"].queue
    assert len(again.desk.records["ann"].queue) == 2
    assert begin(3, False).status()["forwarded"] == 2
    known = begin(4, False).sheets.sheets()["s0"]
    assert {"q ann 1", "q ann 2", "c ann"} == set(known)


def test_a_super_peer_that_is_gone_for_good_is_waited_for_until_it_is_retired():
    settings = replace(SuperpeerScenario().settings, probe_seconds=1.0, again_seconds=1.0)
    links = graph_of([(0, 1), (1, 2), (2, 3), (3, 0)])
    calm = CalmBackbone(links, {"ann": "s0", "bob": "s1", "cat": "s2"}, settings=settings)
    calm.subscribe("bob", 1, "title:peer")
    calm.publish("bob", Document("lost", {"title": ("peer",)}))
    calm.world.crash("bob")
    calm.world.crash("s1")
    calm.wait(8.0)
    calm.subscribe("ann", 1, "title:peer")
    calm.publish("cat", Document("d", {"title": ("peer",)}))
    calm.wait(5.0)
    assert [(who, one.document) for who, one, _ in calm.notices("ann")] == [("ann", "d")]  # nobody waits to be told
    kinds = {(who, type(effect.what).__name__) for _, who, effect in calm.seen}
    assert ("ann", "Standing") not in kinds
    assert ("cat", "Published") not in kinds
    calm.world.invoke("s3", lambda one, now: one.routes.retire("s1", now))
    calm.wait(5.0)
    kinds = {(who, type(effect.what).__name__) for _, who, effect in calm.seen}
    assert {("ann", "Standing"), ("cat", "Published"), ("s0", "Retired"), ("s2", "Retired")} <= kinds
    answer = calm.search("ann", "title:peer")
    assert [one.id for one in answer.documents] == ["d"]
    assert not answer.missing
    calm.world.restart("s1", keeps_disk=True)
    calm.wait(8.0)
    assert all("s1" not in calm.superpeer(place).routes.graph.reachable(place) for place in ("s0", "s2", "s3"))
    assert ("s1", "Retired") in {(who, type(effect.what).__name__) for _, who, effect in calm.seen}
    calm.world.restart("bob", keeps_disk=True)  # it was there, is refused, and finds another access point
    calm.wait(20.0)
    assert calm.client("bob").access != "s1"
    assert {one.document for _, one, _ in calm.notices("bob")} == {"lost"}
    calm.publish("cat", Document("e", {"title": ("peer",)}))
    calm.wait(5.0)
    assert "e" in {one.document for _, one, _ in calm.notices("bob")}
    assert {one.id for one in calm.search("ann", "title:peer").documents} == {"d", "e", "lost"}
