"""The log of documents and the spans of subscriptions: positions decide who meets whom."""

from __future__ import annotations

import pytest

from tocsin.errors import StoreError, SubscriptionError
from tocsin.model import Document
from tocsin.store import Store, documents, outbox, subscriptions
from tocsin.store.outbox import Batch, Found, Receipt
from tocsin.store.subscriptions import DELETED, PAUSED, Asked, Wish


def doc(id: str, text: str = "peer", version: int = 1) -> Document:
    return Document(id, {"text": (text,)}, version=version)


def accepted(store, *docs):
    return documents.accept(store, docs).positions


def test_documents_get_positions_in_order(store):
    assert accepted(store, doc("a"), doc("b")) == [1, 2]
    assert accepted(store, doc("c")) == [3]
    assert [[row.id for row in chunk] for chunk in documents.read(store, 1, 3)] == [["b", "c"]]


def test_the_rule_of_versions_holds_within_a_call_and_between_calls(store):
    first = documents.accept(store, [doc("a"), doc("a"), doc("a", "other"), doc("a", "new", 2), doc("a", "old", 1)])
    assert first.positions == [1, None, None, 2, None]
    assert sorted(first.refused) == [2, 4]
    assert first.count == 3
    again = documents.accept(store, [doc("a", "new", 2), doc("a")])
    assert (again.positions, sorted(again.refused)) == ([None, None], [1])
    found = [documents.find(store, "a", version) for version in (None, 1)]
    assert [one and one.document() for one in found] == [doc("a", "new", 2), doc("a")]
    assert documents.count(store) == 1


def test_a_deleted_document_can_only_come_back_as_a_higher_version(store):
    accepted(store, doc("a", version=3))
    assert documents.delete(store, "a")
    assert not documents.delete(store, "a")
    assert not documents.delete(store, "never")
    assert list(documents.accept(store, [doc("a", version=3)]).refused) == [0]
    assert accepted(store, doc("a", version=4)) == [2]
    assert documents.count(store) == 1


def test_a_deleted_document_is_still_matched_and_then_erased(store):
    accepted(store, doc("a"))
    documents.delete(store, "a")
    assert [row.id for chunk in documents.read(store, 0, 1) for row in chunk] == ["a"]
    batch, _ = outbox.begin(store, Batch("match", 0, 0, 1, 1, 0))
    outbox.finish(store, batch, [], [Receipt(0, 1, 0)])
    assert list(documents.read(store, 0, 1)) == []


def subscribe(store, id: str, query: str = "peer") -> subscriptions.Kept:
    assert subscriptions.add(store, "ann", [Wish(id, Asked(query))]) == {}
    found = subscriptions.find(store, "ann", id)
    assert found is not None
    return found


def revisions(store, after: int = 0) -> list[tuple[int, int | None]]:
    return [(revision.since, revision.until) for revision in subscriptions.begun_after(store, 0, after)]


def test_a_revision_is_in_force_for_the_documents_after_it_was_made(store):
    accepted(store, doc("a"))
    kept = subscribe(store, "s")
    accepted(store, doc("b"))
    paused = subscriptions.change(store, kept, state=PAUSED)
    accepted(store, doc("c"))
    resumed = subscriptions.change(store, paused, state="active")
    edited = subscriptions.change(store, resumed, asked=Asked("grid"))
    assert edited.asked == Asked("grid")
    accepted(store, doc("d"))
    assert revisions(store) == [(1, 2), (3, None)]  # the one between was in force for no document
    subscriptions.change(store, edited, state=DELETED)
    assert subscriptions.find(store, "ann", "s") is None
    assert revisions(store) == [(1, 2), (3, 4)]
    assert subscriptions.ended_within(store, 1, 2) == [1]


def test_a_paused_subscription_keeps_what_it_is_given(store):
    kept = subscriptions.change(store, subscribe(store, "s"), state=PAUSED)
    kept = subscriptions.change(store, kept, asked=Asked("grid"))
    assert subscriptions.change(store, kept, state="active").asked == Asked("grid")


def test_an_id_is_free_again_once_its_subscription_is_deleted(store):
    kept = subscribe(store, "s")
    assert list(subscriptions.add(store, "ann", [Wish("s", Asked("x"))])) == [0]
    assert subscriptions.add(store, "bob", [Wish("s", Asked("x"))]) == {}
    subscriptions.change(store, kept, state=DELETED)
    subscribe(store, "s", "new")


def test_two_who_change_a_subscription_at_once_do_not_overwrite_each_other(store):
    kept = subscribe(store, "s")
    subscriptions.change(store, kept, state=PAUSED)
    with pytest.raises(SubscriptionError, match="meanwhile"):
        subscriptions.change(store, kept, asked=Asked("grid"))


def test_matches_are_written_once_in_order_and_only_where_the_revision_is_in_force(store):
    accepted(store, doc("a"))
    kept = subscribe(store, "s")
    accepted(store, doc("b"), doc("c"))
    batch, done = outbox.begin(store, Batch("match", 0, 0, 3, 7, 5))
    assert not done
    found = [Found(at, kept.number, id, 1, 0.5, None) for at, id in ((3, "c"), (1, "a"), (2, "b"), (2, "b"))]
    assert outbox.finish(store, batch, found, [Receipt(0, 3, 1)]) == 2
    assert [(n.cursor, n.subscription, n.document) for n in outbox.read(store, "ann")] == [(1, "s", "b"), (2, "s", "c")]
    assert outbox.read(store, "bob") == []


def test_a_batch_that_is_run_again_keeps_its_snapshots_and_writes_nothing(store):
    kept = subscribe(store, "s")
    accepted(store, doc("a"))
    batch, _ = outbox.begin(store, Batch("match", 0, 0, 1, 7, 5))
    assert outbox.begin(store, Batch("match", 0, 0, 1, 8, 6)) == (batch, False)
    found = [Found(1, kept.number, "a", 1, 0.5, None)]
    assert outbox.finish(store, batch, found) == 1
    assert outbox.begin(store, batch) == (batch, True)
    assert outbox.finish(store, batch, found) == 0
    assert outbox.count(store) == 1


def test_a_match_that_was_told_by_an_earlier_batch_is_not_told_again(store):
    kept = subscribe(store, "s")
    accepted(store, doc("a"))
    for number, written in ((0, 1), (1, 0)):
        batch, _ = outbox.begin(store, Batch("match", number, 0, 1, 7, 5))
        assert outbox.finish(store, batch, [Found(1, kept.number, "a", 1, 0.5, None)]) == written


def test_a_store_of_another_format_is_refused(tmp_path):
    store = Store(tmp_path)
    store.put("format", "99")
    store.close()
    with pytest.raises(StoreError, match="newer Tocsin"):
        Store(tmp_path)


def test_a_store_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(StoreError, match="no store here"):
        Store(tmp_path / "nothing", create=False)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store("sqlite:////proc/nothing/here.sqlite", create=True)
