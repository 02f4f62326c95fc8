"""Limits and choices of channels, each with its unit in its name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tocsin.site.settings import DeliverySettings


SERVICES = tuple(
    (
        "slack discord tgram mmost mmosts matrix matrixs rocket rockets ntfy ntfys gotify gotifys json jsons xml xmls "
        "form forms workflow workflows gchat zulip wxteams pover pbul twist signal signals nctalk nctalks mastodon "
        "toot mastodons toots ryver flock guilded revolt opsgenie pagerduty twilio lark feishu dingtalk"
    ).split()
)


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """How messages are sent."""

    public_url: str | None = None
    """Where people reach the site, such as https://tocsin.example.org: for links in messages."""
    mail_url: str | None = field(default=None, repr=False)
    """The mail server as Apprise writes it: mailtos://user:password@smtp.example.org?from=alerts@example.org. It is the
    administrator's choice, so it may be in the site's own network."""
    mail_domains: tuple[str, ...] = ()
    """Domains that mail may go to; none: any."""
    mail_needs_confirmation: bool = True
    """Must whoever reads a mailbox confirm it before alerts go there? Only a closed site can do without."""
    mail_ask_wait_seconds: float = 3_600.0
    """Between two mails that ask one mailbox to confirm, whatever accounts name it."""
    mail_asks_max: int = 3
    """Mails that ask a mailbox that does not answer."""
    mail_asks_per_day_max: int = 20
    """Mailboxes that one account may have asked in a day."""
    mail_asks_forgotten_seconds: float = 30 * 86_400.0
    """After which it may be asked so often again."""
    channel_services: tuple[str, ...] = SERVICES
    """The beginnings of Apprise's addresses that may be used; never mailto and mailtos: see mail_url."""
    channel_timeout_seconds: float = 30.0
    """For sending one message."""
    channel_senders: int = 2
    """Processes that send."""
    channel_sender_bytes_max: int = 2_147_483_648
    """Memory of one of them."""
    channel_allows_private: bool = False
    """May a channel that an account names be in the site's own network?"""
    mail_items_max: int = 200
    """Documents that one mail lists; of the others it tells how many."""
    chat_items_max: int = 10
    """Documents that one chat message lists."""
    chat_characters_max: int = 3_500
    """Of a chat message."""
    atom_items_max: int = 100
    """Entries of a feed."""
    digest_near_share: float = 0.8
    """Documents whose texts are alike to this share stand together in a message."""
    excerpt_characters_max: int = 300
    """Of a document's text in a message."""

    @property
    def guard(self) -> DeliverySettings:
        """The same choice in the words of `site.addresses`."""
        from tocsin.site.settings import DeliverySettings  # which holds these settings, too

        return DeliverySettings(delivery_allows_private=self.channel_allows_private, delivery_allows_http=True)
