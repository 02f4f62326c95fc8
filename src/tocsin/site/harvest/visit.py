"""What every visit to a source needs: means to ask, and a way to hand over what it finds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tocsin.site.harvest.apart import Apart
from tocsin.site.harvest.fetch import Fetcher
from tocsin.site.harvest.settings import HarvestSettings
from tocsin.store import Store, harvested
from tocsin.store.harvested import Arrived, Item
from tocsin.store.sources import Source


class Ended(NamedTuple):
    """How a visit went that went well."""

    note: str | None = None
    """What was odd."""
    has_more: bool = False
    """Is it to be gone on with at once?"""
    is_noted: bool = False
    """Was it stored with the last items that it went well?"""


class SourceGone(Exception):
    """The source was removed, or has moved, during the visit."""


@dataclass
class Visit:
    """One visit."""

    store: Store
    source: Source
    settings: HarvestSettings
    fetcher: Fetcher
    parser: Apart
    success: Callable[[Ended], dict[str, Any]]
    """What is noted of a source after a visit that went well."""
    found: Arrived = field(default_factory=Arrived)
    begun: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        """Has it taken as long as one visit may?"""
        return time.monotonic() - self.begun > self.settings.harvest_visit_seconds_max

    async def deliver(self, items: Sequence[Item], progress: Mapping[str, Any] | None = None) -> None:
        """Stores items, a chunk after the other; the source moves on with the last."""
        size = self.settings.harvest_chunk_items
        for first in range(0, max(len(items), 1), size):
            is_last = first + size >= len(items)
            arrived = await asyncio.to_thread(
                harvested.arrive,
                self.store,
                self.source,
                items[first : first + size],
                self.settings.near,
                progress if is_last else None,
            )
            self.count(arrived)

    def count(self, arrived: Arrived | None) -> None:
        """Adds what a transaction brought."""
        if arrived is None:
            raise SourceGone
        self.found.add(arrived)
