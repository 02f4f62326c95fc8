"""SmartSeer on the ring: registration, lists, joins and notification as messages; one test per claim."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest

from tocsin.match.rendezvous.notification import Notification
from tocsin.match.rendezvous.payload import Join
from tocsin.model import Document
from tocsin.overlay.key import hashed
from tocsin.overlay.member import Member
from tocsin.overlay.multicast import MulticastSettings
from tocsin.overlay.placement.entry import LIST_KIND, QUERY_KIND, Disjunction, entry_of, word_key
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.overlay.placement.words import Words
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.show import show
from tocsin.sim.calm import Calm
from tocsin.sim.placements import PlacementScenario, run_placement
from tocsin.sim.workload import WorkloadSettings, documents, query_ranks, random_documents, random_query
from tocsin.sim.world import World, constant
from tocsin.text import Analysis

SMARTSEER = PlacementSettings()
NEWS = WorkloadSettings(
    vocabulary_words=400, document_unique_words=60, document_words=90, documents=8, queries=150, query_words_mean=4
)


def document(id: str, text: str, version: int = 1) -> Document:
    return Document(id, {"text": (text,)}, version=version)


def entries(calm: Calm) -> list[tuple[str, int, str]]:
    """Who keeps what: address, key, subscription."""
    found = []
    for address, site in calm.sites.items():
        for key in site.items.store.sorted_keys():
            for item in site.items.store.at(key):
                entry = entry_of(item, Analysis()) if item.kind == QUERY_KIND else None
                if entry is not None:
                    found.append((address, key, entry.subscription))
    return sorted(found)


# --- §II: continuous and instantaneous queries -----------------------------------------------------------------------


@pytest.mark.row("S1")
@pytest.mark.parametrize("join", [Join.SEND_DOCUMENT, Join.DIALOGUE])
def test_what_was_pushed_while_documents_came_is_what_a_one_time_query_finds_at_the_end(join):
    """S1: on one corpus; queries that stay true once they are (no NOT), as the corpus only grows."""
    calm = Calm(9, PlacementSettings(join=join))
    rng = np.random.default_rng(8)
    drawn = [show(random_query(rng, 2, nested=False)) for _ in range(40)]
    queries = {f"s{number}": text for number, text in enumerate(drawn) if "NOT" not in text}
    for number, (id, text) in enumerate(queries.items()):
        calm.subscribe(f"n{number % 9}", id, text)
    for number, one in enumerate(random_documents(rng, 20)):
        calm.publish(f"n{number % 9}", one)
    pushed = {id: set[tuple[str, int]]() for id in queries}
    for _, notice in calm.notices():
        pushed[notice.subscription].add((notice.document, notice.version))
    assert sum(map(len, pushed.values())) > 50
    for id, text in queries.items():
        assert calm.search("n4", text) == pushed[id], text


@pytest.mark.row("S2")
@pytest.mark.parametrize("join", [Join.SEND_DOCUMENT, Join.DIALOGUE])
def test_one_message_for_a_document_and_a_node_brings_the_notice_and_the_new_lists(join):
    """S2: the index of documents is updated in the message that notifies of them.

    Parsing and that both sides use one analysis: tests/query, tests/test_text.py.
    """
    multicast = MulticastSettings(cache_entries_max=1_000)
    calm = Calm(6, PlacementSettings(join=join, notification=Notification.CLUSTERED), multicast=multicast)
    one = document("d", "a ring of words that every node has some of and none has all of")
    calm.spent()
    calm.publish("n0", one)
    messages, _ = calm.spent()
    keys = calm.sites["n0"].words.visit(one)
    others = {calm.owner(key) for key in keys} - {"n0"}
    assert len(others) >= 4
    dedicated = {calm.owner(key) for key in SMARTSEER.dedicated_keys} - {"n0"}
    assert messages["Receipt"] <= len(others) + len(dedicated)  # each node had it once, dedicated ones the document too
    assert not messages.keys() - {"Cast", "Receipt", "Done", "Route", "OwnRange"}  # nothing else was sent for the lists
    listed = Counter(
        calm.owner(item.key)
        for site in calm.sites.values()
        for key in site.items.store.sorted_keys()
        for item in site.items.store.at(key)
        if item.kind == LIST_KIND
    )
    assert listed.total() >= 10
    assert calm.search("n3", "ring AND words") == {("d", 1)}


# --- §III-B: registration --------------------------------------------------------------------------------------------


@pytest.mark.row("S3")
def test_a_conjunction_is_kept_once_and_whole_at_the_owner_of_its_most_selective_word():
    calm = Calm(8, SMARTSEER)
    for number in range(6):
        calm.publish("n0", document(f"d{number}", " ".join(["common", "middle", "rare"][: 3 - number // 2])))
    calm.subscribe("n1", "s", "common AND rare AND middle AND NOT other")
    key = word_key("rare")
    assert entries(calm) == [(calm.owner(key), key, "s")]


def test_a_disjunction_waits_at_a_word_of_each_part_or_as_disjoint_clauses():
    """§VI-A; S12: one notice, however many words hit."""
    for disjunction, kept in ((Disjunction.WORDS, 3), (Disjunction.CLAUSES, 3)):
        calm = Calm(8, PlacementSettings(disjunction=disjunction))
        calm.subscribe("n1", "s", "a OR b OR c")
        assert len(entries(calm)) == kept
        calm.publish("n2", document("d", "a b c"))
        assert [(address, notice.subscription) for address, notice in calm.notices()] == [("n1", "s")]
        assert calm.spent()[0]["Notify"] <= 1


def test_what_can_wait_at_no_word_waits_at_dedicated_nodes():
    """§VI-A, S14: they see every document."""
    calm = Calm(8, SMARTSEER)
    calm.subscribe("n1", "s", "NOT ring")
    calm.subscribe("n1", "t", "year:[2004 TO 2006]")
    assert {key for _, key, _ in entries(calm)} <= set(SMARTSEER.dedicated_keys)
    calm.publish("n2", Document("d", {"text": ("tree",), "year": (2005,)}))
    calm.publish("n2", Document("e", {"text": ("ring",), "year": (2007,)}))
    assert sorted(notice.name for _, notice in calm.notices()) == [("s", "d", 1), ("t", "d", 1)]


# --- §IV-A: joins ----------------------------------------------------------------------------------------------------


def conversation_bytes(join: Join) -> tuple[int, set[tuple[str, str, int]]]:
    """What a join sends beside the notice, over a small stream of news."""
    calm = Calm(6, PlacementSettings(join=join, notification=Notification.CLUSTERED, filter_bits=1_000))
    for number, text in enumerate(query_ranks(NEWS, 3).texts()):
        calm.subscribe(f"n{number % 6}", f"s{number}", text)
    calm.spent()
    for one in documents(NEWS, 3):
        calm.publish("n1", one)
    _, sizes = calm.spent()
    return sizes["Inquire"] + sizes["Respond"], {notice.name for _, notice in calm.notices()}


def test_on_the_ring_a_dialogue_sends_less_than_the_queries_and_a_filter_makes_it_shorter():
    taken = {join: conversation_bytes(join) for join in (Join.SEND_QUERY, Join.DIALOGUE, Join.BLOOM_DIALOGUE)}
    expected = {
        (f"s{number}", one.id, 1)
        for one in documents(NEWS, 3)
        for number, text in enumerate(query_ranks(NEWS, 3).texts())
        if holds(parse(text), one, Knowledge())
    }
    assert all(told == expected for _, told in taken.values())
    assert len(expected) > 5
    assert taken[Join.BLOOM_DIALOGUE][0] < taken[Join.DIALOGUE][0] < taken[Join.SEND_QUERY][0]


# --- §IV-C: notification ---------------------------------------------------------------------------------------------


def test_broadcast_reaches_each_node_once_and_clustered_asks_each_owner_once():
    one = document("d", "ring tree grid words nodes")
    calm = Calm(16, PlacementSettings(notification=Notification.BROADCAST))
    calm.publish("n0", one)
    assert calm.spent()[0]["Spread"] == 15
    calm = Calm(16, PlacementSettings(notification=Notification.CLUSTERED))
    calm.publish("n0", one)
    owners = {calm.owner(key) for key in calm.sites["n0"].words.visit(one) - set(SMARTSEER.dedicated_keys)}
    assert calm.spent()[0]["OwnRange"] in (len(owners), len(owners) - 1)  # the publisher does not write to itself


def test_the_adaptive_choice_learns_from_reports_and_leaves_the_dialogue_where_it_is_dear():
    """§V-E, S10: no choice is fixed; reports ride on other messages."""
    calm = Calm(4, PlacementSettings(join=None, filter_bits=4_000))
    rng = np.random.default_rng(2)
    for number in range(300):
        rare = " AND ".join(f"r{rank}" for rank in rng.integers(0, 3_000, 5))
        calm.subscribe("n1", f"s{number}", f"a{number % 50} AND {rare}")
    for number in range(5):
        text = " ".join([f"a{rank}" for rank in range(50)] + [f"x{rank:x}" for rank in rng.integers(0, 2**40, 200)])
        calm.publish("n2", document(f"d{number}", text))
    chosen = calm.sites["n2"].words.publisher.chosen
    assert (chosen[0].notification, set(chosen[0].joins.values())) == (Notification.CLUSTERED, {Join.DIALOGUE})
    assert {Join.BLOOM_QUERY, Join.BLOOM_DIALOGUE} & set(chosen[-1].joins.values())
    assert not calm.notices()


# --- §III-A: unreliable hosts ----------------------------------------------------------------------------------------


class _Site(Member):
    words: Words


@pytest.mark.parametrize("after", [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6])
def test_a_range_that_changes_hands_in_the_middle_of_a_publication_misses_nothing(after):
    """S19: a node joins at the very key of a word, and another dies, while the document is on its way."""
    world = World(1, latency=constant(0.1))
    names = [f"m{number}" for number in range(6)]
    # A host whose key is the last before the word's owner takes the word over.
    word = word_key("ring")
    late = min((f"late{number}" for number in range(5_000)), key=lambda name: (hashed("node", name) - word) % 2**64)

    def add(name: str) -> None:
        def make(disk: dict[bytes, bytes], life: int) -> _Site:
            site = _Site(name, () if name == "m0" and not life else ("m0", "m1"), incarnation=life)
            site.words = Words(site, Knowledge(), SMARTSEER, life=life)
            return site

        world.add(name, make)

    for number, name in enumerate(names):
        world.at(number * 0.5, partial(_add, add, name))
    world.run(40)
    owner = next(name for name in names if world.process(name).chord.owns(word))
    subscriber, publisher = [name for name in names if name != owner][:2]
    for number in range(5):
        text = "ring" if number % 2 else "ring AND words"
        world.invoke(subscriber, partial(_subscribe, f"s{number}", text))
    world.run(55)
    one = document("d", "ring words")
    world.invoke(publisher, lambda site, now: site.words.publisher.publish(one, now))
    world.at(55 + after, lambda world: add(late))
    world.at(55.3 + after, lambda world: world.crash(owner))
    world.run(180)
    assert world.process(late).chord.owns(word)
    found = world.process(subscriber).words.delivery.outbox()
    assert sorted(notice.name for _, notice in found) == [(f"s{number}", "d", 1) for number in range(5)]


def test_random_operations_under_churn_are_those_of_the_oracle_that_replays_them():
    """S19 with more operations than tests/overlay/test_placement.py has for each seed."""
    outcome = run_placement(1_001, PlacementScenario(operations=120, subscriptions=40))
    assert not outcome.violations, str(outcome)
    assert outcome.due > 200


def _add(add, name, world):
    add(name)


def _subscribe(id, text, site, now):
    return site.words.subscriber.subscribe(id, text, now)
