"""The ids of subscriptions, by owner: append-only, found by hashing, kept as flat arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match.id_kernels import find_ids, insert_ids, refill_slots
from tocsin.match.lexicon import pack

I64 = npt.NDArray[np.int64]
_SLOTS_MIN = 1024


class Ids:
    """Owner n has the id number n; an id that comes again belongs to its latest owner."""

    def __init__(self) -> None:
        self.count = 0
        self._blob = np.zeros(_SLOTS_MIN, np.uint8)
        self._ends = np.zeros(_SLOTS_MIN, np.uint32)
        self._slots = np.zeros(_SLOTS_MIN, np.uint32)

    def __getitem__(self, owner: int) -> str:
        begin = int(self._ends[owner - 1]) if owner else 0
        return bytes(self._blob[begin : int(self._ends[owner])]).decode()

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._blob.nbytes + self._ends.nbytes + self._slots.nbytes

    def append(self, ids: Sequence[str]) -> I64:
        """Gives the ids the next owners; returns for each the owner it had before, or -1."""
        data, starts, finishes = pack([id.encode() for id in ids])
        self._reserve(len(ids), int(finishes[-1]) if len(ids) else 0)
        before = np.empty(len(ids), np.int64)
        insert_ids(data, starts, finishes, self.count, self._blob, self._ends, self._slots, before)
        self.count += len(ids)
        return before

    def find(self, id: str) -> int:
        """The latest owner of the id, or -1."""
        data, starts, finishes = pack([id.encode()])
        owners = np.empty(1, np.int64)
        find_ids(data, starts, finishes, self._blob, self._ends, self._slots, owners)
        return int(owners[0])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All there is to keep, without slack."""
        used = int(self._ends[self.count - 1]) if self.count else 0
        return {"blob": self._blob[:used], "ends": self._ends[: self.count], "slots": self._slots}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Ids:
        """Undo arrays(); they may be memory-mapped: they are copied when an id is added."""
        self = cls()
        self._blob, self._ends, self._slots = arrays["blob"], arrays["ends"], arrays["slots"]
        self.count = self._ends.size
        return self

    def _reserve(self, more: int, size: int) -> None:
        used = int(self._ends[self.count - 1]) if self.count else 0
        if used + size >= 1 << 32:
            raise ValueError("the ids of one index are limited to 4 GiB")
        self._blob = _room(self._blob, used, used + size)
        self._ends = _room(self._ends, self.count, self.count + more)
        slots = self._slots.size
        while slots < 2 * (self.count + more):
            slots *= 2
        if slots > self._slots.size:
            self._slots = np.zeros(slots, np.uint32)
            refill_slots(self._blob, self._ends, self.count, self._slots)
        elif not self._slots.flags.writeable:
            self._slots = self._slots.copy()


def _room(array: npt.NDArray[Any], used: int, wanted: int) -> npt.NDArray[Any]:
    """The array, or a longer copy where it is too short or may not be written."""
    if array.size >= wanted and array.flags.writeable:
        return array
    longer = np.zeros(max(wanted, array.size + array.size // 4), array.dtype)
    longer[:used] = array[:used]
    return longer
