"""A site that has been in use for two weeks: papers came in by the hour, and a few subscriptions were told of them."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

from tocsin.cli.demo import samples
from tocsin.errors import TocsinError
from tocsin.model import Document
from tocsin.sim.scholarly import papers
from tocsin.site import accounts, intake, life
from tocsin.site.channels import links
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.harvest.sources import key_of
from tocsin.site.local import LocalPipeline
from tocsin.site.settings import SiteSettings
from tocsin.site.site import Site
from tocsin.store import Store, channels, outbox, sources
from tocsin.store.outbox import Letter
from tocsin.store.sources import ACTIVE, PAUSED, Source

HOUR, DAYS = 3_600, 14
OWNER = "admin"
TOKEN = "the-administrators-preset-token"


def inhabit(folder: Path, per_day: int = 30) -> None:
    """Fills the folder's store as if the last two weeks had happened: the clock is set back, nothing else is false."""
    store = Store(folder)
    pipeline = LocalPipeline(store)
    settings = SiteSettings(
        channels=ChannelSettings(mail_url="mailto://mail.institute.example?from=a@institute.example")
    )
    site = Site(store, settings, pipeline)
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
    _sources(store, now)
    _channels(site, store)
    letters = [
        Letter("papers/2026-11-14.jsonl:17", "the line is no JSON object", '{"id": "2611.04417", "title": "Gossip in'),
        Letter("papers/2026-11-14.jsonl:52", '"time" is no moment: "yesterday"', '{"id": "2611.04452", "time": "yest'),
    ]
    with store.write() as transaction:
        outbox.refuse(transaction, "files", letters)
    store.close()


def _sources(store: Store, now: float) -> None:
    """As a harvester leaves them: two are well, one is away, one was paused. None is due while the tests run."""
    day, later = 86_400.0, now + 6 * HOUR
    well = {"tried": now - 1_260.0, "succeeded": now - 1_260.0, "due": later}
    found: tuple[tuple[str, str, str, tuple[str, ...], dict[str, str], str, dict[str, Any]], ...] = (
        ("feed", "https://journals.example/overlays.xml", "Journal of Overlays", ("journals",), {}, ACTIVE,
         {**well, "brought": now - 3 * HOUR, "documents": 412, "twins": 9}),
        ("oai", "https://repository.example/oai", "University repository", (), {"set": "cs:DC"}, ACTIVE,
         {**well, "brought": now - 20 * HOUR, "documents": 18_204}),
        ("feed", "https://moved.example/feed", "Letters on Gossip", ("journals",), {}, ACTIVE,
         {"tried": now - 900.0, "succeeded": now - 2 * day, "brought": now - 3 * day, "failures": 4, "due": later,
          "documents": 57, "problem": "answered 404"}),
        ("feed", "https://blog.example/atom.xml", "A blog on hold", (), {}, PAUSED,
         {"tried": now - 9 * day, "succeeded": now - 9 * day, "brought": now - 30 * day, "documents": 8}),
    )  # fmt: skip
    for kind, address, name, tags, options, state, rest in found:
        source = Source(0, key_of(kind, address, options), kind, address, name, OWNER, 1_800.0, state)
        assert sources.add(store, replace(source, tags=tags, options=options, created=now - 14 * day, **rest))


def _channels(site: Site, store: Store) -> None:
    """A mailbox that has confirmed, one that has not, a chat room, a webhook and a feed."""
    owner = accounts.find(store, OWNER)
    for kind, address, name, is_confirmed in (
        ("mail", "maren@institute.example", "maren@institute.example", True),
        ("mail", "group@institute.example", "The group’s list", False),
        ("apprise", "mmost://chat.institute.example/abcdefghijklmnop", "Team room", True),
    ):
        assert channels.save(store, OWNER, kind, address, name=name, is_confirmed=is_confirmed)
    told = {"channel": {"kind": "mail", "to": "maren@institute.example"}, "mode": "daily"}
    for name, query in (("New in overlays", "title:overlay*"), ("Churn", "churn AND NOT simulation")):
        life.create(site, owner, {"query": query, "name": name, **told}, with_contract=False)
    body = {"query": "outage AND (overlay OR dht)", "id": "outages", "name": "Outages, for the pager"}
    life.create(site, owner, {**body, "channel": "https://hooks.example/tocsin"}, with_contract=False)
    links.make_feed(store, owner)


def _undated(paper: Document) -> Document:
    """It counts for when it came in, not for when it says it was written."""
    return replace(paper, time=None)
