"""Sources over HTTP: what the site harvests, how each fares, and lists of feeds as OPML.

Sources are common, as their documents are: everybody sees how they fare, publishers add them, and only whoever added
one, or an administrator, sees its whole address and changes it.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tocsin.intake import shown
from tocsin.site.harvest import sources
from tocsin.site.harvest.opml import OPML_BYTES_MAX
from tocsin.web.answers import json_answer, refusal_of
from tocsin.web.bodies import XML_TYPES, chunks, content_type, json_object, whole
from tocsin.web.caller import Admitted, Limit, TheLimits, TheSite
from tocsin.web.routes import BASE
from tocsin.web.schemas import (
    BODY,
    CONFLICT,
    COUNT,
    ERROR,
    FOUND,
    MAYBE_TIME,
    TEXT,
    Schema,
    answer,
    answers,
    bodies,
    json_body,
    ref,
)

router = APIRouter(prefix=BASE, tags=["sources"], responses=ERROR)

Number = Annotated[int, Path(ge=1, le=2**62, description="The source's number.")]
OPML = "text/x-opml"
OPML_TYPES = XML_TYPES | {OPML, "application/x-opml+xml"}

_TAGS: Schema = {"type": ["array", "null"], "items": {"type": "string"}}
_INTERVAL: Schema = {"type": ["number", "null"], "description": "Seconds between two visits."}
SCHEMAS: dict[str, Schema] = {
    "NewSource": {
        "type": "object",
        "required": ["address"],
        "properties": {
            "address": {"type": "string", "description": "http(s); of a folder its whole path."},
            "kind": {"enum": list(sources.KINDS)},
            "name": {"type": ["string", "null"]},
            "tags": _TAGS,
            "interval": _INTERVAL,
            "set": {"type": ["string", "null"], "description": "Of OAI-PMH: only the records of this set."},
            "from": {"type": ["string", "null"], "description": "Of OAI-PMH: only what changed since then."},
            "until": {"type": ["string", "null"]},
            "prefix": {"type": ["string", "null"]},
        },
        "additionalProperties": False,
    },
    "SourceChange": {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"]},
            "tags": _TAGS,
            "interval": _INTERVAL,
            "state": {"enum": ["active", "paused"]},
            "address": {"type": "string", "description": "Where it has moved to; it still knows its items."},
        },
        "additionalProperties": False,
    },
    "Source": {
        "type": "object",
        "required": ["number", "kind", "address", "name", "state", "health", "problem"],
        "properties": {
            "number": COUNT,
            "kind": {"enum": list(sources.KINDS)},
            "address": {"type": "string", "description": "Only its host, if it is another account's."},
            "name": TEXT,
            "tags": {"type": "array", "items": TEXT},
            "options": {"type": "object"},
            "account": TEXT,
            "interval": {"type": "number"},
            "state": {"enum": ["active", "paused"]},
            "health": {"enum": ["new", "ok", "failing", "paused"]},
            "problem": {"type": ["string", "null"], "description": "Why the last visit failed."},
            "note": {"type": ["string", "null"], "description": "What was odd about a visit that went well."},
            "failures": COUNT,
            "last_visit": MAYBE_TIME,
            "last_success": MAYBE_TIME,
            "last_new": MAYBE_TIME,
            "next_visit": MAYBE_TIME,
            "documents": COUNT,
            "twins": {**COUNT, "description": "Items that another source had brought, near-identical."},
        },
        "additionalProperties": False,
    },
    "Sources": {
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": {"type": "array", "items": ref("Source")},
            "next": {"type": ["integer", "null"], "description": "For `after`; null: there are no more."},
        },
        "additionalProperties": False,
    },
    "Imported": {
        "type": "object",
        "required": ["added", "repeated", "refused"],
        "properties": {
            "added": {"type": "array", "items": ref("Source")},
            "repeated": {**COUNT, "description": "Feeds that were harvested already."},
            "refused": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "error"],
                    "properties": {"name": TEXT, "error": ref("Reason")},
                    "additionalProperties": False,
                },
            },
        },
        "additionalProperties": False,
    },
}


@router.get("/sources", summary="What is harvested", responses={200: answer(ref("Sources"), "By number.")})
async def list_sources(
    caller: Admitted,
    site: TheSite,
    after: Annotated[int, Query(ge=0, le=2**62, description="Only those after this number.")] = 0,
    limit: Limit = 100,
) -> Response:
    """Everybody's, with their health."""
    found = await run_in_threadpool(sources.listed, site.store, after, limit)
    following = found[-1].number if len(found) == limit else None
    items = [sources.as_json(one, caller.account) for one in found]
    return json_answer({"items": items, "next": following})


