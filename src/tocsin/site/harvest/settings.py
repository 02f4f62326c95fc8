"""Limits and choices of harvesting, each with its unit in its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tocsin.store.harvested import Near

if TYPE_CHECKING:
    from tocsin.site.settings import DeliverySettings


@dataclass(frozen=True, slots=True)
class HarvestSettings:
    """How sources are visited, and how much of each is taken."""

    harvest_interval_seconds: float = 1_800.0
    """Between two visits to a source that says nothing else."""
    harvest_interval_min_seconds: float = 60.0
    """The shortest that a source may be given."""
    harvest_sources_max: int = 10_000
    """Sources of a site."""
    harvest_connections_max: int = 16
    """Sources that are visited at once."""
    harvest_host_delay_seconds: float = 1.0
    """Between two requests to one host, of which there is never more than one at a time."""
    harvest_timeout_seconds: float = 30.0
    """For one request, from the name to the last byte."""
    harvest_visit_seconds_max: float = 300.0
    """For one visit; what OAI-PMH has not told by then is asked for in the next."""
    harvest_bytes_max: int = 16_777_216
    """Of one answer, unpacked."""
    harvest_items_max: int = 5_000
    """Items of one feed that are read; further ones are left out, and the source says so."""
    harvest_item_characters_max: int = 200_000
    """Of one field of an item; the rest is cut off."""
    harvest_pages_max: int = 100
    """Pages of OAI-PMH in one visit."""
    harvest_list_pages_max: int = 1_000_000
    """Pages of OAI-PMH from the start of a list to its end: one that is longer never ends."""
    harvest_redirects_max: int = 5
    """Redirects that are followed, each checked as the first address was."""
    harvest_first_wait_seconds: float = 60.0
    """After the first failure; each further wait is twice as long."""
    harvest_longest_wait_seconds: float = 86_400.0
    """Between two visits, whatever failed and whatever the source asks for."""
    harvest_jitter_share: float = 0.2
    """Of a wait that is left to chance, so that many do not come back at once."""
    harvest_parsers: int = 2
    """Processes that read feeds."""
    harvest_parse_seconds_max: float = 20.0
    """For reading one feed; then its process is ended."""
    harvest_parse_bytes_max: int = 2_147_483_648
    """Memory of a process that reads feeds."""
    harvest_future_seconds_max: float = 86_400.0
    """How far ahead of ours an item's clock may be; its time is left out beyond."""
    harvest_chunk_items: int = 1_000
    """Items that are stored in one transaction."""
    harvest_settle_seconds: float = 2.0
    """A file of a watched folder is read when it has not changed for so long."""
    harvest_allows_private: bool = False
    """May a source be in the site's own network?"""
    harvest_allows_folders: bool = True
    """May an administrator have folders of the site's machine watched?"""
    near_share: float = 0.9
    """Two texts are the same if this share of their sketches agrees."""
    near_window_seconds: float = 7 * 86_400.0
    """How long an item's text is remembered to find others like it; 0: texts are not compared."""
    near_words_min: int = 12
    """Texts with fewer words are not compared."""

    @property
    def near(self) -> Near:
        """When two texts are the same."""
        return Near(self.near_share, self.near_window_seconds)

    @property
    def guard(self) -> DeliverySettings:
        """The same choice in the words of `site.addresses`. Feeds may be without TLS: they hold nothing of ours."""
        from tocsin.site.settings import DeliverySettings  # which holds these settings, too

        return DeliverySettings(delivery_allows_private=self.harvest_allows_private, delivery_allows_http=True)
