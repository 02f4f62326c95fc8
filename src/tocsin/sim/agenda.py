"""What is to happen, in the order of its time.

A heap is quick as long as it is small; where 100,000 things are to happen, taking one of them walks through far memory.
So a heap has a few, and the others wait in slots of time, in no order. A slot is sorted when its time has come.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import Any, TypeAlias

Entry: TypeAlias = tuple[Any, ...]  # first its time, then a number that no other entry has
HEAP_MAX = 1_024
"""Entries in the heap; more only where they come too late for their slot."""
SLOTS = 1_024
"""In a second; a power of two, so that a time and its slot agree to the last bit."""
FAR = 1 << 40
"""The last slot has everything from this second on, and what never happens."""


class Agenda:
    """Entries by time, and by number where times are equal."""

    __slots__ = ("_due", "_heap", "_horizon", "_order", "_slots")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._due: list[Entry] = []  # of the slot that is open, the next one last
        self._horizon = -inf  # where the open slot ends
        self._slots: dict[int, list[Entry]] = {}
        self._order: list[int] = []  # a heap of the slots

    def add(self, entry: Entry) -> None:
        """One more."""
        time, heap = entry[0], self._heap
        if len(heap) < HEAP_MAX or time < self._horizon:
            heappush(heap, entry)
            return
        slot = int(time * SLOTS) if time < FAR else FAR * SLOTS
        entries = self._slots.get(slot)
        if entries is None:
            self._slots[slot] = [entry]
            heappush(self._order, slot)
        else:
            entries.append(entry)

    def take(self, until: float) -> Entry | None:
        """The next one, if its time is not after `until`."""
        due, heap, order = self._due, self._heap, self._order
        if heap and not (due and due[-1] < heap[0]):
            time = heap[0][0]
            if not order or time < self._horizon or time * SLOTS < order[0]:
                return heappop(heap) if time <= until else None
        if due:
            return due.pop() if due[-1][0] <= until else None
        if not order or order[0] > until * SLOTS:
            return None
        slot = heappop(order)
        self._due = self._slots.pop(slot)
        self._due.sort(reverse=True)
        self._horizon = (slot + 1) / SLOTS if slot < FAR * SLOTS else inf
        return self.take(until)
