"""What is sent: limits, types, framing, and the answers to what cannot be read."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest

from tests.web.serving import ADMIN_TOKEN, NDJSON, Serving, error_of, eventually, lines, serving
from tocsin.settings import DocumentLimits, Settings
from tocsin.site.settings import SiteSettings
from tocsin.web.limits import LIMITS

SMALL = replace(
    LIMITS,
    body_bytes_max=20_000,
    bulk_bytes_max=200_000,
    bulk_lines_max=100,
    rejections_max=10,
    chunk_documents_max=7,
    header_seconds_max=0.5,
    keep_alive_seconds=1,
    body_silence_seconds_max=0.5,
    body_bytes_per_second_min=100,
    header_bytes_max=8_000,
    keyed_bytes_max=50_000,
)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Serving]:
    settings = SiteSettings(base=Settings(document=DocumentLimits(document_bytes_max=5_000)))
    with serving(tmp_path_factory.mktemp("site"), SMALL, settings) as found:
        yield found


def raw(served: Serving, data: bytes, then: list[bytes] = [], pause: float = 0.0, seconds: float = 5.0) -> bytes:  # noqa: B006
    """What a socket gets that sends these bytes."""
    parts = urlsplit(served.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=seconds) as connection:
        connection.sendall(data)
        for piece in then:
            time.sleep(pause)
            try:
                connection.sendall(piece)
            except OSError:
                break
        found = b""
        try:
            while chunk := connection.recv(65_536):
                found += chunk
        except (TimeoutError, ConnectionResetError):
            found += b"<nothing more>"
        return found


def head(method: str, path: str, *headers: str) -> bytes:
    fixed = ["Host: x", f"Authorization: Bearer {ADMIN_TOKEN}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fixed, *headers, "", ""]).encode()


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(served):
    answer = raw(served, head("POST", "/api/v1/documents", "Content-Type: application/json", "Content-Length: 20001"))
    assert b" 413 " in answer.splitlines()[0]
    assert b'"too_large"' in answer


def test_a_body_that_is_read_whole_for_its_key_may_be_less(served):
    body = lines(*({"id": f"key{n}", "t": "x" * 4_000} for n in range(15)))
    client = served.client()
    error_of(client.post("documents", content=body, headers=NDJSON | {"Idempotency-Key": "large"}), 413, "too_large")
    assert client.post("documents", content=body, headers=NDJSON).json()["accepted"] == 15


@pytest.mark.parametrize(("path", "type", "size"), [
    ("documents", "application/json", 20_001),
    ("documents", "application/xml", 20_001),
    ("documents", "application/x-ndjson", 200_001),
    ("subscriptions", "application/json", 20_001),
    ("subscriptions", "application/x-ndjson", 200_001),
    ("accounts", "application/json", 20_001),
])  # fmt: skip
def test_a_body_that_does_not_say_its_size_is_cut_where_it_becomes_too_large(served, path, type, size):
    def chunks():
        for _ in range(size // 1_000 + 1):
            yield b" " * 1_000

    error_of(served.client().post(path, content=chunks(), headers={"Content-Type": type}), 413, "too_large")


def test_a_line_that_is_too_long_is_one_rejected_line(served):
    long = {"id": "long", "t": "x" * 5_000}
    answer = served.client().post("documents", content=lines({"id": "a1"}, long, {"id": "a2"}), headers=NDJSON).json()
    assert answer["accepted"] == 2
    (rejected,) = answer["rejected"]
    assert rejected["line"] == 2
    assert "document_bytes_max" in rejected["error"]["message"]


def test_too_many_lines_are_refused(served):
    body = b"{}\n" * 102
    error_of(served.client().post("subscriptions", content=body, headers=NDJSON), 413, "too_large")


def test_rejected_lines_beyond_a_number_are_counted(served):
    answer = served.client().post("documents", content=b"{}\n" * 50, headers=NDJSON).json()
    assert answer["accepted"] == 0
    assert len(answer["rejected"]) == 10
    assert answer["rejected_more"] == 40


@pytest.mark.parametrize("cut", [1, 3, 7, 1000])
def test_lines_are_the_same_however_the_bytes_arrive(served, cut):
    body = lines(*({"id": f"cut{cut}-{n}", "t": "é"} for n in range(20)), "bad", {"id": f"cut{cut}-last"})[:-1]
    pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
    answer = served.client().post("documents", content=iter(pieces), headers=NDJSON).json()
    assert answer["accepted"] == 21
    assert [one["line"] for one in answer["rejected"]] == [21]


def test_an_empty_body_of_lines_is_no_document(served):
    assert served.client().post("documents", content=b"\n \n", headers=NDJSON).json() == {"accepted": 0, "rejected": []}


# --- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x", ""])
@pytest.mark.parametrize("path", ["documents", "subscriptions", "accounts"])
def test_another_type_is_refused(served, path, type):
    answer = served.client().post(path, content=b'{"id": "x"}', headers={"Content-Type": type})
    error = error_of(answer, 415, "unsupported_type")
    assert "application/json" in error["message"]


def test_another_charset_is_refused(served):
    kind = {"Content-Type": "application/json; charset=utf-16"}
    error_of(served.client().post("documents", content=b"{}", headers=kind), 415, "unsupported_type")
    kind = {"Content-Type": "application/xml; charset=iso-8859-1"}
    error_of(served.client().post("documents", content="<a>é</a>".encode("latin-1"), headers=kind), 415)
    kind = {"Content-Type": 'application/json; charset="UTF-8"'}
    assert served.client().post("documents", content=b'{"id": "charset"}', headers=kind).status_code == 202


def test_a_compressed_body_is_refused_not_misread(served):
    packed = gzip.compress(json.dumps({"id": "z"}).encode())
    answer = served.client().post("documents", content=packed, headers={"Content-Encoding": "gzip"})
    error_of(answer, 415, "unsupported_encoding")


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b'"x"', b"null", b'{"a": NaN}', b'{"query": "x", "query": "y"}',
                                  b"\xff", b'{"query": "\\ud800"}', b"[" * 10_000, b'{"a":' * 3_000])  # fmt: skip
def test_a_body_that_is_no_json_object_is_refused(served, body):
    client = served.client()
    error_of(client.post("subscriptions", content=body, headers={"Content-Type": "application/json"}), 422)
    answer = client.post("documents", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 202
    assert answer.json()["accepted"] == 0


# --- HTTP itself -----------------------------------------------------------------------------------------------------


def test_unknown_paths_and_methods_have_the_one_shape(served):
    client = served.client()
    error_of(client.get("nothing"), 404, "not_found")
    error_of(httpx.get(f"{served.url}/"), 404, "not_found")
    answer = client.put("subscriptions")
    error_of(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    answer = client.post("subscriptions/x")
    error_of(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"
    error_of(client.request("BREW", "documents"), 405)


def test_options_and_head(served):
    client = served.client()
    answer = client.options("documents/x")
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS"
    assert "access-control-allow-origin" not in answer.headers
    error_of(client.options("nothing"), 404)
    head_answer, get_answer = client.head("account"), client.get("account")
    assert (head_answer.status_code, head_answer.content) == (200, b"")
    assert head_answer.headers["content-length"] == get_answer.headers["content-length"]
    assert served.client(None).head("account").status_code == 401
    assert httpx.head(f"{served.url}/healthz").status_code == 200


@pytest.mark.parametrize(
    "request_", [b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
                 b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\x00\r\n\r\n",
                 b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"])  # fmt: skip
def test_what_is_no_http_is_told_so(served, request_):
    answer = raw(served, request_)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "bad_request"


def test_two_ways_to_say_the_length_are_not_both_believed(served):
    """Request smuggling: a proxy and we must agree where a call ends."""
    both = head("POST", "/api/v1/documents", "Content-Type: application/x-ndjson", "Content-Length: 4",
                "Transfer-Encoding: chunked") + b"0\r\n\r\nGET /api/v1/account HTTP/1.1\r\nHost: x\r\n\r\n"  # fmt: skip
    answer = raw(served, both)
    assert b'"name":"admin"' not in answer


def test_headers_beyond_their_limit_are_refused(served):
    answer = raw(served, head("GET", "/healthz", "Connection: close", "X: " + "x" * 8_000))
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b'"headers_too_large"' in answer
    answer = raw(served, head("GET", "/healthz", "X: " + "x" * 200_000))
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431")) or answer == b"<nothing more>"


# --- slow callers ----------------------------------------------------------------------------------------------------


def test_headers_that_trickle_in_end_the_connection(served):
    start = time.monotonic()
    answer = raw(served, b"GET /healthz HTTP/1.1\r\n", then=[b"X: y\r\n"] * 40, pause=0.1)
    assert b"200" not in answer
    assert time.monotonic() - start < 30
    eventually(lambda: httpx.get(f"{served.url}/healthz").status_code == 200)


def test_a_connection_that_says_nothing_ends(served):
    assert raw(served, b"", seconds=10) == b""


def test_a_second_call_that_trickles_in_ends_too(served):
    rest = [b"GET /healthz HTTP/1.1\r\n", *[b"X: y\r\n"] * 40]
    for then in (rest, [b"GET /he"]):
        start = time.monotonic()
        answer = raw(served, head("GET", "/healthz"), then=then, pause=0.1, seconds=60)
        assert answer.count(b"HTTP/1.1 200") == 1
        assert time.monotonic() - start < 50
    answer = raw(served, head("GET", "/healthz") + b"GET /he", seconds=10)  # begun before the first was answered
    assert answer.count(b"HTTP/1.1 200") == 1
    assert not answer.endswith(b"<nothing more>")


@pytest.mark.parametrize("pause", [0.2, 0.7], ids=["a byte at a time", "silence"])
def test_a_body_that_trickles_in_is_refused(served, pause):
    start = head("POST", "/api/v1/documents", "Content-Type: application/json", "Content-Length: 1000")
    answer = raw(served, start, then=[b" "] * 20, pause=pause, seconds=10)
    assert b" 408 " in answer.splitlines()[0]
    assert b'"too_slow"' in answer


def test_a_caller_who_leaves_in_the_middle_harms_nobody(served):
    parts = urlsplit(served.url)
    for _ in range(5):
        with socket.create_connection((parts.hostname, parts.port)) as connection:
            connection.sendall(head("POST", "/api/v1/documents", "Content-Type: application/x-ndjson",
                                    "Content-Length: 9999") + b'{"id": "half')  # fmt: skip
    assert served.client().get("account").status_code == 200
    error_of(served.client().get("documents/half"), 404)


def test_connections_beyond_a_number_are_told_so(tmp_path):
    with serving(tmp_path, replace(LIMITS, connections_max=3)) as served:
        parts = urlsplit(served.url)
        held = [socket.create_connection((str(parts.hostname), parts.port or 0)) for _ in range(3)]
        answer = eventually(
            lambda: (told := raw(served, head("GET", "/healthz"), seconds=2)).startswith(b"HTTP") and told
        )
        assert answer.startswith(b"HTTP/1.1 503 ")
        body = answer.removesuffix(b"<nothing more>").partition(b"\r\n\r\n")[2]  # what we sent was not read: a reset
        assert json.loads(body)["error"]["code"] == "busy"
        for connection in held:
            connection.close()
        eventually(lambda: raw(served, head("GET", "/healthz", "Connection: close")).startswith(b"HTTP/1.1 200 "))
