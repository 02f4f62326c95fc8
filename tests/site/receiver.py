"""A receiver of webhooks: a real HTTP server that takes, fails, sleeps or redirects as a test wants."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    """What came, in the order in which it was answered with 2xx, and all attempts."""

    url: str = ""
    taken: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    """(path, headers, body)."""
    attempts: list[str] = field(default_factory=list)
    """Ids, whatever they were answered."""
    raw: list[bytes] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ids(self) -> list[str]:
        """Of what was taken."""
        return [headers["webhook-id"] for _, headers, _ in self.taken]

    def documents(self, path: str = "/hook") -> list[str]:
        """What was taken at this path, each id once, in order of its first coming."""
        found: dict[str, str] = {}
        for at, headers, body in self.taken:
            if at == path:
                data = body["data"]
                found.setdefault(headers["webhook-id"], data.get("document", "digest"))
        return list(found.values())


Reply = Callable[[str, int, int], tuple[int, float, dict[str, str]]]
"""(path, number of the attempt at this id, number of all attempts) -> status, seconds to sleep, headers."""


def take_all(_path: str, _attempt: int, _number: int) -> tuple[int, float, dict[str, str]]:
    return 204, 0.0, {}


class _Server(ThreadingHTTPServer):
    """Hangs up when it ends: a connection that is kept would be answered by nobody else."""

    daemon_threads = True

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections = [*getattr(self, "connections", []), request]
        super().process_request(request, client_address)

    def hang_up(self) -> None:
        for connection in getattr(self, "connections", []):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def receiving(reply: Reply = take_all) -> Iterator[Received]:
    """A server on a free port of this machine."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with received.lock:
                received.attempts.append(headers["webhook-id"])
                number = len(received.attempts)
                attempt = received.attempts.count(headers["webhook-id"])
            status, sleep, more = reply(self.path, attempt, number)
            time.sleep(sleep)
            with received.lock:
                if 200 <= status < 300:
                    received.taken.append((self.path, headers, json.loads(raw)))
                    received.raw.append(raw)
            try:
                self.send_response(status)
                for name, value in {"Content-Length": "0", **more}.items():
                    self.send_header(name, value)
                self.end_headers()
            except OSError:
                self.close_connection = True  # the caller has gone

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = _Server(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.hang_up()
        server.server_close()
        thread.join()


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Until it holds; AssertionError if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
