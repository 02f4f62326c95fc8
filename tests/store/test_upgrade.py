"""A store of the format before opens, keeps what it held, and works as a new one does."""

from __future__ import annotations

import pytest
from sqlalchemy import Table, insert, inspect

from tests.store import format_1
from tocsin.errors import StoreError
from tocsin.model import Document
from tocsin.store import Store, documents, inbox, outbox, schema, subscriptions
from tocsin.store.connect import _engine, url_of
from tocsin.store.outbox import Batch, Found
from tocsin.store.subscriptions import HOLD, MUTED


def old_store(place: str) -> None:
    """As a Tocsin of format 1 left it: a document, a subscription, its notification."""
    engine = _engine(url_of(place))
    if engine.dialect.name == "sqlite":
        from pathlib import Path

        Path(place).mkdir()
    with engine.connect().execution_options(tocsin_writes=True) as connection, connection.begin():
        format_1.tables.create_all(connection)
        about = {"format": "1", "id": "0123456789abcdef", "created": "0"}
        connection.execute(insert(format_1.site), [{"key": key, "value": value} for key, value in about.items()])
        connection.execute(insert(format_1.clock).values(one=1, position=1, cursor=1))
        row = {"position": 1, "id": "a", "version": 1, "moment": 1.0, "accepted": 1.0, "fingerprint": b"x", "state": 0}
        connection.execute(insert(format_1.documents).values(**row, body='{"id":"a","text":"peer"}'))
        own = {"account": "ann", "id": "s", "gone": 0, "state": "active", "about": "{}", "revision": 1}
        connection.execute(insert(format_1.subscriptions).values(number=1, **own, created=1.0, changed=1.0))
        connection.execute(insert(format_1.revisions).values(subscription=1, revision=1, query="peer", since=0))
        told = {"cursor": 1, "account": "ann", "subscription": 1, "document": "a", "version": 1, "position": 1}
        connection.execute(insert(format_1.notifications).values(**told, score=0.5, statistics=0, made=1.0))
    engine.dispose()


def test_a_store_of_the_format_before_is_brought_up_and_keeps_all(place):
    old_store(place("old"))
    for _ in range(2):  # the second time it is up to date
        store = Store(place("old"))
        assert store.get("format") == str(schema.FORMAT)
        assert store.id == "0123456789abcdef"
        assert [item.cursor for item in inbox.items(store, account="ann")] == [1]
        kept = subscriptions.find(store, "ann", "s")
        assert kept is not None
        assert (kept.asked.query, kept.mute, kept.held_after, kept.digest_due) == ("peer", None, None, None)
        found = documents.find(store, "a")
        assert found is not None
        assert found.document() == Document("a", {"text": ("peer",)})
        store.close()


def test_an_upgraded_store_has_the_tables_and_indexes_of_a_new_one(place):
    old_store(place("old"))
    old, new = Store(place("old")), Store(place("new"))
    for table in (one for one in vars(schema).values() if isinstance(one, Table)):
        shapes = []
        for store in (old, new):
            seen = inspect(store.engine)
            columns = {
                (column["name"], str(column["type"]), column["nullable"]) for column in seen.get_columns(table.name)
            }
            shapes.append((columns, {index["name"] for index in seen.get_indexes(table.name)}))
        assert shapes[0] == shapes[1], table.name
    old.close()
    new.close()


def test_an_upgraded_store_works(place):
    old_store(place("old"))
    store = Store(place("old"))
    kept = subscriptions.find(store, "ann", "s")
    assert kept is not None
    subscriptions.change(store, kept, state=MUTED, mute=HOLD, muted_until=9e9)
    assert documents.accept(store, [Document("b", {"text": ("peer",)})]).positions == [2]
    batch, _ = outbox.begin(store, Batch("match", 2, 1, 2, 0, 0))
    assert outbox.finish(store, batch, [Found(2, 1, "b", 1, 0.5, None)]) == 1
    assert [item.cursor for item in inbox.items(store, account="ann")] == [1]
    store.close()


def test_a_crash_in_the_middle_of_an_upgrade_leaves_the_old_store(place, monkeypatch):
    old_store(place("old"))
    from tocsin.store import upgrade

    def half(transaction):
        upgrade._add_columns(transaction, schema.subscriptions, ("mute", "held_after", "digest_due"))
        raise StoreError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setitem(upgrade.STEPS, 2, half)
        with pytest.raises(StoreError, match="power"):
            Store(place("old"))
    engine = _engine(url_of(place("old")))
    assert "mute" not in {column["name"] for column in inspect(engine).get_columns("subscriptions")}
    engine.dispose()
    Store(place("old")).close()
