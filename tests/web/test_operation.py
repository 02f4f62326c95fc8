"""What an operator sees and does: health, accounts and tokens, the journal, quotas; and a large bulk call."""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import replace

import httpx
import pytest

from tests.web.serving import NDJSON, error_of, eventually, lines, serving
from tocsin.site.local import LocalPipeline
from tocsin.web.limits import LIMITS
from tocsin.web.server import listen

NEW = {"name": "x", "role": "admin"}


class Slow(LocalPipeline):
    """A pipeline that takes its time to start, as Spark does, or fails."""

    def __init__(self, store) -> None:
        super().__init__(store)
        self.is_ready = False
        self.reason: str | None = None

    @property
    def is_running(self) -> bool:
        return self.is_ready and super().is_running

    def failure(self) -> str | None:
        return self.reason


def test_healthz_is_503_until_the_pipeline_runs_and_the_api_answers_meanwhile(tmp_path):
    with serving(tmp_path, pipeline=Slow) as served:
        address = f"{served.url}/healthz"
        answer = httpx.get(address)
        error_of(answer, 503, "starting")
        assert "retry-after" in answer.headers
        assert served.client().post("documents", json={"id": "early"}).json()["accepted"] == 1
        assert "tocsin_up 0" in httpx.get(f"{served.url}/metrics").text
        pipeline = served.site.pipeline
        assert isinstance(pipeline, Slow)
        pipeline.reason = "/home/operator/secret: no Java"
        error = error_of(httpx.get(address), 503, "stopped")
        assert "operator/secret" not in error["message"]
        pipeline.is_ready = True
        assert httpx.get(address).status_code == 200
        assert httpx.get(address).json()["status"] == "ok"
        assert "tocsin_up 1" in httpx.get(f"{served.url}/metrics").text


