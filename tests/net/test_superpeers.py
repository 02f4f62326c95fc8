"""Super-peers and clients over real connections: sealed, counted as in the false world, and killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from secrets import randbits
from typing import Any

import pytest

from tests.net.rings import LOOPBACK, drivers, total, until
from tests.net.turns import InTurns, settle, settle_drivers
from tests.ports import free_port
from tocsin.cli import main
from tocsin.match.rendezvous.payload import PackedDocument
from tocsin.model import Document
from tocsin.net import control
from tocsin.net.disk import Journal
from tocsin.net.driver import Driver
from tocsin.net.identity import Endpoint, client_context, name_and_endpoint, open_identity
from tocsin.net.limits import DEFAULT_LIMITS, NetError
from tocsin.net.link import connect, frame
from tocsin.net.sealing import Seals, open_seals
from tocsin.net.superpeers import SuperpeerHost, SuperpeerHostSettings
from tocsin.overlay import message as codec
from tocsin.overlay.delivery import Notified
from tocsin.overlay.message import Address, Message, encode
from tocsin.overlay.node import Effect, Send, Wake
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.subscriber import Standing
from tocsin.overlay.placement.superpeers.advertisements import Advertisement
from tocsin.overlay.placement.superpeers.client import Answer, Client, Connected, Fetched, Rejected
from tocsin.overlay.placement.superpeers.messages import Advertise, AreYouAlive, Connect, News, PublishAt, Relay
from tocsin.overlay.placement.superpeers.routes import Refusal
from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings
from tocsin.overlay.placement.superpeers.superpeer import SuperPeer
from tocsin.query import holds, parse_subscription
from tocsin.query.semantics import Knowledge
from tocsin.sim.world import World, constant

KNOWLEDGE = Knowledge()
FAST = SuperpeerSettings(probe_seconds=0.2, again_seconds=0.3, hold_seconds=2.0)
SLOW_NETWORK = SuperpeerSettings(probe_seconds=1.0, again_seconds=2.0, hold_seconds=5.0)
WORDS = ["peer", "networks", "ring", "chord", "node", "key"]
RING: dict[int, tuple[int, ...]] = {0: (1, 3), 1: (0, 2), 2: (1, 3), 3: (2, 0)}


def seals_of(driver: Driver) -> Seals:
    return open_seals(driver.identity)


def what(driver: Driver, kind: type) -> list[Any]:
    return [effect.what for _, effect in driver.delivered if isinstance(effect.what, kind)]


class Observed(SuperPeer):
    """A super-peer that remembers what is passed on through it."""

    __slots__ = ("passed",)

    def __init__(self, *rest: Any, **more: Any) -> None:
        super().__init__(*rest, **more)
        self.passed: list[Relay] = []

    def handle(self, message: Message, now: float) -> list[Effect]:
        if isinstance(message, Relay):
            self.passed.append(message)
        return super().handle(message, now)


class Net:
    """Drivers of super-peers, then of clients; each client knows its access points."""

    def __init__(self, made: list[Driver], links: dict[int, tuple[int, ...]], settings: SuperpeerSettings) -> None:
        self.made, self.links, self.settings = made, links, settings
        self.superpeers: list[Observed] = []
        for number, others in links.items():
            driver = made[number]
            neighbours = [made[other].address for other in others]
            one = Observed(driver.address, neighbours, KNOWLEDGE, settings=settings, sealing=seals_of(driver))
            self.superpeers.append(one)
            driver.add(driver.address, one)

    def client(self, number: int, *accesses: int) -> Client:
        driver = self.made[number]
        places = [self.made[access].address for access in accesses]
        one = Client(driver.address, places, KNOWLEDGE, settings=self.settings, sealing=seals_of(driver))
        driver.add(driver.address, one)
        return one

    def do(self, number: int, call: Callable[[Any, float], list[Effect]]) -> None:
        self.made[number].invoke(self.made[number].address, call)

    @property
    def is_whole(self) -> bool:
        everybody = {self.made[number].address for number in self.links}
        return all(set(one.routes.graph.reachable(one.me.address)) == everybody for one in self.superpeers)


def title(id: str, text: str) -> Document:
    return Document(id, {"title": (text,)})


@pytest.mark.row("P10")
def test_routes_heal_and_what_is_sealed_stays_as_it_is_and_unread(tmp_path):
    """P2P-DIET §3: are-you-alive messages; message authentication and encryption using public key cryptography."""

    async def check() -> None:
        async with drivers(tmp_path, 6) as made:
            net = Net(made, RING, FAST)
            await until(lambda: net.is_whole)
            ann, bob = net.client(4, 0, 1), net.client(5, 2)
            await until(lambda: ann.is_connected and bob.is_connected)
            net.do(4, lambda one, now: one.subscribe(randbits(64), "title:peer", now))
            await until(lambda: len(what(made[4], Standing)) == 1)
            s0, s1, s2 = net.superpeers[:3]

            # What passes a super-peer in between tells it nothing, though TLS ends there.
            passed: list[Relay] = []
            for one in (net.superpeers[1], net.superpeers[3]):
                one.passed = passed
            secret = title("d0", "a peer that whispers")
            net.do(5, lambda one, now: one.publish(secret, now, b"the resource"))
            await until(lambda: len(what(made[4], Notified)) == 1 and len(what(made[5], Published)) == 1)
            packed = PackedDocument.of(secret).data
            bodies = [one for one in passed if one.origin == s2.me.address and one.target == s0.me.address]
            assert bodies
            assert not any(packed in one.body or b"whispers" in one.body for one in bodies)
            opened = [
                seals_of(made[0]).unseal(one.origin, one.target, seals_of(made[2]).card, one.body) for one in bodies
            ]
            assert any(packed in (one or b"") for one in opened)  # there it was
            assert all(
                seals_of(made[1]).unseal(one.origin, one.target, seals_of(made[2]).card, one.body) is None
                for one in bodies
            )
            assert packed in encode(News("", packed))  # as it would be without a seal

            # Tampered with, by one in between: refused, counted, told to the operator.
            news = bodies[-1]
            changed = news.body[:-1] + bytes([news.body[-1] ^ 1])
            net.do(1, lambda one, now: [Send(s0.me.address, Relay(news.origin, news.target, 1, changed))])
            await until(lambda: s0.routes.refused["unsealed"] == 1)
            assert [one.kind for one in what(made[0], Refusal)] == ["unsealed"]
            # Sealed with a wrong key: the same.
            wrong = seals_of(made[1]).seal(s2.me.address, s0.me.address, seals_of(made[0]).card, encode(passed[0]))
            net.do(1, lambda one, now: [Send(s0.me.address, Relay(s2.me.address, s0.me.address, 1, wrong))])
            await until(lambda: s0.routes.refused["unsealed"] == 2)
            # Said again, as it was: nobody hears it twice.
            for old in bodies:
                net.do(1, lambda one, now, old=old: [Send(s0.me.address, old)])  # type: ignore[misc, arg-type]
            # An envelope that is repeated or changed on the wire does not even reach the super-peer.
            envelope = made[1]._sealer.seal(s1.me.address, s0.me.address, encode(AreYouAlive(s1.me, 0, True)))
            await _throw(made[0], envelope, envelope, envelope[:-1] + bytes([envelope[-1] ^ 1]))
            await until(lambda: made[0].counts["replayed"] == 1 and made[0].counts["forged"] == 1)

            # A super-peer on the way dies: within the probes that may be missed there is another way.
            hop = s2.routes.graph.next_hop(s2.me.address, s0.me.address)
            dead = next(number for number in RING if made[number].address == hop)
            before = made[2].count()[0]["AreYouAlive"]
            await made[dead].close()
            net.superpeers.pop(dead)
            await until(lambda: all(hop not in one.routes.graph.reachable(one.me.address) for one in net.superpeers))
            rounds = (made[2].count()[0]["AreYouAlive"] - before) / 3  # two neighbours and a client are asked each time
            assert rounds <= 2 * (FAST.probes_missed_max + 2)  # questions and answers
            net.do(5, lambda one, now: one.publish(title("d1", "peer again"), now))
            await until(lambda: len(what(made[4], Notified)) == 2)
            assert [one.notice.document for one in what(made[4], Notified)] == ["d0", "d1"]
            net.do(4, lambda one, now: one.fetch(made[5].address, "d0", 1, now))
            await until(lambda: bool(what(made[4], Fetched)))
            assert what(made[4], Fetched)[0].data == b"the resource"
            assert not any(driver.counts["failed"] for driver in made)

    asyncio.run(check())


async def _throw(driver: Driver, *frames: bytes) -> None:
    """Bytes of somebody in between, who has kept them."""
    found = name_and_endpoint(driver.address)
    assert found is not None
    for data in frames:  # a connection for each: one that lies is closed
        connection = await connect(found[1], None, client_context(), DEFAULT_LIMITS)
        connection.writer.write(frame(data))
        await connection.writer.drain()
        await asyncio.sleep(0.05)
        connection.close()


def test_what_travels_between_two_nodes_cannot_be_read_on_the_wire(tmp_path):
    """The bytes themselves, as somebody sees them who taps the cable."""

    async def check() -> None:
        seen = bytearray()
        async with drivers(tmp_path, 2) as made, AsyncExitStack() as stack:
            tapped = await _tap(made[0], seen, stack)
            address = made[0].identity.address(Endpoint("127.0.0.1", tapped))
            made[0].address = address  # everybody reaches it through the tap
            net = Net(made, {0: ()}, FAST)
            one = Client(made[1].address, [address], KNOWLEDGE, settings=FAST, sealing=seals_of(made[1]))
            made[1].add(made[1].address, one)
            await until(lambda: one.is_connected)
            net.do(1, lambda one, now: one.subscribe(7, "title:whispers", now))
            net.do(1, lambda one, now: one.search("title:whispers", now))
            await until(lambda: bool(what(made[1], Standing)) and bool(what(made[1], Answer)))
        assert len(seen) > 1_000
        assert b"whispers" not in seen
        assert b"whispers" in encode(Connect(one.me, "whispers", 1, 0, (), b""))  # as it would be without TLS

    asyncio.run(check())


async def _tap(driver: Driver, seen: bytearray, stack: AsyncExitStack) -> int:
    found = name_and_endpoint(driver.address)
    assert found is not None
    tasks: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                seen.extend(data)
                writer.write(data)
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, onward = await asyncio.open_connection("127.0.0.1", found[1].port)
        for work in (copy(reader, onward), copy(back, writer)):
            tasks.add(asyncio.create_task(work))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)

    async def close() -> None:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    stack.push_async_callback(close)
    port: int = server.sockets[0].getsockname()[1]
    return port


def test_a_client_with_anothers_name_or_card_is_refused_and_others_go_on(tmp_path):
    async def check() -> None:
        async with drivers(tmp_path, 3) as made:
            net = Net(made, {0: ()}, FAST)
            ann = net.client(1, 0)
            await until(lambda: ann.is_connected)
            eve = Client(made[2].address, [made[0].address], KNOWLEDGE, settings=FAST, sealing=seals_of(made[1]))
            made[2].add(made[2].address, eve)  # her own name, but ann's card
            await until(lambda: bool(what(made[2], Rejected)))
            liar = Connect(eve.me, ann.id, 99, 0, (), seals_of(made[2]).card)
            net.do(2, lambda one, now: [Send(made[0].address, liar)])
            forged = Connect(ann.me, ann.id, 99, 0, (), seals_of(made[1]).card)  # in ann's name altogether
            net.do(2, lambda one, now: [Send(made[0].address, forged)])
            await until(lambda: made[0].counts["incredible"] == 1)
            assert net.superpeers[0].routes.refused["impostor"] >= 2
            assert {one.kind for one in what(made[0], Refusal)} == {"impostor"}
            net.do(1, lambda one, now: one.subscribe(1, "title:peer", now))
            net.do(1, lambda one, now: one.publish(title("d", "peer"), now))
            await until(lambda: len(what(made[1], Notified)) == 1)
            assert not eve.is_connected

    asyncio.run(check())


# --- X4 --------------------------------------------------------------------------------------------------------------


class Scripted:
    """A super-peer or client without timers: its probes come from a script, the same in both worlds."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def start(self, now: float) -> list[Effect]:
        return [] if isinstance(self.node, SuperPeer) else self.still(self.node.start(now))

    def handle(self, message: Any, now: float) -> list[Effect]:
        return self.still(self.node.handle(message, now))

    def wake(self, token: Any, now: float) -> list[Effect]:
        raise AssertionError("nothing is woken")

    @staticmethod
    def still(effects: list[Effect]) -> list[Effect]:
        return [effect for effect in effects if not isinstance(effect, Wake)]


