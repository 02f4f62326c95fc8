"""Subscriptions and their revisions: what was asked for, and for which documents.

A revision is never changed, only ended: to edit a subscription ends one and begins another, to pause it ends
one, to resume begins one again. Each is in force for a range of the log's positions, so a document that was
accepted before a subscription was made, or while it paused, is never told, however late it is matched.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, insert, select, update

from tocsin.errors import SubscriptionError
from tocsin.intake import shown
from tocsin.store import schema
from tocsin.store.connect import Store, advance, head, last_cursor, packed
from tocsin.store.thumbs import Thumb, put_in

ACTIVE, PAUSED, MUTED, EXPIRED, DELETED = "active", "paused", "muted", "expired", "deleted"
DROP, HOLD = "drop", "hold"
"""What becomes of the documents that arrive while a subscription is muted: they are not told, or told afterwards."""
KEEP: Any = object()
"""Leaves a value as it is."""
LOOKED_UP = 500
MOVED = "cursors_moved"
"""Under this key the site says how far cursors went when notifications last got new ones."""
table, revisions = schema.subscriptions, schema.revisions


@dataclass(frozen=True, slots=True)
class Asked:
    """What a subscription asks for: words, paths of XML, or both; or rows of a view."""

    query: str | None = None
    xpath: str | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)
    view: str | None = None
    """JSON, as `site.views` reads it."""
    moved: str | None = None
    """The words of texts that feedback has moved (`query.vector.to_text`)."""


class Revision(NamedTuple):
    """A state of what a subscription asks for, in force for the positions in (since, until]."""

    number: int
    subscription: int
    asked: Asked
    since: int
    until: int | None


@dataclass(frozen=True, slots=True)
class Kept:
    """A subscription as the store holds it."""

    number: int
    account: str
    id: str
    state: str
    revision: int
    asked: Asked
    about: Mapping[str, Any]
    created: float
    changed: float
    muted_until: float | None
    expires: float | None
    mute: str | None = None
    held_after: int | None = None
    digest_due: float | None = None

    @property
    def in_force(self) -> bool:
        """Are documents that are accepted now matched with it?"""
        return in_force(self.state, self.mute)


def in_force(state: str, mute: str | None) -> bool:
    """In this state, are new documents matched? One that drops while it is muted is as if it paused."""
    return state == ACTIVE or (state == MUTED and mute == HOLD)


@dataclass(frozen=True, slots=True)
class Wish:
    """A subscription to be made."""

    id: str
    asked: Asked
    about: Mapping[str, Any] = field(default_factory=dict)
    expires: float | None = None
    digest_due: float | None = None
    webhook: Webhook | None = None
    thumbs: Sequence[Thumb] = ()


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where a subscription is told, and the secret that signs it."""

    url: str
    secret: str = field(repr=False)


# --- changing --------------------------------------------------------------------------------------------------------


class NoRoom(SubscriptionError):
    """The account has as many subscriptions as it may."""


def add(store: Store, account: str, wishes: Sequence[Wish], most: int | None = None) -> dict[int, SubscriptionError]:
    """Makes the subscriptions, in one transaction; returns those that were refused, by place."""
    with store.write() as transaction:
        return add_in(transaction, account, wishes, most)


def add_in(
    transaction: Connection, account: str, wishes: Sequence[Wish], most: int | None = None
) -> dict[int, SubscriptionError]:
    """The same, as a part of a transaction.

    An id that the account uses already is refused, and what is more than it may have (`most`).
    """
    since, told = head(transaction), last_cursor(transaction)
    now = time.time()
    taken = _taken(transaction, account, {wish.id for wish in wishes})
    refused: dict[int, SubscriptionError] = {}
    fresh: list[Wish] = []
    room = len(wishes) if most is None else most - _count(transaction, account)
    for place, wish in enumerate(wishes):
        if wish.id in taken:
            refused[place] = SubscriptionError(f"the id {shown(wish.id)} is in use: choose another, or change that one")
            continue
        if len(fresh) >= room:
            refused[place] = NoRoom(f"the account has {most:,} subscriptions, which is all that it may have")
            continue
        taken.add(wish.id)
        fresh.append(wish)
    if not fresh:
        return refused
    # Whoever holds the log's head is alone, so numbers can be given here: many rows go in one statement.
    last = int(transaction.execute(select(func.max(table.c.number))).scalar() or 0)
    numbers = range(last + 1, last + 1 + len(fresh))
    rows = [
        {
            "number": number,
            "account": account,
            "id": wish.id,
            "gone": 0,
            "state": ACTIVE,
            "about": packed(dict(wish.about)),
            "revision": 1,
            "created": now,
            "changed": now,
            "expires": wish.expires,
            "digest_due": wish.digest_due,
            "held_after": None if wish.digest_due is None else told,
        }
        for number, wish in zip(numbers, fresh, strict=True)
    ]
    transaction.execute(insert(table), rows)
    begun = [_revision(number, 1, wish.asked, since) for number, wish in zip(numbers, fresh, strict=True)]
    transaction.execute(insert(revisions), begun)
    hooks = [_webhook(number, wish.webhook, told) for number, wish in zip(numbers, fresh, strict=True) if wish.webhook]
    if hooks:
        transaction.execute(insert(schema.webhooks), hooks)
    for number, wish in zip(numbers, fresh, strict=True):
        put_in(transaction, number, wish.thumbs)
    return refused


