"""Idempotency keys: a call that is repeated is answered as the first time, and done once.

A key is taken before the call does anything and gets its answer when it is done. A call that died in between
left its key without an answer: whoever repeats it does it again, with the same key, from which the ids of what
it makes are drawn (`site.life`), so nothing is made twice.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from sqlalchemy import delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.store import schema
from tocsin.store.connect import Store

table = schema.replies


class Reply(NamedTuple):
    """What a call was answered; status None: it has not been yet."""

    fingerprint: bytes
    status: int | None
    body: str | None


def take(store: Store, account: str, key: str, fingerprint: bytes) -> Reply | None:
    """Takes a key for a request; what is known of an earlier one with this key, if there is one."""
    values = {"account": account, "key": key, "fingerprint": fingerprint, "at": time.time()}
    which = (table.c.account == account) & (table.c.key == key)
    with store.write() as transaction:
        insertion = postgresql.insert if transaction.dialect.name == "postgresql" else sqlite.insert
        new = insertion(table).values(**values).on_conflict_do_nothing(index_elements=["account", "key"])
        if transaction.execute(new.returning(table.c.key)).first() is not None:
            return None
        row = transaction.execute(select(table).where(which)).one()
    return Reply(bytes(row.fingerprint), row.status, row.body)


def answer(store: Store, account: str, key: str, status: int, body: str) -> None:
    """Keeps the answer."""
    which = (table.c.account == account) & (table.c.key == key)
    with store.write() as transaction:
        transaction.execute(update(table).where(which).values(status=status, body=body))


def release(store: Store, account: str, key: str) -> None:
    """Gives a key back: the call failed, and nothing was done."""
    which = (table.c.account == account) & (table.c.key == key) & table.c.status.is_(None)
    with store.write() as transaction:
        transaction.execute(delete(table).where(which))


def forget(store: Store, before: float) -> int:
    """Forgets answers older than that; returns how many."""
    with store.write() as transaction:
        return int(transaction.execute(delete(table).where(table.c.at < before)).rowcount)
