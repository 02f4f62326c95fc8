"""Relations, views and events over HTTP. Accepted means stored: views show it even if the process dies now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tocsin.errors import DocumentError
from tocsin.intake import too_large
from tocsin.site.moments import stamp
from tocsin.site.problems import TooFast, problem_of
from tocsin.site.site import Site
from tocsin.site.views import Described
from tocsin.web.answers import NDJSON, Refusal, json_answer
from tocsin.web.bodies import JSON_TYPES, LINE_TYPES, Line, as_object, batches, content_type, whole
from tocsin.web.caller import Acting, Admitted, Caller, TheLimits, TheSite
from tocsin.web.documents import Told
from tocsin.web.limits import WebLimits
from tocsin.web.repeats import once
from tocsin.web.routes import BASE
from tocsin.web.schemas import (
    BODY,
    CONFLICT,
    COUNT,
    ERROR,
    FOUND,
    TEXT,
    Schema,
    answer,
    answers,
    bodies,
    key_parameter,
    ref,
)

router = APIRouter(prefix=BASE, tags=["views"], responses=ERROR | FOUND)

SQL_TYPES = frozenset({"application/sql", "text/plain"})
Name = Annotated[str, Path(description="Of the relation or view, percent-encoded.", min_length=1)]

_COLUMN: Schema = {
    "type": "object",
    "required": ["name", "type", "evolves"],
    "properties": {"name": TEXT, "type": TEXT, "evolves": TEXT},
    "additionalProperties": False,
}
_DESCRIBED: dict[str, Schema] = {
    "name": TEXT,
    "kind": {"enum": ["relation", "view"]},
    "sql": TEXT,
    "own": {"type": "boolean", "description": "Only the account sees it."},
    "created": TEXT,
    "columns": {"type": "array", "items": _COLUMN},
    "size": {**COUNT, "description": "Rows of a view, events of a relation."},
    "closed": {"type": "boolean", "description": "Of a relation: nothing more will happen."},
    "problem": {"type": "string", "description": "Why a view does not run any more."},
}
_ROW: Schema = {
    "type": "object",
    "required": ["view", "key", "row", "final"],
    "properties": {"view": TEXT, "key": {"type": "object"}, "row": {"type": "object"}, "final": {"type": "boolean"}},
    "additionalProperties": False,
}
SCHEMAS: dict[str, Schema] = {
    "Event": {
        "type": "object",
        "required": ["relation"],
        "description": 'An event has a "tick"; else "silent": [first, last], or "closed": true.',
        "properties": {
            "relation": TEXT,
            "tick": {"type": "integer"},
            "silent": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
            "closed": {"const": True},
        },
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    },
    "Statements": {
        "type": "object",
        "required": ["sql"],
        "properties": {"sql": {"type": "string", "description": "CREATE RELATION and CREATE VIEW statements."}},
        "additionalProperties": False,
    },
    "View": {"type": "object", "required": ["name", "kind", "sql"], "properties": _DESCRIBED},
    "Views": {
        "type": "object",
        "required": ["items"],
        "properties": {"items": {"type": "array", "items": ref("View")}},
        "additionalProperties": False,
    },
    "ViewRows": {
        "type": "object",
        "required": ["name", "kind", "sql"],
        "properties": {**_DESCRIBED, "rows": {"type": "array", "items": _ROW}},
    },
}


# --- events ----------------------------------------------------------------------------------------------------------


@router.post(
    "/events",
    status_code=202,
    summary="Events of relations",
    responses=answers({202: answer(ref("Accepted"), "How many are stored, and which are not, by line.")}, BODY),
    openapi_extra=bodies({"application/json": ref("Event"), NDJSON: {"type": "string"}}) | key_parameter(),
)
async def publish_events(request: Request, caller: Admitted, site: TheSite, limits: TheLimits) -> Response:
    """One event, silence or end as JSON, or one a line as NDJSON; lines that are stored together are one step."""
    is_lines = content_type(request, JSON_TYPES, LINE_TYPES) in LINE_TYPES

    async def do(body: AsyncIterator[bytes], _key: str | None) -> Response:
        told = Told(limits.rejections_max)
        if is_lines:
            most = site.settings.base.document.document_bytes_max
            async for batch in batches(body, most, limits.chunk_documents_max, limits):
                await run_in_threadpool(_take, site, caller, batch, told)
        else:
            await run_in_threadpool(_take, site, caller, [(1, await whole(body))], told)
        return told.answer()

    most = limits.bulk_bytes_max if is_lines else limits.body_bytes_max
    return await once(request, site, caller.account.name, do, bytes_max=most, limits=limits)


def _take(site: Site, caller: Caller, batch: list[Line], told: Told) -> None:
    most = site.settings.base.document.document_bytes_max
    long = problem_of(DocumentError(too_large(most)))
    try:
        site.take(caller.account, "documents", len(batch))
    except TooFast as too_fast:
        if not told.accepted:
            raise
        for number, _ in batch:  # what came before is stored: say so, and which lines to send again
            told.reject(number, too_fast)
        return
    found = site.views.publish([long if raw is None or len(raw) > most else raw for _, raw in batch])
    for (number, _), problem in zip(batch, found, strict=True):
        if problem is None:
            told.accepted += 1
        else:
            told.reject(number, problem)


# --- views -----------------------------------------------------------------------------------------------------------


@router.post(
    "/views",
    status_code=202,
    summary="Create relations and views",
    responses=answers(
        {202: answer(ref("Accepted"), "How many statements stand, and which do not, by their first line.")},
        BODY,
        CONFLICT,
    ),
    openapi_extra=bodies(
        {"application/json": ref("Statements"), "application/sql": TEXT, "text/plain": TEXT},
        "The statements as text, or in JSON under sql.",
    )
    | key_parameter(),
)
async def create_views(request: Request, caller: Acting, site: TheSite, limits: TheLimits) -> Response:
    """CREATE RELATION and CREATE VIEW statements. The same statement again changes nothing; a publisher's are common,
    unless they read `matches`, in which each account finds what was found for it."""
    is_sql = content_type(request, JSON_TYPES, SQL_TYPES) in SQL_TYPES

    async def do(body: AsyncIterator[bytes], _key: str | None) -> Response:
        text = _sql(await whole(body), is_sql, limits)
        result = await run_in_threadpool(site.views.create, caller.owner, text)
        told = Told(limits.rejections_max)
        told.accepted = len(result.made) + result.known
        for line, problem in result.rejected:
            told.reject(line, problem)
        return told.answer()

    return await once(request, site, caller.owner.name, do, bytes_max=limits.body_bytes_max, limits=limits)


def _sql(raw: bytes, is_sql: bool, limits: WebLimits) -> str:
    if is_sql:
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Refusal(422, "bad_text", f"the text is not UTF-8 at byte {error.start}") from None
    body = as_object(raw, limits)
    text = body.get("sql")
    if body.keys() != {"sql"} or not isinstance(text, str):
        raise Refusal(422, "invalid", 'sql: send {"sql": "CREATE RELATION …; CREATE VIEW …"}')
    return text


@router.get("/views", summary="Relations and views", responses={200: answer(ref("Views"), "In order of creation.")})
async def list_views(caller: Acting, site: TheSite) -> Response:
    """The common ones, and the account's own."""
    found = await run_in_threadpool(site.views.listed, caller.owner)
    return json_answer({"items": [described(one) for one in found]})


