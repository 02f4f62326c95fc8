"""What a mailbox or a feed reader calls: Atom feeds by their secret, and the link that ends a subscription's mail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from tocsin.site.channels import atom, links
from tocsin.web.answers import json_answer
from tocsin.web.caller import Acting, TheSite
from tocsin.web.pages.render import NOBODY, html
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
    what = await run_in_threadpool(links.subject_of, site.store, token)
    return small_page("End these messages?", [f"They are about {what}."], {"End them": f"/unsubscribe/{token}"})


@open_router.post(
    "/unsubscribe/{token}",
    status_code=200,
    summary="Ends a subscription's mail",
    response_class=HTMLResponse,
    responses={200: answer({"type": "string"}, "Done.", "text/html")},
)
async def unsubscribe(token: Secret, site: TheSite) -> Response:
    """The subscription goes on in the inbox."""
    what = await run_in_threadpool(links.unsubscribe, site, token)
    return small_page("No more messages", [f"Nothing is sent about {what} any more. What is found stays in the inbox."])


def small_page(title: str, lines: Sequence[str], buttons: Mapping[str, str] | None = None) -> Response:
    """A page for somebody who came by a link in a mail: a few sentences, and buttons with where they lead."""
    return html("word.html", 200, {**NOBODY, "title": title, "lines": lines, "buttons": buttons or {}})
