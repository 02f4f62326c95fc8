"""Links: only to the node that was meant, again after a failure, no more waiting than allowed."""

from __future__ import annotations

import asyncio
import time
from random import Random

import pytest

from tests.net.proxy import Proxy
from tests.net.rings import FAST, LOOPBACK, Asker, drivers, is_right, true_owner, until
from tests.ports import free_port
from tocsin.net.driver import Driver
from tocsin.net.envelope import EnvelopeError
from tocsin.net.identity import Endpoint, name_and_endpoint, open_identity
from tocsin.net.limits import NetLimits
from tocsin.overlay.member import Member
from tocsin.overlay.message import Item
from tocsin.overlay.node import Deliver, Effect, Send
from tocsin.sim.checks import Note


class Listener:
    """Delivers what comes."""

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, message: Note, now: float) -> list[Effect]:
        return [Deliver(message.number)]

    def wake(self, token: object, now: float) -> list[Effect]:
        return []


def tell(driver: Driver, to: str, number: int) -> None:
    driver.invoke(driver.address, lambda process, now: [Send(to, Note(number))])


def heard(driver: Driver) -> list[int]:
    return [effect.what for _, effect in driver.delivered]


def test_messages_come_in_order_over_one_connection(tmp_path):
    async def check() -> None:
        async with drivers(tmp_path, 2) as (one, two):
            for driver in (one, two):
                driver.add(driver.address, Listener())
            for number in range(200):
                tell(one, two.address, number)
            await until(lambda: len(heard(two)) == 200)
            assert heard(two) == list(range(200))
            assert (one.counts["connects"], two.connections) == (1, 1)
            tell(one, one.address, 7)  # to itself: no connection needed
            await until(lambda: heard(one) == [7])
            assert one.count()[0] == {"Note": 201}

    asyncio.run(check())


def test_another_node_at_the_same_place_gets_nothing(tmp_path):
    async def check() -> None:
        async with drivers(tmp_path, 2) as (one, two):
            for driver in (one, two):
                driver.add(driver.address, Listener())
            found = name_and_endpoint(two.address)
            assert found
            meant = open_identity(tmp_path / "other").address(found[1])
            tell(one, meant, 1)
            await until(lambda: one.counts["connects_failed"] > 0)
            assert (heard(two), two.received, one.counts["connects"]) == ([], 0, 0)

    asyncio.run(check())


def test_a_link_comes_back_after_a_break_and_after_a_restart(tmp_path):
    async def check() -> None:
        limits = NetLimits(backoff_seconds_max=0.2)
        port = free_port()
        proxy = Proxy(port, 1)
        await proxy.start()
        there = open_identity(tmp_path / "there")
        async with drivers(tmp_path, 1, limits) as (one,):
            one.add(one.address, Listener())
            for life in range(3):
                two = Driver(there, limits=limits)
                address = await two.open(Endpoint("127.0.0.1", port), Endpoint("127.0.0.1", proxy.port))
                two.add(address, Listener())
                for number in range(2):
                    tell(one, address, number)
                    await until(lambda two=two, number=number: heard(two)[-1:] == [number])  # type: ignore[misc]
                    proxy.break_all()
                    await until(lambda address=address: not one.peers()[address]["connected"])  # type: ignore[misc]
                await two.close()
                if life == 1:
                    tell(one, address, 99)  # nobody is there: it waits
                    await until(lambda: one.counts["connects_failed"] > 1)
            assert one.counts["connects"] >= 6
        await proxy.close()

    asyncio.run(check())


def test_whoever_refuses_is_left_alone_for_longer_each_time(tmp_path):
    """A node with another clock lets nobody in: it is not called ten times a second."""

    async def check() -> None:
        late = Driver(open_identity(tmp_path / "late"), wall_clock=lambda: time.time_ns() - 60 * 10**9)
        async with drivers(tmp_path, 1, NetLimits(message_seconds_max=60.0)) as (one,):
            address = await late.open(LOOPBACK)
            one.is_joined = True  # one other clock does not make it leave
            one.add(one.address, Listener())
            for _ in range(30):
                tell(one, address, 1)
                await asyncio.sleep(0.05)
            assert late.received == 0
            assert 0 < late.counts["untimely"] <= one.counts["connects"] <= 10
            assert not one.ended.done()
        await late.close()

    asyncio.run(check())


