"""Runs documents through an automaton, and remembers what has been learned about their paths.

The remembered sets (`Cache`) belong to one automaton. They are forgotten when paths are added to it, but not when paths
are taken out: what was there then leads nowhere, as long as its numbers are not given to anything new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.markup import Markup
from tocsin.match import path_kernels as kernels
from tocsin.match import path_run_kernels as runs
from tocsin.match.path_automaton import Automaton, Labels
from tocsin.match.path_run_kernels import Cache

IntArray = npt.NDArray[np.int32]
AnyArray = npt.NDArray[Any]

DEPTH_MAX = 4_096
"""Room on the stack; `markup_depth_max` keeps documents far below it."""


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How much may be remembered about the paths of documents."""

    cache_pool_first: int = 1 << 18
    """States and entries to start with (4 bytes each)."""
    cache_pool_max: int = 1 << 24
    """States and entries at most; beyond it the cache starts again, or is passed by."""
    outcome_bytes_max: int = 1 << 27
    """Memory for what documents of the same paths have in common."""


class Tape(NamedTuple):
    """The events of a document, its names replaced by labels of queries."""

    event: AnyArray
    marks: AnyArray
    owner: AnyArray
    attribute: AnyArray
    has_text: bool


def read_tape(labels: Labels, document: Markup) -> Tape:
    """Only the distinct names of the document are looked up."""
    names = labels.of_elements(document.names)
    attributes = labels.of_attributes(document.attribute_names)
    return Tape(names[document.tape + 1], document.marks, document.owners, attributes[document.attribute], True)


class Found(NamedTuple):
    """What the runs write: flags of slots that hold, and how many of its linear paths each clause has met."""

    flags: npt.NDArray[np.uint8]
    hits: IntArray

    @staticmethod
    def empty(slots: int, clauses: int) -> Found:
        """Room for so many."""
        return Found(np.zeros(slots, np.uint8), np.zeros(clauses, np.int32))


class Runner:
    """Runs the kernels over one automaton and keeps its cache of sets."""

    def __init__(self, limits: CacheLimits) -> None:
        self.stale = True
        self.renewals = 0
        self._limits = limits
        self._cache: Cache | None = None
        self._fresh = True
        self._marked = np.zeros(0, np.int64)
        self._work = np.zeros(0, np.int32)
        self._stack = np.zeros(DEPTH_MAX + 2, np.int64)

    @property
    def remembered(self) -> int:
        """How many sets are remembered."""
        return 0 if self._cache is None or self.stale else int(self._cache.counts[kernels.SETS])

    def run(self, automaton: Automaton, tape: Tape, found: Found) -> None:
        """Marks the slots that hold without guards, and counts the linear paths that clauses have met."""
        while self.walk(automaton, tape) is None:
            if self._fresh:
                self._run_stack(automaton, tape, found)
                return
            self._renew(automaton)
        self.report(automaton, found)

    def walk(self, automaton: Automaton, tape: Tape) -> bytes | None:
        """Which sets the document comes to: equal for documents of the same paths. None if there is no room for them.

        Sets at which nothing is registered do not count. What is given is true until the runner is stale.
        """
        if self.stale:
            self._renew(automaton)
        assert self._cache is not None
        self._cache.counts[kernels.RUN] += 1
        self._cache.counts[kernels.VISITED] = 0
        run: Any = runs.run_cached
        nfa = automaton.nfa
        while run(nfa, self._cache, *tape, self._marked, self._stack, self._work) == kernels.FULL:
            if len(self._cache.pool) >= self._limits.cache_pool_max:
                return None
            self._cache = _larger_cache(self._cache)
        self._fresh = False
        visited = np.sort(self._cache.visited[: self._cache.counts[kernels.VISITED]])
        return self.renewals.to_bytes(8, "little") + visited.tobytes()

    def report(self, automaton: Automaton, found: Found) -> None:
        """Marks and counts for the document that was walked last."""
        runs.report(automaton.nfa.entry, self._cache, *found)

    def _run_stack(self, automaton: Automaton, tape: Tape, found: Found) -> None:
        """Without the cache: for a document whose paths are too many to remember."""
        assert self._cache is not None
        pool = np.zeros(4 * len(self._work), np.int32)
        while True:
            marked, reached = np.zeros(len(self._marked), np.int64), np.zeros(len(self._marked), np.uint8)
            self._cache.bits[:] = 0
            room = (marked, reached, self._cache.bits, self._stack, pool, self._work)
            run: Any = runs.run_stack
            if run(automaton.nfa, *tape, *room, *found) == kernels.DONE:
                return
            pool = np.zeros(2 * len(pool), np.int32)

    def _renew(self, automaton: Automaton) -> None:
        states = len(automaton.nfa.parent)
        if self._cache is None:
            self._cache = _empty_cache(min(self._limits.cache_pool_first, max(1_024, 16 * states)))
        self._cache = self._cache._replace(bits=np.zeros((automaton.places + 31) // 32, np.uint32))
        self._marked = np.zeros(states, np.int64)
        self._work = np.zeros(states + 2, np.int32)
        runs.open_cache(automaton.nfa, self._cache, self._marked, self._work)
        self.stale, self._fresh = False, True
        self.renewals += 1


def _empty_cache(pool: int) -> Cache:
    sets = max(64, pool // 64)
    keys, targets = np.full(power_of(8 * sets), kernels.EMPTY, np.int64), np.zeros(power_of(8 * sets), np.int32)
    arrays: dict[str, AnyArray] = {name: np.zeros(sets, np.int64) for name in ("first", "active", "accepted", "seen")}
    arrays |= {"pool": np.zeros(pool, np.int32), "visited": np.zeros(sets, np.int32), "bits": np.zeros(0, np.uint32)}
    return Cache(keys=keys, targets=targets, counts=np.zeros(10, np.int64), **arrays)


def power_of(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()


def _larger_cache(cache: Cache) -> Cache:
    """Twice the room, with everything that is remembered."""
    larger = _empty_cache(2 * len(cache.pool))._replace(bits=cache.bits)
    for name in ("first", "active", "accepted", "seen", "visited", "pool", "counts"):
        getattr(larger, name)[: len(getattr(cache, name))] = getattr(cache, name)
    kernels.rehash(cache.keys, cache.targets, larger.keys, larger.targets)
    return larger
