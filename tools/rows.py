"""Which rows of the mission have a test?

The mission is to show, by a test, everything that five papers describe. Its rows have ids: S for SmartSeer, D for
DHTrie, M for MAPS, P for P2P-DIET, Y for the YFilter automaton on a DHT, G for relational subscriptions (Gryphon),
X for what all of them owe. A test names the rows it shows with `@pytest.mark.row("S13")`; this tool lists both sides.
`@pytest.mark.row_part("D7")` says that the row does not hold wholly, or not wholly by a test: it counts as shown
partly, whatever other tests say of it.

It reads the test files without running them, so it takes a fraction of a second.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PAPERS = {
    "S": "SmartSeer: rich continuous queries on a DHT",
    "D": "DHTrie: exact filtering on Chord",
    "M": "MAPS: approximate filtering on Chord",
    "P": "P2P-DIET: super-peers, the AWP model, BestFitTrie",
    "Y": "XML filtering: a YFilter automaton on a DHT",
    "G": "Relational subscriptions: monotonic types, eventual correctness",
    "X": "Owed across the papers",
}

ROWS = {
    "S1": "continuous and one-time queries agree over one corpus",
    "S2": "words with optional fields, analysed alike on both sides",
    "S3": "a query lives whole under its most selective word",
    "S4": "a document visits every node owning one of its words",
    "S5": "push, pull, mirroring and both partitionings compared as placements",
    "S6": "four joins of documents and queries give equal answers",
    "S7": "the cost model picks the cheapest of the joins",
    "S8": "the scaling law of traffic, fitted and compared",
    "S9": "naive, clustered and broadcast notification cost what was said",
    "S10": "join and notification chosen per document from live statistics",
    "S11": "negations and ranges ride on a positive word",
    "S12": "OR as disjoint clauses: one evaluation, one notice",
    "S13": "any boolean query as clauses, without blowing up",
    "S14": "supportable means indexable; the rest see every document",
    "S15": "nested queries of any depth equal a join",
    "S16": "nested subscriptions deliver history when their sets grow",
    "S17": "a negated nested part is refused in a subscription",
    "S18": "every match has its cosine score; thresholds change live",
    "S19": "nodes fail and join during publication; nothing is lost",
    "S20": "the evaluation's figures have the same shapes here",
    "S21": "more documents a day than the PlanetLab deployment",
    "D1": "AWPS: equality, containment, distance and similarity, all pairs",
    "D2": "Chord finds successors in logarithmic hops, through churn",
    "D3": "router, publisher and subscriber roles in any mix",
    "D4": "queries at all their words' nodes; exactly one notice",
    "D5": "iterative, recursive and hybrid multicast reach each recipient once",
    "D6": "a cache of often-used nodes repairs itself without messages",
    "D7": "six multicast variants rank as in the paper",
    "D8": "document frequencies kept at word nodes equal central ones",
    "D9": "load shedding evens filtering load and keeps recall",
    "M1": "a directory of publishers' summaries survives its nodes",
    "M2": "publishing without a match sends no message at all",
    "M3": "subscribers monitor the best publishers and reposition",
    "M4": "publishers scored by selection and predicted behaviour together",
    "M5": "words that belong together are learned from queries",
    "M6": "recall against monitored share of publishers, as published",
    "M7": "approximate against exact: messages traded for recall",
    "P1": "a document is distinct fields with text values",
    "P2": "conjunctions of equality, words and ordered proximity",
    "P3": "any super-peer graph: nothing lost, nothing delivered twice",
    "P4": "a publication obeys its advertisements or renews them first",
    "P5": "one-time queries broadcast, pruned, never losing an answer",
    "P6": "an inverted file per field answers one-time queries",
    "P7": "matching near the source, notices by the shortest path",
    "P8": "a covered query is not forwarded, until uncovered",
    "P9": "clients move, vanish and return; notices wait for them",
    "P10": "super-peers probe each other; messages are signed and sealed",
    "P11": "occurrence table and word lists of a document",
    "P12": "the query side's tries keep their invariants always",
    "P13": "insertion finds the trie with the greatest overlap",
    "P14": "filtering with tries equals the other algorithms",
    "P15": "brute force, SWIN and PrefixTrie; delete and reorganise",
    "P16": "filtering times and space rank as in the paper",
    "Y1": "the XPath subset agrees with a reference implementation",
    "Y2": "branches are joined at the element they share",
    "Y3": "one shared automaton, grown and shrunk incrementally",
    "Y4": "states placed on the ring by their labels",
    "Y5": "indexing a query costs one message per state",
    "Y6": "iterative execution equals a central automaton",
    "Y7": "recursive execution equals iterative, one notice per query",
    "Y8": "large documents travel in fragments with equal results",
    "Y9": "predicates after or during the run, same answers",
    "Y10": "routing tables do not grow with the queries",
    "Y11": "virtual nodes even out the storage of states",
    "Y12": "replicas of hot states even out filtering load",
    "Y13": "generators of documents and XPath queries with their knobs",
    "Y14": "messages, latency and states follow the paper's trends",
    "G1": "event histories: a tick once known never changes",
    "G2": "relations as total functions with special values",
    "G3": "each operator equals batch SQL when input rests",
    "G4": "shared acyclic graph of views, the airline example",
    "G5": "monotonic types refine their values until final",
    "G6": "every operator preserves the order of knowledge",
    "G7": "deletion and subtraction that never un-say a fact",
    "G8": "safety always and liveness eventually, under every fault",
    "G9": "the motivating scenarios: reconnect, alerts, dynamic subscription",
    "G10": "brokers log before delivery and share no clock",
    "G11": "typed plans whose objects may sit on any broker",
    "G12": "knowledge flows down, curiosity up, gaps fill in order",
    "G13": "silence, horizon and gaps cost memory per gap",
    "G14": "aggregates remember what they covered and ignore repeats",
    "G15": "sold out, not now, best-k that pulls: fewer messages, same results",
    "G16": "the paper's open questions, one benchmark for each",
    "X1": "one query tree and oracle under every front end",
    "X2": "queries and documents updated and deleted in any order",
    "X3": "one seeded simulator and workload generator, repeatable",
    "X4": "simulated and deployed protocols count the same messages",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A test says that it shows a row."""

    row: str
    test: str  # tests/query/test_parse.py::test_name
    slow: bool
    partly: bool = False


