"""The sources that are harvested, with how each fares."""

from __future__ import annotations

from starlette.responses import Response

from tocsin.store import sources
from tocsin.web.pages.view import View

SHOWN = 100


def listed(view: View) -> Response:
    """By number, a page at a time."""
    after = int(text) if (text := view.asked("after")).isdecimal() and len(text) < 19 else 0
    found = sources.listed(view.site.store, after, SHOWN + 1)
    following = found[SHOWN - 1].number if len(found) > SHOWN else None
    return view.page("sources.html", sources=found[:SHOWN], following=following)
