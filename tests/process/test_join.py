"""Two sites as real processes share a ring on loopback; one is killed (SIGKILL) at random moments, then the other.

What a site publishes, the subscribers of the other are told: each match once into their site's outbox, none lost.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import free_port
from tests.process.test_site_killed import TOKEN, Killable

WORDS = [f"word{n}" for n in range(8)]
PATIENCE_SECONDS = 120.0


class Joined:
    """A site that is a node, started again on the same folder and port after each death."""

    def __init__(self, folder: Path, log: Path, *contacts: str) -> None:
        self.folder, self.log, self.contacts, self.port = folder, log, contacts, free_port()
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.process.join_driver", str(self.folder), str(self.port), *self.contacts]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )

    def ask(self, *words: Any) -> Any:
        assert self.process is not None
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(json.dumps(words) + "\n")
        requests.flush()
        line = answers.readline()
        if not line:
            raise BrokenPipeError(self.log.read_text())
        return json.loads(line)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.close()

    def close(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=60)
            for pipe in (self.process.stdin, self.process.stdout):
                assert pipe is not None
                with suppress(OSError):
                    pipe.close()


@contextmanager
def two_sites(tmp_path: Path) -> Iterator[tuple[Joined, Joined]]:
    here = Joined(tmp_path / "a", tmp_path / "a.log")
    there = Joined(tmp_path / "b", tmp_path / "b.log", f"127.0.0.1:{here.port}")
    try:
        here.start()
        here.ask("address")
        there.start()
        there.ask("address")
        yield here, there
    finally:
        here.close()
        there.close()


def until(holds: Callable[[], bool], log: Path) -> None:
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < PATIENCE_SECONDS, log.read_text()
        time.sleep(0.05)


def paper(chance: random.Random, number: int) -> dict[str, Any]:
    return {"id": f"d{number:04}", "title": " ".join(chance.sample(WORDS, 2))}


def killed(tmp_path: Path, kills: int, seed: int) -> int:
    """Publishes at one site while it or the subscribers' is killed, in turn; how many notices were due."""
    chance = random.Random(seed)
    with two_sites(tmp_path) as (here, there):
        for word in WORDS:
            here.ask("subscribe", word, f"title:{word}")
        until(lambda: here.ask("standing") == len(WORDS), here.log)
        papers: list[dict[str, Any]] = []
        for kill in range(kills):
            victim = there if kill % 2 == 0 else here
            batch = [paper(chance, len(papers) + number) for number in range(10)]
            papers += batch
            there.ask("publish", batch)  # accepted: from here on nothing may be lost
            time.sleep(chance.uniform(0, 0.6))
            victim.kill()
            victim.start()
            victim.ask("address")
        due = [[word, one["id"], 1] for one in papers for word in one["title"].split()]
        until(lambda: there.ask("shared"), there.log)
        until(lambda: len(here.ask("told")) >= len(due), here.log)
        time.sleep(0.5)
        found = here.ask("told")
        assert sorted(found) == sorted(due)  # none lost, none twice, none false
        return len(due)


def test_each_match_is_told_once_though_either_site_is_killed(tmp_path: Path) -> None:
    assert killed(tmp_path, kills=2, seed=1) == 40


@pytest.mark.slow
def test_each_match_is_told_once_though_sites_are_killed_twenty_times(tmp_path: Path) -> None:
    assert killed(tmp_path, kills=20, seed=2) == 400


@pytest.mark.slow
def test_two_installations_with_up_and_join(tmp_path: Path) -> None:
    """`tocsin up --listen`, `tocsin up --join`: over HTTP, with Spark on both sides; the subscriber's is killed."""
    port = free_port()
    first = Killable(tmp_path / "first", tmp_path / "first.log", "--listen", f"127.0.0.1:{port}")
    second = Killable(
        tmp_path / "second", tmp_path / "second.log", "--listen", f"127.0.0.1:{free_port()}",
        "--join", f"127.0.0.1:{port}",
    )  # fmt: skip

    def call(site: Killable, method: str, path: str, **options: Any) -> Any:
        found = httpx.request(
            method, f"{site.url}/api/v1/{path}", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60, **options
        )
        assert found.is_success, found.text
        return found.json()

    try:
        for site in (first, second):
            site.start()
        for site in (first, second):
            site.until_matching()
        until(lambda: "joined the ring" in second.log.read_text(), second.log)
        call(first, "POST", "subscriptions", json={"id": "s", "query": "title:kestrel"})
        time.sleep(5)  # until it stands on the ring
        call(second, "POST", "documents", json={"id": "one", "title": "A kestrel"})
        told = lambda: [item["document"] for item in call(first, "GET", "notifications")["items"]]  # noqa: E731
        until(lambda: told() == ["one"], first.log)
        first.kill()
        call(second, "POST", "documents", json={"id": "two", "title": "Another kestrel"})
        first.start()
        first.until_matching()
        until(lambda: told() == ["one", "two"], first.log)
        assert [first.stop(), second.stop()] == [0, 0]
    finally:
        first.close()
        second.close()
