"""Subscriptions and documents over real connections: what the oracle says, each notice once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.net.rings import FAST, drivers, is_right, until
from tocsin.model import Document
from tocsin.net.driver import Driver
from tocsin.overlay.delivery import Notified
from tocsin.overlay.member import Member
from tocsin.overlay.node import Effect
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.subscriber import Standing
from tocsin.overlay.placement.words import Words
from tocsin.query import holds, parse_subscription
from tocsin.query.semantics import Knowledge

KNOWLEDGE = Knowledge()
QUERIES = [
    "peer", "peer networks", "ring OR chord", "networks AND NOT ring", '"peer networks"', "title:chord", "absent",
]  # fmt: skip
WORDS = ["peer", "networks", "ring", "chord", "node", "key"]


class Site(Member):
    """A member with the placement `words`."""

    __slots__ = ("words",)

    def __init__(self, address: str, contacts: list[str]) -> None:
        super().__init__(address, contacts, chord=FAST)
        self.words = Words(self, KNOWLEDGE)


def subscribing(id: str, text: str) -> Callable[[Site, float], list[Effect]]:
    return lambda site, now: site.words.subscriber.subscribe(id, text, now)


def publishing(document: Document) -> Callable[[Site, float], list[Effect]]:
    return lambda site, now: site.words.publisher.publish(document, now)


def test_documents_reach_the_subscribers_of_other_nodes(tmp_path):
    async def check() -> None:
        chance = Random(4)
        async with drivers(tmp_path, 5) as ring:
            sites: list[Site] = []
            for number, driver in enumerate(ring):
                sites.append(Site(driver.address, [ring[0].address] if number else []))
                driver.add(driver.address, sites[-1])
            await until(lambda: is_right(sites))
            for number, text in enumerate(QUERIES):
                driver = ring[number % len(ring)]
                driver.invoke(driver.address, subscribing(str(number), text))
            await until(lambda: len(told(ring, Standing)) == len(QUERIES))
            documents = [
                Document(f"d{number}", {"title": (" ".join(chance.sample(WORDS, 3)),)}) for number in range(20)
            ]
            for document in documents:
                driver = chance.choice(ring)
                driver.invoke(driver.address, publishing(document))
            await until(lambda: len(told(ring, Published)) == len(documents))
            expected = [
                (number % len(ring), str(number), document.id)
                for number, text in enumerate(QUERIES)
                for document in documents
                if holds(parse_subscription(text, KNOWLEDGE.analysis), document, KNOWLEDGE)
            ]
            heard = [
                (number, effect.what.notice.subscription, effect.what.notice.document)
                for number, driver in enumerate(ring)
                for _, effect in driver.delivered
                if isinstance(effect.what, Notified)
            ]
            assert sorted(heard) == sorted(expected)
            assert len(expected) > 20
            assert not [driver.counts for driver in ring if driver.counts["incredible"] or driver.counts["failed"]]

    asyncio.run(check())


def told(ring: list[Driver], kind: type) -> list[object]:
    return [effect.what for driver in ring for _, effect in driver.delivered if isinstance(effect.what, kind)]
