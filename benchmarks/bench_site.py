"""A whole site under load: accounts, subscriptions, documents that keep arriving, webhooks of which some fail.

    python benchmarks/bench_site.py --size full

Full is the promise: 1,000 accounts with 100 subscriptions each, 200 documents a second for 5 minutes, about one match a
document, every subscription told by a webhook, 5 % of which fail their first two attempts at an item. Small is seconds
of it. `tocsin up` runs in a process of its own, with Spark; this process publishes and receives.

Prints one JSON object: what was lost, false, duplicated (a match told under two ids) or out of order, all of which must
be 0; how often an item was sent again after it had been taken (its answer came too late; it keeps its id, so a receiver
can tell); and the time from sending a document to being told of it, after a warm-up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import httpx

TOKEN = "a-preset-token-for-the-administrator"
NDJSON = {"Content-Type": "application/x-ndjson"}
FAILING_SHARE, FAILURES = 0.05, 2
FILLER = [f"filler{n}" for n in range(5_000)]
WORDS, BATCH_SECONDS = 150, 0.1


@dataclass(frozen=True)
class Size:
    accounts: int
    subscriptions: int
    documents_per_second: int
    seconds: int


SIZES = {"small": Size(20, 10, 50, 10), "full": Size(1_000, 100, 200, 300)}


class Receiver:
    """An HTTP server for the webhooks, in a thread of its own."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, str, dict[str, Any]]] = []
        self.attempts = 0
        self.port = 0
        self._failed: dict[str, int] = defaultdict(int)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()
        self._ready.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=2_048))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                status = self._answer(head[0].split()[1], headers["webhook-id"], body)
                writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, path: str, id: str, body: bytes) -> int:
        self.attempts += 1
        if path == "/failing" and self._failed[id] < FAILURES:
            self._failed[id] += 1
            return 500
        self.taken.append((time.time(), id, json.loads(body)))
        return 200


