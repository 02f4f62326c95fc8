"""Subscriptions over HTTP: one by one, or many lines in one call; each answer tells what to expect of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.responses import Response, StreamingResponse

from tocsin.errors import DocumentError
from tocsin.intake import object_from_json
from tocsin.site import life
from tocsin.site.problems import Invalid, Problem
from tocsin.site.site import Site
from tocsin.web import federated, feedback
from tocsin.web.answers import NDJSON, Refusal, encoded, json_answer, refusal_of
from tocsin.web.bodies import (
    JSON_TYPES,
    LINE_TYPES,
    Line,
    as_object,
    batches,
    content_type,
    found_text_is_whole,
    json_object,
    whole,
)
from tocsin.web.caller import Acting, Caller, Limit, TheLimits, TheSite
from tocsin.web.limits import WebLimits
from tocsin.web.repeats import once
from tocsin.web.routes import BASE
from tocsin.web.schemas import (
    BODY,
    CONFLICT,
    ERROR,
    FOUND,
    NOT_YET,
    answer,
    answers,
    bodies,
    json_body,
    key_parameter,
    ref,
)

router = APIRouter(prefix=BASE, tags=["subscriptions"], responses=ERROR | FOUND)

Id = Annotated[str, Path(description="The subscription's id, percent-encoded, slashes too.", min_length=1)]


# --- making ----------------------------------------------------------------------------------------------------------


@router.post(
    "/subscriptions",
    status_code=201,
    summary="Subscribe",
    responses=answers(
        {
            200: answer({"type": "string"}, "For lines: a result or an error for each, in order.", NDJSON),
            201: answer(ref("Subscription"), "The subscription, with what to expect of it."),
        },
        BODY,
        CONFLICT,
        NOT_YET,
    ),
    openapi_extra=bodies({"application/json": ref("NewSubscription"), NDJSON: {"type": "string"}}) | key_parameter(),
)
async def subscribe(request: Request, caller: Acting, site: TheSite, limits: TheLimits) -> Response:
    """One subscription as JSON, or one a line as NDJSON. It sees every document that is accepted after the answer."""
    is_lines = content_type(request, JSON_TYPES, LINE_TYPES) in LINE_TYPES

    async def do(source: AsyncIterator[bytes], key: str | None) -> Response:
        if is_lines:
            return await _many(source, key, caller, site, limits)
        body = as_object(await whole(source), limits)
        made = await run_in_threadpool(life.create, site, caller.owner, body, key=key)
        return json_answer(made.as_json(), 201)

    most = limits.bulk_bytes_max if is_lines else limits.body_bytes_max
    return await once(request, site, caller.owner.name, do, bytes_max=most, limits=limits)


async def _many(
    source: AsyncIterator[bytes], key: str | None, caller: Caller, site: Site, limits: WebLimits
) -> Response:
    """The good ones are kept, a chunk at a time; each line has its line in the answer."""
    told = bytearray()
    async for batch in batches(source, limits.body_bytes_max, limits.chunk_subscriptions_max, limits):
        # The chunks of a repeated call are the same, so its ids can be drawn from the key and the chunk's first line.
        own_key = None if key is None else f"{key} {batch[0][0]}"
        results = await run_in_threadpool(_make, site, caller, batch, own_key)
        for (number, _), result in zip(batch, results, strict=True):
            shown = {"error": refusal_of(result).body()} if isinstance(result, Problem) else result.as_json()
            told += encoded({"line": number} | shown) + b"\n"
    return Response(bytes(told), 200, media_type=NDJSON)


def _make(site: Site, caller: Caller, batch: list[Line], key: str | None) -> list[life.Made | Problem]:
    return life.create_many(site, caller.owner, (_body(raw) for _, raw in batch), key=key)


def _body(raw: bytes | None) -> dict[str, Any] | Problem:
    if raw is None:
        return Invalid("the line is too long", code="too_large")
    try:
        found = object_from_json(raw, len(raw) + 1)
        found_text_is_whole(found)
        return found
    except DocumentError as error:
        return Invalid(error.reason, code="bad_json")


# --- looking ---------------------------------------------------------------------------------------------------------


@router.get(
    "/subscriptions",
    summary="The account's subscriptions",
    responses={
        200: {
            "description": "By id; all of them, as bodies that can be sent again, if NDJSON is asked for by Accept.",
            "content": {
                "application/json": {"schema": ref("Subscriptions")},
                NDJSON: {"schema": {"type": "string"}},
            },
        }
    },
)
async def list_subscriptions(
    *,
    caller: Acting,
    site: TheSite,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    after: Annotated[str, Query(description="Only those after this id.")] = "",
    limit: Limit = 100,
    tag: Annotated[str | None, Query(description="Only those with this tag.")] = None,
) -> Response:
    """By id, a page at a time; or all of them as lines."""
    if NDJSON in accept.lower():
        return StreamingResponse(iterate_in_threadpool(_exported(site, caller)), media_type=NDJSON)
    found = await run_in_threadpool(life.listed, site, caller.owner, _text(after), limit, tag)
    following = found[-1].id if len(found) == limit else None
    items = await run_in_threadpool(federated.as_json, site, found)
    return json_answer({"items": items, "next": following})


def _exported(site: Site, caller: Caller) -> Iterator[bytes]:
    held = bytearray()
    for body in life.export(site, caller.owner):
        held += encoded(body) + b"\n"
        if len(held) > 1 << 16:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


@router.get(
    "/subscriptions/{id:path}",
    summary="One subscription",
    responses=answers({200: answer(ref("Subscription"), "As it is now.")}, FOUND),
)
async def get_subscription(id: Id, caller: Acting, site: TheSite) -> Response:
    """One of the account's own."""
    return json_answer(await run_in_threadpool(_one, site, caller, _text(id)))


def _one(site: Site, caller: Caller, id: str) -> dict[str, Any]:
    kept = life.get(site, caller.owner, id)
    (found,) = federated.as_json(site, [kept])
    return feedback.shown(site, kept, found)


# --- changing --------------------------------------------------------------------------------------------------------


@router.patch(
    "/subscriptions/{id:path}",
    summary="Change a subscription: its query, pause, mute, …",
    responses=answers({200: answer(ref("Subscription"), "As it is now.")}, BODY, FOUND, CONFLICT, NOT_YET),
    openapi_extra=json_body(ref("SubscriptionChange")),
)
async def change_subscription(
    request: Request,
    id: Id,
    *,
    caller: Acting,
    site: TheSite,
    limits: TheLimits,
    revision: Annotated[int | None, Query(ge=1, le=2**31, description="Only if it still has this revision.")] = None,
) -> Response:
    """Changes what is named; null takes a value away. What is asked for anew holds for documents from now on."""
    changes = await json_object(request, limits)
    changed = await run_in_threadpool(life.edit, site, caller.owner, _text(id), changes, revision=revision)
    return json_answer(changed.as_json())


@router.delete(
    "/subscriptions/{id:path}",
    status_code=204,
    response_class=Response,
    summary="Unsubscribe",
    responses=answers({204: {"description": "It is gone; what it has told stays readable."}}, FOUND),
)
async def unsubscribe(id: Id, caller: Acting, site: TheSite) -> Response:
    """Ends it for good."""
    await run_in_threadpool(life.delete, site, caller.owner, _text(id))
    return Response(status_code=204)


def _text(id: str) -> str:
    """An id that a store can be asked for."""
    if "\0" in id:
        raise Refusal(404, "not_found", "there is no subscription of this id")
    return id
