"""Channels over HTTP: mailboxes and services that an account keeps, test sends, Atom feeds, and a mailbox's own word.

A mailbox is asked by mail; its link leads here. Looking at the link changes nothing, because mail programs look at
links by themselves: a button does.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from tocsin.site.accounts import Account
from tocsin.site.channels import links, saved
from tocsin.site.delivery.caller import Answer
from tocsin.site.moments import stamp
from tocsin.site.problems import NotFound
from tocsin.site.site import Site
from tocsin.store import channels
from tocsin.store.channels import Saved
from tocsin.web.answers import json_answer
from tocsin.web.bodies import json_object
from tocsin.web.caller import Acting, TheLimits, TheSite
from tocsin.web.feeds import small_page
from tocsin.web.routes import BASE
from tocsin.web.schemas import (
    BODY,
    CONFLICT,
    COUNT,
    ERROR,
    FOUND,
    MAYBE_TIME,
    TEXT,
    TIME,
    Schema,
    answer,
    answers,
    json_body,
    ref,
)
from tocsin.web.sending import run_sending

open_router = APIRouter(tags=["channels"], responses=ERROR | FOUND)
router = APIRouter(prefix=BASE, tags=["channels"], responses=ERROR | FOUND)

Number = Annotated[int, Path(ge=1, le=2**62, description="The channel's number.")]
Code = Annotated[str, Path(max_length=200)]
Mark = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="Of the feed.")]

SCHEMAS: dict[str, Schema] = {
    "NewChannel": {
        "type": "object",
        "required": ["kind"],
        "properties": {
            "kind": {"enum": ["mail", "apprise"]},
            "to": {"type": "string", "description": "Of mail: the mailbox. It is asked to confirm."},
            "url": {"type": "string", "description": "Of a service: its address, as Apprise writes it. It is secret."},
            "name": {"type": ["string", "null"], "maxLength": saved.NAME_CHARACTERS_MAX},
        },
        "additionalProperties": False,
    },
    "Channel": {
        "type": "object",
        "required": ["number", "kind", "name", "state", "created"],
        "properties": {
            "number": COUNT,
            "kind": {"enum": ["mail", "apprise"]},
            "to": TEXT,
            "url": TEXT,
            "name": TEXT,
            "state": {"enum": ["ready", "waiting", "failing"], "description": "waiting: for its reader's word."},
            "created": TIME,
            "confirmed": MAYBE_TIME,
            "last_test": MAYBE_TIME,
            "problem": {"type": ["string", "null"]},
        },
        "additionalProperties": False,
    },
    "Tested": {
        "type": "object",
        "required": ["sent"],
        "properties": {"sent": {"type": "boolean"}, "problem": {"type": "string"}},
        "additionalProperties": False,
    },
}
_LIST: Schema = {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"type": "array", "items": ref("Channel")}},
    "additionalProperties": False,
}
_FEEDS: Schema = {
    "type": "object",
    "required": ["items"],
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["mark", "url", "subscription", "tag", "created"],
                "properties": {
                    "mark": TEXT,
                    "url": TEXT,
                    "subscription": {"type": ["string", "null"]},
                    "tag": {"type": ["string", "null"]},
                    "created": TIME,
                },
                "additionalProperties": False,
            },
        }
    },
    "additionalProperties": False,
}
_CODE: Schema = {
    "type": "object",
    "required": ["code"],
    "properties": {"code": {"type": "string", "description": "From the mail."}},
    "additionalProperties": False,
}


# --- keeping ---------------------------------------------------------------------------------------------------------


@router.get("/channels", summary="The account's channels", responses={200: answer(_LIST, "The oldest first.")})
async def list_channels(caller: Acting, site: TheSite) -> Response:
    """Mailboxes and services, without their secrets."""
    found = await run_in_threadpool(saved.listed, site, caller.owner)
    return json_answer({"items": [saved.as_json(one) for one in found]})


@router.post(
    "/channels",
    status_code=201,
    summary="Keep a channel",
    responses=answers({201: answer(ref("Channel"), "A mailbox was asked to confirm.")}, BODY, CONFLICT),
    openapi_extra=json_body(ref("NewChannel")),
)
async def add_channel(request: Request, caller: Acting, site: TheSite, limits: TheLimits) -> Response:
    """A mailbox, or a service in Apprise's words."""
    given = await json_object(request, limits)
    made = await run_sending(saved.add, site, caller.owner, given)
    return json_answer(saved.as_json(made), 201)


@router.get(
    "/channels/{number}",
    summary="One channel",
    responses=answers({200: answer(ref("Channel"), "As it is now.")}, FOUND),
)
async def get_channel(number: Number, caller: Acting, site: TheSite) -> Response:
    """One of the account's own."""
    return json_answer(saved.as_json(await run_in_threadpool(saved.get, site, caller.owner, number)))


@router.delete(
    "/channels/{number}",
    status_code=204,
    response_class=Response,
    summary="Forget a channel",
    responses=answers({204: {"description": "What it told goes on in the inbox."}}, FOUND),
)
async def remove_channel(number: Number, caller: Acting, site: TheSite) -> Response:
    """Its subscriptions are told in the inbox only."""
    await run_in_threadpool(saved.remove, site, caller.owner, number)
    return Response(status_code=204)


