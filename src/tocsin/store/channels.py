"""What channels keep: the site's own secret, Atom feeds and the newest that one shows, channels that accounts saved.

The address of a feed is drawn from the site's secret and a feed's own chance: it can be shown again to its account,
and is found by its hash. A mailbox is told nothing before whoever reads it has said so; how often it was asked is
remembered for the whole site, so that no number of accounts can flood a stranger.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    Row,
    Table,
    Text,
    UniqueConstraint,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

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

_Number = BigInteger().with_variant(Integer(), "sqlite")

saved = Table(  # what an account may choose for its subscriptions, and which of its mailboxes may be written to
    "channels",
    schema.tables,
    Column("number", _Number, primary_key=True),
    Column("account", Text, nullable=False),
    Column("kind", Text, nullable=False),  # mail, apprise
    Column("address", Text, nullable=False),  # it may hold a secret
    Column("name", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("confirmed", Double),  # since when it may be written to; null: whoever reads it has not said so yet
    Column("tried", Double),  # when something was last sent there for a test
    Column("problem", Text),  # why that failed
    UniqueConstraint("account", "kind", "address"),
)

mailboxes = Table(  # everybody's: how often an address was asked to confirm
    "mailboxes",
    schema.tables,
    Column("address", Text, primary_key=True),  # in small letters
    Column("account", Text, nullable=False, index=True),  # that had it asked last
    Column("asked", Double, nullable=False),  # last
    Column("asks", Integer, nullable=False),  # that were not answered
    Column("refused", Double),  # its reader wants no mail of this site
)

messages = Table(  # what is told together: written before it is sent, so that a repeat is the same message
    "messages",
    schema.tables,
    Column("subscription", BigInteger, primary_key=True, autoincrement=False),
    Column("message", Text, nullable=False),
    Column("after", BigInteger, nullable=False),  # the items of the subscription after this cursor
    Column("upto", BigInteger, nullable=False),  # up to this one
    Index("messages_by_message", "message"),
)

TABLES = (table,)
SAVED_TABLES = (saved, mailboxes, messages)


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


# --- saved channels --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Saved:
    """A channel that an account keeps."""

    number: int
    account: str
    kind: str
    address: str = field(repr=False)  # it may hold a secret
    name: str
    created: float
    confirmed: float | None = None
    tried: float | None = None
    problem: str | None = None


def save(store: Store, account: str, kind: str, address: str, *, name: str, is_confirmed: bool) -> Saved | None:
    """Keeps a new channel; None if the account has it already."""
    now = time.time()
    values = {"account": account, "kind": kind, "address": address, "name": name, "created": now}
    values["confirmed"] = now if is_confirmed else None
    try:
        with store.write() as transaction:
            row = transaction.execute(insert(saved).values(**values).returning(*saved.c)).one()
    except IntegrityError:
        return None
    return _saved(row)


def saved_of(store: Store, account: str) -> list[Saved]:
    """An account's channels, oldest first."""
    with store.read() as transaction:
        found = transaction.execute(select(saved).where(saved.c.account == account).order_by(saved.c.number))
        return [_saved(row) for row in found]


def find_saved(store: Store, number: int) -> Saved | None:
    """A channel by its number."""
    with store.read() as transaction:
        row = transaction.execute(select(saved).where(saved.c.number == number)).first()
    return None if row is None else _saved(row)


def saved_at(store: Store, account: str, kind: str, address: str) -> Saved | None:
    """A channel by where it leads."""
    which = (saved.c.account == account) & (saved.c.kind == kind) & (saved.c.address == address)
    with store.read() as transaction:
        row = transaction.execute(select(saved).where(which)).first()
    return None if row is None else _saved(row)


def set_saved(store: Store, number: int, **values: Any) -> None:
    """Sets columns of a channel."""
    with store.write() as transaction:
        transaction.execute(update(saved).where(saved.c.number == number).values(**values))


def drop_saved(store: Store, account: str, number: int) -> bool:
    """Forgets a channel; False if the account has none of this number."""
    which = (saved.c.account == account) & (saved.c.number == number)
    with store.write() as transaction:
        return bool(transaction.execute(delete(saved).where(which)).rowcount)


def _saved(row: Row[Any]) -> Saved:
    return Saved(**row._mapping)


class Use(NamedTuple):
    """A subscription that is told somewhere, and how that goes."""

    number: int
    subscription: str
    name: str | None
    url: str
    """As it is stored: it may hold a secret."""
    attempts: int
    next_try: float | None
    problem: str | None


def uses(store: Store, account: str, limit: int = 1_000) -> list[Use]:
    """An account's subscriptions that are told outside the inbox, by id."""
    hooks = schema.webhooks
    columns = (own.c.number, own.c.id, own.c.about, hooks.c.url, hooks.c.attempts, hooks.c.next_try, hooks.c.problem)
    asked = select(*columns).join(hooks, hooks.c.subscription == own.c.number)
    which = (own.c.account == account) & (own.c.state != DELETED)
    with store.read() as transaction:
        found = transaction.execute(asked.where(which).order_by(own.c.id).limit(limit)).all()
    return [
        Use(row.number, row.id, json.loads(row.about).get("name"), row.url, row.attempts, row.next_try, row.problem)
        for row in found
    ]


