"""`tocsin harvest`: visits a site's sources now."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tocsin.cli.backup import place_arguments
from tocsin.cli.console import line, waiting
from tocsin.cli.sources import opened, private_argument

if TYPE_CHECKING:
    from tocsin.site.harvest.harvester import Visited

NAME = "harvest"
HELP = "visit a site's sources now, and take what is new"
DESCRIPTION = """Visits the sources that are due (or those that are named), each until it has no more to tell now, and
prints one line for each visit: {"source", "name", "new", "updated", "repeated", "twins", "deleted"} and "problem" if it
failed. Works on the store of a site; what is new is matched by the site, now or when it runs."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument(
        "number", metavar="NUMBER", nargs="*", type=int, help="sources, as `sources list` numbers them (default: due)"
    )
    place_arguments(command)
    private_argument(command)


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if a visit failed."""
    from tocsin.site.harvest import sources
    from tocsin.site.harvest.harvester import Harvester

    failed = 0

    def told(visited: Visited) -> None:
        nonlocal failed
        failed += visited.problem is not None
        print(line(_shown(visited)), flush=True)

    with opened(given) as (store, settings, _):
        for number in given.number:
            sources.get(store, number)
        with waiting("visiting sources …"):
            Harvester(store, settings, told=told).visit_once(given.number or None)
    return 1 if failed else 0


def _shown(visited: Visited) -> dict[str, object]:
    found = visited.found
    shown: dict[str, object] = {"source": visited.source.number, "name": visited.source.name}
    shown |= {"new": found.new, "updated": found.updated, "repeated": found.repeated}
    shown |= {"twins": found.twins, "deleted": found.deleted}
    if visited.problem is not None:
        shown["problem"] = visited.problem
    if visited.note is not None:
        shown["note"] = visited.note
    return shown
