"""The account's subscriptions, and what can be done with one: pause, resume, mute, delete."""

from __future__ import annotations

import time

from starlette.responses import Response

from tocsin.site import life
from tocsin.site.problems import Invalid
from tocsin.site.wishes import moment_of
from tocsin.store.subscriptions import DROP, HOLD
from tocsin.web import federated
from tocsin.web.pages.overview import lines_of
from tocsin.web.pages.view import View

SHOWN = 50
MUTES = {"1": "1 hour", "8": "8 hours", "24": "a day", "168": "a week"}


def listed(view: View) -> Response:
    """By id, a page at a time."""
    tag = view.asked("tag") or None
    found = life.listed(view.site, view.owner, view.asked("after"), SHOWN + 1, tag)
    return view.page(
        "subscriptions.html",
        lines=lines_of(view.site, view.tally, found[:SHOWN]),
        following=found[SHOWN - 1].id if len(found) > SHOWN else None,
        tag=tag,
        mutes=MUTES,
        fares={number: federated.sentence(fare) for number, fare in federated.fares_of(view.site, found).items()},
    )


def change(view: View) -> Response:
    """One button of a subscription was pressed."""
    id, what = view.form.get("id", ""), view.given("do")
    name = life.get(view.site, view.owner, id).about.get("name") or id
    if what == "pause":
        life.pause(view.site, view.owner, id)
        note = f"{name} is paused: documents that come now are not matched with it."
    elif what == "resume":
        life.resume(view.site, view.owner, id)
        note = f"{name} is active again."
    elif what == "mute":
        life.mute(view.site, view.owner, id, _until(view), HOLD if view.given("arriving") == HOLD else DROP)
        note = f"{name} is muted."
    elif what == "delete":
        life.delete(view.site, view.owner, id)
        note = f"{name} is deleted. What it has found stays among the alerts."
    else:
        raise Invalid("this button is not known")
    return view.go("/subscriptions", note=note)


def _until(view: View) -> float:
    """When a mute ends: a time in UTC, or so many hours from now."""
    exact, hours = view.given("until"), view.given("hours")
    if exact:
        found = moment_of(exact if exact.endswith("Z") else _padded(exact) + "Z", "until")
        assert found is not None
        return found
    if hours not in MUTES:
        raise Invalid("say until when it is muted", field="until")
    return time.time() + int(hours) * 3_600.0


def _padded(text: str) -> str:
    """A browser leaves the seconds out."""
    return f"{text}:00" if len(text) == 16 else text
