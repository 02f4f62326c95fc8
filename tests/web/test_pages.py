"""The pages of a site, as a browser without scripts sees them."""

from __future__ import annotations

import json

import pytest

from tests.web.browsing import Visitor, marks, tree
from tests.web.serving import Serving, eventually

QUERY = "alarm AND bell*"


def words(page) -> str:
    return " ".join(" ".join(tree(page).itertext()).split())


@pytest.fixture
def visitor(served: Serving, request) -> Visitor:
    return Visitor(served, f"publisher-{request.node.name.replace('[', '-').replace(']', '')[:80]}")


def publish(visitor: Visitor, account: str = "publisher-source", **document) -> None:
    answer = visitor.served.client(account).post("documents", json=document)
    assert answer.json()["accepted"] == 1, answer.text


def alerts(visitor: Visitor, count: int, **parameters: str):
    return eventually(lambda: (page := visitor.get("/alerts", **parameters)).text.count("<article") == count and page)


def test_a_newcomer_without_scripts_gets_from_the_door_to_an_alert(visitor):
    assert "Write your first query" in words(visitor.get("/"))
    mistake = visitor.post("/editor", query="alarm AND", do="save")
    assert mistake.status_code == 422
    assert "Expected a word, a phrase or '(' here" in words(mistake)
    assert tree(mistake).find(".//textarea").text == "alarm AND"
    line, caret = tree(mistake).find(".//pre").text_content().split("\n")
    assert (line, caret) == ("alarm AND", " " * 9 + "^")
    saved = visitor.post("/editor", query=QUERY, name="Bells", do="save", mode="immediate")
    assert saved.status_code == 200
    assert "It sees every document that is accepted from now on" in words(saved)
    publish(visitor, id="n1", title="The alarm of the bells", abstract="Nothing else.")
    page = alerts(visitor, 1)
    assert marks(page) == ["alarm", "bells"]
    assert "“alarm” in title, word 2" in words(page)
    assert "Bells" in words(page)
    assert marks(visitor.get("/")) == ["alarm", "bells"]


def test_the_same_form_sent_twice_makes_one_subscription(visitor):
    key = tree(visitor.get("/editor")).xpath("string(//input[@name='key']/@value)")
    assert len(key) > 20
    for _ in range(2):
        assert visitor.post("/editor", query="twice", key=key, do="save").status_code == 200
    assert visitor.get("/subscriptions").text.count("<article") == 1


def test_a_preview_shows_what_would_have_been_found(visitor):
    word = "previewed"
    for n in range(12):
        publish(visitor, id=f"v{n}", title=f"A {word} paper", time=f"2026-11-{n + 1:02}T12:00:00Z")
    publish(visitor, id="other", title="Another paper")
    page = visitor.post("/editor", query=word, do="preview")
    assert "It would have found 12 documents" in words(page)
    assert page.text.count("<article") == 10
    assert marks(page) == [word] * 10
    assert len(tree(page).xpath("//figure//*[@class='fill'][@height > 0]")) == 12
    assert "alerts a day" in words(page)
    piece = visitor.post("/editor/preview", query=word)
    assert "It would have found 12 documents" in words(piece)
    assert "<html" not in piece.text
    assert visitor.post("/editor/preview", query=f"{word} AND").status_code == 422
    assert visitor.get("/subscriptions").text.count("<article") == 0  # nothing was saved


@pytest.mark.parametrize(
    ("query", "state", "position"),
    [
        ("", "empty", None),
        ("good", "good", None),
        ("(bad AND", "mistake", 8),
        ('"open', "mistake", 0),
        ("a\r\nb)", "mistake", 3),
    ],
    ids=["empty", "good", "unfinished", "unclosed", "second-line"],
)
def test_the_check_says_where_a_mistake_is(visitor, query, state, position):
    found = json.loads(visitor.post("/editor/check", query=query).text)
    assert found["state"] == state
    assert found.get("position") == position
    if state == "mistake":
        typed = query.replace("\r\n", "\n").split("\n")
        assert found["line"] == typed[-1]
        assert found["caret"].index("^") == position - sum(len(line) + 1 for line in typed[:-1])


def test_the_check_warns_of_what_can_never_hold(visitor):
    found = json.loads(visitor.post("/editor/check", query="a AND NOT a").text)
    assert any("never holds" in note for note in found["notes"])


def test_the_contract_names_what_is_there_already(visitor):
    visitor.post("/editor", query="peer", name="Peers", do="save")
    assert "which you have already" in words(visitor.post("/editor", query="peer", do="preview"))
    assert "Covered by" in words(visitor.post("/editor", query="peer AND churn", do="save"))