# --- mailboxes that are asked ----------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """What is remembered of an address."""

    account: str
    asked: float
    asks: int
    refused: float | None


def asked_of(store: Store, address: str) -> Asked | None:
    """How often an address was asked to confirm."""
    columns = (mailboxes.c.account, mailboxes.c.asked, mailboxes.c.asks, mailboxes.c.refused)
    with store.read() as transaction:
        row = transaction.execute(select(*columns).where(mailboxes.c.address == address.lower())).first()
    return None if row is None else Asked(*row)


def note_ask(store: Store, address: str, before: Asked | None, after: Asked) -> bool:
    """Remembers that an address is asked; False if somebody else was quicker."""
    key, now = address.lower(), after._asdict()
    if before is None:
        try:
            with store.write() as transaction:
                transaction.execute(insert(mailboxes).values(address=key, **now))
        except IntegrityError:
            return False
        return True
    same = (mailboxes.c.address == key) & (mailboxes.c.asked == before.asked) & (mailboxes.c.asks == before.asks)
    with store.write() as transaction:
        return bool(transaction.execute(update(mailboxes).where(same).values(**now)).rowcount)


def asked_since(store: Store, account: str, moment: float) -> int:
    """How many mailboxes an account had asked since then."""
    which = (mailboxes.c.account == account) & (mailboxes.c.asked > moment)
    with store.read() as transaction:
        return int(transaction.execute(select(func.count()).select_from(mailboxes).where(which)).scalar_one())


def note_answer(store: Store, address: str, *, refused: float | None) -> None:
    """What the reader of a mailbox said: that they may be written to, or that they never want to be."""
    with store.write() as transaction:
        which = mailboxes.c.address == address.lower()
        transaction.execute(update(mailboxes).where(which).values(asks=0, refused=refused))
        if refused is not None:
            every = (saved.c.kind == "mail") & (func.lower(saved.c.address) == address.lower())
            transaction.execute(update(saved).where(every).values(confirmed=None))


def unsaved_mailboxes(store: Store, limit: int = 100) -> list[tuple[str, str]]:
    """(account, address) of the mailboxes that subscriptions name and nobody has saved, so that they can be asked."""
    hooks = schema.webhooks
    known = (saved.c.account == own.c.account) & (saved.c.kind == "mail") & ("mail:" + saved.c.address == hooks.c.url)
    asked = select(own.c.account, hooks.c.url).join(hooks, hooks.c.subscription == own.c.number).distinct()
    which = (hooks.c.url >= "mail:") & (hooks.c.url < "mail;") & (own.c.state != DELETED)
    with store.read() as transaction:
        found = transaction.execute(asked.where(which & ~select(saved.c.number).where(known).exists()).limit(limit))
        return [(row.account, row.url.removeprefix("mail:")) for row in found]


# --- what is told together -------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A subscription's part of a message: its items after one cursor, up to another."""

    subscription: int
    after: int
    upto: int


def companions(store: Store, account: str, url: str, limit: int = 200) -> list[tuple[int, int]]:
    """(subscription, cursor) of the account's subscriptions that are told at this address."""
    hooks = schema.webhooks
    asked = select(hooks.c.subscription, hooks.c.cursor).join(own, own.c.number == hooks.c.subscription)
    which = (own.c.account == account) & (hooks.c.url == url) & (own.c.state != DELETED)
    with store.read() as transaction:
        found = transaction.execute(asked.where(which).order_by(hooks.c.subscription).limit(limit)).all()
    return [(row.subscription, row.cursor) for row in found]


def message_with(store: Store, subscription: int) -> tuple[str, list[Part]] | None:
    """The message that a subscription's next items were put into, if one was begun."""
    with store.read() as transaction:
        name = transaction.execute(select(messages.c.message).where(messages.c.subscription == subscription)).scalar()
        if name is None:
            return None
        columns = (messages.c.subscription, messages.c.after, messages.c.upto)
        rows = transaction.execute(select(*columns).where(messages.c.message == name).order_by(columns[0])).all()
    return name, [Part(*row) for row in rows]


def begin_message(store: Store, message: str, parts: Sequence[Part]) -> None:
    """Notes what goes into a message, before it is sent."""
    with store.write() as transaction:
        among = messages.c.subscription.in_([part.subscription for part in parts])
        transaction.execute(delete(messages).where(among))
        transaction.execute(insert(messages), [part._asdict() | {"message": message} for part in parts])


def end_message(store: Store, message: str) -> None:
    """Forgets a message: it was taken, or given up."""
    with store.write() as transaction:
        transaction.execute(delete(messages).where(messages.c.message == message))