LINKS: dict[int, tuple[int, ...]] = {0: (1, 2), 1: (0, 2), 2: (0, 1, 3), 3: (2,)}  # a triangle, and one more
CLIENTS = {4: 0, 5: 1, 6: 3}
STEP_SECONDS = 0.01


def script(seed: int, actions: int) -> list[list[Any]]:
    chance = Random(f"super-peer trace {seed}")
    steps: list[list[Any]] = [["add", number] for number in LINKS]
    steps += [["tick", number] for _ in range(3) for number in LINKS]
    steps += [["add", number] for number in CLIENTS] + [["count", 0]]
    for number in range(actions):
        who = chance.choice(list(CLIENTS))
        asked = " AND ".join(f"title:{word}" for word in chance.sample(WORDS, chance.choice([1, 2])))
        steps.append(chance.choice([
            ["subscribe", who, number, asked],
            ["publish", who, f"d{number}", " ".join(chance.sample(WORDS, 3))],
            ["publish", who, f"d{number}", " ".join(chance.sample(WORDS, 3))],
            ["search", who, f"title:{chance.choice(WORDS)}"],
        ]))  # fmt: skip
    return steps


def unsealed(message: Message) -> bytes:
    """What a message is sorted by: a seal is another each time. Those from one node to another come in order."""
    return encode(Relay(message.origin, message.target, message.hops, b"") if isinstance(message, Relay) else message)


