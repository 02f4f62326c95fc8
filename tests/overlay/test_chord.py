"""Chord on rings that stand and rings that change: hops, owners, hand-over, replicas."""

from __future__ import annotations

from functools import partial
from math import log2
from random import Random

import numpy as np
import pytest

from tocsin.overlay.chord import ChordSettings, Found
from tocsin.overlay.items import Put, Replicate, Replicated, Store, Values
from tocsin.overlay.key import hashed, host_of
from tocsin.overlay.member import Member, Router
from tocsin.overlay.membership import Joined, Left, Refused
from tocsin.overlay.message import Item, Message, Peer, peer
from tocsin.overlay.node import Deliver, Effect, Node, Send
from tocsin.sim.bulk import count_hops
from tocsin.sim.checks import Note, Scenario, run_ring, true_owner
from tocsin.sim.faults import FaultLimits
from tocsin.sim.ring import fill, make_ring
from tocsin.sim.world import World, constant


def look_up(key: int, is_iterative: bool, node: Router, now: float) -> list[Effect]:
    return node.chord.lookup(key, now, is_iterative=is_iterative)


def join(name: str, contacts: list[str], disk: dict[bytes, bytes], life: int) -> Member:
    return Member(name, contacts, disk=disk, incarnation=life)


def grow(world: World, names: list[str], seconds: float = 40.0) -> None:
    """Members join one after the other."""
    for name in names:
        world.add(name, partial(join, name, [] if name == names[0] else [names[0]]))
        world.run(world.now + 1)
    world.run(world.now + seconds)


def found(world: World) -> dict[tuple[str, int], Peer | None]:
    return {(who, one.what.key): one.what.owner for _, who, one in world.delivered if isinstance(one.what, Found)}


@pytest.mark.parametrize("power", range(4, 13))
@pytest.mark.parametrize("is_iterative", [False, True])
def test_half_of_the_logarithm_of_hops(power, is_iterative):
    """Chord §6.3: a lookup takes ½ log2 N hops on average to the key's predecessor; one more reaches the owner."""
    ring, world, chance = make_ring(2**power), World(traces=False, latency=constant(0.01)), Random(power)
    fill(world, ring)
    for _ in range(800):
        world.invoke(chance.choice(ring.addresses), partial(look_up, chance.getrandbits(64), is_iterative))
    world.run()
    assert len(world.delivered) == 800
    for _, _, effect in world.delivered:
        assert effect.what.owner.address == ring.addresses[ring.owner(effect.what.key)]
    mean = np.mean([effect.hops for _, _, effect in world.delivered])
    assert abs(mean - (power / 2 + 1)) < 0.5


@pytest.mark.row("D2")
@pytest.mark.parametrize("power", range(4, 18))
def test_hops_grow_with_the_logarithm_up_to_131072_nodes(power):
    """D2, counted (`sim.bulk` equals the nodes, see tests/sim/test_bulk.py)."""
    ring, chance = make_ring(2**power), np.random.default_rng(power)
    starts = chance.integers(0, 2**power, 5_000).astype(np.int32)
    hops = count_hops(ring, starts, chance.integers(0, 2**64, 5_000, dtype=np.uint64))
    assert abs(hops.mean() - (power / 2 + 1)) < 0.35
    assert hops.max() <= 2 * power


@pytest.mark.row("D2")
@pytest.mark.parametrize("seed", range(6))
def test_every_lookup_finds_the_true_owner_after_churn(seed):
    """Members join, leave and crash while messages are cast; at the end every node looks up every key."""
    limits = FaultLimits(joins_max=6, leaves_max=4, crashes_max=3, partitions_max=0)
    outcome = run_ring(seed, Scenario(limits=limits))
    assert not outcome.violations, str(outcome)


def test_a_ring_of_one_two_three():
    names = ["a", "b", "c"]
    for many in (1, 2, 3):
        world = World(1)
        grow(world, names[:many])
        keys = [hashed("word", str(number)) for number in range(30)]
        for name in names[:many]:
            for key in keys:
                world.invoke(name, partial(look_up, key, False))
        world.run(world.now + 10)
        answers = found(world)
        for name in names[:many]:
            assert [answers[name, key].address for key in keys] == [true_owner(names[:many], key) for key in keys]  # type: ignore[union-attr]


