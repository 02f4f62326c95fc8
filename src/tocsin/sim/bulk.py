"""Messages and latency of multicast on rings that do not change, counted, not sent (DHTrie, "Experimental Evaluation").

A publication of 5,415 words costs tens of thousands of messages; 10,000 of them on 100,000 nodes, six times, are beyond
any event simulator in Python. On a ring that does not change, what the nodes of `overlay` would do follows from the
keys alone, and is counted here in machine code. `bulk_reference` says the same in plain Python; tests show that both
equal `sim.world`, message by message and node by node.

Latency is the longest chain of messages until the last owner has the document, as in the paper's Figure 2b.
"""
# ruff: noqa: PLR0917 — a kernel takes arrays, and many

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match.kernels import kernel, part
from tocsin.overlay.multicast import Method
from tocsin.sim.ring import Indices, Keys, Ring

Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Number = Any  # an int; in machine code an int64
Key = Any  # in machine code a uint64

METHODS = {Method.ITERATIVE: 0, Method.RECURSIVE: 1, Method.HYBRID: 2}
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Publications:
    """Documents as the keys of their distinct words: document d has words[first[d] : first[d + 1]]."""

    origins: Indices  # the node that publishes each document
    first: Counts
    words: Indices
    keys: Keys  # of each word


@dataclass(frozen=True, slots=True)
class Traffic:
    """What publications cost."""

    messages: Counts  # on the way to owners, for each document
    receipts: Counts  # from owners to the publisher, for each document
    latency: Counts  # longest chain of messages, for each document
    load: Counts  # messages that each node received, receipts not counted


def count_casts(
    ring: Ring, publications: Publications, method: Method, list_max: int = 30, cache_entries: int = 0
) -> Traffic:
    """What `Multicast.send` would cost, one document after the other; each publisher has its own FCache."""
    documents = len(publications.origins)
    order = np.argsort(publications.origins, kind="stable")  # a cache depends on its own publisher's documents only
    messages, receipts, latency = (np.zeros(documents, dtype=np.int64) for _ in range(3))
    load = np.zeros(len(ring.keys), dtype=np.int64)
    links = np.full((2, len(publications.keys) + 1), -1, dtype=np.int32)
    owners = (np.searchsorted(ring.keys, publications.keys) % len(ring.keys)).astype(np.int32)
    by_bit = np.ascontiguousarray(ring.finger.T)  # a list goes to nodes nearby: what it reads should lie together
    _count(
        ring.keys, by_bit, publications.origins, order, publications.first, publications.words, publications.keys,
        owners, METHODS[method], list_max, cache_entries, links, messages, receipts, latency, load,
    )  # fmt: skip
    return Traffic(messages, receipts, latency, load)


def count_hops(ring: Ring, starts: Indices, keys: Keys) -> Counts:
    """Hops of lookups, the last one to the owner included."""
    hops = np.zeros(len(starts), dtype=np.int64)
    _hops(ring.keys, ring.finger, starts, keys, hops)
    return hops


# --- the ring --------------------------------------------------------------------------------------------------------


@part
def _owns(nodes: Keys, at: Number, key: Key) -> Any:
    low = nodes[at - 1]  # of the first node: the last
    return key - low - _ONE <= nodes[at] - low - _ONE


@part
def _top_bit(number: Key) -> Number:
    bit = 0
    for step in (32, 16, 8, 4, 2, 1):
        if number >> np.uint64(step):
            number = number >> np.uint64(step)
            bit += step
    return bit


@part
def _next_hop(nodes: Keys, finger: Indices, at: Number, key: Key) -> Number:
    """`Table.next_hop`: the successor if it owns the key, else the known node that most closely precedes it."""
    after = at + 1 if at + 1 < len(nodes) else 0
    ahead = key - nodes[at] - _ONE
    if ahead < nodes[after] - nodes[at]:
        return after
    bit = _top_bit(ahead)
    while bit >= 0:
        one = finger[at, bit]
        if one != at and nodes[one] - nodes[at] <= ahead:
            return np.int64(one)
        bit -= 1
    return after


@kernel
def _hops(nodes: Keys, finger: Indices, starts: Indices, keys: Keys, hops: Counts) -> None:
    for index in range(len(starts)):
        at = np.int64(starts[index])
        while not _owns(nodes, at, keys[index]):
            at = _next_hop(nodes, finger, at, keys[index])
            hops[index] += 1


# --- the cache: words in a ring of links, from the least to the most recently used -----------------------------------


@part
def _use(links: Indices, word: Number, held: Number, most: Number) -> Number:
    """`FCache.use`: 1 if the word was there, and it is the last now; -1 if another went for it; 0 if there was room."""
    end = links.shape[1] - 1  # stands before the first and after the last
    found = 0
    if links[0, word] >= 0:
        links[1, links[0, word]] = links[1, word]
        links[0, links[1, word]] = links[0, word]
        found = 1
    last = links[0, end]
    links[0, word], links[1, word] = last, end
    links[1, last] = links[0, end] = word
    if found == 0 and held + 1 > most:
        oldest = links[1, end]
        links[1, end] = links[1, oldest]
        links[0, links[1, oldest]] = end
        links[0, oldest] = links[1, oldest] = -1
        found = -1
    return found