def _webhook(subscription: int, webhook: Webhook, cursor: int) -> dict[str, object]:
    told = {"subscription": subscription, "url": webhook.url, "secret": webhook.secret}
    return told | {"cursor": cursor, "attempts": 0}


def point_in(transaction: Connection, number: int, webhook: Webhook | None) -> None:
    """Tells the subscription somewhere else from now on, or nowhere; what waits for the old place goes to the new."""
    hooks = schema.webhooks
    if webhook is None:
        transaction.execute(delete(hooks).where(hooks.c.subscription == number))
        return
    values = {"url": webhook.url, "secret": webhook.secret, "attempts": 0, "next_try": None, "problem": None}
    if not transaction.execute(update(hooks).where(hooks.c.subscription == number).values(**values)).rowcount:
        transaction.execute(insert(hooks).values(**_webhook(number, webhook, last_cursor(transaction))))


def _taken(transaction: Connection, account: str, ids: set[str]) -> set[str]:
    ordered = sorted(ids)
    found: set[str] = set()
    for first in range(0, len(ordered), LOOKED_UP):
        among = table.c.id.in_(ordered[first : first + LOOKED_UP])
        asked = select(table.c.id).where((table.c.account == account) & (table.c.gone == 0) & among)
        found.update(transaction.execute(asked).scalars())
    return found


def _revision(subscription: int, revision: int, asked: Asked, since: int) -> dict[str, object]:
    namespaces = packed(dict(asked.namespaces)) if asked.namespaces else None
    return {
        "subscription": subscription,
        "revision": revision,
        "query": asked.query,
        "xpath": asked.xpath,
        "namespaces": namespaces,
        "view": asked.view,
        "moved": asked.moved,
        "since": since,
    }


def change(store: Store, kept: Kept, **values: Any) -> Kept:
    """Gives the subscription a new query, state or description (see change_in); returns it as it is then."""
    with store.write() as transaction:
        return change_in(transaction, kept, **values)


def change_in(
    transaction: Connection,
    kept: Kept,
    *,
    asked: Asked | None = None,
    state: str | None = None,
    about: Mapping[str, Any] | None = None,
    mute: str | None = KEEP,
    muted_until: float | None = KEEP,
    expires: float | None = KEEP,
    digest_due: float | None = KEEP,
) -> Kept:
    """The same, as a part of a transaction. SubscriptionError if somebody else has changed it meanwhile."""
    now = head(transaction)
    new_state = state or kept.state
    new_mute = (kept.mute if mute is KEEP else mute) if new_state == MUTED else None
    new_asked = asked or kept.asked
    revision = kept.revision + 1
    due = kept.digest_due if digest_due is KEEP else digest_due
    is_held = due is not None or (new_state == MUTED and new_mute == HOLD) or new_state == DELETED
    values: dict[str, Any] = {
        "state": new_state,
        "revision": revision,
        "changed": time.time(),
        "mute": new_mute,
        "muted_until": (kept.muted_until if muted_until is KEEP else muted_until) if new_state == MUTED else None,
        "expires": kept.expires if expires is KEEP else expires,
        "digest_due": due,
        "gone": kept.number if new_state == DELETED else 0,
    }
    if is_held and kept.held_after is None and new_state != DELETED:
        values["held_after"] = last_cursor(transaction)
    if about is not None:
        values["about"] = packed(dict(about))
    same = (table.c.number == kept.number) & (table.c.revision == kept.revision)
    if not transaction.execute(update(table).where(same).values(**values)).rowcount:
        raise SubscriptionError(f"the subscription {shown(kept.id)} was changed meanwhile: read it again")
    if not is_held and kept.held_after is not None:
        _release(transaction, kept.number, kept.held_after)
    was, is_now = kept.in_force, in_force(new_state, new_mute)
    if was and (asked is not None or not is_now):
        ended = (revisions.c.subscription == kept.number) & revisions.c.until.is_(None)
        transaction.execute(update(revisions).where(ended).values(until=now))
    if is_now and (asked is not None or not was):
        transaction.execute(insert(revisions), [_revision(kept.number, revision, new_asked, now)])
    elif asked is not None:  # paused: kept for when it resumes, in force for nothing
        idle = _revision(kept.number, revision, new_asked, now) | {"until": now}
        transaction.execute(insert(revisions), [idle])
    found = transaction.execute(_select().where(table.c.number == kept.number)).one()
    return _kept(found)


