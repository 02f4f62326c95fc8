"""Queries that differ only in the value they compare with: one clause for all of them.

`/article[@key = 'a']/title`, `/article[@key = 'b']/title` and `/article[@key < 5]/title` ask the same of the structure
of a document. They are a *family*: their linear paths are registered once, their shared condition is evaluated once,
and their literals lie sorted by comparison. The values that a document has at the right elements are looked up among
the literals, so a family costs what it finds and not what it holds; a query on a rare value sleeps until that occurs.

Families lie in one pool, each with some room to grow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match.path_automaton import grow, power
from tocsin.match.path_graph import Test

AnyArray = npt.NDArray[Any]
FIRST, SIZE, WHAT, LABEL = range(4)
"""Columns of a family: where its members lie, how many, and which values they compare."""


class Families:
    """Families by number, with their members: (comparison, literal, slot), in order."""

    def __init__(self) -> None:
        self.head = np.zeros((64, 4), np.int32)
        self.member = np.zeros((256, 2), np.int32)  # comparison, slot
        self.literal = np.zeros(256, np.float64)
        self.clause: list[int] = []  # of a family, -1 if it is not in use
        self._of: dict[Test, int] = {}
        self._test: list[Test] = []
        self._room: list[int] = []
        self._free: list[int] = []
        self._end = 0  # of the pool

    def __len__(self) -> int:
        return len(self._of)

    def find(self, test: Test) -> int:
        """The family whose shared condition this is, or -1."""
        return self._of.get(test, -1)

    def make(self, test: Test, what: int, label: int, clause: int) -> int:
        """A new family, without members."""
        family = self._free.pop() if self._free else len(self.clause)
        if family == len(self.clause):
            self.clause.append(clause)
            self._test.append(test)
            self._room.append(0)
            if family >= len(self.head):
                self.head = grow(self.head, power(family + 1))
        self.clause[family], self._test[family], self._room[family] = clause, test, 0
        self.head[family] = 0, 0, what, label
        self._of[test] = family
        return family

    def drop(self, family: int) -> None:
        """Gives up a family without members; its number may be used again."""
        del self._of[self._test[family]]
        self.clause[family] = -1
        self._free.append(family)

    def insert(self, family: int, how: int, literal: float, slot: int) -> None:
        """A new member."""
        first, size = self.head[family, : SIZE + 1].tolist()
        if size == self._room[family]:
            first = self._move(family, max(1, 2 * size))
        at = self._place(first, first + size, how, literal)
        self.member[at + 1 : first + size + 1] = self.member[at : first + size].copy()
        self.literal[at + 1 : first + size + 1] = self.literal[at : first + size].copy()
        self.member[at] = how, slot
        self.literal[at] = literal
        self.head[family, SIZE] = size + 1

    def remove(self, family: int, how: int, literal: float, slot: int) -> int:
        """Takes a member out; returns how many are left."""
        first, size = self.head[family, : SIZE + 1].tolist()
        at = self._place(first, first + size, how, literal)
        while self.member[at, 1] != slot:
            at += 1
        self.member[at : first + size - 1] = self.member[at + 1 : first + size].copy()
        self.literal[at : first + size - 1] = self.literal[at + 1 : first + size].copy()
        self.head[family, SIZE] = size - 1
        return int(size - 1)

    def _place(self, first: int, end: int, how: int, literal: float) -> int:
        """Where the first member is that does not come before this one."""
        kind = self.member[first:end, 0]
        low = first + int(np.searchsorted(kind, how, "left"))
        high = first + int(np.searchsorted(kind, how, "right"))
        return low + int(np.searchsorted(self.literal[low:high], literal, "left"))

    def _move(self, family: int, room: int) -> int:
        """To the end of the pool, with more room."""
        first, size = self.head[family, : SIZE + 1].tolist()
        if self._end + room > len(self.literal):
            self._pack()
            first = int(self.head[family, FIRST])
            wanted = power(2 * (self._end + room))
            self.member, self.literal = grow(self.member, wanted), grow(self.literal, wanted)
        begin = self._end
        self.member[begin : begin + size] = self.member[first : first + size]
        self.literal[begin : begin + size] = self.literal[first : first + size]
        self.head[family, FIRST], self._room[family] = begin, room
        self._end += room
        return begin

    def _pack(self) -> None:
        """Leaves no gaps."""
        used = [family for family, clause in enumerate(self.clause) if clause >= 0]
        sizes, firsts = self.head[used, SIZE], self.head[used, FIRST]
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if used else 0
        places = np.repeat(firsts - (ends - sizes), sizes) + np.arange(total)
        self.member[:total], self.literal[:total] = self.member[places], self.literal[places]
        self.head[used, FIRST] = ends - sizes
        for family, size in zip(used, sizes.tolist(), strict=True):
            self._room[family] = size
        self._end = total

    def members(self) -> Iterator[tuple[int, int, float, int]]:
        """(family, comparison, literal, slot) of all."""
        for family, clause in enumerate(self.clause):
            if clause >= 0:
                first, size = self.head[family, : SIZE + 1].tolist()
                rows = self.member[first : first + size].tolist()
                for (how, slot), literal in zip(rows, self.literal[first : first + size].tolist(), strict=True):
                    yield family, how, literal, slot

    def nbytes(self) -> int:
        """Memory of the arrays, as far as they are in use."""
        return len(self.clause) * 16 + self._end * 16

    # --- keeping -----------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, AnyArray]:
        """Families and members as arrays."""
        self._pack()
        return {
            "head": self.head[: len(self.clause)],
            "clause": np.array(self.clause, np.int32),
            "member": self.member[: self._end],
            "literal": self.literal[: self._end],
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, AnyArray], tests: AnyArray) -> Families:
        """Opens what `to_arrays` gave, with the conditions of clauses."""
        found = Families()
        if not arrays:  # of a snapshot from before there were families
            return found
        found.head = grow(np.array(arrays["head"]), power(max(64, len(arrays["head"]))))
        found.member, found.literal = np.array(arrays["member"]), np.array(arrays["literal"])
        found.clause = arrays["clause"].tolist()
        found._end = len(found.literal)
        for family, clause in enumerate(found.clause):
            one, other, third = tests[clause].tolist() if clause >= 0 else (-1, -1, -1)
            found._test.append((one, other, third))
            found._room.append(int(found.head[family, SIZE]))
            if clause >= 0:
                found._of[one, other, third] = family
            else:
                found._free.append(family)
        return found
