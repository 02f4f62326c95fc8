"""What a query would have found in the documents that are stored: by the pipeline, which matches them in parallel."""

from __future__ import annotations

from math import inf, nextafter
from typing import Any, Protocol, runtime_checkable

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tocsin import dates
from tocsin.errors import PipelineError
from tocsin.site.moments import stamp
from tocsin.site.site import Site
from tocsin.store.subscriptions import Asked
from tocsin.web.answers import Refusal, json_answer, not_yet
from tocsin.web.bodies import json_object
from tocsin.web.caller import Admitted, Caller, TheLimits, TheSite
from tocsin.web.routes import BASE
from tocsin.web.schemas import BODY, ERROR, NOT_YET, Schema, answer, answers, json_body

router = APIRouter(prefix=BASE, tags=["subscriptions"], responses=ERROR)
KEYS = ("query", "xpath", "namespaces", "since", "until")

_DAY: Schema = {"type": "object", "required": ["day", "count"]}
_SAMPLE: Schema = {"type": "object", "required": ["document", "version", "time", "score", "evidence"]}
_PREVIEW: Schema = {
    "type": "object",
    "required": ["total", "per_day", "sample"],
    "properties": {
        "total": {"type": "integer", "minimum": 0},
        "per_day": {"type": "array", "items": _DAY},
        "sample": {"type": "array", "items": _SAMPLE, "description": "The newest."},
    },
    "additionalProperties": False,
}
_WANTED: Schema = {
    "type": "object",
    "properties": {
        "query": {"type": ["string", "null"]},
        "xpath": {"type": ["string", "null"]},
        "namespaces": {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
        "since": {"type": ["string", "null"], "description": "Only documents from this time on: a day, or RFC 3339."},
        "until": {"type": ["string", "null"], "description": "Only documents up to it; a day is that whole day."},
    },
    "additionalProperties": False,
}


@runtime_checkable
class Previewing(Protocol):
    """A pipeline that can look back."""

    def preview(self, asked: Asked, period: tuple[float | None, float | None]) -> Any:
        """What would have been found: total, per_day, sample."""


@router.post(
    "/preview",
    status_code=200,
    summary="What a query would have found",
    responses=answers({200: answer(_PREVIEW, "How many, on which days, and the newest.")}, BODY, NOT_YET),
    openapi_extra=json_body(_WANTED),
)
async def preview(request: Request, caller: Admitted, site: TheSite, limits: TheLimits) -> Response:
    """The documents that are stored, tried on a query before it is subscribed to."""
    given = await json_object(request, limits)
    return json_answer(await run_in_threadpool(_preview, site, caller, given))


def _preview(site: Site, caller: Caller, given: dict[str, Any]) -> dict[str, Any]:
    for key in given:
        if key not in KEYS:
            raise Refusal(422, "invalid", f"unknown key {key[:60]!r}: a preview has {', '.join(KEYS)}")
    asked = site.reader(caller.account).asked(given.get("query"), given.get("xpath"), given.get("namespaces"))
    since, until = _span(given, "since"), _span(given, "until")
    period = (None if since is None else since[0], None if until is None else until[1])
    if not isinstance(site.pipeline, Previewing):
        raise not_yet("a preview without Spark")
    try:
        found = site.pipeline.preview(asked, period)
    except PipelineError:
        message = "the pipeline starts: try again soon"
        raise Refusal(503, "starting", message, headers={"Retry-After": "5"}) from None
    return {
        "total": found.total,
        "per_day": [{"day": day, "count": count} for day, count in found.per_day],
        "sample": [
            {
                "document": one.document,
                "version": one.version,
                "time": stamp(one.moment),
                "score": one.score,
                "evidence": one.evidence,
            }
            for one in found.sample
        ],
    }


def _span(given: dict[str, Any], key: str) -> tuple[float, float] | None:
    """The first moment that a text stands for, and the first after it; in seconds since 1970."""
    text = given.get(key)
    if text is None:
        return None
    found = dates.span(text) if isinstance(text, str) else None
    if found is None:
        raise Refusal(422, "invalid", f"{key}: a day such as 2026-11-15, or a time such as 2026-11-15T08:00:00Z")
    first, last = found
    after = nextafter(last / dates.SECOND, inf) if first == last else (last + 1) / dates.SECOND
    return first / dates.SECOND, after
