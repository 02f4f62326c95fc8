"""How far each webhook has come: a cursor, and the attempts at the item after it.

An item is delivered, or after all its attempts put among the undelivered; only then the cursor moves on. So
a subscription's items are told in order, and a place that fails holds up nobody else's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, delete, func, select, union, update
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.store import schema
from tocsin.store.connect import Store
from tocsin.store.inbox import Item, webhook_items
from tocsin.store.subscriptions import DELETED, LOOKED_UP

hooks, undelivered, own = schema.webhooks, schema.undelivered, schema.subscriptions

GONE = 253_402_300_799.0
"""The next try (in the year 9999) of a webhook that said it is gone: until it is set again, or takes a test."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook and how far it has come."""

    subscription: int
    account: str
    url: str = field(repr=False)
    """Of a webhook; of a mailbox or a service as `site.channels` stores it, which may hold a secret."""
    secret: str = field(repr=False)
    cursor: int
    attempts: int
    next_try: float | None
    problem: str | None


class Waiting(NamedTuple):
    """A webhook, and what it has to be told."""

    hook: Hook
    items: list[Item] | None
    """None: there is too much, or a digest among it; it must be asked for by itself."""


class Attempt(NamedTuple):
    """What a failed attempt leaves behind."""

    attempts: int
    next_try: float
    problem: str
    url: str
    """Of the place that was tried."""


class GivenUp(NamedTuple):
    """An item that its place did not take."""

    subscription: int
    account: str
    cursor: int
    attempts: int
    problem: str


class Undelivered(NamedTuple):
    """The same, as it is kept."""

    number: int
    account: str
    subscription: str
    cursor: int
    attempts: int
    problem: str
    at: float
    wanted: bool


def hook(store: Store, subscription: int) -> Hook | None:
    """The webhook of a subscription that still exists."""
    with store.read() as transaction:
        row = transaction.execute(_hooks().where(hooks.c.subscription == subscription)).first()
    return None if row is None else Hook(**row._mapping)


def _hooks() -> Select[Any]:
    columns = [column for column in hooks.c if column.name != "subscription"]
    asked = select(hooks.c.subscription, own.c.account, *columns).join(own, own.c.number == hooks.c.subscription)
    return asked.where(own.c.state != DELETED)


def due(store: Store, subscriptions: Sequence[int], limit: int) -> dict[int, Waiting]:
    """The webhooks of these subscriptions, each with what waits for it, all in one look."""
    with store.read() as transaction:
        found = _hooks_of(transaction, subscriptions)
        items = webhook_items(transaction, sorted(found), limit)
    return {number: Waiting(one, None if items is None else items[number]) for number, one in found.items()}


def hooks_of(store: Store, subscriptions: Sequence[int]) -> dict[int, Hook]:
    """The webhooks of those of these subscriptions that exist and have one."""
    with store.read() as transaction:
        return _hooks_of(transaction, subscriptions)


def _hooks_of(transaction: Connection, subscriptions: Sequence[int]) -> dict[int, Hook]:
    found: dict[int, Hook] = {}
    for first in range(0, len(subscriptions), LOOKED_UP):
        among = hooks.c.subscription.in_(subscriptions[first : first + LOOKED_UP])
        for row in transaction.execute(_hooks().where(among)):
            found[row.subscription] = Hook(**row._mapping)
    return found


def waiting(store: Store) -> list[tuple[int, float | None]]:
    """Every subscription that may have something to deliver, and when it is to be tried next."""
    asked = select(hooks.c.subscription, hooks.c.next_try).join(own, own.c.number == hooks.c.subscription)
    fresh = [
        select(log.c.subscription).where((log.c.subscription == hooks.c.subscription) & (log.c.cursor > hooks.c.cursor))
        for log in (schema.notifications, schema.digests)
    ]
    some = fresh[0].exists() | fresh[1].exists()
    with store.read() as transaction:
        found = transaction.execute(asked.where((own.c.state != DELETED) & some)).all()
    return [(row.subscription, row.next_try) for row in found]


def revive(store: Store, subscription: int) -> None:
    """A webhook that was gone is called again."""
    which = (hooks.c.subscription == subscription) & (hooks.c.next_try == GONE)
    with store.write() as transaction:
        transaction.execute(update(hooks).where(which).values(attempts=0, next_try=None, problem=None))


def told_since(store: Store, after: int, upto: int) -> list[int]:
    """The subscriptions with a webhook that got something with a cursor in (after, upto]."""

    def among(log: Any) -> Select[Any]:
        within = (log.c.cursor > after) & (log.c.cursor <= upto)
        return select(log.c.subscription).join(hooks, hooks.c.subscription == log.c.subscription).where(within)

    with store.read() as transaction:
        asked = union(among(schema.notifications), among(schema.digests))
        return list(transaction.execute(asked).scalars())


