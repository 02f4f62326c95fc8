"""Eight nodes as processes, through a network that breaks, delays and cuts; some are killed (SIGKILL) and come back.

What must be found follows from the addresses alone: who owns a key, and what was acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.net.proxy import Proxy
from tests.net.rings import total, true_owner
from tests.net.trace import Step, in_the_world, script, time_of
from tests.ports import free_port
from tocsin.net import control
from tocsin.net.limits import NetError
from tocsin.overlay.message import peer

ROOT = Path(__file__).resolve().parent.parent.parent
DRIVER = [sys.executable, "-m", "tests.process.node_driver"]
NODES = 8
TICK_SECONDS = "0.4"
PATIENCE_SECONDS = 90.0


class Process:
    """A node that can be killed and started again; everybody reaches it through its proxy."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.port = folder / f"n{number}", free_port()
        self.proxy = Proxy(self.port, number)
        self.log = folder / f"log{number}"
        self.address = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> None:
        """`run`, or `join` and nodes; after a crash `run` alone: it knows the ring."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*DRIVER, "node", *words, "--data", str(self.folder), "--listen", f"127.0.0.1:{self.port}",
                 "--advertise", f"127.0.0.1:{self.proxy.port}", "--tick", TICK_SECONDS],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT, start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    async def ask(self, what: str, **request: Any) -> dict[str, Any]:
        return await asyncio.to_thread(control.ask, self.folder, {"do": what, **request})

    async def status(self) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return await self.ask("status")
        except NetError:
            return {}


class Ring:
    """Eight of them."""

    def __init__(self, folder: Path, nodes: int, seed: int) -> None:
        self.nodes = [Process(folder, number) for number in range(nodes)]
        self.chance = Random(seed)
        self.stored: dict[str, tuple[int, str]] = {}

    async def start(self) -> None:
        for node in self.nodes:
            await node.proxy.start()
        first, *others = self.nodes
        first.start("run")
        for node in others:
            node.start("join", f"127.0.0.1:{first.proxy.port}")
        await self.until_right()
        for node in self.nodes:
            node.address = (await node.status())["address"]

    async def until_right(self) -> None:
        """Until predecessors and successors are those of the true ring, and everybody owns its range."""
        start = time.monotonic()
        while not await self._is_right():
            assert time.monotonic() - start < PATIENCE_SECONDS, [await node.status() for node in self.nodes]
            await asyncio.sleep(0.2)

    async def _is_right(self) -> bool:
        found = [await node.status() for node in self.nodes]
        if not all(one.get("ready") for one in found):
            return False
        ring = sorted(found, key=lambda one: peer(one["address"]).key)
        return all(
            one["predecessor"] == ring[number - 1]["address"]
            and one["successors"][0] == ring[(number + 1) % len(ring)]["address"]
            for number, one in enumerate(ring)
        )

    def trouble(self, delay_seconds: float, breaks_per_second: float) -> None:
        for node in self.nodes:
            node.proxy.delay_seconds, node.proxy.breaks_per_second = delay_seconds, breaks_per_second

    async def put(self, words: int, besides: Process | None = None) -> None:
        """Stores under some words, again under some, through nodes that live: each is acknowledged in the end."""
        living = [node for node in self.nodes if node is not besides]
        for word in [f"word{self.chance.randrange(40)}" for _ in range(words)]:
            version = self.stored.get(word, (0, ""))[0] + 1
            request = {"word": word, "kind": 7, "name": "n", "version": version, "value": f"{word} {version}"}
            assert await self.chance.choice(living).ask("put", **request) == {"safe": True}
            self.stored[word] = version, f"{word} {version}"

    async def check(self, lookups: int) -> None:
        """Every lookup and every get, from any node, is right."""
        addresses = [node.address for node in self.nodes]
        for key in [self.chance.getrandbits(64) for _ in range(lookups)]:
            found = await self.chance.choice(self.nodes).ask("lookup", key=key)
            assert found["owner"] == true_owner(addresses, key)
        for word, (version, value) in self.stored.items():
            assert (await self.chance.choice(self.nodes).ask("get", word=word))["items"] == [[7, "n", version, value]]

    async def close(self) -> None:
        for node in self.nodes:
            if node.process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(node.process.pid, signal.SIGKILL)
                node.process.wait()
            await node.proxy.close()


@asynccontextmanager
async def ring_of(folder: Path, nodes: int, seed: int) -> AsyncIterator[Ring]:
    ring = Ring(folder, nodes, seed)
    try:
        await ring.start()
        yield ring
    finally:
        await ring.close()


async def _stop(node: Process) -> int:
    assert node.process is not None
    node.process.send_signal(signal.SIGTERM)
    return await asyncio.to_thread(node.process.wait, 60)


def test_eight_nodes_through_a_bad_network_and_one_of_them_killed(tmp_path: Path) -> None:
    async def check() -> None:
        async with ring_of(tmp_path, NODES, seed=1) as ring:
            ring.trouble(0.01, 0.1)
            await ring.put(12)
            victim = ring.nodes[3]
            before = (await victim.status())["items"]
            victim.kill()
            await ring.put(5, besides=victim)
            victim.start("run")
            ring.trouble(0.0, 0.0)
            await ring.until_right()
            assert before == 0 or (await victim.status())["items"] > 0
            await ring.check(25)
            assert sum(node.proxy.broken for node in ring.nodes) > 0
            # One that leaves in order takes nothing with it.
            leaver = ring.nodes.pop()
            try:
                assert await _stop(leaver) == 0, leaver.log.read_text()
                await ring.until_right()
                await ring.check(10)
            finally:
                ring.nodes.append(leaver)
            for node in ring.nodes:
                assert "Traceback" not in node.log.read_text(), node.log.read_text()
                secret = (node.folder / "identity.pem").read_text().splitlines()[1]
                assert secret not in node.log.read_text()

    asyncio.run(check())


@pytest.mark.slow
def test_nodes_are_killed_cut_off_and_frozen_again_and_again(tmp_path: Path) -> None:
    async def check() -> None:
        async with ring_of(tmp_path, NODES, seed=2) as ring:
            for turn in range(12):
                ring.trouble(0.02, 0.2)
                victim = ring.chance.choice(ring.nodes)
                assert victim.process is not None
                if turn % 3 == 0:
                    victim.kill()
                    await ring.put(3, besides=victim)
                    victim.start("run")
                elif turn % 3 == 1:
                    victim.proxy.cut(True)
                    await asyncio.sleep(3.0)
                    victim.proxy.cut(False)
                else:
                    victim.process.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(3.0)
                    victim.process.send_signal(signal.SIGCONT)
                await ring.put(5, besides=victim)
                ring.trouble(0.0, 0.0)
                await ring.until_right()
                await ring.check(10)

    asyncio.run(check())


# --- X4: the same script in processes --------------------------------------------------------------------------------


class ScriptedProcess:
    """A node that does what a script says, and nothing by itself."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [*DRIVER, "scripted", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def say(self, *words: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, *words: Any) -> Any:
        self.say(*words)
        return self.hear()

    def close(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()


def settle(nodes: list[ScriptedProcess]) -> None:
    """Everything that follows from a step, in turns (`tests.net.turns`). Nodes send only when they act or have their
    turn: nothing is on its way when as much came as was sent."""
    start = time.monotonic()
    pulses = ask_all(nodes, *(["pulse"] for _ in nodes))
    while True:
        assert time.monotonic() - start < PATIENCE_SECONDS, pulses
        if sum(sent for sent, *_ in pulses) != sum(received for _, received, _ in pulses):
            time.sleep(0.001)
            pulses = ask_all(nodes, *(["pulse"] for _ in nodes))
        elif any(count for *_, count in pulses):
            pulses = ask_all(nodes, *(["turn", count] for *_, count in pulses))
        else:
            return


def ask_all(nodes: list[ScriptedProcess], *words: list[Any]) -> list[Any]:
    """Asks everybody at once."""
    for node, some in zip(nodes, words, strict=True):
        node.say(*some)
    return [node.hear() for node in nodes]


def in_processes(folder: Path, steps: list[Step], nodes: int) -> tuple[list[str], Any]:
    started: list[ScriptedProcess] = []
    try:
        started += [ScriptedProcess(folder / f"n{number}") for number in range(nodes)]
        addresses = [node.ask("open") for node in started]
        for number, step in enumerate(steps):
            ask_all(started, *(["clock", time_of(number)] for _ in started))
            started[step[1]].ask("step", step, addresses)
            settle(started)
        counts = [node.ask("count") for node in started]
        messages, sizes = total([(Counter(one[0]), Counter(one[1])) for one in counts])
        return addresses, (messages, sizes, Counter(told for one in counts for told in one[2]))
    finally:
        for node in started:
            node.close()


def compare(tmp_path: Path, seed: int, nodes: int, actions: int, world: Callable[..., Any] = in_the_world) -> None:
    steps = script(seed, nodes, actions)
    addresses, counted = in_processes(tmp_path, steps, nodes)
    assert counted == world(steps, addresses)


@pytest.mark.row("X4")
def test_messages_and_bytes_of_the_world_are_those_of_processes(tmp_path: Path) -> None:
    compare(tmp_path, seed=3, nodes=4, actions=40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
def test_messages_and_bytes_of_the_world_are_those_of_eight_processes(tmp_path: Path, seed: int) -> None:
    compare(tmp_path, seed, nodes=NODES, actions=300)


@pytest.mark.slow
def test_a_process_with_a_full_disk_says_so_and_leaves(tmp_path: Path) -> None:
    async def check() -> None:
        async with ring_of(tmp_path, 3, seed=3) as ring:
            full = Process(tmp_path, 3)
            await full.proxy.start()
            full.start("join", f"127.0.0.1:{ring.nodes[0].proxy.port}", "--disk-bytes-max", "1000")
            ring.nodes.append(full)
            assert full.process is not None
            start = time.monotonic()
            while full.process.poll() is None:
                await ring.put(3, besides=full)
                assert time.monotonic() - start < PATIENCE_SECONDS
            assert full.process.returncode == 1
            assert "this node leaves: " in full.log.read_text()
            assert "the disk is full" in full.log.read_text()
            assert "Traceback" not in full.log.read_text()
            await ring.nodes.pop().proxy.close()
            await ring.until_right()
            await ring.check(10)

    asyncio.run(check())
