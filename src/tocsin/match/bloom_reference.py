"""What the kernels of `bloom_kernels` mean: the same names in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

_ALL = (1 << 64) - 1


def hash_words(words: Sequence[bytes]) -> list[int]:
    """FNV-1a of each word, stirred as MurmurHash3 ends, so that every bit depends on every byte."""
    return [_hash(word) for word in words]


def route_words(
    words: Sequence[bytes], places: Sequence[int], rows: Sequence[int], probes: int, documents: int
) -> list[int]:
    """For each document a mask of the parts in which every place of one of its words is set."""
    masks = [0] * documents
    for word, place in zip(words, places, strict=True):
        low, high = _hash(word) & 0xFFFFFFFF, _hash(word) >> 32 | 1
        found = _ALL
        for probe in range(probes):
            found &= rows[(low + probe * high) % len(rows)]
        masks[place] |= found
    return masks


def _hash(word: bytes) -> int:
    mixed = 0xCBF29CE484222325
    for byte in word:
        mixed = (mixed ^ byte) * 0x100000001B3 & _ALL
    for stir in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed = (mixed ^ mixed >> 33) * stir & _ALL
    return mixed ^ mixed >> 33