def test_a_subscription_is_paused_resumed_muted_edited_and_deleted(visitor):
    api = visitor.served.client(visitor_name(visitor))
    visitor.post("/editor", query="first", name="Mine", do="save")
    id = api.get("subscriptions").json()["items"][0]["id"]

    def state() -> str:
        return str(api.get(f"subscriptions/{id}").json()["state"])

    for action, then in (("pause", "paused"), ("resume", "active"), ("pause", "paused"), ("resume", "active")):
        assert visitor.post("/subscriptions", id=id, do=action).status_code == 303
        assert state() == then
    assert visitor.post("/subscriptions", id=id, do="mute", hours="8", arriving="hold").status_code == 303
    assert api.get(f"subscriptions/{id}").json()["mute"]["arriving"] == "hold"
    assert visitor.post("/subscriptions", id=id, do="resume").status_code == 303
    muted = visitor.post("/subscriptions", id=id, do="mute", until="2099-01-02T03:04", hours="1", arriving="drop")
    assert muted.status_code == 303
    assert api.get(f"subscriptions/{id}").json()["mute"] == {"until": "2099-01-02T03:04:00.000Z", "arriving": "drop"}
    assert "muted until 2099-01-02 03:04 UTC" in words(visitor.get("/subscriptions"))
    form = tree(visitor.get("/editor", id=id))
    assert form.find(".//textarea").text == "first"
    visitor.post("/editor", id=id, query="second", name="Still mine", tags="a, b", mode="hourly", do="save")
    changed = api.get(f"subscriptions/{id}").json()
    assert (changed["query"], changed["name"], changed["tags"]) == ("second", "Still mine", ["a", "b"])
    assert changed["mode"]["every"] == "hour"
    visitor.post("/editor", id=id, query="third", mode="keep", do="save")
    assert api.get(f"subscriptions/{id}").json()["mode"]["every"] == "hour"
    assert visitor.post("/subscriptions", id=id, do="delete").status_code == 303
    assert api.get(f"subscriptions/{id}").status_code == 404
    for action in ("pause", "delete"):
        assert visitor.post("/subscriptions", id=id, do=action).status_code == 404


def visitor_name(visitor: Visitor) -> str:
    return next(name for name in visitor.served.tokens if f">{name}<" in visitor.get("/settings").text)


def test_alerts_are_filtered_by_words_and_subscription_and_paged(visitor):
    for name in ("red", "blue"):
        visitor.post("/editor", query=f"paint AND {name}", name=name, do="save")
    for n in range(25):
        publish(visitor, id=f"paint{n}", title=f"{'red' if n % 5 else 'blue'} paint number{n}")
    eventually(lambda: "number24" in visitor.get("/alerts").text)
    first = visitor.get("/alerts")
    assert first.text.count("<article") == 20
    rest = tree(first).xpath("string(//nav[@class='pages']/a[last()]/@href)")
    second = visitor.get(rest)
    titles = [text for page in (first, second) for text in tree(page).xpath("//h2[@class='match-title']//text()")]
    assert "number24" in "".join(titles[:2])  # the newest first
    assert second.text.count("<article") == 5
    assert visitor.get("/alerts", words="number7").text.count("<article") == 1
    assert visitor.get("/alerts", words="BLUE paint").text.count("<article") == 5
    assert visitor.get("/alerts", words="nowhere").text.count("<article") == 0
    api = visitor.served.client(visitor_name(visitor))
    ids = {one["name"]: one["id"] for one in api.get("subscriptions").json()["items"]}
    assert visitor.get("/alerts", subscription=ids["blue"]).text.count("<article") == 5
    assert visitor.get("/alerts", subscription=ids["blue"], words="number5").text.count("<article") == 1
    assert visitor.get("/alerts", subscription="not there").text.count("<article") == 20
    for nonsense in ("x", "-1", "9" * 40, "1e9"):
        visitor.get("/alerts", before=nonsense)


def test_what_is_held_is_not_shown_before_it_is_told(visitor):
    visitor.post("/editor", query="holding", name="Held", do="save")
    api = visitor.served.client(visitor_name(visitor))
    id = api.get("subscriptions").json()["items"][0]["id"]
    visitor.post("/subscriptions", id=id, do="mute", hours="1", arriving="hold")
    publish(visitor, id="held1", title="holding on")
    eventually(lambda: json.loads(visitor.get("/pulse").text)["last"])
    assert visitor.get("/alerts").text.count("<article") == 0
    visitor.post("/subscriptions", id=id, do="resume")
    alerts(visitor, 1)


def test_the_overview_counts_what_came_in_and_matched(visitor):
    visitor.post("/editor", query="overviewed", name="Watched", do="save")
    for n in range(3):
        publish(visitor, id=f"o{n}", title="overviewed")
    eventually(lambda: "Matched 3 alerts for you" in words(visitor.get("/")))
    page = visitor.get("/")
    assert "Alerts: 3 in 14 days" in page.text
    assert "Everything that came in is matched" in words(page)