def test_items_move_with_their_keys_when_nodes_join_and_leave():
    world, names = World(2), [f"n{number}" for number in range(8)]
    grow(world, names[:4])
    items = [Item(hashed("word", str(number)), 50, b"q", 1, b"v") for number in range(40)]
    answers: list[object] = []

    def put(item: Item, node: Member, now: float) -> list[Effect]:
        def then(answer: tuple[Item, ...] | None, now: float) -> list[Effect]:
            answers.append(answer)
            return []

        return node.items.put([item], now, then)

    for item in items:
        world.invoke("n0", partial(put, item))
    world.run(world.now + 5)
    assert answers == [()] * 40
    for name in names[4:]:
        world.add(name, partial(join, name, ["n0"]))
    world.run(world.now + 40)
    for item in items:
        assert item in world.process(true_owner(names, item.key)).items.store.at(item.key)
        assert sum(item in world.process(name).items.store.at(item.key) for name in names) >= 3
    for name in names[:4]:
        world.invoke(name, lambda node, now: node.membership.leave(now))
        world.run(world.now + 20)
        assert (name, Left) in [(who, type(effect.what)) for _, who, effect in world.delivered]
        world.remove(name)
    world.run(world.now + 40)
    for item in items:
        holders = [name for name in names[4:] if item in world.process(name).items.store.at(item.key)]
        assert true_owner(names[4:], item.key) in holders
        assert len(holders) == 3  # copies that nobody needs any more have been dropped


def test_a_removed_item_stays_removed():
    world, names = World(3), ["a", "b", "c", "d"]
    grow(world, names)
    key, answers = hashed("word", "x"), list[object]()

    def then(answer: tuple[Item, ...] | None, now: float) -> list[Effect]:
        answers.append(answer)
        return []

    for version, value in ((1, b"v"), (2, None), (1, b"v")):
        item = Item(key, 50, b"q", version, value)
        world.invoke("a", lambda node, now, item=item: node.items.put([item], now, then))  # type: ignore[misc]
        world.run(world.now + 5)
    world.invoke("b", lambda node, now: node.items.get(key, now, then))
    world.run(world.now + 5)
    assert answers == [(), (), (), ()]


def test_virtual_nodes_keep_copies_on_different_hosts():
    outcome = run_ring(3, Scenario(members=6, virtual=3, casts_per_second=0.2))
    assert not outcome.violations, str(outcome)  # "thin" counts hosts


def test_replicas_are_on_hosts_of_their_own():
    node = Member("h#0")
    others = [
        Peer((node.me.key + step) % 2**64, address) for step, address in enumerate(["h#1", "i#0", "i#1", "j#0"], 1)
    ]
    node.chord.table.set_successors(others)
    assert [host_of(peer.address) for peer in node.items.replicas()] == ["i", "j"]


def test_copies_are_made_again_of_more_than_fits_a_message():
    """A replica that lost everything gets it back page by page, and so does one that kept every other item."""
    settings = ChordSettings(replicas=2, page_items_max=20)
    world = World(8)
    for name in "abcd":
        contacts = [] if name == "a" else ["a"]
        world.add(name, lambda disk, life, name=name, contacts=contacts: Member(name, contacts, chord=settings))  # type: ignore[misc]
        world.run(world.now + 5)
    world.run(world.now + 30)
    nodes: list[Member] = [world.process(name) for name in "abcd"]
    for number in range(600):
        item = Item(hashed("word", str(number)), 50, b"q", 1, b"v")
        owner = next(node for node in nodes if node.chord.owns(item.key))
        holders = [owner, world.process(owner.items.replicas()[0].address)] if number % 2 else [owner]
        for node in holders:
            node.items.store.merge(item)
    world.run(world.now + 250)
    assert sum(node.items.store.count for node in nodes) == 2 * 600


