"""XPath subscriptions: how fast are XML documents filtered, against parsing alone and against lxml query by query?

Documents: eLife JATS (62 KB mean) and DBLP records, from bytes; without the real data, documents made from the
project's news DTD. Queries: distinct ones along what occurs in those documents, P(*) = P(//) = 0.2: paths alone; with a
predicate each; with a predicate and a branch each. DBLP's records are flat and have few distinct paths: there, queries
without predicates repeat. lxml's side has every advantage: each document is parsed once and the expressions are
compiled beforehand; it runs on a sample of queries and documents, and its time is scaled to all. Times are
processor time of one core, the least of several rounds, since machines are shared. Prints one JSON object.

How does all this grow with the number of queries? One command measures and draws it:

    python -m benchmarks.bench_xpath --size full --growth --plot docs/plots/xpath-growth.png

There the sets are prefixes of one list of distinct queries, as long as the documents' names and values allow.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from lxml import etree

from tocsin.errors import SettingError
from tocsin.markup import Markup, read_markup, split_records
from tocsin.match.paths import PathIndex
from tocsin.query.xpath import Path as XPath
from tocsin.query.xpath import parse_xpath
from tocsin.sim.markup import (
    NEWS_DTD,
    DocumentShape,
    DocumentType,
    QueryShape,
    documents,
    infer_type,
    queries,
    read_dtd,
)

DATA = Path(os.environ.get("TOCSIN_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
SEED = 1


def corpora(size: str) -> Iterator[tuple[str, list[bytes], DocumentType]]:
    """Name, documents and what queries are drawn from."""
    small = size == "small"
    if not (DATA / "xml").is_dir():
        print(f"The real data are not in {DATA}: made-up news documents instead.", file=sys.stderr)
        news = read_dtd(NEWS_DTD)
        shape = DocumentShape(elements_max=1_200)
        yield "news (generated)", [text.encode() for text in documents(news, 60, SEED, shape)], news
        return
    with tarfile.open(DATA / "xml" / "elife_jats_xml_350.tar.gz") as archive:
        files = [archive.extractfile(member) for member in archive if member.name.endswith(".xml")]
        articles = [file.read() for file in islice(files, 60 if small else None) if file]
    yield "eLife JATS", articles, infer_type(map(read_markup, articles))
    if not small:
        with gzip.open(DATA / "xml" / "dblp_dbvenues.xml.gz") as file:
            records = [record.xml.encode() for record in islice(split_records(file, "/dblp/*"), 2_000)]
        yield "DBLP records", records, infer_type(map(read_markup, records))


def least(work: Callable[[], object], rounds: int = 5) -> float:
    """Processor seconds of the quickest round."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def parsed(raw: list[bytes]) -> None:
    """The parse alone, one document after another as in a stream: to keep all trees costs more, and pages."""
    for data in raw:
        etree.fromstring(data)


def read_all(raw: list[bytes]) -> None:
    """Our reading alone, likewise."""
    for data in raw:
        read_markup(data)


def build(texts: list[str], kind: DocumentType) -> tuple[PathIndex, float]:
    start = time.process_time()
    index = PathIndex()
    for number, text in enumerate(texts):
        index.add(number, parse_xpath(text, kind.namespaces))
    _ = index.states
    return index, time.process_time() - start


