"""What does nesting cost? Ten thousand nested subscriptions on the eLife papers by date, beside as many plain ones.

    python benchmarks/bench_nested.py [--size small|full] [--subscriptions 10000] [--store]

Prints one JSON object: documents per second of processor time, since machines are shared (matching only; papers are
read before; `--store`, which waits for the disk, by the clock on the wall), notifications, and how many of them are of
older papers. Nested: co-authors of an author, citations of an author's papers, papers cited together with
one, each also with a word. Plain: the same authors and words asked for directly. `--store` keeps the sets in SQLite.
The bar: nested within 3 times of plain.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import sys
import tempfile
from collections import Counter
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.conftest import DATA
from tocsin import Analysis, Document, Knowledge, parse_subscription
from tocsin.match.index import IndexEngine
from tocsin.match.nested import NestedSubscriptions
from tocsin.query import Query

BATCH = 256
BAR = 3.0
SIZES = {"small": (1_000, 4_000), "full": (10_000, None)}  # subscriptions; papers, oldest first
FIELDS = {"authors": "author", "cites": "citation", "title": "title", "abstract": "abstract"}


def papers() -> list[Document]:
    with gzip.open(DATA / "scholarly" / "elife_papers.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = sorted((json.loads(line) for line in lines), key=lambda row: (row["date"], row["id"]))
    found = []
    for row in rows:
        fields = {ours: row[theirs] for theirs, ours in FIELDS.items() if row[theirs]}
        values = {name: tuple(value) if isinstance(value, list) else (value,) for name, value in fields.items()}
        found.append(Document(row["id"], values, time=row["date"]))
    return found


def queries(documents: list[Document], count: int) -> tuple[list[Query], list[Query]]:
    """As many nested as plain ones; authors with several papers first, as those who subscribe would be."""
    names = Counter(str(name) for one in documents for name in one.fields.get("author", ()))
    cited = Counter(str(id) for one in documents for id in one.fields.get("citation", ()))
    authors = [name for name, _ in names.most_common(count) if name.replace(" ", "").isalpha()]
    ids = [id for id, _ in cited.most_common(count)]
    words = "neurons protein genome mouse cell membrane evolution virus memory cortex".split()
    nested, plain = [], []
    for number, name, id, word in islice(
        zip(range(count), cycle(authors), cycle(ids), cycle(words), strict=False), count
    ):
        direct = f'author = "{name}"'
        form, beside = [
            (f"author:IN:({direct})", direct),
            (f"citation:IN:({direct})", f'citation = "{id}"'),
            (f'id:IN:citation(citation = "{id}")', f'citation = "{id}" AND {word}'),
            (f"{word} AND author:IN:({direct} AND {word})", f"{word} AND {direct}"),
            (f"citation:IN:({direct} AND {word}) AND {word}", f'{word} AND citation = "{id}"'),
        ][number % 5]
        nested.append(parse_subscription(form))
        plain.append(parse_subscription(beside))
    return nested, plain


def run_plain(asked: list[Query], documents: list[Document]) -> dict[str, Any]:
    engine = IndexEngine(Analysis())
    for number, query in enumerate(asked):
        engine.add(number, query)
    engine.match(documents[:BATCH], Knowledge())
    _set_aside()
    start, matches = process_time(), 0
    for first in range(0, len(documents), BATCH):
        matches += sum(map(len, engine.match(documents[first : first + BATCH], Knowledge())))
    return {"documents_per_second": round(len(documents) / (process_time() - start)), "matches": matches}


def run_nested(asked: list[Query], documents: list[Document]) -> dict[str, Any]:
    nested = NestedSubscriptions(Analysis())
    start = process_time()
    nested.add_all((number, query, 0, None) for number, query in enumerate(asked))
    registered = process_time() - start
    nested._engine.match(documents[:BATCH], nested.knowledge)  # kernels are compiled
    _set_aside()
    start, told = process_time(), []
    for first in range(0, len(documents), BATCH):
        told += nested.match(list(enumerate(documents[first : first + BATCH], first + 1)))
    return _result(len(documents), process_time() - start, told, nested) | {
        "registered_per_second": round(len(asked) / registered)
    }


def run_stored(asked: list[Query], documents: list[Document]) -> dict[str, Any]:
    from tocsin.store import Store, sets
    from tocsin.store.documents import accept

    with tempfile.TemporaryDirectory() as folder:
        store, tables = Store(folder), sets.StoredSets()
        accept(store, documents)
        nested = NestedSubscriptions(Analysis(), tables=tables)
        with store.write() as transaction:
            sets.create(transaction)
        with store.write() as transaction, tables.within(transaction):
            nested.add_all((number, query, 0, None) for number, query in enumerate(asked))
        start, told = perf_counter(), []
        for first in range(0, len(documents), BATCH):
            with store.write() as transaction, tables.within(transaction):
                told += nested.match(list(enumerate(documents[first : first + BATCH], first + 1)))
        seconds = perf_counter() - start
        with store.write() as transaction, tables.within(transaction):
            found = _result(len(documents), seconds, told, nested)
        store.close()
    return found


def _set_aside() -> None:
    """What was read and registered before is no garbage of the run: the collector need not walk through it again."""
    gc.collect()
    gc.freeze()


def _result(documents: int, seconds: float, told: list[Any], nested: NestedSubscriptions) -> dict[str, Any]:
    sizes = [nested.tables.size(number) for number in nested.tables.sets()]
    return {
        "documents_per_second": round(documents / seconds),
        "matches": len(told),
        "of_older": sum(one.position != one.cause for one in told),
        "sets": len(sizes),
        "values": sum(sizes),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    parser.add_argument("--subscriptions", type=int, help="another number than the size's")
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args(arguments)
    number, most = SIZES[given.size]
    number = given.subscriptions or number
    documents = papers()[:most]
    nested, plain = queries(documents, number)
    found: dict[str, Any] = {"documents": len(documents), "subscriptions": number}
    found["plain"] = run_plain(plain, documents)
    found["nested"] = run_nested(nested, documents)
    found["times"] = round(found["plain"]["documents_per_second"] / found["nested"]["documents_per_second"], 2)
    found["holds"] = found["times"] <= BAR
    if given.store:
        found["nested_stored"] = run_stored(nested, documents)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
