"""Small stores with something of everything in them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import inspect, select

from tocsin.model import Document
from tocsin.store import Store, accounts, documents, inbox, journal, outbox, replies, subscriptions, webhooks
from tocsin.store.backup import TABLES
from tocsin.store.outbox import Batch, Found, Letter, Receipt
from tocsin.store.subscriptions import Asked, Webhook, Wish
from tocsin.store.thumbs import Thumb, put_in


def doc(id: str, text: str = "peer", version: int = 1) -> Document:
    return Document(id, {"text": (text,)}, version=version)


def contents(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables."""
    with store.read() as transaction:
        there = set(inspect(transaction).get_table_names())
        return {
            name: [tuple(row) for row in transaction.execute(select(table).order_by(*table.primary_key.columns))]
            for name, table in TABLES.items()
            if name in there
        }


def matched(store: Store, *found: tuple[int, int, str], last: int | None = None) -> int:
    """A batch over all that waits, with these matches: (position, revision, document)."""
    with store.read() as transaction:
        first = documents.matched(transaction)
    upto = documents.last_position(store) if last is None else last
    batch, _ = outbox.begin(store, Batch("match", upto, first, upto, 1, 1))
    rows = [Found(position, revision, id, 1, 0.5, '{"why":1}') for position, revision, id in found]
    return outbox.finish(store, batch, rows, [Receipt(0, upto - first, 1)])


def furnish(store: Store) -> None:
    """Something in every table."""
    accounts.add(store, "ann", "publisher", {"subscriptions_max": 7})
    accounts.add_token(store, "ann", b"\x00\xff" * 16, "laptop", None)
    hook = Webhook("https://example.org/", "whsec_" + "A" * 32)
    wishes = [Wish("s", Asked("peer")), Wish("d", Asked("peer"), {"mode": "hourly"}, None, 5.0, hook)]
    assert subscriptions.add(store, "ann", wishes) == {}
    documents.accept(store, [doc("a"), doc("b", "grüße"), doc("c")], "ann")
    matched(store, (1, 1, "a"), (1, 2, "a"), (3, 2, "c"))
    inbox.make_digests(store, [(due, 3_605.0) for due in inbox.digests_due(store, 10.0)])
    number = subscriptions.find(store, "ann", "d")
    assert number is not None
    gone = webhooks.GivenUp(number.number, "ann", 4, 3, "answered 500")
    webhooks.note(store, failed={number.number: webhooks.Attempt(1, 9.0, "answered 500", hook.url)}, given_up=[gone])
    replies.take(store, "ann", "key", b"f")
    replies.answer(store, "ann", "key", 201, "{}")
    journal.note(store, "ann", "subscribe", "s", how="by hand")
    journal.add_costs(store, {1: (5, 2)})
    with store.write() as transaction:
        outbox.refuse(transaction, "files", [Letter("f:1", "no id")])
        put_in(transaction, 1, [Thumb("a", 1, True)])