def note(
    store: Store,
    *,
    delivered: Mapping[int, int] | None = None,
    failed: Mapping[int, Attempt] | None = None,
    given_up: Sequence[GivenUp] = (),
) -> None:
    """Notes what came of attempts, by subscription, in one transaction: many at once cost what one does."""
    with store.write() as transaction:
        moved = [{"which": number, "to": cursor} for number, cursor in (delivered or {}).items()]
        moved += [{"which": one.subscription, "to": one.cursor} for one in given_up]
        if given_up:
            _give_up(transaction, given_up)
        if moved:
            behind = (hooks.c.subscription == bindparam("which")) & (hooks.c.cursor < bindparam("to"))
            on = update(hooks).where(behind)
            transaction.execute(on.values(cursor=bindparam("to"), attempts=0, next_try=None), moved)
        if failed:
            # Whoever has another address since then has not failed.
            same = (hooks.c.subscription == bindparam("which")) & (hooks.c.url == bindparam("where"))
            at = update(hooks).where(same)
            values: dict[str, Any] = {"attempts": bindparam("tries"), "next_try": bindparam("then")}
            values["problem"] = bindparam("why")
            rows = [
                {
                    "which": number,
                    "where": one.url,
                    "tries": one.attempts,
                    "then": one.next_try,
                    "why": one.problem,
                }
                for number, one in failed.items()
            ]
            transaction.execute(at.values(**values), rows)


def _give_up(transaction: Connection, items: Sequence[GivenUp]) -> None:
    insertion = postgresql.insert if transaction.dialect.name == "postgresql" else sqlite.insert
    once = insertion(undelivered).on_conflict_do_nothing(index_elements=["subscription", "cursor"])
    now = time.time()
    transaction.execute(once, [item._asdict() | {"at": now, "wanted": False} for item in items])


# --- what was not taken ----------------------------------------------------------------------------------------------


def _undelivered() -> Select[Any]:
    return select(
        undelivered.c.number,
        undelivered.c.account,
        own.c.id,
        undelivered.c.cursor,
        undelivered.c.attempts,
        undelivered.c.problem,
        undelivered.c.at,
        undelivered.c.wanted,
    ).join(own, own.c.number == undelivered.c.subscription)


def listed(store: Store, account: str | None, after: int = 0, limit: int = 100) -> list[Undelivered]:
    """What the account's webhooks did not take (None: everybody's), oldest first."""
    which = undelivered.c.number > after
    if account is not None:
        which &= undelivered.c.account == account
    with store.read() as transaction:
        rows = transaction.execute(_undelivered().where(which).order_by(undelivered.c.number).limit(limit)).all()
    return [Undelivered(*row) for row in rows]


def want_again(store: Store, account: str, numbers: Sequence[int] | None = None) -> int:
    """Marks the account's undelivered items (None: all) to be sent again; returns how many."""
    which = undelivered.c.account == account
    if numbers is not None:
        which &= undelivered.c.number.in_(numbers)
    with store.write() as transaction:
        return int(transaction.execute(update(undelivered).where(which).values(wanted=True)).rowcount)


def wanting_again(store: Store) -> dict[str, list[int]]:
    """The subscriptions with something to be sent again, by account, the one that has waited longest first."""
    first = func.min(undelivered.c.number)
    asked = select(undelivered.c.account, undelivered.c.subscription).where(undelivered.c.wanted)
    found: dict[str, list[int]] = {}
    with store.read() as transaction:
        grouped = asked.group_by(undelivered.c.account, undelivered.c.subscription).order_by(first)
        for account, subscription in transaction.execute(grouped):
            found.setdefault(account, []).append(subscription)
    return found


def wanted_again(store: Store, subscription: int, limit: int = 100) -> list[tuple[int, int]]:
    """(number, cursor) of those of a subscription to be sent again, oldest first."""
    which = undelivered.c.wanted & (undelivered.c.subscription == subscription)
    asked = select(undelivered.c.number, undelivered.c.cursor).where(which)
    with store.read() as transaction:
        found = transaction.execute(asked.order_by(undelivered.c.number).limit(limit)).all()
    return [(row.number, row.cursor) for row in found]


def want_no_more(store: Store, subscription: int, problem: str) -> None:
    """The others of a subscription are not tried again: its place did not answer."""
    which = undelivered.c.wanted & (undelivered.c.subscription == subscription)
    why = f"not tried again, because the one before it was not taken: {problem}"[:500]
    with store.write() as transaction:
        transaction.execute(update(undelivered).where(which).values(wanted=False, problem=why))


def resent(store: Store, number: int, problem: str | None = None) -> None:
    """Notes what came of sending it again: it is gone, or stays with the new reason."""
    which = undelivered.c.number == number
    with store.write() as transaction:
        if problem is None:
            transaction.execute(delete(undelivered).where(which))
        else:
            values = {"wanted": False, "problem": problem, "attempts": undelivered.c.attempts + 1, "at": time.time()}
            transaction.execute(update(undelivered).where(which).values(**values))


def drop(store: Store, account: str, number: int) -> bool:
    """Forgets an undelivered item; False if the account has none of this number."""
    which = (undelivered.c.account == account) & (undelivered.c.number == number)
    with store.write() as transaction:
        return bool(transaction.execute(delete(undelivered).where(which)).rowcount)


def backlog(store: Store) -> tuple[int, int]:
    """How many webhooks are failing now, and how many items were given up."""
    with store.read() as transaction:
        failing = transaction.execute(select(func.count()).select_from(hooks).where(hooks.c.attempts > 0)).scalar_one()
        dead = transaction.execute(select(func.count()).select_from(undelivered)).scalar_one()
    return int(failing), int(dead)


def secret(store: Store, subscription: int) -> str | None:
    """The secret that signs a subscription's webhook."""
    with store.read() as transaction:
        asked = select(hooks.c.secret).where(hooks.c.subscription == subscription)
        return transaction.execute(asked).scalar()
