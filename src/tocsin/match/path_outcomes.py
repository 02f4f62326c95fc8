"""What documents of the same paths have in common, remembered.

Which queries without predicates hold, and which clauses must be looked at, depends on nothing but the sets of states
that a document comes to (`path_runs`). Records of one source come to the same few again and again; articles hardly
ever do. So an outcome is kept from the second time on, and what has not been asked for the longest time goes first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Key = tuple[bytes, ...]
KEYS_MAX = 1 << 14
"""Keys that have been met once; of these only a hash is kept."""


class Outcome(NamedTuple):
    """What the structure of a document says, before any predicate is looked at."""

    candidates: npt.NDArray[np.int32]
    """Clauses all of whose linear paths occur."""
    slots: npt.NDArray[np.int64]
    """Those that hold anyway; empty if there are no candidates."""
    numbers: npt.NDArray[np.int64]
    """The numbers of the queries that hold, if there are no candidates."""


class Outcomes:
    """Outcomes by key, within so many bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.nbytes = 0
        self._bytes_max = bytes_max
        self._known: dict[Key, Outcome] = {}
        self._once: set[int] = set()

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Forgets all: queries have changed."""
        if self._known or self._once:
            self._known.clear()
            self._once.clear()
            self.nbytes = 0

    def find(self, key: Key) -> Outcome | None:
        """What is known."""
        found = self._known.pop(key, None)
        if found is not None:
            self._known[key] = found  # the last one to go
        return found

    def note(self, key: Key, outcome: Outcome) -> None:
        """Keeps an outcome that is not known, if it is asked for a second time."""
        if hash(key) not in self._once:
            if len(self._once) >= KEYS_MAX:
                self._once.clear()
            self._once.add(hash(key))
            return
        size = _size(key, outcome)
        if size > self._bytes_max:
            return
        self._once.remove(hash(key))
        self._known[key] = outcome
        self.nbytes += size
        while self.nbytes > self._bytes_max:
            oldest = next(iter(self._known))
            self.nbytes -= _size(oldest, self._known.pop(oldest))


def _size(key: Key, outcome: Outcome) -> int:
    return sum(map(len, key)) + sum(array.nbytes for array in outcome)