def node(addresses: list[Address], seals: list[Seals], number: int) -> InTurns:
    settings = SuperpeerSettings(probe_seconds=1e6, again_seconds=1e6)
    places = [addresses[other] for other in (LINKS[number] if number in LINKS else (CLIENTS[number],))]
    make = SuperPeer if number in LINKS else Client
    one = make(addresses[number], places, KNOWLEDGE, settings=settings, sealing=seals[number])
    return InTurns(Scripted(one), unsealed)


def act(node: InTurns, step: list[Any], now: float) -> list[Effect]:
    name, _, *rest = step
    process: Scripted = node.process
    one = process.node
    if name == "tick":
        effects = one.routes.tick(now)
    elif name == "subscribe":
        effects = one.subscribe(rest[0], rest[1], now)
    elif name == "publish":
        effects = one.publish(title(rest[0], rest[1]), now)
    else:
        effects = one.search(rest[0], now)
    return process.still(effects)


def in_the_world(steps: list[list[Any]], addresses: list[Address], seals: list[Seals]) -> tuple[Any, ...]:
    world = World(1, latency=constant(0.0001), decode=codec.decode)
    before = Counter[str](), Counter[str]()
    for number, step in enumerate(steps):
        if step[0] == "count":
            before = world.count()
        elif step[0] == "add":
            world.add(addresses[step[1]], lambda disk, life, who=step[1]: node(addresses, seals, who))  # type: ignore[misc]
        else:
            world.invoke(addresses[step[1]], lambda process, now, step=step: act(process, step, now))  # type: ignore[misc]
        settle(world)
        world.run((number + 1) * STEP_SECONDS)
    after = world.count()
    told = Counter(f"{address} {effect.what}" for _, address, effect in world.delivered if address in addresses[4:])
    return after[0] - before[0], after[1] - before[1], told


