"""Signing in with a token, and out."""

from __future__ import annotations

from starlette.responses import Response

from tocsin.store import journal
from tocsin.web.pages.session import BEFORE, COOKIE, drop_cookie, new_before, set_cookie
from tocsin.web.pages.view import SIGN_IN, View, local

TRIES_PER_SECOND = 1.0  # of one address; ten at once are let through


def form(view: View) -> Response:
    """The form; one who is signed in goes to the overview."""
    if view.account is not None:
        return view.go("/")
    return _form(view, "", 200)


def _form(view: View, problem: str, status: int) -> Response:
    is_new = not view.cookie
    if is_new:
        view.cookie = new_before()
    values = {"next": view.asked("next") or view.form.get("next", ""), "problem": problem}
    found = view.page("sign_in.html", status, **values)
    if is_new:
        set_cookie(found, view.request, BEFORE, view.cookie)
    return found


def sign_in(view: View) -> Response:
    """A new session, under a new id, whatever cookies the browser had."""
    client = view.request.client
    view.site.buckets.take(f"sign-in {'' if client is None else client.host}", TRIES_PER_SECOND, 1, "sign-ins")
    token = view.given("token")
    account = view.site.authenticate(token) if token else None
    if account is None:
        return _form(view, "This token is not known, was revoked, or has expired.", 403)
    old = view.request.cookies.get(COOKIE)
    if old:
        view.sessions.end(old)
    journal.note(view.site.store, account.name, "sign in")
    found = view.go(local(view.form.get("next", "/") or "/"))
    set_cookie(found, view.request, COOKIE, view.sessions.begin(token))
    drop_cookie(found, BEFORE)
    return found


def sign_out(view: View) -> Response:
    """Ends the session here and in the browser."""
    view.sessions.end(view.request.cookies.get(COOKIE, ""))
    found = view.go(SIGN_IN)
    drop_cookie(found, COOKIE)
    return found
