"""A node in a folder: it starts, is asked, restarts, and leaves when it must, saying why."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.net.rings import FAST, until
from tests.ports import free_port
from tocsin.errors import SettingError
from tocsin.net import control
from tocsin.net.host import Host, HostSettings, locked, next_life, read_contacts, resolve
from tocsin.net.identity import Endpoint, client_context, open_identity
from tocsin.net.limits import DEFAULT_LIMITS, NetError, NetLimits
from tocsin.net.link import connect, frame

LIMITS = NetLimits(leave_seconds_max=1.0, backoff_seconds_max=0.3)


class Running:
    """A host in a task, and what it said."""

    def __init__(self, settings: HostSettings) -> None:
        self.settings = settings
        self.said: list[str] = []
        self.shift_seconds = 0.0
        self.start()

    def start(self) -> None:
        self.host = Host(self.settings, self.said.append, self._clock)
        self.task = asyncio.create_task(self.host.run())

    def _clock(self) -> int:
        return time.time_ns() + int(self.shift_seconds * 1e9)

    @property
    def is_ready(self) -> bool:
        return self.host.member is not None and self.host.member.chord.is_ready

    async def ask(self, what: str, **request: Any) -> Any:
        return await asyncio.to_thread(control.ask, self.settings.folder, {"do": what, **request})

    async def put(self, number: int, size: int = 1) -> None:
        answer = await self.ask("put", word=f"w{number}", kind=7, name="n", version=1, value=str(number) * size)
        assert answer == {"safe": True}

    async def get(self, number: int) -> Any:
        return (await self.ask("get", word=f"w{number}"))["items"]

    async def kill(self) -> None:
        """Ends at once, as far as others can see."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def hosts(folder: Path, number: int, limits: NetLimits = LIMITS) -> AsyncIterator[list[Running]]:
    """A ring of hosts that own their ranges."""
    running: list[Running] = []
    try:
        for one in range(number):
            port = free_port()
            contacts = (f"127.0.0.1:{running[0].settings.listen.port}",) if one else ()
            settings = HostSettings(
                folder / f"h{one}", Endpoint("127.0.0.1", port), contacts=contacts, chord=FAST, limits=limits
            )
            running.append(Running(settings))
            await until(lambda: running[-1].is_ready)
        yield running
    finally:
        for host in running:
            await host.kill()


def test_nodes_start_answer_and_leave_in_order(tmp_path):
    async def check() -> None:
        async with hosts(tmp_path, 3) as ring:
            for number in range(10):
                await ring[number % 3].put(number)
            status = await ring[0].ask("status")
            assert (status["state"], status["ready"], status["address"]) == ("in the ring", True, ring[0].host.address)
            assert ring[0].said == [f"node {ring[0].host.address}", "founded a ring"]
            assert ring[1].said == [f"node {ring[1].host.address}", "joined the ring"]
            assert (await ring[1].ask("lookup", key=0))["owner"] in {one.host.address for one in ring}
            assert await ring[2].ask("leave") == {"state": "leaving"}
            assert await ring[2].task == 0
            assert [await ring[0].get(number) for number in range(10)] == [[[7, "n", 1, str(n)]] for n in range(10)]
            with pytest.raises(NetError, match="no node runs in"):
                await ring[2].ask("status")

    asyncio.run(check())


def test_a_killed_node_comes_back_with_what_it_had(tmp_path):
    async def check() -> None:
        async with hosts(tmp_path, 3) as ring:
            for number in range(10):
                await ring[0].put(number)
            await until((tmp_path / "h0" / "contacts").exists)
            before = await ring[0].ask("status")
            await ring[0].kill()
            ring[0].start()  # the founder: it must find the others' ring, not found another
            await until(lambda: ring[0].is_ready)
            after = await ring[0].ask("status")
            assert (after["address"], after["items"]) == (before["address"], before["items"])
            assert ring[0].said[-1] == "joined the ring"
            assert [await ring[0].get(number) for number in range(10)] == [[[7, "n", 1, str(n)]] for n in range(10)]

    asyncio.run(check())


def test_a_node_with_a_full_disk_says_so_and_leaves_and_nothing_is_lost(tmp_path):
    async def check() -> None:
        async with hosts(tmp_path, 4) as ring:
            full = ring[3]
            await full.kill()
            full.settings = replace(full.settings, limits=replace(LIMITS, disk_bytes_max=3_000))
            full.start()
            await until(lambda: full.is_ready)
            number = 0
            while not full.task.done():
                await ring[number % 3].put(number, 300)
                number += 1
                assert number < 200
            assert await full.task == 1
            assert any(line.startswith("this node leaves: ") and "the disk is full" in line for line in full.said)
            for one in range(number):
                assert await ring[0].get(one) == [[7, "n", 1, str(one) * 300]]

    asyncio.run(check())