async def in_drivers(folder: Path, steps: list[list[Any]]) -> tuple[Any, ...]:
    now = 0.0
    async with drivers(folder, len(LINKS) + len(CLIENTS), clock=lambda: now) as made:
        addresses, seals = [driver.address for driver in made], [seals_of(driver) for driver in made]
        before = Counter[str](), Counter[str]()
        joined: list[InTurns] = []
        for number, step in enumerate(steps):
            now, who = number * STEP_SECONDS, step[1]
            if step[0] == "count":
                before = total([driver.count() for driver in made])
            elif step[0] == "add":
                joined.append(node(addresses, seals, who))
                made[who].add(addresses[who], joined[-1])
            else:
                made[who].invoke(addresses[who], lambda process, now, step=step: act(process, step, now))
            await settle_drivers(made, joined)
        after = total([driver.count() for driver in made])
        told = Counter(f"{address} {effect.what}" for driver in made[4:] for address, effect in driver.delivered)
        return addresses, seals, (after[0] - before[0], after[1] - before[1], told)


@pytest.mark.row("X4")
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_messages_and_bytes_of_the_world_are_those_of_real_connections(tmp_path, seed):
    steps = script(seed, actions=50)
    addresses, seals, counted = asyncio.run(in_drivers(tmp_path, steps))
    assert counted == in_the_world(steps, addresses, seals)
    assert counted != in_the_world(steps[:-1], addresses, seals)
    assert {"Forward", "Relay", "Question", "Answers", "Told", "Heard", "PublishAt"} <= counted[0].keys()


