"""What a query would have found in the documents that are stored.

By the index of documents, which answers within a second; paths into XML, which it does not know, by the pipeline, which
matches all documents in parallel.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from math import inf, nan, nextafter
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tocsin import dates
from tocsin.errors import PipelineError
from tocsin.match.explain import why
from tocsin.model import Subscription
from tocsin.query.ast import Query
from tocsin.query.score import score
from tocsin.query.semantics import Knowledge
from tocsin.site.lookback import SAMPLE, Past, Sighting
from tocsin.site.moments import stamp
from tocsin.site.searching import Searching
from tocsin.site.site import Site
from tocsin.store import Store, documents
from tocsin.store.subscriptions import Asked
from tocsin.web.answers import Refusal, json_answer, not_yet
from tocsin.web.bodies import json_object
from tocsin.web.caller import Admitted, Caller, TheLimits, TheSite
from tocsin.web.routes import BASE
from tocsin.web.schemas import BODY, ERROR, NOT_YET, Schema, answer, answers, json_body

router = APIRouter(prefix=BASE, tags=["subscriptions"], responses=ERROR)
KEYS = ("query", "xpath", "namespaces", "since", "until")
Period = tuple[float | None, float | None]
ALWAYS: Period = (None, None)
DAY_SECONDS = 86_400

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

    def preview(self, asked: Asked, period: Period) -> Any:
        """What would have been found: total, per_day, sample."""


def past_of(site: Site, asked: Asked, query: Query | None, period: Period = ALWAYS) -> Any:
    """What would have been found: total, per_day, sample; PipelineError if the pipeline is needed and starts.

    None: neither of them can tell.
    """
    if site.searching is not None and query is not None and asked.xpath is None:
        return _looked_up(site, site.searching, query, asked.query or "", period)
    if isinstance(site.pipeline, Previewing):
        return site.pipeline.preview(asked, period)
    return None


def _looked_up(site: Site, searching: Searching, query: Query, text: str, period: Period) -> Past:
    """From the index: documents as they are now, replaced versions are not counted."""
    places, statistics = searching.places(query)
    moments = _kept.setdefault(site.store, Moments()).of(site.store, places)
    since, until = period
    within = (moments >= (-inf if since is None else since)) & (moments < (inf if until is None else until))
    places, moments = places[within], moments[within]
    days, counts = np.unique(moments // DAY_SECONDS, return_counts=True)
    per_day = [
        (datetime.fromtimestamp(day * DAY_SECONDS, UTC).date().isoformat(), count)
        for day, count in zip(days.tolist(), counts.tolist(), strict=True)
    ]
    newest = np.lexsort((places, moments))[::-1][:SAMPLE]
    contents = documents.at_positions(site.store, places[newest].tolist())
    subscription, knowledge = Subscription("preview", query, text, None), Knowledge(site.analysis, statistics)
    sample = []
    for at, moment in zip(places[newest].tolist(), moments[newest].tolist(), strict=True):
        if at in contents:
            stored = contents[at]
            document = stored.document()
            value = score(query, document, site.analysis, statistics)
            sample.append(Sighting(stored.id, stored.version, moment, value, why(subscription, document, knowledge)))
    return Past(len(places), per_day, sample, len(places), False)


class Moments:
    """When each document of the log was published: that never changes, so it is asked for once and kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments = np.full(0, nan)

    def of(self, store: Store, places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Of the documents at these positions."""
        with self._lock:
            last = int(places[-1]) if places.size else 0
            if last > self._moments.size:
                self._read(store, max(last, documents.last_position(store)))
            return self._moments[places - 1]

    def _read(self, store: Store, last: int) -> None:
        first = self._moments.size
        grown = np.full(last, nan)
        grown[:first] = self._moments
        for position, moment in documents.moments_between(store, first, last):
            grown[position - 1] = moment
        self._moments = grown


_kept: WeakKeyDictionary[Store, Moments] = WeakKeyDictionary()


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
    reader = site.reader(caller.account)
    asked = reader.asked(given.get("query"), given.get("xpath"), given.get("namespaces"))
    since, until = _span(given, "since"), _span(given, "until")
    period = (None if since is None else since[0], None if until is None else until[1])
    if period[0] is not None and period[1] is not None and period[0] >= period[1]:
        raise Refusal(422, "bad_value", "since: it lies after until; exchange them")
    try:
        found = past_of(site, asked, reader.parsed(asked)[0], period)
    except PipelineError:
        message = "the pipeline starts: try again soon"
        raise Refusal(503, "starting", message, headers={"Retry-After": "5"}) from None
    if found is None:
        raise not_yet("a preview without Spark")
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
