"""The contract's table of calls, one test a sentence."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.web.serving import NDJSON, Serving, error_of, eventually, lines
from tocsin.web.routes import ROWS

numbers = count(1)


@pytest.fixture
def fresh() -> str:
    """A word that no other test uses."""
    return f"word{next(numbers)}"


def items_after(served: Serving, account: str, cursor: str, many: int) -> Any:
    client = served.client(account)

    def look():
        found = client.get("notifications", params={"after": cursor, "limit": 1000}).json()["items"]
        return found if len(found) >= many else None

    return eventually(look)


def end(served: Serving, account: str) -> Any:
    """The cursor after everything that the account has."""
    client, cursor = served.client(account), ""
    while True:
        page = client.get("notifications", params={"after": cursor, "limit": 1000}).json()
        if not page["items"]:
            return page["next"]
        cursor = page["next"]


# --- subscriptions ---------------------------------------------------------------------------------------------------


def test_a_subscription_is_created_read_changed_and_deleted(served, fresh):
    client = served.client("subscriber-life")
    made = client.post("subscriptions", json={"query": f"title:{fresh}", "name": "A name", "tags": ["t"]})
    assert made.status_code == 201
    id = made.json()["id"]
    assert made.json()["contract"]["never_fires"] is False
    read = client.get(f"subscriptions/{id}")
    assert read.status_code == 200
    assert read.json()["query"] == f"title:{fresh}"
    assert read.json()["name"] == "A name"
    changed = client.patch(f"subscriptions/{id}", json={"query": f"abstract:{fresh}"})
    assert changed.status_code == 200
    assert changed.json()["query"] == f"abstract:{fresh}"
    assert changed.json()["revision"] > read.json()["revision"]
    assert id in [one["id"] for one in client.get("subscriptions").json()["items"]]
    assert client.delete(f"subscriptions/{id}").status_code == 204
    error_of(client.get(f"subscriptions/{id}"), 404, "not_found")
    error_of(client.delete(f"subscriptions/{id}"), 404, "not_found")


def test_an_own_id_is_kept_and_cannot_be_used_twice(served, fresh):
    client = served.client("subscriber-ids")
    assert client.post("subscriptions", json={"id": fresh, "query": fresh}).json()["id"] == fresh
    error_of(client.post("subscriptions", json={"id": fresh, "query": fresh}), 409, "conflict")


@pytest.mark.parametrize("id", ["a/b/c", "ä ö", "100%", "a?b#c", "..", "a//b", "%2F", "+", "x&y=z", "📜"])
def test_any_id_can_stand_in_a_path(served, id, fresh):
    client = served.client(f"subscriber-{fresh}")
    assert client.post("subscriptions", json={"id": id, "query": "x"}).status_code == 201
    path = f"subscriptions/{quote(id, safe='')}".replace("..", "%2E%2E")
    assert client.get(path).json()["id"] == id
    assert client.patch(path, json={"name": "n"}).json()["name"] == "n"
    assert client.delete(path).status_code == 204


def test_a_query_error_names_its_position(served):
    error = error_of(served.client().post("subscriptions", json={"query": "title:(peer AND"}), 422)
    assert error["position"] == 15
    assert "^" in error["message"]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "query"),
        ({"query": 7}, "query"),
        ({"query": "x", "colour": "red"}, "colour"),
        ({"query": "x", "tags": "t"}, "tags"),
        ({"query": "x", "id": ""}, "id"),
        ({"query": "x", "mode": "yearly"}, "mode"),
        ({"query": "x", "channel": {"kind": "webhook", "url": "ftp://x"}}, "channel"),
        ({"query": "x", "namespaces": {"a": "b"}}, "namespaces"),
        ({"xpath": "/a/following::b"}, "following"),
        ({"query": "x", "expires": "tomorrow"}, "expires"),
        ({"query": "x" * 20_001}, "20,000"),
    ],
)
def test_an_error_names_the_field(served, body, word):
    error = error_of(served.client().post("subscriptions", json=body), 422)
    assert word in error["message"] or error["code"].startswith(word)


def test_lines_get_a_line_each_and_the_good_ones_are_kept(served, fresh):
    client = served.client("subscriber-lines")
    body = lines(
        {"id": f"{fresh}-1", "query": fresh}, "no json", {"id": f"{fresh}-2", "query": "("}, "",
        {"id": f"{fresh}-1", "query": "again"}, {"id": f"{fresh}-3", "xpath": "//a"}, b"\xff\xfe", "[1]",
    )  # fmt: skip
    answer = client.post("subscriptions", content=body, headers=NDJSON)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    told = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["line"] for one in told] == [1, 2, 3, 5, 6, 7, 8]  # an empty line is none
    assert [one.get("id", one.get("error", {}).get("code")) for one in told] == [
        f"{fresh}-1", "bad_json", "query_syntax", "conflict", f"{fresh}-3", "bad_json", "bad_json",
    ]  # fmt: skip
    assert told[2]["error"]["position"] == 1
    assert {one["id"] for one in client.get("subscriptions").json()["items"]} >= {f"{fresh}-1", f"{fresh}-3"}


def test_all_subscriptions_come_out_as_lines_that_go_in_again(served, fresh):
    client, other = served.client("subscriber-out"), served.client("subscriber-in")
    body = lines(*({"id": f"{fresh}-{n:04}", "query": f"{fresh} w{n}", "tags": [str(n)]} for n in range(1500)))
    assert client.post("subscriptions", content=body, headers=NDJSON).status_code == 200
    out = client.get("subscriptions", headers={"Accept": "application/x-ndjson"})
    assert out.headers["content-type"].startswith("application/x-ndjson")
    assert len(out.text.splitlines()) == 1500
    told = other.post("subscriptions", content=out.content, headers=NDJSON).text.splitlines()
    assert not [line for line in told if "error" in line]
    again = other.get("subscriptions", headers={"Accept": "application/x-ndjson"})
    assert again.content == out.content


def test_pages_of_subscriptions_hold_each_once(served):
    client = served.client("subscriber-pages")
    client.post("subscriptions", content=lines(*({"id": f"p{n:03}", "query": "x"} for n in range(25))), headers=NDJSON)
    found, after = [], ""
    while after is not None:
        page = client.get("subscriptions", params={"after": after, "limit": 10}).json()
        found += [one["id"] for one in page["items"]]
        after = page["next"]
    assert found == [f"p{n:03}" for n in range(25)]


# --- documents -------------------------------------------------------------------------------------------------------


def test_one_document_is_accepted_and_can_be_read(served, fresh):
    client = served.client("publisher-1")
    answer = client.post("documents", json={"id": fresh, "title": "Peer networks", "year": 2004})
    assert answer.status_code == 202
    assert answer.json() == {"accepted": 1, "rejected": []}
    assert client.get(f"documents/{fresh}").json() == {"id": fresh, "title": "Peer networks", "year": 2004}


def test_a_bad_document_is_named_and_the_others_go_through(served, fresh):
    body = lines(
        {"id": f"{fresh}-1"}, {"title": "no id"}, "{", {"id": f"{fresh}-2", "flag": True}, "", {"id": f"{fresh}-3"},
        '{"id": "x", "id": "y"}', {"id": f"{fresh}-3", "title": "other content"},
    )  # fmt: skip
    answer = served.client().post("documents", content=body, headers=NDJSON)
    assert answer.status_code == 202
    assert answer.json()["accepted"] == 2
    assert [one["line"] for one in answer.json()["rejected"]] == [2, 3, 4, 7, 8]
    assert all({"code", "message"} <= set(one["error"]) for one in answer.json()["rejected"])


def test_a_single_bad_document_is_rejected_by_line(served):
    answer = served.client().post("documents", json={"title": "no id"})
    assert answer.status_code == 202
    assert answer.json()["accepted"] == 0
    assert [one["line"] for one in answer.json()["rejected"]] == [1]


def test_the_rule_of_versions(served, fresh):
    client = served.client()
    for body, accepted in [
        ({"id": fresh, "version": 2, "t": "a"}, 1),
        ({"id": fresh, "version": 2, "t": "a"}, 1),  # identical: ignored, and stored
        ({"id": fresh, "version": 2, "t": "b"}, 0),
        ({"id": fresh, "version": 1, "t": "a"}, 0),
        ({"id": fresh, "version": 3, "t": "b"}, 1),
    ]:
        assert client.post("documents", json=body).json()["accepted"] == accepted, body
    assert client.get(f"documents/{fresh}").json()["version"] == 3
    assert client.get(f"documents/{fresh}", params={"version": 2}).json()["t"] == "a"


def test_a_document_is_deleted(served, fresh):
    client = served.client()
    client.post("documents", json={"id": f"a/{fresh}", "t": "x"})
    answer = client.delete(f"documents/a%2F{fresh}")
    assert answer.status_code == 202
    error_of(client.get(f"documents/a%2F{fresh}"), 404, "not_found")
    error_of(client.delete(f"documents/a%2F{fresh}"), 404, "not_found")
    assert client.post("documents", json={"id": f"a/{fresh}", "t": "x"}).json()["accepted"] == 0
    assert client.post("documents", json={"id": f"a/{fresh}", "t": "x", "version": 2}).json()["accepted"] == 1


def test_xml_is_a_document(served, fresh):
    client = served.client("publisher-xml")
    start = end(served, "publisher-xml")
    client.post("subscriptions", json={"id": fresh, "xpath": f"//{fresh}[@a='1']"})
    xml = {"Content-Type": "application/xml"}
    for content, id in [
        (f"<{fresh} a='1'/>".encode(), "?id=given"),
        (f"<r id='own'><{fresh} a='1'/></r>".encode(), ""),
        (f"<?xml version='1.0' encoding='iso-8859-1'?><{fresh} a='1'>ä</{fresh}>".encode("latin-1"), ""),
    ]:
        assert client.post(f"documents{id}", content=content, headers=xml).json() == {"accepted": 1, "rejected": []}
    for bad in (b"<a>", b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", b"", b"\xff"):
        assert client.post("documents", content=bad, headers=xml).json()["accepted"] == 0
    told = [one["document"] for one in items_after(served, "publisher-xml", start, 3)]
    assert told[:2] == ["given", "own"]
    assert re.fullmatch("xml-[0-9a-f]{32}", told[2])
    assert "ä" in client.get(f"documents/{told[2]}").json()["xml"]


# --- notifications ---------------------------------------------------------------------------------------------------


def test_a_match_is_told_once_with_its_evidence(served, fresh):
    reader, publisher = served.client("subscriber-told"), served.client("publisher-2")
    reader.post("subscriptions", json={"id": fresh, "query": f"title:{fresh}"})
    publisher.post("documents", json={"id": f"d-{fresh}", "title": f"About {fresh}"})
    publisher.post("documents", json={"id": f"other-{fresh}", "title": "About others"})
    publisher.post("documents", json={"id": f"d-{fresh}", "title": f"About {fresh}"})
    (item,) = items_after(served, "subscriber-told", "", 1)
    assert set(item) == {"cursor", "subscription", "document", "version", "score", "evidence"}
    assert (item["subscription"], item["document"], item["version"]) == (fresh, f"d-{fresh}", 1)
    assert 0 <= item["score"] <= 1
    assert re.fullmatch(r"[A-Za-z0-9_.~-]+", item["cursor"])


def test_a_subscription_sees_what_is_accepted_after_it_was_answered_and_nothing_else(served, fresh):
    client = served.client("publisher-3")
    client.post("documents", json={"id": f"before-{fresh}", "t": fresh})
    client.post("subscriptions", json={"id": fresh, "query": fresh})
    client.post("documents", json={"id": f"after-{fresh}", "t": fresh})
    client.patch(f"subscriptions/{fresh}", json={"state": "paused"})
    client.post("documents", json={"id": f"paused-{fresh}", "t": fresh})
    client.patch(f"subscriptions/{fresh}", json={"state": "active"})
    client.post("documents", json={"id": f"resumed-{fresh}", "t": fresh})
    found = [item["document"] for item in items_after(served, "publisher-3", "", 2)]
    assert found == [f"after-{fresh}", f"resumed-{fresh}"]


def test_pages_by_cursor_hold_each_item_once_in_order(served, fresh):
    client = served.client("publisher-pages")
    client.post("subscriptions", json={"id": fresh, "query": fresh})
    ids = [f"{fresh}-{n}" for n in range(57)]
    client.post("documents", content=lines(*({"id": id, "t": fresh} for id in ids)), headers=NDJSON)
    items_after(served, "publisher-pages", "", 57)
    found, cursor = [], None
    while True:
        page = client.get("notifications", params={"limit": 10} | ({"after": cursor} if cursor else {})).json()
        assert len(page["items"]) <= 10
        if not page["items"]:
            assert page["next"] == cursor  # the place to go on from stays
            break
        assert page["next"] == page["items"][-1]["cursor"]
        found += [item["document"] for item in page["items"]]
        cursor = page["next"]
    assert found == ids
    assert len(client.get("notifications").json()["items"]) == 57


@pytest.mark.parametrize(
    "parameters", [{"limit": 0}, {"limit": 1001}, {"limit": "many"}, {"after": "x"}, {"after": "AAAA"}, {"after": "💥"}]
)
def test_bad_parameters_are_named(served, parameters):
    error = error_of(served.client().get("notifications", params=parameters), 422)
    assert next(iter(parameters)) in error["message"]


# --- the site itself -------------------------------------------------------------------------------------------------


BODILESS = ("/again", "/ask", "/audit", "/confirm/{code}", "/feeds", "/test", "/unsubscribe/{token}", "/visit")


def test_openapi_is_complete(served):
    page = httpx.get(f"{served.url}/openapi.json").json()
    described = {(method.upper(), path) for path, methods in page["paths"].items() for method in methods}
    assert described == {(row.method, row.path) for row in ROWS.values()} - {("GET", "/openapi.json")}
    for path, methods in page["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            if method in ("post", "patch") and "501" not in operation["responses"] and not path.endswith(BODILESS):
                assert operation["requestBody"]["content"], (method, path)


def test_metrics_name_nobody(served, fresh):
    client = served.client(f"publisher-{fresh}")
    client.post("subscriptions", json={"id": f"sub-{fresh}", "query": fresh})
    client.post("documents", json={"id": f"doc-{fresh}", "t": fresh})
    client.get(f"subscriptions/missing-{fresh}")
    answer = httpx.get(f"{served.url}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert fresh not in answer.text
    samples = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert float(samples["tocsin_documents_accepted_total"]) >= 1
    missed = 'tocsin_http_requests_total{method="GET",route="/api/v1/subscriptions/{id:path}",status="404"}'
    assert float(samples[missed]) >= 1
    for line in answer.text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r'[a-z_]+(\{([a-z]+="[^"]*",?)+\})? -?[0-9.e+-]+', line), line
