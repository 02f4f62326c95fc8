"""Thumbs over HTTP and on the alerts page, which works without scripts."""

from __future__ import annotations

from uuid import uuid4

import httpx
import pytest

from tests.web.browsing import LIKE_A_BROWSER, Visitor, tree
from tests.web.serving import error_of, eventually
from tests.web.test_pages_security import ATTACKS, is_clean

TEXTS = {"cat": "the jaguar is a cat of the forest", "car": "the jaguar is a car of the road", "tax": "taxes in spring"}


@pytest.fixture
def zoo(served, fresh):
    """A subscription that learns, with two things told; its id."""
    owner = f"subscriber-{fresh}"
    body = {"id": f"zoo/{fresh}", "query": f't ~ "jaguar{fresh}" >= 0.1', "feedback": True, "name": "Jaguars"}
    assert served.client(owner).post("subscriptions", json=body).status_code == 201
    for id, text in TEXTS.items():
        document = {"id": f"{id}{fresh}", "t": text.replace("jaguar", f"jaguar{fresh}")}
        assert served.client("admin").post("documents", json=document).status_code == 202
    eventually(lambda: len(served.client(owner).get("notifications").json()["items"]) == 2)
    return owner, body["id"]


@pytest.fixture
def fresh() -> str:
    return uuid4().hex[:12]


def thumb(client: httpx.Client, id: str, document: str, value: str | None, **more) -> httpx.Response:
    path = f"subscriptions/{id.replace('/', '%2F')}/thumbs"
    return client.post(path, json={"document": document, "thumb": value, **more})


def test_a_thumb_is_answered_with_the_words_it_has_moved(served, fresh, zoo):
    owner, id = zoo
    client = served.client(owner)
    before = client.get(f"subscriptions/{id}").json()
    assert before["feedback"] == {"thumbs": [], "texts": []}
    answer = thumb(client, id, f"cat{fresh}", "up")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["revision"] == before["revision"] + 1
    assert found["feedback"]["thumbs"] == [{"document": f"cat{fresh}", "version": 1, "thumb": "up"}]
    (text,) = found["feedback"]["texts"]
    assert {"forest", "cat"} < {row["word"] for row in text["words"]}
    assert client.get(f"subscriptions/{id}").json() == found
    assert thumb(client, id, f"cat{fresh}", None).json()["feedback"]["texts"] == []
    (listed,) = client.get("subscriptions").json()["items"]
    assert listed["feedback"] is True


