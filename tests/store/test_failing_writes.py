"""A crash at every write: the Nth statement that changes something fails, for every N; what is kept is the state
before the call or the state after it, never one in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from tests.store.scenes import contents, doc, furnish
from tocsin.store import Store, accounts, documents, inbox, journal, outbox, replies, subscriptions, webhooks
from tocsin.store.backup import back_up, restore
from tocsin.store.outbox import Batch, Found, Letter, Receipt
from tocsin.store.subscriptions import DELETED, HOLD, MUTED, PAUSED, Asked, Webhook, Wish

CHANGING = ("INSERT", "UPDATE", "DELETE", "ALTER", "CREATE", "SELECT SETVAL")


NUMBERED = ("revisions", "digests", "undelivered", "journal", "dead_letters")  # by the database


class Crash(Exception):
    """The power is gone."""


class Crashing:
    """Fails the Nth statement that changes something; 0: none, but counts them."""

    def __init__(self, store: Store, after: int) -> None:
        self._left, self.count, self._engine = after, 0, store.engine

    def __enter__(self) -> Crashing:
        event.listen(self._engine, "before_cursor_execute", self._before)
        event.listen(self._engine, "commit", self._commit)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(self._engine, "before_cursor_execute", self._before)
        event.remove(self._engine, "commit", self._commit)

    def _before(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.lstrip().upper().startswith(CHANGING):
            self._step()

    def _commit(self, _connection: Any) -> None:
        self._step()  # every commit counts, those of readers too

    def _step(self) -> None:
        self.count += 1
        if self.count == self._left:
            raise Crash


def change(store: Store, id: str, **values: Any) -> None:
    kept = subscriptions.find(store, "ann", id)
    assert kept is not None
    subscriptions.change(store, kept, **values)


def finish(store: Store) -> None:
    """Notes and ends a batch, as the stream does after a crash: again from the start."""
    last = documents.last_position(store)
    with store.read() as transaction:
        first = documents.matched(transaction)
    batch, _ = outbox.begin(store, Batch("match", last, first, last, 1, 1))
    found = [Found(6, 1, "d", 1, 0.5, None), Found(6, 2, "d", 1, 0.5, None), Found(7, 1, "e", 1, 0.5, None)]
    outbox.finish(store, batch, found, [Receipt(0, last - first, 2)])


def note(store: Store) -> None:
    given_up = [webhooks.GivenUp(2, "ann", 9, 3, "answered 500")]
    webhooks.note(
        store, delivered={2: 8}, failed={2: webhooks.Attempt(2, 9.0, "no", "https://example.org/")}, given_up=given_up
    )


def refuse(store: Store) -> None:
    with store.write() as transaction:
        outbox.refuse(transaction, "files", [Letter("f:1", "no id", at=1.0), Letter("f:2", "no id", at=1.0)])


HOOK = Webhook("https://example.org/hook", "whsec_" + "B" * 32)
CALLS: dict[str, Callable[[Store], object]] = {
    "documents": lambda store: documents.accept(store, [doc("x"), doc("a", "new", 2), doc("y")], "ann"),
    "delete document": lambda store: documents.delete(store, "a"),
    "subscribe": lambda store: subscriptions.add(
        store, "ann", [Wish("n", Asked("x")), Wish("m", Asked("y"), {}, None, 5.0, HOOK)]
    ),
    "edit": lambda store: change(store, "s", asked=Asked("grid")),
    "pause": lambda store: change(store, "s", state=PAUSED),
    "mute": lambda store: change(store, "s", state=MUTED, mute=HOLD, muted_until=9e9),
    "unmute": lambda store: change(store, "held", state="active"),
    "told at once": lambda store: change(store, "d", digest_due=None),
    "unsubscribe": lambda store: change(store, "s", state=DELETED),
    "finish": finish,
    "digests": lambda store: inbox.make_digests(store, [(due, 7_000.0) for due in inbox.digests_due(store, 1e9)]),
    "deliver": note,
    "account": lambda store: accounts.add(store, "bob", "subscriber", {}),
    "token": lambda store: accounts.add_token(store, "ann", b"\x01" * 32, "phone", None),
    "revoke": lambda store: accounts.revoke(store, "ann", "laptop"),
    "costs": lambda store: journal.add_costs(store, {1: (5, 2), 2: (1, 1)}),
    "reply": lambda store: replies.answer(store, "ann", "key", 200, "[]"),
    "refuse": refuse,
}
ALONE = {"finish"}  # two transactions, each of them whole


def prepared(store: Store) -> None:
    """With documents that wait to be matched, and something held."""
    furnish(store)
    subscriptions.add(store, "ann", [Wish("held", Asked("peer"))])
    change(store, "held", state=MUTED, mute=HOLD, muted_until=9e9)
    documents.accept(store, [doc("h1"), doc("h2")], "ann")
    last = documents.last_position(store)
    with store.read() as transaction:
        first = documents.matched(transaction)
    batch, _ = outbox.begin(store, Batch("match", last, first, last, 1, 1))
    held = [Found(4, 3, "h1", 1, 0.5, None), Found(5, 3, "h2", 1, 0.5, None), Found(5, 2, "h2", 1, 0.5, None)]
    outbox.finish(store, batch, held, [Receipt(0, last - first, 3)])
    documents.accept(store, [doc("d"), doc("e")], "ann")


def without_times(found: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """Rows without the moments at which they were written, and with numbers by rank: PostgreSQL uses none twice."""
    ranks = {name: {row[0]: rank for rank, row in enumerate(found[name])} for name in NUMBERED}
    plain: dict[str, list[tuple[Any, ...]]] = {}
    for name, rows in found.items():
        kept = [tuple(v for v in row if not (isinstance(v, float) and 1e9 < v < 8e9)) for row in rows]
        if name in NUMBERED:
            kept = [(ranks[name][row[0]], *row[1:]) for row in kept]
        if name == "notifications":
            kept = [(*row[:-1], ranks["digests"].get(row[-1])) for row in kept]
        plain[name] = kept
    return plain


@pytest.mark.parametrize("name", CALLS)
def test_a_crash_at_any_write_leaves_the_state_before_or_after(place, tmp_path, name):
    call = CALLS[name]
    model = Store(place("model"))
    prepared(model)
    back_up(model, tmp_path / "copy")
    before = contents(model)
    with Crashing(model, 0) as counted:
        call(model)
    after = without_times(contents(model))
    model.close()
    assert counted.count
    assert after != without_times(before), "the call changes something"
    allowed = [without_times(before), after]
    for number in range(1, counted.count + 1):
        store = Store(place(f"crashed_{number}"))
        restore(store, tmp_path / "copy")
        with Crashing(store, number), pytest.raises(Crash):
            call(store)
        left = without_times(contents(store))
        if name not in ALONE:
            assert left in allowed, f"write {number} of {counted.count}"
        else:
            assert left["notifications"] in [state["notifications"] for state in allowed]
        if left != after:  # whoever tries again gets there
            call(store)
            assert without_times(contents(store)) == after
        store.close()
