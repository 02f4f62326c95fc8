"""Relations, views and events over HTTP, and their pages."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from tests.site.receiver import receiving
from tests.web.browsing import Visitor, tree
from tests.web.serving import NDJSON, Serving, error_of, eventually, lines, serving
from tocsin.site.settings import DeliverySettings, SiteSettings

numbers = count(1)
SQL = {"Content-Type": "application/sql"}


@pytest.fixture
def name(served: Serving) -> str:
    """A relation of its own, with a view `NAME_high` over it."""
    made = f"quotes{next(numbers)}"
    text = f"""CREATE RELATION {made} (tick BIGINT, issue TEXT, price DOUBLE);
CREATE VIEW {made}_high AS SELECT issue, max(price) AS high, latest(price) AS now FROM {made} GROUP BY issue"""
    answer = served.client("publisher-1").post("views", content=text, headers=SQL)
    assert (answer.status_code, answer.json()) == (202, {"accepted": 2, "rejected": []})
    return made


def quote(name: str, tick: int, issue: str, price: Any) -> dict[str, Any]:
    return {"relation": name, "tick": tick, "issue": issue, "price": price}


def told(served: Serving, account: str, many: int = 1, after: str = "") -> Any:
    def look() -> Any:
        page = served.client(account).get("notifications", params={"after": after, "limit": 1000}).json()
        return page if len(page["items"]) >= many else None

    return eventually(look)


def test_what_is_refused_is_named_by_its_line_and_the_rest_goes_on(served, name):
    client = served.client("publisher-1")
    text = f"""