@router.get(
    "/views/{name:path}",
    summary="A view and its rows",
    responses=answers({200: answer(ref("ViewRows"), "As it is now.")}, FOUND),
)
async def get_view(
    name: Name,
    caller: Acting,
    site: TheSite,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Rows at most.")] = 1_000,
) -> Response:
    """What is certain of it now: the first rows by rank or key. Of a relation: what it is."""
    about = await run_in_threadpool(site.views.described, caller.owner, name)
    if about.kind == "relation":
        return json_answer(described(about))
    about, rows = await run_in_threadpool(site.views.rows, caller.owner, name, limit)
    return json_answer(described(about) | {"rows": [row.json() for row in rows]})


@router.delete(
    "/views/{name:path}",
    status_code=204,
    response_class=Response,
    summary="Drop a relation or view",
    responses=answers({204: {"description": "It is gone, with its events or rows."}}, FOUND, CONFLICT),
)
async def drop_view(name: Name, caller: Acting, site: TheSite) -> Response:
    """Refused while another one reads it."""
    await run_in_threadpool(site.views.drop, caller.owner, name)
    return Response(status_code=204)


def described(one: Described) -> dict[str, Any]:
    """A relation or view as the API answers it."""
    found: dict[str, Any] = {"name": one.name, "kind": one.kind, "sql": one.sql, "own": one.is_own}
    found |= {"created": stamp(one.created), "size": one.size}
    found["columns"] = [{"name": name, "type": kind, "evolves": how} for name, kind, how in one.columns]
    if one.kind == "relation":
        found["closed"] = one.closed
    if one.problem is not None:
        found["problem"] = one.problem
    return found
