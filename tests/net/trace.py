"""A script for a ring, step by step, that runs alike in the false world, in drivers and in processes (X4).

A step is a list of plain values: what, which node, arguments. After each step everything that follows from it happens
before the next begins, in turns (`turns`). Ticks are steps: nothing depends on how fast a machine is.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from tests.net.rings import Scripted
from tests.net.turns import InTurns, settle
from tocsin.model import Document
from tocsin.overlay import message as codec
from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.member import Member
from tocsin.overlay.message import Address, Item
from tocsin.overlay.multicast import Method, MulticastSettings
from tocsin.overlay.node import Effect
from tocsin.overlay.placement.words import Words
from tocsin.query.semantics import Knowledge
from tocsin.sim.checks import Note
from tocsin.sim.world import Latency, World, constant

Step = list[Any]
STEP_SECONDS = 0.37
"""Between two steps. No number of steps lasts as long as any patience of a node, nor a message's flight longer: so it
does not matter that a message takes a little time in the world, and none by a script's clock."""
LATENCY_SECONDS = 0.001
LATENCY = constant(LATENCY_SECONDS)
CHORD = ChordSettings(successors=4, fingers_per_tick=8)
KNOWLEDGE = Knowledge()
WORDS = [f"word{number}" for number in range(12)]
CACHE = MulticastSettings(cache_entries_max=20, list_max=4)


def script(seed: int, nodes: int, actions: int) -> list[Step]:
    """Joins, each with ticks until its place is settled; then all that a ring is for; then a leave."""
    chance = Random(f"trace {seed}")
    steps: list[Step] = []
    for node in range(nodes):
        steps.append(["add", node])
        for _ in range(3):
            steps += [["tick", one] for one in range(node + 1)]
    keys = [chance.getrandbits(64) for _ in range(30)]
    for number in range(actions):
        who, key = chance.randrange(nodes), chance.choice(keys)
        steps.append(chance.choice([
            ["put", who, key, number], ["get", who, key], ["lookup", who, key, False], ["lookup", who, key, True],
            ["cast", who, number, chance.sample(keys, 6), chance.choice(list(Method))], ["tick", who],
            ["subscribe", who, f"s{number}", " ".join(chance.sample(WORDS, 2))],
            ["publish", who, f"d{number}", " ".join(chance.sample(WORDS, 4))],
        ]))  # fmt: skip
    steps.append(["leave", chance.randrange(1, nodes)])
    return steps + [["tick", one] for _ in range(3) for one in range(nodes)]


def time_of(step: int) -> float:
    """When a step begins, by every node's clock."""
    return step * STEP_SECONDS


def member(addresses: list[Address], node: int) -> InTurns:
    """The node of an "add" step; the first founds the ring, the others ask it."""
    one = Member(addresses[node], addresses[: min(node, 1)], chord=CHORD, multicast=CACHE)
    return InTurns(Scripted(one, Words(one, KNOWLEDGE)))


def act(node: InTurns, step: Step, now: float) -> list[Effect]:
    """What a node does in a step."""
    process: Scripted = node.process
    one, (what, _, *rest) = process.member, step
    effects: list[Effect]
    if what == "tick":
        effects = [] if one.chord.is_gone else [*one.membership.tick(now), *one.items.tick(now)]
    elif what == "put":
        effects = one.items.put([Item(rest[0], 7, b"n", rest[1], b"v%d" % rest[1])], now, lambda items, now: [])
    elif what == "get":
        effects = one.items.get(rest[0], now, lambda items, now: [])
    elif what == "lookup":
        effects = one.chord.lookup(rest[0], now, is_iterative=rest[1])
    elif what == "cast":
        effects = one.multicast.send(Note(rest[0]), rest[1], now, Method(rest[2]))
    elif what == "subscribe":
        effects = process.words.subscriber.subscribe(rest[0], rest[1], now)
    elif what == "publish":
        effects = process.words.publisher.publish(Document(rest[0], {"title": (rest[1],)}), now)
    else:
        effects = one.membership.leave(now)
    return process.still(effects)


def in_the_world(
    steps: list[Step], addresses: list[Address], latency: Latency = LATENCY
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Messages and bytes by type, and what was delivered, in the false world."""
    world = World(1, latency=latency, decode=codec.decode)
    for number, step in enumerate(steps):
        if step[0] == "add":
            node = step[1]
            world.add(addresses[node], lambda disk, life, node=node: member(addresses, node))  # type: ignore[misc]
        else:
            world.invoke(addresses[step[1]], lambda process, now, step=step: act(process, step, now))  # type: ignore[misc]
        settle(world)
        world.run(time_of(number + 1))
    assert world.lost == 0
    return *world.count(), Counter(delivered(address, effect) for _, address, effect in world.delivered)


def delivered(address: Address, effect: Any) -> str:
    """A delivery as text."""
    return f"{address} {type(effect.what).__name__} {effect.what} {effect.keys} {effect.hops}"
