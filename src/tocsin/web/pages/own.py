"""What an account may use, its tokens, and for the administrator the other accounts."""

from __future__ import annotations

import time

from starlette.responses import Response

from tocsin.site import accounts
from tocsin.site.accounts import Right, Role, hash_of
from tocsin.site.problems import Conflict, Invalid
from tocsin.store import accounts as kept_accounts
from tocsin.store import journal, subscriptions
from tocsin.web.pages.session import COOKIE
from tocsin.web.pages.view import View

DAYS = {"": "never", "1": "in a day", "30": "in 30 days", "365": "in a year"}
LABEL_CHARACTERS_MAX = 200
ACCOUNTS_MAX = 200


def settings(view: View) -> Response:
    """The page."""
    return _page(view)


def _page(view: View, made: str | None = None, made_for: str = "") -> Response:
    owner, store = view.owner, view.site.store
    may_administer = owner.may(Right.ADMINISTER)
    return view.page(
        "settings.html",
        tokens=accounts.tokens_of(store, owner.name),
        mine=_mark(view),
        made=made,
        made_for=made_for,
        days=DAYS,
        roles=[str(role) for role in Role],
        others=kept_accounts.listed(store, "", ACCOUNTS_MAX) if may_administer else [],
        used=subscriptions.count(store, owner.name),
    )


def _mark(view: View) -> str:
    """Of the token that this session was opened with."""
    assert view.session is not None
    return hash_of(view.session.token).hex()[:12]


def make_token(view: View) -> Response:
    """Another token of the same account, shown once. It does not outlive the one that made it."""
    label = view.given("label") or "made on a page"
    if len(label) > LABEL_CHARACTERS_MAX or not label.isprintable():
        raise Invalid(f"a label has at most {LABEL_CHARACTERS_MAX} printable characters", field="label")
    days = view.given("days")
    if days not in DAYS:
        raise Invalid("this end is not known", field="days")
    expires = time.time() + int(days) * 86_400.0 if days else None
    own = next((one for one in accounts.tokens_of(view.site.store, view.owner.name) if one.mark == _mark(view)), None)
    if own is not None and own.expires is not None:
        expires = own.expires if expires is None else min(expires, own.expires)
    made = accounts.token(view.site.store, view.owner, label, expires)
    journal.note(view.site.store, view.owner.name, "make token", view.owner.name, label=label)
    return _page(view, made, view.owner.name)


def revoke_token(view: View) -> Response:
    """Forgets one of the account's tokens, by the start of its hash; what is signed in with it is signed out."""
    mark = view.given("mark")
    tokens = accounts.tokens_of(view.site.store, view.owner.name)
    if len(mark) != 12 or mark not in {one.mark for one in tokens}:
        raise Invalid("there is no such token", field="mark")
    if len(tokens) == 1:
        raise Conflict("this is the account's last token: make another one first, or nobody can sign in")
    accounts.revoke(view.site.store, view.owner.name, mark)
    journal.note(view.site.store, view.owner.name, "revoke token", view.owner.name)
    if mark == _mark(view):
        view.sessions.end(view.request.cookies.get(COOKIE, ""))
    return view.go("/settings", note="The token is revoked.")


def make_account(view: View) -> Response:
    """For the administrator: an account, with a token that is shown once."""
    name = view.given("name")
    accounts.create(view.site.store, name, view.given("role"))
    made = accounts.token(view.site.store, name, "first")
    journal.note(view.site.store, view.owner.name, "make account", name)
    return _page(view, made, name)
