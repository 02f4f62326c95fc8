"""`tocsin audit`: did every subscription see every document?"""

from __future__ import annotations

import argparse

from tocsin.cli.console import line, waiting
from tocsin.cli.remote import Remote, site_arguments

NAME = "audit"
HELP = "prove that every subscription of a running site saw every document once"
DESCRIPTION = """Checks the site's receipts (which part of the index saw which documents), matches everything again and
compares. Prints what was found, and each gap by name; with --fill the gaps are closed."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument("--fill", action="store_true", help="close the gaps that are found")
    command.add_argument("--receipts", action="store_true", help="look at the receipts only, which is quick")
    site_arguments(command)


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if there is a gap."""
    with Remote(given) as site, waiting("checking the receipts …"):
        found = site.call("POST" if given.fill else "GET", "audit", deep="false" if given.receipts else "true")
    print(line(found))
    return 0 if found["complete"] else 1
