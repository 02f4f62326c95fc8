"""From here to one other node: a queue, a connection, a pause after a failure.

A link only sends. Answers come through the other node's own link, so a node never writes to whoever connects to it,
except a greeting that says who it is and what time it has. The certificate must be that of the node in the address.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Protocol

from tocsin.net.envelope import NOBODY, Envelope, EnvelopeError, Refusal, Sealer, WallClock, read_envelope
from tocsin.net.identity import Endpoint, name_and_endpoint, peer_name
from tocsin.net.limits import NetError, NetLimits
from tocsin.overlay.message import Address

LENGTH_BYTES = 4
GOOD_SECONDS = 1.0
"""A connection that lasted so long was a good one: after it the pauses begin anew."""
FAILURES = (OSError, EOFError, ssl.SSLError, TimeoutError, NetError)


class Counts(Protocol):
    """Where something is counted by name."""

    def __call__(self, what: str, by: int = 1) -> None:
        """One more."""


def frame(data: bytes) -> bytes:
    """Bytes with their length before them."""
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


async def read_frame(reader: asyncio.StreamReader, limit: int) -> bytes:
    """The next bytes of a stream, no more than a limit."""
    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    if length > limit:
        raise EnvelopeError(Refusal.OVERSIZED)
    return await reader.readexactly(length)


class Connection:
    """A connection to a node that has shown who it is."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, greeting: Envelope) -> None:
        """`greeting` was made for this connection: it says what time it is there, not what time it was."""
        self.reader, self.writer, self.greeting = reader, writer, greeting

    def close(self) -> None:
        """At once: whatever is not sent is lost."""
        self.writer.transport.abort()


async def connect(where: Endpoint, name: str | None, context: ssl.SSLContext, limits: NetLimits) -> Connection:
    """Connects to a node; `name` is who must be there, None for whoever is."""
    async with asyncio.timeout(limits.connect_seconds_max):
        reader, writer = await asyncio.open_connection(where.host, where.port)
        plain = writer.transport
        try:
            # Apart: what is given up in the middle of it must not linger, saying goodbye.
            await writer.start_tls(context)
            found = peer_name(writer.get_extra_info("ssl_object"))
            if name is not None and found != name:
                raise NetError(f"at {where} is the node {found}, and not {name}")
            greeting = read_envelope(await read_frame(reader, limits.stranger_bytes_max), (NOBODY,))
            if greeting.name != found:
                raise NetError(f"the node at {where} greets with the name of another")
        except BaseException:
            plain.abort()
            raise
    return Connection(reader, writer, greeting)


class Link:
    """Sends to one other node what is offered, in order, as long as there is a connection."""

    def __init__(
        self,
        to: Address,
        sender: Address,
        *,
        sealer: Sealer,
        context: ssl.SSLContext,
        limits: NetLimits,
        count: Counts,
        on_greeting: Callable[[Envelope, int], None],
        wall_clock: WallClock,
        chance: Random,
    ) -> None:
        """`on_greeting` is called with each greeting, and with when its connection was begun."""
        found = name_and_endpoint(to)
        if found is None:
            raise NetError(f"{to!r} is no address")
        self.name, self._where = found
        self._to, self._sender = to, sender
        self._sealer, self._context, self._limits = sealer, context, limits
        self._count, self._on_greeting, self._chance = count, on_greeting, chance
        self._wall_clock = wall_clock
        self._queue: deque[tuple[float, Address, Address, bytes]] = deque()
        self._bytes = 0
        self._waiting = asyncio.Event()
        self.is_connected = False
        self.used = 0.0
        self._task = asyncio.create_task(self._run())

    def __len__(self) -> int:
        return len(self._queue)

    def offer(self, sender: Address, to: Address, body: bytes) -> None:
        """Queues a message; drops it if too many wait."""
        self.used = asyncio.get_running_loop().time()
        if len(self._queue) >= self._limits.link_messages_max or self._bytes + len(body) > self._limits.link_bytes_max:
            self._count("queue_full")
            return
        self._queue.append((self.used + self._limits.message_seconds_max, sender, to, body))
        self._bytes += len(body)
        self._waiting.set()

    async def close(self) -> None:
        """Ends it; whatever waits is lost."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        pause = self._limits.backoff_seconds_min
        while True:
            await self._waiting.wait()
            start = asyncio.get_running_loop().time()
            try:
                await self._converse()
            except FAILURES:
                # Whoever lets us in and throws us out at once is left alone for longer each time, too.
                lived = asyncio.get_running_loop().time() - start
                pause = self._limits.backoff_seconds_min if lived > GOOD_SECONDS else pause
                await asyncio.sleep(pause * self._chance.uniform(0.5, 1.0))
                pause = min(2 * pause, self._limits.backoff_seconds_max)

    async def _converse(self) -> None:
        """One connection, from its beginning to its end; comes back only if nothing had to be sent for long."""
        since = self._wall_clock()
        try:
            connection = await connect(self._where, self.name, self._context, self._limits)
        except FAILURES:
            self._count("connects_failed")
            self._drop_old()
            raise
        self._count("connects")
        self.is_connected = True
        try:
            self._on_greeting(connection.greeting, since)
            await self._pump(connection)
        except FAILURES:
            self._count("connections_lost")
            raise
        finally:
            self.is_connected = False
            connection.close()

    def _wake(self, _: object) -> None:
        self._waiting.set()

    def _drop_old(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._queue and self._queue[0][0] < now:
            self._bytes -= len(self._queue.popleft()[3])
            self._count("waited_too_long")
        if not self._queue:
            self._waiting.clear()

    async def _pump(self, connection: Connection) -> None:
        """Sends until the other end goes away, or nothing was sent for long."""
        writer = connection.writer
        writer.write(frame(self._sealer.seal(self._sender, self._to)))
        end = asyncio.create_task(connection.reader.read(1))  # nothing ever comes, but the end
        end.add_done_callback(self._wake)
        try:
            while not end.done():
                while self._queue and not end.done() and not writer.is_closing():
                    _, sender, to, body = self._queue.popleft()
                    self._bytes -= len(body)
                    writer.write(frame(self._sealer.seal(sender, to, body)))
                    await writer.drain()
                if end.done() or writer.is_closing():
                    break
                self._waiting.clear()
                try:
                    async with asyncio.timeout(self._limits.idle_seconds_max):
                        await self._waiting.wait()
                except TimeoutError:
                    return
            raise NetError("the other end closed the connection, or spoke")
        finally:
            end.remove_done_callback(self._wake)
            end.cancel()
            with suppress(asyncio.CancelledError, *FAILURES):
                await end
            if not self._queue:
                self._waiting.clear()
