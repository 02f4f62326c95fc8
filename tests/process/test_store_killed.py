"""kill -9 of a process that publishes, subscribes and matches: what is kept is whole, nothing is lost or told twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from sqlalchemy import text

from tests.site.receiver import receiving, wait_for
from tocsin.site import audit
from tocsin.site.local import LocalPipeline
from tocsin.store import Store, documents, inbox, subscriptions
from tocsin.text import Analysis

ROUNDS = 6

CHILD = """
import sys
from tocsin.site import accounts, intake, life
from tocsin.site.local import LocalPipeline
from tocsin.site.problems import Conflict
from tocsin.site.site import Site
from tocsin.store import Store
store = Store(sys.argv[1]); site = Site(store); start = int(sys.argv[2])
try: account = accounts.create(store, "ann", "admin")
except Conflict: account = accounts.find(store, "ann")
pipeline = LocalPipeline(store, batch_documents_max=5)
print("ready", flush=True)
for number in range(start, start + 100_000):
    id = f"{number:06}"
    intake.publish(site, account, [{"id": f"{id}-{n}", "text": f"peer word{n % 3}"} for n in range(4)])
    print("accepted", id, flush=True)
    made = life.create(site, account, {"query": f"peer word{number % 3}", "id": f"s{id}"}, with_contract=False)
    print("subscribed", id, flush=True)
    if number % 3 == 1: life.pause(site, account, f"s{id}")
    if number % 4 == 3: life.delete(site, account, f"s{id}")
    if number % 5 == 0: life.mute(site, account, f"s{id}", 4e9, "hold") if number % 4 != 3 and number % 3 != 1 else None
    pipeline.run_batch()
"""


def killed(folder: Path, start: int, seconds: float) -> tuple[list[str], list[str]]:
    """Runs the child and kills it after so long; the ids that it was told are accepted, and subscribed."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), str(start)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    said = [line.split() for line in child.stdout.read().splitlines() if line.count(" ") == 1 and line[-1].isdigit()]
    child.stdout.close()
    child.wait()
    return [id for what, id in said if what == "accepted"], [id for what, id in said if what == "subscribed"]


def test_whatever_was_promised_before_the_kill_is_kept(tmp_path):
    chance = random.Random(9)
    accepted: list[str] = []
    subscribed: list[str] = []
    for number in range(ROUNDS):
        more, made = killed(tmp_path, 1_000 * number, chance.uniform(0.3, 3.0))
        accepted += more
        subscribed += made
        store = Store(tmp_path)
        with store.read() as transaction:
            assert transaction.execute(text("PRAGMA integrity_check")).scalar() == "ok"
        stored = {one.id for chunk in documents.read(store, 0, documents.last_position(store)) for one in chunk}
        assert {f"{id}-{n}" for id in accepted for n in range(4)} <= stored
        for id in subscribed:
            kept = subscriptions.find(store, "ann", f"s{id}")
            assert kept is not None or int(id) % 4 == 3
        store.close()
    assert accepted
    store = Store(tmp_path)
    LocalPipeline(store).catch_up()
    report = audit.audit(store, Analysis())
    assert report.complete, report
    assert report.looked_at == documents.last_position(store)
    items = inbox.items(store, limit=1_000_000)
    told = [(item.number, one.document, one.version) for item in items for one in item.notifications]
    assert told
    assert len(told) == len(set(told))
    for subscription in {number for number, _, _ in told}:
        own = [document for number, document, _ in told if number == subscription]
        assert own == sorted(own), "in the order of the log"
    store.close()


SENDER = """
import sys, time
from tocsin.site import accounts, intake, life
from tocsin.site.local import LocalPipeline
from tocsin.site.problems import Conflict
from tocsin.site.settings import DeliverySettings, SiteSettings
from tocsin.site.site import Site
from tocsin.store import Store
store = Store(sys.argv[1]); start = int(sys.argv[3])
waits = dict(delivery_first_wait_seconds=0.05, delivery_longest_wait_seconds=0.2)
quick = DeliverySettings(delivery_allows_private=True, **waits)
site = Site(store, SiteSettings(delivery=quick)); site.pipeline = LocalPipeline(store, noticed=site.noticed)
try:
    account = accounts.create(store, "ann", "admin")
    for name in ("a", "b"):
        body = {"query": "peer", "id": name, "channel": f"{sys.argv[2]}/{name}"}
        life.create(site, account, body, with_contract=False)
except Conflict: account = accounts.find(store, "ann")
site.start()
print("ready", flush=True)
for number in range(start, start + 10_000):
    if len(sys.argv) > 4: time.sleep(0.2); continue
    intake.publish(site, account, [{"id": f"{number:06}", "text": "peer"}])
    print("accepted", f"{number:06}", flush=True)
    time.sleep(0.01)
"""


def test_webhooks_of_a_site_that_is_killed_get_everything_in_order_and_repeats_keep_their_ids(tmp_path):
    chance = random.Random(4)
    accepted: list[str] = []

    def reply(path: str, attempt: int, number: int) -> tuple[int, float, dict[str, str]]:
        return (500 if number % 20 == 0 else 200), 0.0, {}

    def start(*arguments: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", SENDER, str(tmp_path), received.url, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    def kill(child: subprocess.Popen[str]) -> list[str]:
        child.send_signal(signal.SIGKILL)
        assert child.stdout is not None
        said = [line.split() for line in child.stdout.read().splitlines() if line.count(" ") == 1]
        child.stdout.close()
        child.wait()
        return [line[1] for line in said if len(line[1]) == 6]

    with receiving(reply) as received:
        for number in range(4):
            child = start(str(1_000 * number))
            time.sleep(chance.uniform(0.5, 3.0))
            accepted += kill(child)
        child = start("0", "only deliver")
        store = Store(tmp_path)
        total = documents.last_position(store)
        wait_for(lambda: len(received.documents("/a")) == len(received.documents("/b")) == total, 120)
        kill(child)
        stored = [one.id for chunk in documents.read(store, 0, total) for one in chunk]
        store.close()
        assert set(accepted) <= set(stored)
        for path in ("/a", "/b"):
            assert received.documents(path) == stored
            bodies: dict[str, str] = {}
            for at, headers, body in received.taken:
                if at == path:
                    told = str(body)
                    assert bodies.setdefault(headers["webhook-id"], told) == told, "a repeat is the same call"
            assert len(bodies) == total
