"""The simulator: events a second of the world with bytes counted, messages a second of bulk, memory of 100,000 nodes.

Bars: the world at least 50,000 events/s; bulk at least 100 times that; 100,000 nodes in at most 2 GB.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
from functools import partial
from random import Random
from time import process_time
from typing import Any

import numpy as np

from tocsin.overlay.member import Router
from tocsin.overlay.multicast import Method
from tocsin.overlay.node import Effect
from tocsin.sim.bulk import Publications, count_casts
from tocsin.sim.checks import Note
from tocsin.sim.ring import Ring, fill, make_ring
from tocsin.sim.world import World


def megabytes() -> float:
    """Most memory that this process has had."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024, 1)


def look_up(key: int, node: Router, now: float) -> list[Effect]:
    """Asks for the owner of a key."""
    return node.chord.lookup(key, now)


def cast(number: int, keys: list[int], method: Method, node: Router, now: float) -> list[Effect]:
    """Publishes to the owners of keys."""
    return node.multicast.send(Note(number), keys, now, method)


def events_per_second(world: World) -> tuple[int, int]:
    """Runs all that is to happen: events, and events for each second of this process."""
    start = process_time()
    events = world.run()
    return events, round(events / (process_time() - start))


def world_rates(ring: Ring, lookups: int, documents: int, words: int) -> dict[str, Any]:
    """Lookups and publications sent by nodes, every message encoded, counted and hashed into the trace."""
    chance = Random(1)
    start = process_time()
    world = World(1)
    fill(world, ring)
    building = process_time() - start
    gc.freeze()
    found: dict[str, Any] = {"nodes": len(ring.keys), "build_seconds": round(building, 1), "megabytes": megabytes()}
    for _ in range(lookups):
        world.invoke(chance.choice(ring.addresses), partial(look_up, chance.getrandbits(64)))
    found["lookup_events"], found["lookup_events_per_second"] = events_per_second(world)
    for method in Method:
        before = world.count()[0]
        for number in range(documents):
            keys = [chance.getrandbits(64) for _ in range(words)]
            world.invoke(chance.choice(ring.addresses), partial(cast, number, keys, method))
        events, rate = events_per_second(world)
        casts = world.count()[0]["Cast"] - before["Cast"]
        found[f"{method}_casts"], found[f"{method}_events_per_second"] = casts, rate
        found[f"{method}_casts_per_second"] = round(casts * rate / events)
    messages, sizes = world.count()
    return found | {"messages": sum(messages.values()), "bytes": sum(sizes.values())}


def bulk_rates(ring: Ring, documents: int, words: int) -> dict[str, Any]:
    """Messages a second that are counted and not sent."""
    chance = np.random.default_rng(1)
    keys = chance.integers(0, 2**64, 200_000, dtype=np.uint64)
    some = np.concatenate([chance.choice(len(keys), words, replace=False) for _ in range(documents)]).astype(np.int32)
    origins = chance.integers(0, len(ring.keys), documents).astype(np.int32)
    made = Publications(origins, np.arange(documents + 1) * words, some, keys)
    first = Publications(origins[:1], made.first[:2], some, keys)
    found: dict[str, Any] = {}
    for method in Method:
        count_casts(ring, first, method)  # compiles
        start = process_time()
        traffic = count_casts(ring, made, method)
        found[f"{method}_messages_per_second"] = round(int(traffic.messages.sum()) / (process_time() - start))
    return found


def main() -> None:
    """One JSON object on standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    small = parser.parse_args().size == "small"
    ring = make_ring(10_000 if small else 100_000)
    world = world_rates(ring, 5_000 if small else 50_000, 2 if small else 10, 1_000)
    bulk = bulk_rates(ring, 20 if small else 200, 5_415)
    ratio = {
        method: round(bulk[f"{method}_messages_per_second"] / world[f"{method}_casts_per_second"]) for method in Method
    }
    print(json.dumps({"benchmark": "overlay", "world": world, "bulk": bulk, "bulk_times_world": ratio}))


if __name__ == "__main__":
    main()
