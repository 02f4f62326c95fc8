"""Server-sent events: the same items as by cursor, resumable, with heart-beats."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest

from tests.web.serving import NDJSON, Serving, error_of, eventually, lines, serving
from tocsin.site import accounts
from tocsin.web.limits import LIMITS

QUICK = replace(LIMITS, heartbeat_seconds=0.3, streams_per_account_max=2)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("site"), QUICK) as found:
        yield found


class Listener:
    """Reads a stream in a thread."""

    def __init__(self, client: httpx.Client, **options) -> None:
        self.events: list[tuple[str, dict]] = []
        self.comments = 0
        self.status: int | None = None
        self.has_ended = False
        self._client, self._options = client, options
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._client.stream("GET", "stream", **self._options) as answer:
            self.status = answer.status_code
            self.type = answer.headers["content-type"]
            id, data = "", ""
            for line in answer.iter_lines():
                if self._stopping.is_set():
                    return
                if line.startswith(":"):
                    self.comments += 1
                elif line.startswith("id: "):
                    id = line[4:]
                elif line.startswith("data: "):
                    data = line[6:]
                elif not line and data:
                    self.events.append((id, json.loads(data)))
                    data = ""
            self.has_ended = True

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()  # a heart-beat comes soon


@contextmanager
def listening(client: httpx.Client, **options) -> Iterator[Listener]:
    listener = Listener(client, **options)
    try:
        yield listener
    finally:
        listener.close()


def test_items_come_as_they_are_found_and_equal_those_by_cursor(served):
    client = served.client("publisher-sse")
    client.post("subscriptions", json={"id": "s", "query": "signal"})
    client.post("documents", json={"id": "early", "t": "signal"})
    with listening(client) as listener:
        eventually(lambda: listener.events)
        assert listener.status == 200
        assert listener.type.startswith("text/event-stream")
        other = served.client("publisher-sse")
        for n in range(5):
            other.post("documents", json={"id": f"late-{n}", "t": "signal"})
        eventually(lambda: len(listener.events) == 6)
    items = client.get("notifications").json()["items"]
    assert [data for _, data in listener.events] == items
    assert [id for id, _ in listener.events] == [item["cursor"] for item in items]


@pytest.mark.parametrize("how", ["header", "parameter", "both"])
def test_a_stream_resumes_where_it_broke(served, how):
    client = served.client(f"publisher-resume-{how}")
    client.post("subscriptions", json={"id": "s", "query": "resume"})
    docs = lines(*({"id": f"{how}-{n}", "t": "resume"} for n in range(10)))
    client.post("documents", content=docs, headers=NDJSON)
    items = eventually(lambda: (found := client.get("notifications").json()["items"]) and len(found) == 10 and found)
    third, first = items[2]["cursor"], items[0]["cursor"]
    options = {
        "header": {"headers": {"Last-Event-ID": third}},
        "parameter": {"params": {"after": third}},
        "both": {"headers": {"Last-Event-ID": third}, "params": {"after": first}},  # a browser that comes back
    }[how]
    with listening(client, **options) as listener:
        eventually(lambda: len(listener.events) == 7)
    assert [data["document"] for _, data in listener.events] == [f"{how}-{n}" for n in range(3, 10)]


def test_a_quiet_stream_beats(served):
    with listening(served.client("subscriber-quiet")) as listener:
        eventually(lambda: listener.comments >= 2)
        assert not listener.events


def test_a_bad_cursor_is_refused(served):
    error_of(served.client().get("stream", headers={"Last-Event-ID": "nonsense"}), 422, "bad_cursor")


def test_an_account_holds_only_so_many_streams(served):
    client = served.client("subscriber-many", limits=httpx.Limits(max_connections=10))
    with listening(client) as one, listening(client) as two:
        eventually(lambda: one.status == two.status == 200)
        refused = error_of(client.get("stream"), 429, "too_many_streams")
        assert "2" in refused["message"]
    with listening(client) as three:  # those that ended are given back
        eventually(lambda: three.status == 200)


def test_a_revoked_token_ends_its_streams(served):
    with listening(served.client("subscriber-revoked")) as listener:
        eventually(lambda: listener.status == 200)
        assert accounts.revoke(served.site.store, "subscriber-revoked", "test") == 1
        eventually(lambda: listener.has_ended)


def test_streams_of_others_are_silent(served):
    client = served.client("publisher-loud")
    with listening(served.client("subscriber-other")) as listener:
        eventually(lambda: listener.status == 200)
        client.post("subscriptions", json={"id": "s", "query": "private"})
        client.post("documents", json={"id": "p", "t": "private"})
        eventually(lambda: client.get("notifications").json()["items"])
        beats = listener.comments
        eventually(lambda: listener.comments > beats + 1)
        assert not listener.events


def test_the_head_of_a_stream_comes_alone(served):
    answer = served.client("subscriber-head").head("stream")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.content == b""
    eventually(lambda: served.application.streams.count() == 0)
