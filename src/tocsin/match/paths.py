"""Many XPath queries against XML documents: one automaton for all (YFilter; XML filtering paper §3 and §5).

A query without predicates and branches holds as soon as its accepting state is reached. All others are *guarded*: their
linear paths are registered like any other, and only when all of them have occurred in a document is the query checked,
by joining its branches at the elements they share. That is Selection Postponed; `Selection.INLINE` checks predicates on
the way instead, and both agree. Queries that differ only in what they compare a value with are checked together
(`path_families`). What follows from the paths of a document alone is remembered for others like it (`path_outcomes`).

New paths go into a small automaton of their own, which is merged into the next larger one when it is no longer small
beside it. So what is remembered about the paths of documents outlives additions, and an index that was opened from a
file is not copied by the first one. Removals only mark; what was removed is taken out when something is merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.markup import Markup
from tocsin.match import path_kernels as kernels
from tocsin.match.path_automaton import Automaton, Labels, grow, power
from tocsin.match.path_conditions import DIFFERENT, SAME
from tocsin.match.path_families import Families
from tocsin.match.path_guards import Guards, Selection, is_never
from tocsin.match.path_masks import Selector
from tocsin.match.path_outcomes import Outcome, Outcomes
from tocsin.match.path_parts import Entry, Part, pack_entries, unpack_entries
from tocsin.match.path_runs import CacheLimits, Found, Runner, Tape, read_tape
from tocsin.match.path_slots import Slots
from tocsin.query.xpath.ast import Path
from tocsin.query.xpath.routes import Clause, clauses_of, linear_paths, plain_path

__all__ = ["Automaton", "CacheLimits", "PathIndex", "Selection"]

IntArray = npt.NDArray[np.int32]
AnyArray = npt.NDArray[Any]

KINDS_MAX = 1 << 20
"""Kinds of clauses that are remembered before they make a family."""


class PathIndex:
    """XPath queries by number; `match` gives the numbers of those that hold in a document, ascending."""

    def __init__(self, limits: CacheLimits | None = None, selection: Selection = Selection.POSTPONED) -> None:
        self.labels = Labels()
        self.guards = Guards(self.labels, selection)
        self.checked = 0  # guarded clauses that the last document came to
        self._limits = limits or CacheLimits()
        self._slots = Slots()
        self._parts = [self._new_part()]
        self._pending: list[Entry] = []
        self._selector = Selector()
        self._outcomes = Outcomes(self._limits.outcome_bytes_max)
        self._families = Families()
        self._kinds: set[int] = set()  # of clauses of which there has been one
        self._membership: dict[int, list[tuple[int, int, float]]] = {}  # of a slot: family, comparison, literal
        self._clauses: dict[int, list[int]] = {}  # of a slot with guards, or of ~family
        self._total = np.full(64, -1, np.int32)  # of a clause: its linear paths, -1 if it is not in use
        self._tests = np.full((64, 3), -1, np.int32)  # of a clause: its conditions
        self._slot_of = np.zeros(64, np.int32)  # of a clause
        self._clause_count = 0
        self._free_clauses: list[int] = []
        # In the first part, by slot: where the one path of a query is, or those of a query with several.
        self._plain = np.full((1_024, 2), -1, np.int32)
        self._several: dict[int, list[tuple[int, int]]] = {}
        # Removed from the first part: to be taken out, and not to be used again before it is learned anew.
        self._gone: list[tuple[int, int]] = []
        self._dead: list[int] = []
        self._dead_clauses: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def _new_part(self) -> Part:
        return Part(Automaton(self.labels), Runner(self._limits))

    # --- changing ----------------------------------------------------------------------------

    def add(self, number: int, query: Path) -> None:
        """Registers a query under a number that is not in use."""
        if number in self._slots:
            raise ValueError(f"the number {number} is in use")
        path = plain_path(query)
        clauses = () if path is not None else clauses_of(query)  # may be refused, before anything is changed
        self._outcomes.clear()
        slot = self._slots.add(number)
        numbered = self.labels.number
        if path is not None:
            self._pending.append(Entry(slot, tuple([numbered(label) for label in path]), slot))
        inline = self.guards.selection is Selection.INLINE
        for clause in clauses:
            if clause.guarded and self._join(slot, clause):
                continue
            paths, entry = linear_paths(clause), slot
            if clause.guarded:
                found = self._new_clause(slot, len(paths))
                self._tests[found] = self.guards.take(clause, query)
                entry = ~found
            for one in paths if clause.guarded else paths[:1]:
                if not (inline and clause.guarded):
                    self._pending.append(Entry(slot, tuple([numbered(label) for label in one]), entry))

    def _join(self, slot: int, clause: Clause) -> bool:
        """Makes a clause the member of a family, if it can be; the first of its kind stands alone, as most do."""
        compared = self.guards.compared(clause)
        if compared is None:
            return False
        predicate, kind = compared
        if is_never(predicate):
            return True
        if kind not in self._kinds:
            if len(self._kinds) >= KINDS_MAX:
                self._kinds.clear()
            self._kinds.add(kind)
            return False
        shared = self.guards.family_of(clause, predicate)
        family = self._families.find(shared.test)
        if family < 0:
            paths = linear_paths(clause)
            family = self._families.make(shared.test, shared.what, shared.label, self._clause_count)
            found = self._families.clause[family] = self._new_clause(~family, len(paths))
            self._tests[found] = shared.test
            self.guards.keep(shared.test)
            numbered = self.labels.number
            self._pending += [Entry(~family, tuple([numbered(label) for label in one]), ~found) for one in paths]
        self._families.insert(family, shared.how, shared.literal, slot)
        self._membership.setdefault(slot, []).append((family, shared.how, shared.literal))
        return True

    def _leave(self, slot: int) -> None:
        """Takes a query out of its families, and families that are empty then out of the automaton."""
        for family, how, literal in self._membership.pop(slot, ()):
            if how in (SAME, DIFFERENT):
                self.guards.strings.release(int(literal))
            if not self._families.remove(family, how, literal, slot):
                self._families.drop(family)
                self._forget(~family)

    def remove(self, number: int) -> None:
        """Forgets the query of this number."""
        self._flush()
        self._outcomes.clear()
        slot = self._slots.remove(number)
        self._leave(slot)
        self._forget(slot)

    def _forget(self, slot: int) -> None:
        """Takes the clauses and paths of a slot, or of ~family, out."""
        clauses = self._clauses.pop(slot, [])
        for clause in clauses:
            self._own_clauses()
            self.guards.release(tuple(self._tests[clause].tolist()))
            self._total[clause] = -1
            self._tests[clause] = -1
        for part in self._parts[1:]:
            if slot in part.entries:
                part.remove(slot)
                if slot >= 0:
                    self._slots.free([slot])
                self._free_clauses += clauses
                return
        several = self._several.pop(slot, None)
        if several is None:
            state, place = self._plain[slot].tolist() if 0 <= slot < len(self._plain) else (-1, -1)
            several = [(state, place)] if state >= 0 else []
        self._gone += several
        self._parts[0].count -= len(several)
        if slot >= 0 and (several or clauses):
            self._dead.append(slot)
        elif slot >= 0:
            self._slots.free([slot])
        self._dead_clauses += clauses

    def _new_clause(self, slot: int, paths: int) -> int:
        self._own_clauses()
        clause = self._free_clauses.pop() if self._free_clauses else self._clause_count
        self._clause_count = max(self._clause_count, clause + 1)
        if clause >= len(self._total):
            size = power(clause + 1)
            self._total, self._tests = grow(self._total, size), grow(self._tests, size)
            self._slot_of = grow(self._slot_of, size)
        self._total[clause], self._slot_of[clause] = paths, slot
        self._clauses.setdefault(slot, []).append(clause)
        return clause

    def _own_clauses(self) -> None:
        """Copies arrays that belong to a file, before they are changed."""
        if not self._total.flags.writeable:
            self._total, self._tests = np.array(self._total), np.array(self._tests)
            self._slot_of = np.array(self._slot_of)

    def _flush(self) -> None:
        """Linear paths wait until they are needed, and are registered together, with the parts that are small."""
        if not self._pending:
            return
        moved, self._pending = self._pending, []
        parts = self._parts
        while len(parts) > 1 and parts[-1].is_small(len(moved)):
            if not parts[-2].is_small(len(moved) + parts[-1].count):
                break
            moved += (entry for found in parts.pop().entries.values() for entry, _, _ in found)
        if not parts[-1].is_small(len(moved)):
            parts.append(self._new_part())
        if len(parts) == 1:
            self._insert_first(moved)
        else:
            parts[-1].keep(moved)

    def _insert_first(self, entries: list[Entry]) -> None:
        """Into the first part, which will be learned anew: so whatever was removed from it is free again."""
        self._take_out()
        self._slots.free(self._dead)
        self._free_clauses += self._dead_clauses
        self._dead, self._dead_clauses = [], []
        self._parts[0].automaton.own()
        if not self._plain.flags.writeable or len(self._plain) < self._slots.used:
            size = power(self._slots.used)
            known = len(self._plain)
            self._plain = grow(self._plain, max(size, known))
            self._plain[known:] = -1
        for one, state, place in self._parts[0].insert(entries):
            is_plain = one.slot >= 0 and one.entry == one.slot
            if is_plain and one.slot not in self._several and self._plain[one.slot, 0] < 0:
                self._plain[one.slot] = state, place
                continue
            several = self._several.setdefault(one.slot, [])
            if one.slot >= 0 and self._plain[one.slot, 0] >= 0:
                several.append((int(self._plain[one.slot, 0]), int(self._plain[one.slot, 1])))
                self._plain[one.slot] = -1
            several.append((state, place))

    def _take_out(self) -> None:
        """Deletes what has been removed from the first part. What was learned about it stays true."""
        if self._gone:
            automaton = self._parts[0].automaton
            automaton.own()
            automaton.delete([state for state, _ in self._gone], [place for _, place in self._gone])
            self._plain = np.array(self._plain)
            self._plain[[slot for slot in self._dead if slot < len(self._plain)]] = -1
            self._gone = []

    def merge(self) -> None:
        """Brings all parts together."""
        self._flush()
        self._outcomes.clear()
        moved = [entry for part in self._parts[1:] for found in part.entries.values() for entry, _, _ in found]
        del self._parts[1:]
        self._take_out()
        if moved:
            self._insert_first(moved)

    # --- matching ----------------------------------------------------------------------------

    @property
    def automaton(self) -> Automaton:
        """The automaton of all queries."""
        self.merge()
        return self._parts[0].automaton

    @property
    def states(self) -> int:
        """States of the automaton: the distinct prefixes of all linear paths."""
        self._flush()
        self._take_out()
        size, seen = 1, list[Automaton]()
        for part in self._parts:
            size += part.automaton.fresh_states(seen)
            seen.append(part.automaton)
        return size

    def nbytes(self) -> int:
        """Memory of all arrays, as far as they are in use."""
        automata = sum(part.automaton.nbytes() for part in self._parts)
        guards = self.guards.nbytes() + self._families.nbytes()
        return automata + guards + self._slots.used * (8 + 8) + self._clause_count * (4 + 12 + 4)

    def match(self, document: Markup) -> npt.NDArray[np.int64]:
        """The numbers of the queries that hold, ascending."""
        self._flush()
        tape = read_tape(self.labels, document)
        outcome = self._outcome(tape)
        self.checked = len(outcome.candidates)
        if not self.checked:
            return outcome.numbers
        flags = np.zeros(self._slots.used, np.uint8)
        flags[outcome.slots] = 1
        tests, slots, candidates = self._tests, self._slot_of, outcome.candidates
        self._selector.select(self.guards, document, tape, tests, slots, self._families, candidates, flags)
        return self._slots.numbers(flags)

    def _outcome(self, tape: Tape) -> Outcome:
        """What the structure of a document says, before any predicate is looked at."""
        parts = self._parts
        sets = [part.runner.walk(part.automaton, tape) for part in parts]
        key = tuple([one for one in sets if one is not None])
        is_known = len(key) == len(parts)
        outcome = self._outcomes.find(key) if is_known else None
        if outcome is None:
            outcome = self._look(tape, sets)
            if is_known:
                self._outcomes.note(key, outcome)
        return outcome

    def _look(self, tape: Tape, sets: list[bytes | None]) -> Outcome:
        """The same for a document that has been walked, as far as that was possible."""
        found = Found.empty(self._slots.used, self._clause_count)
        for part, walked in zip(self._parts, sets, strict=True):
            if walked is None:
                part.runner.run(part.automaton, tape, found)
            else:
                part.runner.report(part.automaton, found)
        if self._dead:
            found.flags[self._dead] = 0
        total = self._total[: self._clause_count]
        met = total >= 0 if self.guards.selection is Selection.INLINE else found.hits == total
        candidates = np.flatnonzero(met).astype(np.int32)
        none = np.zeros(0, np.int64)
        if len(candidates):
            return Outcome(candidates, np.flatnonzero(found.flags), none)
        numbers = self._slots.numbers(found.flags)
        numbers.flags.writeable = False  # it may be given again
        return Outcome(candidates, none, numbers)

    # --- keeping -----------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        """The index as arrays and a note (JSON), for a snapshot; what has been learned is not disturbed."""
        self._flush()
        self._take_out()
        first = self._parts[0]
        arrays = {f"nfa_{name}": array for name, array in first.automaton.to_arrays().items()}
        guards, about_guards = self.guards.to_arrays()
        arrays |= {f"guard_{name}": array for name, array in guards.items()}
        arrays |= {f"family_{name}": array for name, array in self._families.to_arrays().items()}
        slots, about_slots = self._slots.to_arrays(self._dead)
        clauses = self._clause_count
        used = min(self._slots.used, len(self._plain))
        arrays |= slots | {
            "plain": self._plain[:used],
            "total": self._total[:clauses],
            "tests": self._tests[:clauses],
            "slot_of": self._slot_of[:clauses],
            "several": np.array(
                [(slot, *place) for slot, places in self._several.items() for place in places], np.int32
            ).reshape(-1, 3),
        }
        entries = [[entry for found in part.entries.values() for entry, _, _ in found] for part in self._parts[1:]]
        arrays |= pack_entries([entry for some in entries for entry in some])
        return arrays, {
            "labels": self.labels.names,
            "guards": about_guards,
            "slots": about_slots,
            "count": first.count,
            "recent": [len(some) for some in entries],
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, AnyArray], about: Mapping[str, Any]) -> PathIndex:
        """An index over (memory-mapped) arrays; changing it copies only what is small, until it is merged."""
        found = PathIndex()
        labels = found.labels = Labels(about["labels"][kernels.NAMES :])
        found.guards = Guards.from_arrays(_under("guard_", arrays), about["guards"], labels)
        found._slots = Slots.from_arrays(arrays, about["slots"])
        automaton = Automaton.from_arrays(_under("nfa_", arrays), labels)
        found._parts = [Part(automaton, Runner(found._limits), about["count"])]
        found._plain, found._total = arrays["plain"], arrays["total"]
        found._tests, found._slot_of = arrays["tests"], arrays["slot_of"]
        found._clause_count = len(found._total)
        for clause, (total, slot) in enumerate(zip(found._total.tolist(), found._slot_of.tolist(), strict=True)):
            if total >= 0:
                found._clauses.setdefault(slot, []).append(clause)
            else:
                found._free_clauses.append(clause)
        found._families = Families.from_arrays(_under("family_", arrays), found._tests)
        for family, how, literal, slot in found._families.members():
            found._membership.setdefault(slot, []).append((family, how, literal))
            if how in (SAME, DIFFERENT):
                found.guards.strings.use(int(literal))
        for slot, state, place in arrays["several"].tolist():
            found._several.setdefault(slot, []).append((state, place))
        recent, at = unpack_entries(arrays), 0
        for size in about["recent"]:
            part = found._new_part()
            part.keep(recent[at : at + size])
            found._parts.append(part)
            at += size
        return found


def _under(prefix: str, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
