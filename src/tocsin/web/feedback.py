"""Thumbs over HTTP and on the pages: what somebody thinks of a notification moves its subscription."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tocsin.site import feedback, life
from tocsin.site.feedback import DOWN, UP, Given
from tocsin.site.problems import Invalid
from tocsin.site.site import Site
from tocsin.store import thumbs
from tocsin.store.glance import Told
from tocsin.store.subscriptions import Kept
from tocsin.web.answers import Refusal, json_answer
from tocsin.web.bodies import json_object
from tocsin.web.caller import Acting, TheLimits, TheSite
from tocsin.web.pages.view import View
from tocsin.web.routes import BASE
from tocsin.web.schemas import BODY, CONFLICT, ERROR, FOUND, Schema, answer, answers, json_body, ref

router = APIRouter(prefix=BASE, tags=["subscriptions"], responses=ERROR | FOUND)

THUMB: Schema = {
    "type": "object",
    "required": ["document", "thumb"],
    "properties": {
        "document": {"type": "string", "description": "A document that the subscription has told."},
        "version": {"type": "integer", "minimum": 1, "description": "Without one: the newest that was told."},
        "thumb": {"enum": [UP, DOWN, None], "description": "null takes it back."},
    },
    "additionalProperties": False,
}
_VERSION: Schema = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
_GIVEN: Schema = {
    "type": "object",
    "required": ["document", "version", "thumb"],
    "properties": {"document": {"type": "string", "minLength": 1}, "version": _VERSION, "thumb": {"enum": [UP, DOWN]}},
}
_WORD: Schema = {
    "type": "object",
    "required": ["word", "factor"],
    "properties": {"word": {"type": "string"}, "factor": {"type": "number"}, "weight": {"type": "number"}},
}
_MOVED: Schema = {
    "type": "object",
    "required": ["field", "text", "words"],
    "properties": {
        "field": {"type": "string"},
        "text": {"type": "string"},
        "words": {"type": "array", "items": _WORD},
    },
}
_KEPT: Schema = {
    "type": "object",
    "properties": {
        "thumbs": {"type": "array", "items": _GIVEN},
        "texts": {"type": "array", "items": _MOVED},
        "statistics": {"description": "Which of the site's counts of words they were moved by."},
    },
    "additionalProperties": False,
}
WANTED: Schema = {
    "description": "Does it take thumbs? They move the texts of its `~` by Rocchio's method. An object: yes, and those "
    "it has already, as they were answered or exported. Null: no.",
    "anyOf": [{"type": ["boolean", "null"]}, _KEPT],
}
SHOWN: Schema = {
    "description": "It takes thumbs. One subscription is answered with its thumbs and, for each text that they have "
    "moved, the weighted words; a list says true.",
    "anyOf": [{"const": True}, _KEPT],
}


@router.post(
    "/subscriptions/{id:path}/thumbs",
    summary="A thumb up or down for what a subscription has told, or take it back",
    responses=answers({200: answer(ref("Subscription"), "As it is now, with its thumbs and words.")}, BODY, CONFLICT),
    openapi_extra=json_body(THUMB),
)
async def set_thumb(
    request: Request,
    id: Annotated[str, Path(description="The subscription's id, percent-encoded, slashes too.", min_length=1)],
    caller: Acting,
    site: TheSite,
    limits: TheLimits,
) -> Response:
    """Moves the query's vector, from the next document on; the subscription must have `feedback`."""
    if "\0" in id:
        raise Refusal(404, "not_found", "there is no subscription of this id")
    thumb = feedback.given(await json_object(request, limits))
    kept = await run_in_threadpool(feedback.rate, site, caller.owner, id, thumb)
    return json_answer(await run_in_threadpool(shown, site, kept, life.as_json(kept)))


def shown(site: Site, kept: Kept, answered: dict[str, Any]) -> dict[str, Any]:
    """What is answered of one subscription, with its thumbs and the words that they have moved it to."""
    found = feedback.as_json(site, kept)
    return answered if found is None else answered | {feedback.KEY: found}


# --- on a page -------------------------------------------------------------------------------------------------------


def given_to(site: Site, told: Sequence[Told]) -> dict[tuple[int, str, int], bool]:
    """The thumbs of these notifications: is it up?"""
    about = [(one.number, one.document, one.version) for one in told if one.takes_thumbs]
    return thumbs.given(site.store, about)


def press(view: View) -> Response:
    """A thumb under an alert was pressed; pressed again, it is taken back."""
    id, document, version, do = (view.form.get(name, "") for name in ("subscription", "document", "version", "do"))
    if do not in (UP, DOWN, "none") or not (version.isdecimal() and len(version) < 19) or not document:
        raise Invalid("this button is not known")
    thumb = Given(document, int(version), None if do == "none" else do == UP)
    name = feedback.rate(view.site, view.owner, id, thumb).about.get("name") or id
    said = {UP: "looks for more like it", DOWN: "looks for less like it", "none": "has forgotten your thumb"}[do]
    places = {key: value for key in ("words", "only", "before") if (value := view.form.get(key, ""))}
    if "only" in places:
        places["subscription"] = places.pop("only")
    return view.go("/alerts", **places, note=f"{name} {said}.")