@router.post(
    "/sources",
    status_code=201,
    summary="Harvest a source",
    responses=answers({201: answer(ref("Source"), "It is visited at once.")}, BODY, CONFLICT),
    openapi_extra=json_body(ref("NewSource")),
)
async def add_source(request: Request, caller: Admitted, site: TheSite, limits: TheLimits) -> Response:
    """A feed, an OAI-PMH repository or, for administrators, a folder of the site's machine."""
    given = await json_object(request, limits)
    made = await run_in_threadpool(sources.add, site.store, site.settings.harvest, caller.account, given)
    return json_answer(sources.as_json(made, caller.account), 201)


@router.get(
    "/sources/{number}",
    summary="One source",
    responses=answers({200: answer(ref("Source"), "As it is now.")}, FOUND),
)
async def get_source(number: Number, caller: Admitted, site: TheSite) -> Response:
    """One of everybody's."""
    found = await run_in_threadpool(sources.get, site.store, number)
    return json_answer(sources.as_json(found, caller.account))


@router.patch(
    "/sources/{number}",
    summary="Change a source: pause, resume, rename, move",
    responses=answers({200: answer(ref("Source"), "As it is now.")}, BODY, FOUND, CONFLICT),
    openapi_extra=json_body(ref("SourceChange")),
)
async def change_source(
    request: Request, number: Number, caller: Admitted, site: TheSite, limits: TheLimits
) -> Response:
    """Changes what is named. One that has moved, or is resumed, is visited at once."""
    given = await json_object(request, limits)
    changed = await run_in_threadpool(sources.change, site.store, site.settings.harvest, caller.account, number, given)
    return json_answer(sources.as_json(changed, caller.account))


@router.delete(
    "/sources/{number}",
    status_code=204,
    response_class=Response,
    summary="Forget a source",
    responses=answers({204: {"description": "It is not visited any more; its documents stay."}}, FOUND),
)
async def remove_source(number: Number, caller: Admitted, site: TheSite) -> Response:
    """One that is added again still knows its items."""
    await run_in_threadpool(sources.remove, site.store, caller.account, number)
    return Response(status_code=204)


@router.post(
    "/sources/{number}/visit",
    status_code=202,
    summary="Harvest a source now",
    responses=answers({202: answer(ref("Source"), "It is visited in a moment.")}, FOUND, CONFLICT),
)
async def visit_source(number: Number, caller: Admitted, site: TheSite) -> Response:
    """It is visited as soon as its host may be asked again."""
    await run_in_threadpool(sources.visit_soon, site.store, caller.account, number)
    found = await run_in_threadpool(sources.get, site.store, number)
    return json_answer(sources.as_json(found, caller.account), 202)


@router.get(
    "/opml",
    summary="The feeds as OPML",
    response_class=Response,
    responses={200: answer({"type": "string"}, "Those whose addresses the account may see.", OPML)},
)
async def export_opml(caller: Admitted, site: TheSite) -> Response:
    """A list that feed readers import."""
    text = await run_in_threadpool(sources.export_opml, site.store, caller.account)
    return Response(text, media_type=OPML, headers={"Content-Disposition": 'attachment; filename="tocsin.opml"'})


@router.post(
    "/opml",
    status_code=200,
    summary="Harvest the feeds of an OPML file",
    responses=answers({200: answer(ref("Imported"), "What became of each.")}, BODY),
    openapi_extra=bodies({kind: {"type": "string"} for kind in sorted(OPML_TYPES)}, "OPML of any feed reader."),
)
async def import_opml(request: Request, caller: Admitted, site: TheSite, limits: TheLimits) -> Response:
    """Folders of the list become tags; feeds that cannot be harvested are named."""
    content_type(request, OPML_TYPES)
    raw = await whole(chunks(request, OPML_BYTES_MAX, limits))
    found = await run_in_threadpool(sources.import_opml, site.store, site.settings.harvest, caller.account, raw)
    return json_answer(imported_json(found, caller.account))


def imported_json(found: sources.Imported, account: Any) -> dict[str, Any]:
    """What became of a list."""
    refused = [{"name": shown(name), "error": refusal_of(problem).body()} for name, problem in found.refused]
    added = [sources.as_json(one, account) for one in found.added]
    return {"added": added, "repeated": found.repeated, "refused": refused}