# --- one in a folder -------------------------------------------------------------------------------------------------


def test_operators_link_super_peers_while_they_run(tmp_path, capsys):
    async def check() -> None:
        said: list[list[str]] = [[], []]
        hosts = [
            SuperpeerHost(SuperpeerHostSettings(tmp_path / f"s{one}", LOOPBACK, superpeers=FAST), said[one].append)
            for one in range(2)
        ]
        running = [asyncio.create_task(host.run()) for host in hosts]
        await until(lambda: all(said))
        assert said[0][0] == f"super-peer {hosts[0].address}"
        command = ["node", "link", "--data", str(tmp_path / "s0")]
        assert await asyncio.to_thread(main, [*command, "nonsense"]) != 0
        assert "NAME@HOST:PORT" in capsys.readouterr().err
        assert await asyncio.to_thread(main, [*command, hosts[1].address]) == 0
        await until(lambda: any("refused (stranger)" in one for one in said[1]))  # one end is not enough
        link = {"do": "link", "with": hosts[0].address}
        assert await asyncio.to_thread(control.ask, tmp_path / "s1", link) == {"links": [hosts[0].address]}
        await until(lambda: f"links: {hosts[0].address}" in said[1] and f"links: {hosts[1].address}" in said[0])
        assert (tmp_path / "s0" / "links").read_text() == f"{hosts[1].address}\n"
        for host in hosts:
            host.stop()
        assert await asyncio.gather(*running) == [0, 0]

    asyncio.run(check())


@pytest.mark.parametrize("arguments", [["nonsense"], ["--probe", "0"]])
def test_what_cannot_work_is_said_before_it_runs(tmp_path, capsys, arguments):
    assert main(["node", "superpeer", "--data", str(tmp_path / "s"), "--listen", "127.0.0.1:0", *arguments]) != 0
    assert "NAME@HOST:PORT" in (said := capsys.readouterr().err) or "--probe must be more than 0" in said


# --- processes -------------------------------------------------------------------------------------------------------

GRAPH = {0: (1, 4), 1: (0, 2, 4), 2: (1, 3), 3: (2, 4), 4: (3, 0, 1)}


