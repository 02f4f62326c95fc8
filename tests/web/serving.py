"""A real site on a real port, with the pipeline that needs no Spark: what the tests of the API call."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tocsin.site import accounts
from tocsin.site.local import LocalPipeline
from tocsin.site.searching import Searching
from tocsin.site.settings import SiteSettings
from tocsin.site.site import Site
from tocsin.store import Store
from tocsin.web.app import Application
from tocsin.web.limits import LIMITS, WebLimits
from tocsin.web.server import listen, make_server, url_of

ADMIN_TOKEN = "the-administrators-preset-token"
NDJSON = {"Content-Type": "application/x-ndjson"}


@dataclass
class Serving:
    """A site that is served, and clients of its accounts."""

    site: Site
    application: Application
    url: str
    tokens: dict[str, str] = field(default_factory=dict)
    _clients: list[httpx.Client] = field(default_factory=list)

    def client(self, account: str | None = "admin", **options: Any) -> httpx.Client:
        """Calls as the account; None: without a token."""
        headers = {} if account is None else {"Authorization": f"Bearer {self.token(account)}"}
        client = httpx.Client(base_url=f"{self.url}/api/v1/", headers=headers, timeout=30, **options)
        self._clients.append(client)
        return client

    def token(self, account: str) -> str:
        """The account's token; an account is named after its role, such as subscriber-2."""
        if account not in self.tokens:
            accounts.create(self.site.store, account, account.partition("-")[0])
            self.tokens[account] = accounts.token(self.site.store, account, "test")
        return self.tokens[account]

    def close(self) -> None:
        for client in self._clients:
            client.close()


@contextmanager
def serving(
    folder: Path,
    limits: WebLimits = LIMITS,
    settings: SiteSettings | None = None,
    pipeline: Callable[[Store], Any] = LocalPipeline,
) -> Iterator[Serving]:
    """A site in the folder, served until the end of the block."""
    store = Store(folder)
    site = Site(store, settings, pipeline(store))
    site.searching = Searching(store, Path(folder) / "search", site.analysis, lambda: None)
    accounts.first_start(store, ADMIN_TOKEN)
    application = Application(site, limits)
    listening = listen("127.0.0.1", 0)
    server = make_server(application, limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="server", daemon=True)
    found = Serving(site, application, url_of(listening), {"admin": ADMIN_TOKEN})
    site.start()
    thread.start()
    try:
        eventually(lambda: server.started)
        yield found
    finally:
        found.close()
        application.stop()
        server.should_exit = True
        thread.join()
        listening.close()
        site.stop()
        store.close()


def eventually(holds: Callable[[], Any], seconds: float = 90.0) -> Any:
    """What `holds` gives, once it is true."""
    start = time.monotonic()
    while not (found := holds()):
        assert time.monotonic() - start < seconds, "it did not come true in time"
        time.sleep(0.02)
    return found


def lines(*objects: Any) -> bytes:
    """NDJSON of objects; a string or bytes stands for itself."""
    return b"".join(
        (one if isinstance(one, bytes) else one.encode() if isinstance(one, str) else json.dumps(one).encode()) + b"\n"
        for one in objects
    )


def error_of(answer: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """The error in an answer, which has the one shape that all errors have."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert {"code", "message"} <= set(error) <= {"code", "message", "position"}
    assert error["message"]
    assert isinstance(error["message"], str)
    if code is not None:
        assert error["code"] == code
    return error