class Site:
    """`tocsin up`, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tocsin", "up", "--data", str(folder), "--port", "0"]
        self._process = subprocess.Popen(
            [*command, "--allow-private-webhooks"], stdout=subprocess.PIPE, text=True, start_new_session=True,
            env=os.environ | {"TOCSIN_ADMIN_TOKEN": TOKEN},
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]

    def client(self, token: str = TOKEN) -> httpx.Client:
        return httpx.Client(
            base_url=f"{self.url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=httpx.Timeout(300)
        )

    def until_matching(self) -> None:
        while httpx.get(f"{self.url}/healthz").status_code != 200:
            if self._process.poll() is not None:
                raise AssertionError("the site did not start")
            time.sleep(0.2)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def subscribe(site: Site, size: Size, port: int) -> dict[str, Any]:
    """Accounts and their subscriptions; each waits for a word of its own, and is told by a webhook."""
    chance = random.Random(1)
    start = time.perf_counter()
    with site.client() as admin:
        for account in range(size.accounts):
            made = admin.post("accounts", json={"name": f"account{account}", "role": "subscriber"})
            made.raise_for_status()
            lines = []
            for number in range(account * size.subscriptions, (account + 1) * size.subscriptions):
                where = "failing" if chance.random() < FAILING_SHARE else "good"
                channel = {"kind": "webhook", "url": f"http://127.0.0.1:{port}/{where}"}
                lines.append(json.dumps({"id": f"s{number}", "query": f"text:own{number}", "channel": channel}))
            with site.client(made.json()["token"]) as own:
                answer = own.post("subscriptions", content="\n".join(lines), headers=NDJSON)
                answer.raise_for_status()
                if "error" in answer.text:
                    raise AssertionError(answer.text[:500])
    seconds = time.perf_counter() - start
    return {"subscriptions": size.accounts * size.subscriptions, "subscribe_seconds": round(seconds, 1)}


def warm_up(site: Site, receiver: Receiver) -> None:
    """The first batches of a fresh Spark are slow: they are not what is measured."""
    with site.client() as publisher:
        for number in range(3):
            publisher.post("documents", json={"id": f"warm{number}", "text": f"own{number}"}).raise_for_status()
            while len({id for _, id, _ in receiver.taken}) <= number:
                time.sleep(0.1)
    receiver.taken.clear()
    receiver.attempts = 0


def publish(site: Site, size: Size, sent: dict[str, float], expected: dict[str, str]) -> dict[str, Any]:
    """Documents at the given rate; each holds the word of one subscription."""
    chance = random.Random(2)
    batch = max(1, round(size.documents_per_second * BATCH_SECONDS))
    count = size.accounts * size.subscriptions
    start, number, late = time.monotonic(), 0, 0.0
    with site.client() as publisher:
        while number < size.documents_per_second * size.seconds:
            lines = []
            now = time.time()
            for _ in range(batch):
                wanted = chance.randrange(count)
                id = f"d{number:07}"
                text = " ".join([*chance.choices(FILLER, k=WORDS), f"own{wanted}"])
                lines.append(json.dumps({"id": id, "text": text}))
                sent[id], expected[id] = now, f"s{wanted}"
                number += 1
            answer = publisher.post("documents", content="\n".join(lines), headers=NDJSON)
            answer.raise_for_status()
            if answer.json() != {"accepted": batch, "rejected": []}:
                raise AssertionError(answer.text[:500])
            due = start + number / size.documents_per_second
            late = max(late, time.monotonic() - due)
            time.sleep(max(0.0, due - time.monotonic()))
    seconds = time.monotonic() - start
    rate = round(number / seconds, 1)
    return {"documents": number, "documents_per_second": rate, "publisher_late_seconds_max": round(late, 2)}


def wait(receiver: Receiver, wanted: int, seconds_max: float) -> float:
    """Until everything is told, or nothing more comes; how long that took."""
    start = time.monotonic()
    while len({id for _, id, _ in receiver.taken}) < wanted and time.monotonic() - start < seconds_max:
        time.sleep(0.5)
    time.sleep(2)  # a second delivery of the same would come now
    return time.monotonic() - start


def judged(receiver: Receiver, sent: dict[str, float], expected: dict[str, str]) -> dict[str, Any]:
    """Lost, false, duplicated, out of order; and how long it took."""
    ids: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    order: dict[str, list[str]] = defaultdict(list)
    delays: list[float] = []
    duplicated = repeated = false = 0
    for at, id, body in receiver.taken:
        told = body["data"]
        subscription, document = told["subscription"], told["document"]
        if id in ids:
            repeated += 1
            continue
        if (subscription, document) in pairs:
            duplicated += 1
            continue
        ids.add(id)
        pairs.add((subscription, document))
        false += expected.get(document) != subscription
        order[subscription].append(document)
        delays.append(at - sent[document])
    delays.sort()
    pick = {f"p{share}": round(delays[min(len(delays) - 1, len(delays) * share // 100)], 2) for share in (50, 95, 99)}
    return {
        "told": len(pairs),
        "lost": sum((subscription, document) not in pairs for document, subscription in expected.items()),
        "false": false,
        "duplicated": duplicated,
        "sent_again": repeated,
        "out_of_order": sum(documents != sorted(documents) for documents in order.values()),
        "attempts": receiver.attempts,
        "arrival_to_delivery_seconds": pick,
    }


def say(what: str) -> None:
    """Where it is, beside the JSON."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def main() -> None:
    """Runs it and prints what was found; fails if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    size = SIZES[parser.parse_args().size]
    receiver = Receiver()
    sent: dict[str, float] = {}
    expected: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        site = Site(Path(folder))
        try:
            result: dict[str, Any] = {"accounts": size.accounts} | subscribe(site, size, receiver.port)
            site.until_matching()
            say(f"subscribed in {result['subscribe_seconds']} s; warming up")
            warm_up(site, receiver)
            say("publishing")
            result |= publish(site, size, sent, expected)
            say(f"published; told {len(receiver.taken)} of {len(expected)}")
            result["caught_up_seconds"] = round(wait(receiver, len(expected), 60 + size.seconds), 1)
        finally:
            site.stop()
    result |= judged(receiver, sent, expected)
    print(json.dumps(result))
    if result["lost"] or result["false"] or result["duplicated"] or result["out_of_order"]:
        raise SystemExit("a promise is broken: lost, false, duplicated or out of order")


if __name__ == "__main__":
    main()
