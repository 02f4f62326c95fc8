"""What was found, the newest first: where it matched and why, and a filter over it."""

from __future__ import annotations

from starlette.responses import Response

from tocsin.site import life
from tocsin.site.problems import NotFound
from tocsin.site.site import Site
from tocsin.store import glance, subscriptions
from tocsin.store.subscriptions import Kept
from tocsin.text import fold
from tocsin.web.feedback import given_to
from tocsin.web.pages.shown import Shown, shown_all
from tocsin.web.pages.view import View

SHOWN, CHUNK, LOOKED_AT_MAX, LISTED = 20, 200, 2_000, 200


def alerts(view: View) -> Response:
    """A page of them."""
    store, owner = view.site.store, view.owner
    before = int(text) if (text := view.asked("before")).isdecimal() and len(text) < 19 else None
    words, id = view.asked("words").strip(), view.asked("subscription")
    only = _only(view.site, view, id)
    found, rest, looked_at = _found(view.site, owner.name, only, fold(words), before)
    return view.page(
        "alerts.html",
        alerts=found,
        rest=rest,
        before=before,
        looked_at=looked_at if words else None,
        words=words,
        only=only,
        choices=subscriptions.newest(store, owner.name, LISTED),
        last=glance.last_of(store, owner.name),
        thumbs=given_to(view.site, [one.told for one in found if one.told is not None]),
    )


def _only(site: Site, view: View, id: str) -> Kept | None:
    if not id:
        return None
    try:
        return life.get(site, view.owner, id)
    except NotFound:
        return None  # it was deleted since the address was kept


def _found(
    site: Site, account: str, only: Kept | None, words: str, before: int | None
) -> tuple[list[Shown], int | None, int]:
    """The alerts, where to go on, and how many were looked at."""
    number = None if only is None else only.number
    if not words:
        told = glance.newest(site.store, account, subscription=number, before=before, limit=SHOWN + 1)
        return shown_all(site, told[:SHOWN]), told[SHOWN - 1].cursor if len(told) > SHOWN else None, len(told)
    found: list[Shown] = []
    looked_at = 0
    while looked_at < LOOKED_AT_MAX:
        told = glance.newest(site.store, account, subscription=number, before=before, limit=CHUNK)
        for one in shown_all(site, told):
            looked_at += 1
            before = one.told.cursor if one.told is not None else before
            if _holds(one, words):
                found.append(one)
                if len(found) == SHOWN:
                    return found, before, looked_at
        if len(told) < CHUNK:
            return found, None, looked_at
    return found, before, looked_at


def _holds(one: Shown, words: str) -> bool:
    """Does everything that was typed occur in the document, or in the subscription's name?"""
    texts = [text for _, text in one.fields] or [one.document]
    if one.told is not None:
        texts += [one.told.name or "", one.told.subscription]
    whole = fold("\n".join(texts))
    return all(word in whole for word in words.split())