class MarkError(Exception):
    """A row marker that cannot be read, or names no row."""


def shown_by(file: Path, root: Path = ROOT) -> list[Shown]:
    """The rows that the tests of one file say they show: by decorators, or `pytestmark` for a whole module or class."""
    name = file.relative_to(root).as_posix()
    found: list[Shown] = []

    def visit(body: list[ast.stmt], path: str, outer: list[ast.expr]) -> None:
        outer = outer + [s.value for s in body if isinstance(s, ast.Assign) and _names(s) == ["pytestmark"]]
        for statement in body:
            if isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
                visit(statement.body, f"{path}::{statement.name}", outer + statement.decorator_list)
            elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name.startswith("test"):
                marks = outer + statement.decorator_list
                slow = any(_is_mark(node, "slow") for mark in marks for node in ast.walk(mark))
                for row, partly in dict.fromkeys(one for mark in marks for one in _rows(mark, name)):
                    found.append(Shown(row, f"{path}::{statement.name}", slow, partly))

    visit(ast.parse(file.read_text(encoding="utf-8"), name).body, name, [])
    return found


def shown(root: Path = ROOT) -> list[Shown]:
    """The rows that all tests of the project say they show, in the order of the files."""
    return [one for file in sorted((root / "tests").rglob("test_*.py")) for one in shown_by(file, root)]


def _names(assignment: ast.Assign) -> list[str]:
    return [target.id for target in assignment.targets if isinstance(target, ast.Name)]


def _is_mark(node: ast.AST, name: str) -> bool:
    """Is this expression `pytest.mark.NAME`, or `mark.NAME`?"""
    if not isinstance(node, ast.Attribute) or node.attr != name:
        return False
    holder = node.value
    return (isinstance(holder, ast.Attribute) and holder.attr == "mark") or (
        isinstance(holder, ast.Name) and holder.id == "mark"
    )


def _rows(mark: ast.expr, file: str) -> Iterator[tuple[str, bool]]:
    """The ids inside one marker expression, and whether it says "partly"; also in a list, or a parameter's marks."""
    for node in ast.walk(mark):
        if not isinstance(node, ast.Call):
            continue
        partly = _is_mark(node.func, "row_part")
        if not (partly or _is_mark(node.func, "row")):
            continue
        if not node.args or node.keywords:
            raise MarkError(f'{file}:{node.lineno}: write the rows as pytest.mark.row("S13", "S14")')
        for argument in node.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise MarkError(f"{file}:{node.lineno}: a row's id must be written out as a string")
            if argument.value not in ROWS:
                raise MarkError(f"{file}:{node.lineno}: the mission has no row {argument.value!r}; see tools/rows.py")
            yield argument.value, partly


def report(found: list[Shown]) -> Iterator[str]:
    """Lines for a person: each row with its tests; "partly" if a test says so, "none" if there is no test."""
    tests: dict[str, list[Shown]] = {row: [] for row in ROWS}
    for one in found:
        tests[one.row].append(one)
    for letter, paper in PAPERS.items():
        yield f"{paper}"
        for row, title in ROWS.items():
            if row[0] == letter:
                yield f"  {row:<4}{title:<70}{_state(tests[row])}".rstrip()
                yield from (f"        {one.test}{'  (slow)' if one.slow else ''}" for one in tests[row])
        yield ""
    states = [_state(tests[row]) for row in ROWS]
    yield f"{states.count('')} of {len(ROWS)} rows are shown by a test, {states.count('partly')} more are shown partly."


def _state(tests: list[Shown]) -> str:
    """What is to be said of a row beside its tests."""
    return "none" if not tests else "partly" if any(one.partly for one in tests) else ""


def main(arguments: list[str] | None = None) -> int:
    """Print the report."""
    argparse.ArgumentParser(prog="make rows", description=__doc__.partition("\n")[0]).parse_args(arguments)
    try:
        print("\n".join(report(shown())))
    except MarkError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
