"""`tocsin preview`: what a query would have brought, from what a site has stored."""

from __future__ import annotations

import argparse

from tocsin.cli.console import line, waiting
from tocsin.cli.remote import Remote, site_arguments

NAME = "preview"
HELP = "tell what a query would have found in a running site's documents"
DESCRIPTION = """Prints one line {"total", "per_day", "sample"}: how many documents a subscription with this query
would have been told of, on which days, and the newest of them with the reason."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument("query", metavar="QUERY", nargs="?", help="the query; put -- before one that starts with -")
    command.add_argument("--xpath", metavar="PATH", help="a path of XML, alone or beside the query")
    command.add_argument("--since", metavar="TIME", help="only documents from this day or time on")
    command.add_argument("--until", metavar="TIME", help="only documents up to this day or time")
    site_arguments(command)


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if the query is refused."""
    asked = {name: getattr(given, name) for name in ("query", "xpath", "since", "until")}
    with Remote(given) as site, waiting("looking through what is stored …"):
        found = site.call("POST", "preview", {name: value for name, value in asked.items() if value is not None})
    print(line(found))
    return 0
