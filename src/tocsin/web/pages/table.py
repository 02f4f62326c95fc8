"""Every page, and who may see it: the application serves what is in this table and nothing else of the pages.

The security tests are made from it: each page without a session, each form without its seal, each role.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.site.accounts import Right
from tocsin.site.harvest.opml import OPML_BYTES_MAX
from tocsin.web import feedback
from tocsin.web.pages import alerts, channels, editor, harvested, listed, overview, own, sign, trouble, views
from tocsin.web.pages.render import STATIC, STATIC_SECONDS, static
from tocsin.web.pages.view import SIGN_IN, Page, View, answer

OPML_FORM_BYTES_MAX = 2 * OPML_BYTES_MAX
"""A form writes < and > and / in three bytes each."""

PAGES: tuple[Page, ...] = (
    Page("GET", SIGN_IN, sign.form, None),
    Page("POST", SIGN_IN, sign.sign_in, None),
    Page("POST", "/sign-out", sign.sign_out),
    Page("GET", "/", overview.overview),
    Page("GET", "/pulse", overview.pulse),
    Page("GET", "/alerts", alerts.alerts),
    Page("POST", "/alerts", feedback.press),
    Page("GET", "/subscriptions", listed.listed),
    Page("POST", "/subscriptions", listed.change),
    Page("GET", "/views", views.listed),
    Page("POST", "/views", views.create),
    Page("GET", "/views/pulse", views.pulse),
    Page("GET", "/view", views.one),
    Page("POST", "/view", views.change),
    Page("GET", "/editor", editor.blank),
    Page("POST", "/editor", editor.act),
    Page("POST", "/editor/check", editor.check),
    Page("POST", "/editor/preview", editor.preview),
    Page("GET", "/sources", harvested.listed),
    Page("POST", "/sources", harvested.change, Right.PUBLISH),
    Page("POST", "/sources/add", harvested.add, Right.PUBLISH),
    Page("POST", "/sources/import", harvested.bring, Right.PUBLISH, form_bytes_max=OPML_FORM_BYTES_MAX),
    Page("GET", "/sources/pulse", harvested.pulse),
    Page("GET", "/sources/opml", harvested.export, Right.PUBLISH),
    Page("GET", "/channels", channels.listed),
    Page("POST", "/channels", channels.change, is_sending=channels.is_sending),
    Page("POST", "/channels/add", channels.add, is_sending=lambda _view: True),
    Page("POST", "/channels/feeds", channels.make_feed),
    Page("GET", "/dead-letters", trouble.trouble),
    Page("POST", "/dead-letters", trouble.change),
    Page("GET", "/settings", own.settings),
    Page("POST", "/settings/tokens", own.make_token),
    Page("POST", "/settings/revoke", own.revoke_token),
    Page("POST", "/settings/accounts", own.make_account, Right.ADMINISTER),
)


def _static(name: str) -> Callable[[View], Response]:
    def handler(_view: View) -> Response:
        headers = {"Cache-Control": f"public, max-age={STATIC_SECONDS}, immutable"}
        return Response(static(name)[0], headers=headers, media_type=STATIC[name])

    return handler


FILES: tuple[Page, ...] = tuple(Page("GET", f"/static/{name}", _static(name), None, True) for name in STATIC)


def routes() -> list[Route]:
    """The table as routes of the application."""
    return [_route(page) for page in (*PAGES, *FILES)]


def _route(page: Page) -> Route:
    async def endpoint(request: Request) -> Response:
        request.scope["route"] = found  # for the guard, which counts calls by route
        return await answer(page, request)

    found = Route(page.path, endpoint, methods=[page.method], include_in_schema=False)
    found.methods = {page.method}  # HEAD is the guard's, for every route alike
    return found
