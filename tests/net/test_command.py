"""`tocsin node` as a person uses it; running nodes are in tests/process/test_nodes.py."""

from __future__ import annotations

import argparse
import asyncio

import pytest

from tests.net.rings import FAST, until
from tests.ports import free_port
from tocsin.cli import node
from tocsin.errors import SettingError
from tocsin.net.host import Host, HostSettings
from tocsin.net.identity import Endpoint
from tocsin.net.limits import NetError


def tocsin_node(*words: str) -> int:
    parser = argparse.ArgumentParser()
    node.arguments(parser)
    return node.run(parser.parse_args(words))


def test_status_tells_how_a_node_is(tmp_path, capsys):
    async def check() -> str:
        host = Host(HostSettings(tmp_path, Endpoint("127.0.0.1", free_port()), chord=FAST), print)
        running = asyncio.create_task(host.run())
        await until(lambda: host.member is not None and host.member.chord.is_ready)
        capsys.readouterr()
        assert await asyncio.to_thread(tocsin_node, "status", "--data", str(tmp_path)) == 0
        shown = capsys.readouterr().out
        assert await asyncio.to_thread(tocsin_node, "status", "--data", str(tmp_path), "--json") == 0
        host.stop()
        assert await running == 0
        assert shown.startswith(f"{host.address}\nstate        in the ring\n")
        assert "owns its range" in shown
        return host.address

    assert f'"address": "{asyncio.run(check())}"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["join"], "join needs a node of the ring"),
        (["join", "somewhere"], "is no node"),
        (["run", "--listen", "8048"], "is no HOST:PORT"),
        (["run", "--advertise", "host"], "is no HOST:PORT"),
        (["run", "--tick", "0"], "must be more than 0"),
        (["join", "--bootstrap", "missing"], "missing cannot be read"),
    ],
)
def test_what_cannot_work_is_said(tmp_path, monkeypatch, words, complaint):
    monkeypatch.chdir(tmp_path)
    port = ["--listen", f"127.0.0.1:{free_port()}"] if "--listen" not in words else []
    with pytest.raises(SettingError, match=complaint):
        tocsin_node(*words, *port)


def test_the_status_of_no_node_says_how_to_start_one(tmp_path):
    with pytest.raises(NetError, match="start one with `tocsin node run`"):
        tocsin_node("status", "--data", str(tmp_path))


def test_a_port_that_is_taken_is_said(tmp_path):
    async def taken() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NetError, match="cannot listen at"):
            await Host(HostSettings(tmp_path, Endpoint("127.0.0.1", port)), print).run()
        server.close()

    asyncio.run(taken())
