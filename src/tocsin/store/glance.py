"""The outbox as a page shows it: the newest first, and how much there was of it between two moments.

Cursors and times grow together, except where something that was held is shown later; so a chart may count between
cursors, which an index answers, and be off by what was held. What lies between two cursors stays as it is, unless
something that was held is shown: then it moves to the end, and `stand` tells so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, case, func, literal, or_, select

from tocsin.store import schema
from tocsin.store.connect import Store
from tocsin.store.subscriptions import MOVED

rows, own = schema.notifications, schema.subscriptions


class Told(NamedTuple):
    """A notification with what its subscription calls itself."""

    cursor: int
    number: int
    """Of the subscription in the store."""
    subscription: str
    name: str | None
    is_gone: bool
    """Was the subscription deleted since?"""
    document: str
    version: int
    position: int
    score: float
    evidence: Any
    made: float
    is_digest: bool
    takes_thumbs: bool = False
    """Has its subscription opted in to feedback?"""


def newest(
    store: Store, account: str, *, subscription: int | None = None, before: int | None = None, limit: int = 25
) -> list[Told]:
    """The account's notifications, the newest first; not those that are held. Those of digests one by one."""
    shown = or_(rows.c.digest.is_not(None), own.c.held_after.is_(None), rows.c.cursor <= own.c.held_after)
    which = (rows.c.account == account) & shown
    if subscription is not None:
        which &= rows.c.subscription == subscription
    if before is not None:
        which &= rows.c.cursor < before
    columns = (
        rows.c.cursor,
        own.c.number,
        own.c.id,
        own.c.about,
        own.c.gone,
        rows.c.document,
        rows.c.version,
        rows.c.position,
        rows.c.score,
        rows.c.evidence,
        rows.c.made,
        rows.c.digest,
    )
    asked = select(*columns).join(own, own.c.number == rows.c.subscription).where(which)
    with store.read() as transaction:
        found = transaction.execute(asked.order_by(rows.c.cursor.desc()).limit(limit)).all()
    about = {row.number: json.loads(row.about) for row in found}
    return [
        Told(
            row.cursor,
            row.number,
            row.id,
            about[row.number].get("name"),
            bool(row.gone),
            row.document,
            row.version,
            row.position,
            row.score,
            json.loads(row.evidence) if row.evidence else None,
            row.made,
            row.digest is not None,
            "feedback" in about[row.number],
        )
        for row in found
    ]


def last_of(store: Store, account: str) -> int:
    """The cursor of the account's last notification, held or not; 0: none."""
    with store.read() as transaction:
        return int(transaction.execute(select(func.max(rows.c.cursor)).where(rows.c.account == account)).scalar() or 0)


def stand(store: Store) -> tuple[int, int]:
    """The last cursor; and how far cursors went when notifications last got new ones, 0: they never did."""
    moved = select(schema.site.c.value).where(schema.site.c.key == MOVED).scalar_subquery()
    with store.read() as transaction:
        last, found = transaction.execute(select(schema.clock.c.cursor, moved)).one()
    return int(last), int(found or 0)


def made_by(store: Store, moment: float) -> int:
    """The last cursor of what was made by then."""
    with store.read() as transaction:
        low, high = 0, int(transaction.execute(select(schema.clock.c.cursor)).scalar_one())
        while low < high:
            middle = (low + high + 1) // 2
            # Cursors have gaps: the nearest one that is there decides.
            before = select(rows.c.made).where(rows.c.cursor <= middle).order_by(rows.c.cursor.desc()).limit(1)
            made = transaction.execute(before).scalar()
            low, high = (middle, high) if made is None or made <= moment else (low, middle - 1)
    return low


def between(store: Store, edges: Sequence[int], account: str) -> list[int]:
    """How many notifications the account has in (edges[0], edges[1]], (edges[1], edges[2]], …"""
    bucket = _bucket(edges)
    which = (rows.c.account == account) & (rows.c.cursor > edges[0]) & (rows.c.cursor <= edges[-1])
    asked = select(bucket, func.count()).where(which).group_by(bucket)
    found = [0] * (len(edges) - 1)
    with store.read() as transaction:
        for place, count in transaction.execute(asked):
            found[place] = count
    return found


def between_each(store: Store, edges: Sequence[int], numbers: Sequence[int]) -> dict[int, list[int]]:
    """The same for each of these subscriptions, by its number in the store."""
    bucket = _bucket(edges)
    found = {number: [0] * (len(edges) - 1) for number in numbers}
    if not numbers:
        return found
    within = (rows.c.cursor > edges[0]) & (rows.c.cursor <= edges[-1])
    asked = select(rows.c.subscription, bucket, func.count()).where(rows.c.subscription.in_(list(numbers)) & within)
    with store.read() as transaction:
        for number, place, count in transaction.execute(asked.group_by(rows.c.subscription, bucket)):
            found[number][place] = count
    return found


def _bucket(edges: Sequence[int]) -> ColumnElement[int]:
    """Which of the ranges a cursor is in. The numbers stand in the statement: PostgreSQL groups by equal text only."""
    ends = [(rows.c.cursor <= _plain(edge), _plain(place)) for place, edge in enumerate(edges[1:])]
    return case(*ends, else_=_plain(len(edges) - 2)).label("bucket")


def _plain(number: int) -> ColumnElement[int]:
    return literal(number, literal_execute=True)
