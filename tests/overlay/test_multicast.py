"""Multicast: every owner exactly once, by three methods, with and without a cache, while the ring changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from tests.overlay.test_chord import grow, join
from tocsin.overlay.fcache import FCache
from tocsin.overlay.key import hashed
from tocsin.overlay.member import Member, Router
from tocsin.overlay.message import Message, encode
from tocsin.overlay.multicast import Cast, Method, Multicast, MulticastSettings, Reached, Unreached
from tocsin.overlay.node import Effect, Send
from tocsin.sim.checks import Note, Scenario, run_ring, true_owner
from tocsin.sim.faults import FaultLimits, Faults
from tocsin.sim.ring import fill, make_ring
from tocsin.sim.world import Place, World, constant

WORDS = [hashed("word", str(number)) for number in range(300)]


@pytest.fixture(autouse=True)
def _bytes_are_compared(monkeypatch):
    """Whatever is sent: bytes taken over from the message before it are those that it would have had without."""
    send = World._send

    def checked(self: World, place: Place, to: str, message: Message) -> None:
        if isinstance(message, Cast) and message.hops > 1:
            assert encode(message) == encode(replace(message))
        send(self, place, to, message)

    monkeypatch.setattr(World, "_send", checked)


def cast(number: int, keys: list[int], method: Method, node: Router, now: float) -> list[Effect]:
    return node.multicast.send(Note(number), keys, now, method)


def had(world: World, number: int) -> list[tuple[str, int]]:
    """Who had which key of a message."""
    notes = [(who, effect) for _, who, effect in world.delivered if effect.what == Note(number)]
    return sorted((who, key) for who, effect in notes for key in effect.keys)


@pytest.mark.row("D5")
@pytest.mark.parametrize("cache", [0, 100])
@pytest.mark.parametrize("method", Method)
def test_each_recipient_exactly_once(method, cache):
    ring, world = make_ring(60), World(1)
    fill(world, ring, multicast=MulticastSettings(cache_entries_max=cache))
    for number in range(3):
        world.invoke("n7", partial(cast, number, WORDS, method))
        world.run(world.now + 100)
        assert had(world, number) == sorted((ring.addresses[ring.owner(key)], key) for key in WORDS)
    assert [effect.what for _, _, effect in world.delivered if isinstance(effect.what, Reached)] == [
        Reached(1), Reached(2), Reached(3)
    ]  # fmt: skip


@pytest.mark.row("D5")
def test_recursive_is_cheapest_iterative_fastest_hybrid_between_and_tunable():
    """DHTrie, "Content-Based Multicasting": the three methods trade traffic for latency; list size tunes."""
    ring = make_ring(500)

    def cost(method: Method, list_max: int = 30) -> tuple[int, int]:
        world = World(latency=constant(0.01))
        fill(world, ring, multicast=MulticastSettings(list_max=list_max, receipt_seconds=1e6))
        world.invoke("n1", partial(cast, 0, WORDS, method))
        world.run(1_000)
        return world.count()[0]["Cast"], max(effect.hops for _, _, effect in world.delivered)

    iterative, recursive = cost(Method.ITERATIVE), cost(Method.RECURSIVE)
    hybrids = [cost(Method.HYBRID, size) for size in (1, 3, 10, 30, 100)]
    assert recursive[0] < hybrids[3][0] < iterative[0]
    assert iterative[1] < hybrids[3][1] < recursive[1]
    assert hybrids[0] == iterative
    assert [messages for messages, _ in hybrids] == sorted((messages for messages, _ in hybrids), reverse=True)
    assert [latency for _, latency in hybrids] == sorted(latency for _, latency in hybrids)


@pytest.mark.parametrize("seed", range(6))
def test_exactly_once_while_members_come_and_go(seed):
    """No crash, no suspicion: then nobody may have a key twice, not even two owners one after the other."""
    limits = FaultLimits(0.0, 0.2, 0.2, 1.0, 0, 0.5, 0, 20.0, 0, 0.0, 0, 8, 6)
    outcome = run_ring(seed, Scenario(limits=limits, casts_per_second=3))
    assert not outcome.violations, str(outcome)


@pytest.mark.parametrize("forgets", [False, True])
def test_what_an_owner_had_changes_hands_with_the_key(forgets, monkeypatch):
    """A late copy reaches the new owner of a key, who never saw the first: it knows from the old owner."""
    if forgets:  # the same without the memory shows that the check can fail
        monkeypatch.setattr(Multicast, "items_in", lambda self, low, high: ())
    world, names = World(7), [f"n{number}" for number in range(6)]
    grow(world, names)
    world.invoke("n0", partial(cast, 0, WORDS, Method.RECURSIVE))
    world.run(world.now + 30)
    world.add("new", partial(join, "new", ["n0"]))
    world.run(world.now + 30)
    moved = [key for key in WORDS if true_owner([*names, "new"], key) == "new"]
    me = world.process("n0").me
    again = Cast(me, world.process("n0").multicast._last, tuple(moved), (), Note(0), 1, 0, 0, 1)
    world.invoke("n0", lambda node, now: [Send("n1", again)])
    world.run(world.now + 30)
    assert moved
    assert set(Counter(key for _, key in had(world, 0)).values()) == ({1, 2} if forgets else {1})


def test_lost_messages_are_sent_again_and_repeated_ones_had_once():
    world = World(5)
    grow(world, [f"n{number}" for number in range(10)])
    world.trouble(Faults(until=world.now + 30, loss=0.2, duplication=0.3, delayed=0.3, delay_seconds_max=1.0))
    for number, method in enumerate(Method):
        world.invoke("n3", partial(cast, number, WORDS[:40], method))
    world.run(world.now + 200)
    for number in range(3):
        assert Counter(key for _, key in had(world, number)) == dict.fromkeys(WORDS[:40], 1)


def test_what_cannot_be_reached_is_said():
    ring, world = make_ring(5), World(1, faults=Faults(until=1e9, loss=1.0))
    fill(world, ring, multicast=MulticastSettings(attempts_max=3))
    foreign = [key for key in WORDS if ring.addresses[ring.owner(key)] != "n2"]
    world.invoke("n2", partial(cast, 0, WORDS, Method.HYBRID))
    world.run()
    last = world.delivered[-1][2]
    assert isinstance(last.what, Unreached)
    assert sorted(last.keys) == sorted(foreign)


# --- FCache ----------------------------------------------------------------------------------------------------------


def test_the_cache_is_bounded_and_forgets_the_least_recently_used():
    cache = FCache(3)
    for key in (1, 2, 3):
        assert cache.use(key) == ""
        cache.learn(key, f"n{key}")
    assert cache.use(1) == "n1"
    cache.use(4)
    assert [key in cache for key in (1, 2, 3)] == [True, False, True]
    cache.learn(9, "n9")  # never used here: a receipt of somebody's else business
    assert 9 not in cache
    assert len(cache) == 3


def cached_ring() -> tuple[World, list[str]]:
    world, names = World(6), [f"n{number}" for number in range(10)]
    grow(world, names)
    node: Member = world.process("n0")
    node.multicast.cache = FCache(1_000)
    world.invoke("n0", partial(cast, 0, WORDS, Method.ITERATIVE))
    world.run(world.now + 30)
    return world, names


def traffic(world: World, number: int, method: Method = Method.ITERATIVE) -> Counter[str]:
    before = world.count()[0]
    world.invoke("n0", partial(cast, number, WORDS, method))
    world.run(world.now + 60)
    after = world.count()[0]
    return Counter({name: after[name] - before[name] for name in ("Cast", "Receipt")})


def test_a_known_address_takes_one_message():
    world, names = cached_ring()
    own = sum(true_owner(names, key) == "n0" for key in WORDS)
    assert traffic(world, 1)["Cast"] == len(WORDS) - own
    recipients = {true_owner(names, key) for key in WORDS} - {"n0"}
    assert traffic(world, 2, Method.RECURSIVE)["Cast"] == len(recipients)


def test_an_entry_of_a_range_that_moved_is_repaired_by_the_message_itself():
    """D6: stale entries repaired with no extra maintenance messages."""
    world, names = cached_ring()
    for number in range(10, 16):
        names.append(f"n{number}")
        world.add(names[-1], partial(join, names[-1], ["n0"]))
        world.run(world.now + 10)
    first, second = traffic(world, 1), traffic(world, 2)
    moved = sum(true_owner(names, key) not in names[:10] for key in WORDS)
    own = sum(true_owner(names, key) == "n0" for key in WORDS)
    assert moved > 0
    assert first["Cast"] > len(WORDS) - own  # a stale address costs a detour, and no other kind of message
    assert second["Cast"] == len(WORDS) - own
    for number in (1, 2):
        assert had(world, number) == sorted((true_owner(names, key), key) for key in WORDS)


def test_an_entry_of_a_dead_node_is_repaired_when_it_is_used():
    world, names = cached_ring()
    world.crash("n4")
    world.run(world.now + 40)
    alive = [name for name in names if name != "n4"]
    traffic(world, 1)
    assert had(world, 1) == sorted((true_owner(alive, key), key) for key in WORDS)
    own = sum(true_owner(alive, key) == "n0" for key in WORDS)
    traffic(world, 2)  # the retry asked the ring; from here on the cache knows
    assert traffic(world, 3)["Cast"] == len(WORDS) - own
