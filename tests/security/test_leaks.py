"""Nothing leaks: tokens in logs, tracebacks in answers, headers that a caller writes, paths outside."""

from __future__ import annotations

import logging
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import httpx
import pytest

from tests.web.serving import ADMIN_TOKEN, NDJSON, Serving, error_of, eventually, serving
from tocsin.site import life
from tocsin.web.guard import HEADERS


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("site")) as found:
        yield found


def broken(*_: object, **__: object) -> None:
    raise RuntimeError(f"the secret is {ADMIN_TOKEN}")


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """What the site logged; the client of the tests logs for itself."""
    formatter = logging.Formatter("%(name)s %(message)s")
    own = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    return "\n".join(map(formatter.format, own))  # with the traceback of a record that has one


def test_a_failure_shows_no_traceback_and_logs_no_content(served, monkeypatch, caplog):
    monkeypatch.setattr(life, "get", broken)
    with caplog.at_level(logging.DEBUG):
        answer = served.client().get(f"subscriptions/{ADMIN_TOKEN}")
    error = error_of(answer, 500, "internal")
    assert "Traceback" not in answer.text
    assert "RuntimeError" not in answer.text
    assert ADMIN_TOKEN not in error["message"]
    # the operator learns what and where, once the answer has gone out
    assert eventually(lambda: "RuntimeError at test_leaks.py" in logged(caplog))
    assert "/api/v1/subscriptions/{id:path}" in logged(caplog)
    assert ADMIN_TOKEN not in logged(caplog)


def test_tokens_are_in_no_log_and_not_in_the_store(served, caplog, tmp_path):
    with caplog.at_level(logging.DEBUG):
        client = served.client()
        made = client.post("accounts", json={"name": "logged", "role": "publisher"}).json()
        tokens = [
            ADMIN_TOKEN,
            made["token"],
            client.post("accounts/logged/tokens", json={"label": "l"}).json()["token"],
        ]
        own = {"Authorization": f"Bearer {made['token']}"}
        base = f"{served.url}/api/v1"
        httpx.get(f"{base}/account", headers=own)
        httpx.get(f"{base}/{made['token']}", headers=own)
        httpx.get(f"{base}/account", headers={"Authorization": f"Basic {made['token']}"})
        httpx.get(f"{base}/notifications", params={"after": made["token"]}, headers=own)
        httpx.post(f"{base}/documents", content=b"{" + made["token"].encode(), headers=own | NDJSON)
        httpx.post(f"{base}/subscriptions", json={"query": f"({made['token']}"}, headers=own)
        client.delete("accounts/logged/tokens", params={"label": "l"})
    journal = client.get("journal", params={"limit": 1000}).text
    metrics = httpx.get(f"{served.url}/metrics").text
    client.get("account")
    with closing(sqlite3.connect(str(served.site.store.engine.url.database))) as connection:
        stored = "\n".join(connection.iterdump())
    for token in tokens:
        for text in (logged(caplog), journal, metrics, stored):
            assert token not in text


def test_a_token_is_in_no_representation(served):
    from tocsin.site import accounts
    from tocsin.web.caller import Caller

    account = accounts.find(served.site.store, "admin")
    assert ADMIN_TOKEN not in repr(Caller(account, account, ADMIN_TOKEN))


@pytest.mark.parametrize("path", ["/", "/api/v1/account", "/healthz", "/metrics", "/api/v1/subscriptions", "/nothing"])
def test_every_answer_has_the_safe_headers(served, path):
    for answer in (httpx.get(f"{served.url}{path}"), httpx.options(f"{served.url}{path}")):
        for name, value in HEADERS:
            assert answer.headers[name.decode()] == value.decode()
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("id", ["x%0d%0aSet-Cookie:%20a=b", "x%0aSet-Cookie:%20a=b", "%00", "%e2%80%a8"])
def test_an_id_writes_no_header(served, id):
    for method in ("GET", "DELETE", "OPTIONS", "PUT"):
        answer = httpx.request(
            method, f"{served.url}/api/v1/subscriptions/{id}", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}
        )
        assert "set-cookie" not in answer.headers
        assert answer.status_code in (204, 404, 405)


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd", "/api/v1/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/v1/documents/../../metr",
        "/api/v1/documents/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/api/v1/subscriptions/..%2f..%2faccounts", "//etc/passwd",
        "/api/v1//accounts", "/api/v1/./accounts", "/api%2fv1%2faccounts", "/healthz/", "/api/v1/accounts/",
        "/openapi.json%00.html", "/static/../app.py",
    ],
)  # fmt: skip
def test_a_path_reaches_nothing_but_its_route(served, path):
    """Sent as it stands: a client would tidy it up."""
    parts = urlsplit(served.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    status = int(answer.split()[1])
    assert status in (400, 401, 404), answer[:200]
    assert b"root:" not in answer
    assert b'"items"' not in answer


def test_nesting_without_end_is_refused_and_nobody_notices(served):
    deep = b'{"id": "deep", "a": ' + b"[" * 500_000 + b"]" * 500_000 + b"}"
    client = served.client()
    assert client.post("documents", content=deep, headers={"Content-Type": "application/json"}).json()["accepted"] == 0
    error_of(client.post("subscriptions", content=deep, headers={"Content-Type": "application/json"}), 422, "bad_json")
    query = "(" * 10_000 + "x" + ")" * 9_000
    error_of(client.post("subscriptions", json={"query": query}), 422)
    xml = b"<a>" * 100_000 + b"</a>" * 100_000
    answer = client.post("documents", content=xml, headers={"Content-Type": "application/xml"})
    assert answer.json()["accepted"] == 0
    assert client.get("account").status_code == 200


def test_numbers_without_end_are_refused(served):
    client = served.client()
    body = b'{"id": "n", "v": ' + b"9" * 1_000_000 + b"}"
    assert client.post("documents", content=body, headers={"Content-Type": "application/json"}).json()["accepted"] == 0
    error_of(client.get("notifications", params={"limit": "9" * 5_000}), 422)
    error_of(client.get("undelivered", params={"after": "9" * 30}), 422)
    error_of(client.get("journal", params={"before": -1}), 422)


def test_quotas_bind_accounts_and_not_the_administrator(served):
    client = served.client()
    quotas = {"subscriptions_max": 2, "documents_per_second": 1, "calls_per_second": 5}
    token = client.post("accounts", json={"name": "bound", "role": "publisher", "quotas": quotas}).json()["token"]
    with httpx.Client(base_url=f"{served.url}/api/v1/", headers={"Authorization": f"Bearer {token}"}) as bound:
        for expected in (201, 201, 403):
            assert bound.post("subscriptions", json={"query": "x"}).status_code == expected
        many = b"".join(b'{"id": "b-%d"}\n' % n for n in range(10))
        assert bound.post("documents", content=many, headers=NDJSON).json()["accepted"] == 10
        answer = bound.post("documents", json={"id": "one-more"})
        error_of(answer, 429, "too_fast")
        assert int(answer.headers["retry-after"]) >= 1
        eventually(lambda: bound.get("account").status_code == 429)
    for _ in range(100):
        assert client.get("account").status_code == 200


def test_the_host_header_is_never_echoed(served):
    answer = httpx.get(f"{served.url}/openapi.json", headers={"Host": "evil.example"})
    assert "evil.example" not in answer.text
    answer = httpx.get(f"{served.url}/api/v1/subscriptions/", headers={"Host": "evil.example"}, follow_redirects=False)
    assert answer.status_code == 401
    assert "location" not in answer.headers
