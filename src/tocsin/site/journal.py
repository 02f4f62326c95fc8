"""Who did what, and which subscriptions are slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tocsin.store import journal
from tocsin.store.journal import Cost, Entry

if TYPE_CHECKING:
    from tocsin.site.site import Site


def entries(site: Site, account: str | None = None, before: int | None = None, limit: int = 100) -> list[Entry]:
    """The last things that were done (by an account), the newest first."""
    return journal.read(site.store, account, before, limit)


def note_costs(site: Site, costs: Mapping[int, tuple[int, int]]) -> None:
    """Adds what a batch cost: for each revision on how many documents it was tried by itself, and how many matched."""
    journal.add_costs(site.store, costs)


def slow(site: Site, account: str | None = None, limit: int = 20) -> list[Cost]:
    """The subscriptions that were tried on most documents, the dearest first."""
    return journal.dearest(site.store, account, limit)
