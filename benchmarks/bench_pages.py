"""How fast pages come when much is stored: the promises are the overview in 200 ms (p95) with 10^6 notifications, and
the preview of a plain query over 10^5 documents in 1 s (p95).

    python benchmarks/bench_pages.py --size full
    python benchmarks/bench_pages.py --size full --only /      # one page, and no previews

Full stores 10^6 notifications of one account, of 200 subscriptions over 14 days, and 2·10^5 documents; small is seconds
of it. The pages are asked for over HTTP, one after the other, by a browser that is signed in; matches keep arriving
meanwhile, so that nothing can be answered from memory alone. Previews are of one to three words of a Zipf vocabulary,
over documents of a hundred words, as the editor asks for them: hits by day, the newest ten with why, and the contract.
Prints one JSON object: for each page the first answer after the start, p50, p95 and the worst, in milliseconds; for the
previews also how many documents they found.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import httpx
import numpy as np
from sqlalchemy import insert, update

from tests.web.browsing import LIKE_A_BROWSER, seal_of
from tests.web.serving import ADMIN_TOKEN, eventually, serving
from tocsin.intake import document_to_json, fingerprint
from tocsin.model import Document
from tocsin.site import accounts, intake, life
from tocsin.site.local import LocalPipeline
from tocsin.site.site import Site
from tocsin.store import Store, outbox, schema
from tocsin.store.documents import MATCHING
from tocsin.store.outbox import Batch

DAYS, CHUNK = 14, 10_000
PAGES = ("/", "/alerts", "/subscriptions", "/alerts?words=rare", "/pulse", "/editor")


VOCABULARY, WORDS = 20_000, 100


@dataclass(frozen=True)
class Size:
    notifications: int
    documents: int
    subscriptions: int
    calls: int
    previewed: int


SIZES = {"small": Size(20_000, 5_000, 50, 20, 5_000), "full": Size(1_000_000, 200_000, 200, 200, 100_000)}


def fill(folder: Path, size: Size) -> None:
    """Writes what a long time would have left: documents, one batch that matched them, and its notifications."""
    store = Store(folder)
    site = Site(store, None, LocalPipeline(store))
    accounts.first_start(store, ADMIN_TOKEN)
    admin = accounts.find(store, accounts.ADMIN)
    bodies = [{"id": f"s{n}", "query": f"word{n}", "name": f"Subscription {n}"} for n in range(size.subscriptions)]
    life.create_many(site, admin, bodies)
    numbers = [life.get(site, admin, body["id"]).number for body in bodies]
    chance, now = random.Random(1), time.time()
    begin = now - DAYS * 86_400

    def moment(place: int, many: int) -> float:
        return begin + (now - begin) * place / many

    with store.write() as transaction:
        for first in range(0, size.documents, CHUNK):
            rows = []
            for n in range(first, min(first + CHUNK, size.documents)):
                document = Document(f"d{n}", {"title": (f"Paper {n} about word{n % size.subscriptions}",)})
                at = moment(n, size.documents)
                row = {"position": n + 1, "id": document.id, "version": 1, "moment": at, "accepted": at, "state": 0}
                rows.append(row | {"fingerprint": fingerprint(document), "body": document_to_json(document)})
            transaction.execute(insert(schema.documents), rows)
        values = {"position": size.documents, "cursor": size.notifications}
        transaction.execute(update(schema.clock).values(**values))
    last = size.documents
    batch, _ = outbox.begin(store, Batch(MATCHING, last, 0, last, 0, last))
    outbox.finish(store, batch, [])
    seen: set[tuple[int, int]] = set()
    for first in range(0, size.notifications, CHUNK):
        rows = []
        for n in range(first, min(first + CHUNK, size.notifications)):
            at = n * size.documents // size.notifications
            number = numbers[chance.randrange(len(numbers))]
            while (number, at) in seen:
                number = numbers[chance.randrange(len(numbers))]
            seen.add((number, at))
            word = f"word{at % size.subscriptions}"
            place = {"atom": word, "field": "title", "value_index": 0, "words": [word], "positions": [3]}
            rows.append({"cursor": n + 1, "account": admin.name, "subscription": number, "document": f"d{at}",
                         "version": 1, "position": at + 1, "score": 0.5, "statistics": 0,
                         "evidence": json.dumps({"clause": word, "atoms": [place]}),
                         "made": moment(n, size.notifications)})  # fmt: skip
        with store.write() as transaction:
            transaction.execute(insert(schema.notifications), rows)
    store.close()


def measure(folder: Path, size: Size, pages: Sequence[str]) -> dict[str, dict[str, float]]:
    found = {}
    with serving(folder) as served, httpx.Client(base_url=served.url, headers=LIKE_A_BROWSER, timeout=120) as client:
        client.post("/sign-in", data={"seal": seal_of(client.get("/sign-in")), "token": ADMIN_TOKEN})
        admin = accounts.find(served.site.store, accounts.ADMIN)
        for path in pages:
            taken = []
            for n in range(size.calls):
                arriving = Document(f"new{path}{n}", {"title": (f"word{n % size.subscriptions}",)})
                intake.publish(served.site, admin, [arriving])
                start = time.perf_counter()
                answer = client.get(path)
                taken.append((time.perf_counter() - start) * 1_000)
                assert answer.status_code == 200, answer.text
            found[path] = summary(taken)
    return found


def summary(taken: list[float]) -> dict[str, float]:
    """Of milliseconds."""
    cuts = quantiles(taken[1:], n=20)
    values = (("first", taken[0]), ("p50", cuts[9]), ("p95", cuts[18]), ("worst", max(taken[1:])))
    return {name: round(value, 1) for name, value in values}


# --- previews --------------------------------------------------------------------------------------------------------


def fill_texts(folder: Path, size: Size) -> None:
    """Documents of words that are as frequent as in texts, over two weeks, matched by nobody."""
    store = Store(folder)
    accounts.first_start(store, ADMIN_TOKEN)
    chance, now = np.random.default_rng(2), time.time()
    shares = 1 / np.arange(1, VOCABULARY + 1)
    with store.write() as transaction:
        for first in range(0, size.previewed, CHUNK):
            count = min(CHUNK, size.previewed - first)
            drawn = chance.choice(VOCABULARY, (count, WORDS), p=shares / shares.sum())
            rows = []
            for place, numbers in enumerate(drawn.tolist()):
                at = now - DAYS * 86_400 * (1 - (first + place) / size.previewed)
                fields = {"title": (f"Paper {first + place}",), "abstract": (" ".join(f"w{n}" for n in numbers),)}
                document = Document(f"d{first + place}", fields)
                row = {"position": first + place + 1, "id": document.id, "version": 1, "moment": at, "accepted": at}
                row |= {"fingerprint": fingerprint(document), "body": document_to_json(document), "state": 0}
                rows.append(row)
            transaction.execute(insert(schema.documents), rows)
        transaction.execute(update(schema.clock).values(position=size.previewed, cursor=0))
    batch, _ = outbox.begin(store, Batch(MATCHING, size.previewed, 0, size.previewed, 0, size.previewed))
    outbox.finish(store, batch, [])
    store.close()


def measure_previews(folder: Path, size: Size) -> dict[str, float]:
    """Plain queries of one to three words, each another one."""
    chance = random.Random(3)
    with serving(folder) as served, httpx.Client(base_url=served.url, headers=LIKE_A_BROWSER, timeout=120) as client:
        start, searching = time.perf_counter(), served.site.searching
        assert searching is not None
        eventually(lambda: searching._library.last >= size.previewed, 3_600)
        indexed = time.perf_counter() - start
        client.post("/sign-in", data={"seal": seal_of(client.get("/sign-in")), "token": ADMIN_TOKEN})
        seal = seal_of(client.get("/editor"))
        taken, hits = [], []
        for n in range(size.calls):
            words = sorted({f"w{int(VOCABULARY ** chance.random())}" for _ in range(1 + n % 3)})
            start = time.perf_counter()
            answer = client.post("/editor/preview", data={"seal": seal, "query": " ".join(words)})
            taken.append((time.perf_counter() - start) * 1_000)
            assert answer.status_code == 200, answer.text
            told = re.search(r"([\d,]+) documents?<", answer.text)
            assert told is not None
            hits.append(int(told[1].replace(",", "")))
    more = {"index_seconds": round(indexed, 1), "hits_p50": sorted(hits)[len(hits) // 2], "hits_most": max(hits)}
    return {**summary(taken), **more}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small", help="how much is stored (default small)")
    parser.add_argument("--only", choices=PAGES, help="measure this page alone")
    asked = parser.parse_args()
    size = SIZES[asked.size]
    pages = PAGES if asked.only is None else (asked.only,)
    with tempfile.TemporaryDirectory(prefix="tocsin-pages-") as folder:
        start = time.perf_counter()
        fill(Path(folder), size)
        filled = round(time.perf_counter() - start, 1)
        told = {"size": size.__dict__, "fill_seconds": filled, "milliseconds": measure(Path(folder), size, pages)}
    if asked.only is None:
        with tempfile.TemporaryDirectory(prefix="tocsin-previews-") as folder:
            fill_texts(Path(folder), size)
            told["preview_milliseconds"] = measure_previews(Path(folder), size)
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
