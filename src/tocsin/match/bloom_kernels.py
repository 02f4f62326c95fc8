"""Words to 64 well-mixed bits each, which Bloom filters are made of (SmartSeer §IV-A); documents to parts.

Two nodes must agree on every bit, so the hash is fixed here and depends on nothing but the word's bytes. The twins in
`bloom_reference` are the definition.
"""

# ruff: noqa: PLR0917 — a kernel takes arrays, and many

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.match.kernels import kernel

_PRIME, _OFFSET = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
_STIR, _STIR_AGAIN = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_LOW, _HALF, _0, _1 = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(0), np.uint64(1)


@kernel
def _hash(buffer: Any, start: int, end: int) -> Any:
    mixed = _OFFSET
    for at in range(start, end):
        mixed = (mixed ^ np.uint64(buffer[at])) * _PRIME
    mixed = (mixed ^ (mixed >> _SHIFT)) * _STIR
    mixed = (mixed ^ (mixed >> _SHIFT)) * _STIR_AGAIN
    return mixed ^ (mixed >> _SHIFT)


@kernel
def hash_words(buffer: Any, starts: Any, ends: Any, hashes: Any) -> None:
    """hashes[i] = the hash of buffer[starts[i]:ends[i]]."""
    for i in range(starts.size):
        hashes[i] = _hash(buffer, starts[i], ends[i])


@kernel
def route_words(buffer: Any, starts: Any, ends: Any, places: Any, rows: Any, probes: int, masks: Any) -> None:
    """masks[places[i]] |= the parts that may hold the word buffer[starts[i]:ends[i]], by bit-sliced filters."""
    bits = np.uint64(rows.size)
    for i in range(starts.size):
        mixed = _hash(buffer, starts[i], ends[i])
        at, step = mixed & _LOW, mixed >> _HALF | _1
        found = ~masks[places[i]]  # parts that are visited anyway need no proof
        for _ in range(probes):
            found &= rows[at % bits]
            if found == _0:
                break
            at += step
        masks[places[i]] |= found
