"""Limits and choices of a site, each with its unit in its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tocsin.settings import DEFAULTS, Settings
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.harvest.settings import HarvestSettings
from tocsin.views.limits import ViewLimits


@dataclass(frozen=True, slots=True)
class Quotas:
    """What one account may use. An administrator is not bound by them."""

    subscriptions_max: int = 100_000
    """Subscriptions that are not deleted."""
    documents_per_second: float = 1_000.0
    """Documents that may be published, on average; a burst of ten seconds' worth is let through."""
    calls_per_second: float = 200.0
    """Calls of the API, on average; a burst of ten seconds' worth is let through."""
    query_cost_max: int = 100_000
    """Checks per document that one subscription may need in the worst case."""


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """How webhooks are called."""

    delivery_attempts_max: int = 12
    """Attempts at one item before it is put among the undelivered."""
    delivery_first_wait_seconds: float = 1.0
    """Between the first attempt and the second; each further wait is twice as long."""
    delivery_longest_wait_seconds: float = 3_600.0
    """Between two attempts."""
    delivery_jitter_share: float = 0.5
    """Of a wait that is left to chance, so that many do not come back at once."""
    delivery_timeout_seconds: float = 10.0
    """For one attempt, from the name to the answer."""
    delivery_connections_max: int = 128
    """Calls that are under way at once."""
    delivery_answer_bytes_max: int = 65_536
    """Of an answer that are read."""
    delivery_allows_private: bool = False
    """May a webhook be in the site's own network? Also allows plain http to it."""
    delivery_allows_http: bool = False
    """May a webhook be called without TLS?"""


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """How much the relations and views of a site may take."""

    limits: ViewLimits = ViewLimits()
    events_max: int = 5_000_000
    """Events of all relations together: they are kept, and held in memory."""
    statements_per_account_max: int = 200
    """Relations and views that one account may create; an administrator is not bound by it."""
    condition_characters_max: int = 2_000
    """Of what a subscription to a view waits for."""


@dataclass(frozen=True, slots=True)
class RingSettings:
    """How a site that is a node of a ring serves approximate subscriptions; alike on all sites of a ring."""

    interval_seconds: float = 60.0
    """How often a site tells what it published: its words and how many documents have them, no texts."""
    reposition_seconds: float = 60.0
    """Time between two choices of the publishers that a subscription listens to; recall is measured then, too. 0: they
    are chosen once, and recall is not measured."""
    audit_publishers: int = 12
    """Publishers that are asked each time what was missed; 0: recall is not measured."""


@dataclass(frozen=True, slots=True)
class SiteSettings:
    """All settings of a site."""

    base: Settings = DEFAULTS
    """Limits of queries, documents and XML."""
    quotas: Quotas = Quotas()
    """Of accounts that were given none of their own."""
    delivery: DeliverySettings = DeliverySettings()
    channels: ChannelSettings = ChannelSettings()
    harvest: HarvestSettings = HarvestSettings()
    views: ViewSettings = ViewSettings()
    ring: RingSettings = RingSettings()
    analysis: Mapping[str, str] = field(default_factory=dict)
    """How fields become words: standard, english or keyword."""
    bulk_chunk_subscriptions: int = 10_000
    """Subscriptions of a bulk call that are stored in one transaction."""
    publish_chunk_documents: int = 1_000
    """Documents of a call that are stored in one transaction."""
    history_documents_max: int = 1_000
    """Of the newest documents that a new subscription is tried on to foretell its hits."""
    compared_subscriptions_max: int = 1_000
    """Of the account's own that a new subscription is compared with."""
    page_items_max: int = 1_000
    """Items of one page of notifications, subscriptions or anything else."""
    watch_interval_seconds: float = 0.05
    """Between two looks whether the outbox has grown."""
    reply_kept_seconds: float = 86_400.0
    """How long the answer to a call with an idempotency key is remembered."""
    journal_kept_seconds: float = 365 * 86_400.0
    """How long it is remembered who did what."""
    id_characters_max: int = 200
    """Of a subscription's id or an account's name."""
    name_characters_max: int = 1_000
    """Of a subscription's name, or one tag."""
    tags_max: int = 100
    """Tags of one subscription."""
    thumbs_max: int = 500
    """Thumbs of one subscription that takes feedback: all of them are read again when one is added."""
