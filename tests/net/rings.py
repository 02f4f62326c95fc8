"""Rings of drivers in one event loop, and the same script in the false world."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tocsin.net.driver import Driver
from tocsin.net.host import paced
from tocsin.net.identity import Endpoint, Identity, open_identity
from tocsin.net.limits import DEFAULT_LIMITS, NetLimits
from tocsin.overlay.key import is_between
from tocsin.overlay.member import Member
from tocsin.overlay.message import Address, Item, peer
from tocsin.overlay.node import Effect, Wake
from tocsin.overlay.placement.words import Words

LOOPBACK = Endpoint("127.0.0.1", 0)
FAST = paced(0.1)
PATIENCE_SECONDS = 90.0


def identities(folder: Path, number: int) -> list[Identity]:
    return [open_identity(folder / f"n{one}") for one in range(number)]


async def until(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Waits for something that must become true."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def drivers(
    folder: Path, number: int, limits: NetLimits = DEFAULT_LIMITS, **options: Any
) -> AsyncIterator[list[Driver]]:
    """Drivers that listen, without nodes."""
    made: list[Driver] = []
    try:
        for identity in identities(folder, number):
            driver = Driver(identity, limits=limits, **options)
            made.append(driver)
            await driver.open(LOOPBACK)
        yield made
    finally:
        for driver in made:
            await driver.close()


def true_owner(addresses: Sequence[Address], key: int) -> Address:
    """Who owns a key, by the definition."""
    ring = sorted((peer(address) for address in addresses), key=lambda one: one.key)
    return next((one.address for one in ring if one.key >= key), ring[0].address)


def is_right(members: Sequence[Member]) -> bool:
    """Whether predecessors and successors are those of the true ring, and all own their ranges."""
    ring = sorted(members, key=lambda one: one.me.key)
    for number, member in enumerate(ring):
        low, high = ring[number - 1].me, ring[(number + 1) % len(ring)].me
        chord = member.chord
        if not chord.is_ready or chord.predecessor != low or chord.table.successors[:1] != (high,):
            return False
        assert is_between(member.me.key, low.key, member.me.key)
    return True


class Asker:
    """Asks through a driver, and waits for the answer."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def lookup(self, key: int) -> Address | None:
        answer: asyncio.Future[Address | None] = asyncio.get_running_loop().create_future()

        def then(owner: Any, hops: int, now: float) -> list[Effect]:
            answer.set_result(owner and owner.address)
            return []

        self._driver.invoke(self._driver.address, lambda member, now: member.chord.lookup(key, now, then))
        return await answer

    async def _items(self, call: Callable[[Any, float, Any], list[Effect]]) -> tuple[Item, ...] | None:
        answer: asyncio.Future[tuple[Item, ...] | None] = asyncio.get_running_loop().create_future()

        def then(items: tuple[Item, ...] | None, now: float) -> list[Effect]:
            answer.set_result(items)
            return []

        self._driver.invoke(self._driver.address, lambda member, now: call(member, now, then))
        return await answer

    async def put(self, item: Item) -> bool:
        return await self._items(lambda member, now, then: member.items.put([item], now, then)) is not None

    async def get(self, key: int) -> tuple[Item, ...] | None:
        return await self._items(lambda member, now, then: member.items.get(key, now, then))


class Scripted:
    """A member without timers: its ticks come from a script, the same in both worlds."""

    def __init__(self, member: Member, words: Words) -> None:
        self.member, self.words = member, words

    def start(self, now: float) -> list[Effect]:
        return self.still(self.member.start(now))

    def handle(self, message: Any, now: float) -> list[Effect]:
        return self.still(self.member.handle(message, now))

    def wake(self, token: Any, now: float) -> list[Effect]:
        raise AssertionError("nothing is woken")

    @staticmethod
    def still(effects: list[Effect]) -> list[Effect]:
        return [effect for effect in effects if not isinstance(effect, Wake)]


def total(counts: Sequence[tuple[Counter[str], Counter[str]]]) -> tuple[Counter[str], Counter[str]]:
    """Messages and bytes of all drivers together."""
    messages, sizes = Counter[str](), Counter[str]()
    for one, size in counts:
        messages += one
        sizes += size
    return messages, sizes
