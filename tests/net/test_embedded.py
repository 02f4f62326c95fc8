"""A node inside another program: two of them share a ring, and a component of the program's own."""

from __future__ import annotations

import time
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.net.rings import FAST, true_owner
from tests.ports import free_port
from tocsin.net.disk import Journal
from tocsin.net.embedded import Embedded
from tocsin.net.host import HostSettings
from tocsin.net.identity import Endpoint
from tocsin.net.limits import NetError
from tocsin.overlay.key import hashed
from tocsin.overlay.member import Member
from tocsin.overlay.message import Item
from tocsin.overlay.node import Deliver
from tocsin.sim.checks import Note

KEYS = [hashed("word", f"w{number}") for number in range(20)]


def settings(folder: Path, contacts: tuple[str, ...] = ()) -> HostSettings:
    return HostSettings(folder, Endpoint("127.0.0.1", free_port()), contacts=contacts, chord=FAST)


def test_two_programs_share_a_ring(tmp_path):
    heard: SimpleQueue[tuple[str, Deliver]] = SimpleQueue()
    watched: SimpleQueue[Item] = SimpleQueue()

    def equip(member: Member, disk: Journal, life: int) -> None:
        member.items.watch(7, watched.put)

    one = Embedded(settings(tmp_path / "a"), print, equip=equip, on_deliver=lambda effect: heard.put(("a", effect)))
    with one:
        where = one.address.partition("@")[2]
        two = Embedded(
            settings(tmp_path / "b", (where,)), print, equip=equip, on_deliver=lambda effect: heard.put(("b", effect))
        )
        with two:
            start = time.monotonic()
            while not two.is_ready:
                assert time.monotonic() - start < 30
                time.sleep(0.01)
            two.call(lambda member, now: member.multicast.send(Note(5), KEYS, now))
            had: dict[str, list[int]] = {"a": [], "b": []}
            while sum(map(len, had.values())) < len(KEYS):
                who, effect = heard.get(timeout=30)
                if effect.what == Note(5):
                    had[who] += effect.keys
            both = [one.address, two.address]
            assert sorted(had["a"]) == sorted(key for key in KEYS if true_owner(both, key) == one.address)
            assert sorted(had["b"]) == sorted(key for key in KEYS if true_owner(both, key) == two.address)
            item = Item(KEYS[0], 7, b"n", 1, b"v")
            one.call(lambda member, now: member.items.put([item], now, lambda items, now: []))
            assert [watched.get(timeout=30), watched.get(timeout=30)] == [
                item,
                item,
            ]  # at the owner, and at its replica
        assert two.ended.result() == 0
        with pytest.raises(NetError, match="has left"):
            two.call(lambda member, now: [])
    assert one.ended.result() == 0


def test_what_keeps_it_from_beginning_is_raised(tmp_path):
    with (
        Embedded(settings(tmp_path), print) as one,
        pytest.raises(NetError, match="cannot listen"),
        Embedded(HostSettings(tmp_path / "b", Endpoint("127.0.0.1", int(one.address.rpartition(":")[2]))), print),
    ):
        pass
