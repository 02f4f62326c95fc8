"""The twin of `sim.bulk`: the same counting in plain Python, with the overlay's own cache, slow and obvious."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby

import numpy as np

from tocsin.overlay.fcache import FCache
from tocsin.overlay.key import MASK, is_between
from tocsin.overlay.multicast import Method
from tocsin.sim.bulk import Publications, Traffic
from tocsin.sim.ring import Ring


class _Nodes:
    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.keys: list[int] = ring.keys.tolist()

    def owns(self, at: int, key: int) -> bool:
        return is_between(key, self.keys[at - 1], self.keys[at])

    def next_hop(self, at: int, key: int) -> int:
        """The successor if it owns the key, else the nearest before the key of all that the node knows."""
        after = (at + 1) % len(self.keys)
        if self.owns(after, key):
            return after
        known: set[int] = {after, *self.ring.finger[at].tolist()} - {at}
        return max((one for one in known if is_between(self.keys[one], self.keys[at], (key - 1) & MASK)),
                   key=lambda one: (self.keys[one] - self.keys[at]) & MASK)  # fmt: skip

    def walk(self, origin: int, keys: list[int], known: dict[int, int]) -> tuple[list[int], int]:
        """The nodes that a list goes through, and how many of them had something."""
        at, path, receipts = origin, list[int](), 0
        while keys:
            if self.owns(at, keys[0]):
                receipts += 1
                while keys and self.owns(at, keys[0]):
                    keys = keys[1:]
            else:
                at = known[keys[0]] if keys[0] in known else self.next_hop(at, keys[0])
                path.append(at)
        return path, receipts


def count_casts(
    ring: Ring, publications: Publications, method: Method, list_max: int = 30, cache_entries: int = 0
) -> Traffic:
    """What publications cost, one document after the other."""
    nodes, documents = _Nodes(ring), len(publications.origins)
    messages, receipts, latency = (np.zeros(documents, dtype=np.int64) for _ in range(3))
    traffic = Traffic(messages, receipts, latency, np.zeros(len(ring.keys), dtype=np.int64))
    caches: defaultdict[int, FCache] = defaultdict(lambda: FCache(cache_entries))
    for document, origin in enumerate(publications.origins.tolist()):
        words = publications.words[publications.first[document] : publications.first[document + 1]]
        keys = sorted(publications.keys[words].tolist(), key=lambda key: (key - nodes.keys[origin]) & MASK)
        keys = [key for key in keys if not nodes.owns(origin, key)]
        known = {key for key in keys if cache_entries and caches[origin].use(key)}
        for some in _lists(nodes, origin, keys, method, list_max):
            path, answers = nodes.walk(origin, some, {key: ring.owner(key) for key in known})
            traffic.messages[document] += len(path)
            traffic.receipts[document] += answers
            traffic.latency[document] = max(traffic.latency[document], len(path))
            np.add.at(traffic.load, path, 1)
        for key in keys:
            caches[origin].learn(key, "known")
    return traffic


def _lists(nodes: _Nodes, origin: int, keys: list[int], method: Method, list_max: int) -> list[list[int]]:
    if method is Method.RECURSIVE:
        return [keys]
    if method is Method.ITERATIVE:
        return [[key] for key in keys]
    groups = [list(some) for _, some in groupby(keys, key=lambda key: nodes.next_hop(origin, key))]
    return [some[at : at + list_max] for some in groups for at in range(0, len(some), list_max)]
