"""Counting equals sending: `bulk`, its twin in plain Python and the nodes themselves agree message by message."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tocsin.overlay.key import hashed
from tocsin.overlay.member import Router
from tocsin.overlay.multicast import Method, MulticastSettings
from tocsin.overlay.node import Effect
from tocsin.sim import bulk, bulk_reference
from tocsin.sim.bulk import Publications, Traffic, count_hops
from tocsin.sim.checks import Note
from tocsin.sim.ring import Ring, fill, make_ring
from tocsin.sim.world import World, constant


def publications(
    ring: Ring, seed: int, *, documents: int, words: int, vocabulary: int, publishers: int
) -> Publications:
    chance = np.random.default_rng(seed)
    some = [chance.choice(vocabulary, chance.integers(1, words + 1), replace=False) for _ in range(documents)]
    first = np.cumsum([0, *map(len, some)]).astype(np.int64)
    keys = np.array([hashed("word", f"{seed} {word}") for word in range(vocabulary)], dtype=np.uint64)
    keys[: min(3, len(ring.keys))] = ring.keys[:3]  # words on nodes' own keys
    origins = chance.integers(0, min(publishers, len(ring.keys)), documents).astype(np.int32)
    return Publications(origins, first, np.concatenate(some).astype(np.int32), keys)


def look_up(key: int, node: Router, now: float) -> list[Effect]:
    return node.chord.lookup(key, now)


def publish(note: Note, keys: list[int], node: Router, now: float) -> list[Effect]:
    return node.multicast.send(note, keys, now)


def sent(ring: Ring, made: Publications, method: Method, list_max: int, cache: int) -> Traffic:
    """The same by nodes that really send."""
    world = World(traces=False, latency=constant(0.01))
    patient = MulticastSettings(method, list_max, cache, receipt_seconds=1e9)
    fill(world, ring, multicast=patient)
    messages, receipts, latency = (np.zeros(len(made.origins), dtype=np.int64) for _ in range(3))
    load = np.zeros(len(ring.keys), dtype=np.int64)
    before = world.count()[0]
    for document, origin in enumerate(made.origins.tolist()):
        keys = made.keys[made.words[made.first[document] : made.first[document + 1]]].tolist()
        world.delivered.clear()
        world.invoke(ring.addresses[origin], partial(publish, Note(document), keys))
        world.run(world.now + 1e6)
        after = world.count()[0]
        messages[document] = after["Cast"] - before["Cast"]
        receipts[document] = after["Receipt"] - before["Receipt"]
        load[origin] -= receipts[document]
        notes = [effect for _, _, effect in world.delivered if isinstance(effect.what, Note)]
        assert sorted(key for effect in notes for key in effect.keys) == sorted(keys)
        latency[document] = max(effect.hops for effect in notes)
        before = after
    load += [world.places[address].received for address in ring.addresses]
    return Traffic(messages, receipts, latency, load)


def same(one: Traffic, other: Traffic) -> None:
    for name in ("messages", "receipts", "latency", "load"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("cache", [0, 25, 1_000])
@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("nodes", [1, 2, 3, 17, 200])
def test_bulk_counts_what_nodes_send(nodes, method, cache):
    ring = make_ring(nodes, f"{nodes}x")
    made = publications(ring, nodes, documents=12, words=40, vocabulary=120, publishers=3)
    counted = bulk.count_casts(ring, made, method, 7, cache)
    same(counted, bulk_reference.count_casts(ring, made, method, 7, cache))
    same(counted, sent(ring, made, method, 7, cache))


@pytest.mark.parametrize("seed", range(30))
def test_bulk_equals_its_twin(seed):
    chance = np.random.default_rng(seed)
    ring = make_ring(int(chance.integers(2, 500)), f"{seed}y")
    made = publications(ring, seed, documents=10, words=100, vocabulary=300, publishers=4)
    for method in Method:
        settings = method, int(chance.integers(1, 40)), int(chance.choice([0, 50, 150]))
        same(bulk.count_casts(ring, made, *settings), bulk_reference.count_casts(ring, made, *settings))


def test_hops_are_those_of_lookups():
    ring = make_ring(300)
    chance = np.random.default_rng(1)
    starts = chance.integers(0, 300, 200).astype(np.int32)
    keys = chance.integers(0, 2**64, 200, dtype=np.uint64)
    world = World(latency=constant(0.01))
    fill(world, ring)
    for start, key in zip(starts.tolist(), keys.tolist(), strict=True):
        world.invoke(ring.addresses[start], partial(look_up, key))
        world.run()
    assert count_hops(ring, starts, keys).tolist() == [effect.hops for _, _, effect in world.delivered]
