"""What an account reads: its notifications by cursor, one page after the other, or as they come.

A cursor is opaque: it names a place in the account's order of items, which only grows at its end.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tocsin.site.accounts import Account
from tocsin.site.problems import Invalid
from tocsin.store import inbox
from tocsin.store.inbox import Item
from tocsin.store.outbox import Notification
from tocsin.store.relations import NO_STATISTICS

if TYPE_CHECKING:
    from tocsin.site.site import Site

LIMIT = 100
_VERSION = 1


class Page(NamedTuple):
    """Items, and the cursor to go on from."""

    items: list[Item]
    next: str

    def as_json(self) -> dict[str, Any]:
        """As the API answers it."""
        return {"items": [as_json(item) for item in self.items], "next": self.next}


def notifications(site: Site, account: Account, after: str | None = None, limit: int = LIMIT) -> Page:
    """The account's next items after the cursor (None: from the start); Invalid if it is no cursor."""
    if not 1 <= limit <= site.settings.page_items_max:
        raise Invalid(f'"limit" must be between 1 and {site.settings.page_items_max:,}', field="limit")
    place = 0 if after is None or after == "" else place_of(after)
    found = inbox.items(site.store, account=account.name, after=place, limit=limit)
    return Page(found, cursor_of(found[-1].cursor if found else place))


def follow(site: Site, account: Account, after: str | None, timeout: float) -> Iterator[Item]:
    """Items as they come, until none has come for so many seconds."""
    place = 0 if after is None else place_of(after)
    while True:
        seen = site.bell.count
        found = inbox.items(site.store, account=account.name, after=place, limit=LIMIT)
        yield from found
        if found:
            place = found[-1].cursor
        elif not site.bell.wait(seen, timeout):
            return


def newest(site: Site) -> str:
    """The cursor after all that there is now."""
    return cursor_of(inbox.last(site.store))


def cursor_of(place: int) -> str:
    """A place as a cursor that fits into an address."""
    raw = bytes([_VERSION]) + place.to_bytes(8, "big")
    return base64.urlsafe_b64encode(raw).decode()


def place_of(cursor: str) -> int:
    """The place that a cursor names."""
    try:
        raw = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        raw = b""
    if len(raw) != 9 or raw[0] != _VERSION or raw[1] > 127:
        raise Invalid("this is no cursor: use one that was answered", code="bad_cursor", field="after")
    return int.from_bytes(raw[1:], "big")


def as_json(item: Item) -> dict[str, Any]:
    """An item as the API answers it: a notification, or a digest with the notifications in it."""
    if item.digest is None:
        return {"cursor": cursor_of(item.cursor), **_told(item.notifications[0])}
    return {
        "cursor": cursor_of(item.cursor),
        "subscription": item.subscription,
        "digest": [_told(notification) for notification in item.notifications],
    }


def _told(notification: Notification) -> dict[str, Any]:
    if notification.statistics == NO_STATISTICS:  # a row of a view
        return {"subscription": notification.subscription, **notification.evidence}
    return {
        "subscription": notification.subscription,
        "document": notification.document,
        "version": notification.version,
        "score": notification.score,
        "evidence": notification.evidence,
    }