@pytest.mark.row("Y10")
@pytest.mark.parametrize("queries", [50_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_the_table_does_not_grow_with_what_is_stored(queries):
    """Y10: table size constant while queries go 0 → 1e6."""
    world, names = World(4), [f"n{number}" for number in range(24)]
    grow(world, names, 60)
    node: Member = world.process("n5")
    before = node.chord.table.size(), len(node.chord.table.known())
    node.items.take([Item(hashed("word", str(number)), 50, b"q", 1, b"v") for number in range(queries)], world.now)
    assert node.items.store.count == queries
    world.run(world.now + 6)
    assert (node.chord.table.size(), len(node.chord.table.known())) == before
    assert before[1] <= 2 * log2(24)


def test_a_node_of_the_same_key_is_refused():
    world = World(5)
    grow(world, ["a", "b", "c"])
    twin = Member("twin", ["a"])
    twin.me = Peer(world.process("b").me.key, "twin")
    for part in (twin.chord, twin.membership, twin.chord.table, twin.items, twin.multicast):
        part.me = twin.me
    world.add("twin", lambda disk, life: twin)
    world.run(world.now + 10)
    kinds = [type(effect.what) for _, who, effect in world.delivered if who == "twin"]
    assert Refused in kinds
    assert Joined not in kinds


def test_what_no_component_takes_is_dropped_and_counted():
    node = Node(Peer(1, "a"))
    assert node.handle(Note(1), 0.0) == []
    assert node.dropped == 1


def test_components_take_what_reaches_the_owner():
    ring, world = make_ring(20), World()
    fill(world, ring)
    had: list[tuple[str, int]] = []

    def receiver(name: str, what: Note, keys: tuple[int, ...], hops: int, now: float) -> list[Effect]:
        had.append((name, what.number))
        return []

    for address in ring.addresses:
        world.process(address).receive(Note, partial(receiver, address))
    key = hashed("word", "peer")
    world.invoke("n0", lambda node, now: node.chord.route(key, Note(3), now))
    world.run()
    assert had == [(ring.addresses[ring.owner(key)], 3)]
    assert not world.delivered


def test_equal_inputs_give_equal_effects():
    """The node has no chance or clock of its own: two of them in the same position say the same."""

    def effects() -> list[Effect]:
        node, all_effects = Member("a", ["b"]), list[Effect]()
        all_effects += node.start(0.0)
        for tick in range(20):
            all_effects += node.wake(("membership",), float(tick))
        return all_effects

    assert effects() == effects()
    assert not any(isinstance(effect, Deliver) for effect in effects())
    assert isinstance(Note(1), Message)


def test_a_digest_that_was_kept_is_that_of_the_items_that_are_there():
    chance, store, left = Random(2), Store(), list[Item]()
    for turn in range(400):
        item = Item(chance.randrange(50), 7, b"%d" % chance.randrange(3), turn, b"v")
        if chance.random() < 0.2:
            store.drop(item.key)
            left = [one for one in left if one.key != item.key]
        else:
            store.merge(item)
            left = [one for one in left if (one.key, one.name) != (item.key, item.name)] + [item]
        fresh = Store()
        for one in left:
            fresh.merge(one)
        for low, high in ((0, 25), (25, 49), (40, 10), (chance.randrange(50), chance.randrange(50))):
            assert store.marks_in(low, high) == fresh.marks_in(low, high)


def in_the_middle() -> tuple[Member, Peer, Peer]:
    """A node that owns the range between two others, and does not know any more."""
    low, me, after = sorted((peer(name) for name in "abc"), key=lambda one: one.key)
    node = Member(me.address, [low.address])
    node.chord.is_placed = node.chord.is_ready = True
    node.chord.predecessor = low
    node.chord.table.set_successors([after])
    return node, low, after


def test_a_put_is_answered_when_the_first_replica_has_nobody_between():
    node, low, after = in_the_middle()
    item, values = Item(node.me.key, 7, b"name", 1, b"value"), list[list[Effect]]()
    for number, before in enumerate((None, low, node.me), 1):
        [sent] = node.chord.route(item.key, Put(number, low, (item,)), 1.0)
        assert isinstance(sent, Send)
        assert isinstance(sent.message, Replicate)
        values.append(node.handle(Replicated(sent.message.number, after, before), 1.1))
    assert values == [[], [], [Send(low.address, Values(3, ()))]]
