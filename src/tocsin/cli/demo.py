"""The demonstration of `tocsin up --demo`: papers keep arriving, sample subscriptions wait, alerts are printed.

Papers and subscriptions go through the same doors as everybody's.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from tocsin.cli.console import say
from tocsin.errors import TocsinError
from tocsin.model import Document
from tocsin.sim.scholarly import papers

SEED = 7
FIRST = 200  # papers that are there at once, so that something is found soon
PER_SECOND = 2.0
LOOK_SECONDS = 0.5

Publish = Callable[[list[Document]], None]
Subscribe = Callable[[dict[str, Any]], None]
Read = Callable[[int], list[dict[str, Any]]]


def samples() -> list[dict[str, Any]]:
    """The sample subscriptions: {"id", "query", "name"}."""
    lines = files("tocsin.cli").joinpath("tour.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


class Demo:
    """Keeps the site busy until it is told to stop."""

    def __init__(self, subscribe: Subscribe, publish: Publish, read: Read, is_running: Callable[[], bool]) -> None:
        self._subscribe, self._publish, self._read, self._is_running = subscribe, publish, read, is_running
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=f"demo-{work.__name__}", daemon=True)
            for work in (self.arrive, self.tell)
        ]

    def start(self) -> None:
        """Begins, in threads of its own."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except TocsinError as error:
            say(f"the demonstration ended: {error}")

    def arrive(self) -> None:
        """The subscriptions first, then papers, one after the other."""
        for sample in samples():
            try:
                self._subscribe(sample)
            except TocsinError as error:
                say(f"sample subscription {sample['id']} is left out: {str(error).splitlines()[0]}")
        source = papers(SEED)
        self._publish([next(source) for _ in range(FIRST)])
        for paper in source:
            if self._stopping.wait(1 / PER_SECOND):
                return
            self._publish([paper])

    def tell(self) -> None:
        """Prints alerts as they come."""
        names = {sample["id"]: sample["name"] for sample in samples()}
        after = 0
        while not self._stopping.wait(LOOK_SECONDS):
            for item in self._read(after):
                after = int(item["cursor"])
                print(alert(item, names), flush=True)


def alert(item: dict[str, Any], names: dict[str, str]) -> str:
    """A notification for a person."""
    return f"ALERT  {item['score']:.2f}  {item['document']}  {names.get(item['subscription'], item['subscription'])}"
