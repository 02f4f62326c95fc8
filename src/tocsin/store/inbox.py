"""The outbox as its readers see it: notifications and digests in one order of cursors.

What is held (a muted subscription, or one that is told in digests) is not seen. When it is shown it gets new
cursors, after all that was seen before: a reader who keeps the last cursor misses nothing and sees nothing twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, insert, or_, select, update

from tocsin.store import schema
from tocsin.store.connect import Store, advance, head
from tocsin.store.outbox import Notification
from tocsin.store.subscriptions import DELETED, LOOKED_UP, MUTED

rows, digests, own = schema.notifications, schema.digests, schema.subscriptions


class Item(NamedTuple):
    """What a reader gets at once: one notification, or the many of a digest."""

    cursor: int
    account: str
    number: int
    """Of the subscription in the store."""
    subscription: str
    notifications: tuple[Notification, ...]
    digest: int | None
    made: float


def _seen() -> ColumnElement[bool]:
    """Is a notification told by itself, and not held?"""
    return and_(rows.c.digest.is_(None), or_(own.c.held_after.is_(None), rows.c.cursor <= own.c.held_after))


def _columns() -> Select[Any]:
    return select(
        rows.c.cursor,
        rows.c.account,
        own.c.number,
        own.c.id,
        rows.c.document,
        rows.c.version,
        rows.c.score,
        rows.c.statistics,
        rows.c.evidence,
        rows.c.made,
        rows.c.digest,
    ).join(own, own.c.number == rows.c.subscription)


def _notification(row: Row[Any]) -> Notification:
    evidence = json.loads(row.evidence) if row.evidence else None
    return Notification(
        row.cursor, row.account, row.id, row.document, row.version, row.score, row.statistics, evidence, row.made
    )


def items(
    store: Store, *, account: str | None = None, subscription: int | None = None, after: int = 0, limit: int = 100
) -> list[Item]:
    """The next items after the cursor: of an account, of one subscription, or everybody's."""
    single, grouped = _columns().where(_seen() & (rows.c.cursor > after)), _digests().where(digests.c.cursor > after)
    if account is not None:
        single, grouped = single.where(rows.c.account == account), grouped.where(digests.c.account == account)
    if subscription is not None:
        single = single.where(rows.c.subscription == subscription)
        grouped = grouped.where(digests.c.subscription == subscription)
    with store.read() as transaction:
        found = [_single(row) for row in transaction.execute(single.order_by(rows.c.cursor).limit(limit))]
        groups = transaction.execute(grouped.order_by(digests.c.cursor).limit(limit)).all()
        if not groups:
            return found
        chosen = [group for group in groups if len(found) < limit or group.cursor < found[-1].cursor]
        found += _grouped(transaction, chosen)
    return sorted(found)[:limit]


def webhook_items(transaction: Connection, subscriptions: Sequence[int], limit: int) -> dict[int, list[Item]] | None:
    """What waits for the webhook of each subscription; None if that is more than so many notifications, or digests."""
    found: dict[int, list[Item]] = {number: [] for number in subscriptions}
    hooks, told = schema.webhooks, 0
    for first in range(0, len(subscriptions), LOOKED_UP):
        among = hooks.c.subscription.in_(subscriptions[first : first + LOOKED_UP])
        grouped = select(digests.c.number).join(hooks, hooks.c.subscription == digests.c.subscription)
        if transaction.execute(grouped.where(among & (digests.c.cursor > hooks.c.cursor)).limit(1)).first() is not None:
            return None
        single = _columns().join(hooks, hooks.c.subscription == rows.c.subscription)
        single = single.where(_seen() & among & (rows.c.cursor > hooks.c.cursor)).order_by(rows.c.cursor)
        for row in transaction.execute(single.limit(limit + 1 - told)):
            told += 1
            found[row.number].append(_single(row))
        if told > limit:
            return None
    return found


