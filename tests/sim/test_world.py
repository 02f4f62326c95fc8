"""The world: repeatable, general, and its checks find planted bugs."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tocsin.overlay.chord import Chord
from tocsin.overlay.items import Items
from tocsin.overlay.membership import Membership
from tocsin.overlay.multicast import Multicast
from tocsin.overlay.node import Deliver, Effect, Send, Wake
from tocsin.sim.checks import Note, Scenario, run_ring
from tocsin.sim.faults import Crash, FaultLimits, Faults, Partition, draw_faults
from tocsin.sim.world import Plane, World, constant

SHORT = Scenario(members=7, fault_seconds=30, heal_seconds=60, casts_per_second=1)


# --- repeatable ------------------------------------------------------------------------------------------------------


@pytest.mark.row("X3")
def test_equal_seeds_give_equal_traces_whatever_the_hash_seed():
    """X3: two runs, same seed: identical message logs. In processes, as sets may differ there."""
    code = "from tocsin.sim.checks import *; print(run_ring(3, Scenario(members=7, fault_seconds=30)).trace)"
    traces = []
    for hash_seed in ("0", "1", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        traces.append(run.stdout)
    assert traces[0] == traces[1] == traces[2] != ""


def test_other_seeds_give_other_traces_and_faults():
    assert run_ring(1, SHORT).trace != run_ring(2, SHORT).trace
    assert len({str(draw_faults(seed, ["a", "b", "c"], 60)) for seed in range(50)}) == 50


def test_a_run_leaves_the_collector_of_garbage_as_it_was():
    before = gc.get_threshold()
    world, seen = World(1), list[tuple[int, int, int]]()
    world.at(1.0, lambda world: seen.append(gc.get_threshold()))
    world.at(2.0, lambda world: world.remove("nobody"))
    with pytest.raises(KeyError):
        world.run()
    assert seen != [before] == [gc.get_threshold()]


# --- the network -----------------------------------------------------------------------------------------------------


class Echo:
    """Answers a number with the next one, and keeps what it had."""

    def __init__(self, disk: dict[bytes, bytes], life: int, to: str = "b") -> None:
        self.disk, self.life, self.to = disk, life, to
        self.clock: list[float] = []

    def start(self, now: float) -> list[Effect]:
        return [Wake(now + 1.0, ("echo",)), Deliver((self.life, len(self.disk)))]

    def handle(self, message: Note, now: float) -> list[Effect]:
        self.disk[b"%d" % message.number] = b""
        self.clock.append(now)
        return [Deliver(message.number)]

    def wake(self, token: tuple[Any, ...], now: float) -> list[Effect]:
        self.clock.append(now)
        return [Send(self.to, Note(len(self.clock))), Wake(now + 1.0, ("echo",))]


def pair(faults: Faults, seconds: float = 60.0) -> World:
    world = World(1, faults=faults, latency=constant(0.25))
    world.add("a", lambda disk, life: Echo(disk, life, "b"))
    world.add("b", lambda disk, life: Echo(disk, life, "a"))
    world.schedule()
    world.run(seconds)
    return world


def numbers(world: World, address: str) -> list[float]:
    return [time for time, who, effect in world.delivered if who == address and isinstance(effect.what, int)]


def test_nothing_is_lost_without_faults():
    world = pair(Faults())
    assert numbers(world, "b") == [number + 1.25 for number in range(59)]
    assert (world.lost, world.count()[0]["Note"]) == (0, 120)
    assert world.count()[1]["Note"] == 120 * 6  # array, version, three bytes of tag, a small number


@pytest.mark.parametrize(
    ("faults", "least", "most"),
    [
        (Faults(until=100, loss=0.5), 15, 45),
        (Faults(until=100, duplication=0.5), 75, 110),
        (Faults(until=30, loss=1.0), 29, 30),
        (Faults(until=100, partitions=(Partition(10, 40, frozenset("a"), False),)), 29, 30),
        (Faults(until=100, partitions=(Partition(10, 40, frozenset("b"), True),)), 29, 30),
        (Faults(until=100, partitions=(Partition(10, 40, frozenset("a"), True),)), 59, 59),
        (Faults(until=100, slow={"b": 2.0}), 28, 30),
    ],
)
def test_each_fault_does_what_it_says(faults, least, most):
    assert least <= len(numbers(pair(faults), "b")) <= most


def test_late_messages_are_overtaken():
    world = pair(Faults(until=100, delayed=0.5, delay_seconds_max=5))
    order = [effect.what for _, who, effect in world.delivered if who == "b" and isinstance(effect.what, int)]
    assert order != sorted(order)


@pytest.mark.parametrize(("keeps_disk", "kept"), [(True, 9), (False, 0)])
def test_a_crash_takes_the_memory_and_perhaps_the_disk(keeps_disk, kept):
    world = pair(Faults(until=100, crashes=(Crash(10.0, "b", 20.0, keeps_disk),)))
    starts = [effect.what for _, who, effect in world.delivered if who == "b" and isinstance(effect.what, tuple)]
    assert starts == [(0, 0), (1, kept)]
    assert not [time for time in numbers(world, "b") if 10 <= time < 20]


def test_a_wrong_clock_is_seen_by_its_owner_only():
    world = pair(Faults(until=100, skews={"b": (50.0, 0.1)}))
    assert world.process("b").clock[0] == pytest.approx(50 + 1.0, abs=0.3)
    assert 60 * 1.1 - 3 < len(world.process("b").clock) - len(numbers(world, "b")) < 60 * 1.1 + 3


def test_far_is_slow_and_links_are_alike_both_ways():
    plane, chance = Plane(3), Random(1)
    some = [(chance.randrange(50), chance.randrange(50)) for _ in range(100)]
    assert [plane(a, b) for a, b in some] == [plane(b, a) for a, b in some]
    assert 0.005 <= min(plane(a, b) for a, b in some) < max(plane(a, b) for a, b in some) <= 0.005 + 0.15


# --- two phases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_nothing_wrong_then_everything_converges(seed):
    outcome = run_ring(seed)
    assert not outcome.violations, str(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_400))
def test_nothing_wrong_then_everything_converges_on_many_seeds(seed):
    outcome = run_ring(seed)
    assert not outcome.violations, str(outcome)


def forgetful(self: Multicast, name: Any, keys: Any, *rest: Any) -> list[Effect]:
    self._memory = {name: set()}
    return self.node.deliver(rest[0], keys, *rest[1:])


BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "an owner forgets what it had": (Multicast, "_have", forgetful),
    "a receipt that is not waited for": (Multicast, "wake", lambda self, token, now: []),
    "a joiner gets nothing": (Items, "items_in", lambda self, low, high: ()),
    "no copies": (Items, "replicas", lambda self: []),
    "the dead are not noticed": (Membership, "_lose", lambda self, peer, now: []),
    "ownership guessed": (Chord, "owns", lambda self, key: self.stands(key, 1) is not False),
    "never in doubt": (Membership, "_is_in_doubt", lambda self: False),
}  # fmt: skip
CALM = FaultLimits(0.0, 0.2, 0.2, 1.0, 0, 0.5, 0, 20.0, 0, 0.0, 0, 8, 6)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug, monkeypatch):
    owner, name, wrong = BUGS[bug]
    monkeypatch.setattr(owner, name, wrong)
    scenarios = [Scenario(), Scenario(limits=CALM, casts_per_second=3)]
    for seed in range(12):
        if any(run_ring(seed, scenario).violations for scenario in scenarios):
            return
    pytest.fail(f"{bug}: 24 runs and no violation")
