"""The sources that are harvested, with how each fares; publishers add them, and look after their own."""

from __future__ import annotations

from starlette.responses import Response

from tocsin.site.accounts import Right
from tocsin.site.harvest import sources
from tocsin.site.problems import Forbidden, Invalid, Problem
from tocsin.store import sources as kept
from tocsin.store.sources import Source
from tocsin.web.answers import json_answer
from tocsin.web.pages.view import View

SHOWN, REFUSED_SHOWN = 100, 20
FIELDS = ("address", "kind", "name", "tags", "interval", "set")
KINDS = {"feed": "A feed (RSS or Atom)", "oai": "A repository (OAI-PMH)", "folder": "A folder of this machine"}
INTERVALS = {"900": "15 minutes", "1800": "30 minutes", "3600": "hour", "21600": "6 hours", "86400": "day"}
USUAL = "1800"


def listed(view: View) -> Response:
    """By number, a page at a time."""
    return _page(view)


def _page(view: View, status: int = 200, **more: object) -> Response:
    store, owner = view.site.store, view.owner
    after = int(text) if (text := view.asked("after")).isdecimal() and len(text) < 19 else 0
    found = sources.listed(store, after, SHOWN + 1)
    values = {
        "sources": [_shown(one, view) for one in found[:SHOWN]],
        "following": found[SHOWN - 1].number if len(found) > SHOWN else None,
        "healths": kept.healths(store),
        "last": _last(view),
        "may_add": owner.may(Right.PUBLISH),
        "kinds": {name: words for name, words in KINDS.items() if name != "folder" or owner.may(Right.ADMINISTER)},
        "intervals": INTERVALS,
        "values": {**dict.fromkeys(FIELDS, ""), "interval": USUAL},
        "mistake": None,
        "imported": None,
    }
    return view.page("sources.html", status, **(values | more))


def pulse(view: View) -> Response:
    """What an open page asks now and then: was a source visited?"""
    return json_answer({"last": _last(view)})


def _last(view: View) -> str:
    return f"{kept.last_visit(view.site.store):.6f}"


def _shown(source: Source, view: View) -> dict[str, object]:
    """What the account may see of it: another's address is not among it."""
    found = sources.as_json(source, view.owner)
    times = {"tried": source.tried, "succeeded": source.succeeded, "brought": source.brought, "due": source.due}
    own = source.account == view.owner.name or view.owner.may(Right.ADMINISTER)
    return {**found, **times, "is_own": own and view.owner.may(Right.PUBLISH)}


def add(view: View) -> Response:
    """A new source; it is visited at once."""
    values = {name: view.given(name) for name in FIELDS}
    body: dict[str, object] = {"address": values["address"], "kind": values["kind"] or "feed"}
    body |= {"name": values["name"] or None, "tags": _words(values["tags"])}
    if values["interval"] in INTERVALS:
        body["interval"] = float(values["interval"])
    if values["set"]:
        body["set"] = values["set"]
    try:
        made = sources.add(view.site.store, view.site.settings.harvest, view.owner, body)
    except Forbidden:
        raise
    except Problem as problem:
        return _page(view, 422, mistake=problem.message, values=values)
    return view.go("/sources", note=f"{made.name} is followed from now on, and visited at once.")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def change(view: View) -> Response:
    """One button of a source was pressed."""
    text, what = view.given("number"), view.given("do")
    number = int(text) if text.isdecimal() and len(text) < 19 else 0
    store, settings, owner = view.site.store, view.site.settings.harvest, view.owner
    name = sources.get(store, number).name
    if what == "visit":
        sources.visit_soon(store, owner, number)
        note = f"{name} is visited in a moment."
    elif what in ("pause", "resume"):
        sources.change(store, settings, owner, number, {"state": "paused" if what == "pause" else "active"})
        note = f"{name} is paused." if what == "pause" else f"{name} is visited again."
    elif what == "remove":
        sources.remove(store, owner, number)
        note = f"{name} is removed. Its documents stay."
    else:
        raise Invalid("this button is not known")
    return view.go("/sources", note=note)


def bring(view: View) -> Response:
    """Follows the feeds of an OPML file."""
    try:
        found = sources.import_opml(
            view.site.store, view.site.settings.harvest, view.owner, view.form.get("opml", "").strip().encode()
        )
    except Forbidden:
        raise
    except Problem as problem:
        return _page(view, 422, mistake=problem.message)
    return _page(view, imported=found)


def export(view: View) -> Response:
    """The feeds whose addresses the account may see, as OPML."""
    text = sources.export_opml(view.site.store, view.owner)
    headers = {"Content-Disposition": 'attachment; filename="tocsin.opml"'}
    return Response(text, media_type="text/x-opml", headers=headers)
