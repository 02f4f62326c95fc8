"""Rings that are there at once: every table is filled in, nobody joins.

For experiments on rings that do not change: 100,000 nodes share their peers, so a node costs about two kilobytes.
`Ring` is also what `sim.bulk` counts on.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.key import BITS, hashed
from tocsin.overlay.member import CHORD, MULTICAST, Router
from tocsin.overlay.message import Peer
from tocsin.overlay.multicast import MulticastSettings
from tocsin.sim.world import World

Keys = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Ring:
    """Nodes in the order of their keys; finger[i, b] is the owner of the key 2^b after node i."""

    addresses: tuple[str, ...]
    keys: Keys
    finger: Indices

    def owner(self, key: int) -> int:
        """The first node at or after a key."""
        return int(np.searchsorted(self.keys, np.uint64(key))) % len(self.keys)


def make_ring(nodes: int, name: str = "n") -> Ring:
    """A ring of nodes with addresses that differ in a number; another name, another ring."""
    named = sorted((hashed("node", f"{name}{number}"), f"{name}{number}") for number in range(nodes))
    keys = np.array([key for key, _ in named], dtype=np.uint64)
    finger = np.empty((nodes, BITS), dtype=np.int32)
    for bit in range(BITS):
        ahead = keys + np.uint64(1 << bit)  # wraps, as the ring does
        finger[:, bit] = np.searchsorted(keys, ahead) % nodes
    return Ring(tuple(address for _, address in named), keys, finger)


def fill(
    world: World, ring: Ring, chord: ChordSettings = CHORD, multicast: MulticastSettings = MULTICAST
) -> list[Router]:
    """The nodes of a ring, settled in a world."""
    peers = [Peer(key, address) for key, address in zip(ring.keys.tolist(), ring.addresses, strict=True)]
    many = len(peers)
    successors = min(chord.successors, many - 1)
    routers = []
    for index, me in enumerate(peers):
        router = Router(me, chord, multicast)
        after = tuple([peers[(index + step) % many] for step in range(1, successors + 1)])
        near = _distinct(ring, index)
        reach = array("Q", (ring.keys[near] - ring.keys[index]).tobytes())
        router.chord.table.settle(after, tuple([peers[one] for one in near.tolist()]), reach)
        router.chord.predecessor = peers[index - 1] if many > 1 else None
        router.chord.is_ready = True
        world.settle(me.address, router)
        routers.append(router)
    return routers


def _distinct(ring: Ring, index: int) -> Indices:
    """Successor and fingers, each once, nearest first. A finger that is the node itself goes nowhere."""
    row = ring.finger[index]
    if len(ring.keys) == 1:
        return np.empty(0, dtype=np.int32)
    near = np.empty(len(row) + 1, dtype=np.int32)
    near[0], near[1:] = (index + 1) % len(ring.keys), row
    near = near[near != index]
    distinct: Indices = near[np.concatenate(([True], near[1:] != near[:-1]))]
    return distinct