def _release(transaction: Connection, number: int, held_after: int) -> None:
    """Shows what was held: it gets the next cursors, in its order, so that whoever has read on finds it too."""
    rows = schema.notifications
    held = (rows.c.subscription == number) & (rows.c.cursor > held_after) & rows.c.digest.is_(None)
    cursors = transaction.execute(select(rows.c.cursor).where(held).order_by(rows.c.cursor)).scalars().all()
    if cursors:
        _, before = advance(transaction, cursors=len(cursors))
        moved = update(rows).where(rows.c.cursor == bindparam("old")).values(cursor=bindparam("new"))
        pairs = [{"old": old, "new": new} for new, old in enumerate(cursors, before + 1)]
        transaction.execute(moved, pairs)
        _note_move(transaction, before + len(cursors))
    transaction.execute(update(table).where(table.c.number == number).values(held_after=None))


def _note_move(transaction: Connection, upto: int) -> None:
    """Whoever has counted between cursors counts again."""
    site, values = schema.site, {"value": str(upto)}
    if not transaction.execute(update(site).where(site.c.key == MOVED).values(values)).rowcount:
        transaction.execute(insert(site).values(key=MOVED, **values))


def due(store: Store, now: float, limit: int = 1_000) -> list[Kept]:
    """The subscriptions whose mute or whole life has ended by now."""
    over = (table.c.gone == 0) & (
        ((table.c.state == MUTED) & (table.c.muted_until <= now))
        | (table.c.state.in_((ACTIVE, PAUSED, MUTED)) & (table.c.expires <= now))
    )
    with store.read() as transaction:
        return [_kept(row) for row in transaction.execute(_select().where(over).order_by(table.c.number).limit(limit))]


def next_due(store: Store) -> float | None:
    """When the next mute or subscription ends."""
    living = table.c.gone == 0
    unmuted = select(func.min(table.c.muted_until)).where(living & (table.c.state == MUTED))
    expired = select(func.min(table.c.expires)).where(living & table.c.state.in_((ACTIVE, PAUSED, MUTED)))
    with store.read() as transaction:
        found = [transaction.execute(asked).scalar() for asked in (unmuted, expired)]
    return min((float(moment) for moment in found if moment is not None), default=None)


# --- reading ---------------------------------------------------------------------------------------------------------


def _select() -> Select[Any]:
    """Subscriptions with what they ask for now: their last revision."""
    last = (
        select(func.max(revisions.c.number))
        .where(revisions.c.subscription == table.c.number)
        .correlate(table)
        .scalar_subquery()
    )
    asked = (revisions.c.query, revisions.c.xpath, revisions.c.namespaces, revisions.c.view, revisions.c.moved)
    return select(table, *asked).join(revisions, revisions.c.number == last)


def _kept(row: Row[Any]) -> Kept:
    return Kept(
        number=row.number,
        account=row.account,
        id=row.id,
        state=row.state,
        revision=row.revision,
        asked=_asked(row.query, row.xpath, row.namespaces, row.view, row.moved),
        about=json.loads(row.about),
        created=row.created,
        changed=row.changed,
        muted_until=row.muted_until,
        expires=row.expires,
        mute=row.mute,
        held_after=row.held_after,
        digest_due=row.digest_due,
    )


def _asked(query: str | None, xpath: str | None, namespaces: str | None, view: str | None, moved: str | None) -> Asked:
    return Asked(query, xpath, json.loads(namespaces) if namespaces else {}, view, moved)


def find(store: Store, account: str, id: str) -> Kept | None:
    """An account's subscription by its id."""
    which = (table.c.account == account) & (table.c.id == id) & (table.c.gone == 0)
    with store.read() as transaction:
        row = transaction.execute(_select().where(which)).first()
    return None if row is None else _kept(row)


def find_all(store: Store, account: str, ids: Sequence[str]) -> dict[str, Kept]:
    """An account's subscriptions of these ids."""
    found: dict[str, Kept] = {}
    with store.read() as transaction:
        for first in range(0, len(ids), LOOKED_UP):
            among = table.c.id.in_(ids[first : first + LOOKED_UP])
            which = (table.c.account == account) & (table.c.gone == 0) & among
            found.update((row.id, _kept(row)) for row in transaction.execute(_select().where(which)))
    return found


