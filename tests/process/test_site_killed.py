"""`tocsin up` is killed (SIGKILL) at random moments under load: nothing is lost, nothing is told twice, order is kept.

A publisher sends documents and counts as accepted what was answered 202; a call that broke is sent again. A reader
follows the account's notifications by cursor, across all deaths. What must be found is computed from the documents
alone.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tocsin.store import Store, outbox

TOKEN = "a-preset-token-for-the-administrator"
WORDS = [f"word{n}" for n in range(30)]
BATCH, PAUSE_SECONDS = 10, 0.1
START_SECONDS_MAX, CATCH_UP_SECONDS_MAX = 180.0, 240.0


class Killable:
    """A site in a process of its own, started again on the same folder and port after each death."""

    def __init__(self, folder: Path, log: Path, *options: str) -> None:
        self.folder, self.log, self.options = folder, log, options
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        self.http_seconds: list[float] = []
        self.matching_seconds: list[float] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Comes back when HTTP answers."""
        start = time.monotonic()
        command = [sys.executable, "-m", "tocsin", "up", "--data", str(self.folder), "--port", str(self.port)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, "--master", "local[1]", *self.options], stdout=subprocess.PIPE, stderr=log, text=True,
                env=os.environ | {"TOCSIN_ADMIN_TOKEN": TOKEN}, start_new_session=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Tocsin is at http://127.0.0.1:"), f"{line!r}\n{self.log.read_text()}"
        self.port = int(line.rsplit(":", 1)[1])
        self._until(lambda: httpx.get(f"{self.url}/healthz", timeout=5).status_code in (200, 503))
        self.http_seconds.append(time.monotonic() - start)
        self._started = start

    def until_matching(self) -> None:
        self._until(lambda: httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200)
        self.matching_seconds.append(time.monotonic() - self._started)

    def _until(self, holds: Any) -> None:
        start = time.monotonic()
        while True:
            with suppress(httpx.TransportError):
                if holds():
                    return
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() - start < START_SECONDS_MAX, self.log.read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """Dies at once. Its Java is left behind, as it would be; it ends by itself."""
        assert self.process is not None
        self.process.kill()
        self._reap()

    def stop(self) -> int:
        """Ends in order."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        assert self.process is not None
        status = self.process.wait(timeout=120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def close(self) -> None:
        """Nothing of ours stays behind, whatever happened."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self._reap()


@contextmanager
def killable(tmp_path: Path, *options: str) -> Iterator[Killable]:
    site = Killable(tmp_path / "site", tmp_path / "log", *options)
    try:
        yield site
    finally:
        site.close()


class Load:
    """A publisher and a reader that do not mind that the site dies."""

    def __init__(self, site: Killable, seed: int) -> None:
        self.site = site
        self.expected: list[tuple[str, str]] = []
        self.told: list[tuple[str, str]] = []
        self.accepted = 0
        self._chance = random.Random(seed)
        self._stopping = threading.Event()
        self._done = threading.Event()
        self._cursor = ""
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._guard, args=(work,)) for work in (self._publish, self._read)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop_publishing(self) -> None:
        self._stopping.set()
        self._threads[0].join()

    def stop(self) -> None:
        self._stopping.set()
        self._done.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _guard(self, work: Any) -> None:
        try:
            work()
        except BaseException as error:
            self._errors.append(error)

    def _publish(self) -> None:
        number = 0
        while not self._stopping.is_set():
            documents = []
            for _ in range(BATCH):
                words = self._chance.sample(WORDS, 3)
                documents.append({"id": f"d{number:06}", "title": " ".join(words)})
                number += 1
            body = "".join(json.dumps(one) + "\n" for one in documents)
            answer = self._insist("POST", "documents", content=body, headers={"Content-Type": "application/x-ndjson"})
            assert answer == {"accepted": BATCH, "rejected": []}
            self.accepted += BATCH
            self.expected += [(word, one["id"]) for one in documents for word in one["title"].split()]
            self._stopping.wait(PAUSE_SECONDS)

    def _read(self) -> None:
        while not self._done.is_set():
            page = self._insist("GET", "notifications", params={"after": self._cursor, "limit": 1000})
            self.told += [(item["subscription"], item["document"]) for item in page["items"]]
            self._cursor = page["next"]
            if not page["items"]:
                self._done.wait(0.1)

    def _insist(self, method: str, path: str, **options: Any) -> Any:
        """Until it is answered: a repeated document is ignored, a page by cursor is the same again."""
        while True:
            with suppress(httpx.TransportError):
                answer = httpx.request(
                    method, f"{self.site.url}/api/v1/{path}", timeout=30,
                    headers={"Authorization": f"Bearer {TOKEN}", **options.pop("headers", {})}, **options,
                )  # fmt: skip
                if answer.status_code < 500:
                    assert answer.is_success, answer.text
                    return answer.json()
            if method == "POST":
                options["headers"] = {"Content-Type": "application/x-ndjson"}
            time.sleep(0.1)