def test_what_was_learnt_goes_out_and_in(served, fresh, zoo):
    owner, id = zoo
    thumb(served.client(owner), id, f"cat{fresh}", "up")
    lines = served.client(owner).get("subscriptions", headers={"Accept": "application/x-ndjson"}).text
    other = served.client(f"subscriber-other-{fresh}")
    answer = other.post("subscriptions", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert answer.json()["id"] == id
    there, here = (client.get(f"subscriptions/{id}").json()["feedback"] for client in (served.client(owner), other))
    assert here["thumbs"] == there["thumbs"]
    assert here["texts"] == there["texts"]


def test_bad_thumbs_are_refused(served, fresh, zoo):
    owner, id = zoo
    client = served.client(owner)
    error_of(thumb(client, id, f"tax{fresh}", "up"), 404, "not_found")
    error_of(thumb(client, id, f"cat{fresh}", "up", version=9), 404, "not_found")
    error_of(thumb(client, id, f"cat{fresh}", "sideways"), 422)
    error_of(thumb(client, id, f"cat{fresh}", "up", weight=2), 422)
    error_of(thumb(client, "nothing", f"cat{fresh}", "up"), 404, "not_found")
    error_of(client.post(f"subscriptions/{id}/thumbs", content="{", headers={"Content-Type": "application/json"}), 422)
    client.post("subscriptions", json={"id": f"plain-{fresh}", "query": "x"})
    error_of(thumb(client, f"plain-{fresh}", f"cat{fresh}", "up"), 409)
    stranger = served.client(f"subscriber-stranger-{fresh}")
    error_of(thumb(stranger, id, f"cat{fresh}", "up"), 404, "not_found")
    assert client.get(f"subscriptions/{id}").json()["feedback"]["thumbs"] == []


# --- the page --------------------------------------------------------------------------------------------------------


def buttons(page: httpx.Response, document: str) -> dict[str, str]:
    """The values of the thumbs of a document, by what they are called; a pressed one has a star."""
    found = {}
    for form in tree(page).xpath("//form[contains(@class, 'thumbs')]"):
        if form.xpath("string(input[@name='document']/@value)") == document:
            for button in form.iter("button"):
                name = " ".join(button.text_content().split())
                found[name + ("*" if button.get("aria-pressed") == "true" else "")] = button.get("value")
    return found


def test_thumbs_are_pressed_on_the_page_and_pressed_again_taken_back(served, fresh, zoo):
    owner, id = zoo
    visitor = Visitor(served, owner)
    cat = f"cat{fresh}"
    names = f"More like this: {cat}", f"Less like this: {cat}"
    page = visitor.get("/alerts")
    assert buttons(page, cat) == {names[0]: "up", names[1]: "down"}
    is_clean(page)
    values = {"subscription": id, "document": cat, "version": "1", "only": id}
    answer = visitor.post("/alerts", **values, do="up")
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/alerts?subscription=zoo%2F")
    page = visitor.get(answer.headers["location"])
    assert "Jaguars looks for more like it." in page.text
    assert buttons(page, cat) == {f"{names[0]}*": "none", names[1]: "down"}
    visitor.post("/alerts", **values, do="down")
    assert buttons(visitor.get("/alerts"), cat) == {names[0]: "up", f"{names[1]}*": "none"}
    visitor.post("/alerts", **values, do="none")
    assert buttons(visitor.get("/alerts"), cat) == {names[0]: "up", names[1]: "down"}
    assert visitor.post("/alerts", **values, do="sideways").status_code == 422
    assert visitor.post("/alerts", **(values | {"version": "x"}), do="up").status_code == 422


def test_nobody_else_presses(served, fresh, zoo):
    owner, id = zoo
    values = {"subscription": id, "document": f"cat{fresh}", "version": "1", "do": "up"}
    assert Visitor(served, f"subscriber-{fresh}-2").post("/alerts", **values).status_code == 404
    forged = Visitor(served, owner).client.post("/alerts", data={**values, "seal": "0" * 64})
    assert forged.status_code == 403
    elsewhere = Visitor(served, owner)
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert (
        elsewhere.client.post("/alerts", data={**values, "seal": elsewhere.seal()}, headers=headers).status_code == 403
    )
    assert httpx.post(f"{served.url}/alerts", data=values, headers=LIKE_A_BROWSER).status_code == 401
    assert served.client(owner).get(f"subscriptions/{id}").json()["feedback"]["thumbs"] == []


def test_without_feedback_there_are_no_thumbs(served, fresh):
    owner = f"subscriber-{fresh}"
    served.client(owner).post("subscriptions", json={"id": "s", "query": f"word{fresh}"})
    served.client("admin").post("documents", json={"id": f"d{fresh}", "t": f"word{fresh}"})
    eventually(lambda: served.client(owner).get("notifications").json()["items"])
    page = Visitor(served, owner).get("/alerts")
    assert f"d{fresh}" in page.text
    assert not buttons(page, f"d{fresh}")


def test_names_and_ids_are_only_text(served, fresh):
    owner, word = f"subscriber-{fresh}", f"word{fresh}"
    attacks = [attack for attack in ATTACKS if attack.isprintable()]  # others are refused as an id
    for number, attack in enumerate(attacks):
        body = {"id": f"{number} {attack}"[:190], "query": f't ~ "{word}" >= 0.01', "feedback": True, "name": attack}
        assert served.client(owner).post("subscriptions", json=body).status_code == 201
    for number, attack in enumerate(attacks):
        served.client("admin").post("documents", json={"id": f"{number}{fresh}{attack}", "t": f"{word} {attack}"})
    count = len(attacks) ** 2
    eventually(lambda: len(served.client(owner).get("notifications").json()["items"]) == count)
    visitor = Visitor(served, owner)
    is_clean(visitor.get("/alerts"))
    attack = attacks[1]
    values = {"subscription": f"1 {attack}", "document": f"1{fresh}{attack}", "version": "1", "do": "up"}
    answer = visitor.post("/alerts", **values, only=values["subscription"])
    assert answer.status_code == 303
    page = visitor.get(answer.headers["location"])
    is_clean(page)
    assert any(name.endswith("*") for name in buttons(page, f"1{fresh}{attack}"))


def test_the_editor_turns_feedback_on_and_off(served, fresh):
    visitor = Visitor(served, f"subscriber-{fresh}")
    client = served.client(f"subscriber-{fresh}")
    given = {"query": 't ~ "jaguar" >= 0.2', "do": "save", "mode": "immediate", "where": "inbox"}
    assert visitor.post("/editor", **given, feedback="yes").status_code == 200
    (made,) = client.get("subscriptions").json()["items"]
    assert made["feedback"] is True
    page = tree(visitor.get("/editor", id=made["id"]))
    assert page.xpath("//input[@name='feedback']/@checked")
    assert visitor.post("/editor", **given, id=made["id"]).status_code == 200
    assert "feedback" not in client.get("subscriptions").json()["items"][0]
    refused = visitor.post("/editor", **(given | {"query": "peer"}), feedback="yes")
    assert refused.status_code == 422
    assert "Feedback moves the text of a similarity" in refused.text
