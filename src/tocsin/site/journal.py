"""Who did what, and which subscriptions are slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.store import journal
from tocsin.store.journal import Cost, Entry

if TYPE_CHECKING:
    from tocsin.site.site import Site


def entries(site: Site, account: str | None = None, before: int | None = None, limit: int = 100) -> list[Entry]:
    """The last things that were done (by an account), the newest first."""
    return journal.read(site.store, account, before, limit)


def slow(site: Site, account: str | None = None, limit: int = 20) -> list[Cost]:
    """The subscriptions that were tried on most documents, the dearest first."""
    return journal.dearest(site.store, account, limit)
