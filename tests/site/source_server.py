"""A server of feeds: answers as a test says, and remembers what it was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tocsin.site.harvest.settings import HarvestSettings

HERE = HarvestSettings(harvest_allows_private=True, harvest_host_delay_seconds=0.0, harvest_timeout_seconds=10.0)
"""Sources of this machine are allowed, and are not spared."""


@dataclass
class Reply:
    """An answer; a body in parts is sent as long as it is read."""

    body: bytes | Iterable[bytes] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    sleep: float = 0.0


@dataclass
class Asked:
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    begun: float
    ended: float = 0.0


@dataclass
class Served:
    """A server that runs."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str = "", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/{path}"

    def paths(self) -> list[str]:
        return [one.path for one in self.asked]


Answering = Callable[[str, Mapping[str, str]], Reply]


@contextmanager
def serving(answer: Answering | Mapping[str, bytes]) -> Iterator[Served]:
    """Serves what the function says, or these bodies by path, on all addresses of this machine."""
    served = Served()

    def reply(path: str, headers: Mapping[str, str]) -> Reply:
        if callable(answer):
            return answer(path, headers)
        body = answer.get(path.lstrip("/"))
        return Reply(status=404) if body is None else Reply(body, headers={"content-type": "application/xml"})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.path, headers, time.monotonic())
            with served.lock:
                served.asked.append(asked)
            found = reply(self.path, headers)
            time.sleep(found.sleep)
            with suppress(OSError):
                self._send(found)
            asked.ended = time.monotonic()

        def _send(self, found: Reply) -> None:
            head = [f"HTTP/1.1 {found.status} Said"]
            said = dict(found.headers)
            if isinstance(found.body, bytes):
                said.setdefault("content-length", str(len(found.body)))
            else:
                said["connection"] = "close"
                self.close_connection = True
            head += [f"{name}: {value}" for name, value in said.items()]
            start = "\r\n".join(head).encode() + b"\r\n\r\n"
            if isinstance(found.body, bytes):
                self.wfile.write(start + found.body)  # at once: two small writes wait for each other
                return
            self.wfile.write(start)
            for part in found.body:
                self.wfile.write(part)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    server.daemon_threads = True
    served.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def rss(*items: str, title: str = "News") -> bytes:
    """A feed with these items."""
    inside = "".join(f"<item>{item}</item>" for item in items)
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>{title}</title>{inside}</channel></rss>'.encode()


def item(name: str, title: str = "", text: str = "") -> str:
    """An item with a guid."""
    return (
        f"<guid isPermaLink='false'>{name}</guid><title>{title or f'Title of {name}'}</title>"
        f"<link>https://example.org/{name}</link><description>{text or f'Text of {name}'}</description>"
    )
