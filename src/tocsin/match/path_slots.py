"""Queries by number: each has a slot, a small integer that the kernels mark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match.path_automaton import grow, power
from tocsin.match.path_run_kernels import collect

AnyArray = npt.NDArray[Any]


class Slots:
    """Numbers to slots and back. The numbers of an opened snapshot are searched where they lie, not copied."""

    def __init__(self) -> None:
        self.used = 0
        self._numbers = np.zeros(1_024, np.int64)
        self._free: list[int] = []
        self._known: dict[int, int] = {}
        self._opened: tuple[AnyArray, AnyArray] | None = None  # numbers, ascending, and their slots
        self._gone: set[int] = set()  # slots of the opened ones that have been removed
        self._count = 0
        self._in_order = True  # numbers rise with slots

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: int) -> bool:
        return self._find(number) >= 0

    def add(self, number: int) -> int:
        """A slot for a number that has none."""
        slot = self._free.pop() if self._free else self.used
        self.used = max(self.used, slot + 1)
        if slot >= len(self._numbers):
            self._numbers = grow(self._numbers, power(slot + 1))
        if not self._numbers.flags.writeable:
            self._numbers = np.array(self._numbers)
        self._in_order = self._in_order and slot == self.used - 1 and (slot == 0 or number > self._numbers[slot - 1])
        self._known[number] = slot
        self._numbers[slot] = number
        self._count += 1
        return slot

    def remove(self, number: int) -> int:
        """Forgets a number and gives its slot, which is not used again until it is freed."""
        slot = self._find(number)
        if slot < 0:
            raise KeyError(number)
        if self._known.pop(number, None) is None:
            self._gone.add(slot)
        self._count -= 1
        return slot

    def free(self, slots: Iterable[int]) -> None:
        """These may be used again."""
        self._free.extend(slots)

    def numbers(self, flags: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """The numbers of the slots that are marked, ascending."""
        found: npt.NDArray[np.int64] = collect(flags, self._numbers)
        if not self._in_order:
            found.sort(kind="stable")  # most are in order, which this kind makes use of
        return found

    def _find(self, number: int) -> int:
        slot = self._known.get(number)
        if slot is not None:
            return slot
        if self._opened is None:
            return -1
        numbers, slots = self._opened
        at = int(np.searchsorted(numbers, number))
        if at == len(numbers) or numbers[at] != number:
            return -1
        found = int(slots[at])
        return -1 if found in self._gone else found

    def to_arrays(self, dead: Iterable[int]) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        """For a snapshot, in which the slots of removed queries are free."""
        free = np.array([*self._free, *dead], np.int32)
        return {"numbers": self._numbers[: self.used], "free_slots": free}, {"in_order": bool(self._in_order)}

    @staticmethod
    def from_arrays(arrays: Mapping[str, AnyArray], about: Mapping[str, Any]) -> Slots:
        """Opens what `to_arrays` gave."""
        found = Slots()
        numbers = found._numbers = arrays["numbers"]
        found._free = arrays["free_slots"].tolist()
        found.used, found._in_order = len(numbers), about["in_order"]
        found._count = len(numbers) - len(found._free)
        living = np.arange(len(numbers))
        if found._free:
            living = np.delete(living, found._free)
        order = living if found._in_order else living[np.argsort(numbers[living], kind="stable")]
        found._opened = (numbers if len(order) == len(numbers) and found._in_order else numbers[order]), order
        return found
