"""One request to a source: into the open network only, and no more of the answer than is allowed.

The connection goes to the very address that was looked at (`delivery.caller.Guarded`); a redirect is checked as the
first address was. Compressed answers are unpacked up to the same limit.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urljoin, urlsplit

import httpcore

from tocsin.errors import TocsinError
from tocsin.site.addresses import Closed, Resolve, check_url, resolve
from tocsin.site.delivery.caller import Guarded
from tocsin.site.harvest.politeness import Politeness, asked_to_wait
from tocsin.site.harvest.settings import HarvestSettings
from tocsin.site.problems import Invalid

AGENT = "Tocsin-Harvester/1 (feeds and OAI-PMH; conditional requests; Retry-After honoured)"
KEPT_SECONDS = 20.0  # a connection that is not used
ANSWERED_BUSY = (429, 503)
MOVED = (301, 302, 303, 307, 308)
MOVED_FOR_GOOD = (301, 308)


class SourceError(TocsinError):
    """A visit failed; `wait_seconds` is what the source asks for before the next."""

    def __init__(self, reason: str, wait_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_seconds = wait_seconds


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer: 200 with a body, or 304 without."""

    status: int
    url: str = field(repr=False)
    headers: Mapping[str, str]
    body: bytes = field(repr=False, default=b"")
    moved_to: str | None = field(repr=False, default=None)
    """Where it is for good, if it said so."""


def checked(url: object, settings: HarvestSettings) -> str:
    """The address of a source as it may be kept, or Invalid."""
    try:
        return check_url(url, settings.guard)
    except Invalid as problem:
        message = problem.message.replace("the webhook's address", "the source's address")
        message = message.replace("holds a user name or password: the call is signed instead", "holds a password")
        raise Invalid(message.replace("/hook", "/feed.xml"), code="source_refused", field="address") from None


class Fetcher:
    """Asks sources; keeps connections for pages of one list."""

    def __init__(
        self,
        settings: HarvestSettings,
        politeness: Politeness,
        ask: Resolve = resolve,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._politeness = politeness
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trust or ssl.create_default_context(),
            max_connections=2 * settings.harvest_connections_max,
            max_keepalive_connections=settings.harvest_connections_max,
            keepalive_expiry=KEPT_SECONDS,
            network_backend=Guarded(settings.guard, ask),
        )

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Fetched:
        """The answer after redirects, or SourceError with the reason."""
        at, for_good, is_moved = url, True, False
        for _ in range(self._settings.harvest_redirects_max + 1):
            try:
                checked(at, self._settings)
            except Invalid as problem:
                raise SourceError(problem.message) from None
            answer = await self._get(at, headers or {})
            if answer.status not in MOVED:
                moved = at if is_moved and for_good else None
                return Fetched(answer.status, at, answer.headers, answer.body, moved)
            place = answer.headers.get("location")
            if not place:
                raise SourceError(f"answered {answer.status} without saying where to go")
            for_good, is_moved = for_good and answer.status in MOVED_FOR_GOOD, True
            at = _joined(at, place)
        raise SourceError(f"redirects more than {self._settings.harvest_redirects_max} times")

    async def _get(self, url: str, headers: Mapping[str, str]) -> Fetched:
        seconds = self._settings.harvest_timeout_seconds
        async with self._politeness.turn(host_of(url)):
            try:
                async with asyncio.timeout(seconds):
                    return await self._asked(url, headers)
            except TimeoutError:
                raise SourceError(f"no whole answer within {seconds:g} seconds") from None
            except Closed as error:
                raise SourceError(str(error)) from None
            except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
                raise SourceError(f"cannot be reached: {_said(error)}") from None
            except (httpcore.UnsupportedProtocol, ValueError) as error:
                raise SourceError(f"the address cannot be asked: {_said(error)}") from None

    async def _asked(self, url: str, headers: Mapping[str, str]) -> Fetched:
        said = {"user-agent": AGENT, "accept": "*/*", "accept-encoding": "gzip", **headers}
        async with self._pool.stream("GET", url, headers=list(said.items())) as response:
            found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            status = response.status
            if status in MOVED or status == 304:
                return Fetched(status, url, found)
            if status in ANSWERED_BUSY:
                wait = asked_to_wait(found.get("retry-after"), self._settings)
                asks = f", asks for {wait:,.0f} seconds" if wait else ""
                raise SourceError(f"answered {status}{asks}", wait)
            if status != 200:
                raise SourceError(f"answered {status}")
            return Fetched(status, url, found, await self._body(response, found))

    async def _body(self, response: httpcore.Response, headers: Mapping[str, str]) -> bytes:
        most = self._settings.harvest_bytes_max
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:15]) > most:
            raise _too_large(most)
        packing = headers.get("content-encoding", "").strip().lower()
        unpack = None if packing in ("", "identity") else _unpacker(packing)
        body = bytearray()
        async for part in response.aiter_stream():
            try:
                body += part if unpack is None else unpack.decompress(part, most + 1 - len(body))
            except zlib.error as error:
                raise SourceError(f"the answer cannot be unpacked: {error}") from None
            if len(body) > most or (unpack is not None and unpack.unconsumed_tail):
                raise _too_large(most)
        return bytes(body)

    async def close(self) -> None:
        """Lets go of all connections."""
        await self._pool.aclose()


def _unpacker(packing: str) -> zlib._Decompress:
    if packing not in ("gzip", "x-gzip", "deflate"):
        raise SourceError(f"the answer is packed as {packing[:40]!r}, which was not asked for")
    return zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, as its first bytes say


def _too_large(most: int) -> SourceError:
    return SourceError(f"the answer has more than {most:,} bytes (harvest_bytes_max)")


def _joined(base: str, place: str) -> str:
    try:
        joined = urljoin(base, place.strip())
    except ValueError:
        raise SourceError("redirects to what is no address") from None
    return quote(joined.partition("#")[0], safe="!#$%&'()*+,/:;=?@[]~")


def host_of(url: str) -> str:
    """Host and port, for good manners."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _said(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:300]
