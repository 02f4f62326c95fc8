"""`tocsin subscribe`: tells a running site what to look for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import isfinite
from typing import Any

from tocsin.cli.console import line, say
from tocsin.cli.remote import Remote, decoded, quoted, site_arguments
from tocsin.errors import InputError, SettingError
from tocsin.files import find_inputs
from tocsin.files.lines import lines
from tocsin.files.unpacked import Damaged, chunks
from tocsin.settings import DEFAULTS

NAME = "subscribe"
HELP = "tell a running site what to look for"
DESCRIPTION = """Makes a subscription of QUERY or of a view, or one for each line of a file ({"query" and/or "xpath", or
"view", "id"?, "name"?, "tags"?, "channel"?, "mode"?, "exactness"?, "feedback"?}), and prints a line for each: the
subscription with what to expect of it, or the error. With --list, --show, --pause, --resume, --delete or --thumb it
looks after those that are there."""

STATES = ("pause", "resume", "delete", "show")


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument("query", metavar="QUERY", nargs="?", help="the query; put -- before one that starts with -")
    command.add_argument("--xpath", metavar="PATH", help="an XPath that must select something in the document's XML")
    command.add_argument("--view", metavar="VIEW", help="the rows of a view of the site, instead of documents")
    command.add_argument(
        "--where", metavar="CONDITION", help="of a view: every change of the rows for which this holds"
    )
    command.add_argument("--when", metavar="CONDITION", help="of a view: when this begins to hold for a row, or ends")
    command.add_argument(
        "-s", "--subscriptions", metavar="SUBS", help="a file of subscriptions, one a line; - for standard input"
    )
    command.add_argument("--id", metavar="ID", help="the subscription's id (default: the site draws one)")
    command.add_argument("--name", metavar="NAME", help="a name for people")
    command.add_argument("--tag", metavar="TAG", action="append", default=[], help="a tag; may be repeated")
    command.add_argument("--webhook", metavar="URL", help="send notifications here")
    command.add_argument("--mode", choices=("immediate", "hourly", "daily"), help="at once, or in digests")
    command.add_argument(
        "--exactness", choices=("exact", "approximate"),
        help="where the site is in a ring: hear every site, or its most promising publishers only, for less traffic",
    )  # fmt: skip
    command.add_argument(
        "--rho", metavar="SHARE", type=float, help="approximate: the share of publishers to listen to (default 0.1)"
    )
    command.add_argument(
        "--alpha", metavar="WEIGHT", type=float,
        help="approximate: how they are chosen, from 0, who is expected to publish most of it, to 1, who knows most of "
        "it (default 0.25)",
    )  # fmt: skip
    command.add_argument(
        "--feedback", action="store_true", default=None, help="learn from thumbs: they move the texts of its ~"
    )
    actions = command.add_mutually_exclusive_group()
    actions.add_argument("--list", action="store_true", help="print the subscriptions that are there")
    actions.add_argument("--show", metavar="ID", help="print one")
    actions.add_argument("--pause", metavar="ID", help="stop looking for it, until it is resumed")
    actions.add_argument("--resume", metavar="ID", help="look for it again")
    actions.add_argument("--delete", metavar="ID", help="forget it")
    actions.add_argument(
        "--thumb", metavar=("ID", "DOCUMENT", "THUMB"), nargs=3,
        help="say of a document that it told: up, down, or none to take it back",
    )  # fmt: skip
    site_arguments(command)


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if a subscription was refused; the others are made."""
    with Remote(given) as site:
        if given.list:
            return _list(site)
        for action in STATES:
            if (id := getattr(given, action)) is not None:
                return _one(site, action, id)
        if given.thumb is not None:
            return _thumb(site, *given.thumb)
        if given.subscriptions:
            return _many(site, given.subscriptions)
        if given.query is None and given.xpath is None and given.view is None:
            raise SettingError("a QUERY is needed, or --xpath, --view, or a file of subscriptions by -s")
        print(line(site.call("POST", "subscriptions", _body(given))))
    return 0


def _body(given: argparse.Namespace) -> dict[str, Any]:
    channel = {"kind": "webhook", "url": given.webhook} if given.webhook else None
    body = {
        "query": given.query,
        "xpath": given.xpath,
        "view": _view(given),
        "id": given.id,
        "name": given.name,
        "tags": given.tag or None,
        "channel": channel,
        "mode": given.mode,
        "exactness": _exactness(given),
        "feedback": given.feedback,
    }
    return {key: value for key, value in body.items() if value is not None}


def _view(given: argparse.Namespace) -> Any:
    conditions = {key: value for key in ("where", "when") if (value := getattr(given, key)) is not None}
    if conditions and given.view is None:
        raise SettingError(f"--{next(iter(conditions))} is a condition on the rows of a --view")
    return {"name": given.view, **conditions} if conditions else given.view


def _exactness(given: argparse.Namespace) -> Any:
    numbers = {key: value for key in ("rho", "alpha") if (value := getattr(given, key)) is not None}
    if not numbers:
        return given.exactness
    if not all(map(isfinite, numbers.values())):
        raise SettingError("--rho is a number above 0, up to 1; --alpha one from 0 to 1")
    return {"kind": given.exactness or "approximate", **numbers}


def _list(site: Remote) -> int:
    after = None
    while True:
        page = site.call("GET", "subscriptions", after=after, limit=1_000)
        for item in page["items"]:
            print(line(item))
        after = page["next"]
        if after is None:
            return 0


def _one(site: Remote, action: str, id: str) -> int:
    path = f"subscriptions/{quoted(id)}"
    if action == "delete":
        site.call("DELETE", path)
    elif action == "show":
        print(line(site.call("GET", path)))
    else:
        print(line(site.call("PATCH", path, {"state": "paused" if action == "pause" else "active"})))
    return 0


def _thumb(site: Remote, id: str, document: str, thumb: str) -> int:
    if thumb not in ("up", "down", "none"):
        raise SettingError(f"a thumb is up, down or none, not {thumb!r}")
    body = {"document": document, "thumb": None if thumb == "none" else thumb}
    print(line(site.call("POST", f"subscriptions/{quoted(id)}/thumbs", body)))
    return 0


def _many(site: Remote, path: str) -> int:
    answer = site.send_lines("subscriptions", _lines(path))
    refused = 0
    for number, text in enumerate(answer.iter_lines(), 1):
        print(text)
        error = decoded(text).get("error")
        if error is not None:
            refused += 1
            say(f"rejected: {path}, answer {number}: {error['message']}")
    return 1 if refused else 0


def _lines(path: str) -> Iterator[bytes]:
    for source in find_inputs([path]):
        try:
            for number, text in lines(chunks(source), DEFAULTS.document.document_bytes_max):
                if text is None:
                    raise InputError(f"{path}: line {number} is too long")
                if text.strip():
                    yield text
        except Damaged as error:
            raise InputError(f"{path} cannot be read: {error}") from None
