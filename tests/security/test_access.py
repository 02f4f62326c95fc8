"""Every route × role × own and other, made from the route table: a route without a row fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import insert

from tests.web.serving import Serving, error_of, serving
from tocsin.site.accounts import Role
from tocsin.site.channels import saved
from tocsin.store import channels, schema, sources
from tocsin.store.sources import PAUSED, Source
from tocsin.web.app import Application, check_rows
from tocsin.web.routes import ROWS, TABLE, Reach, Row

ROLES = [str(role) for role in Role]
PARTIES = [f"{role}-one" for role in ROLES]
OTHER = {"publisher": "publisher-two", "subscriber": "subscriber-two", "admin": "subscriber-two"}
NOBODY = ("none", "unknown", "revoked", "expired", "disabled", "malformed")
GOOD_BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/api/v1/subscriptions"): {"query": "x"},
    ("PATCH", "/api/v1/subscriptions/{id}"): {"name": "changed"},
    ("POST", "/api/v1/subscriptions/{id}/thumbs"): {"document": "d", "thumb": "up"},
    ("POST", "/api/v1/documents"): {"id": "posted"},
    ("POST", "/api/v1/events"): {"relation": "common", "closed": True},
    ("POST", "/api/v1/views"): {"sql": "CREATE VIEW own_count AS SELECT count(*) AS n FROM matches"},
    ("POST", "/api/v1/accounts/{name}/tokens"): {"label": "more"},
    ("PATCH", "/api/v1/accounts/{name}"): {"quotas": {"subscriptions_max": 7}},
    ("PATCH", "/api/v1/sources/{number}"): {"state": "paused"},
}
WHO_AM_I = "/api/v1/account"
HELD_BACK = {
    "/api/v1/channels/{number}/test",
    "/api/v1/channels/{number}/ask",
    "/api/v1/subscriptions/{id}/thumbs",  # it takes none
}
NOT_YET = {"/api/v1/search", "/api/v1/preview"}


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("site")) as found:
        for account in (*PARTIES, "publisher-two", "subscriber-two"):
            found.token(account)
        yield found


def ids(row: Row) -> str:
    return f"{row.method} {row.path}"


def prepare(served: Serving, row: Row, owner: str) -> str:
    """Makes what the route names, as the owner's, and gives the path to it."""
    name = f"thing-{owner}"
    match row.names:
        case "subscription":
            served.client(owner).post("subscriptions", json={"id": name, "query": "x"})
        case "document":
            served.client("admin").post("documents", json={"id": name, "t": "x", "version": next(versions)})
        case "account":
            name = owner
        case "undelivered":
            name = str(give_up(served, owner))
        case "view":
            sql = f'CREATE VIEW "{name}" AS SELECT count(*) AS n FROM matches'
            served.client(owner).post("views", json={"sql": sql})
        case "channel":
            name = str(channel_of(served, owner))
        case "feed":
            name = feed_of(served, owner)
        case "source":
            name = str(source_of(served, owner))
    for part in ("{id}", "{name}", "{number}", "{mark}"):
        if part in row.path:
            return row.path.replace(part, name)
    return row.path


versions = iter(range(1, 10_000))


def give_up(served: Serving, owner: str) -> int:
    """An undelivered item of the owner's."""
    client = served.client(owner)
    client.post("subscriptions", json={"id": "hooked", "query": "x"})
    from tocsin.store import subscriptions

    kept = subscriptions.find(served.site.store, owner, "hooked")
    assert kept is not None
    values = {"account": owner, "subscription": kept.number, "cursor": next(versions), "attempts": 1, "problem": "p"}
    with served.site.store.write() as transaction:
        made = insert(schema.undelivered).values(**values, at=0.0, wanted=False)
        return int(transaction.execute(made.returning(schema.undelivered.c.number)).scalar_one())


def channel_of(served: Serving, owner: str) -> int:
    """A mailbox of the owner's that was not confirmed."""
    made = channels.save(
        served.site.store, owner, "mail", f"m{next(versions)}@example.org", name="m", is_confirmed=False
    )
    assert made is not None
    return made.number


def feed_of(served: Serving, owner: str) -> str:
    """An Atom feed of the owner's."""
    from tocsin.site import accounts
    from tocsin.site.channels import links

    return links.make_feed(served.site.store, accounts.find(served.site.store, owner)).mark.hex()


def source_of(served: Serving, owner: str) -> int:
    """A source of the owner's, or of the administrator's if they may have none; it is not visited."""
    owner = "admin" if owner.startswith("subscriber") else owner
    address, now = f"https://{next(versions)}.example.org/feed", time.time()
    source = Source(0, address, "feed", address, "A feed", owner, 60.0, PAUSED, created=now, due=now + 1e6)
    made = sources.add(served.site.store, source)
    assert made is not None
    return made.number


