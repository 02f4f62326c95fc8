"""What surrounds every call: safe headers, HEAD and OPTIONS, counting, and no traceback for a stranger.

It stands outside of everything else, so what it promises holds for answers that no route made, too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.web.answers import Refusal
from tocsin.web.metrics import Metrics

log = logging.getLogger("tocsin.web")

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

FAILED = Refusal(500, "internal", "something went wrong here; the operator's log says where")

MethodsOf = Callable[[str], list[str]]
"""The methods that a path answers; none if there is no such path."""


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, metrics: Metrics, methods_of: MethodsOf, header_bytes_max: int) -> None:
        self.app = app
        self.header_bytes_max = header_bytes_max
        self.metrics = metrics
        self.methods_of = methods_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One call."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        call = _Call(scope, receive, send)
        start = time.monotonic()
        try:
            await self._answer(call)
        except Exception as error:
            # The log of the operator gets the place, never the text: what a caller sent may hold a token.
            log.error("a call failed: %s in %s %s", _where(error), call.method, call.route)
            if call.status is None:
                await FAILED.response()(call.scope, call.receive, call.send)
        finally:
            status = "none" if call.status is None else str(call.status)
            self.metrics.requests.add(method=call.method, route=call.route, status=status)
            if call.route != "/api/v1/stream":
                self.metrics.seconds.observe(time.monotonic() - start)

    async def _answer(self, call: _Call) -> None:
        most = self.header_bytes_max
        if sum(len(name) + len(value) + 4 for name, value in call.scope["headers"]) > most:
            refusal = Refusal(431, "headers_too_large", f"the headers have more than {most:,} bytes: send less")
            await refusal.response()(call.scope, call.receive, call.send)
            return
        if call.method == "OPTIONS":
            methods = self.methods_of(call.scope["path"])
            if methods:
                await call.send(_start(204, {"allow": ", ".join(methods)}))
                await call.send({"type": "http.response.body", "body": b""})
                return
        await self.app(call.scope, call.receive, call.send)


class _Call:
    """A call as the layers inside see it: HEAD is a GET whose body is not sent."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
        self.method: str = scope["method"] if scope["method"] in known else "other"
        self.is_head = scope["method"] == "HEAD"
        self.scope = {**scope, "method": "GET"} if self.is_head else scope
        self.status: int | None = None
        self._receive, self._send = receive, send
        self._ended = False

    @property
    def route(self) -> str:
        """The template of the path, which holds no id: fit for a log and for metrics."""
        route = self.scope.get("route")
        return str(getattr(route, "path", "none"))

    async def receive(self) -> Message:
        """What the caller sends; one who only asks for the head is gone after it."""
        return {"type": "http.disconnect"} if self._ended else await self._receive()

    async def send(self, message: Message) -> None:
        """What is answered, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = [(name.lower(), value) for name, value in message.get("headers", ())]
            names = {name for name, _ in given}
            headers = [*given, *(header for header in HEADERS if header[0] not in names)]
            await self._send({**message, "headers": headers})
            if self.is_head:
                self._ended = True
                await self._send({"type": "http.response.body", "body": b""})
        elif not self._ended:
            await self._send(message)


def _start(status: int, headers: Mapping[str, str]) -> Message:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": raw}


def _where(error: BaseException) -> str:
    """The kind of an error and the line of ours that it came from."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__} at {place}"
