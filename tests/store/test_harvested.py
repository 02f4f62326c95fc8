"""Items of sources, on both databases: what is new, what is a repeat, what is a twin, and all of it or nothing."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from sqlalchemy import select

from tocsin.model import Document
from tocsin.store import Store, channels, documents, harvested, journal, outbox, sets, sources
from tocsin.store.harvested import Arrived, Item, Near, Sketch
from tocsin.store.sources import Source

NEAR = Near(0.9, 3_600.0)


def source(store: Store, key: str = "k1") -> Source:
    made = sources.add(store, Source(0, key, "feed", f"https://example.org/{key}", "News", "ann", 60.0, tags=("a",)))
    assert made is not None
    return made


def sketch(number: int, changed: int = 0) -> Sketch:
    """Sixteen bands, the first ones of which are changed."""
    values = b"".join((number * 1_000 + (at < 8 * changed) * 500 + at).to_bytes(4, "little") for at in range(128))
    return Sketch(values, tuple(number * 100 + (band < changed) * 50 + band for band in range(16)))


def item(name: str, text: str = "x", like: Sketch | None = None, id: str | None = None) -> Item:
    id = id or f"k/{name}"
    return Item(name.encode().ljust(16), id, Document(id, {"text": (text,)}), text.encode().ljust(16), like)


def counts(found: Arrived | None) -> tuple[int, int, int, int, int]:
    assert found is not None
    return found.new, found.updated, found.repeated, found.twins, found.deleted


def test_sources_are_kept_found_and_due(store):
    one, two = source(store), source(store, "k2")
    assert sources.add(store, replace(one, number=0)) is None
    assert [found.number for found in sources.listed(store)] == [one.number, two.number]
    assert sources.with_key(store, "k2") == replace(two, cursor={})
    sources.change(store, two.number, due=time.time() + 100, cursor={"token": "t"}, problem="no")
    found = sources.find(store, two.number)
    assert found is not None
    assert (found.cursor, found.problem, found.tags) == ({"token": "t"}, "no", ("a",))
    assert [each.number for each in sources.due(store, time.time())] == [one.number]
    assert sources.next_due(store) == 0.0
    assert (sources.count(store), sources.count(store, "bob")) == (2, 0)
    assert sources.remove(store, one.number)
    assert not sources.remove(store, one.number)


def test_new_repeated_updated_deleted_and_back(store):
    own = source(store)
    deleted = Item(item("a").key, "k/a", None)
    steps = [
        ([item("a"), item("b")], (2, 0, 0, 0, 0)),
        ([item("a"), item("b")], (0, 0, 2, 0, 0)),
        ([item("a", "other")], (0, 1, 0, 0, 0)),
        ([deleted], (0, 0, 0, 0, 1)),
        ([deleted, Item(b"never".ljust(16), "k/never", None)], (0, 0, 0, 0, 0)),
        ([item("a", "other")], (0, 1, 0, 0, 0)),
    ]
    for items, expected in steps:
        assert counts(harvested.arrive(store, own, items, NEAR, {"etag": "e"})) == expected
    found = documents.find(store, "k/a")
    assert found is not None
    assert (found.version, found.document().fields) == (3, {"text": ("other",)})
    kept = sources.find(store, own.number)
    assert kept is not None
    assert (kept.etag, kept.documents, kept.brought is not None) == ("e", 4, True)


def test_a_record_that_is_deleted_leaves_the_nested_sets_and_stands_in_the_journal(store):
    """As when an account deletes it: a ring withdraws what the journal says was deleted."""
    own = source(store)
    gone = [Item(item(name).key, f"k/{name}", None) for name in ("a", "never")]
    harvested.arrive(store, own, [item("a"), item("b")], NEAR)
    harvested.arrive(store, own, gone, NEAR)
    with store.read() as transaction:
        assert transaction.execute(select(sets.departures.c.id)).scalars().all() == ["k/a"]
    found = [(one.account, one.target) for one in journal.read(store) if one.action == "delete document"]
    assert found == [("ann", "k/a")]


def test_a_record_that_comes_back_is_not_its_own_twin(store):
    own, deleted = source(store), Item(item("a").key, "k/a", None)
    steps = [
        ([item("a", "x", sketch(1))], (1, 0, 0, 0, 0)),
        ([deleted], (0, 0, 0, 0, 1)),
        ([item("a", "x", sketch(1))], (0, 1, 0, 0, 0)),
        ([deleted, item("a", "x", sketch(1))], (0, 1, 0, 0, 1)),
        ([item("a", "x", sketch(1))], (0, 0, 1, 0, 0)),
    ]
    for items, expected in steps:
        assert counts(harvested.arrive(store, own, items, NEAR)) == expected
    found = documents.find(store, "k/a")
    assert found is not None
    assert found.version == 3
    # Nor is what was deleted the twin of what takes its place, at once or later.
    assert counts(harvested.arrive(store, own, [deleted, item("b", "y", sketch(1))], NEAR)) == (1, 0, 0, 0, 1)
    assert counts(harvested.arrive(store, own, [Item(item("b").key, "k/b", None)], NEAR)) == (0, 0, 0, 0, 1)
    assert counts(harvested.arrive(store, own, [item("c", "z", sketch(1))], NEAR)) == (1, 0, 0, 0, 0)


def test_twins_are_found_in_one_visit_in_others_and_in_other_sources(store):
    one, two = source(store), source(store, "k2")
    like = [sketch(1), sketch(1, changed=1), sketch(1, changed=6), sketch(2)]
    first = [item(name, name, each) for name, each in zip("abcd", like, strict=True)]
    assert counts(harvested.arrive(store, one, first, NEAR)) == (3, 0, 0, 1, 0)  # c shares bands, but too little else
    assert counts(harvested.arrive(store, one, first, NEAR)) == (0, 0, 4, 0, 0)
    assert counts(harvested.arrive(store, two, [item("e", "e", sketch(2), "k2/e")], NEAR)) == (0, 0, 0, 1, 0)
    assert counts(harvested.arrive(store, two, [item("f", "f", sketch(2), "k2/f")], Near(0.9, 0.0))) == (1, 0, 0, 0, 0)
    # An update that is nearly the same is none.
    assert counts(harvested.arrive(store, one, [item("d", "dd", sketch(2, changed=1))], NEAR)) == (0, 0, 1, 0, 0)
    assert harvested.forget_sketches(store, time.time() + 1) == 3
    assert counts(harvested.arrive(store, two, [item("g", "g", sketch(2), "k2/g")], NEAR)) == (1, 0, 0, 0, 0)


def test_all_of_a_visit_happens_or_nothing(store):
    own = source(store)
    broken = replace(item("z").document or Document("z"), time="\ud800")  # cannot be stored
    items = [item("a"), Item(b"z".ljust(16), "k/z", broken, b"z")]
    with pytest.raises(Exception):  # noqa: B017, PT011 - each database says it in its own way
        harvested.arrive(store, own, items, NEAR, {"etag": "new"})
    assert documents.last_position(store) == 0
    assert sources.find(store, own.number) == replace(own, cursor={})
    assert counts(harvested.arrive(store, own, items[:1], NEAR)) == (1, 0, 0, 0, 0)


def test_a_source_that_is_gone_brings_nothing(store):
    own = source(store)
    sources.remove(store, own.number)
    assert harvested.arrive(store, own, [item("a")], NEAR) is None
    assert harvested.arrive_from_file(store, own, [("f:1", Document("a"))], []) is None
    assert documents.last_position(store) == 0


def test_what_was_found_at_the_old_address_says_nothing_of_the_new_one(store):
    """The address is changed during a visit: the source stays due, without the old one's marks."""
    own = source(store)
    sources.change(store, own.number, address="https://example.org/new", due=5.0)
    assert harvested.arrive(store, own, [item("a")], NEAR, {"etag": "old", "cursor": {"token": "old"}}) is None
    assert not sources.note_visit(store, own, due=99.0)
    found = sources.find(store, own.number)
    assert found is not None
    assert (found.etag, found.cursor, found.due) == (None, {}, 5.0)
    assert counts(harvested.arrive(store, found, [item("a")], NEAR)) == (1, 0, 0, 0, 0)


def test_an_id_that_is_in_use_is_refused_and_told(store):
    own = source(store)
    documents.accept(store, [Document("k/a", {"text": ("mine",)}, version=5)])
    found = harvested.arrive(store, own, [item("a"), item("b")], NEAR)
    assert found is not None
    assert (found.new, len(found.refused)) == (1, 1)
    assert len(outbox.letters(store)) == 1


def test_feeds_are_found_by_their_mark(store):
    secret = channels.secret(store)
    assert channels.secret(store) == secret
    assert len(secret) == 32
    feed = channels.add_feed(store, b"m" * 16, b"s", "ann", subscription=None, tag="t")
    assert channels.find_feed(store, b"m" * 16) is None  # there is no such account
    assert channels.feeds_of(store, "ann") == [feed]
    assert channels.newest(store, feed, 10) == []
    assert channels.drop_feed(store, "ann", b"m" * 16)
