"""Idempotency-Key: the same call again gets the answer of the first, and is done once."""

from __future__ import annotations

import pytest

from tests.web.serving import NDJSON, error_of, lines
from tocsin.web import repeats


def key(name: str) -> dict[str, str]:
    return {"Idempotency-Key": name}


def count(client) -> int:
    return len(client.get("subscriptions", params={"limit": 1000}).json()["items"])


def test_a_repeated_subscription_is_made_once(served):
    client = served.client("subscriber-key")
    first = client.post("subscriptions", json={"query": "x"}, headers=key("k1"))
    again = client.post("subscriptions", json={"query": "x"}, headers=key("k1"))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["content-type"] == first.headers["content-type"]
    assert count(client) == 1


def test_without_a_key_each_call_counts(served):
    client = served.client("subscriber-nokey")
    client.post("subscriptions", json={"query": "x"})
    client.post("subscriptions", json={"query": "x"})
    assert count(client) == 2


@pytest.mark.parametrize("change", ["body", "path", "type"])
def test_another_call_under_the_same_key_is_refused(served, change):
    client = served.client(f"publisher-{change}")
    client.post("subscriptions", content=b'{"query": "x"}', headers=key("k"))
    if change == "body":
        answer = client.post("subscriptions", content=b'{"query": "y"}', headers=key("k"))
    elif change == "path":
        answer = client.post("documents", content=b'{"query": "x"}', headers=key("k"))
    else:
        answer = client.post("subscriptions", content=b'{"query": "x"}', headers=key("k") | NDJSON)
    error_of(answer, 422, "key_reused")
    assert count(client) == 1


def test_keys_of_different_accounts_do_not_meet(served):
    one, other = served.client("subscriber-a"), served.client("subscriber-b")
    assert one.post("subscriptions", json={"query": "x"}, headers=key("same")).status_code == 201
    assert other.post("subscriptions", json={"query": "y"}, headers=key("same")).status_code == 201


def test_an_account_has_few_calls_with_a_key_under_way(served, monkeypatch):
    url = served.site.store.url
    monkeypatch.setattr(repeats, "_running", {(url, "subscriber-many", str(n)) for n in range(4)})
    error_of(served.client("subscriber-many").post("subscriptions", json={"query": "x"}, headers=key("k")), 429)
    assert (
        served.client("subscriber-few").post("subscriptions", json={"query": "x"}, headers=key("k")).status_code == 201
    )


def test_a_refused_call_gives_its_key_back(served):
    client = served.client("subscriber-back")
    error_of(client.post("subscriptions", json={"query": "("}, headers=key("k")), 422)
    assert client.post("subscriptions", json={"query": "x"}, headers=key("k")).status_code == 201


def test_lines_repeated_under_a_key_are_made_once_even_if_the_answer_was_lost(served):
    from tocsin.store import replies

    client = served.client("subscriber-bulk")
    body = lines(*({"query": f"w{n}"} for n in range(2100)))
    first = client.post("subscriptions", content=body, headers=key("bulk") | NDJSON)
    assert first.status_code == 200
    # The process died before it could keep the answer: the key is taken, the answer unknown.
    with served.site.store.write() as transaction:
        changed = replies.table.update().where(replies.table.c.key == "bulk").values(status=None, body=None)
        assert transaction.execute(changed).rowcount == 1
    again = client.post("subscriptions", content=body, headers=key("bulk") | NDJSON, timeout=300)
    assert again.status_code == 200
    assert again.content == first.content
    ids = client.get("subscriptions", headers={"Accept": "application/x-ndjson"}).text.splitlines()
    assert len(ids) == 2100


def test_documents_repeated_under_a_key_get_the_same_answer(served):
    client = served.client("publisher-docs")
    body = lines({"id": "k-1", "t": "x"}, {"no": "id"})
    first = client.post("documents", content=body, headers=key("docs") | NDJSON)
    again = client.post("documents", content=body, headers=key("docs") | NDJSON)
    assert first.json() == again.json()
    assert first.status_code == again.status_code == 202
    assert again.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("bad", ["", "k" * 201])
def test_a_key_has_a_form(served, bad):
    error_of(served.client().post("subscriptions", json={"query": "x"}, headers=key(bad)), 422, "bad_value")


def test_an_answer_that_holds_a_token_is_not_kept(served):
    body = {"name": "keyless", "role": "subscriber"}
    error_of(served.client().post("accounts", json=body, headers=key("k")), 422, "bad_value")
    error_of(served.client().get("accounts/keyless"), 404)
