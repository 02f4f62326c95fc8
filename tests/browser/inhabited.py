"""A site that has been in use for two weeks: papers came in by the hour, and a few subscriptions were told of them."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from unittest import mock

from tocsin.cli.demo import samples
from tocsin.errors import TocsinError
from tocsin.model import Document
from tocsin.sim.scholarly import papers
from tocsin.site import accounts, intake, life
from tocsin.site.local import LocalPipeline
from tocsin.site.site import Site
from tocsin.store import Store, outbox
from tocsin.store.outbox import Letter

HOUR, DAYS = 3_600, 14
OWNER = "admin"
TOKEN = "the-administrators-preset-token"


def inhabit(folder: Path, per_day: int = 30) -> None:
    """Fills the folder's store as if the last two weeks had happened: the clock is set back, nothing else is false."""
    store = Store(folder)
    pipeline = LocalPipeline(store)
    site = Site(store, None, pipeline)
    source = papers(7)
    now = time.time()
    with mock.patch("time.time", return_value=now - DAYS * 24 * HOUR):
        accounts.first_start(store, TOKEN)
        owner = accounts.find(store, OWNER)
        for sample in samples():
            try:
                life.create(site, owner, sample, with_contract=False)
            except TocsinError:
                continue  # nested queries are not built into subscriptions yet
    hours = [DAYS * 24 - hour for hour in range(0, DAYS * 24 - 24, 12)] + list(range(23, -1, -1))
    for hour in hours:
        count = per_day // 2 if hour >= 24 else 2 + (hour * 7) % 9
        with mock.patch("time.time", return_value=now - hour * HOUR - 60):
            intake.publish(site, owner, [_undated(paper) for paper in islice(source, count)])
            pipeline.catch_up()
    letters = [
        Letter("papers/2026-11-14.jsonl:17", "the line is no JSON object", '{"id": "2611.04417", "title": "Gossip in'),
        Letter("papers/2026-11-14.jsonl:52", '"time" is no moment: "yesterday"', '{"id": "2611.04452", "time": "yest'),
    ]
    with store.write() as transaction:
        outbox.refuse(transaction, "files", letters)
    store.close()


def _undated(paper: Document) -> Document:
    """It counts for when it came in, not for when it says it was written."""
    return replace(paper, time=None)
