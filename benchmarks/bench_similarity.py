"""A hundred thousand similarity subscriptions on real abstracts, one core.

    python benchmarks/bench_similarity.py [--size small|full] [--subscriptions 100000] [--documents 2000]

Texts are titles of eLife and ACL papers and sentences of their abstracts, thresholds 0.2 to 0.5; documents are other
abstracts. Prints one JSON object: documents per second from text to matches, how long the texts take to register and
to be weighed anew, and the rate of the definition on a few documents. The bar: 500 documents per second.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.conftest import DATA
from tocsin import Analysis, Document, Statistics
from tocsin.match.similarity import SimilarityIndex
from tocsin.query.score import similarity

BAR = 500
SIZES = {"small": 5_000, "full": 100_000}  # subscriptions
THRESHOLDS = (0.2, 0.3, 0.4, 0.5)
CHECKED = 2


def papers() -> list[tuple[str, str]]:
    found = []
    for name in ("elife_papers", "acl_papers"):
        with gzip.open(DATA / "scholarly" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows = map(json.loads, lines)
            found += [(row["title"], row["abstract"]) for row in rows if row.get("abstract")]
    return found


def texts(rows: list[tuple[str, str]], count: int) -> list[str]:
    """Titles first, then sentences."""
    titles = [title for title, _ in rows]
    sentences = (part for _, abstract in rows for part in abstract.split(". ") if len(part.split()) > 5)
    return [*titles[:count], *islice(sentences, max(0, count - len(titles)))]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    parser.add_argument("--subscriptions", type=int, help="another number than the size's")
    parser.add_argument("--documents", type=int, default=2_000)
    given = parser.parse_args(arguments)
    subscriptions = given.subscriptions or SIZES[given.size]
    rng = np.random.default_rng(1)
    rows = papers()
    rng.shuffle(rows)
    stream, rest = rows[: given.documents], rows[given.documents :]
    documents = [Document(f"{number}", {"abstract": (abstract,)}) for number, (_, abstract) in enumerate(stream)]
    statistics = Statistics.of((Document("", {"abstract": (abstract,)}) for _, abstract in rows[:20_000]), Analysis())
    asked = [(text, THRESHOLDS[number % len(THRESHOLDS)]) for number, text in enumerate(texts(rest, subscriptions))]

    start = perf_counter()
    index = SimilarityIndex(Analysis())
    for number, (text, threshold) in enumerate(asked):
        index.add(number, "abstract", text, threshold)
    registered = perf_counter() - start
    start = perf_counter()
    index.match(documents[:1], statistics)
    first = perf_counter() - start  # kernels are compiled, texts weighed
    start = perf_counter()
    index.match(documents[:1], Statistics(statistics.documents, statistics.frequency))
    again = perf_counter() - start
    index.match(documents[:1], statistics)

    rates, matches, wall = [], 0, perf_counter()
    for begin in range(0, len(documents), 250):
        batch = documents[begin : begin + 250]
        before = process_time()
        matches += sum(map(len, index.match(batch, statistics)))
        rates.append(len(batch) / (process_time() - before))
    wall = perf_counter() - wall

    sample = rng.choice(len(asked), min(2_000, len(asked)), replace=False)
    start = perf_counter()
    for document, numbers in zip(documents[:CHECKED], index.match(documents[:CHECKED], statistics), strict=True):
        for number in sample.tolist():
            text, threshold = asked[number]
            holds = similarity("abstract", text, document, Analysis(), statistics) >= threshold
            assert holds == (number in numbers)
    definition = CHECKED * sample.size / (perf_counter() - start)
    found: dict[str, Any] = {
        "subscriptions": len(asked),
        "documents": len(documents),
        "documents_per_core_second_median": round(median(rates)),
        "documents_per_second": round(len(documents) / wall),
        "matches_per_document": round(matches / len(documents), 2),
        "registered_per_second": round(len(asked) / registered),
        "first_match_seconds": round(first, 2),
        "weighed_anew_seconds": round(again, 2),
        "definition_documents_per_second": round(definition / len(asked), 3),
        "bar": BAR,
    }
    print(json.dumps(found | {"holds": found["documents_per_core_second_median"] >= BAR}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
