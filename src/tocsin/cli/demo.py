"""The demonstration of `tocsin up --demo`: papers keep arriving, sample subscriptions wait, alerts are printed.

Papers and subscriptions go through the same doors as everybody's, as the administrator's.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from tocsin.cli.console import say
from tocsin.errors import TocsinError
from tocsin.sim.scholarly import papers
from tocsin.site import accounts, intake, life, reading
from tocsin.site.accounts import ADMIN
from tocsin.site.problems import Conflict, NotYet
from tocsin.site.site import Site

SEED = 7
FIRST = 200  # papers that are there at once, so that something is found soon
PER_SECOND = 2.0
LOOK_SECONDS = 0.5


def samples() -> list[dict[str, Any]]:
    """The sample subscriptions: {"id", "query", "name"}."""
    lines = files("tocsin.cli").joinpath("tour.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


class Demo:
    """Keeps a site busy until it is told to stop."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._account = accounts.find(site.store, ADMIN)
        self._start = reading.newest(site)  # a second demonstration on the same folder tells only what is new
        self._stopping = threading.Event()
        works = {"demo-papers": self.publish, "demo-alerts": self.tell}
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True) for name, work in works.items()
        ]

    def start(self) -> None:
        """Begins, in threads of its own."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except TocsinError as error:
            say(f"the demonstration ended: {error}")

    def publish(self) -> None:
        """The subscriptions first, then papers, one after the other."""
        for sample in samples():
            try:
                life.create(self._site, self._account, sample, with_contract=False)
            except Conflict:
                pass  # it is there from the last time
            except NotYet:
                say(f"left out, for it is not built yet: {sample['name']}")
        source = papers(SEED)
        intake.publish(self._site, self._account, [next(source) for _ in range(FIRST)])
        for paper in source:
            if self._stopping.wait(1 / PER_SECOND):
                return
            intake.publish(self._site, self._account, [paper])

    def tell(self) -> None:
        """Prints alerts as they come."""
        names = {sample["id"]: sample["name"] for sample in samples()}
        cursor = self._start
        while not self._stopping.is_set():
            page = reading.notifications(self._site, self._account, cursor, 100)
            for item in page.items:
                for told in item.notifications:
                    name = names.get(told.subscription, told.subscription)
                    print(f"ALERT  {told.score:.2f}  {told.document}  {name}", flush=True)
            cursor = page.next
            if not page.items:
                self._stopping.wait(LOOK_SECONDS)
