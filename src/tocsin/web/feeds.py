"""What a mailbox or a feed reader calls: Atom feeds by their secret, and the link that ends a subscription's mail."""

from __future__ import annotations

from html import escape
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from tocsin.site.channels import atom, links
from tocsin.web.answers import json_answer
from tocsin.web.caller import Acting, TheSite
from tocsin.web.routes import BASE
from tocsin.web.schemas import ERROR, FOUND, Schema, answer, answers

open_router = APIRouter(tags=["feeds"], responses=ERROR | FOUND)
router = APIRouter(prefix=BASE, tags=["feeds"], responses=ERROR | FOUND)

Secret = Annotated[str, Path(max_length=200)]
_FEED: Schema = {
    "type": "object",
    "required": ["url"],
    "properties": {"url": {"type": "string", "description": "The feed's address: whoever has it may read the feed."}},
    "additionalProperties": False,
}


@router.post("/feeds", status_code=201, summary="Make an Atom feed", responses=answers({201: answer(_FEED, "Made.")}))
async def make_feed(
    caller: Acting,
    site: TheSite,
    subscription: Annotated[str | None, Query(max_length=200, description="Of this subscription.")] = None,
    tag: Annotated[str | None, Query(max_length=1_000, description="Of the subscriptions with this tag.")] = None,
) -> Response:
    """Of a subscription, of a tag, or of all that the account has."""
    feed = await run_in_threadpool(links.make_feed, site.store, caller.owner, subscription, tag)
    url = await run_in_threadpool(links.feed_link, site.store, site.settings.channels, feed)
    return json_answer({"url": url}, 201)


@open_router.get(
    "/feeds/{secret}.atom",
    summary="An Atom feed",
    response_class=Response,
    responses={200: answer({"type": "string"}, "The newest first.", "application/atom+xml")},
)
async def feed(secret: Secret, site: TheSite) -> Response:
    """What the feed's subscriptions found."""
    text = await run_in_threadpool(atom.feed_text, site.store, site.settings.channels, secret)
    return Response(text, media_type=atom.TYPE)


@open_router.get(
    "/unsubscribe/{token}",
    summary="Asks whether to end a subscription's mail",
    response_class=HTMLResponse,
    responses={200: answer({"type": "string"}, "A page with a button.", "text/html")},
)
async def ask(token: Secret, site: TheSite) -> Response:
    """Looking at the link changes nothing: mail programs look at links by themselves."""
    _, id = await run_in_threadpool(links.subscription_in, site.store, token)
    return _page(f'<p>End the mail of “{escape(id)}”?</p><form method="post"><button>End it</button></form>')


@open_router.post(
    "/unsubscribe/{token}",
    status_code=200,
    summary="Ends a subscription's mail",
    response_class=HTMLResponse,
    responses={200: answer({"type": "string"}, "Done.", "text/html")},
)
async def unsubscribe(token: Secret, site: TheSite) -> Response:
    """The subscription goes on in the inbox."""
    id = await run_in_threadpool(links.unsubscribe, site, token)
    return _page(f"<p>“{escape(id)}” sends no mail any more. Its notifications stay in the inbox.</p>")


def _page(body: str) -> Response:
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Tocsin</title>'
    return HTMLResponse(f"{head}<main><h1>Tocsin</h1>{body}</main></html>")
