"""What a webhook did not take in all its attempts: to be looked at, sent again, or forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tocsin.site.accounts import Account
from tocsin.site.moments import stamp
from tocsin.site.problems import NotFound
from tocsin.site.reading import cursor_of
from tocsin.store import webhooks
from tocsin.store.webhooks import Undelivered

if TYPE_CHECKING:
    from tocsin.site.site import Site


def listed(site: Site, account: Account, after: int = 0, limit: int = 100) -> list[Undelivered]:
    """The account's own, oldest first."""
    return webhooks.listed(site.store, account.name, after, min(limit, site.settings.page_items_max))


def send_again(site: Site, account: Account, numbers: Sequence[int] | None = None) -> int:
    """Asks for these (None: all of the account's own) to be sent again, with the ids they had; returns how many."""
    return webhooks.want_again(site.store, account.name, numbers)


def drop(site: Site, account: Account, number: int) -> None:
    """Forgets one."""
    if not webhooks.drop(site.store, account.name, number):
        raise NotFound(f"there is no undelivered item {number}")


def as_json(one: Undelivered) -> dict[str, Any]:
    """As the API answers it."""
    return {
        "number": one.number,
        "subscription": one.subscription,
        "cursor": cursor_of(one.cursor),
        "attempts": one.attempts,
        "problem": one.problem,
        "at": stamp(one.at),
        "sent_again": one.wanted,
    }