CREATE VIEW {name}_sum AS SELECT sum(issue) AS s FROM {name};
CREATE VIEW {name}_n AS SELECT count(*) AS n FROM {name};
CREATE VIEW {name}_j AS SELECT a.issue FROM {name} a JOIN {name} b ON a.price < b.price"""
    answer = client.post("views", json={"sql": text}).json()
    assert answer["accepted"] == 1
    assert [(one["line"], one["error"]["code"]) for one in answer["rejected"]] == [(2, "view"), (4, "view")]
    body = lines(
        quote(name, 1, "IBM", 80), quote(name, 1, "IBM", 81), quote(name, 3, "IBM", "x"), "{",
        quote(name, 2, "IBM", 90.5),
        {"relation": name, "silent": [3, 4]}, {"relation": name, "tick": 3}, {"relation": "nobody", "tick": 3},
        quote(name, 2, "IBM", 90.5),
    )  # fmt: skip
    answer = client.post("events", content=body, headers=NDJSON)
    assert answer.status_code == 202
    assert answer.json()["accepted"] == 4
    reasons = {one["line"]: one["error"]["message"] for one in answer.json()["rejected"]}
    assert sorted(reasons) == [2, 3, 4, 7, 8]
    assert "column price" in reasons[3]
    assert "tick 3" in reasons[7]
    found = client.get(f"views/{name}_high").json()
    assert found["rows"] == [
        {"view": f"{name}_high", "key": {"issue": "IBM"}, "final": False,
         "row": {"issue": "IBM", "high": {"at_least": 90.5}, "now": {"latest": 90.5, "tick": 2}}}
    ]  # fmt: skip
    client.post("events", json={"relation": name, "closed": True})
    after = client.post("events", json=quote(name, 99, "IBM", 1)).json()
    assert (after["accepted"], "closed" in after["rejected"][0]["error"]["message"]) == (0, True)
    (row,) = client.get(f"views/{name}_high").json()["rows"]
    assert (row["final"], row["row"]) == (True, {"issue": "IBM", "high": 90.5, "now": 90.5})


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"json": {}}, 422),
        ({"json": {"sql": 7}}, 422),
        ({"json": {"sql": "x", "more": 1}}, 422),
        ({"json": {"sql": " "}}, 422),
        ({"content": b"\xff", "headers": SQL}, 422),
        ({"content": b"CREATE", "headers": {"Content-Type": "image/png"}}, 415),
        ({"json": {"sql": "'open"}}, 202),
        ({"json": {"sql": "-- " + "x" * 300_000}}, 202),
    ],
)
def test_a_text_that_cannot_be_read_is_refused(served, options, status):
    answer = served.client("publisher-1").post("views", **options)
    assert answer.status_code == status
    if status == 202:
        assert (answer.json()["accepted"], len(answer.json()["rejected"])) == (0, 1)
    else:
        error_of(answer, status)


def test_only_publishers_bring_events_and_relations(served, name):
    client = served.client("subscriber-1")
    error_of(client.post("events", json=quote(name, 1, "IBM", 1)), 403, "forbidden")
    answer = client.post("views", json={"sql": "CREATE RELATION r (tick BIGINT)"}).json()
    assert answer["rejected"][0]["error"]["code"] == "forbidden"
    own = f"{name}_own"
    sql = f"CREATE VIEW {own} AS SELECT issue FROM {name}_high WHERE high > 3"
    assert client.post("views", json={"sql": sql}).json()["accepted"] == 1
    assert client.get(f"views/{own}").json()["own"] is True
    error_of(served.client("subscriber-2").get(f"views/{own}"), 404, "not_found")
    error_of(client.delete(f"views/{name}_high"), 403, "forbidden")
    assert client.delete(f"views/{own}").status_code == 204
    error_of(served.client("publisher-1").delete(f"views/{name}"), 409, "conflict")
    listed = [one["name"] for one in client.get("views").json()["items"]]
    assert name in listed
    assert own not in listed


def test_quotas_bind_events(served, name):
    served.client("admin").patch("accounts/publisher-1", json={"quotas": {"documents_per_second": 1}})
    try:
        client = served.client("publisher-1")
        body = lines(*({"relation": name, "silent": [1, 2]} for _ in range(20)))
        for _ in range(2):
            last = client.post("events", content=body, headers=NDJSON)
        error_of(last, 429, "too_fast")
        assert int(last.headers["retry-after"]) >= 1
    finally:
        served.client("admin").patch("accounts/publisher-1", json={"quotas": {"documents_per_second": 10_000}})


def test_a_call_is_done_once_under_its_key(served, name):
    client = served.client("publisher-1")
    key = {"Idempotency-Key": f"k-{name}"}
    first = client.post("events", json=quote(name, 1, "IBM", 1), headers=key)
    again = client.post("events", json=quote(name, 1, "IBM", 1), headers=key)
    assert first.json() == again.json() == {"accepted": 1, "rejected": []}


@pytest.mark.row("G9")
def test_changes_come_by_poll_and_stream_and_one_fresh_state_after_absence(served, name):
    """A subscriber that was away while every row changed many times gets each row once."""
    account = f"subscriber-{name}"
    client, publisher = served.client(account), served.client("publisher-1")
    assert client.post("subscriptions", json={"view": f"{name}_high", "id": "all"}).status_code == 201
    when = {"name": f"{name}_high", "when": "now > 80"}
    assert client.post("subscriptions", json={"view": when, "id": "when"}).json()["view"] == when
    publisher.post("events", json=quote(name, 1, "IBM", 81))
    page = told(served, account, 2)
    assert {one["subscription"] for one in page["items"]} == {"all", "when"}
    assert page["items"][0] | {"cursor": ""} == {
        "cursor": "", "subscription": "all", "view": f"{name}_high", "key": {"issue": "IBM"}, "final": False,
        "row": {"issue": "IBM", "high": {"at_least": 81.0}, "now": {"latest": 81.0, "tick": 1}},
    }  # fmt: skip
    log = [quote(name, tick, f"i{tick % 4}", tick % 50) for tick in range(2, 1502)]
    for start in range(0, len(log), 100):
        publisher.post("events", content=lines(*log[start : start + 100]), headers=NDJSON)
    fresh = told(served, account, 4, page["next"])["items"]
    assert sorted(one["key"]["issue"] for one in fresh) == ["i0", "i1", "i2", "i3"]
    assert len(fresh) * 100 <= len(log), "one state, not the log"
    rows = {one["key"]["issue"]: one["row"] for one in client.get(f"views/{name}_high").json()["rows"]}
    assert all(one["row"] == rows[one["key"]["issue"]] for one in fresh)
    with client.stream("GET", "stream", params={"after": page["next"]}) as stream:
        seen = []
        for line in stream.iter_lines():
            if line.startswith("data:"):
                seen.append(json.loads(line[5:]))
            if len(seen) == 4:
                break
    assert seen == fresh


def test_the_page_of_views_creates_shows_subscribes_and_drops(served, name):
    visitor = Visitor(served, "publisher-1")
    view = f"{name}_high"
    page = visitor.get("/views")
    assert f"/view?name={view}" in page.text
    made = visitor.post("/views", sql=f"CREATE VIEW {name}_bad AS SELECT sum(issue) AS s FROM {name}")
    assert made.status_code == 422
    assert "Line 1" in made.text
    assert "issue is TEXT" in made.text
    served.client("publisher-1").post("events", json=quote(name, 1, "<b>IBM</b>", 81))
    shown = visitor.get("/view", name=view)
    assert "<b>IBM" not in shown.text
    cells = [" ".join(cell.text_content().split()) for cell in tree(shown).iter("td")]
    assert cells == ["<b>IBM</b>", "at least 81", "81 at tick 1", "can change"]
    step = visitor.get("/views/pulse", name=view).json()["last"]
    served.client("publisher-1").post("events", json={"relation": name, "closed": True})
    assert visitor.get("/views/pulse", name=view).json()["last"] > step
    cells = [" ".join(cell.text_content().split()) for cell in tree(visitor.get("/view", name=view)).iter("td")]
    assert cells == ["<b>IBM</b>", "81", "81", "final"]
    bad = visitor.post("/view", name=view, do="subscribe", how="when", condition="volume > 1")
    assert (bad.status_code, "volume" in bad.text) == (422, True)
    assert visitor.post("/view", name=view, do="subscribe", how="when", condition="").status_code == 422
    for how, condition in (("when", "high > 80"), ("where", "issue = 'x'"), ("where", "")):
        good = visitor.post("/view", name=view, do="subscribe", how=how, condition=condition)
        assert good.status_code == 303
        assert visitor.get("/view", name=view).status_code == 200
    eventually(lambda: "high 81; now 81. Final." in visitor.get("/alerts").text)
    alert = visitor.get("/alerts").text
    assert "high 81; now 81. Final." in alert
    assert "The document was deleted" not in alert
    assert visitor.client.get("/view", params={"name": "nope"}).status_code == 404
    assert visitor.post("/view", name=view, do="drop").status_code == 303
    assert visitor.client.get("/view", params={"name": view}).status_code == 404
    assert visitor.get("/subscriptions").status_code == 200


def test_a_webhook_is_told_of_a_row(tmp_path):
    delivery = DeliverySettings(delivery_allows_private=True, delivery_allows_http=True)
    with receiving() as received, serving(tmp_path, settings=SiteSettings(delivery=delivery)) as served:
        client = served.client()
        text = "CREATE RELATION q (tick BIGINT, x BIGINT); CREATE VIEW m AS SELECT max(x) AS x FROM q"
        client.post("views", content=text, headers=SQL)
        hook = {"kind": "webhook", "url": received.url + "/hook"}
        assert client.post("subscriptions", json={"view": "m", "id": "w", "channel": hook}).status_code == 201
        client.post("events", json={"relation": "q", "tick": 1, "x": 5})
        eventually(lambda: any(body["data"]["row"] == {"x": {"at_least": 5}} for _, _, body in received.taken))
        _, _, body = received.taken[-1]
        assert body["type"] == "view"
        assert (body["data"]["view"], body["data"]["key"], body["data"]["subscription"]) == ("m", {}, "w")
