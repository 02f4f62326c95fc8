"""The agenda against one heap of everything."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random

import pytest

from tocsin.sim import agenda
from tocsin.sim.agenda import Agenda, Entry


@pytest.mark.parametrize("heap_max", [0, 3, 1_024])
@pytest.mark.parametrize("many", [1, 5, 60])
def test_entries_come_as_from_one_heap(many, heap_max, monkeypatch):
    """Now, soon, far away, never, and too late; taken up to a time, or as many as there are."""
    monkeypatch.setattr(agenda, "HEAP_MAX", heap_max)
    for seed in range(12):
        chance, entries, heap, now, number = Random(seed), Agenda(), list[Entry](), 0.0, count()
        step = chance.choice([0.0, 1e-6, 0.01, 5])
        for _ in range(200):
            for _ in range(chance.randint(0, many)):
                soon = now + chance.random() * step
                far = now + chance.choice([chance.random(), 1 / 1_024, 2, 1e15, inf])
                entry = chance.choice([now, soon, soon, far, max(0.0, now - 0.01)]), next(number)
                entries.add(entry)
                heappush(heap, entry)
            until = inf if chance.random() < 0.005 else now + chance.choice([0, chance.random() * step, 0.1])
            for _ in range(chance.randint(0, many + 1)):
                expected = heappop(heap) if heap and heap[0][0] <= until else None
                assert entries.take(until) == expected
                if expected is None:
                    break
                now = max(now, expected[0]) if expected[0] < 1e9 else now