def test_a_preview_names_what_it_covers_and_repeats_nothing_that_stands_beside_it(visitor):
    visitor.post("/editor", query="covered AND narrowly", name="The narrow one", do="save")
    piece = visitor.post("/editor/preview", query="covered")
    assert "Covers The narrow one" in words(piece)
    assert "Read as" not in words(piece)  # the form says so while one types
    assert "Read as covered" in words(visitor.post("/editor", query="covered", do="preview"))  # without scripts


def test_a_deleted_document_leaves_why_it_matched(visitor):
    visitor.post("/editor", query="fleeting", do="save")
    publish(visitor, id="gone1", title="A fleeting thing")
    alerts(visitor, 1)
    assert visitor.served.client("publisher-source").delete("documents/gone1").status_code == 202
    page = words(eventually(lambda: "was deleted since" in (found := visitor.get("/alerts")).text and found))
    assert "gone1" in page
    assert "“fleeting” in title, word 2" in page
    assert "A fleeting thing" not in page


def test_an_account_makes_and_revokes_its_own_tokens(visitor):
    made = visitor.post("/settings/tokens", label="my script", days="30")
    token = tree(made).xpath("string(//*[@class='secret']/code)")
    assert token.startswith("toc_")
    assert token not in visitor.get("/settings").text
    other = Visitor(visitor.served)
    assert other.sign_in(token).status_code == 303
    mark = tree(visitor.get("/settings")).xpath("string(//li[contains(., 'my script')]//input[@name='mark']/@value)")
    assert visitor.post("/settings/revoke", mark=mark).status_code == 303
    assert other.client.get("/").status_code == 303  # its session ended with its token
    assert visitor.post("/settings/revoke", mark=mark).status_code == 422
    mine = tree(visitor.get("/settings")).xpath("string(//input[@name='mark']/@value)")
    assert "last token" in words(visitor.post("/settings/revoke", mark=mine))


def test_a_token_made_on_a_page_does_not_outlive_the_one_that_made_it(served):
    import time

    from tocsin.site import accounts

    accounts.create(served.site.store, "short-lived", "subscriber")
    end = time.time() + 3_600
    visitor = Visitor(served)
    assert visitor.sign_in(accounts.token(served.site.store, "short-lived", "short", end)).status_code == 303
    for days in ("", "365"):
        assert visitor.post("/settings/tokens", label="long", days=days).status_code == 200
    assert {one.expires for one in accounts.tokens_of(served.site.store, "short-lived")} == {end}


def test_the_administrator_makes_an_account_and_sees_dead_letters(served):
    from tocsin.store import outbox
    from tocsin.store.outbox import Letter

    with served.site.store.write() as transaction:
        outbox.refuse(transaction, "files", [Letter("a.jsonl:7", "no JSON", "<b>{</b>")])
    admin = Visitor(served, "admin")
    page = admin.get("/dead-letters")
    assert "No JSON" in words(page)
    assert "&lt;b&gt;{" in page.text
    made = admin.post("/settings/accounts", name="colleague", role="subscriber")
    colleague = Visitor(served)
    assert colleague.sign_in(tree(made).xpath("string(//*[@class='secret']/code)")).status_code == 303
    assert "JSON" not in words(colleague.get("/dead-letters"))
    assert "Follow a source" in words(admin.get("/sources"))
    assert "Follow a source" not in words(colleague.get("/sources"))  # how they fare is everybody's to see


def test_a_page_that_is_not_there_is_told_in_the_language_of_who_asks(served):
    visitor = Visitor(served)
    assert visitor.client.get("/static/other.js").status_code == 404
    assert served.client(None).get("/").status_code == 404


def test_static_files_are_kept_by_the_browser_and_change_their_address_with_their_content(served):
    page = tree(Visitor(served).client.get("/sign-in"))
    address = page.xpath("string(//link[@rel='stylesheet']/@href)")
    answer = Visitor(served).client.get(address)
    assert answer.headers["content-type"].startswith("text/css")
    assert "immutable" in answer.headers["cache-control"]
    assert "?" in address


def test_a_preview_is_the_pipelines_and_while_it_starts_the_sites_own(tmp_path):
    from tests.web.serving import serving
    from tests.web.test_preview import Remembering
    from tocsin.errors import PipelineError

    asked = []

    class Starting(Remembering):
        is_ready = False

        def preview(self, wanted, period):
            asked.append(wanted.query)
            if not self.is_ready:
                raise PipelineError("Spark starts")
            return super().preview(wanted, period)

    with serving(tmp_path, pipeline=Starting) as served:
        visitor = Visitor(served, "publisher-early")
        publish(visitor, id="p", title="early", xml="<paper/>")
        for is_ready in (False, True):
            Starting.is_ready = is_ready
            page = visitor.post("/editor", query="early", xpath="/paper", do="preview")
            assert "It would have found 1 document" in words(page)
    assert asked == ["early", "early"]
