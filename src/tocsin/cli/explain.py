"""`tocsin explain`: what a query means, where it waits, what it costs, and why documents match it or not."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from tocsin.cli.collection import Collection, documents_argument
from tocsin.cli.console import line, say
from tocsin.cli.query import query_argument, query_of
from tocsin.files import rereadable
from tocsin.match.explain import Evidence, Origins, evidence, nearest, outermost_nested
from tocsin.model import Document
from tocsin.query import Knowledge, Query, holds, parse, score, show
from tocsin.query.ast import In, nested
from tocsin.query.normal import anchors, clauses, cost, is_supportable
from tocsin.query.standing import nested_under_not
from tocsin.text import Analysis

NAME = "explain"
HELP = "say what a query means, what it costs, and why documents match it"
DESCRIPTION = """Prints the parsed form of a query, its clauses, where it is registered and its expected cost;
with documents also why each matched, or the nearest failing clause."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    query_argument(command)
    documents_argument(command, required=False)
    command.add_argument("--document", metavar="ID", action="append", help="explain only this document (repeatable)")
    command.add_argument("--json", action="store_true", help="print JSON lines instead of text")


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if the query is refused or a document was rejected."""
    text = query_of(given)
    analysis = Analysis.parse(given.analysis)
    query = parse(text, analysis)
    tell = _tell_json if given.json else _tell_text
    if not given.documents:
        tell(_about(query, Knowledge(analysis)))
        return 0
    with rereadable(given.documents, say) as inputs:
        collection = Collection(inputs, analysis)
        stored = list(collection.current()) if any(nested(query)) else None
        knowledge = Knowledge(analysis, collection.statistics, stored or ())
        tell(_about(query, knowledge))
        wanted = set(given.document or ())
        origins = Origins(knowledge)
        for document in stored if stored is not None else collection.current():
            if not wanted or document.id in wanted:
                tell(_why(query, document, knowledge, origins))
    return collection.close()


def _about(query: Query, knowledge: Knowledge) -> Evidence:
    split, analysis, frequency = clauses(query), knowledge.analysis, knowledge.statistics.frequency
    waits = anchors(query, analysis, lambda key: frequency.get(key.word, 0))
    about: Evidence = {
        "query": show(query),
        "clauses": None if split is None else [show(clause.query()) for clause in split],
        "registered": None if waits is None else sorted(map(str, waits)),
        "cost": cost(query),
    }
    if split is None:
        about["note"] = "too many clauses: the query is kept whole and evaluated where one of its words occurs"
    if split == ():
        about["note"] = "the query contradicts itself: it never holds"
    elif not is_supportable(query):
        about["note"] = "no positive word or equality: the query is evaluated on every document"
    elif waits is None:
        about["note"] = "registered on the values of its nested query, as they become known"
    if nested_under_not(query):
        about["note"] = "a nested query under NOT: accepted as a one-time query, refused as a subscription"
    if inner := outermost_nested(query):
        about["nested"] = [_about_nested(atom, knowledge) for atom in inner]
    return about


def _about_nested(atom: In, knowledge: Knowledge) -> Evidence:
    """What is asked first, and how many values that gives if there are documents to ask."""
    about: Evidence = {"field": atom.field, "source": atom.source}
    if knowledge.documents:
        about["values"] = len(knowledge.values(atom.query, atom.source))
    return about | _about(atom.query, knowledge)


def _why(query: Query, document: Document, knowledge: Knowledge, origins: Origins) -> Evidence:
    if holds(query, document, knowledge):
        weight = score(query, document, knowledge.analysis, knowledge.statistics)
        why = {"document": document.id, "matches": True, "score": weight, **_renamed(query, document, knowledge)}
        return why | ({"nested": origins.reasons(query, document)} if outermost_nested(query) else {})
    return {"document": document.id, "matches": False, **nearest(query, document, knowledge)}


def _renamed(query: Query, document: Document, knowledge: Knowledge) -> Evidence:
    found = evidence(query, document, knowledge)
    return {"clause": found["clause"], "atoms": found["atoms"], "score_parts": found["score"]}


def _tell_json(about: Evidence) -> None:
    print(line(about))


def _tell_text(about: Evidence) -> None:
    lines = _document_lines(about) if "document" in about else _query_lines(about)
    sys.stdout.write("".join(f"{text}\n" for text in lines))


def _query_lines(about: Evidence) -> Iterator[str]:
    yield f"query       {about['query']}"
    if about["clauses"]:
        yield f"clauses     {len(about['clauses'])}, of which one at most holds"
        for number, clause in enumerate(about["clauses"], 1):
            yield f"  {number:>3}.      {clause}"
    if about["registered"]:
        yield f"registered  on {', '.join(about['registered'])}"
    yield f"cost        {about['cost']:,} checks per document at most"
    if "note" in about:
        yield f"note        {about['note']}"
    for inner in about.get("nested", ()):
        size = f" ({inner['values']:,} values)" if "values" in inner else ""
        yield f"nested      {inner['field']} is one of the values of {inner['source']}{size} where"
        yield from (f"  {text}" for text in _query_lines(inner))


def _document_lines(about: Evidence) -> Iterator[str]:
    yield ""
    if not about["matches"]:
        yield f"{about['document']}  does not match"
        yield f"  nearest clause  {about['clause']}"
        for failing in about["failing"]:
            yield f"  fails           {failing}"
        return
    yield f"{about['document']}  matches, score {about['score']:.4f}"
    yield f"  clause          {about['clause']}"
    for atom in about["atoms"]:
        yield f"  {atom['atom']:<15} {_place(atom)}"
    for word, part in about["score_parts"].items():
        yield f"  score           {part:.4f} by {word}"
    for reason in about.get("nested", ()):
        yield from _reason_lines(reason, "  nested          ")


def _reason_lines(reason: Evidence, before: str) -> Iterator[str]:
    yield f"{before}{reason['field']} {reason['value']} is in the set by {reason['document']}"
    for inner in reason.get("because", ()):
        yield from _reason_lines(inner, before + "  ")


def _place(atom: dict[str, Any]) -> str:
    if "positions" in atom:
        where = ", ".join(f"{word}@{position}" for word, position in zip(atom["words"], atom["positions"], strict=True))
        between = f", {' and '.join(map(str, atom['between']))} words between" if "between" in atom else ""
        return f"in {atom['field']}: {where}{between}"
    if "cosine" in atom:
        return f"in {atom['field']}: cosine {atom['cosine']:.4f}, at least {atom['threshold']} wanted"
    if "value" in atom:
        return f"in {atom['field']}: {atom['value']}"
    return f"in {atom['field']}"
