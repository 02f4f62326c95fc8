"""How fast are the kernels? From UTF-8 to (entry, mask of 64 documents), beside a scan without an index.

    PYTHONPATH=src python benchmarks/bench_kernel.py --sizes 100000 1000000 3000000

Prints one JSON object. Queries and documents are those of `workload_text`: user-like queries of 2 to 4 words, the
match-dense set of 5 ± 1.5 words, documents of 200 distinct words and of 2,000 distinct in 6,900 words. Keys are chosen
by the document frequencies of a sample of other documents. Rates are documents per second of one core's time
(`thread_time`: other processes on a shared machine do not count), the best and the median of several passes over all
documents; every pass reads every batch once, so that one batch's data is cold when it comes around again.

Documents come as one column, a buffer of UTF-8 with offsets, as Arrow keeps strings; `column` is the time to cut a
batch out of it and to see that it is ASCII. `from_strings_per_second` has `pack` instead: 64 strings copied into a
buffer.

`lines` is the whole way: JSON lines of some fields with the same words, from their bytes to (query, line) pairs in
order, by `QueryIndex.match_lines`; beside it the same by `document_from_json` and `QueryIndex.match`, results compared.

Two scans, both numpy, both without an index: `scan_64` ANDs the same masks of 64 documents for all queries, which is
this project's own trick without its index; `scan_1` ANDs one document's words at a time. Ids in, matches out, on both
sides: `ratio_64` and `ratio_1` are match time only, ours against theirs. `text_ratio_1` is from text: theirs then
splits by a regular expression and looks words up in a dictionary, as a program in Python would.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import workload_text
from tocsin import Analysis, Knowledge
from tocsin.intake import document_from_json
from tocsin.match.index import QueryIndex
from tocsin.match.lexicon import Lexicon, Texts, pack, split
from tocsin.match.lines import Lines
from tocsin.match.segments import DOCUMENTS_MAX, Clauses, Marks, Scratch, Segment, frozen, pairs

SEED = 1
SAMPLE_SEED = 2
SAMPLE_DOCUMENTS = 256
SINGLE_ADDS = 2_000
LINES = 2_048
NOBODY = frozen(np.zeros(1, np.uint64))


@dataclass(frozen=True, slots=True)
class Queries:
    """Clauses as keys, and the same as columns for the scan (0 where a query has no further word)."""

    lexicon: Lexicon
    first: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint32]
    text_per_second: float

    @classmethod
    def read(cls, lines: list[str]) -> Queries:
        raw = [line.encode() for line in lines]

        def read() -> tuple[Lexicon, npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
            lexicon = Lexicon()
            buffer, starts, ends = pack(raw)
            first, begins, finishes = split(buffer, starts, ends)
            return lexicon, first, lexicon.bare_keys(lexicon.insert_spans(buffer, begins, finishes))

        (lexicon, first, keys), seconds = timed(read, 2)
        return cls(lexicon, first, keys, len(lines) / seconds)

    def columns(self) -> list[npt.NDArray[np.int64]]:
        lengths = np.diff(self.first)
        columns = []
        for at in range(int(lengths.max())):
            column = np.zeros(lengths.size, np.int64)
            has = lengths > at
            column[has] = self.keys[self.first[:-1][has] + at]
            columns.append(column)
        return columns


def timed(work: Callable[[], Any], passes: int) -> tuple[Any, float]:
    """The result, and the best time of several passes."""
    best = float("inf")
    for _ in range(passes):
        start = time.thread_time()
        result = work()
        best = min(best, time.thread_time() - start)
    return result, best


def frequencies(lexicon: Lexicon, sample: list[bytes]) -> npt.NDArray[np.uint32]:
    frequency, marks = np.zeros(lexicon.keys.next, np.uint32), Marks()
    for texts in batches(sample):
        marks.begin(texts.documents, lexicon.keys.next)
        lexicon.mark(texts, marks)
        frequency += np.bitwise_count(marks.masks[: frequency.size]).astype(np.uint32)
    return frequency


def batches(documents: Sequence[bytes]) -> list[Texts]:
    cut = range(0, len(documents), DOCUMENTS_MAX)
    return [texts_of(documents[at : at + DOCUMENTS_MAX]) for at in cut]


def texts_of(documents: Sequence[bytes]) -> Texts:
    return Texts.of(documents, np.arange(len(documents)), np.zeros(len(documents)))


# --- ours ------------------------------------------------------------------------------------------------------------


def measure_ours(segment: Segment, lexicon: Lexicon, documents: list[bytes], passes: int) -> dict[str, Any]:
    marks, scratch = Marks(), Scratch()
    stages: dict[str, list[float]] = {name: [] for name in ("pack", "column", "mark", "match", "owners", "pairs")}
    buffer, starts, ends = pack(documents)
    numbers = np.arange(len(documents)) % DOCUMENTS_MAX
    column = Texts(buffer, starts, ends, numbers.astype(np.uint8), np.zeros(len(documents), np.uint32))
    found = matches = 0
    for turn in range(passes + 1):
        spent = dict.fromkeys(stages, 0.0)
        found = matches = 0
        for at in range(0, len(documents), DOCUMENTS_MAX):
            clock = [time.thread_time()]
            packed = texts_of(documents[at : at + DOCUMENTS_MAX])
            assert not packed.needs_folding().any()
            clock.append(time.thread_time())
            texts = column.cut(at, min(at + DOCUMENTS_MAX, len(documents)))
            assert not texts.needs_folding().any()
            clock.append(time.thread_time())
            marks.begin(texts.documents, lexicon.keys.next)
            lexicon.mark(texts, marks)
            marks.keys()
            clock.append(time.thread_time())
            entries, masks = segment.match(marks, scratch)
            clock.append(time.thread_time())
            count = scratch.add_owners(0, (entries, masks), segment.owner, segment.shared, NOBODY)
            owners, owner_masks = scratch.owners(count)
            clock.append(time.thread_time())
            owner, _ = pairs(owners, owner_masks)
            clock.append(time.thread_time())
            found += owners.size
            matches += owner.size
            for name, before, after in zip(stages, clock, clock[1:], strict=False):
                spent[name] += after - before
        if turn:  # the first pass compiles
            for name, seconds in spent.items():
                stages[name].append(seconds)
    count = len(documents)
    work = [sum(parts) for parts in zip(stages["mark"], stages["match"], strict=True)]
    to_entries = [sum(parts) for parts in zip(stages["column"], work, strict=True)]
    from_strings = [sum(parts) for parts in zip(stages["pack"], work, strict=True)]
    to_pairs = [sum(parts) for parts in zip(to_entries, stages["owners"], stages["pairs"], strict=True)]
    return {
        "documents_per_second": round(count / min(to_entries)),
        "documents_per_second_median": round(count / statistics.median(to_entries)),
        "from_strings_per_second": round(count / statistics.median(from_strings)),
        "with_pairs_per_second": round(count / min(to_pairs)),
        "microseconds": {name: round(min(seconds) / count * 1e6, 2) for name, seconds in stages.items()},
        "found": found,
        "matches_per_document": round(matches / count, 1),
    }


# --- JSON lines ------------------------------------------------------------------------------------------------------


def json_line(number: int, text: str) -> bytes:
    """A document as a source might send it."""
    words = text.split()
    fields = {"title": " ".join(words[:10]), "abstract": " ".join(words[10:]), "authors": ["A. Lovelace", "A. Turing"]}
    return json.dumps({"id": f"doc-{number}", "source": "acl", "time": "2004-05-31", "year": 2004, **fields}).encode()


def measure_lines(queries: list[str], texts: list[str], passes: int) -> dict[str, Any]:
    index, knowledge = QueryIndex(Analysis()), Knowledge()
    index.add_plain([query.encode() for query in queries])
    sample = Lines.of([json_line(number, text) for number, text in enumerate(sample_documents())])
    index.match_lines(sample, knowledge)
    index.reorganise()
    raw = [json_line(number, text) for number, text in enumerate(texts)]
    lines, some = Lines.of(raw), raw[: 8 * DOCUMENTS_MAX]
    spent: dict[str, list[float]] = {"lines": [], "python": []}
    for turn in range(passes + 1):
        start = time.thread_time()
        found = index.match_lines(lines, knowledge)
        middle = time.thread_time()
        owners, places = index.match([document_from_json(line) for line in some], knowledge)
        end = time.thread_time()
        if turn:  # the first pass compiles
            spent["lines"].append((middle - start) / len(raw))
            spent["python"].append((end - middle) / len(some))
    early = found.places < len(some)
    if not (np.array_equal(found.owners[early], owners) and np.array_equal(found.places[early], places)):
        raise AssertionError("lines and documents match other queries")
    rates = {name: round(1 / statistics.median(seconds)) for name, seconds in spent.items()}
    return {
        "documents_per_second_median": rates["lines"],
        "by_documents_per_second_median": rates["python"],
        "bytes_per_document": round(sum(map(len, raw)) / len(raw)),
        "matches_per_document": round(found.owners.size / len(raw), 1),
    }


# --- the scans -------------------------------------------------------------------------------------------------------


def scan_64(columns: list[npt.NDArray[np.int64]], masks: npt.NDArray[np.uint64], room: list[Any]) -> int:
    """AND the masks of all words of all queries; how many hold in some document."""
    both, more = room
    np.take(masks, columns[0], out=both, mode="wrap")
    for column in columns[1:]:
        np.take(masks, column, out=more, mode="wrap")
        np.bitwise_and(both, more, out=both)
    entries = np.flatnonzero(both)
    return int(both[entries].size)


def scan_1(columns: list[npt.NDArray[np.int64]], present: npt.NDArray[np.bool_]) -> int:
    """The same for one document."""
    holds = present[columns[0]]
    for column in columns[1:]:
        holds &= present[column]
    return int(np.flatnonzero(holds).size)


def measure_scans(queries: Queries, documents: list[bytes], passes: int) -> dict[str, Any]:
    columns, lexicon, marks = queries.columns(), queries.lexicon, Marks()
    room = [np.empty(columns[0].size, np.uint64) for _ in range(2)]
    number = {lexicon.word(word): int(key) for word, key in enumerate(lexicon.bare)}
    split_text = re.compile(rb"[a-z0-9]+").findall
    spent64, spent1, found = [], [], 0
    text = tokenise = 0.0
    for turn in range(passes):
        seconds, found = 0.0, 0
        for texts in batches(documents):
            marks.begin(texts.documents, lexicon.keys.next)
            lexicon.mark(texts, marks)
            start = time.thread_time()
            found += scan_64(columns, marks.masks, room)
            seconds += time.thread_time() - start
        spent64.append(seconds / len(documents))
        some = documents[turn :: max(len(documents) // 8, 1)][:8]
        start = time.thread_time()
        for document in some:
            present = np.zeros(lexicon.keys.next, np.bool_)
            present[[0, *(number[word] for word in split_text(document.lower()) if word in number)]] = True
        tokenise = time.thread_time() - start
        start = time.thread_time()
        for _ in some:
            scan_1(columns, present)
        text = time.thread_time() - start
        spent1.append((text / len(some), (text + tokenise) / len(some)))
    return {
        "scan_64_per_second": round(1 / min(spent64), 1),
        "scan_1_per_second": round(1 / min(scan for scan, _ in spent1), 1),
        "scan_1_text_per_second": round(1 / min(whole for _, whole in spent1), 1),
        "found": found,
    }


# --- all -------------------------------------------------------------------------------------------------------------


def single_adds(segment: Segment, queries: Queries, frequency: npt.NDArray[np.uint32]) -> float:
    """Seconds to add one clause, given as keys, so that the next snapshot has it."""
    clauses, size = Clauses([segment]), queries.first.size - 1

    def add() -> None:
        for number in range(SINGLE_ADDS):
            keys = queries.keys[queries.first[number] : queries.first[number + 1]]
            clauses.add(np.array([0, keys.size]), keys, np.array([size + number], np.uint32), frequency)
            clauses.snapshot()

    return timed(add, 3)[1] / SINGLE_ADDS


def measure(size: int, *, dense: bool, kinds: dict[str, list[bytes]], passes: int, scans: bool) -> dict[str, Any]:
    lines = (workload_text.dense_queries if dense else workload_text.queries)(size, SEED)
    queries = Queries.read(lines)
    as_lines = measure_lines(lines, workload_text.documents(LINES, 200, SEED), passes) if not dense else None
    del lines
    lexicon, ids = queries.lexicon, np.arange(size, dtype=np.uint32)
    frequency = frequencies(lexicon, [line.encode() for line in sample_documents()])
    segment, seconds = timed(lambda: Segment.build(queries.first, queries.keys, ids, frequency), 2)
    cell: dict[str, Any] = {
        "queries": size,
        "set": "dense" if dense else "user",
        "words": len(lexicon),
        "text_to_keys_per_second": round(queries.text_per_second),
        "build_per_second": round(size / seconds),
        "single_add_microseconds": round(single_adds(segment, queries, frequency) * 1e6, 1),
        "bytes_per_query": {
            "clauses": round((segment.nbytes - ids.nbytes) / size, 2),
            "ids": 4.0,
            "lexicon": round(lexicon.nbytes / size, 2),
        },
        "documents": {},
        "lines": as_lines,
    }
    for kind, documents in kinds.items():
        row = measure_ours(segment, lexicon, documents, passes)
        if scans:
            theirs = measure_scans(queries, documents, passes)
            if theirs.pop("found") != row["found"]:
                raise AssertionError("the scan found other queries")
            row |= theirs
            ours = 1e6 / row["microseconds"]["match"]
            row["ratio_64"] = round(ours / theirs["scan_64_per_second"], 1)
            row["ratio_1"] = round(ours / theirs["scan_1_per_second"], 1)
            row["text_ratio_1"] = round(row["documents_per_second"] / theirs["scan_1_text_per_second"], 1)
        cell["documents"][kind] = row
    return cell


def sample_documents() -> list[str]:
    return workload_text.long_documents(SAMPLE_DOCUMENTS, SAMPLE_SEED)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of queries")
    parser.add_argument("--size", choices=["small", "full"], default="small", help="seconds, or the real thing")
    parser.add_argument("--no-scans", action="store_true", help="ours only")
    chosen = parser.parse_args(arguments)
    full = chosen.size == "full"
    sizes = chosen.sizes or ([100_000, 1_000_000, 3_000_000] if full else [100_000])
    short, long, passes = (16, 4, 7) if full or chosen.sizes else (4, 1, 3)
    kinds = {
        "200 words": [line.encode() for line in workload_text.documents(short * DOCUMENTS_MAX, 200, SEED)],
        "6900 words": [line.encode() for line in workload_text.long_documents(long * DOCUMENTS_MAX, SEED)],
    }
    cells = []
    for dense in (False, True):
        for size in sizes:
            if dense and size > 1_000_000:
                continue
            cells.append(measure(size, dense=dense, kinds=kinds, passes=passes, scans=not chosen.no_scans))
            print(json.dumps(cells[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"python": platform.python_version(), "machine": platform.machine(), "cells": cells}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
