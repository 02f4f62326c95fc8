"""The QUERY argument, which may follow `--` and may stand after an option that takes several values."""

from __future__ import annotations

import argparse

from tocsin.errors import SettingError
from tocsin.text import ANALYSES


def query_argument(command: argparse.ArgumentParser) -> None:
    """QUERY."""
    command.add_argument("query", metavar="QUERY", nargs="?", help="the query; put -- before one that starts with -")


def query_of(given: argparse.Namespace) -> str:
    """The query that was given, wherever it stood."""
    if given.query is None and given.analysis:
        last = given.analysis[-1]
        if not any(last.endswith(f"={name}") for name in ANALYSES):
            given.query = given.analysis.pop()
    if given.query is None:
        raise SettingError("a QUERY is needed: tocsin search -d papers.jsonl 'title:peer AND year >= 2004'")
    return str(given.query)
