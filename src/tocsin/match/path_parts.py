"""The parts of an index of paths: automata of different ages, each with what is registered in it.

New paths go into a small part, which is merged into the next larger one when it is no longer small beside it. So of all
parts but the first the entries are kept, to move them. Snapshots keep them as flat arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match.path_automaton import Automaton, Numbered
from tocsin.match.path_runs import Runner

AnyArray = npt.NDArray[Any]

INSERTED_TOGETHER = 4_096
MERGE_RATIO = 16
"""A part is merged into the next one when that has at most so many times its paths."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A linear path of a slot, or of ~family; `entry` is what the kernels report: the slot, or ~clause."""

    slot: int
    path: Numbered
    entry: int


@dataclass(slots=True)
class Part:
    """An automaton with what has been learned about it. Of all parts but the first the entries are kept."""

    automaton: Automaton
    runner: Runner
    count: int = 0
    entries: dict[int, list[tuple[Entry, int, int]]] = field(default_factory=dict)  # by slot: with state and place

    def insert(self, entries: list[Entry]) -> list[tuple[Entry, int, int]]:
        """Registers entries; gives them with states and places."""
        found: list[tuple[Entry, int, int]] = []
        for first in range(0, len(entries), INSERTED_TOGETHER):
            some = entries[first : first + INSERTED_TOGETHER]
            states, places = self.automaton.insert_numbered([one.path for one in some], [one.entry for one in some])
            found += zip(some, states.tolist(), places.tolist(), strict=True)
        self.count += len(entries)
        self.runner.stale = True
        return found

    def keep(self, entries: list[Entry]) -> None:
        """Registers entries that may have to move to another part."""
        for found in self.insert(entries):
            self.entries.setdefault(found[0].slot, []).append(found)

    def is_small(self, beside: int) -> bool:
        """Is it small beside so many entries?"""
        return self.count <= MERGE_RATIO * beside

    def remove(self, slot: int) -> None:
        """Takes the entries of a slot out at once: a small part is soon learned again."""
        gone = self.entries.pop(slot)
        self.automaton.delete([state for _, state, _ in gone], [place for _, _, place in gone])
        self.count -= len(gone)
        self.runner.stale = True


def pack_entries(entries: list[Entry]) -> dict[str, AnyArray]:
    """Entries as arrays, for a snapshot."""
    first = np.zeros(len(entries) + 1, np.int64)
    np.cumsum([len(entry.path) for entry in entries], out=first[1:])
    return {
        "recent_slot": np.array([entry.slot for entry in entries], np.int32),
        "recent_entry": np.array([entry.entry for entry in entries], np.int32),
        "recent_first": first,
        "recent_label": np.array([label for entry in entries for label in entry.path], np.int32),
    }


def unpack_entries(arrays: Mapping[str, AnyArray]) -> list[Entry]:
    """The entries that `pack_entries` was given."""
    first, labels = arrays["recent_first"].tolist(), arrays["recent_label"].tolist()
    rows = zip(arrays["recent_slot"].tolist(), arrays["recent_entry"].tolist(), strict=True)
    return [Entry(slot, tuple(labels[first[at] : first[at + 1]]), entry) for at, (slot, entry) in enumerate(rows)]
