"""Words to 64 well-mixed bits each: what Bloom filters are made of (SmartSeer §IV-A).

Two nodes must agree on every bit, so the hash is fixed here and depends on nothing but the word's bytes. The twin in
`bloom_reference` is the definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.match.kernels import kernel

_PRIME, _OFFSET = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
_STIR, _STIR_AGAIN = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)


@kernel
def hash_words(buffer: Any, starts: Any, ends: Any, hashes: Any) -> None:
    """hashes[i] = the hash of buffer[starts[i]:ends[i]]."""
    for i in range(starts.size):
        mixed = _OFFSET
        for at in range(starts[i], ends[i]):
            mixed = (mixed ^ np.uint64(buffer[at])) * _PRIME
        mixed = (mixed ^ (mixed >> _SHIFT)) * _STIR
        mixed = (mixed ^ (mixed >> _SHIFT)) * _STIR_AGAIN
        hashes[i] = mixed ^ (mixed >> _SHIFT)
