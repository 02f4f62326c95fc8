"""What strangers may try on the pages: no session, another's form, a planted session, text that would be a script."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape

import httpx
import pytest

from tests.web.browsing import LIKE_A_BROWSER, Visitor, seal_of, tree
from tests.web.serving import ADMIN_TOKEN, Serving, eventually
from tocsin.site import accounts
from tocsin.site.accounts import Right
from tocsin.store import channels
from tocsin.store import sources as kept
from tocsin.store.sources import PAUSED, Source
from tocsin.web.pages.render import POLICY
from tocsin.web.pages.session import BEFORE, COOKIE, SESSIONS_MAX, Sessions
from tocsin.web.pages.table import FILES, PAGES
from tocsin.web.pages.view import local

ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</textarea><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "<!--<script>",
    "\u2028<b>\u202e",
)
KNOWN = set(
    "a article b body br button circle code dd details div dl dt em figcaption figure form g h1 h2 h3 head header "
    "html i input label li line link main mark meta nav option output p path polygon polyline pre rect script section "
    "select small span summary svg table tbody td textarea th thead time title tr ul caption".split()
)


NEED_A_NAME = ("/view",)
NO_PAGES = ("/sources/pulse", "/pulse", "/views/pulse", "/sources/opml")


def ids(page) -> str:
    return f"{page.method} {page.path}"


def is_clean(answer: httpx.Response) -> None:
    """The page holds no element, attribute or address that a template did not write."""
    page = tree(answer)
    for element in page.iter():
        if not isinstance(element.tag, str):
            raise AssertionError(f"a comment: {element}")
        assert element.tag in KNOWN, element.tag
        for name, value in element.attrib.items():
            assert not name.startswith("on"), (element.tag, name)
            assert name != "style"
            if name in ("href", "src", "action"):
                assert re.match(r"(/|#|https?://)", value), value
    assert [script.get("src", "")[:18] for script in page.iter("script")] == ["/static/tocsin.js?"]
    assert not any(script.text for script in page.iter("script"))


# --- who may ---------------------------------------------------------------------------------------------------------


def test_only_these_pages_are_open():
    assert {page.path for page in (*PAGES, *FILES) if page.right is None} == {
        "/sign-in",
        *(f"/static/{name}" for name in ("tocsin.css", "tocsin.js", "icon.svg")),
    }


@pytest.mark.parametrize("page", [page for page in PAGES if page.right is not None], ids=ids)
@pytest.mark.parametrize("cookie", ["", "x" * 43, "a;b", "\xff"], ids=["none", "unknown", "odd", "latin"])
def test_without_a_session_nothing_is_shown(served, page, cookie):
    headers: dict[bytes, bytes] = {name.encode(): value.encode() for name, value in LIKE_A_BROWSER.items()}
    headers[b"Cookie"] = f"{COOKIE}={cookie}".encode("latin-1")
    answer = httpx.request(
        page.method, served.url + page.path, headers=headers, data={"seal": "x"} if page.method == "POST" else None
    )
    if page.method == "GET":
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/sign-in")
    else:
        assert answer.status_code == 401


@pytest.mark.parametrize("page", [page for page in PAGES if page.right is not None], ids=ids)
def test_a_bearer_token_opens_no_page_and_a_cookie_no_call(served, page):
    headers = {**LIKE_A_BROWSER, "Authorization": f"Bearer {ADMIN_TOKEN}"}
    assert httpx.request(page.method, served.url + page.path, headers=headers).status_code in (303, 401)
    visitor = Visitor(served, "admin")
    assert visitor.client.get("/api/v1/subscriptions").status_code == 401


@pytest.mark.parametrize("page", [page for page in PAGES if page.right is Right.ADMINISTER], ids=ids)
@pytest.mark.parametrize("role", ["subscriber", "publisher"])
def test_pages_of_the_administrator_are_closed_to_others(served, page, role):
    visitor = Visitor(served, f"{role}-curious")
    data = {"seal": visitor.seal(), "name": "intruder", "role": "admin"} if page.method == "POST" else None
    assert visitor.client.request(page.method, page.path, data=data).status_code == 403
    assert "intruder" not in Visitor(served, "admin").get("/settings").text


@pytest.mark.parametrize("page", [page for page in PAGES if page.right is Right.PUBLISH], ids=ids)
def test_pages_of_publishers_are_closed_to_subscribers(served, page):
    visitor = Visitor(served, "subscriber-curious")
    data = {"seal": visitor.seal(), "address": "https://intruder.example.org/feed", "do": "pause", "number": "1"}
    answer = visitor.client.request(page.method, page.path, data=data if page.method == "POST" else None)
    assert answer.status_code == 403
    assert "intruder" not in Visitor(served, "admin").get("/sources").text


def test_a_source_is_managed_by_whoever_added_it(served):
    owner, other = Visitor(served, "publisher-owner"), Visitor(served, "publisher-other")
    address = "https://secret-path.invalid/feed?key=s3cret"
    assert owner.post("/sources/add", address=address, name="Mine").status_code == 303
    number = next(one.number for one in kept.listed(served.site.store) if one.address == address)
    assert "s3cret" in owner.get("/sources").text
    assert "s3cret" not in other.get("/sources").text
    assert "s3cret" not in other.get("/sources/opml").text
    for action in ("pause", "remove", "visit"):
        assert other.post("/sources", number=str(number), do=action).status_code == 403
    assert kept.find(served.site.store, number) is not None
    assert owner.post("/sources", number=str(number), do="remove").status_code == 303


def test_a_channel_is_its_accounts_own(served):
    owner, other = Visitor(served, "subscriber-owner"), Visitor(served, "subscriber-other")
    assert owner.post("/channels/add", url="ntfy://s3cret-topic", name="Phone").status_code == 303
    page = owner.get("/channels")
    assert "Phone" in page.text
    assert "s3cret-topic" not in page.text  # it is not shown again, to nobody
    number = tree(page).xpath("string(//input[@name='number']/@value)")
    for action in ("test", "remove", "ask"):
        assert other.post("/channels", number=number, do=action).status_code == 404
    assert other.post("/editor", query="x", where=f"channel-{number}", do="save").status_code in (404, 422)
    assert "Phone" not in other.get("/channels").text
    assert owner.post("/channels/feeds").status_code == 303
    mark = tree(owner.get("/channels")).xpath("string(//input[@name='mark']/@value)")
    assert other.post("/channels", mark=mark, do="end-feed").status_code == 404


def test_what_is_anothers_is_not_found(served):
    owner, other = Visitor(served, "subscriber-owner"), Visitor(served, "subscriber-other")
    served.client("subscriber-owner").post(
        "subscriptions", json={"id": "private", "query": "confidential", "name": "Private"}
    )
    assert "Private" in owner.get("/subscriptions").text
    assert other.client.get("/editor?id=private").status_code == 404
    for action in ("pause", "delete", "mute"):
        assert other.post("/subscriptions", id="private", do=action, hours="1").status_code == 404
    assert other.post("/editor", id="private", query="changed", do="save").status_code in (404, 422)
    assert served.client("subscriber-owner").get("subscriptions/private").json()["query"] == "confidential"
    for path in ("/", "/alerts", "/subscriptions", "/settings", "/dead-letters"):
        assert "onfidential" not in other.get(path).text


def test_a_token_that_is_revoked_ends_its_sessions(served):
    accounts.create(served.site.store, "leaver", "subscriber")
    visitor = Visitor(served)
    visitor.sign_in(accounts.token(served.site.store, "leaver", "one"))
    visitor.get("/")
    accounts.revoke(served.site.store, "leaver", "one")
    assert visitor.client.get("/").status_code == 303


# --- forms of other sites --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if page.method == "POST"], ids=ids)
@pytest.mark.parametrize("forgery", ["none", "empty", "another's", "other site", "not a form"])
def test_a_form_that_this_site_did_not_make_is_refused(served, page, forgery):
    visitor, other = Visitor(served, "subscriber-victim"), Visitor(served, "subscriber-attacker")
    served.client("subscriber-victim").post("subscriptions", json={"id": "kept", "query": "kept"})
    data = {"id": "kept", "do": "delete", "token": ADMIN_TOKEN, "query": "forged", "label": "forged"}
    headers = {}
    if forgery == "empty":
        data["seal"] = ""
    elif forgery == "another's":
        data["seal"] = other.seal()
    elif forgery == "other site":
        data["seal"], headers = visitor.seal(), {"Sec-Fetch-Site": "cross-site"}
    if forgery == "not a form":
        answer = visitor.client.post(page.path, json=data | {"seal": visitor.seal()})
        assert answer.status_code == 415
    else:
        answer = visitor.client.post(page.path, data=data, headers=headers)
        assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    visitor.get("/")  # still signed in
    assert [one["query"] for one in served.client("subscriber-victim").get("subscriptions").json()["items"]] == ["kept"]
    assert "forged" not in visitor.get("/settings").text


def test_nobody_is_signed_in_by_a_strangers_form(served):
    stranger = httpx.Client(base_url=served.url, headers=LIKE_A_BROWSER)
    with stranger:
        seal = seal_of(stranger.get("/sign-in"))
    answer = httpx.post(f"{served.url}/sign-in", data={"seal": seal, "token": ADMIN_TOKEN}, headers=LIKE_A_BROWSER)
    assert answer.status_code == 403
    assert COOKIE not in answer.headers.get("set-cookie", "")


# --- sessions --------------------------------------------------------------------------------------------------------


def test_a_planted_session_is_worth_nothing(served):
    """Session fixation: whatever ids the browser has before, the sign-in draws a new one."""
    planted = "planted" * 6
    victim = Visitor(served)
    victim.client.cookies.set(COOKIE, planted, domain="127.0.0.1", path="/")
    answer = victim.sign_in(ADMIN_TOKEN)
    fresh = re.search(rf"{COOKIE}=([\w-]{{43}});", answer.headers["set-cookie"])
    assert fresh
    assert fresh[1] != planted
    attacker = httpx.get(f"{served.url}/", headers={**LIKE_A_BROWSER, "Cookie": f"{COOKIE}={planted}"})
    assert attacker.status_code == 303


def test_every_sign_in_has_its_own_id_and_ends_the_one_before(served):
    visitor = Visitor(served, "subscriber-again")
    first = visitor.client.cookies[COOKIE]
    visitor.client.cookies.set(BEFORE, "b" * 43, domain="127.0.0.1", path="/")
    page = visitor.client.get("/settings")
    answer = visitor.client.post("/sign-in", data={"seal": seal_of(page), "token": served.token("subscriber-again")})
    assert answer.status_code == 303
    second = re.search(rf"{COOKIE}=([\w-]{{43}})", answer.headers["set-cookie"])
    assert second
    assert second[1] != first
    assert httpx.get(served.url, headers={**LIKE_A_BROWSER, "Cookie": f"{COOKIE}={first}"}).status_code == 303


def test_signing_out_ends_the_session_on_the_server_too(served):
    visitor = Visitor(served, "subscriber-out")
    id = visitor.client.cookies[COOKIE]
    answer = visitor.post("/sign-out")
    assert answer.headers["location"] == "/sign-in"
    assert httpx.get(served.url, headers={**LIKE_A_BROWSER, "Cookie": f"{COOKIE}={id}"}).status_code == 303


def test_cookies_are_for_this_site_and_not_for_scripts(served):
    visitor = Visitor(served)
    before = visitor.client.get("/sign-in").headers["set-cookie"]
    after = visitor.sign_in(ADMIN_TOKEN).headers.get_list("set-cookie")
    for cookie in (before, *after):
        words = {word.strip().lower() for word in cookie.split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/"} <= words
        assert not any(word.startswith("domain") for word in words)
        assert ADMIN_TOKEN not in cookie


def test_behind_tls_cookies_never_go_without_it():
    from starlette.requests import Request
    from starlette.responses import Response

    from tocsin.web.pages.session import set_cookie

    scope = {
        "type": "http",
        "scheme": "https",
        "path": "/",
        "headers": [],
        "server": ("tocsin.example", 443),
        "query_string": b"",
    }
    response = Response()
    set_cookie(response, Request(scope), COOKIE, "x")
    assert "secure" in response.headers["set-cookie"].lower()


def test_sessions_end_by_themselves_and_are_bounded():
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    id = sessions.begin("token")
    for _ in range(20):
        now[0] += 11 * 3_600
        alive = sessions.find(id) is not None
    assert not alive  # a week, however busy
    idle = sessions.begin("token")
    now[0] += 13 * 3_600
    assert sessions.find(idle) is None
    newest = [sessions.begin("token") for _ in range(SESSIONS_MAX + 10)][-1]
    assert sessions.find(newest) is not None
    assert len(sessions._sessions) <= SESSIONS_MAX
    assert "token" not in repr(sessions.find(newest))


def test_guessing_tokens_is_slowed_down(served):
    visitor = Visitor(served)
    visitor.sign_in("wrong")
    seal = seal_of(visitor.client.get("/sign-in"))
    found = [visitor.client.post("/sign-in", data={"seal": seal, "token": f"guess{n}"}).status_code for n in range(15)]
    assert found[0] == 403
    assert 429 in found


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "\\/evil", "/a\nb", ""]
)
def test_a_sign_in_leads_nowhere_else(served, path):
    assert local(path) == "/"
    answer = Visitor(served).sign_in(ADMIN_TOKEN, next=path)
    assert answer.headers["location"] == "/"


def test_a_sign_in_leads_back_to_where_one_was(served):
    visitor = Visitor(served)
    answer = visitor.client.get("/alerts?words=a%26b")
    page = visitor.client.get(answer.headers["location"])
    following = tree(page).xpath("string(//input[@name='next']/@value)")
    assert following == "/alerts?words=a%26b"
    assert visitor.sign_in(ADMIN_TOKEN, next=following).headers["location"] == following


# --- what a page may load --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.method == "GET" and page.path not in NO_PAGES], ids=ids
)
def test_every_page_forbids_what_it_does_not_need(served, page):
    answer = Visitor(served, None if page.right is None else "admin").client.get(page.path)
    assert answer.status_code == (404 if page.path in NEED_A_NAME else 200)
    policy = answer.headers["content-security-policy"]
    assert policy == POLICY
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    is_clean(answer)


def test_no_page_loads_anything_from_elsewhere(served):
    for path in ("/static/tocsin.css", "/static/tocsin.js", "/static/icon.svg"):
        text = httpx.get(served.url + path).text.replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text
        assert "@import" not in text
        assert "url(" not in text


# --- text that would be more than text -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def attacked(served: Serving) -> Serving:
    """Every text that anybody may write is an attack; all of it is about one word, so that everything is shown."""
    client = served.client("publisher-attacked")
    for n, attack in enumerate(ATTACKS):
        id = f"s{attack}{n}".strip()
        body: dict[str, object] = {
            "id": id if id.isprintable() else f"s{n}",
            "query": f'victim OR "{attack.replace(chr(34), "")}"',
            "name": attack,
            "tags": [attack],
        }
        assert client.post("subscriptions", json=body).status_code == 201, body
        document: dict[str, object] = {
            "id": f"d{attack}{n}",
            "title": f"victim {attack}",
            "abstract": f"{attack} victim {attack}",
        }
        document |= {"author": [attack], "link": attack, "source": attack, f"field{n}": attack}
        answer = client.post("documents", json=document)
        assert answer.json()["accepted"] == 1, answer.text
        source = Source(
            0, f"k{n}", "feed", f"https://{n}.example.org/?{attack}", attack, "publisher-attacked", 60.0, PAUSED
        )
        made = kept.add(served.site.store, replace(source, tags=(attack,), problem=attack, note=attack, failures=2))
        assert made is not None
        saved = channels.save(
            served.site.store, "publisher-attacked", "mail", f"{n}{attack}", name=attack, is_confirmed=n % 2 == 0
        )
        assert saved is not None
        channels.set_saved(served.site.store, saved.number, problem=attack)
    assert client.post("feeds", params={"tag": ATTACKS[0]}).status_code == 201
    count = len(ATTACKS)
    eventually(
        lambda: len(client.get("notifications", params={"limit": 1000}).json()["items"]) >= count * (count + 1) // 2
    )
    return served


@pytest.mark.parametrize(
    "path",
    ["/", "/alerts", "/subscriptions", "/settings", "/dead-letters", "/alerts?words=victim", "/sources", "/channels"],
)
def test_what_others_wrote_is_shown_as_text(attacked, path):
    answer = Visitor(attacked, "publisher-attacked").get(path)
    is_clean(answer)
    if path in ("/alerts", "/subscriptions", "/sources", "/channels"):
        assert "<script>alert(1)</script>" in "".join(tree(answer).itertext())
        assert "{{ 7 * 7 }}" in "".join(tree(answer).itertext())


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_typed_comes_back_as_text(attacked, attack):
    visitor = Visitor(attacked, "publisher-attacked")
    for path in ("/editor", "/alerts"):
        is_clean(visitor.get(path, query=attack, words=attack, note=attack, before=attack, tag=attack))
    for query in (attack, f"victim AND {attack}", f'victim OR "{attack}"'):
        for action in ("preview", "save"):
            is_clean(
                visitor.post(
                    "/editor",
                    query=query,
                    name=attack,
                    tags=attack,
                    xpath=attack,
                    webhook=attack,
                    mode=attack,
                    id="",
                    key="",
                    do=action,
                )
            )
    is_clean(visitor.post("/editor", query="victim", do="preview"))
    is_clean(Visitor(attacked).client.get("/sign-in", params={"next": attack}))
    is_clean(visitor.post("/settings/tokens", label=attack, days=""))
    is_clean(visitor.post("/subscriptions", id=attack, do=attack))
    is_clean(visitor.post("/sources/add", address=attack, name=attack, tags=attack, set=attack, kind=attack))
    is_clean(visitor.post("/sources/import", opml=attack))
    outline = escape(attack, quote=True)
    is_clean(
        visitor.post(
            "/sources/import", opml=f'<opml><body><outline xmlUrl="{outline}" text="{outline}"/></body></opml>'
        )
    )
    is_clean(visitor.post("/channels/add", to=attack, name=attack))
    is_clean(visitor.post("/channels/add", url=attack, name=attack))
    is_clean(visitor.post("/channels", do=attack, number=attack, id=attack, code=attack))


def test_a_link_is_followed_only_to_the_web(attacked):
    page = tree(Visitor(attacked, "publisher-attacked").get("/alerts"))
    assert not [link for link in page.xpath("//a/@href") if "script:" in link]
    client = attacked.client("publisher-attacked")
    client.post("documents", json={"id": "linked", "title": "victim linked", "link": "https://papers.example/1"})
    visitor = Visitor(attacked, "publisher-attacked")
    found = eventually(lambda: tree(visitor.get("/alerts")).xpath("//a[@href='https://papers.example/1']"))
    assert {"noopener", "noreferrer"} <= set(found[0].get("rel").split())
