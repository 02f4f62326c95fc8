"""`tocsin backup`: a copy of a site's store, taken while it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from tocsin.cli.console import line, waiting
from tocsin.cli.up import FOLDER
from tocsin.store import Store
from tocsin.store import backup as copies

NAME = "backup"
HELP = "copy a site's store to a file, while it runs"
DESCRIPTION = """Writes everything that a site keeps (documents, subscriptions, notifications, accounts) to one file, as
it is at one moment. The site may run meanwhile. `tocsin restore` makes a site of it again."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument("file", metavar="FILE", help="the back-up to write; it is replaced")
    command.add_argument("--data", metavar="DIR", default=FOLDER, help=f"the site's folder (default {FOLDER})")
    command.add_argument("--store", metavar="URL", help="the PostgreSQL server that holds the store, if one does")