def listed(store: Store, account: str | None, after: str = "", limit: int = 100) -> list[Kept]:
    """An account's subscriptions (None: everybody's) by id, those after the one that is named."""
    which = (table.c.gone == 0) & (table.c.id > after)
    if account is not None:
        which &= table.c.account == account
    with store.read() as transaction:
        rows = transaction.execute(_select().where(which).order_by(table.c.id, table.c.account).limit(limit)).all()
    return [_kept(row) for row in rows]


def newest(store: Store, account: str, limit: int) -> list[Kept]:
    """The account's last subscriptions, the newest first."""
    which = (table.c.account == account) & (table.c.gone == 0)
    with store.read() as transaction:
        rows = transaction.execute(_select().where(which).order_by(table.c.number.desc()).limit(limit)).all()
    return [_kept(row) for row in rows]


def abouts(store: Store, key: str) -> dict[int, Any]:
    """What stands under a key beside the queries, by the numbers of the subscriptions that have it."""
    which = (table.c.gone == 0) & table.c.about.contains(f'"{key}"', autoescape=True)
    with store.read() as transaction:
        rows = transaction.execute(select(table.c.number, table.c.about).where(which)).all()
    found = {number: json.loads(about) for number, about in rows}
    return {number: about[key] for number, about in found.items() if key in about}


def count(store: Store, account: str | None = None) -> int:
    """How many subscriptions the account has (None: all accounts)."""
    with store.read() as transaction:
        return _count(transaction, account)


def _count(transaction: Connection, account: str | None) -> int:
    which = table.c.gone == 0 if account is None else (table.c.gone == 0) & (table.c.account == account)
    return int(transaction.execute(select(func.count()).select_from(table).where(which)).scalar_one())


# --- for the index ---------------------------------------------------------------------------------------------------


def begun_after(
    store: Store, number: int, position: int, chunk: int = 10_000, containing: str | None = None
) -> list[Revision]:
    """The next revisions with a higher number that are, or will be, in force after the position; by number.

    With `containing`: those whose query contains this text.
    """
    alive = revisions.c.until.is_(None) | ((revisions.c.until > position) & (revisions.c.until > revisions.c.since))
    which = (revisions.c.number > number) & alive & revisions.c.view.is_(None)
    if containing is not None:
        which &= revisions.c.query.contains(containing, autoescape=True)
    asked = select(revisions).where(which).order_by(revisions.c.number).limit(chunk)
    with store.read() as transaction:
        return [_as_revision(row) for row in transaction.execute(asked)]


def within(store: Store, after: int, upto: int) -> list[Revision]:
    """The revisions that are in force for some position in (after, upto], by number."""
    lasting = revisions.c.until.is_(None) | ((revisions.c.until > after) & (revisions.c.until > revisions.c.since))
    of_documents = lasting & revisions.c.view.is_(None)
    asked = select(revisions).where((revisions.c.since < upto) & of_documents).order_by(revisions.c.number)
    with store.read() as transaction:
        return [_as_revision(row) for row in transaction.execute(asked)]


def ended_within(store: Store, after: int, upto: int) -> list[int]:
    """The numbers of the revisions whose end is in (after, upto]."""
    ended = (revisions.c.until > after) & (revisions.c.until <= upto)
    with store.read() as transaction:
        return list(transaction.execute(select(revisions.c.number).where(ended)).scalars())


class Span(NamedTuple):
    """Whose a revision is, and the positions (since, until] for which it is in force."""

    subscription: int
    account: str
    since: int
    until: int | None

    def holds(self, position: int) -> bool:
        """Is the revision in force for the document at this position?"""
        return self.since < position and (self.until is None or position <= self.until)


def spans(transaction: Connection, numbers: Iterable[int]) -> dict[int, Span]:
    """The spans of these revisions."""
    ordered = sorted(set(numbers))
    found: dict[int, Span] = {}
    columns = (revisions.c.number, revisions.c.subscription, table.c.account, revisions.c.since, revisions.c.until)
    joined = select(*columns).join(table, table.c.number == revisions.c.subscription)
    for first in range(0, len(ordered), LOOKED_UP):
        chunk = ordered[first : first + LOOKED_UP]
        for number, *span in transaction.execute(joined.where(revisions.c.number.in_(chunk))):
            found[number] = Span(*span)
    return found


def set_error(store: Store, errors: Mapping[int, str]) -> None:
    """Notes why revisions could not be registered or evaluated."""
    with store.write() as transaction:
        for number, reason in errors.items():
            transaction.execute(update(revisions).where(revisions.c.number == number).values(error=reason))


def _as_revision(row: Row[Any]) -> Revision:
    asked = _asked(row.query, row.xpath, row.namespaces, None, row.moved)
    return Revision(row.number, row.subscription, asked, row.since, row.until)
