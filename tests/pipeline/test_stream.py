"""The stream on a real Spark: what comes into the inbox comes out of the outbox, once, whatever changes meanwhile."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tocsin.errors import PipelineError
from tocsin.model import Document
from tocsin.pipeline.preview import preview
from tocsin.pipeline.stream import Stream, StreamSettings
from tocsin.query import Knowledge, holds, parse
from tocsin.query.vector import to_text
from tocsin.site import life
from tocsin.site.site import Site
from tocsin.store import Store, documents, journal, outbox, subscriptions
from tocsin.store.subscriptions import Asked, Kept, Wish

WORDS = "peer grid chord news paper query stream index trie join".split()
LATER = 4e9
"""A time that no test lives to see."""


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store")
    yield store
    store.close()


@pytest.fixture
def stream(store, tmp_path, spark):
    stream = Stream(store, tmp_path / "pipeline", spark, settings=StreamSettings(batch_documents_max=50))
    stream.start()
    yield stream
    stream.stop()


def doc(id: str, text: str, version: int = 1) -> Document:
    return Document(id, {"text": (text,)}, version=version)


def subscribe(store, id: str, query: str) -> Kept:
    assert not subscriptions.add(store, "ann", [Wish(id, Asked(query))])
    return kept_as(store, id)


def kept_as(store, id: str) -> Kept:
    found = subscriptions.find(store, "ann", id)
    assert found is not None
    return found


def told(store) -> list[tuple[str, str, int]]:
    return [(one.subscription, one.document, one.version) for one in outbox.read(store, limit=100_000)]


def test_documents_meet_the_subscriptions_that_were_in_force_when_they_were_accepted(store, stream):
    documents.accept(store, [doc("early", "peer")])
    first = subscribe(store, "first", "peer AND NOT grid")
    documents.accept(store, [doc("a", "a peer"), doc("b", "peer grid"), doc("c", "grid")])
    second = subscribe(store, "second", "grid")
    documents.accept(store, [doc("d", "peer grid"), doc("a", "grid now", 2)])
    stream.catch_up()
    assert told(store) == [("first", "a", 1), ("second", "d", 1), ("second", "a", 2)]
    subscriptions.change(store, first, state="paused")
    documents.accept(store, [doc("e", "peer")])
    subscriptions.change(store, second, asked=Asked("news"))
    documents.accept(store, [doc("f", "grid"), doc("g", "news")])
    documents.delete(store, "g")
    stream.catch_up()
    assert told(store)[3:] == [("second", "g", 1)]
    progress = stream.progress()
    assert (progress.documents, progress.matches, progress.lag) == (9, 4, 0)


def test_a_match_carries_score_evidence_and_the_statistics_that_were_used(store, stream):
    subscribe(store, "s", "text:peer")
    documents.accept(store, [doc("a", "a peer among others"), doc("b", "nothing here")])
    stream.catch_up()
    (found,) = outbox.read(store, "ann")
    assert 0 < found.score <= 1
    assert found.statistics == 1
    assert "peer" in str(found.evidence)


def test_a_subscription_that_must_be_looked_at_by_itself_is_named_as_slow(store, stream):
    subscribe(store, "cheap", "peer grid")
    subscribe(store, "dear", 'NOT "peer grid"')
    documents.accept(store, [doc(f"d{n}", "a peer and a grid" if n % 3 else "a peer grid") for n in range(30)])
    stream.catch_up()
    slow = [(one.subscription, one.tried, one.matched) for one in journal.dearest(store)]
    assert slow == [("dear", 30, 20)]
    documents.accept(store, [doc("more", "a peer grid")])
    stream.catch_up()
    [dear] = journal.dearest(store)
    assert (dear.tried, dear.matched) == (31, 20)


def test_the_preview_of_a_query_is_what_the_stream_delivered(store, stream, spark):
    chance = random.Random(5)
    queries = {f"s{n}": _query(chance) for n in range(8)} | {"years": "year:[3 TO 7]"}
    for id, query in queries.items():
        subscribe(store, id, query)
    for number in range(200):
        day = f"2026-03-{number % 5 + 1:02}"
        text = " ".join(chance.choices(WORDS, k=4))
        documents.accept(store, [Document(f"d{number}", {"text": (text,), "year": (number % 11,)}, time=day)])
    stream.catch_up()
    delivered = told(store)
    for id, query in queries.items():
        found = preview(spark, store, Asked(query))
        assert found.documents == [(document, version) for name, document, version in delivered if name == id]
        assert found.total == len(found.documents) == sum(count for _, count in found.per_day)
        assert len(found.sample) == min(10, found.total)
    until = datetime(2026, 3, 3, tzinfo=UTC).timestamp()
    early = preview(spark, store, Asked("peer"), period=(None, until))
    assert {day for day, _ in early.per_day} == {"2026-03-01", "2026-03-02"}


def paper(id: str, text: str, *authors: str) -> Document:
    return Document(id, {"text": (text,), "author": authors})


def test_a_nested_subscription_is_told_of_older_documents_that_qualify_only_now(store, tmp_path, spark):
    """SmartSeer §VI-B: Carol becomes a co-author of Bob, and her old paper is delivered; also across a restart."""
    documents.accept(store, [paper("before", "old news", "Carol")])
    subscribe(store, "circle", "author:IN:(networks AND author:Bob)")
    subscribe(store, "plain", "news")
    for batch in (
        [paper("a", "news", "Carol"), paper("b", "networks", "Bob", "Ann")],
        [paper("c", "news", "Ann"), paper("d", "networks", "Bob", "Carol"), paper("e", "birds", "Eve")],
        [paper("f", "birds", "Carol")],
    ):
        again = Stream(store, tmp_path / "pipeline", spark)
        documents.accept(store, batch)
        again.start()
        again.catch_up()
        again.stop()
    circle = [document for name, document, _ in told(store) if name == "circle"]
    assert circle == ["b", "c", "before", "a", "d", "f"]
    assert [document for name, document, _ in told(store) if name == "plain"] == ["a", "c"]
    (found,) = [one for one in outbox.read(store, limit=100) if one.document == "a" and one.subscription == "circle"]
    assert found.evidence["nested"] == [{"field": "author", "value": "carol", "document": "d"}]


def test_what_nested_subscriptions_are_told_does_not_depend_on_batches(store, stream):
    """At the end, the notifications are the one-time answer."""
    chance = random.Random(9)
    queries = {
        "one": "author:IN:(peer AND author:p1)",
        "two": "author:IN:(author:IN:(grid AND author:p2))",
        "cited": "cites:IN:id(news)",
    }
    for id, query in queries.items():
        subscribe(store, id, query)
    every = []
    for number in range(60):
        authors = tuple(f"p{chance.randrange(12)}" for _ in range(2))
        text = " ".join(chance.choices(WORDS, k=2))
        every.append(
            Document(f"d{number}", {"text": (text,), "author": authors, "cites": (f"d{chance.randrange(60)}",)})
        )
        documents.accept(store, every[-1:])
        if chance.random() < 0.1:
            stream.catch_up()
    stream.catch_up()
    found = told(store)
    assert len(found) == len(set(found))
    knowledge = Knowledge(documents=tuple(every))
    for id, query in queries.items():
        expected = {document.id for document in every if holds(parse(query), document, knowledge)}
        assert {document for name, document, _ in found if name == id} == expected


def test_an_index_too_large_for_a_worker_is_split_and_finds_the_same(store, tmp_path, spark):
    chance = random.Random(3)
    queries = {f"s{n}": _query(chance) for n in range(30)}
    for id, query in queries.items():
        subscribe(store, id, query)
    split = Stream(store, tmp_path / "pipeline", spark, settings=StreamSettings(worker_index_bytes_max=1))
    split.start()
    every = [doc(f"d{n}", " ".join(chance.choices(WORDS, k=4))) for n in range(80)]
    documents.accept(store, every)
    split.catch_up()
    split.stop()
    expected = {(id, d.id, 1) for id, query in queries.items() for d in every if holds(parse(query), d, Knowledge())}
    assert set(told(store)) == expected
    assert "mirror: not possible" in split.explain()


def test_a_stream_that_is_started_again_goes_on_where_it_was(store, tmp_path, spark):
    subscribe(store, "s", "peer")
    for turn in range(3):
        again = Stream(store, tmp_path / "pipeline", spark)
        documents.accept(store, [doc(f"d{turn}", "peer")])
        again.start()
        again.catch_up()
        again.stop()
        assert not again.is_running
    assert told(store) == [("s", f"d{turn}", 1) for turn in range(3)]


@pytest.mark.parametrize(
    "lost", ["checkpoint", *(pytest.param(one, marks=pytest.mark.slow) for one in ("snapshots", "statistics"))]
)
def test_what_the_pipeline_keeps_may_be_lost_as_long_as_the_store_is_there(store, tmp_path, spark, lost):
    subscribe(store, "s", "peer")
    for turn in range(2):
        again = Stream(store, tmp_path / "pipeline", spark)
        documents.accept(store, [doc(f"d{turn}", "peer")])
        again.start()
        again.catch_up()
        again.stop()
        (tmp_path / "pipeline" / lost).rename(tmp_path / f"lost-{turn}")
    assert told(store) == [("s", "d0", 1), ("s", "d1", 1)]


def test_a_checkpoint_of_another_site_is_refused(store, tmp_path, spark):
    other = Store(tmp_path / "other")
    Stream(other, tmp_path / "pipeline", spark)
    other.close()
    with pytest.raises(PipelineError, match="another site"):
        Stream(store, tmp_path / "pipeline", spark)
    mark = tmp_path / "pipeline" / "checkpoint" / "tocsin.json"
    mark.write_text('{"format": 99, "site": "x"}')
    with pytest.raises(PipelineError, match="format 99"):
        Stream(store, tmp_path / "pipeline", spark)


@pytest.mark.row("X2")
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 12))])
def test_any_sequence_of_changes_gives_what_a_replay_of_it_gives(store, stream, seed):
    """Documents and subscriptions come, change and go, between batches and within them."""
    chance, site = random.Random(seed), Site(store)
    versions: dict[str, int] = {}
    current: dict[str, str] = {}
    asking: dict[str, str] = {}
    expected: set[tuple[str, str, int]] = set()
    for step in range(120):
        match chance.choice(
            ["publish"] * 6 + ["delete", "subscribe", "subscribe", "edit", "pause", "resume", "expire", "end", "wait"]
        ):
            case "publish":
                id = f"d{chance.randrange(40)}"
                versions[id] = versions.get(id, 0) + 1
                new = doc(id, " ".join(chance.choices(WORDS, k=4)), versions[id])
                documents.accept(store, [new])
                current[id] = id
                for name, query in asking.items():
                    if holds(parse(query), new, Knowledge()):
                        expected.add((name, id, new.version))
            case "delete" if current:
                documents.delete(store, current.pop(chance.choice(sorted(current))))
            case "subscribe":
                name, query = f"s{step}", _query(chance)
                subscribe(store, name, query)
                asking[name] = query
            case "edit" if asking:
                name = chance.choice(sorted(asking))
                asking[name] = _query(chance)
                subscriptions.change(store, kept_as(store, name), asked=Asked(asking[name]))
            case "pause" if asking:
                name = chance.choice(sorted(asking))
                del asking[name]
                subscriptions.change(store, kept_as(store, name), state="paused")
            case "resume":
                for kept in subscriptions.listed(store, "ann"):
                    if kept.state == "paused":
                        subscriptions.change(store, kept, state="active")
                        asking[kept.id] = kept.asked.query or ""
            case "expire" if living := [one for one in subscriptions.listed(store, "ann") if one.state != "expired"]:
                kept = chance.choice(living)
                subscriptions.change(store, kept, expires=LATER)
                assert life.settle(site, LATER) == 1
                asking.pop(kept.id, None)
            case "end" if asking:
                name = chance.choice(sorted(asking))
                del asking[name]
                subscriptions.change(store, kept_as(store, name), state="deleted")
            case "wait":
                stream.catch_up()
    stream.catch_up()
    found = told(store)
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert "expired" in {one.state for one in subscriptions.listed(store, "ann")}


def _query(chance: random.Random) -> str:
    one, two, three = chance.sample(WORDS, 3)
    return chance.choice(
        [one, f"{one} OR {two}", f"{one} AND NOT {two}", f'"{one} {two}"', f"({one} OR {two}) {three}"]
    )


def test_a_text_that_feedback_has_moved_is_compared_by_its_words(store, stream):
    """Plain and nested, in force for the documents that are accepted from then on; after a restart, too."""
    moved = to_text({("text", "peer"): {"chord": 1.0, "trie": 0.5}})
    plain, within = 'text ~ "peer" >= 0.5', 'text ~ "peer" >= 0.5 AND text:IN:id(text:grid)'
    for id, query in (("plain", plain), ("nested", within)):
        subscribe(store, id, query)
    documents.accept(store, [doc("peer", "a grid"), doc("chord", "the grid"), doc("p1", "peer"), doc("c1", "chord")])
    for id in ("plain", "nested"):
        kept = kept_as(store, id)
        subscriptions.change(store, kept, asked=replace(kept.asked, moved=moved))
    documents.accept(store, [doc("p2", "peer"), doc("c2", "chord")])
    stream.catch_up()
    assert sorted(told(store)) == [("nested", "c2", 1), ("nested", "p1", 1), ("plain", "c2", 1), ("plain", "p1", 1)]
    stream.stop()
    stream.start()
    documents.accept(store, [doc("p3", "peer"), doc("c3", "chord")])
    stream.catch_up()
    assert sorted(told(store))[-1] == ("plain", "p1", 1)
    assert {(id, document) for id, document, _ in told(store)} >= {("nested", "c3"), ("plain", "c3")}
    assert not {("nested", "p3"), ("plain", "p3")} & {(id, document) for id, document, _ in told(store)}
    found = next(one for one in outbox.read(store, limit=100) if one.document == "c3" and one.subscription == "plain")
    assert found.evidence["atoms"][0]["moved"] is True
