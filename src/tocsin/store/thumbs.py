"""Thumbs: what somebody thinks of a document that a subscription has told. One for each notification, up or down."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, tuple_

from tocsin.store import schema
from tocsin.store.connect import Store

table, rows = schema.thumbs, schema.notifications


class Thumb(NamedTuple):
    """Up or down, for a version of a document."""

    document: str
    version: int
    is_up: bool


def of(store: Store, subscription: int) -> list[Thumb]:
    """All thumbs of a subscription, by document."""
    asked = select(table.c.document, table.c.version, table.c.is_up).where(table.c.subscription == subscription)
    with store.read() as transaction:
        found = transaction.execute(asked.order_by(table.c.document, table.c.version)).all()
    return [Thumb(row.document, row.version, bool(row.is_up)) for row in found]


def put_in(transaction: Connection, subscription: int, thumbs: Iterable[Thumb]) -> None:
    """Gives the subscription these thumbs, as a part of a transaction."""
    now = time.time()
    values = [{"subscription": subscription, **thumb._asdict(), "at": now} for thumb in thumbs]
    if values:
        transaction.execute(insert(table), values)


def take_in(transaction: Connection, subscription: int, document: str, version: int) -> None:
    """Takes a thumb back, as a part of a transaction."""
    which = (table.c.subscription == subscription) & (table.c.document == document) & (table.c.version == version)
    transaction.execute(delete(table).where(which))


def told(store: Store, subscription: int, document: str, version: int | None = None) -> int | None:
    """The newest version of the document that the subscription was told of, or this one; None: it was not."""
    which = (rows.c.subscription == subscription) & (rows.c.document == document)
    if version is not None:
        which &= rows.c.version == version
    asked = select(rows.c.version).where(which).order_by(rows.c.version.desc()).limit(1)
    with store.read() as transaction:
        found = transaction.execute(asked).scalar()
    return None if found is None else int(found)


def given(store: Store, about: Sequence[tuple[int, str, int]]) -> dict[tuple[int, str, int], bool]:
    """For these (subscription, document, version): is it up? Those without a thumb are left out."""
    if not about:
        return {}
    key = tuple_(table.c.subscription, table.c.document, table.c.version)
    with store.read() as transaction:
        found = transaction.execute(select(table).where(key.in_(about))).all()
    return {(row.subscription, row.document, row.version): bool(row.is_up) for row in found}
