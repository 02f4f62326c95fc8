"""What channels keep: the site's own secret, Atom feeds, and the newest that one of them shows.

The address of a feed is drawn from the site's secret and a feed's own chance: it can be shown again to its account,
and is found by its hash.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Column, Double, LargeBinary, Table, Text, delete, insert, or_, select

from tocsin.store import schema
from tocsin.store.connect import Store
from tocsin.store.inbox import _columns, _notification, _seen
from tocsin.store.outbox import Notification
from tocsin.store.subscriptions import DELETED

SECRET = "channel_secret"
rows, own = schema.notifications, schema.subscriptions

table = Table(
    "atom_feeds",
    schema.tables,
    Column("mark", LargeBinary, primary_key=True),  # a hash of its secret
    Column("salt", LargeBinary, nullable=False),
    Column("account", Text, nullable=False, index=True),
    Column("subscription", Text),  # its id …
    Column("tag", Text),  # … or a tag; neither: all of the account
    Column("created", Double, nullable=False),
)

TABLES = (table,)


class AtomFeed(NamedTuple):
    """A feed of an account's notifications: of one subscription, of those with a tag, or of all."""

    mark: bytes
    salt: bytes
    account: str
    subscription: str | None
    tag: str | None
    created: float


def secret(store: Store) -> bytes:
    """The site's own secret, drawn when it is first asked for."""
    asked = select(schema.site.c.value).where(schema.site.c.key == SECRET)
    with store.read() as transaction:
        found = transaction.execute(asked).scalar()
    if found is None:
        with store.write() as transaction:
            found = transaction.execute(asked).scalar()
            if found is None:
                found = secrets.token_hex(32)
                transaction.execute(insert(schema.site).values(key=SECRET, value=found))
    return bytes.fromhex(found)


def add_feed(
    store: Store, mark: bytes, salt: bytes, account: str, *, subscription: str | None, tag: str | None
) -> AtomFeed:
    """Keeps a new feed."""
    feed = AtomFeed(mark, salt, account, subscription, tag, time.time())
    with store.write() as transaction:
        transaction.execute(insert(table).values(**feed._asdict()))
    return feed


def find_feed(store: Store, mark: bytes) -> AtomFeed | None:
    """A feed by the hash of its secret, unless its account is disabled."""
    accounts = schema.accounts
    asked = select(table).join(accounts, accounts.c.name == table.c.account)
    with store.read() as transaction:
        row = transaction.execute(asked.where((table.c.mark == mark) & accounts.c.disabled.is_(False))).first()
    return None if row is None else AtomFeed(*row)


def feeds_of(store: Store, account: str) -> list[AtomFeed]:
    """An account's feeds, oldest first."""
    asked = select(table).where(table.c.account == account).order_by(table.c.created, table.c.mark)
    with store.read() as transaction:
        return [AtomFeed(*row) for row in transaction.execute(asked)]


def drop_feed(store: Store, account: str, mark: bytes) -> bool:
    """Forgets a feed; False if the account has none of this mark."""
    which = (table.c.mark == mark) & (table.c.account == account)
    with store.write() as transaction:
        return bool(transaction.execute(delete(table).where(which)).rowcount)


def newest(store: Store, feed: AtomFeed, limit: int) -> list[Notification]:
    """What the feed shows: the newest first, nothing that is held."""
    shown = or_(rows.c.digest.is_not(None), _seen())
    asked = _columns().where((rows.c.account == feed.account) & shown & (own.c.state != DELETED))
    with store.read() as transaction:
        if feed.subscription is not None:
            asked = asked.where(own.c.id == feed.subscription)
        elif feed.tag is not None:
            about = select(own.c.number, own.c.about).where((own.c.account == feed.account) & (own.c.state != DELETED))
            tagged = [
                row.number
                for row in transaction.execute(about.where(own.c.about.contains('"tags"')))
                if feed.tag in json.loads(row.about).get("tags", ())
            ]
            asked = asked.where(own.c.number.in_(tagged))
        return [_notification(row) for row in transaction.execute(asked.order_by(rows.c.cursor.desc()).limit(limit))]


def subscription_of(store: Store, number: int) -> tuple[str, str] | None:
    """(account, id) of a subscription by its number, if it still exists."""
    asked = select(own.c.account, own.c.id).where((own.c.number == number) & (own.c.state != DELETED))
    with store.read() as transaction:
        row = transaction.execute(asked).first()
    return None if row is None else (row.account, row.id)


def about_of(store: Store, account: str, ids: Sequence[str]) -> dict[str, dict[str, object]]:
    """What an account's subscriptions say of themselves, by id; the last one of an id."""
    asked = select(own.c.id, own.c.about).where((own.c.account == account) & own.c.id.in_(list(ids)))
    with store.read() as transaction:
        return {row.id: json.loads(row.about) for row in transaction.execute(asked.order_by(own.c.number))}
