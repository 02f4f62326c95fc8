"""One-time queries over the stored documents, best first."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tocsin.errors import SettingError
from tocsin.web.answers import Refusal, json_answer, not_yet
from tocsin.web.caller import Admitted, Limit, TheSite
from tocsin.web.routes import BASE
from tocsin.web.schemas import ERROR, NOT_YET, Schema, answer, answers

router = APIRouter(prefix=BASE, tags=["documents"], responses=ERROR)

_HIT: Schema = {
    "type": "object",
    "required": ["document", "score", "version"],
    "properties": {
        "document": {"type": "string"},
        "version": {"type": "integer"},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "additionalProperties": False,
}
_HITS: Schema = {
    "type": "object",
    "required": ["items", "next", "total", "statistics"],
    "properties": {
        "items": {"type": "array", "items": _HIT},
        "next": {"type": ["string", "null"], "description": "Where to go on; null at the end."},
        "total": {"type": "integer", "minimum": 0},
        "statistics": {"type": "integer", "description": "The version of the statistics that weigh words."},
    },
    "additionalProperties": False,
}


@router.get(
    "/search",
    summary="One-time query over the stored documents",
    responses=answers({200: answer(_HITS, "The documents that match, best first.")}, NOT_YET),
)
async def search(
    caller: Admitted,
    site: TheSite,
    q: Annotated[str, Query(description="The query.", max_length=20_000)],
    limit: Limit = 10,
    after: Annotated[str | None, Query(max_length=5_000, description="Only those after this cursor.")] = None,
) -> Response:
    """Answered from what is stored now."""
    if site.searching is None:
        raise not_yet("search without an index of documents")
    try:
        found = await run_in_threadpool(site.searching.search, q, limit, after or None)
    except SettingError as error:
        raise Refusal(422, "bad_cursor", f"after: {error}") from None
    items = [{"document": hit.id, "version": hit.version, "score": hit.score} for hit in found.hits]
    return json_answer({"items": items, "next": found.next, "total": found.total, "statistics": found.statistics})
