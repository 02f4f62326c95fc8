"""XPath subscriptions: how fast are XML documents filtered, against parsing alone and against lxml query by query?

Documents: eLife JATS (62 KB mean) and DBLP records, from bytes; without the real data, documents made from the
project's news DTD. Queries: distinct paths along what occurs in those documents, P(*) = P(//) = 0.2, no predicates;
and a second set with predicates and branches (2 per query). lxml's side has every advantage: each document is parsed
once and the expressions are compiled beforehand; it runs on a sample of queries, and its time is scaled to all.
Times are the least of several rounds, since machines are shared. Prints one JSON object.
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

from tocsin.markup import Markup, read_markup, split_records
from tocsin.match.paths import PathIndex
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
    """Seconds of the quickest round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def build(texts: list[str], kind: DocumentType) -> tuple[PathIndex, float]:
    start = time.perf_counter()
    index = PathIndex()
    for number, text in enumerate(texts):
        index.add(number, parse_xpath(text, kind.namespaces))
    _ = index.states
    return index, time.perf_counter() - start


def by_lxml(texts: list[str], kind: DocumentType, raw: list[bytes], sample: int) -> float:
    """Seconds per query and document, expressions compiled and documents parsed."""
    compiled = [etree.XPath(text, namespaces=kind.namespaces) for text in texts[:: max(1, len(texts) // sample)]]
    trees = [etree.fromstring(data) for data in raw[:: max(1, len(raw) // 5)]]
    seconds = least(lambda: [one(tree) for tree in trees for one in compiled], 2)
    return seconds / len(compiled) / len(trees)


def measure(name: str, raw: list[bytes], kind: DocumentType, count: int, shape: QueryShape) -> dict[str, Any]:
    """One set of queries against one corpus."""
    texts = list(queries(kind, count, SEED, shape))
    index, built = build(texts, kind)
    size = sum(map(len, raw))
    read: list[Markup] = [read_markup(data) for data in raw]
    start = time.perf_counter()
    matches = sum(len(index.match(document)) for document in read)
    cold = time.perf_counter() - start
    parse = least(lambda: [etree.fromstring(data) for data in raw])
    reading = least(lambda: [read_markup(data) for data in raw])
    whole = least(lambda: [index.match(read_markup(data)) for data in raw])
    lxml = by_lxml(texts, kind, raw, 200) * len(texts)
    return {
        "documents": name,
        "count": len(raw),
        "mean_bytes": size // len(raw),
        "queries": len(texts),
        "predicates_and_branches": shape.predicates + shape.branches,
        "states": index.states,
        "bytes_per_query": round(index.automaton.nbytes() / len(texts), 1),
        "queries_added_per_second": round(len(texts) / built),
        "matches_per_document": round(matches / len(raw), 1),
        "documents_per_second": round(len(raw) / whole),
        "megabytes_per_second": round(size / whole / 1e6, 1),
        "parse_alone_us": round(parse / len(raw) * 1e6),
        "read_us": round(reading / len(raw) * 1e6),
        "read_and_filter_us": round(whole / len(raw) * 1e6),
        "first_pass_filter_us": round(cold / len(raw) * 1e6),
        "times_the_parse": round(whole / parse, 2),
        "lxml_us": round(lxml * 1e6),
        "times_faster_than_lxml": round(lxml / (whole / len(raw))),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=["small", "full"], default="small", help="seconds, or the real thing")
    size = parser.parse_args().size
    counts = [10_000, 100_000] if size == "small" else [10_000, 100_000, 1_000_000]
    results = []
    for name, raw, kind in corpora(size):
        shallow = name.startswith("DBLP")
        for count in counts:
            if shallow and count > 10_000:
                continue  # flat records have no more distinct paths
            shape = QueryShape(depth_max=4 if shallow else 6 if count <= 100_000 else 9, distinct=not shallow)
            print(f"{name}: {count:,} queries", file=sys.stderr, flush=True)
            results.append(measure(name, raw, kind, count, shape))
        guarded = QueryShape(predicates=1.0, branches=1.0, distinct=not shallow)
        results.append(measure(name, raw, kind, 10_000, guarded))
    print(json.dumps({"results": results}))


if __name__ == "__main__":
    main()