def item_at(store: Store, cursor: int) -> Item | None:
    """The item of this cursor, seen or not."""
    with store.read() as transaction:
        row = transaction.execute(_columns().where(rows.c.cursor == cursor)).first()
        if row is not None:
            return _single(row)
        groups = transaction.execute(_digests().where(digests.c.cursor == cursor)).all()
        return next(iter(_grouped(transaction, groups)), None)


def _single(row: Row[Any]) -> Item:
    return Item(row.cursor, row.account, row.number, row.id, (_notification(row),), None, row.made)


def _digests() -> Select[Any]:
    return select(digests, own.c.id).join(own, own.c.number == digests.c.subscription)


def _grouped(transaction: Connection, groups: Sequence[Row[Any]]) -> list[Item]:
    told: dict[int, list[Notification]] = {group.number: [] for group in groups}
    numbers = sorted(told)
    for first in range(0, len(numbers), LOOKED_UP):
        among = rows.c.digest.in_(numbers[first : first + LOOKED_UP])
        for row in transaction.execute(_columns().where(among).order_by(rows.c.cursor)):
            told[row.digest].append(_notification(row))
    return [
        Item(
            group.cursor,
            group.account,
            group.subscription,
            group.id,
            tuple(told[group.number]),
            group.number,
            group.made,
        )
        for group in groups
    ]


def last(store: Store) -> int:
    """The cursor of the last notification or digest: grows whenever there is something new."""
    with store.read() as transaction:
        return int(transaction.execute(select(schema.clock.c.cursor)).scalar_one())


# --- digests ---------------------------------------------------------------------------------------------------------


class Due(NamedTuple):
    """A subscription whose digest is due, with what it says of itself."""

    number: int
    account: str
    about: dict[str, Any]
    due: float
    held_after: int


def digests_due(store: Store, now: float, limit: int = 1_000) -> list[Due]:
    """The subscriptions whose digest is due. A muted one waits until it is told again."""
    columns = (own.c.number, own.c.account, own.c.about, own.c.digest_due, own.c.held_after)
    which = (own.c.digest_due <= now) & own.c.state.not_in((DELETED, MUTED)) & own.c.held_after.is_not(None)
    with store.read() as transaction:
        found = transaction.execute(select(*columns).where(which).order_by(own.c.digest_due).limit(limit)).all()
    return [Due(row.number, row.account, json.loads(row.about), row.digest_due, row.held_after) for row in found]


def next_digest(store: Store) -> float | None:
    """When the next digest is due."""
    which = own.c.digest_due.is_not(None) & own.c.state.not_in((DELETED, MUTED))
    with store.read() as transaction:
        found = transaction.execute(select(func.min(own.c.digest_due)).where(which)).scalar()
    return None if found is None else float(found)


def make_digests(store: Store, wanted: Iterable[tuple[Due, float]]) -> int:
    """Gathers what was held of each, and notes when its next digest is due; returns how many digests were made.

    One transaction: a digest is made with all its notifications, or is still due. One that was made, changed or
    muted meanwhile is left alone.
    """
    made = 0
    with store.write() as transaction:
        head(transaction)  # as whoever changes a subscription: the log first, then its row
        for due, next_due in wanted:
            same = (own.c.number == due.number) & (own.c.digest_due == due.due) & own.c.state.not_in((DELETED, MUTED))
            if transaction.execute(update(own).where(same).values(digest_due=next_due)).rowcount:
                made += _gather(transaction, due)
    return made


def _gather(transaction: Connection, due: Due) -> int:
    held = (rows.c.subscription == due.number) & (rows.c.cursor > due.held_after) & rows.c.digest.is_(None)
    count = int(transaction.execute(select(func.count()).select_from(rows).where(held)).scalar_one())
    if not count:
        return 0
    _, cursor = advance(transaction, cursors=1)
    values = {"account": due.account, "subscription": due.number, "cursor": cursor + 1}
    new = insert(digests).values(**values, count=count, made=time.time()).returning(digests.c.number)
    number = transaction.execute(new).scalar_one()
    transaction.execute(update(rows).where(held).values(digest=number))
    return 1
