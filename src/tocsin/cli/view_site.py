"""`tocsin view create`, `send`, `show` and `drop`: relations, views and events of a running site."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tocsin.cli.console import line, progress, say
from tocsin.cli.remote import Remote, positive, quoted, site_arguments
from tocsin.errors import InputError
from tocsin.files import find_inputs
from tocsin.files.lines import lines
from tocsin.files.unpacked import chunks
from tocsin.settings import DEFAULTS

PART = 10_000  # events of one call


def arguments(actions: Any) -> None:
    """Its subcommands."""
    action = actions.add_parser(
        "create", help="create relations and views on a site",
        description="""Sends CREATE RELATION and CREATE VIEW statements to a site. Prints a line
{"accepted", "rejected"}; the same statement again changes nothing.""",
    )  # fmt: skip
    action.add_argument(
        "-f", "--views", metavar="VIEWS", required=True, help="relations and views, in SQL; - for standard input"
    )
    site_arguments(action)
    action = actions.add_parser(
        "send", help="send events of a file to a site",
        description="""Sends events, silences and ends of relations, one a line, to a site, which stores them before it
answers. Prints a line {"accepted", "rejected"} for each part that was sent.""",
    )  # fmt: skip
    action.add_argument(
        "-e", "--events", metavar="EVENTS", required=True, help="plain, gzip or zstd; - for standard input"
    )
    action.add_argument(
        "--part", metavar="N", type=positive, default=PART, help=f"events of one call (default {PART:,})"
    )
    site_arguments(action)
    action = actions.add_parser(
        "show", help="print the rows of a site's view, or list what there is",
        description="""Prints a line {"view", "key", "row", "final"} for each row of a view as it is now; without a name
a line for each relation and view.""",
    )  # fmt: skip
    action.add_argument("name", metavar="NAME", nargs="?", help="the view")
    action.add_argument("--limit", metavar="N", type=positive, default=1_000, help="rows at most (default 1,000)")
    site_arguments(action)
    action = actions.add_parser(
        "drop", help="drop a relation or view of a site", description="Drops a relation with its events, or a view."
    )
    action.add_argument("name", metavar="NAME", help="the relation or view")
    site_arguments(action)


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if something was refused."""
    with Remote(given) as site:
        if given.action == "create":
            return _told(
                site.call("POST", "views", {"sql": _read(given.views)}), lambda number: f"{given.views}:{number}"
            )
        if given.action == "send":
            return _send(site, given)
        if given.action == "drop":
            site.call("DELETE", f"views/{quoted(given.name)}")
            return 0
        if given.name is None:
            found = site.call("GET", "views")["items"]
        else:
            found = site.call("GET", f"views/{quoted(given.name)}", limit=given.limit).get("rows", [])
    for one in found:
        print(line(one))
    return 0


def _read(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"{path} cannot be read: {reason}") from error


def _send(site: Remote, given: argparse.Namespace) -> int:
    status = 0
    source = iter(progress(_lines(given.events), "sending events"))
    while part := list(islice(source, given.part)):
        answer = site.send_lines("events", [text for _, text in part]).json()
        status |= _told(answer, lambda number, part=part: part[number - 1][0])
    return status


def _lines(path: str) -> Iterator[tuple[str, bytes]]:
    for source in find_inputs([path]):
        for number, text in lines(chunks(source), DEFAULTS.document.document_bytes_max):
            if text is None:
                yield f"{source.name}:{number}", b"the line is too long"  # which the site refuses, and names
            elif text and not text.isspace():
                yield f"{source.name}:{number}", text


def _told(answer: Any, place: Any) -> int:
    for one in answer["rejected"]:
        say(f"rejected: {place(one['line'])}: {one['error']['message']}")
    print(line({"accepted": answer["accepted"], "rejected": len(answer["rejected"])}), flush=True)
    return 1 if answer["rejected"] else 0
