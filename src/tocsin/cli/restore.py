"""`tocsin restore`: a site from a back-up."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path

from tocsin.cli.backup import place_arguments
from tocsin.cli.console import line, waiting
from tocsin.cli.up import owned
from tocsin.errors import InputError, StoreError

NAME = "restore"
HELP = "make a site of a back-up"
DESCRIPTION = """Fills a new store from a file that `tocsin backup` wrote: all of it, or nothing. Then `tocsin up` runs
the site as it was. Accounts and their tokens are those of the back-up."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument("file", metavar="FILE", help="the back-up")
    place_arguments(command)


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if the store is not empty, or the back-up is not whole."""
    from tocsin.store import Store
    from tocsin.store.backup import restore

    if not Path(given.file).is_file():
        raise InputError(f"{given.file}: there is no such file")
    folder = Path(given.data)
    if given.store is None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (folder / "pipeline").exists():
            raise StoreError(f"{folder}: a site has run here: restore into a new folder")
    with nullcontext() if given.store else owned(folder), waiting("filling the store …"):
        store = Store(given.store or folder)
        try:
            rows = restore(store, given.file)
        finally:
            store.close()
    print(line({"file": given.file, "rows": rows}))
    return 0
