"""Who did what, and what matching costs: kept to be looked at, never to decide anything."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.store import schema
from tocsin.store.connect import Store, packed
from tocsin.store.subscriptions import LOOKED_UP

table, costs, own = schema.journal, schema.costs, schema.subscriptions


class Entry(NamedTuple):
    """Something that was done."""

    number: int
    at: float
    account: str | None
    action: str
    target: str | None
    detail: Any


def note(store: Store, account: str | None, action: str, target: str | None = None, **detail: Any) -> None:
    """Writes an entry."""
    with store.write() as transaction:
        note_in(transaction, account, action, target, **detail)


def note_in(
    transaction: Connection, account: str | None, action: str, target: str | None = None, **detail: Any
) -> None:
    """The same, as a part of a transaction."""
    values = {"at": time.time(), "account": account, "action": action, "target": target}
    transaction.execute(insert(table).values(**values, detail=packed(detail) if detail else None))


def read(store: Store, account: str | None = None, before: int | None = None, limit: int = 100) -> list[Entry]:
    """The last entries (of an account), the newest first."""
    asked = select(table).order_by(table.c.number.desc()).limit(limit)
    if account is not None:
        asked = asked.where(table.c.account == account)
    if before is not None:
        asked = asked.where(table.c.number < before)
    with store.read() as transaction:
        rows = transaction.execute(asked).all()
    return [
        Entry(row.number, row.at, row.account, row.action, row.target, json.loads(row.detail) if row.detail else None)
        for row in rows
    ]


def forget(store: Store, before: float) -> int:
    """Forgets entries older than that; returns how many."""
    with store.write() as transaction:
        return int(transaction.execute(delete(table).where(table.c.at < before)).rowcount)


# --- costs -----------------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """What a subscription has cost: documents on which it was looked at by itself, and its matches."""

    account: str
    subscription: str
    tried: int
    matched: int


def add_costs(store: Store, found: Mapping[int, tuple[int, int]]) -> None:
    """Adds (tried, matched) to what is known of revisions' subscriptions."""
    revisions = schema.revisions
    with store.write() as transaction:
        totals: dict[int, list[int]] = {}
        numbers = sorted(found)
        for first in range(0, len(numbers), LOOKED_UP):
            which = revisions.c.number.in_(numbers[first : first + LOOKED_UP])
            for number, subscription in transaction.execute(
                select(revisions.c.number, revisions.c.subscription).where(which)
            ):
                total = totals.setdefault(subscription, [0, 0])
                total[0] += found[number][0]
                total[1] += found[number][1]
        if not totals:
            return
        insertion = postgresql.insert if transaction.dialect.name == "postgresql" else sqlite.insert
        new = insertion(costs)
        more = new.on_conflict_do_update(
            index_elements=["subscription"],
            set_={
                "tried": costs.c.tried + new.excluded.tried,
                "matched": costs.c.matched + new.excluded.matched,
                "noted": new.excluded.noted,
            },
        )
        now = time.time()
        rows = [
            {"subscription": number, "tried": tried, "matched": matched, "noted": now}
            for number, (tried, matched) in totals.items()
        ]
        transaction.execute(more, rows)


def dearest(store: Store, account: str | None = None, limit: int = 20) -> list[Cost]:
    """The subscriptions that were looked at most often, the dearest first."""
    columns = (own.c.account, own.c.id, costs.c.tried, costs.c.matched)
    asked = select(*columns).join(own, own.c.number == costs.c.subscription).where(own.c.gone == 0)
    if account is not None:
        asked = asked.where(own.c.account == account)
    with store.read() as transaction:
        rows = transaction.execute(asked.order_by(costs.c.tried.desc(), costs.c.subscription).limit(limit)).all()
    return [Cost(*row) for row in rows]
