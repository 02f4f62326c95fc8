"""Where a webhook may be: in the open network, not in the site's own.

A stranger who can make the site call an address could reach what only the site can reach. So a name is resolved
by us, every address that it has is looked at, and the connection is made to the very address that was looked at:
a name that means something else a moment later (rebinding) gains nothing. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from tocsin.site.problems import Invalid
from tocsin.site.settings import DeliverySettings

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses that a name has."""

_NO_HOST = re.compile(r"[^A-Za-z0-9._:\[\]-]")
_NUMBERISH = re.compile(r"(0[xX][0-9a-fA-F]*|\d+)(\.(0[xX][0-9a-fA-F]*|\d+))*\.?")
_LOCAL_NAMES = (".localhost", ".local", ".internal", ".intranet", ".lan", ".home.arpa", ".localdomain", ".onion")

# What the standard library does not call private, and yet leads inside or nowhere.
_CLOSED = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8 100.64.0.0/10 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 "
            "192.88.99.0/24 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
        ).split(),
    )
)
_CLOSED_6 = tuple(
    map(
        IPv6Network,
        (
            "::/96 ::ffff:0:0:0/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 3fff::/20 5f00::/16 fc00::/7 "
            "fe80::/10 fec0::/10 ff00::/8"
        ).split(),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_OPEN_6 = IPv6Network("2000::/3")


def is_open(address: Address) -> bool:
    """Is it an address of the open network, and does it lead nowhere else?"""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        inner = _inner(address)
        if inner is not None:
            return is_open(inner)
        return address in _OPEN_6 and address.is_global and not any(address in net for net in _CLOSED_6)
    return address.is_global and not any(address in net for net in _CLOSED)


def _inner(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for: mapped, 6to4 or NAT64."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def check_url(url: object, settings: DeliverySettings) -> str:
    """The address of a webhook as it may be kept, or Invalid. Names are looked up when it is called."""
    if not isinstance(url, str) or not url:
        raise _refused("must be a string such as https://example.org/hook")
    if len(url) > 2_000:
        raise _refused("has more than 2,000 characters")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise _refused("holds spaces or characters other than ASCII: escape them as %20")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused("is no address such as https://example.org/hook") from None
    if parts.scheme.lower() not in ("http", "https"):
        raise _refused("must start with https://")
    if parts.scheme.lower() == "http" and not (settings.delivery_allows_http or settings.delivery_allows_private):
        raise _refused("must start with https:// (delivery_allows_http)")
    if parts.username is not None or parts.password is not None:
        raise _refused("holds a user name or password: the call is signed instead")
    if port == 0:
        raise _refused("has port 0")
    if parts.fragment:
        raise _refused('holds a "#": leave it out')
    check_host(_host(parts), settings)
    return url


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if not host or _NO_HOST.search(host) or host.startswith(".") or ".." in host:
        raise _refused("has no host that can be called")
    return host


def check_host(host: str, settings: DeliverySettings) -> None:
    """Refuses hosts that are closed whatever they resolve to."""
    if settings.delivery_allows_private:
        return
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        name = host.rstrip(".").lower()
        if _NUMBERISH.fullmatch(host):
            raise _refused(f"names the host {host}: write an IP address as four plain numbers") from None
        if name == "localhost" or "." not in name or f".{name}".endswith(_LOCAL_NAMES):
            raise _refused(f"names the host {host}, which is not in the open network") from None
        return
    if not is_open(address):
        raise _refused(f"names the address {host}, which is not in the open network")


def _refused(reason: str) -> Invalid:
    return Invalid(f"the webhook's address {reason}", code="webhook_refused", field="channel")


async def resolve(host: str, port: int) -> list[str]:
    """Asks the system."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Closed(ConnectionError):
    """The name leads to an address that may not be called."""


async def open_addresses(host: str, port: int, settings: DeliverySettings, ask: Resolve = resolve) -> list[str]:
    """The addresses of the host, after all of them were looked at; Closed if one of them may not be called."""
    try:
        check_host(host, settings)
    except Invalid as problem:
        raise Closed(problem.message) from None
    found = await ask(host.strip("[]"), port)
    if not found:
        raise Closed(f"the host {host} has no address")
    for text in found:
        if not settings.delivery_allows_private and not is_open(ip_address(text)):
            raise Closed(f"the host {host} is at {text}, which is not in the open network")
    return found