def test_what_waited_while_a_machine_slept_does_not_make_its_clock_wrong(tmp_path):
    """Messages that were sent long ago and are read now say nothing of the time now: their senders are asked."""

    async def check() -> None:
        slept = 0
        async with drivers(tmp_path, 3, wall_clock=lambda: time.time_ns() + slept) as (one, *others):
            for driver in (one, *others):
                driver.add(driver.address, Listener())
            for other in others:
                tell(one, other.address, 1)
            await until(lambda: len(one._witnesses) == 2)
            one.is_joined = True
            sent = [other._sealer.seal(other.address, one.address) for other in others]
            before = time.time_ns()
            slept = 3600 * 10**9
            for data in sent:
                with pytest.raises(EnvelopeError, match="untimely"):
                    one._check(data)
            await until(lambda: all(number > before + slept for number, _ in one._witnesses.values()))
            assert not one.ended.done()
            assert one.counts["clocks_asked"] == 2

    asyncio.run(check())


def test_what_waits_is_bounded_in_number_and_time(tmp_path):
    async def check() -> None:
        limits = NetLimits(link_messages_max=10, message_seconds_max=0.2, backoff_seconds_max=0.1)
        async with drivers(tmp_path, 1, limits) as (one,):
            one.add(one.address, Listener())
            nobody = open_identity(tmp_path / "nobody").address(Endpoint("127.0.0.1", free_port()))
            for number in range(25):
                tell(one, nobody, number)
            assert one.counts["queue_full"] == 15
            await until(lambda: one.counts["waited_too_long"] == 10)
            tell(one, "no address", 1)
            assert one.counts["unreachable"] == 1

    asyncio.run(check())


def test_an_idle_link_is_closed_and_made_again_when_needed(tmp_path):
    async def check() -> None:
        async with drivers(tmp_path, 2, NetLimits(idle_seconds_max=0.2)) as (one, two):
            for driver in (one, two):
                driver.add(driver.address, Listener())
            tell(one, two.address, 1)
            await until(lambda: two.connections == 1)
            await until(lambda: two.connections == 0)
            await asyncio.sleep(0.3)
            assert one.counts["connects"] == 1  # not made again for nothing
            tell(one, two.address, 2)
            await until(lambda: heard(two) == [1, 2])

    asyncio.run(check())


def test_the_link_that_was_not_used_for_longest_makes_room(tmp_path):
    async def check() -> None:
        async with drivers(tmp_path, 4, NetLimits(links_max=2)) as ring:
            for driver in ring:
                driver.add(driver.address, Listener())
            for other in ring[1:]:
                tell(ring[0], other.address, 1)
                await until(lambda other=other: heard(other) == [1])  # type: ignore[misc]
            await until(lambda: ring[0].counts["links_retired"] == 1)
            assert list(ring[0].peers()) == [ring[2].address, ring[3].address]

    asyncio.run(check())


@pytest.mark.slow
def test_a_ring_converges_through_a_network_that_breaks_delays_and_cuts(tmp_path):
    """In-process twin of tests/process/test_nodes.py: everything is right once the network is."""

    async def check() -> None:
        chance = Random(3)
        limits = NetLimits(backoff_seconds_max=0.3, message_seconds_max=1.0)
        ports = [free_port() for _ in range(6)]
        proxies = [Proxy(port, number) for number, port in enumerate(ports)]
        ring, members = list[Driver](), list[Member]()
        try:
            for number, (port, proxy) in enumerate(zip(ports, proxies, strict=True)):
                await proxy.start()
                proxy.delay_seconds, proxy.breaks_per_second = 0.02, 0.2
                driver = Driver(open_identity(tmp_path / f"n{number}"), limits=limits)
                ring.append(driver)
                await driver.open(Endpoint("127.0.0.1", port), Endpoint("127.0.0.1", proxy.port))
                members.append(Member(driver.address, [ring[0].address] if number else [], chord=FAST))
                driver.add(driver.address, members[-1])
            await until(lambda: is_right(members))
            proxies[3].cut(True)
            await asyncio.sleep(1.0)
            proxies[3].cut(False)
            items = [Item(chance.getrandbits(64), 7, b"n", 1, b"v") for _ in range(20)]
            assert all(await asyncio.gather(*(Asker(chance.choice(ring)).put(item) for item in items)))
            assert sum(proxy.broken for proxy in proxies) > 0
            for proxy in proxies:
                proxy.breaks_per_second = 0.0
            await until(lambda: is_right(members), 60.0)
            addresses = [driver.address for driver in ring]
            for item in items:
                assert await Asker(chance.choice(ring)).lookup(item.key) == true_owner(addresses, item.key)
                assert await Asker(chance.choice(ring)).get(item.key) == (item,)
        finally:
            for driver in ring:
                await driver.close()
            for proxy in proxies:
                await proxy.close()

    asyncio.run(check())
