"""DHTrie: subscriptions at all their words, publications to all of theirs, one notice; one test per claim."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from tocsin.model import Document
from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.placement.entry import QUERY_KIND, Mode, word_key
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.overlay.placement.subscriber import Fetched
from tocsin.query.parse import parse
from tocsin.query.score import Statistics, score
from tocsin.query.semantics import Knowledge, holds
from tocsin.sim.calm import Calm, CalmSite
from tocsin.sim.workload import WorkloadSettings, documents, query_ranks, random_documents
from tocsin.text import Analysis

DHTRIE = PlacementSettings(mode=Mode.DHTRIE)
NEWS = WorkloadSettings(
    vocabulary_words=300, document_unique_words=40, document_words=60, documents=12, queries=60, query_words_mean=3
)


def document(id: str, text: str, version: int = 1) -> Document:
    return Document(id, {"text": (text,)}, version=version)


def copies(calm: Calm) -> Counter[int]:
    """How many copies of queries there are at each key."""
    return Counter(key for site in calm.sites.values() for key in stored(site))


def stored(site: CalmSite) -> list[int]:
    """The keys of the queries that a node stores, its own and those it keeps for others."""
    store = site.items.store
    return [
        key
        for key in store.sorted_keys()
        for item in store.at(key)
        if item.kind == QUERY_KIND and item.value is not None
    ]


# --- "Subscribing", "Publishing", "Notifying" ------------------------------------------------------------------------


def test_a_subscription_is_at_the_owners_of_all_its_distinct_words():
    calm = Calm(8, DHTRIE)
    calm.subscribe("n1", "s", "ring AND chord AND ring AND NOT tree")
    assert copies(calm) == Counter({word_key("ring"): 1, word_key("chord"): 1})


@pytest.mark.row("D4")
def test_recall_is_that_of_one_place_and_several_copies_that_match_give_one_notice():
    """D4: the trap: a document that holds several words of a query reaches several copies of it."""
    calm = Calm(12, DHTRIE)
    queries = {f"s{number}": text for number, text in enumerate(query_ranks(NEWS, 4).texts())}
    for number, (id, text) in enumerate(queries.items()):
        calm.subscribe(f"n{number % 12}", id, text.replace(" ", " OR ") if number % 3 == 0 else text)
    standing = {id: parse(text) for site in calm.sites.values() for id, text in site.words.subscriber.standing()}
    calm.spent()
    every = list(documents(NEWS, 4))
    for one in every:
        calm.publish("n3", one)
    expected = {(id, one.id) for one in every for id, query in standing.items() if holds(query, one, Knowledge())}
    told = [(notice.subscription, notice.document) for _, notice in calm.notices()]
    assert len(expected) > 100
    assert sorted(told) == sorted(expected)
    messages, _ = calm.spent()
    assert messages["Notify"] <= len(told)  # none is sent that a subscriber would throw away; to oneself none at all
    matched = sum(
        len(query_words(query) & words_of(one)) for one in every for id, query in standing.items()
        if (id, one.id) in expected
    )  # fmt: skip
    assert matched > 1.5 * len(expected)  # so many copies matched


def query_words(query) -> set[str]:
    return set(str(query.text).split()) if hasattr(query, "text") else set().union(*map(query_words, query.parts))


def words_of(one: Document) -> set[str]:
    return {word for values in one.fields.values() for value in values for word in str(value).split()}


# --- "only a link travels" -------------------------------------------------------------------------------------------


@pytest.mark.row("D3")
def test_message_bytes_do_not_depend_on_the_size_of_what_is_published():
    """D3: the resource stays with its owner, who serves it; fields that queries ask about travel, and a link.

    The roles in any mix: tests/overlay/test_placement.py.
    """
    taken = []
    for size in (10, 1_000_000):
        calm = Calm(8, DHTRIE)
        calm.subscribe("n1", "s", "ring")
        calm.spent()
        calm.publish("n2", document("d", "a ring of words"), b"x" * size)
        taken.append(calm.spent())
        ((address, notice),) = calm.notices()
        assert (address, notice.link) == ("n1", "n2")
        calm.do("n1", partial(_fetch, notice))
        assert calm.seen[-1][2] == Fetched("d", 1, b"x" * size)
    assert taken[0] == taken[1]


def test_a_notice_is_as_large_for_a_long_document_as_for_a_short_one():
    sizes = []
    for text in ("ring", "ring " + " ".join(f"w{number}" for number in range(500))):
        calm = Calm(8, DHTRIE)
        calm.subscribe("n1", "s", "ring")
        calm.spent()
        calm.publish("n2", document("d", text))
        sizes.append(calm.spent()[1]["Notify"])
    assert sizes[0] == sizes[1] > 0


# --- document frequencies --------------------------------------------------------------------------------------------


@pytest.mark.row("D8")
def test_scores_with_frequencies_asked_from_the_ring_are_those_of_one_place():
    """D8: kept at the owners of words as a by-product of publishing; others ask for them."""
    calm = Calm(8, DHTRIE)
    every = random_documents(np.random.default_rng(5), 15)
    for number, one in enumerate(every):
        calm.publish(f"n{number % 8}", one)
    messages, _ = calm.spent()
    assert set(messages) <= {"Cast", "Receipt", "Done"}  # no message is sent for the frequencies' sake
    central = Statistics.of(every, Analysis())
    words = sorted(central.frequency)
    counted = calm.count("n5", words)
    assert counted.counts == dict(central.frequency)
    asked = Statistics(counted.documents, counted.counts)
    query = parse("peer network OR text:ring")
    assert [score(query, one, Analysis(), asked) for one in every] == [
        score(query, one, Analysis(), central) for one in every
    ]


def test_frequencies_follow_updates_and_withdrawals():
    calm = Calm(5, DHTRIE)
    calm.publish("n1", document("a", "ring chord"))
    calm.publish("n2", document("b", "ring"))
    calm.publish("n1", document("a", "ring tree", 2))
    assert calm.count("n3", ["ring", "chord", "tree"]).counts == {"ring": 2, "chord": 0, "tree": 1}
    calm.do("n2", lambda words, now: words.publisher.withdraw("b", now))
    counted = calm.count("n3", ["ring"])
    assert (counted.counts, counted.documents) == ({"ring": 1}, 1)


# --- load ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loads:
    """What each node has to do: queries checked, queries stored, messages received."""

    filtering: dict[str, int]
    storage: dict[str, int]
    routing: dict[str, int]


def loads(hot_queries: int) -> tuple[Loads, list[tuple[str, str]]]:
    """Queries that share a hot word: the loads of all nodes, and who was told."""
    settings = PlacementSettings(mode=Mode.DHTRIE, hot_queries=hot_queries)
    calm = Calm(9, settings, chord=ChordSettings(replicas=3))
    for number in range(60):
        calm.subscribe(f"n{number % 9}", f"s{number}", f"hot AND w{number % 12}")
    for number in range(8):
        calm.publish("n0", document(f"d{number}", f"hot w{number} w{number + 1}"))
    homes = {address: site.words.home for address, site in calm.sites.items()}
    found = Loads(
        {address: sum(home.filtered.values()) for address, home in homes.items() if home is not None},
        {address: len(stored(site)) for address, site in calm.sites.items()},
        {address: place.received for address, place in calm.world.places.items()},
    )
    return found, sorted((notice.subscription, notice.document) for _, notice in calm.notices())


@pytest.mark.row("D9")
def test_shedding_lowers_the_highest_filtering_load_and_loses_nothing():
    """D9: the owner of a hot word lets the nodes that have copies of its queries check a share of them."""
    before, told_before = loads(0)
    after, told_after = loads(10)
    assert told_before == told_after != []
    assert sum(before.filtering.values()) == sum(after.filtering.values())
    ratio = [max(load.values()) * len(load) / sum(load.values()) for load in (before.filtering, after.filtering)]
    assert ratio[1] < 0.7 * ratio[0]
    assert before.storage == after.storage  # the copies that check a share were there before
    assert sum(after.storage.values()) == 60 * 2 * 3  # queries, words of each, copies
    assert sum(after.routing.values()) > sum(before.routing.values())  # it is paid for in messages


def test_every_copy_goes_when_a_subscription_ends():
    calm = Calm(8, DHTRIE)
    calm.subscribe("n1", "s", "ring AND chord AND tree")
    calm.subscribe("n2", "t", "ring")
    calm.do("n1", lambda words, now: words.subscriber.unsubscribe("s", now))
    assert copies(calm) == Counter({word_key("ring"): 1})
    calm.publish("n3", document("d", "ring chord tree"))
    assert [(address, notice.subscription) for address, notice in calm.notices()] == [("n2", "t")]


def test_dhtrie_settings_differ_from_smartseer_in_the_mode_only():
    assert replace(DHTRIE, mode=Mode.SMARTSEER) == PlacementSettings()


def _fetch(notice, words, now):
    return words.subscriber.fetch(notice, now)
