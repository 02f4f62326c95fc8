"""Positions on the ring (Chord §4; DHTrie, "The DHTrie Architecture").

A key is an unsigned 64-bit number; the ring closes after the largest. A key is owned by the first node at or after it.
Chord hashes with SHA-1; here it is BLAKE2b cut to 64 bits, as fast and not broken, with a name for what is hashed, so
that a word and a node that are spelled alike have nothing to do with each other.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeAlias

Key: TypeAlias = int

BITS = 64
MASK = (1 << BITS) - 1
VIRTUAL = "#"


def hashed(space: str, text: str) -> Key:
    """The key of a text; `space` says what it is, such as "node" or "word"."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8, person=space.encode()[:16]).digest(), "big")


def distance(start: Key, end: Key) -> int:
    """Steps clockwise from one key to another."""
    return (end - start) & MASK


def is_between(key: Key, low: Key, high: Key) -> bool:
    """Whether a key lies in (low, high], clockwise; a range from a key to itself is the whole ring."""
    return (key - low - 1) & MASK <= (high - low - 1) & MASK


def virtual_addresses(host: str, nodes: int) -> tuple[str, ...]:
    """A host that is several nodes of the ring has an address for each (Chord §6.1: virtual nodes)."""
    return tuple(f"{host}{VIRTUAL}{node}" for node in range(nodes)) if nodes > 1 else (host,)


def host_of(address: str) -> str:
    """What fails together: the host behind a virtual node."""
    return address.partition(VIRTUAL)[0]