def test_small_answers_are_sent_at_once():
    """asyncio turns the operating system's waiting off (TCP_NODELAY) for sockets that name their protocol only."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


def test_an_account_is_made_and_its_token_works_until_it_is_revoked(served):
    admin = served.client()
    made = admin.post("accounts", json={"name": "ann", "role": "publisher", "label": "first"})
    assert made.status_code == 201
    own = httpx.Client(base_url=f"{served.url}/api/v1/", headers={"Authorization": f"Bearer {made.json()['token']}"})
    with own:
        assert own.get("account").json()["name"] == "ann"
        second = admin.post("accounts/ann/tokens", json={"label": "second", "expires": "2999-01-01T00:00:00Z"}).json()
        assert second["expires"] == "2999-01-01T00:00:00.000Z"
        marks = {one["label"]: one["mark"] for one in admin.get("accounts/ann").json()["tokens"]}
        assert set(marks) == {"first", "second"}
        assert admin.delete("accounts/ann/tokens", params={"label": marks["first"]}).json() == {"revoked": 1}
        error_of(own.get("account"), 401, "unauthenticated")
    error_of(admin.post("accounts", json={"name": "ann", "role": "publisher"}), 409, "conflict")


def test_a_disabled_account_is_shut_out_and_let_in_again(served):
    admin, client = served.client(), served.client("subscriber-shut")
    client.post("subscriptions", json={"id": "kept", "query": "x"})
    assert admin.patch("accounts/subscriber-shut", json={"disabled": True}).json()["disabled"] is True
    error_of(client.get("subscriptions"), 401)
    admin.patch("accounts/subscriber-shut", json={"disabled": False})
    assert [one["id"] for one in client.get("subscriptions").json()["items"]] == ["kept"]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"name": "x"}, {"role": "admin"}, NEW | {"name": ""}, NEW | {"name": "a b"}, NEW | {"name": 7},
        NEW | {"name": "../x"}, NEW | {"role": "king"}, NEW | {"quotas": 7}, NEW | {"quotas": {"k": 1}}, NEW | {"k": 1},
        NEW | {"quotas": {"subscriptions_max": -1}}, NEW | {"label": "l" * 201},
    ],
)  # fmt: skip
def test_a_bad_account_is_refused(served, body):
    error_of(served.client().post("accounts", json=body), 422)
    error_of(served.client().get("accounts/x"), 404)


@pytest.mark.parametrize("body", [{"expires": "soon"}, {"expires": "2001-01-01"}, {"label": 7}, {"k": 1}])
def test_a_bad_token_is_refused(served, body):
    error_of(served.client().post("accounts/admin/tokens", json=body), 422)


def test_pages_of_accounts_hold_each_once(served):
    for n in range(7):
        served.token(f"subscriber-page{n}")
    found, after = [], ""
    while after is not None:
        page = served.client().get("accounts", params={"after": after, "limit": 3}).json()
        found += [one["name"] for one in page["items"]]
        after = page["next"]
    assert found == sorted(set(found))
    assert {f"subscriber-page{n}" for n in range(7)} <= set(found)


def test_the_journal_says_who_did_what(served):
    client, admin = served.client("publisher-noted"), served.client()
    client.post("subscriptions", json={"id": "noted", "query": "x"})
    client.patch("subscriptions/noted", json={"state": "paused"})
    client.delete("subscriptions/noted")
    client.post("documents", json={"id": "noted", "t": "x"})
    client.delete("documents/noted")
    entries = admin.get("journal", params={"account": "publisher-noted"}).json()["items"]
    assert [one["action"] for one in reversed(entries)] == [
        "subscribe", "change", "unsubscribe", "delete document",
    ]  # fmt: skip
    older = admin.get(
        "journal", params={"account": "publisher-noted", "before": entries[0]["number"], "limit": 2}
    ).json()
    assert [one["number"] for one in older["items"]] == [one["number"] for one in entries[1:3]]
    assert older["next"] == str(entries[2]["number"])


def test_the_rest_of_what_an_operator_sees(served):
    admin = served.client()
    assert admin.get("slow").json() == {"items": []}
    assert admin.get("rejected").json() == {"items": []}
    eventually(lambda: served.site.progress().lag == 0)
    assert admin.get("audit").json()["complete"] is True


def test_two_calls_with_one_key_at_a_time(tmp_path):
    """The second is told that the first is under way, and gets its answer afterwards."""
    with serving(tmp_path, replace(LIMITS, body_silence_seconds_max=10)) as served:
        gate = threading.Event()

        def slowly():
            yield b'{"query": '
            gate.wait()
            yield b'"x"}'

        headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
        answers: list[httpx.Response] = []
        first = threading.Thread(
            target=lambda: answers.append(served.client().post("subscriptions", content=slowly(), headers=headers))
        )
        first.start()
        client = served.client()
        time.sleep(0.3)
        busy = client.post("subscriptions", content=b'{"query": "x"}', headers=headers)
        gate.set()
        first.join()
        error_of(busy, 409, "in_progress")
        assert answers[0].status_code == 201
        again = client.post("subscriptions", content=b'{"query": "x"}', headers=headers)
        assert again.json() == answers[0].json()


@pytest.mark.slow
def test_a_hundred_thousand_subscriptions_in_one_call(served):
    client = served.client("publisher-bulk")
    body = lines(*({"id": f"b{n:06}", "query": f"title:alpha{n} AND beta{n % 1000}"} for n in range(99_999)), "bad")
    told = client.post("subscriptions", content=body, headers=NDJSON, timeout=600)
    results = [json.loads(line) for line in told.text.splitlines()]
    assert len(results) == 100_000
    assert [one["line"] for one in results if "error" in one] == [100_000]
    client.post("documents", json={"id": "hit", "title": "alpha77777 beta777"})
    items = eventually(lambda: client.get("notifications").json()["items"], 300)
    assert [(one["subscription"], one["document"]) for one in items] == [("b077777", "hit")]
    out = client.get("subscriptions", headers={"Accept": "application/x-ndjson"}, timeout=600)
    assert len(out.text.splitlines()) == 99_999
