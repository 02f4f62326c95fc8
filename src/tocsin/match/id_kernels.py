"""Ids to owners: an open-addressing table of four-byte slots beside the bytes of the ids.

A slot holds owner + 1; the id's bytes lie in one blob, so a table of a million short ids costs about twenty
bytes for each.
"""

# ruff: noqa: PLR0917 — a kernel takes arrays, and many

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.match.kernels import kernel

_PRIME, _OFFSET = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
_SHIFT = np.uint64(29)


@kernel
def _hash(data: Any, start: int, end: int) -> Any:
    mixed = _OFFSET
    for at in range(start, end):
        mixed = (mixed ^ np.uint64(data[at])) * _PRIME
    return mixed ^ (mixed >> _SHIFT)


@kernel
def _slot(data: Any, start: int, end: int, blob: Any, ends: Any, slots: Any) -> int:
    """Where the id is, or where it belongs."""
    mask = np.uint64(slots.size - 1)
    at = _hash(data, start, end) & mask
    while slots[at] != 0:
        owner = slots[at] - 1
        begin = ends[owner - 1] if owner else 0
        if ends[owner] - begin == end - start:
            same = True
            for offset in range(end - start):
                if blob[begin + offset] != data[start + offset]:
                    same = False
                    break
            if same:
                return int(at)
        at = (at + np.uint64(1)) & mask
    return int(at)


@kernel
def find_ids(data: Any, starts: Any, finishes: Any, blob: Any, ends: Any, slots: Any, owners: Any) -> None:
    """owners[i] = the owner of id i, or -1."""
    for i in range(starts.size):
        owners[i] = np.int64(slots[_slot(data, starts[i], finishes[i], blob, ends, slots)]) - 1


@kernel
def insert_ids(
    data: Any, starts: Any, finishes: Any, first: int, blob: Any, ends: Any, slots: Any, before: Any
) -> None:
    """Id i gets the owner first + i; before[i] = its owner until now, or -1. There is room."""
    used = ends[first - 1] if first else 0
    for i in range(starts.size):
        at = _slot(data, starts[i], finishes[i], blob, ends, slots)
        before[i] = np.int64(slots[at]) - 1
        slots[at] = first + i + 1
        for offset in range(starts[i], finishes[i]):
            blob[used] = data[offset]
            used += 1
        ends[first + i] = used


@kernel
def refill_slots(blob: Any, ends: Any, count: int, slots: Any) -> None:
    """Puts the owners 0 to count - 1 into empty slots; of equal ids the latest owner stays."""
    for owner in range(count):
        begin = ends[owner - 1] if owner else 0
        slots[_slot(blob, begin, ends[owner], blob, ends, slots)] = owner + 1
