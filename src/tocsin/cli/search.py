"""`tocsin search`: a one-time query over documents in files or over a site, best first."""

from __future__ import annotations

import argparse
from collections.abc import Collection as Several
from difflib import get_close_matches
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.cli.collection import Collection, documents_argument
from tocsin.cli.console import line, progress, say, waiting
from tocsin.cli.query import query_argument, query_of
from tocsin.errors import InputError
from tocsin.files import rereadable
from tocsin.query import Knowledge, Query, Statistics, holds, parse, score
from tocsin.query.ast import nested
from tocsin.text import UNSEEN_BY_BARE, Analysis

if TYPE_CHECKING:
    from tocsin.store import Store
    from tocsin.store.search import Library

NAME = "search"
HELP = "answer a one-time query from documents in files, or from a site's"
DESCRIPTION = 'Prints a line {"document", "score"} for each document that matches, best first.'


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    query_argument(command)
    documents_argument(command, required=False)
    command.add_argument(
        "--data", metavar="DIR", help="the folder of a site, which may be running: search what is stored there"
    )
    command.add_argument("-k", "--most", metavar="N", type=_count, help="only the N best (default: all)")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if the query is refused or a document was rejected."""
    text = query_of(given)
    analysis = Analysis.parse(given.analysis)
    query = parse(text, analysis)
    if (given.documents is None) == (given.data is None):
        raise InputError("say where to search: either -d DOCS or --data DIR")
    return in_site(given, query, analysis) if given.data is not None else in_files(given, query, analysis)


def in_files(given: argparse.Namespace, query: Query, analysis: Analysis) -> int:
    """Documents in files, which are read once to count words and once to search."""
    with rereadable(given.documents, say) as inputs:
        collection = Collection(inputs, analysis)
        # Only a nested query has to look back, so only then are the documents kept.
        stored = list(collection.current()) if any(nested(query)) else None
        if stored:
            _warn(query, {field for document in stored for field in document.fields}.union(UNSEEN_BY_BARE))
        knowledge = Knowledge(analysis, collection.statistics, stored or ())
        candidates = stored if stored is not None else collection.current()
        found = [
            (-score(query, document, analysis, collection.statistics), document.id)
            for document in progress(candidates, "searching")
            if holds(query, document, knowledge)
        ]
    for negative, document_id in sorted(found) if given.most is None else nsmallest(given.most, found):
        print(line({"document": document_id, "score": 0.0 - negative}))
    return collection.close()


def in_site(given: argparse.Namespace, query: Query, analysis: Analysis) -> int:
    """Documents of a site, through its index as far as there is one; nothing is changed."""
    from tocsin.store import Store  # needed for a site only
    from tocsin.store.search import Library

    folder = Path(given.data)
    store = Store(folder, create=False)
    try:
        library = Library(folder / "search", analysis)
        if any(nested(query)):
            _warn(query, library.fields(store))
        with waiting("searching …"):
            answer = library.search(store, query, _statistics(folder, library, store), given.most)
    finally:
        store.close()
    for hit in answer.hits:
        print(line({"document": hit.id, "score": hit.score}))
    return 0


def _warn(query: Query, fields: Several[str]) -> None:
    """A field that no document has makes a nested query empty, which is seldom meant."""
    asked = dict.fromkeys(name for atom in nested(query) for name in (atom.field, atom.source))
    for name in asked:
        if name not in fields:
            similar = get_close_matches(name, sorted(fields), 1)
            hint = f": did you mean {similar[0]!r}?" if similar else ""
            say(f"warning: no document has the field {name!r} that IN compares{hint}")


def _statistics(folder: Path, library: Library, store: Store) -> Statistics:
    """The last that the site has counted under this analysis; where there are none, they are counted now."""
    kept = folder / "pipeline" / "statistics"
    if kept.is_dir():
        from tocsin.pipeline.statistics import Collected, StatisticsRef, statistics_versions

        for version in statistics_versions(kept)[-1:]:
            collected = Collected.open(StatisticsRef(str(kept), version))
            if collected.analysis == library.analysis:
                return collected.statistics()
    return library.statistics(store)
