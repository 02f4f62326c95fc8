"""Idempotency keys, the journal, and what subscriptions cost."""

from __future__ import annotations

import time

from tests.store.scenes import furnish
from tocsin.store import journal, replies, subscriptions
from tocsin.store.replies import Reply
from tocsin.store.subscriptions import DELETED


def test_a_key_is_taken_once_and_remembers_its_answer(store):
    assert replies.take(store, "ann", "k", b"one") is None
    assert replies.take(store, "ann", "k", b"one") == Reply(b"one", None, None), "it has not ended"
    assert replies.take(store, "bob", "k", b"two") is None, "keys are private"
    replies.answer(store, "ann", "k", 201, '{"id":"s"}')
    assert replies.take(store, "ann", "k", b"two") == Reply(b"one", 201, '{"id":"s"}')
    replies.release(store, "ann", "k")
    assert replies.take(store, "ann", "k", b"one") is not None, "what was answered is not given back"
    replies.release(store, "bob", "k")
    assert replies.take(store, "bob", "k", b"three") is None
    assert replies.forget(store, time.time() - 60) == 0
    assert replies.forget(store, time.time() + 60) == 2


def test_the_journal_tells_the_newest_first_and_by_account(store):
    for number in range(5):
        journal.note(store, "ann" if number % 2 else None, f"act {number}", "s", number=number)
    assert [entry.action for entry in journal.read(store, limit=2)] == ["act 4", "act 3"]
    assert [entry.detail for entry in journal.read(store, "ann")] == [{"number": 3}, {"number": 1}]
    third = journal.read(store, limit=3)[-1]
    assert [entry.action for entry in journal.read(store, before=third.number)] == ["act 1", "act 0"]
    assert journal.forget(store, time.time() + 60) == 5


def test_costs_of_revisions_add_up_for_their_subscription_and_the_dearest_come_first(store):
    furnish(store)  # one of them cost (5, 2) so far
    journal.add_costs(store, {1: (2, 1), 2: (100, 0), 99: (1_000, 0)})
    assert [tuple(cost) for cost in journal.dearest(store)] == [("ann", "d", 100, 0), ("ann", "s", 7, 3)]
    assert journal.dearest(store, "bob") == []
    kept = subscriptions.find(store, "ann", "d")
    assert kept is not None
    subscriptions.change(store, kept, state=DELETED)
    assert [cost.subscription for cost in journal.dearest(store)] == ["s"]