def killed_under_load(tmp_path: Path, kills: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    with killable(tmp_path) as site:
        site.start()
        for word in WORDS:
            made = httpx.post(
                f"{site.url}/api/v1/subscriptions", json={"id": word, "query": f"title:{word}"}, timeout=30,
                headers={"Authorization": f"Bearer {TOKEN}"},
            )  # fmt: skip
            assert made.status_code == 201
        load = Load(site, seed)
        load.start()
        try:
            for kill in range(kills):
                if kill % 3:  # while documents are matched; else while Spark starts
                    site.until_matching()
                time.sleep(chance.uniform(0, 6))
                site.kill()
                site.start()
            site.until_matching()
            load.stop_publishing()
            start = time.monotonic()
            while len(load.told) < len(load.expected):
                assert time.monotonic() - start < CATCH_UP_SECONDS_MAX, f"{len(load.told)} of {len(load.expected)}"
                time.sleep(0.1)
            time.sleep(1)
        finally:
            load.stop()
        assert site.stop() == 0
        check(site, load)
        return {
            "kills": kills,
            "documents": load.accepted,
            "notifications": len(load.told),
            "http_seconds_max": round(max(site.http_seconds), 1),
            "matching_seconds_max": round(max(site.matching_seconds), 1),
        }


def check(site: Killable, load: Load) -> None:
    """Lost 0, false 0, duplicated 0, in the order of the log for each subscription."""
    assert len(load.told) == len(set(load.told)), "told twice"
    assert set(load.told) == set(load.expected)
    for word in WORDS:
        order = [document for subscription, document in load.told if subscription == word]
        assert order == sorted(order)
    store = Store(site.folder)
    assert outbox.count(store) == len(load.expected), "one row a match"
    store.close()


@pytest.mark.slow
def test_the_demonstration_tells_alerts_and_stops_in_order(tmp_path: Path) -> None:
    """What a newcomer sees: the address first, the token once, then alerts; ctrl-C ends it, and leaves no folder."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tocsin", "up", "--demo", "--port", "0", "--master", "local[1]"],
            stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(temporary), "TOCSIN_ADMIN_TOKEN": ""},
        )  # fmt: skip
    assert process.stdout is not None
    try:
        address = process.stdout.readline().removeprefix("Tocsin is at ").strip()
        token = process.stdout.readline().rsplit(" ", 1)[1].strip()
        assert token.startswith("toc_")
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
            assert client.get("/api/v1/account").json()["role"] == "admin"  # before Spark has started
            alert = process.stdout.readline()
            assert alert.startswith("ALERT"), (tmp_path / "log").read_text()
            told = client.get("/api/v1/notifications", params={"limit": 1}).json()["items"][0]
            assert told["document"] in alert
            found = client.post("/api/v1/preview", json={"query": "title:Kestrel OR abstract:Kestrel"})
            assert found.status_code == 200
            assert found.json()["total"] == sum(day["count"] for day in found.json()["per_day"])
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)
        assert process.returncode == 0, (tmp_path / "log").read_text()
        assert token not in rest
        assert token not in (tmp_path / "log").read_text()
        assert "Traceback" not in (tmp_path / "log").read_text()
        assert not list(temporary.glob("tocsin-demo-*"))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.slow
def test_killed_twice_under_load(tmp_path: Path, record_property: Any) -> None:
    record_property("measured", killed_under_load(tmp_path, kills=2, seed=1))


@pytest.mark.slow
def test_killed_at_thirty_random_moments_under_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = killed_under_load(tmp_path, kills=30, seed=2)
    with capsys.disabled():
        print(json.dumps(measured))
