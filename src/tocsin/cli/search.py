"""`tocsin search`: a one-time query over documents in files, best first."""

from __future__ import annotations

import argparse
from heapq import nsmallest

from tocsin.cli.collection import Collection, documents_argument
from tocsin.cli.console import line, progress, say
from tocsin.cli.query import query_argument, query_of
from tocsin.files import rereadable
from tocsin.query import Knowledge, holds, parse, score
from tocsin.query.ast import nested
from tocsin.text import Analysis

NAME = "search"
HELP = "answer a one-time query from documents in files"
DESCRIPTION = 'Prints a line {"document", "score"} for each document that matches, best first.'


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    query_argument(command)
    documents_argument(command, required=True)
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
    with rereadable(given.documents, say) as inputs:
        collection = Collection(inputs, analysis)
        # Only a nested query has to look back, so only then are the documents kept.
        stored = list(collection.current()) if any(nested(query)) else None
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