def by_lxml(texts: list[str], kind: DocumentType, raw: list[bytes], sample: int) -> float:
    """Seconds per query and document, expressions compiled and documents parsed."""
    compiled = [etree.XPath(text, namespaces=kind.namespaces) for text in texts[:: max(1, len(texts) // sample)]]
    trees = [etree.fromstring(data) for data in raw[:: max(1, len(raw) // 5)]]
    seconds = least(lambda: [one(tree) for tree in trees for one in compiled], 2)
    return seconds / len(compiled) / len(trees)


def with_additions(index: PathIndex, raw: list[bytes], paths: list[XPath]) -> float:
    """Seconds for all documents, when a query is added and one removed before each of them."""
    start = time.process_time()
    for number, data in enumerate(raw):
        index.add(10**9 + number, paths[number % len(paths)])
        if number >= 10:
            index.remove(10**9 + number - 10)
        index.match(read_markup(data))
    return time.process_time() - start


def filtered(index: PathIndex, raw: list[bytes]) -> None:
    """From bytes to numbers, of documents that the index has not met, though it knows their paths."""
    index._outcomes.clear()
    for data in raw:
        index.match(read_markup(data))


def measure(name: str, raw: list[bytes], kind: DocumentType, count: int, shape: QueryShape) -> dict[str, Any]:
    """One set of queries against one corpus."""
    print(f"{name}: {count:,} queries", file=sys.stderr, flush=True)
    texts = list(queries(kind, count, SEED, shape))
    index, built = build(texts, kind)
    size = sum(map(len, raw))
    read: list[Markup] = [read_markup(data) for data in raw]
    start = time.process_time()
    matches = sum(len(index.match(document)) for document in read)
    cold = time.process_time() - start
    parse = least(lambda: parsed(raw))
    reading = least(lambda: read_all(raw))
    whole = least(lambda: filtered(index, raw))
    lxml = by_lxml(texts, kind, raw, 200) * len(texts)
    states, size_of_index = index.states, index.nbytes()
    stream = with_additions(index, raw, [parse_xpath(text, kind.namespaces) for text in texts[:1_000]])
    return {
        "documents": name,
        "count": len(raw),
        "mean_bytes": size // len(raw),
        "queries": len(texts),
        "distinct": shape.distinct,
        "predicates": shape.predicates,
        "branches": shape.branches,
        "states": states,
        "bytes_per_query": round(size_of_index / len(texts), 1),
        "queries_added_per_second": round(len(texts) / built),
        "matches_per_document": round(matches / len(raw), 1),
        "documents_per_second": round(len(raw) / whole),
        "megabytes_per_second": round(size / whole / 1e6, 1),
        "parse_alone_us": round(parse / len(raw) * 1e6),
        "read_us": round(reading / len(raw) * 1e6),
        "read_and_filter_us": round(whole / len(raw) * 1e6),
        "first_pass_filter_us": round(cold / len(raw) * 1e6),
        "with_an_addition_each_us": round(stream / len(raw) * 1e6),
        "times_the_parse": round(whole / parse, 2),
        "lxml_us": round(lxml * 1e6),
        "times_faster_than_lxml": round(lxml / (whole / len(raw))),
    }


def sets(name: str, least_count: int, largest: int) -> Iterator[tuple[int, QueryShape]]:
    """The sets of queries for a corpus."""
    flat = name.startswith("DBLP")
    depth = 4 if flat else 6
    shapes = [(count, QueryShape(depth_max=depth, distinct=not flat)) for count in (10_000, 100_000)]
    shapes.append((1_000_000, QueryShape(depth_max=4 if flat else 9, distinct=not flat)))
    shapes += [(count, QueryShape(depth_max=depth, predicates=1.0)) for count in (10_000, 100_000)]
    shapes.append((10_000, QueryShape(depth_max=depth, predicates=1.0, branches=1.0)))
    yield from ((count, shape) for count, shape in shapes if least_count <= count <= largest)


# --- growth ----------------------------------------------------------------------------------------------------------

Point = dict[str, Any]
GROWTH = (1_000, 10_000, 100_000, 1_000_000)


def growth(name: str, raw: list[bytes], kind: DocumentType, largest: int) -> Iterator[list[Point]]:
    """For each shape of queries: what they cost, ten times as many each time."""
    flat = name.startswith("DBLP")
    parse = least(lambda: parsed(raw))
    for predicates in (0.0, 1.0):
        shape = QueryShape(depth_max=4 if flat else 9, predicates=predicates)
        texts = distinct(kind, largest, shape)
        label = f"{name}, {'a predicate each' if predicates else 'paths'}"
        points: list[Point] = []
        for size in [*(size for size in GROWTH if size < len(texts)), len(texts)]:
            points.append({"set": label, "queries": size, "distinct_found": len(texts)})
            points[-1] |= grown(texts[:size], raw, kind, parse)
            print(json.dumps(points[-1]), file=sys.stderr, flush=True)
        yield points


def distinct(kind: DocumentType, count: int, shape: QueryShape) -> list[str]:
    """So many distinct queries, or as many as there are."""
    texts = []
    try:
        for text in queries(kind, count, SEED, shape):
            texts.append(text)
    except SettingError as error:
        print(error, file=sys.stderr, flush=True)
    return texts


def grown(texts: list[str], raw: list[bytes], kind: DocumentType, parse: float) -> Point:
    """One size."""
    index, built = build(texts, kind)
    matches = sum(len(index.match(read_markup(data))) for data in raw)
    whole = least(lambda: filtered(index, raw), 3)
    return {
        "build_seconds": round(built, 2),
        "states": index.states,
        "bytes_per_query": round(index.nbytes() / len(texts), 1),
        "matches_per_document": round(matches / len(raw), 1),
        "parse_alone_us": round(parse / len(raw) * 1e6, 1),
        "read_and_filter_us": round(whole / len(raw) * 1e6, 1),
        "times_the_parse": round(whole / parse, 2),
    }


def plot(curves: list[list[Point]], path: Path) -> None:
    """Time, states, building and memory against the number of queries."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    panels = {
        "times_the_parse": "read and filter a document, times the parse alone",
        "states": "states of the automaton",
        "build_seconds": "building: processor seconds",
        "bytes_per_query": "bytes of the index a query",
    }
    for axes, (metric, title) in zip(figure.subplots(2, 2).flat, panels.items(), strict=True):
        for points in curves:
            queries_of = [point["queries"] for point in points]
            axes.loglog(queries_of, [point[metric] for point in points], marker="o", label=points[0]["set"])
        axes.set(title=title, xlabel="distinct queries, P(*) = P(//) = 0.2")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=["small", "full"], default="small", help="seconds, or the real thing")
    parser.add_argument("--queries-max", type=int, default=0, help="leave out larger sets")
    parser.add_argument("--queries-min", type=int, default=0, help="leave out smaller sets")
    parser.add_argument("--growth", action="store_true", help="growth in the number of queries instead")
    parser.add_argument("--plot", type=Path, help="with --growth: draw the curves into this file")
    asked = parser.parse_args()
    largest = asked.queries_max or (10_000 if asked.size == "small" else 1_000_000)
    if asked.growth:
        found = [points for one in corpora(asked.size) for points in growth(*one, largest)]
        if asked.plot:
            plot(found, asked.plot)
        print(json.dumps({"growth": found}))
        return
    results = [
        measure(name, raw, kind, count, shape)
        for name, raw, kind in corpora(asked.size)
        for count, shape in sets(name, asked.queries_min, largest)
    ]
    print(json.dumps({"results": results}))


if __name__ == "__main__":
    main()
