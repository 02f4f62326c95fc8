"""What an operator looks at: health, metrics, who did what, what is slow, what was refused, the audit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tocsin.site import audit
from tocsin.site.moments import stamp
from tocsin.site.site import Site
from tocsin.store import documents, inbox, journal, outbox, subscriptions, webhooks
from tocsin.web import federated
from tocsin.web.answers import Refusal, json_answer
from tocsin.web.caller import Admitted, Limit, TheMetrics, TheSite
from tocsin.web.metrics import CONTENT_TYPE
from tocsin.web.routes import BASE
from tocsin.web.schemas import ERROR, Schema, answer, ref

open_router = APIRouter(tags=["operation"])
router = APIRouter(prefix=BASE, tags=["operation"], responses=ERROR)


def _items(**properties: Schema) -> Schema:
    item = {"type": "object", "required": sorted(properties), "properties": properties, "additionalProperties": False}
    return {
        "type": "object",
        "required": ["items"],
        "properties": {"items": {"type": "array", "items": item}, "next": {"type": ["string", "null"]}},
        "additionalProperties": False,
    }


# --- open ------------------------------------------------------------------------------------------------------------

_HEALTH: Schema = {
    "type": "object",
    "required": ["status", "lag"],
    "properties": {"status": {"const": "ok"}, "lag": {"type": "integer", "minimum": 0}},
    "additionalProperties": False,
}


@open_router.get(
    "/healthz",
    summary="Does the pipeline run?",
    responses={200: answer(_HEALTH, "It runs."), 503: answer(ref("Error"), "Not yet, or not any more.")},
)
async def healthz(site: TheSite) -> Response:
    """200 while the pipeline takes documents; 503 before and after."""
    if not site.is_running:
        failure = site.failure
        message = "the pipeline starts" if failure is None else "the pipeline does not run: the operator's log says why"
        raise Refusal(503, "starting" if failure is None else "stopped", message, headers={"Retry-After": "2"})
    return json_answer({"status": "ok", "lag": await run_in_threadpool(_lag, site)})


def _lag(site: Site) -> int:
    progress = site.progress()
    return 0 if progress is None else progress.lag


@open_router.get(
    "/metrics",
    summary="Numbers of the whole site, in Prometheus' text form",
    response_class=Response,
    responses={200: answer({"type": "string"}, "Without a token, and without anything private.", "text/plain")},
)
async def metrics(site: TheSite, counted: TheMetrics) -> Response:
    """Counters and gauges; none names an account, a subscription or a document."""
    text = counted.text(await run_in_threadpool(gauges, site))
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


def gauges(site: Site) -> dict[str, tuple[str, str, float]]:
    """What the site and its store say, by name: kind, help, value."""
    store, progress = site.store, site.progress()
    waiting, given_up = webhooks.backlog(store)
    accepted = documents.last_position(store)
    found: dict[str, tuple[str, str, float]] = {
        "tocsin_up": ("gauge", "Does the pipeline run?", float(site.is_running)),
        "tocsin_documents_accepted_total": ("counter", "Documents that were stored.", accepted),
        "tocsin_notifications_total": ("counter", "Notifications and digests that were made.", inbox.last(store)),
        "tocsin_subscriptions": ("gauge", "Subscriptions that are not deleted.", subscriptions.count(store)),
        "tocsin_webhook_backlog": ("gauge", "Webhooks that have something to send.", waiting),
        "tocsin_undelivered": ("gauge", "Items that a webhook did not take.", given_up),
    }
    found |= federated.gauges(site)
    if progress is not None:
        found |= {
            "tocsin_lag_documents": ("gauge", "Documents that wait to be matched.", progress.lag),
            "tocsin_documents_matched_total": ("counter", "Documents matched since the start.", progress.documents),
            "tocsin_matches_total": ("counter", "Matches found since the start.", progress.matches),
            "tocsin_batch_seconds": ("gauge", "How long the last batch took.", progress.batch_seconds),
            "tocsin_batch_documents": ("gauge", "Documents of the last batch.", progress.batch_documents),
        }
    return found


# --- for the administrator -------------------------------------------------------------------------------------------

_TEXT: Schema = {"type": "string"}
_MAYBE: Schema = {"type": ["string", "null"]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_JOURNAL = _items(number=_COUNT, at=_TEXT, account=_MAYBE, action=_TEXT, target=_MAYBE, detail={})
_SLOW = _items(account=_TEXT, subscription=_TEXT, tried=_COUNT, matched=_COUNT)
_REJECTED = _items(place=_TEXT, reason=_TEXT, excerpt=_MAYBE, at=_TEXT)


@router.get("/journal", summary="Who did what, the newest first", responses={200: answer(_JOURNAL, "Entries.")})
async def read_journal(
    caller: Admitted,
    site: TheSite,
    account: Annotated[str | None, Query(max_length=200, description="Only of this account.")] = None,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="Only older ones than this number.")] = None,
    limit: Limit = 100,
) -> Response:
    """The log of who did what."""
    found = await run_in_threadpool(journal.read, site.store, account, before, limit)
    items = [one._asdict() | {"at": stamp(one.at)} for one in found]
    return json_answer({"items": items, "next": str(found[-1].number) if len(found) == limit else None})


@router.get("/slow", summary="The dearest subscriptions", responses={200: answer(_SLOW, "The dearest first.")})
async def slow(caller: Admitted, site: TheSite, limit: Limit = 20) -> Response:
    """The subscriptions that were looked at by themselves on most documents."""
    found = await run_in_threadpool(journal.dearest, site.store, None, limit)
    return json_answer({"items": [one._asdict() for one in found]})


@router.get(
    "/rejected", summary="What arrived and was refused", responses={200: answer(_REJECTED, "The newest first.")}
)
async def rejected(caller: Admitted, site: TheSite, limit: Limit = 100) -> Response:
    """What sources brought that could not be taken, with the reason."""
    found = await run_in_threadpool(outbox.letters, site.store, None, limit)
    items = [{"place": one.place, "reason": one.reason, "excerpt": one.excerpt, "at": stamp(one.at)} for one in found]
    return json_answer({"items": items})


_AUDIT: Schema = {
    "type": "object",
    "required": ["complete", "gaps", "missing", "false"],
    "properties": {
        "complete": {"type": "boolean", "description": "Is everything that was matched proved, or filled?"},
        "gaps": {"type": "array", "items": {"type": "object"}},
        "missing": _COUNT,
        "false": _COUNT,
    },
}
Deep = Annotated[bool, Query(description="Match everything again and compare, besides looking at the receipts.")]


@router.get(
    "/audit", summary="Did every subscription see every document?", responses={200: answer(_AUDIT, "What was found.")}
)
async def look(caller: Admitted, site: TheSite, deep: Deep = True) -> Response:
    """Looks for gaps in the receipts, and compares the outbox with what should be there."""
    return json_answer(await run_in_threadpool(audit.run, site, fill=False, deep=deep))


@router.post("/audit", summary="The same, and fill the gaps", responses={200: answer(_AUDIT, "What was done.")})
async def mend(caller: Admitted, site: TheSite, deep: Deep = True) -> Response:
    """Looks for gaps, and fills them."""
    found = await run_in_threadpool(audit.run, site, fill=True, deep=deep)
    await run_in_threadpool(journal.note, site.store, caller.account.name, "audit", None, filled=found["filled"])
    site.noticed()
    return json_answer(found)
