"""One-time queries at a super-peer: an inverted file for each field against a scan (P2P-DIET §3; row P6).

Documents and queries are those of the paper's language: equalities, words and distances on fields. Both ways answer
every query, and must agree. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from random import Random
from typing import Any

from tocsin.model import Document
from tocsin.overlay.placement.superpeers.fields import FieldFiles
from tocsin.query import parse
from tocsin.query.semantics import Knowledge

VOCABULARY = 20_000
FIELDS = {"title": 8, "abstract": 120, "author": 2}
"""Words of each field."""


def words(chance: Random, number: int) -> list[str]:
    """Zipf-distributed words, without a table: the product of chances falls off like 1/rank."""
    return [f"w{int(VOCABULARY ** chance.random())}" for _ in range(number)]


def query(chance: Random) -> str:
    """A conjunction of two or three atoms."""
    forms = [
        lambda: f"title:{words(chance, 1)[0]}",
        lambda: f"abstract:{words(chance, 1)[0]}",
        lambda: f'author = "{" ".join(words(chance, 2))}"',
        lambda: "abstract:({} NEAR[0,5] {})".format(*words(chance, 2)),
    ]
    return " AND ".join(form() for form in chance.sample(forms, chance.choice([2, 2, 3])))


def percentile(seconds: list[float], share: float) -> float:
    """In milliseconds."""
    return round(sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))] * 1000, 3)


def measure(documents: int, queries: int, seed: int) -> dict[str, Any]:
    """Times every query both ways."""
    chance = Random(seed)
    files = FieldFiles(Knowledge())
    start = time.perf_counter()
    for number in range(documents):
        fields = {name: (" ".join(words(chance, length)),) for name, length in FIELDS.items()}
        files.add(f"d{number}", Document(f"d{number}", fields))
    built = time.perf_counter() - start
    times: dict[str, list[float]] = {"files": [], "scan": []}
    equal, found = True, 0
    for text in [query(chance) for _ in range(queries)]:
        parsed = parse(text)
        answers = []
        for name, answer in (("files", files.search), ("scan", files.scan)):
            start = time.perf_counter()
            answers.append(answer(parsed))
            times[name].append(time.perf_counter() - start)
        equal &= answers[0] == answers[1]
        found += len(answers[0])
    return {
        "benchmark": "superpeers", "documents": documents, "queries": queries, "equal": equal, "found": found,
        "looked_at": files.checked, "build_seconds": round(built, 2),
        "p50_ms": {name: percentile(seconds, 0.5) for name, seconds in times.items()},
        "p95_ms": {name: percentile(seconds, 0.95) for name, seconds in times.items()},
    }  # fmt: skip


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("small", "full"), default="small")
    scale = 1 if parser.parse_args().size == "small" else 10
    print(json.dumps(measure(documents=1_000 * scale, queries=100, seed=1)))


if __name__ == "__main__":
    main()
