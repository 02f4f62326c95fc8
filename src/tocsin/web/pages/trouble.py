"""What did not go through: alerts that a webhook did not take; for the administrator, what arrived and was refused."""

from __future__ import annotations

from starlette.responses import Response

from tocsin.site.accounts import Right
from tocsin.site.delivery import undelivered
from tocsin.site.problems import Invalid
from tocsin.store import journal, outbox
from tocsin.web.pages.view import View

SHOWN = 100


def trouble(view: View) -> Response:
    """The page."""
    letters = outbox.letters(view.site.store, None, SHOWN) if view.owner.may(Right.ADMINISTER) else []
    return view.page("trouble.html", undelivered=undelivered.listed(view.site, view.owner, 0, SHOWN), letters=letters)


def change(view: View) -> Response:
    """Sends an item again, or forgets it."""
    text = view.given("number")
    number = int(text) if text.isdecimal() and len(text) < 19 else 0
    if view.given("do") == "again":
        if not undelivered.send_again(view.site, view.owner, [number]):
            raise Invalid("there is no such item")
        journal.note(view.site.store, view.owner.name, "send again", str(number))
        view.site.noticed()
        return view.go("/dead-letters", note="It will be sent again.")
    undelivered.drop(view.site, view.owner, number)
    return view.go("/dead-letters", note="It is forgotten.")
