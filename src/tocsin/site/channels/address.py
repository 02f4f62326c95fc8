"""Where a subscription's channel leads: a mailbox, or a service in Apprise's words.

Such an address holds tokens and passwords. It is kept as a webhook's secret is, is never in a log, a message or an
answer: `shown` is all that anybody sees of it.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from tocsin.site.addresses import check_host
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.problems import Invalid

MAIL, APPRISE = "mail", "apprise"
ADDRESS_CHARACTERS_MAX = 2_000
_MAILBOX = re.compile(
    r"[A-Za-z0-9.!#$&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9-]{2,63}"
)
_SERVICE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# These name a host, which is looked at when they are saved, too; whatever is connected to is looked at then.
_WITH_HOST = frozenset(
    "json jsons xml xmls form forms gotify gotifys ntfys matrixs mmost mmosts rocket rockets signal signals nctalk "
    "nctalks".split()
)
# These write to any mailbox, without its reader's word.
_MAIL_SERVICES = frozenset(("mailto", "mailtos"))
NO_MAIL_SERVICE = 'a mailbox is a channel of kind "mail", so that its reader can confirm it'
# These make Apprise read a file of this machine.
_FILES = frozenset("template keyfile key_file pgpkey pgp pgp_key attach attachment file config include".split())


@dataclass(frozen=True, slots=True)
class Target:
    """A channel: `address` is secret, `shown` is not."""

    kind: str
    address: str = field(repr=False)

    @property
    def stored(self) -> str:
        """As it stands where webhooks have their address."""
        return f"{self.kind}:{self.address}"

    @property
    def shown(self) -> str:
        """What may be seen of it: the mailbox, or the service."""
        return self.address if self.kind == MAIL else f"{self.address.partition('://')[0]}://…"

    @property
    def is_mail_service(self) -> bool:
        """Does it lead to mailboxes whose readers were not asked? None may be saved; earlier ones may be stored."""
        return self.kind == APPRISE and self.address.partition("://")[0].lower() in _MAIL_SERVICES

    def as_json(self) -> dict[str, str]:
        """As it is written in a subscription, and answered."""
        return {"kind": self.kind, "to" if self.kind == MAIL else "url": self.shown}


def is_channel(stored: str) -> bool:
    """Is this the address of a mailbox or a service, not of a webhook?"""
    return stored.startswith((f"{MAIL}:", f"{APPRISE}:"))


def target_of(stored: str) -> Target:
    """The channel that was stored so."""
    kind, _, address = stored.partition(":")
    return Target(kind, address)


def channel_of(value: object, settings: ChannelSettings) -> Target:
    """The channel in a subscription: `{"kind": "mail", "to": …}` or `{"kind": "apprise", "url": …}`; Invalid."""
    if not isinstance(value, Mapping):
        raise Invalid('a channel is an object, such as {"kind": "mail", "to": "ann@example.org"}', field="channel")
    kind = value.get("kind")
    wanted = {MAIL: "to", APPRISE: "url"}.get(str(kind))
    if wanted is None:
        raise Invalid('a channel\'s kind is "inbox", "webhook", "mail" or "apprise"', field="channel")
    for key in value:
        if key not in ("kind", wanted):
            raise Invalid(f"a channel of kind {kind} has no key {str(key)[:60]!r}: kind, {wanted}", field="channel")
    return _mailbox(value.get("to"), settings) if kind == MAIL else _service(value.get("url"), settings)


def _mailbox(value: object, settings: ChannelSettings) -> Target:
    if settings.mail_url is None:
        raise Invalid("this site sends no mail: its administrator can set mail_url", field="channel")
    if not isinstance(value, str) or len(value) > 254 or not _MAILBOX.fullmatch(value):
        raise Invalid('"to" is a mail address such as ann@example.org', field="channel")
    domain = value.rpartition("@")[2].lower()
    if settings.mail_domains and domain not in {name.lower() for name in settings.mail_domains}:
        raise Invalid(f"mail goes only to {', '.join(settings.mail_domains)} (mail_domains)", field="channel")
    return Target(MAIL, value)


def _service(value: object, settings: ChannelSettings) -> Target:
    if not isinstance(value, str) or len(value) > ADDRESS_CHARACTERS_MAX or not value.isprintable():
        raise Invalid("the url is an address such as slack://…, as Apprise writes it", field="channel")
    found = _SERVICE.match(value)
    service = found[1].lower() if found else ""
    if service in _MAIL_SERVICES:
        raise Invalid(NO_MAIL_SERVICE, field="channel")
    if service not in settings.channel_services:
        raise Invalid(f"{service[:40] or 'this'} is no service that may be used (channel_services)", field="channel")
    try:
        parts = urlsplit(value)
        names = {name.lower().lstrip("+-:") for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
        host = parts.hostname or ""
    except ValueError:
        raise Invalid("the url is no address as Apprise writes it", field="channel") from None
    if names & _FILES:
        raise Invalid(f"the url may not name a file ({', '.join(sorted(names & _FILES))})", field="channel")
    if service in _WITH_HOST:
        try:
            check_host(host, settings.guard)
        except Invalid:
            raise Invalid("the url names a host that is not in the open network", field="channel") from None
    _instantiated(value)
    return Target(APPRISE, value)


def _instantiated(url: str) -> None:
    """Refuses what Apprise cannot read. Nothing is sent, and nothing is said of the address."""
    import apprise

    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its services import what Python deprecates
        found = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if found is None:
        raise Invalid("Apprise cannot read this url: see its page on the service", field="channel")