def prepared_body(served: Serving, row: Row, path: str) -> tuple[Any, dict[str, Any]]:
    """A body that suits what the path names, and further options of the call."""
    match row.method, row.path.removeprefix("/api/v1"):
        case "POST", "/sources":
            # A name that leads nowhere: it can be added, and visited in vain.
            return {"address": f"https://{next(versions)}.feeds.invalid/feed"}, {}
        case "POST", "/opml":
            return None, {"content": b"<opml><body/></opml>", "headers": {"Content-Type": "text/x-opml"}}
        case "POST", "/channels":
            return {"kind": "apprise", "url": f"ntfy://topic{next(versions)}"}, {}
        case "POST", "/channels/{number}/confirm":
            made = channels.find_saved(served.site.store, int(path.split("/")[4]))
            assert made is not None
            return {"code": saved.confirm_code(served.site.store, made)}, {}
        case "POST", "/test":
            return None, {"params": {"subscription": "inbox-only"}}
        case "POST", "/accounts":
            return {"name": f"made-{next(versions)}", "role": "subscriber"}, {}
    return GOOD_BODIES.get((row.method, row.path)), {}


def call(served: Serving, row: Row, path: str, token: str | None, **options: Any) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    body, more = prepared_body(served, row, path)
    headers |= more.pop("headers", {})
    options["params"] = {**more.pop("params", {}), **options.get("params", {})}
    options |= more
    if body is not None:
        options["json"] = body
    if row.method == "DELETE" and row.path.endswith("/tokens"):
        options["params"]["label"] = "never-used"
    method = "HEAD" if row.path.endswith("/stream") else row.method  # the body of a stream does not end
    return httpx.request(method, f"{served.url}{path}", headers=headers, timeout=30, **options)


def succeeded(row: Row, answer: httpx.Response) -> bool:
    """Was the caller let in?"""
    if row.path in NOT_YET:
        return answer.status_code in (501, 200, 422)
    if row.path in HELD_BACK:  # the channel was found, and a stranger's mailbox is not written to
        return answer.status_code in (409, 202)
    if row.path == "/api/v1/test":
        return answer.status_code == 404  # let in; there is no such subscription
    if row.method == "DELETE" and row.path.endswith("/tokens"):
        return answer.status_code == 404  # the account is found, a token of this label is not
    return answer.status_code in (200, 201, 202, 204)


def test_a_route_without_a_row_fails(served):
    application = Application(served.site)
    check_rows(application.api)

    @application.api.get("/api/v1/secret")
    async def secret() -> str:
        return "everything"

    with pytest.raises(AssertionError, match="/api/v1/secret"):
        check_rows(application.api)


def test_a_route_without_a_row_answers_nobody(served):
    """Even if somebody adds one behind the check's back."""
    from tocsin.web.caller import admitted, row_of

    class Request:
        method = "GET"
        scope = {"route": type("Route", (), {"path": "/api/v1/secret"})()}  # noqa: RUF012

    with pytest.raises(Exception, match="closed"):
        row_of(Request())  # type: ignore[arg-type]
    assert admitted is not None


BY_SECRET = {"/feeds/{secret}.atom", "/unsubscribe/{token}", "/confirm/{code}"}


def test_only_what_tells_nothing_private_or_needs_a_secret_is_open():
    open_paths = {row.path for row in TABLE if row.reach is Reach.OPEN}
    assert open_paths == {"/healthz", "/metrics", "/openapi.json"} | BY_SECRET


@pytest.mark.parametrize("row", [row for row in TABLE if row.reach is Reach.OPEN], ids=ids)
def test_open_routes_need_no_token(served, row):
    answer = httpx.request(row.method, f"{served.url}{row.path}", params={"word": "yes"})
    assert answer.status_code == (404 if row.path in BY_SECRET else 200)  # who knows no secret finds nothing