@router.post(
    "/channels/{number}/ask",
    status_code=202,
    summary="Ask a mailbox again",
    responses=answers({202: answer(ref("Channel"), "It was asked.")}, FOUND, CONFLICT),
)
async def ask_again(number: Number, caller: Acting, site: TheSite) -> Response:
    """Once an hour at most, whoever asks."""
    return json_answer(saved.as_json(await run_sending(saved.ask, site, caller.owner, number)), 202)


@router.post(
    "/channels/{number}/confirm",
    status_code=200,
    summary="Confirm a mailbox by the code in its mail",
    responses=answers({200: answer(ref("Channel"), "Alerts may come.")}, BODY, FOUND),
    openapi_extra=json_body(_CODE),
)
async def confirm_by_code(
    request: Request, number: Number, caller: Acting, site: TheSite, limits: TheLimits
) -> Response:
    """For sites that put no link into their mail."""
    given = await json_object(request, limits)
    return json_answer(saved.as_json(await run_in_threadpool(_confirm, site, caller.owner, number, given)))


def _confirm(site: Site, owner: Account, number: int, given: dict[str, Any]) -> Saved:
    saved.get(site, owner, number)
    code = str(given.get("code", ""))
    if saved.with_code(site.store, code).number != number:
        raise NotFound("this code is about another channel")
    return saved.confirm(site, code)


# --- test sends ------------------------------------------------------------------------------------------------------


@router.post(
    "/channels/{number}/test",
    status_code=200,
    summary="Send a test",
    responses=answers({200: answer(ref("Tested"), "What came of it.")}, FOUND, CONFLICT),
)
async def test_channel(number: Number, caller: Acting, site: TheSite) -> Response:
    """Now; says why if it was not taken."""
    return _tested(await run_sending(saved.test, site, caller.owner, number))


@router.post(
    "/test",
    status_code=200,
    summary="Send a test to where a subscription is told",
    responses=answers({200: answer(ref("Tested"), "What came of it.")}, FOUND, CONFLICT),
)
async def test_subscription(
    caller: Acting,
    site: TheSite,
    subscription: Annotated[str, Query(min_length=1, max_length=200, description="Its id.")],
) -> Response:
    """A webhook gets a signed call of the type "test"."""
    return _tested(await run_sending(saved.test_subscription, site, caller.owner, subscription))


def _tested(found: Answer) -> Response:
    return json_answer({"sent": True} if found.is_taken else {"sent": False, "problem": str(found)})


# --- feeds -----------------------------------------------------------------------------------------------------------


@router.get("/feeds", summary="The account's Atom feeds", responses={200: answer(_FEEDS, "The oldest first.")})
async def list_feeds(caller: Acting, site: TheSite) -> Response:
    """With their addresses, which are secret."""
    return json_answer({"items": await run_in_threadpool(_feeds, site, caller.owner.name)})


def _feeds(site: Site, account: str) -> list[dict[str, Any]]:
    return [
        {
            "mark": feed.mark.hex(),
            "url": links.feed_link(site.store, site.settings.channels, feed),
            "subscription": feed.subscription,
            "tag": feed.tag,
            "created": stamp(feed.created),
        }
        for feed in channels.feeds_of(site.store, account)
    ]


@router.delete(
    "/feeds/{mark}",
    status_code=204,
    response_class=Response,
    summary="End a feed",
    responses=answers({204: {"description": "Its address answers nothing any more."}}, FOUND),
)
async def drop_feed(mark: Mark, caller: Acting, site: TheSite) -> Response:
    """Whoever had its address cannot read it any more."""
    if not await run_in_threadpool(channels.drop_feed, site.store, caller.owner.name, bytes.fromhex(mark)):
        raise NotFound("there is no such feed")
    return Response(status_code=204)


# --- a mailbox's own word --------------------------------------------------------------------------------------------

_PAGE = answer({"type": "string"}, "A page with two buttons.", "text/html")
_SAID = answer({"type": "string"}, "What follows from it.", "text/html")


@open_router.get(
    "/confirm/{code}",
    summary="Asks whether alerts may come",
    response_class=HTMLResponse,
    responses={200: _PAGE},
)
async def confirm_page(code: Code, site: TheSite) -> Response:
    """Looking changes nothing."""
    one = await run_in_threadpool(saved.with_code, site.store, code)
    return small_page(
        "May alerts come here?",
        [f"The account {one.account} asks this site to send its alerts to {one.address}."],
        {"Yes, send them": f"/confirm/{code}?word=yes", "No, and never ask again": f"/confirm/{code}?word=never"},
    )


@open_router.post(
    "/confirm/{code}",
    status_code=200,
    summary="A mailbox's word",
    response_class=HTMLResponse,
    responses={200: _SAID},
)
async def confirm_word(
    code: Code, site: TheSite, word: Annotated[Literal["yes", "never"], Query(description="May alerts come?")]
) -> Response:
    """Yes: alerts come. Never: the site writes there no more, whoever names the mailbox."""
    if word == "never":
        one = await run_in_threadpool(saved.refuse, site, code)
        return small_page("No mail", [f"This site will not write to {one.address} again."])
    one = await run_in_threadpool(saved.confirm, site, code)
    return small_page("Thank you", [f"Alerts of the account {one.account} come to {one.address} from now on."])
