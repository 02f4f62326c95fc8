"""Where an account is told besides this site: mailboxes, services, webhooks and feeds, each with how it fares."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

from starlette.responses import Response

from tocsin.site.channels import links, saved
from tocsin.site.channels.address import is_channel
from tocsin.site.delivery.caller import Answer
from tocsin.site.problems import Conflict, Invalid, NotFound, Problem
from tocsin.store import channels as kept
from tocsin.store import subscriptions
from tocsin.store.webhooks import GONE
from tocsin.web.pages.view import View

LISTED = 200


def listed(view: View) -> Response:
    """The page."""
    return _page(view)


def _page(view: View, status: int = 200, **more: object) -> Response:
    store, owner, settings = view.site.store, view.owner, view.site.settings.channels
    uses = kept.uses(store, owner.name)
    counts = Counter(use.url for use in uses)
    values: dict[str, object] = {
        "channels": [
            {**saved.as_json(one), "at": one.created, "uses": counts[saved.target_in(one).stored]}
            for one in saved.listed(view.site, owner)
        ],
        "hooks": [_hook(use) for use in uses if not is_channel(use.url)],
        "feeds": [
            {
                "what": _what(feed),
                "mark": feed.mark.hex(),
                "address": _address(view, links.feed_link(store, settings, feed)),
            }
            for feed in kept.feeds_of(store, owner.name)
        ],
        "choices": subscriptions.newest(store, owner.name, LISTED),
        "sends_mail": settings.mail_url is not None,
        "has_links": settings.public_url is not None,
        "values": {"to": "", "url": "", "name": ""},
        "mistake": None,
    }
    return view.page("channels.html", status, **(values | more))


def _hook(use: kept.Use) -> dict[str, object]:
    """A webhook as it is shown; one that said it is gone has no next try."""
    return {**use._asdict(), "place": _place(use.url), "next_try": None if use.next_try == GONE else use.next_try}


def _place(url: str) -> str:
    """A webhook's host and path, without what may be a secret in its query."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}"


def _what(feed: kept.AtomFeed) -> str:
    if feed.subscription is not None:
        return feed.subscription
    return f"everything tagged {feed.tag}" if feed.tag is not None else "all subscriptions"


def _address(view: View, link: str) -> str:
    """A feed's whole address: without a public one, the one that this browser knows."""
    return link if "://" in link else f"{view.request.url.scheme}://{view.request.url.netloc}{link}"


def is_sending(view: View) -> bool:
    """Does the button that was pressed wait for somebody else's server?"""
    return view.given("do") in ("test", "test-subscription", "ask")


def add(view: View) -> Response:
    """Keeps a mailbox or a service."""
    values = {name: view.given(name) for name in ("to", "url", "name")}
    body = {"kind": "mail", "to": values["to"]} if values["to"] else {"kind": "apprise", "url": values["url"]}
    try:
        made = saved.add(view.site, view.owner, {**body, "name": values["name"] or None})
    except Problem as problem:
        return _page(view, 422, mistake=problem.message, values={**values, "url": ""})
    if made.confirmed is not None:
        return view.go("/channels", note=f"{made.name} is saved. Send a test to see whether it works.")
    if made.problem:
        return view.go("/channels", note=f"{made.name} is saved, but the mail that asks it did not go out.")
    return view.go("/channels", note=f"{made.name} got a mail: alerts go there once its button was pressed.")


def change(view: View) -> Response:
    """One button of a channel was pressed."""
    what = view.given("do")
    try:
        return view.go("/channels", note=_changed(view, what))
    except NotFound:
        raise
    except (Conflict, Problem) as problem:
        return _page(view, 422, mistake=problem.message[:1].upper() + problem.message[1:])


def _changed(view: View, what: str) -> str:
    site, owner = view.site, view.owner
    if what == "test-subscription":
        id = view.form.get("id", "")
        return _told(saved.test_subscription(site, owner, id), id)
    if what == "end-feed":
        mark = view.given("mark")
        if len(mark) != 32 or not kept.drop_feed(site.store, owner.name, _bytes(mark)):
            raise NotFound("there is no such feed")
        return "The feed is ended: its address answers nothing any more."
    if what == "confirm":
        one = saved.with_code(site.store, view.given("code"))
        if one.account != owner.name:
            raise NotFound("this code is about another account's mailbox")
        return f"Alerts go to {saved.confirm(site, view.given('code')).name} from now on."
    text = view.given("number")
    one = saved.get(site, owner, int(text) if text.isdecimal() and len(text) < 19 else 0)
    if what == "test":
        return _told(saved.test(site, owner, one.number), one.name)
    if what == "ask":
        asked = saved.ask(site, owner, one.number)
        return f"{one.name} was asked again." if not asked.problem else f"The mail did not go out: {asked.problem}"
    if what == "remove":
        ended = saved.remove(site, owner, one.number)
        rest = f" {len(ended):,} of your subscriptions are told here only." if ended else ""
        return f"{one.name} is removed.{rest}"
    raise Invalid("this button is not known")


def _bytes(mark: str) -> bytes:
    try:
        return bytes.fromhex(mark)
    except ValueError:
        return b""


def _told(answer: Answer, name: str) -> str:
    return f"The test was taken by {name}." if answer.is_taken else f"The test did not reach {name}: {answer}"


def make_feed(view: View) -> Response:
    """An Atom feed of a subscription, of a tag, or of all."""
    id, tag = view.form.get("subscription", ""), view.given("tag")
    try:
        links.make_feed(view.site.store, view.owner, id or None, tag or None)
    except Problem as problem:
        return _page(view, 422, mistake=problem.message[:1].upper() + problem.message[1:])
    return view.go("/channels", note="The feed is made. Whoever has its address may read it.")