class Processes:
    """Five super-peers as processes, each with a folder and a port of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = [free_port() for _ in GRAPH]
        self.addresses = [
            open_identity(folder / f"s{number}").address(Endpoint("127.0.0.1", self.ports[number])) for number in GRAPH
        ]
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int, links: list[Address] | None = None) -> None:
        links = [self.addresses[other] for other in GRAPH[number]] if links is None else links
        command = [
            sys.executable, "-m", "tocsin", "node", "superpeer", *links, "--data", str(self.folder / f"s{number}"),
            "--listen", f"127.0.0.1:{self.ports[number]}", "--probe", f"{SLOW_NETWORK.probe_seconds}",
        ]  # fmt: skip
        with (self.folder / f"s{number}.log").open("ab") as log:
            self.running[number] = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ)

    def kill(self, number: int) -> None:
        self.running[number].send_signal(signal.SIGKILL)
        self.running.pop(number).wait()

    def status(self, number: int) -> dict[str, Any]:
        return control.ask(self.folder / f"s{number}", {"do": "status"})

    def end(self) -> None:
        for one in self.running.values():
            one.kill()
            one.wait()


def test_five_processes_and_twenty_clients_lose_nothing_when_a_super_peer_is_killed(tmp_path, capsys):
    """Issue "Shows": 5 super-peers, 20 clients on loopback; kill -9 a super-peer: routes heal, nothing lost."""
    processes = Processes(tmp_path)
    try:
        for number in GRAPH:
            processes.start(number)
        asyncio.run(_live_and_die(tmp_path, processes))
        links = ", ".join(sorted(processes.addresses[one] for one in GRAPH[0]))
        for _ in range(60):  # one that was slow to answer is missing for a moment
            assert main(["node", "status", "--data", str(tmp_path / "s0")]) == 0
            shown = capsys.readouterr().out
            assert shown.startswith(processes.addresses[0])
            if f"links        {links}\n" in shown and "unreachable  none\n" in shown:
                break
            time.sleep(1.0)
        else:
            pytest.fail(shown)
    finally:
        processes.end()


def test_what_a_process_refuses_is_counted_and_told_to_its_operator(tmp_path, capsys):
    """Issue "Bad input": an advertisement that lies, another's id, a wrong key; the deliveries of others go on."""
    processes = Processes(tmp_path)
    try:
        asyncio.run(_be_refused(tmp_path, processes))
        assert main(["node", "status", "--data", str(tmp_path / "s0")]) == 0
        shown = capsys.readouterr().out
        log = (tmp_path / "s0.log").read_text()
        for kind in ("impostor", "unadvertised", "unsealed"):
            assert f"refused: {kind}" in shown
            assert f"refused ({kind}) from " in log
        assert "incredible" in shown
        assert "refused (incredible) from " in log
    finally:
        processes.end()


async def _be_refused(folder: Path, processes: Processes) -> None:
    async with drivers(folder, 4) as made:
        there = processes.addresses[0]
        processes.start(0, [made[0].address])
        net = Net(made, {}, SLOW_NETWORK)
        made[0].add(made[0].address, SuperPeer(
            made[0].address, [there], KNOWLEDGE, settings=SLOW_NETWORK, sealing=seals_of(made[0])
        ))  # fmt: skip
        ann, eve, liar = (
            Client(driver.address, [there], KNOWLEDGE, settings=SLOW_NETWORK, sealing=seals_of(driver))
            for driver in made[1:]
        )
        for driver, one in zip(made[1:], (ann, eve, liar), strict=True):
            driver.add(driver.address, one)
        await until(lambda: ann.is_connected and eve.is_connected and liar.is_connected)
        net.do(1, lambda one, now: one.subscribe(1, "title:peer", now))
        # What eve says is rightly signed by her; it is what she says that cannot be.
        net.do(2, lambda one, now: [Send(there, Connect(eve.me, ann.id, 99, 0, (), seals_of(made[2]).card))])
        net.do(2, lambda one, now: [Send(there, Connect(ann.me, ann.id, 99, 0, (), seals_of(made[1]).card))])
        lie = Advertisement({"title": frozenset({"a ring"})}).packed()
        news = PackedDocument.of(title("lie", "a peer")).data
        net.do(3, lambda one, now: [
            Send(there, Advertise(liar.me, liar.epoch, 1_001, lie)),
            Send(there, PublishAt(liar.me, liar.epoch, 1_002, news, False)),
        ])  # fmt: skip
        for_eve = seals_of(made[0]).seal(made[0].address, made[2].address, seals_of(made[2]).card, b"secret")
        net.do(0, lambda one, now: [Send(there, Relay(made[0].address, there, 1, for_eve))])

        def refused() -> dict[str, int]:
            status = processes.status(0)
            return {**status["refused"], "incredible": status["counts"].get("incredible", 0)}

        wanted = {"impostor", "unadvertised", "unsealed", "incredible"}
        async with asyncio.timeout(90):
            while not all(map((await asyncio.to_thread(refused)).get, wanted)):
                await asyncio.sleep(0.1)
        await until(lambda: bool(what(made[1], Standing)))
        net.do(2, lambda one, now: one.publish(title("true", "a peer"), now))
        await until(lambda: [one.notice.document for one in what(made[1], Notified)] == ["true"])


