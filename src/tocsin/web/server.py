"""A port, and a server on it that does not wait for ever for a slow caller.

uvicorn closes a connection that is idle between two calls, but waits without end for a call whose first line and
headers trickle in. Here that time is bounded too; bodies are bounded by `web.bodies`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from http import HTTPStatus

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tocsin.errors import SettingError
from tocsin.web.answers import Refusal, encoded
from tocsin.web.limits import LIMITS, WebLimits

PORT = 8047
PORTS_TRIED = 200


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket: on the port that is named, or on the default one or the next that is free."""
    wanted = range(PORT, PORT + PORTS_TRIED) if port is None else [port]
    for number in wanted:
        try:
            return _bound(host, number)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES) and port is None:
                continue
            if error.errno == errno.EADDRINUSE:
                raise SettingError(f"port {number} is in use: choose another by --port, or leave it out") from None
            raise SettingError(f"{host}:{number} cannot be listened on: {error.strerror or error}") from None
    raise SettingError(f"no port from {PORT} to {PORT + PORTS_TRIED - 1} is free: choose one by --port")


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, for only then asyncio sends small answers at once: otherwise each would wait 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that has just been left is free
        listening.bind((host, port))
        listening.listen(2_048)
    except OSError:
        listening.close()
        raise
    return listening


def url_of(listening: socket.socket) -> str:
    """Where a browser on this machine finds it."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def make_server(app: ASGIApp, limits: WebLimits = LIMITS) -> uvicorn.Server:
    """A server for the application; `run(sockets=[…])` serves until `should_exit`."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a stranger's bad request is no news
    logging.getLogger("uvicorn.access").disabled = True  # it would write whole addresses, and what callers put in them
    config = uvicorn.Config(
        app,
        http=_bounded(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=limits.server_stop_seconds_max,
        h11_max_incomplete_event_size=limits.header_bytes_max,
    )
    return uvicorn.Server(config)


def _bounded(limits: WebLimits) -> type[asyncio.Protocol]:
    class Bounded(H11Protocol):
        """A connection on which the next call must begin, and end its headers, in time."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections_max:
                self._refuse(Refusal(503, "busy", "too many connections: try again soon"))
            else:
                self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._unwatch()  # its headers are complete
            elif self._is_between() and self._deadline is None:
                self._watch()  # the next call on this connection has begun

        def _is_between(self) -> bool:
            cycle: RequestResponseCycle | None = self.cycle
            return cycle is None or bool(cycle.response_complete)

        def _watch(self) -> None:
            self._deadline = self.loop.call_later(limits.header_seconds_max, self._give_up)

        def _unwatch(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _give_up(self) -> None:
            self._deadline = None
            if self._is_between() and not self.transport.is_closing():
                self.transport.close()

        def send_400_response(self, msg: str) -> None:
            """A call that is no HTTP gets our shape, too."""
            self._refuse(Refusal(400, "bad_request", "this is no HTTP request that can be read"))

        def _refuse(self, refusal: Refusal) -> None:
            """Answers before there is a call, and closes."""
            body = encoded({"error": refusal.body()})
            head = (
                f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\ncontent-type: application/json\r\n"
                f"x-content-type-options: nosniff\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

    return Bounded
