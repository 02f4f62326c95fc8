"""One call to a webhook, from its name to its answer, never into the site's own network.

The address is looked at where the connection is made (`Guarded`), so nothing can come between looking and calling.
Redirects are not followed, proxies of the environment are not used, and of the answer only the status counts.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import httpcore

from tocsin.site.addresses import Closed, Resolve, open_addresses, resolve
from tocsin.site.settings import DeliverySettings

AGENT = "Tocsin-Webhooks/1"
KEPT_SECONDS = 20.0  # a connection that is not used


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call: a status, or why there is none."""

    status: int | None
    problem: str = ""
    retry_after: str | None = None

    @property
    def is_taken(self) -> bool:
        """Did the receiver take the item?"""
        return self.status is not None and 200 <= self.status < 300

    def __str__(self) -> str:
        return self.problem or f"answered {self.status}"


class Guarded(httpcore.AsyncNetworkBackend):
    """Connects to addresses of the open network only."""

    def __init__(self, settings: DeliverySettings, ask: Resolve) -> None:
        self._settings = settings
        self._ask = ask
        self._backend: httpcore.AsyncNetworkBackend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolves the name, looks at every address it has, and connects to one of these very addresses."""
        failure: Exception | None = None
        for address in await open_addresses(host, port, self._settings, self._ask):
            try:
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise httpcore.ConnectError(str(failure))

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Never."""
        raise Closed("a webhook is no file")

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)


class Kept:
    """Connections that are kept, by where they lead, the last used first.

    Not httpcore's own pool: that one looks at every connection's socket for every call, and a busy site has many.
    """

    def __init__(self, make: Callable[[httpcore.Origin], httpcore.AsyncHTTPConnection], most: int) -> None:
        self._make, self._most = make, most
        self._idle: dict[str, deque[httpcore.AsyncHTTPConnection]] = {}
        self._count = 0

    async def take(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        """One that was kept and is still good, or a new one."""
        idle = self._idle.get(str(origin))
        while idle:
            one = idle.pop()
            self._drop(str(origin), idle)
            if one.is_available() and not one.has_expired():
                return one
            await one.aclose()
        return self._make(origin)

    async def give(self, origin: httpcore.Origin, one: httpcore.AsyncHTTPConnection) -> None:
        """It is not needed any more: kept if it can be used again, in place of an older one if there are too many."""
        if not one.is_idle() or one.is_closed():
            await one.aclose()
            return
        if self._count >= self._most:
            where, idle = next(iter(self._idle.items()))
            oldest = idle.popleft()
            self._drop(where, idle)
            await oldest.aclose()
        self._idle.setdefault(str(origin), deque()).append(one)
        self._count += 1

    def _drop(self, where: str, idle: deque[httpcore.AsyncHTTPConnection]) -> None:
        self._count -= 1
        if not idle:
            del self._idle[where]

    async def close(self) -> None:
        """Lets go of all of them."""
        for idle in self._idle.values():
            for one in idle:
                await one.aclose()
        self._idle.clear()
        self._count = 0


class Caller:
    """Calls webhooks; keeps connections for those that are called often."""

    def __init__(self, settings: DeliverySettings, ask: Resolve = resolve, trust: ssl.SSLContext | None = None) -> None:
        self._settings = settings
        context, backend = trust or ssl.create_default_context(), Guarded(settings, ask)

        def connection(origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
            return httpcore.AsyncHTTPConnection(
                origin, ssl_context=context, keepalive_expiry=KEPT_SECONDS, network_backend=backend
            )

        self._kept = Kept(connection, max(1, settings.delivery_connections_max // 2))
        self._open = asyncio.Semaphore(settings.delivery_connections_max)

    async def call(self, url: str, headers: dict[str, str], body: bytes) -> Answer:
        """Posts the body; never raises because of the receiver."""
        seconds = self._settings.delivery_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._call(url, headers, body)
        except TimeoutError:
            return Answer(None, f"no answer within {seconds:g} seconds")
        except Closed as error:
            return Answer(None, str(error))
        except (
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.TimeoutException,
            OSError,
            ssl.SSLError,
        ) as error:
            return Answer(None, f"{type(error).__name__}: {error}"[:500])
        except (httpcore.UnsupportedProtocol, ValueError, UnicodeError) as error:
            return Answer(None, f"the address cannot be called: {error}"[:500])

    async def _call(self, url: str, headers: dict[str, str], body: bytes) -> Answer:
        said = {"content-type": "application/json", "user-agent": AGENT, **headers}
        target = httpcore.URL(url)
        if target.scheme not in (b"http", b"https"):
            raise httpcore.UnsupportedProtocol(f"{target.scheme.decode()} is no scheme of a webhook")
        async with self._open:
            connection = await self._kept.take(target.origin)
            try:
                async with connection.stream("POST", target, headers=list(said.items()), content=body) as response:
                    await self._read(response)
            except BaseException:
                await connection.aclose()
                raise
            await self._kept.give(target.origin, connection)
        waits = [value.decode("latin-1") for name, value in response.headers if name.lower() == b"retry-after"]
        return _answer(response.status, waits[0] if waits else None)

    async def _read(self, response: httpcore.Response) -> None:
        """The answer's body, as much of it as is allowed: what it says does not matter."""
        read = 0
        async for part in response.aiter_stream():
            read += len(part)
            if read > self._settings.delivery_answer_bytes_max:
                break

    async def close(self) -> None:
        """Lets go of all connections."""
        await self._kept.close()


def _answer(status: int, retry_after: str | None) -> Answer:
    if 300 <= status < 400:
        return Answer(status, f"answered {status}: redirects are not followed")
    return Answer(status, "", retry_after)
