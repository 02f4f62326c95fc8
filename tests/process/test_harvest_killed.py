"""kill -9 of a process that harvests: no item is lost, none is told twice, and no page is asked for again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from sqlalchemy import text

from tests.site.repository import filled
from tests.site.source_server import HERE, Reply, item, rss, serving
from tocsin.site.accounts import Account, Role
from tocsin.site.harvest import sources
from tocsin.store import Store, documents

RECORDS, FEEDS, KILLS = 400, 10, 5

CHILD = """
import sys
from tocsin.site.harvest.harvester import Harvester
from tocsin.site.harvest.settings import HarvestSettings
from tocsin.store import Store
store = Store(sys.argv[1])
settings = HarvestSettings(harvest_allows_private=True, harvest_host_delay_seconds=0.0, near_window_seconds=0.0)
harvester = Harvester(store, settings)
print("ready", flush=True)
harvester.visit_once([int(number) for number in sys.argv[2].split(",")])
print("done", flush=True)
"""


def run(folder: Path, numbers: list[int], seconds: float | None) -> bool:
    """Runs the child, and kills it after so long; did it end by itself?"""
    command = [sys.executable, "-c", CHILD, str(folder), ",".join(map(str, numbers))]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    if seconds is not None:
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
    said = child.stdout.read()
    child.stdout.close()
    child.wait()
    return "done" in said


def test_what_was_killed_goes_on_where_it_was(tmp_path):
    chance = random.Random(6)
    repository = filled(RECORDS, page=10)
    feeds = {f"{n}.xml": rss(*(item(f"{n}-{m}", text=f"words{n} and{m}") for m in range(5))) for n in range(FEEDS)}

    def answer(path: str, headers: object) -> Reply:
        if path.startswith("/oai"):
            found = repository.answer(path, {})
            found.sleep = 0.01
            return found
        return Reply(feeds[path.lstrip("/")])

    account = Account("ann", Role.PUBLISHER)
    kills = 0
    with serving(answer) as served:
        store = Store(tmp_path)
        oai = sources.add(store, HERE, account, {"address": served.url("oai"), "kind": "oai"}).number
        numbers = [oai]
        for name in feeds:
            numbers.append(sources.add(store, HERE, account, {"address": served.url(name, "127.0.0.2")}).number)
        for _ in range(KILLS):
            kills += not run(tmp_path, numbers, chance.uniform(0.2, 1.0))
            with store.read() as transaction:
                assert transaction.execute(text("PRAGMA integrity_check")).scalar() == "ok"
            known = {one.id for chunk in documents.read(store, 0, documents.last_position(store)) for one in chunk}
            assert len(known) == documents.last_position(store)
            # How far the list is and what was stored of it are of one moment.
            source = sources.get(store, oai)
            pages = source.cursor.get("pages", 0)
            if source.cursor.get("token"):
                assert sum(one.startswith(source.key) for one in known) == 10 * pages
        assert run(tmp_path, numbers, None)
        stored = [one for chunk in documents.read(store, 0, documents.last_position(store)) for one in chunk]
        store.close()
    assert kills >= 2
    assert len(stored) == RECORDS + 5 * FEEDS
    assert {one.version for one in stored} == {1}
    # A page is asked for again only if a kill came between its question and its commit.
    tokens = [asked["resumptionToken"] for asked in repository.asked if "resumptionToken" in asked]
    assert len(tokens) - len(set(tokens)) <= kills