@pytest.mark.parametrize("party", NOBODY)
@pytest.mark.parametrize("row", [row for row in TABLE if row.reach is not Reach.OPEN], ids=ids)
def test_nobody_is_let_in_without_a_token_in_force(served, row, party):
    path = prepare(served, row, "subscriber-one")
    answer = call(served, row, path, nobody(served, party))
    if row.path.endswith("/stream"):
        assert answer.status_code == 401
    else:
        error_of(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def nobody(served: Serving, party: str) -> str | None:
    from tocsin.site import accounts

    store = served.site.store
    if party in ("none", "unknown", "malformed"):
        return {"none": None, "unknown": "toc_" + "x" * 43, "malformed": "a b"}[party]
    name = f"admin-{party}"
    token = served.token(name)
    if party == "revoked":
        accounts.revoke(store, name, "test")
    elif party == "expired":
        token = accounts.token(store, name, "old", expires=1.0)
    else:
        accounts.disable(store, name)
    return token


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("row", [row for row in TABLE if row.reach is not Reach.OPEN], ids=ids)
def test_a_role_may_do_what_its_row_says_with_its_own(served, row, role):
    party = f"{role}-one"
    path = prepare(served, row, "subscriber-one" if row.names == "account" else party)
    answer = call(served, row, path, served.token(party))
    if Role(role) in row.roles:
        assert succeeded(row, answer), answer.text
    elif row.path.endswith("/stream"):
        assert answer.status_code == 403
    else:
        error_of(answer, 403, "forbidden")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("row", [row for row in TABLE if row.reach is Reach.OWN and row.names], ids=ids)
def test_what_is_anothers_is_not_found_and_not_changed(served, row, role):
    """Not for the administrator either, who must name the account."""
    party, other = f"{role}-one", OTHER[role]
    path = prepare(served, row, other)
    before = served.client(other).get("subscriptions").json()["items"]
    answer = call(served, row, path, served.token(party))
    error = error_of(answer, 404, "not_found")
    missing = path.replace(f"thing-{other}", "thing-missing")
    if row.names == "subscription":
        absent = error_of(call(served, row, missing, served.token(party)), 404, "not_found")
        assert absent["message"].replace("thing-missing", "") == error["message"].replace(f"thing-{other}", "")
    assert served.client(other).get("subscriptions").json()["items"] == before


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("row", [row for row in TABLE if row.reach is Reach.OWN and row.path != WHO_AM_I], ids=ids)
def test_only_an_administrator_may_act_for_another(served, row, role):
    path = prepare(served, row, "subscriber-two")
    answer = call(served, row, path, served.token(f"{role}-one"), params={"account": "subscriber-two"})
    if role == "admin":
        assert succeeded(row, answer), answer.text
        error_of(served.client("admin-one").get("subscriptions", params={"account": "who"}), 404, "not_found")
    elif row.path.endswith("/stream"):
        assert answer.status_code == 403
    else:
        error_of(answer, 403, "forbidden")


@pytest.mark.parametrize("row", [row for row in TABLE if row.names == "source" and row.method != "GET"], ids=ids)
def test_a_source_is_changed_by_whoever_added_it_and_by_administrators(served, row):
    path = prepare(served, row, "publisher-two")
    before = served.client("publisher-two").get("sources", params={"limit": 1000}).json()["items"]
    error_of(call(served, row, path, served.token("publisher-one")), 403, "forbidden")
    assert served.client("publisher-two").get("sources", params={"limit": 1000}).json()["items"] == before
    assert succeeded(row, call(served, row, path, served.token("admin-one")))


def test_only_whoever_added_a_source_and_administrators_see_its_address(served):
    number = source_of(served, "publisher-two")
    address = f"sources/{number}"
    whole = served.client("publisher-two").get(address).json()["address"]
    assert whole.endswith("/feed")
    assert served.client("admin-one").get(address).json()["address"] == whole
    for party in ("publisher-one", "subscriber-one"):
        assert served.client(party).get(address).json()["address"].endswith("/…")
        assert whole not in served.client(party).get("sources", params={"limit": 1000}).text
    assert whole not in served.client("publisher-one").get("opml").text
    assert whole in served.client("publisher-two").get("opml").text


@pytest.mark.parametrize("path", ["subscriptions", "notifications", "undelivered"])
def test_lists_hold_only_what_is_the_callers(served, path):
    secret = "confidential"
    client = served.client("subscriber-two")
    client.post("subscriptions", json={"id": secret, "query": secret})
    served.client("publisher-one").post("documents", json={"id": f"{secret}-{path}", "t": secret})
    for party in PARTIES:
        assert secret not in served.client(party).get(path).text
    everything = served.client("subscriber-one").get("subscriptions", headers={"Accept": "application/x-ndjson"})
    assert secret not in everything.text


def test_the_table_and_openapi_agree_on_what_is_open(served):
    page = json.loads(httpx.get(f"{served.url}/openapi.json").text)
    for path, methods in page["paths"].items():
        for method, operation in methods.items():
            row = ROWS[method.upper(), path]
            assert bool(operation.get("security")) == (row.reach is not Reach.OPEN), path


def test_the_administrator_cannot_shut_itself_out(served):
    client = served.client("admin")
    error_of(client.patch("accounts/admin", json={"disabled": True}), 409)
    error_of(client.patch("accounts/admin", json={"role": "subscriber"}), 409)
    assert client.get("account").json()["role"] == "admin"