@pytest.mark.parametrize("shift", [-60.0, 60.0])
def test_whoever_joins_with_a_wrong_clock_says_so_and_leaves(tmp_path, shift):
    async def check() -> None:
        async with hosts(tmp_path, 2) as ring:
            settings = replace(ring[1].settings, folder=tmp_path / "new", listen=Endpoint("127.0.0.1", free_port()))
            late = Running(settings)
            late.shift_seconds = shift
            assert await late.task == 1
            assert f"60 seconds {'ahead' if shift < 0 else 'behind'}" in late.said[-1]
            assert "the clock of this machine is wrong" in late.said[-1]
            assert all(one.is_ready and not one.task.done() for one in ring)

    asyncio.run(check())


def test_a_clock_that_jumps_makes_its_node_leave_and_no_other(tmp_path):
    async def check() -> None:
        async with hosts(tmp_path, 4) as ring:
            await until(lambda: all(len(one.host.driver.peers()) >= 2 for one in ring))
            ring[2].shift_seconds = 60.0
            assert await ring[2].task == 1
            assert any("the clock of this machine is wrong" in line for line in ring[2].said)
            await asyncio.sleep(0.5)
            assert not any(one.task.done() for one in ring if one is not ring[2])

    asyncio.run(check())


def test_what_a_node_refuses_is_counted_and_told_to_its_operator(tmp_path):
    async def check() -> None:
        async with hosts(tmp_path, 1) as (one,):
            connection = await connect(one.settings.listen, None, client_context(), LIMITS)
            connection.writer.write(frame(b"nonsense"))
            await until(lambda: any(line.startswith("refused (malformed) from 127.0.0.1:") for line in one.said))
            connection.close()
            assert (await one.ask("status"))["counts"]["malformed"] == 1

    asyncio.run(check())


def test_what_is_asked_wrongly_is_said(tmp_path):
    async def check() -> None:
        async with hosts(tmp_path, 1) as (one,):
            wrong: list[dict[str, Any]] = [
                {"do": "dance"}, {}, {"do": "lookup"}, {"do": "lookup", "key": -1}, {"do": "lookup", "key": 1 << 64},
                {"do": "put", "key": 1, "kind": 1 << 16, "name": "", "version": 1, "value": ""},
                {"do": "put", "key": 1, "kind": 7, "name": "", "version": "1", "value": ""}, {"do": ["status"]},
            ]  # fmt: skip
            for request in wrong:
                answer = await asyncio.to_thread(control.ask, one.settings.folder, request)
                assert answer["error"].startswith("not understood"), request
            assert (await one.ask("status"))["state"] == "in the ring"
            assert (one.settings.folder / "control").stat().st_mode & 0o777 == 0o600

    asyncio.run(check())


def test_nodes_of_one_process_leave_its_umask_alone(tmp_path):
    """Files that others of this process make while nodes start keep the modes that their makers meant."""

    async def check() -> None:
        folders = [tmp_path / str(number) for number in range(8)]
        for folder in folders:
            folder.mkdir()
        servers = await asyncio.gather(*(control.listen(folder, {}) for folder in folders))
        for server in servers:
            server.close()

    before = os.umask(0o027)
    try:
        asyncio.run(check())
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


# --- the folder ------------------------------------------------------------------------------------------------------


def test_one_process_owns_a_folder(tmp_path):
    with locked(tmp_path), pytest.raises(SettingError, match="a node runs in"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_each_life_has_another_number(tmp_path):
    assert [next_life(tmp_path) for _ in range(3)] == [0, 1, 2]


def test_a_bootstrap_list(tmp_path):
    path = tmp_path / "list"
    path.write_text("# our nodes\n127.0.0.1:1  # the first\n\n [::1]:2\n")
    assert read_contacts(path) == ("127.0.0.1:1", "[::1]:2")
    with pytest.raises(SettingError, match="cannot be read"):
        read_contacts(tmp_path / "none")


def test_names_of_contacts_are_asked_for_until_somebody_answers(tmp_path):
    async def check() -> None:
        said: list[str] = []
        ports = [free_port(), free_port()]
        asking = asyncio.create_task(resolve([f"127.0.0.1:{port}" for port in ports], LIMITS, said.append))
        await until(lambda: bool(said))
        one = Running(HostSettings(tmp_path, Endpoint("127.0.0.1", ports[1]), chord=FAST))
        assert await asking == [open_identity(tmp_path).address(Endpoint("127.0.0.1", ports[1]))]
        assert len(said) == 1
        await one.kill()

    asyncio.run(check())


def test_a_name_is_not_asked_for(tmp_path):
    named = "a" * 32 + "@127.0.0.1:1"
    assert asyncio.run(resolve([named], DEFAULT_LIMITS, print)) == [named]
