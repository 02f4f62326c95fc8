"""Nodes over TLS in one event loop: the ring forms, answers, loses a node, and goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.net.rings import FAST, LOOPBACK, Asker, drivers, is_right, true_owner, until
from tocsin.net.disk import Journal
from tocsin.net.driver import Driver
from tocsin.net.identity import open_identity
from tocsin.net.limits import NetError
from tocsin.overlay.key import virtual_addresses
from tocsin.overlay.member import Member
from tocsin.overlay.message import Item
from tocsin.overlay.node import Deliver, Effect, Send
from tocsin.sim.checks import Note


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


def test_a_host_can_be_several_virtual_nodes(tmp_path):
    """Chord §6.1: messages between nodes of one host need no connection."""

    async def check() -> None:
        chance = Random(2)
        async with drivers(tmp_path, 3) as ring:
            members: list[Member] = []
            for driver in ring:
                for address in virtual_addresses(driver.address, 2):
                    contacts = [members[0].me.address] if members else []
                    members.append(Member(address, contacts, chord=FAST))
                    driver.add(address, members[-1])
            await until(lambda: is_right(members))
            found = asyncio.get_running_loop().create_future()
            key = chance.getrandbits(64)

            def then(owner: Any, hops: int, now: float) -> list[Effect]:
                found.set_result(owner.address)
                return []

            ring[0].invoke(members[0].me.address, lambda member, now: member.chord.lookup(key, now, then))
            assert await found == true_owner([member.me.address for member in members], key)
            assert all(set(driver.peers()) <= {other.address for other in ring} - {driver.address} for driver in ring)
            with pytest.raises(NetError, match="is not an address of"):
                ring[0].add(members[-1].me.address, members[-1])

    asyncio.run(check())


def sending(to: str, number: int) -> Callable[[Any, float], list[Effect]]:
    return lambda process, now: [Send(to, Note(number))]


class SlowJournal(Journal):
    """A disk that takes as long as a test wants."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, 1 << 30)
        self.may_sync = threading.Event()
        self.syncs = 0

    def sync(self) -> None:
        self.may_sync.wait(30)
        self.syncs += 1
        super().sync()


class Keeper:
    """Keeps each number, and acknowledges it."""

    def __init__(self, disk: dict[bytes, bytes] | Journal, to: str) -> None:
        self.disk, self.to = disk, to

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, message: Note, now: float) -> list[Effect]:
        self.disk[b"%d" % message.number] = b""
        return [Send(self.to, message)]

    def wake(self, token: object, now: float) -> list[Effect]:
        return []


class Teller(Keeper):
    """Delivers what is acknowledged."""

    def handle(self, message: Note, now: float) -> list[Effect]:
        return [Deliver(message.number)]


def test_nobody_is_told_before_it_is_on_the_disk(tmp_path):
    async def check() -> None:
        journal = SlowJournal(tmp_path / "journal")
        keeper = Driver(open_identity(tmp_path / "keeper"), disk=journal)
        teller = Driver(open_identity(tmp_path / "teller"))
        try:
            await keeper.open(LOOPBACK)
            await teller.open(LOOPBACK)
            keeper.add(keeper.address, Keeper(journal, teller.address))
            teller.add(teller.address, Teller(journal, ""))
            for number in range(50):
                teller.invoke(teller.address, sending(keeper.address, number))
            await until(lambda: keeper.received == 50)
            await asyncio.sleep(0.1)
            assert teller.received == 0
            journal.may_sync.set()
            await until(lambda: teller.received == 50)
            assert [effect.what for _, effect in teller.delivered] == list(range(50))
            assert journal.syncs < 25  # one for many
        finally:
            journal.may_sync.set()
            await keeper.close()
            await teller.close()
            journal.close()

    asyncio.run(check())


def test_a_node_that_fails_on_one_message_lives_on(tmp_path):
    class Fragile(Teller):
        def handle(self, message: Note, now: float) -> list[Effect]:
            return [Deliver(10 // message.number)]

    async def check() -> None:
        failures = []
        async with drivers(tmp_path, 1, on_error=lambda address, error: failures.append(error)) as (one,):
            one.add(one.address, Fragile({}, ""))
            for number in (1, 0, 5):
                one.invoke(one.address, sending(one.address, number))
            await until(lambda: one.received == 3)
            assert [effect.what for _, effect in one.delivered] == [10, 2]
            assert [type(error) for error in failures] == [ZeroDivisionError]
            assert one.counts["failed"] == 1

    asyncio.run(check())
