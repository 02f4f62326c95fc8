"""A browser without scripts: follows what pages say, keeps cookies, sends forms with their seals."""

from __future__ import annotations

import re
from typing import Any

import httpx
from lxml import html

from tests.web.serving import Serving
from tocsin.site.limits import Buckets

LIKE_A_BROWSER = {"Accept": "text/html,application/xhtml+xml", "Sec-Fetch-Site": "same-origin"}


class Visitor:
    """Somebody with a browser."""

    def __init__(self, served: Serving, account: str | None = None) -> None:
        self.served = served
        self.client = httpx.Client(base_url=served.url, headers=LIKE_A_BROWSER, timeout=30)
        served._clients.append(self.client)
        if account is not None:
            assert self.sign_in(served.token(account)).status_code == 303

    def sign_in(self, token: str, **more: str) -> httpx.Response:
        self.served.site.buckets = Buckets()  # all tests sign in from one address
        page = self.client.get("/sign-in")
        return self.client.post("/sign-in", data={"seal": seal_of(page), "token": token, **more})

    def get(self, path: str, **parameters: str) -> httpx.Response:
        answer = self.client.get(path, params=parameters or None)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer

    def seal(self) -> str:
        return seal_of(self.get("/settings"))

    def post(self, path: str, **values: str) -> httpx.Response:
        return self.client.post(path, data={"seal": self.seal(), **values})


def seal_of(page: httpx.Response) -> str:
    found = re.search(r'name="seal" value="([0-9a-f]{64})"', page.text)
    assert found, page.text
    return found[1]


def tree(page: httpx.Response) -> Any:
    return html.document_fromstring(page.text)


def marks(page: httpx.Response) -> list[str]:
    return [mark.text_content() for mark in tree(page).iter("mark")]
