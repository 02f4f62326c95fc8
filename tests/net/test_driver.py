"""Nodes over TLS in one event loop: the ring forms, answers, loses a node, and goes on."""

from __future__ import annotations

import asyncio
from random import Random

from tests.net.rings import FAST, Asker, drivers, is_right, true_owner, until
from tocsin.net.driver import Driver
from tocsin.overlay.member import Member
from tocsin.overlay.message import Item


def start_ring(ring: list[Driver]) -> list[Member]:
    members = []
    for number, driver in enumerate(ring):
        member = Member(driver.address, [ring[0].address] if number else [], chord=FAST)
        driver.add(driver.address, member)
        members.append(member)
    return members


def test_a_ring_forms_and_every_lookup_put_and_get_is_right(tmp_path):
    async def check() -> None:
        chance = Random(1)
        async with drivers(tmp_path, 8) as ring:
            members = start_ring(ring)
            await until(lambda: is_right(members))
            addresses = [driver.address for driver in ring]
            askers = [Asker(driver) for driver in ring]
            keys = [chance.getrandbits(64) for _ in range(40)]
            found = await asyncio.gather(*(chance.choice(askers).lookup(key) for key in keys))
            assert found == [true_owner(addresses, key) for key in keys]
            items = [Item(key, 7, b"n", 1, b"%d" % key) for key in keys]
            assert all(await asyncio.gather(*(chance.choice(askers).put(item) for item in items)))
            assert await asyncio.gather(*(chance.choice(askers).get(key) for key in keys)) == [(one,) for one in items]
            assert not [driver.counts for driver in ring if driver.counts["failed"]]

    asyncio.run(check())
