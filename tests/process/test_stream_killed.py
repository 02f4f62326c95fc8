"""The stream's process is killed, at points that hurt and at random: nothing lost, nothing twice, nothing false."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tocsin.model import Document
from tocsin.query import Knowledge, holds, parse
from tocsin.store import Store, documents, outbox, subscriptions
from tocsin.store.subscriptions import Asked, Wish

WORDS = "peer grid chord news paper query stream index trie join".split()
QUERIES = [f"{one} AND {two}" for one in WORDS for two in WORDS if one < two] + ['"peer grid"', "NOT peer", "year > 50"]


class Site:
    """A store, the process that matches its documents, and what must come of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder / "store")
        self._chance = random.Random(7)
        self.published = 0
        self.expected: set[tuple[str, str]] = set()
        wishes = [Wish(f"s{n}", Asked(query)) for n, query in enumerate(QUERIES)]
        assert not subscriptions.add(self.store, "ann", wishes)
        self._parsed = {wish.id: parse(wish.asked.query or "") for wish in wishes}

    def publish(self, count: int) -> None:
        new = []
        for number in range(self.published, self.published + count):
            text = " ".join(self._chance.choices(WORDS, k=5))
            new.append(Document(f"d{number}", {"text": (text,), "year": (self._chance.randrange(100),)}))
        self.published += count
        documents.accept(self.store, new)
        for document in new:
            for id, query in self._parsed.items():
                if holds(query, document, Knowledge()):
                    self.expected.add((id, document.id))

    @contextmanager
    def matching(self, *point: str, batch: int = 40):
        """The process, running."""
        places = [str(self.folder / "store"), str(self.folder / "p")]
        command = [sys.executable, "-m", "tests.process.stream_driver", *places, str(batch), *point]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            yield process
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def matched(self) -> int:
        with self.store.read() as transaction:
            return documents.matched(transaction)

    def wait(self, process, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while self.matched() < self.published:
            assert process.poll() is None, "the stream's process has ended"
            assert time.monotonic() < end, f"only {self.matched()} of {self.published} documents were matched"
            time.sleep(0.1)

    def check(self) -> None:
        """The outbox holds what the oracle says, each once, in the order of the log."""
        told = [(one.subscription, one.document) for one in outbox.read(self.store, limit=1_000_000)]
        assert len(told) == len(set(told))
        assert set(told) == self.expected
        order = [int(document[1:]) for _, document in told]
        assert order == sorted(order)


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    yield site
    site.store.close()


def kill_at(site: Site, *points: str) -> None:
    for point in points:
        done = site.matched()
        with site.matching(point) as process:
            assert process.wait(timeout=300) == -signal.SIGKILL
        assert done < site.matched() < site.published
        site.publish(80)


def test_killed_during_the_sinks_transaction_and_locked_out_of_the_store(site):
    site.publish(100)
    kill_at(site, "during")
    with site.matching() as process:
        with site.store.write():
            time.sleep(3)
        site.wait(process)
    site.check()


@pytest.mark.slow
def test_killed_before_during_and_after_the_sinks_transaction(site):
    site.publish(100)
    kill_at(site, "before", "during", "after")
    with site.matching() as process:
        site.wait(process)
    site.check()


@pytest.mark.slow
def test_killed_at_twenty_random_moments(site):
    chance = random.Random(11)
    for _ in range(20):
        with site.matching() as process:
            end = time.monotonic() + chance.uniform(0, 6)
            while time.monotonic() < end:
                site.publish(chance.randrange(60))
                time.sleep(0.2)
            assert process.poll() is None
    with site.matching() as process:
        site.wait(process)
    site.check()


@pytest.mark.slow
def test_a_store_that_is_locked_for_thirty_seconds_only_delays(site):
    site.publish(60)
    with site.matching() as process:
        with site.store.write():
            time.sleep(30)
        site.publish(30)
        site.wait(process)
    site.check()


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 KiB under the pipeline's staging folder, and a way to make it larger."""
    place = tmp_path / "p" / "staging"
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted only by the administrator of this machine")
    yield lambda: subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
def test_a_full_disk_stops_the_stream_and_nothing_is_lost(site, small_disk):
    site.publish(2_000)
    with site.matching(batch=1_000) as process:
        assert process.wait(timeout=120) == 1
    assert site.matched() < 2_000
    small_disk()
    with site.matching(batch=1_000) as process:
        site.wait(process)
    site.check()


def executors(folder: Path) -> list[int]:
    """The processes in which the workers run tasks: each works in its own folder below the workers'."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words, place = process.info["cmdline"] or [], process.info["cwd"] or ""
        if any("CoarseGrainedExecutorBackend" in word for word in words) and place.startswith(str(folder)):
            found.append(process.pid)
    return found


@pytest.mark.slow
def test_an_executor_is_killed_in_the_middle_of_a_batch(site, cluster, tmp_path):
    """Spark starts another one, and gives it the tasks again; what they had found before does not count twice."""
    killed: set[int] = set()
    with site.matching(cluster, batch=3_000) as process:
        for _ in range(3):
            done = site.matched()
            site.publish(3_000)
            end = time.monotonic() + 60
            while not (alive := [pid for pid in executors(tmp_path) if pid not in killed]):
                assert time.monotonic() < end, "no executor"
                time.sleep(0.05)
            time.sleep(0.8)  # the batch has begun, and has not ended: looked at after the kill
            os.kill(alive[0], signal.SIGKILL)
            killed.add(alive[0])
            assert site.matched() == done
            site.wait(process, 180)
    assert len(killed) == 3
    site.check()
