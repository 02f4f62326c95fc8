"""`tocsin backup`: a copy of a site's store, taken while it runs."""

from __future__ import annotations

import argparse

from tocsin.cli.console import line, waiting
from tocsin.cli.up import FOLDER

NAME = "backup"
HELP = "copy a site's store to a file, while it runs"
DESCRIPTION = """Writes everything that a site keeps (documents, subscriptions, notifications, accounts) to one file, as
it is at one moment. The site may run meanwhile. `tocsin restore` makes a site of it again. The file holds secrets of
webhooks: only its owner may read it."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument("file", metavar="FILE", help="the back-up to write; it is replaced")
    place_arguments(command)


def place_arguments(command: argparse.ArgumentParser) -> None:
    """Where the store is."""
    command.add_argument("--data", metavar="DIR", default=FOLDER, help=f"the site's folder (default {FOLDER})")
    command.add_argument("--store", metavar="URL", help="the PostgreSQL server that holds the store, if one does")


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if there is no store, or the file cannot be written."""
    from tocsin.store import Store
    from tocsin.store.backup import back_up

    with waiting("copying the store …"):
        store = Store(given.store or given.data, create=False)
        try:
            rows = back_up(store, given.file)
        finally:
            store.close()
    print(line({"file": given.file, "rows": rows}))
    return 0