@part
def _clear(links: Indices) -> None:
    links[:, :] = -1
    end = links.shape[1] - 1
    links[0, end] = links[1, end] = end


# --- publications ----------------------------------------------------------------------------------------------------


@part
def _order(ahead: Keys) -> Counts:
    """How keys are sorted by what they are ahead of the origin: quickly, if the document's words are sorted by key."""
    falls, start = 0, 0
    for index in range(1, len(ahead)):
        if ahead[index] < ahead[index - 1]:
            falls += 1
            start = index
    if falls > 1 or (falls == 1 and ahead[0] < ahead[-1]):
        return np.argsort(ahead)
    return (np.arange(len(ahead)) + start) % max(1, len(ahead))


@part
def _walk(
    nodes: Keys, finger: Indices, origin: Number, keys: Keys, owners: Indices, known: Flags, start: Number, end: Number,
    load: Counts,
) -> tuple[Number, Number]:  # fmt: skip
    """One list on its way: hops until the last key is had, and receipts. known: the sender's cache has the address."""
    at, hops, receipts, index = origin, 0, 0, start
    while index < end:
        if owners[index] == at:
            receipts += 1
            while index < end and owners[index] == at:
                index += 1
            continue
        at = np.int64(owners[index]) if known[index] else _next_hop(nodes, finger, at, keys[index])
        hops += 1
        load[at] += 1
    return hops, receipts


@part
def _lookup(nodes: Keys, finger: Indices, origin: Number, key: Key, owner: Number, times: Number, load: Counts) -> Any:
    """Hops to one key; every node on the way hears of it so many times."""
    at, hops = np.int64(origin), 0
    while at != owner:
        at = _next_hop(nodes, finger, at, key)
        hops += 1
        load[at] += times
    return hops


@part
def _repeat(
    nodes: Keys, finger: Indices, origin: Number, keys: Keys, owners: Indices, hops_to: Indices, again: Counts,
    load: Counts,
) -> None:  # fmt: skip
    """What a publisher sent again goes the same ways; then another publishes, and nothing is known of its ways."""
    for word in range(len(keys)):
        if again[word] > 0:
            _lookup(nodes, finger, origin, keys[word], owners[word], again[word], load)
    again[:] = 0
    hops_to[:] = 0


@kernel
def _count(
    nodes: Keys, by_bit: Indices, origins: Indices, order: Counts, first: Counts, words: Indices, word_keys: Keys,
    word_owners: Indices, method: Number, list_max: Number, most: Number, links: Indices,
    messages: Counts, receipts: Counts, latency: Counts, load: Counts,
) -> None:  # fmt: skip
    finger = by_bit.T
    publisher, held, longest = np.int64(-1), 0, 0
    for document in order:
        longest = max(longest, first[document + 1] - first[document])
    ahead, keys = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    chosen, owners, known = np.empty(longest, np.int32), np.empty(longest, np.int32), np.zeros(longest, np.bool_)
    # The way of a single key depends on the publisher and the word only: it is gone once, however often it is sent.
    hops_to, again = np.zeros(len(word_keys), np.int32), np.zeros(len(word_keys), np.int64)
    for document in order:
        origin = np.int64(origins[document])
        if origin != publisher:
            if method == 0 and publisher >= 0:
                _repeat(nodes, finger, publisher, word_keys, word_owners, hops_to, again, load)
            publisher, held = origin, 0
            if most > 0:
                _clear(links)
        some = words[first[document] : first[document + 1]]
        for place, word in enumerate(some):
            ahead[place] = word_keys[word] - nodes[origin]
        count = 0
        for place in _order(ahead[: len(some)]):
            word = some[place]
            if word_owners[word] == origin:
                continue
            chosen[count], keys[count], owners[count] = word, word_keys[word], word_owners[word]
            if most > 0:
                found = _use(links, word, held, most)
                held += found == 0
                known[count] = found == 1
            count += 1
        start = 0
        while start < count:
            end, answers = start + 1, 1
            if method == 0:
                word = chosen[start]
                if known[start]:
                    hops: Number = 1
                    load[owners[start]] += 1
                elif hops_to[word] > 0:
                    hops = hops_to[word]
                    again[word] += 1
                else:
                    hops = _lookup(nodes, finger, origin, keys[start], owners[start], 1, load)
                    hops_to[word] = hops
            else:
                if method == 1:
                    end = count
                else:
                    hop = _next_hop(nodes, finger, origin, keys[start])
                    while end < count and end - start < list_max and _next_hop(nodes, finger, origin, keys[end]) == hop:
                        end += 1
                hops, answers = _walk(nodes, finger, origin, keys, owners, known, start, end, load)
            messages[document] += hops
            receipts[document] += answers
            latency[document] = max(latency[document], hops)
            start = end
    if method == 0 and publisher >= 0:
        _repeat(nodes, finger, publisher, word_keys, word_owners, hops_to, again, load)
