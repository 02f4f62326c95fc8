"""What was found: by cursor, as a stream, and what a webhook did not take."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from tocsin.site import reading
from tocsin.site.delivery import undelivered
from tocsin.store import journal
from tocsin.web.answers import json_answer, not_found
from tocsin.web.caller import Acting, Limit, TheLimits, TheMetrics, TheSite
from tocsin.web.routes import BASE
from tocsin.web.schemas import ERROR, FOUND, Schema, answer, answers, ref
from tocsin.web.stream import PAGE, Streams, events

router = APIRouter(prefix=BASE, tags=["notifications"], responses=ERROR | FOUND)

After = Annotated[str | None, Query(max_length=100, description="Only those after this cursor.")]


@router.get(
    "/notifications",
    summary="What was found",
    responses={200: answer(ref("Notifications"), "In order; `next` is where to go on.")},
)
async def list_notifications(
    caller: Acting,
    site: TheSite,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """The account's notifications after the cursor, in order."""
    page = await run_in_threadpool(reading.notifications, site, caller.owner, after, limit)
    return json_answer(page.as_json())


@router.get(
    "/stream",
    summary="What is found, as server-sent events",
    response_class=Response,
    responses={200: answer({"type": "string"}, "Events whose id is the cursor.", "text/event-stream")},
)
async def stream(
    request: Request,
    *,
    caller: Acting,
    site: TheSite,
    limits: TheLimits,
    metrics: TheMetrics,
    after: After = None,
    last_event_id: Annotated[str | None, Header(max_length=100, description="Go on after this one.")] = None,
) -> Response:
    """The same items as `GET notifications`, those that are there and then those that come."""
    streams: Streams = request.app.state.streams
    start = last_event_id or after
    place = reading.place_of(start) if start else 0
    seen = site.bell.count

    async def read(cursor: str) -> Sequence[dict[str, Any]]:
        nonlocal seen
        seen = site.bell.count  # before looking: a ring in between is not missed
        page = await run_in_threadpool(reading.notifications, site, caller.owner, cursor, PAGE)
        metrics.streamed.add(len(page.items))
        return [reading.as_json(item) for item in page.items]

    async def wait(seconds: float) -> None:
        await site.bell.wait_async(seen, seconds)

    async def is_welcome() -> bool:
        return await run_in_threadpool(site.authenticate, caller.token) == caller.account

    streams.take(caller.account.name, limits)
    metrics.streams.add()

    async def sent() -> AsyncIterator[bytes]:
        try:
            async for part in events(
                streams,
                reading.cursor_of(place),
                read=read,
                wait=wait,
                is_welcome=is_welcome,
                heartbeat_seconds=limits.heartbeat_seconds,
            ):
                yield part
        finally:
            streams.give_back(caller.account.name)

    return StreamingResponse(sent(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


# --- what a webhook did not take -------------------------------------------------------------------------------------

_ITEM: Schema = {
    "type": "object",
    "required": ["number", "subscription", "cursor", "attempts", "problem", "at", "sent_again"],
    "properties": {
        "number": {"type": "integer"},
        "subscription": {"type": "string"},
        "cursor": {"type": "string"},
        "attempts": {"type": "integer"},
        "problem": {"type": "string"},
        "at": {"type": "string"},
        "sent_again": {"type": "boolean", "description": "It is to be sent again."},
    },
    "additionalProperties": False,
}
_ITEMS: Schema = {
    "type": "object",
    "required": ["items", "next"],
    "properties": {"items": {"type": "array", "items": _ITEM}, "next": {"type": ["integer", "null"]}},
    "additionalProperties": False,
}


@router.get("/undelivered", summary="What webhooks did not take", responses={200: answer(_ITEMS, "The oldest first.")})
async def list_undelivered(
    caller: Acting,
    site: TheSite,
    after: Annotated[int, Query(ge=0, le=2**62, description="Only those after this number.")] = 0,
    limit: Limit = 100,
) -> Response:
    """Items that were given up after all attempts, with the last reason."""
    found = await run_in_threadpool(undelivered.listed, site, caller.owner, after, limit)
    following = found[-1].number if len(found) == limit else None
    return json_answer({"items": [undelivered.as_json(one) for one in found], "next": following})


@router.post(
    "/undelivered/{number}/again",
    status_code=202,
    summary="Send it again",
    responses=answers({202: answer({"type": "object"}, "It will be sent again.")}, FOUND),
)
async def send_again(number: Annotated[int, Path(ge=1, le=2**62)], caller: Acting, site: TheSite) -> Response:
    """Marks an item to be sent again, with the same id."""
    if not await run_in_threadpool(undelivered.send_again, site, caller.owner, [number]):
        raise not_found("undelivered item", str(number))
    await run_in_threadpool(journal.note, site.store, caller.account.name, "send again", str(number))
    site.noticed()
    return json_answer({"number": number}, 202)


@router.delete(
    "/undelivered/{number}",
    status_code=204,
    response_class=Response,
    summary="Forget it",
    responses=answers({204: {"description": "It is forgotten."}}, FOUND),
)
async def forget_undelivered(number: Annotated[int, Path(ge=1, le=2**62)], caller: Acting, site: TheSite) -> Response:
    """Forgets an item; the notification itself stays readable."""
    await run_in_threadpool(undelivered.drop, site, caller.owner, number)
    return Response(status_code=204)