async def _live_and_die(folder: Path, processes: Processes) -> None:
    chance, dead = Random(20), 1
    await _until_linked(processes, list(GRAPH))
    journals: list[Journal] = []
    async with AsyncExitStack() as stack:
        made: list[Driver] = []
        for number in range(20):
            identity = open_identity(folder / f"c{number}")
            journals.append(Journal(folder / f"c{number}" / "journal", 1 << 30))
            stack.callback(journals[-1].close)
            driver = Driver(identity, disk=journals[-1])
            stack.push_async_callback(driver.close)
            address = await driver.open(LOOPBACK)
            home = number % len(GRAPH)
            accesses = [
                processes.addresses[home],
                *(one for one in processes.addresses if one != processes.addresses[home]),
            ]
            one = Client(
                address, accesses, KNOWLEDGE, settings=SLOW_NETWORK, sealing=open_seals(identity), disk=journals[-1]
            )
            driver.add(address, one)
            made.append(driver)
        await until(lambda: all(what(driver, Connected) for driver in made), 60)
        wanted: dict[str, tuple[int, str]] = {}
        for number, driver in enumerate(made):
            text = " AND ".join(f"title:{word}" for word in chance.sample(WORDS, 1 + number % 2))
            large = randbits(64)
            wanted[f"{driver.identity.name} {large:016x}"] = number, text
            driver.invoke(driver.address, lambda one, now, large=large, text=text: one.subscribe(large, text, now))  # type: ignore[misc]
        await until(lambda: all(what(driver, Standing) for driver in made), 60)
        documents: list[Document] = []

        def publish(some: int) -> None:
            for _ in range(some):
                document = title(f"d{len(documents)}", " ".join(chance.sample(WORDS, 3)))
                documents.append(document)
                driver = chance.choice(made)
                driver.invoke(driver.address, lambda one, now, it=document: one.publish(it, now, it.id.encode()))  # type: ignore[misc]

        def expected() -> list[tuple[int, str, str]]:
            return sorted(
                (number, id, document.id)
                for id, (number, text) in wanted.items()
                for document in documents
                if holds(parse_subscription(text), document, KNOWLEDGE)
            )

        def heard() -> list[tuple[int, str, str]]:
            return sorted(
                (number, one.notice.subscription, one.notice.document)
                for number, driver in enumerate(made)
                for one in what(driver, Notified)
            )

        publish(20)
        await asyncio.sleep(0.3)
        processes.kill(dead)  # in the middle of it
        publish(20)
        # Routes heal, and its clients find other access points: everybody hears of everything, while it is dead.
        await _until_linked(processes, [number for number in GRAPH if number != dead])
        await until(lambda: heard() == expected(), 90)
        assert len(expected()) > 100
        left = [driver for number, driver in enumerate(made) if number % len(GRAPH) == dead]
        assert len(left) == 4
        assert all(what(driver, Connected)[-1].access != processes.addresses[dead] for driver in left)
        # It comes back: whatever waited for it is done.
        processes.start(dead)
        publish(10)
        await _until_linked(processes, list(GRAPH))
        await until(lambda: sum(len(what(driver, Published)) for driver in made) == len(documents), 90)
        assert heard() == expected()  # each once
        asker = made[0]
        asker.invoke(asker.address, lambda one, now: one.search("title:peer OR title:ring", now))
        await until(lambda: bool(what(asker, Answer)), 60)
        found = sorted(one.id for one in what(asker, Answer)[0].documents)
        query = parse_subscription("title:peer OR title:ring")
        assert found == sorted(one.id for one in documents if holds(query, one, KNOWLEDGE))
        assert len({one.getsockname() for driver in made for one in driver._door._listening}) == 20
        assert not any(driver.counts["failed"] for driver in made)
    for number in GRAPH:
        status = processes.status(number)
        assert not status["counts"].get("failed")
        assert not status["refused"].keys() - {"unconnected"}


async def _until_linked(processes: Processes, alive: list[int]) -> None:
    """Waits until each super-peer that lives sees those that live, and no others."""
    expected = {processes.addresses[number] for number in alive}
    async with asyncio.timeout(120):
        for number in alive:
            seen: set[Address] = set()
            while seen != expected:
                await asyncio.sleep(0.2)
                try:
                    status = await asyncio.to_thread(processes.status, number)
                except NetError:  # it has not begun
                    assert processes.running[number].poll() is None, (processes.folder / f"s{number}.log").read_text()
                    continue
                seen = set(status["members"]) - set(status["unreachable"])
