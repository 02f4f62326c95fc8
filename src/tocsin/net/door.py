"""From everybody to here: frames are read and checked, and what is refused is counted and not answered.

Whoever connects is a stranger until an envelope with a valid signature came: strangers are few, brief and may send
little. Then the connection belongs to that node, and its rate and number of connections are limited; what is too fast
is not read, so that it waits at its sender's.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from tocsin.net.claims import is_credible
from tocsin.net.envelope import Envelope, EnvelopeError, Refusal
from tocsin.net.identity import Endpoint
from tocsin.net.limits import NetError, NetLimits
from tocsin.net.link import FAILURES, Counts, frame, read_frame
from tocsin.overlay.message import Address, Message, OverlayError, UnknownVersion, decode

BACKLOG = 128
ACCEPT_PAUSE_SECONDS = 0.1


class Bucket:
    """A rate: so many bytes a second, a second's worth at once."""

    def __init__(self, per_second: int, now: float) -> None:
        self._rate, self._free_at = per_second, now

    def take(self, size: int, now: float) -> float:
        """Seconds to wait before more is taken."""
        self._free_at = max(self._free_at, now - 1.0) + size / self._rate
        return max(0.0, self._free_at - now)


class Door:
    """The listening end of a node."""

    def __init__(
        self,
        context: ssl.SSLContext,
        limits: NetLimits,
        *,
        greeting: Callable[[], bytes],
        check: Callable[[bytes], Envelope],
        receive: Callable[[Address, Address, Message], None],
        count: Counts,
        refused: Callable[[Refusal, str], None],
    ) -> None:
        """`count` is told of everything that is to be counted, `refused` of refusals, with whose they are."""
        self._context, self._limits, self._refused = context, limits, refused
        self._greeting, self._check, self._receive, self._count = greeting, check, receive, count
        self._tasks: set[asyncio.Task[None]] = set()
        self._strangers = 0
        self._peers: dict[str, deque[asyncio.Transport]] = {}
        self._rates: dict[str, Bucket] = {}
        self._listening: list[socket.socket] = []
        self._unserved: set[socket.socket] = set()

    @property
    def connections(self) -> int:
        """How many there are."""
        return sum(map(len, self._peers.values())) + self._strangers

    async def open(self, where: Endpoint) -> Endpoint:
        """Listens there (port 0: at any free one), and says where."""
        loop = asyncio.get_running_loop()
        try:
            (family, kind, protocol, _, address), *_ = await loop.getaddrinfo(
                where.host, where.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            listening = socket.socket(family, kind, protocol)
        except OSError as error:
            raise NetError(f"cannot listen at {where}: {error}") from error
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            raise NetError(f"cannot listen at {where}: {error.strerror}") from error
        self._listening.append(listening)
        loop.add_reader(listening, self._answer, listening)
        return Endpoint(where.host, listening.getsockname()[1])

    async def close(self) -> None:
        """No more connections, and an end to all there are."""
        for listening in self._listening:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        self._listening.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for accepted in self._unserved:  # a task that is cancelled before it begins does nothing, not even its end
            accepted.close()

    def _answer(self, listening: socket.socket) -> None:
        """Somebody calls. Not a task that waits for callers: one that was accepted as it is cancelled would be lost."""
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, InterruptedError):  # the caller went away
            return
        except OSError:  # no more files to open
            self._count("accepts_failed")
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(ACCEPT_PAUSE_SECONDS, self._listen_again, listening)
            return
        if self._strangers >= self._limits.strangers_max or self.connections >= self._limits.connections_max:
            self._refuse(Refusal.CROWDED, _caller(accepted))
            accepted.close()
            return
        accepted.setblocking(False)
        self._strangers += 1  # before it says a word: a handshake costs too
        self._unserved.add(accepted)
        task = asyncio.get_running_loop().create_task(self._serve(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _listen_again(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._answer, listening)

    async def _serve(self, accepted: socket.socket) -> None:
        self._unserved.discard(accepted)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        plain: asyncio.Transport | None = None
        transport: asyncio.Transport | None = None
        name, is_stranger, caller = "", True, _caller(accepted)
        try:
            async with asyncio.timeout(self._limits.stranger_seconds_max):
                plain, _ = await loop.connect_accepted_socket(lambda: protocol, accepted)
                # Apart: asyncio forgets to close what is cancelled before its TLS has begun.
                transport = await loop.start_tls(
                    plain, protocol, self._context, server_side=True,
                    ssl_handshake_timeout=self._limits.stranger_seconds_max,
                )  # fmt: skip
                if transport is None:
                    raise NetError("the caller went away")
                transport.write(frame(self._greeting()))
                name = await self._introduced(reader)
            self._strangers -= 1
            is_stranger = False
            self._belong(name, transport)
            await self._read(name, reader)
        except EnvelopeError as error:
            self._refuse(error.refusal, name or caller)
        except (*FAILURES, asyncio.IncompleteReadError):
            self._count("connections_ended")
        finally:
            self._strangers -= is_stranger
            if name and transport is not None:
                self._forget(name, transport)
            if transport is not None:
                transport.abort()
            if plain is not None:
                plain.abort()
            else:
                accepted.close()

    async def _introduced(self, reader: asyncio.StreamReader) -> str:
        """Who is at the other end, by the first envelope."""
        envelope = self._check(await read_frame(reader, self._limits.stranger_bytes_max))
        if envelope.body:
            self._accept(envelope, envelope.name)
        return envelope.name

    def _belong(self, name: str, transport: asyncio.Transport) -> None:
        mine = self._peers.setdefault(name, deque())
        mine.append(transport)
        if len(mine) > self._limits.peer_connections_max:  # the oldest is likely to be dead at its other end
            mine.popleft().abort()

    def _forget(self, name: str, transport: asyncio.Transport) -> None:
        mine = self._peers.get(name, deque())
        with suppress(ValueError):
            mine.remove(transport)
        if not mine:
            self._peers.pop(name, None)
        if len(self._rates) > self._limits.senders_max:  # a rate outlives its connection, or a new one would be free
            self._rates = {one: rate for one, rate in self._rates.items() if one in self._peers}

    async def _read(self, name: str, reader: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        rate = self._rates.setdefault(name, Bucket(self._limits.peer_bytes_per_second_max, loop.time()))
        refused = 0
        while refused <= self._limits.peer_refusals_max:
            async with asyncio.timeout(2 * self._limits.idle_seconds_max):
                data = await read_frame(reader, self._limits.frame_bytes_max)
            try:
                self._accept(self._check(data), name)
            except EnvelopeError as error:
                self._refuse(error.refusal, name)
                refused += 1
            wait = rate.take(len(data), loop.time())
            if wait > 0:
                await asyncio.sleep(wait)

    def _refuse(self, refusal: Refusal, who: str) -> None:
        self._count(refusal)
        self._refused(refusal, who)

    def _accept(self, envelope: Envelope, name: str) -> None:
        if envelope.name != name:
            raise EnvelopeError(Refusal.INCREDIBLE)
        if not envelope.body:
            return
        try:
            message = decode(envelope.body)
        except UnknownVersion as error:
            raise EnvelopeError(Refusal.UNKNOWN_VERSION) from error
        except OverlayError as error:
            raise EnvelopeError(Refusal.MALFORMED) from error
        if not is_credible(message, envelope.sender):
            raise EnvelopeError(Refusal.INCREDIBLE)
        self._receive(envelope.sender, envelope.to, message)


def _caller(accepted: socket.socket) -> str:
    """Where a connection comes from: of somebody who has not shown who it is, that is all there is to say."""
    try:
        host, port, *_ = accepted.getpeername()
    except (OSError, ValueError):  # gone already
        return "somebody"
    return f"{host}:{port}"
