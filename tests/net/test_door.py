"""What strangers and bad nodes send: dropped, counted, and answered with nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest

from tests.net.rings import LOOPBACK, until
from tocsin.net.driver import Driver
from tocsin.net.envelope import NANOSECONDS, NOBODY, Sealer, read_envelope
from tocsin.net.identity import Endpoint, Identity, client_context, name_and_endpoint, open_identity
from tocsin.net.limits import NetLimits
from tocsin.net.link import frame, read_frame
from tocsin.overlay.chord import FindOwner, Route
from tocsin.overlay.member import Member
from tocsin.overlay.membership import Stabilise
from tocsin.overlay.message import VERSION, Message, Peer, encode, peer

LIMITS = NetLimits(strangers_max=4, stranger_seconds_max=0.5, peer_refusals_max=5, peer_connections_max=2)


class Attacker:
    """A node of its own, with a connection to a victim that it can misuse."""

    def __init__(self, identity: Identity, victim: Driver) -> None:
        self.identity, self.victim = identity, victim
        self.address = identity.address(Endpoint("127.0.0.1", 9))
        self.shift = 0
        self.sealer = Sealer(identity, lambda: victim._wall_clock() + self.shift)

    async def connect(self) -> None:
        found = name_and_endpoint(self.victim.address)
        assert found
        where = found[1]
        self.reader, self.writer = await asyncio.open_connection(*where, ssl=client_context())
        greeting = read_envelope(await read_frame(self.reader, 2_048), (NOBODY,))
        assert greeting.sender == self.victim.address

    async def introduce(self) -> None:
        await self.connect()
        self.send(self.seal(b""))

    def seal(self, body: bytes, sender: str = "", to: str = "") -> bytes:
        return self.sealer.seal(sender or self.address, to or self.victim.address, body)

    def send(self, data: bytes) -> None:
        self.writer.write(frame(data))

    def say(self, message: Message) -> None:
        self.send(self.seal(encode(message)))

    async def answers(self) -> bytes:
        """Whatever comes back until the victim closes, or for a while."""
        try:
            async with asyncio.timeout(1.0):
                return await self.reader.read()
        except TimeoutError:
            return b""
        except (OSError, ssl.SSLError):
            return b""
        finally:
            self.writer.transport.abort()

    @property
    def probe(self) -> Stabilise:
        return Stabilise(peer(self.address), True, (), ())


@asynccontextmanager
async def attacked(folder: Path, limits: NetLimits = LIMITS) -> AsyncIterator[tuple[Driver, Attacker]]:
    victim = Driver(open_identity(folder / "victim"), limits=limits)
    try:
        await victim.open(LOOPBACK)
        victim.add(victim.address, Member(victim.address))
        yield victim, Attacker(open_identity(folder / "attacker"), victim)
    finally:
        await victim.close()


Attack = Callable[[Attacker], Coroutine[Any, Any, None]]


async def noise(attacker: Attacker) -> None:
    await attacker.connect()
    attacker.send(b"no envelope at all")


async def noise_by_a_node(attacker: Attacker) -> None:
    await attacker.introduce()
    attacker.send(attacker.seal(b"no message at all"))


async def large(attacker: Attacker) -> None:
    await attacker.introduce()
    attacker.writer.write((1 << 31).to_bytes(4, "big"))


async def large_by_a_stranger(attacker: Attacker) -> None:
    await attacker.connect()
    attacker.send(attacker.seal(b"x" * 4_096))


async def unsigned(attacker: Attacker) -> None:
    import msgpack

    await attacker.introduce()
    content, _ = msgpack.unpackb(attacker.seal(encode(attacker.probe)))
    attacker.send(msgpack.packb((content, b"")))


async def wrongly_signed(attacker: Attacker) -> None:
    await attacker.introduce()
    data = bytearray(attacker.seal(encode(attacker.probe)))
    data[-1] ^= 1
    attacker.send(bytes(data))


async def in_the_name_of_another(attacker: Attacker) -> None:
    await attacker.introduce()
    attacker.send(attacker.seal(encode(attacker.probe), sender=attacker.victim.address))


async def of_another_version(attacker: Attacker) -> None:
    """A node that was not updated: whoever looks after the others sees why they do not hear it."""
    await attacker.introduce()
    _, *parts = msgpack.unpackb(encode(attacker.probe))
    attacker.send(attacker.seal(msgpack.packb([VERSION - 1, *parts])))


async def replayed(attacker: Attacker) -> None:
    await attacker.introduce()
    data = attacker.seal(encode(attacker.probe))
    attacker.send(data)
    attacker.send(data)


async def replayed_by_somebody_else(attacker: Attacker) -> None:
    data = attacker.seal(encode(attacker.probe))
    await attacker.introduce()
    attacker.send(data)
    await until(lambda: attacker.victim.received == 1)
    attacker.writer.transport.abort()
    await attacker.connect()
    attacker.send(data)


async def misdirected(attacker: Attacker) -> None:
    await attacker.introduce()
    attacker.send(attacker.seal(encode(attacker.probe), to=attacker.address))


async def at_the_wrong_time(attacker: Attacker) -> None:
    attacker.shift = -11 * NANOSECONDS
    await attacker.introduce()


async def from_the_future(attacker: Attacker) -> None:
    attacker.shift = 11 * NANOSECONDS
    await attacker.introduce()


async def speaking_for_another(attacker: Attacker) -> None:
    await attacker.introduce()
    attacker.say(Stabilise(peer(attacker.victim.address), True, (), ()))


async def with_a_place_of_its_choice(attacker: Attacker) -> None:
    await attacker.introduce()
    attacker.say(Stabilise(Peer(7, attacker.address), True, (), ()))


async def with_a_false_place_inside(attacker: Attacker) -> None:
    await attacker.introduce()
    attacker.say(Route(1, FindOwner(1, Peer(7, attacker.address), False), 1, 0, 0))


async def with_no_address(attacker: Attacker) -> None:
    await attacker.introduce()
    attacker.say(Route(1, FindOwner(1, peer("localhost"), False), 1, 0, 0))


ATTACKS: list[tuple[Attack, str, int]] = [
    (noise, "malformed", 0), (noise_by_a_node, "malformed", 0), (large, "oversized", 0),
    (large_by_a_stranger, "oversized", 0), (unsigned, "unsigned", 0), (wrongly_signed, "forged", 0),
    (in_the_name_of_another, "forged", 0), (replayed, "replayed", 1), (replayed_by_somebody_else, "replayed", 1),
    (misdirected, "misdirected", 0), (at_the_wrong_time, "untimely", 0), (from_the_future, "untimely", 0),
    (speaking_for_another, "incredible", 0), (with_a_place_of_its_choice, "incredible", 0),
    (with_a_false_place_inside, "incredible", 0), (with_no_address, "incredible", 0),
    (of_another_version, "unknown_version", 0),
]  # fmt: skip


@pytest.mark.parametrize(("attack", "refusal", "received"), ATTACKS, ids=lambda value: getattr(value, "__name__", None))
def test_it_is_dropped_counted_and_answered_with_nothing(tmp_path, attack, refusal, received):
    async def check() -> None:
        async with attacked(tmp_path) as (victim, attacker):
            await attack(attacker)
            await until(lambda: victim.counts[refusal] == 1)
            await asyncio.sleep(0.02)
            attacker.writer.write_eof() if attacker.writer.can_write_eof() else attacker.writer.close()
            assert await attacker.answers() == b""
            assert victim.received == received
            assert victim.counts[refusal] == 1
            # It works for others as before.
            other = Attacker(open_identity(tmp_path / "other"), victim)
            await other.introduce()
            other.say(other.probe)
            await until(lambda: victim.received == received + 1)
            other.writer.transport.abort()

    asyncio.run(check())


def test_a_node_that_is_refused_too_often_is_cut_off(tmp_path):
    async def check() -> None:
        async with attacked(tmp_path) as (victim, attacker):
            await attacker.introduce()
            for _ in range(20):
                attacker.send(attacker.seal(b"nonsense"))
            assert await attacker.answers() == b""
            assert victim.counts["malformed"] == LIMITS.peer_refusals_max + 1

    asyncio.run(check())


def test_strangers_are_few_and_brief(tmp_path):
    async def check() -> None:
        async with attacked(tmp_path) as (victim, _):
            found = name_and_endpoint(victim.address)
            assert found
            silent = [await asyncio.open_connection(*found[1]) for _ in range(6)]
            await until(lambda: victim.counts["crowded"] == 2)
            assert victim.connections == LIMITS.strangers_max
            await until(lambda: victim.connections == 0)  # none of them spoke in time
            for _, writer in silent:
                writer.transport.abort()

    asyncio.run(check())


def test_a_node_has_few_connections_and_the_newest_count(tmp_path):
    async def check() -> None:
        async with attacked(tmp_path) as (victim, attacker):
            made = []
            for _ in range(4):
                await attacker.introduce()
                made.append((attacker.reader, attacker.writer))
            for reader, _ in made[:2]:
                with pytest.raises((OSError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
            await until(lambda: victim.connections == LIMITS.peer_connections_max)
            attacker.say(attacker.probe)
            await until(lambda: victim.received == 1)
            for _, writer in made:
                writer.transport.abort()

    asyncio.run(check())


def test_what_is_too_fast_waits_at_its_senders(tmp_path):
    async def check() -> None:
        limits = NetLimits(peer_bytes_per_second_max=2_000)
        async with attacked(tmp_path, limits) as (victim, attacker):
            loop = asyncio.get_running_loop()
            start = loop.time()
            await attacker.introduce()
            for _ in range(1_000):
                attacker.say(attacker.probe)
            await until(lambda: victim.received > 1)
            await asyncio.sleep(0.3)
            size = len(attacker.seal(encode(attacker.probe)))
            assert victim.received <= 2_000 * (1 + loop.time() - start) / size + 1  # a second's worth came at once
            attacker.writer.transport.abort()

    asyncio.run(check())
