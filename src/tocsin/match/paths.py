"""Many XPath queries against XML documents: one automaton for all (YFilter; XML filtering paper §3 and §5).

Linear paths share their prefixes, so the automaton has as many states as there are distinct prefixes. A query without
predicates and branches holds as soon as its accepting state is reached. All others are *guarded*: their linear paths
are registered like any other, and only when all of them have occurred in a document (and its most telling value
predicate too) is the query checked, by joining its branches at the elements they share. That is Selection Postponed;
`path_reference.Inline` checks predicates on the way, and both agree.

The automaton lives in flat arrays that grow in place. Adding and removing paths costs their length; the order does not
matter. What has been learned about documents (`Cache`) is forgotten when the automaton changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.markup import Markup
from tocsin.match import path_kernels as kernels
from tocsin.match.path_guards import Atoms, Prefix, Shared, atom_of
from tocsin.match.path_kernels import Cache, Nfa
from tocsin.match.path_masks import Masks
from tocsin.query.xpath.ast import Path, namespaces_in
from tocsin.query.xpath.parse import parse_xpath
from tocsin.query.xpath.routes import EPSILON, TEXT, WILDCARD, Clause, Linear, clauses_of, linear_paths, plain_path
from tocsin.query.xpath.semantics import holds_xpath
from tocsin.query.xpath.show import show_xpath

IntArray = npt.NDArray[np.int32]
AnyArray = npt.NDArray[Any]

INSERTED_TOGETHER = 4_096
DEPTH_MAX = 4_096
"""Room on the stack; `markup_depth_max` keeps documents far below it."""


class Labels:
    """Names of queries as integers; a name that no query mentions is OTHER, or falls under some `p:*`."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = [EPSILON, WILDCARD, "@*", TEXT, "", "@"]
        self._numbers = {name: number for number, name in enumerate(self.names) if name not in ("", "@")}
        self.elements = _Lookup(self, "", kernels.OTHER)
        self.attributes = _Lookup(self, "@", kernels.OTHER_ATTRIBUTE)
        self.group = [-1] * kernels.NAMES
        self.any = [-1, -1, -1, -1, kernels.WILDCARD, kernels.ANY_ATTRIBUTE]
        self.has_groups = False
        for name in names:
            self.number(name)

    def number(self, name: str) -> int:
        """The number of a label, new if need be."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
            self._classify(name, found)
        return found

    def find(self, name: str) -> int | None:
        """The number of a label, if a query mentions it."""
        return self._numbers.get(name)

    def _classify(self, name: str, number: int) -> None:
        bare = name.removeprefix("@")
        lookup = self.attributes if name.startswith("@") else self.elements
        self.any.append(kernels.ANY_ATTRIBUTE if name.startswith("@") else kernels.WILDCARD)
        self.group.append(-1)
        if bare.endswith("}*"):
            self.has_groups = True
            self.group[number] = number
            for other, known in enumerate(self.names):
                if known.startswith(name[:-1]):
                    self.group[other] = number
        else:
            lookup[bare] = number
            if self.has_groups and "}" in name:
                self.group[number] = self._numbers.get(name.rpartition("}")[0] + "}*", -1)


class _Lookup(dict[Any, int]):
    """Names of documents to labels. Misses are not kept: their number is up to whoever writes documents."""

    def __init__(self, labels: Labels, sign: str, other: int) -> None:
        super().__init__()
        self._labels, self._sign, self._other = labels, sign, other

    def __missing__(self, name: str) -> int:
        if self._labels.has_groups and name.startswith("{"):
            group = self._labels.find(self._sign + name.rpartition("}")[0] + "}*")
            if group is not None:
                return group
        return self._other


class Automaton:
    """The shared automaton over linear paths: states, transitions and what is registered at accepting states."""

    def __init__(self) -> None:
        self.labels = Labels()
        self._nfa = _empty_nfa(1_024, 1_024)
        self._counts = np.zeros(8, np.int64)
        self._counts[kernels.STATES] = 1
        self._counts[kernels.LIVE] = 1
        self._nfa.head[0] = -1
        self._nfa.parent[0] = -1
        self._nfa.label[0] = -1
        self._entries = 0
        self._free_entries: list[int] = []
        self._nfa_labels = 0

    @property
    def size(self) -> int:
        """How many states there are: the distinct prefixes of all linear paths, the empty one included."""
        return int(self._counts[kernels.LIVE])

    @property
    def nfa(self) -> Nfa:
        """The arrays as the kernels take them."""
        if self._nfa_labels != len(self.labels.names) or self.labels.has_groups:
            group, any_label = np.array(self.labels.group, np.int32), np.array(self.labels.any, np.int32)
            self._nfa = self._nfa._replace(group=group, any=any_label)
            self._nfa_labels = len(self.labels.names)
        return self._nfa

    def nbytes(self) -> int:
        """Memory of the arrays, as far as they are in use."""
        states = int(self._counts[kernels.STATES])
        return int(self._nfa.keys.nbytes + self._nfa.targets.nbytes) + states * 5 * 4 + self._entries * 8

    def insert(self, paths: Sequence[Linear], entries: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Registers an entry at the end of each path; gives accepting states and the entries' places."""
        number = self.labels.number
        flat = np.array([number(label) for path in paths for label in path], np.int32)
        first = np.zeros(len(paths) + 1, np.int64)
        np.cumsum([len(path) for path in paths], out=first[1:])
        self._make_room(len(flat), len(paths))
        accepting = np.empty(len(paths), np.int32)
        kernels.insert_paths(self.nfa, self._counts, flat, first, accepting)
        places = self._places(len(paths))
        kernels.link_entries(self._nfa, accepting, places, np.array(entries, np.int32))
        return accepting, places

    def delete(self, accepting: Sequence[int], places: Sequence[int]) -> None:
        """Takes entries out, and the states that only they needed."""
        for state, place in zip(accepting, places, strict=True):
            kernels.unlink_entry(self._nfa, state, place)
        kernels.remove_paths(self._nfa, self._counts, np.array(accepting, np.int32))
        self._free_entries.extend(places)

    def key(self, state: int) -> str:
        """The key of a state: the labels that lead to it (paper §3: 'start + dblp + phdthesis')."""
        labels = []
        while state:
            labels.append(self.labels.names[self._nfa.label[state]])
            state = int(self._nfa.parent[state])
        return " + ".join(["start", *reversed(labels)])

    def states(self) -> dict[str, bool]:
        """The keys of all states, and whether something is registered there."""
        used = [state for state in range(int(self._counts[kernels.STATES])) if state == 0 or self._nfa.uses[state] > 0]
        return {self.key(state): bool(self._nfa.head[state] >= 0) for state in used}

    def _places(self, count: int) -> IntArray:
        reused = [self._free_entries.pop() for _ in range(min(count, len(self._free_entries)))]
        fresh = range(self._entries, self._entries + count - len(reused))
        self._entries += len(fresh)
        return np.array([*reused, *fresh], np.int32)

    def _make_room(self, labels: int, entries: int) -> None:
        nfa, counts = self._nfa, self._counts
        states = int(counts[kernels.STATES]) + labels
        if states > len(nfa.parent):
            size = _power(states)
            grown = {
                name: _grow(getattr(nfa, name), size) for name in ("parent", "label", "uses", "kids", "head", "free")
            }
            nfa = nfa._replace(**grown)
        if self._entries + entries > len(nfa.next):
            size = _power(self._entries + entries)
            nfa = nfa._replace(next=_grow(nfa.next, size), entry=_grow(nfa.entry, size))
        if 2 * (int(counts[kernels.SLOTS]) + labels) > len(nfa.keys):
            size = _power(2 * (int(counts[kernels.LIVE]) + labels))
            keys, targets = np.full(size, kernels.EMPTY, np.int64), np.zeros(size, np.int32)
            counts[kernels.SLOTS] = kernels.rehash(nfa.keys, nfa.targets, keys, targets)
            nfa = nfa._replace(keys=keys, targets=targets)
        self._nfa = nfa

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything but the names of labels, for a snapshot."""
        states = int(self._counts[kernels.STATES])
        arrays = {
            name: getattr(self._nfa, name)[:states] for name in ("parent", "label", "uses", "kids", "head", "free")
        }
        arrays |= {name: getattr(self._nfa, name)[: self._entries] for name in ("next", "entry")}
        free = np.array(self._free_entries, np.int32)
        return arrays | {
            "keys": self._nfa.keys,
            "targets": self._nfa.targets,
            "counts": self._counts,
            "free_entries": free,
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, AnyArray], names: Sequence[str]) -> Automaton:
        """An automaton over (memory-mapped) arrays; they are copied when it first grows or changes."""
        found = Automaton()
        found.labels = Labels(names[kernels.NAMES :])
        fields = {name: arrays[name] for name in Nfa._fields if name in arrays}
        found._nfa = found._nfa._replace(**fields)
        found._counts = np.array(arrays["counts"])
        found._entries = len(arrays["next"])
        found._free_entries = arrays["free_entries"].tolist()
        found._nfa_labels = 0
        return found

    def own(self) -> None:
        """Copies arrays that belong to a file, before they are changed."""
        if not self._nfa.keys.flags.writeable:
            self._nfa = Nfa(*(np.array(array) for array in self._nfa))


def _power(size: int) -> int:
    return 1 << max(10, (size - 1).bit_length())


def _grow(array: AnyArray, size: int) -> AnyArray:
    grown = np.zeros(size, array.dtype)
    grown[: len(array)] = array
    return grown


def _empty_nfa(states: int, entries: int) -> Nfa:
    per_state = {name: np.zeros(states, np.int32) for name in ("parent", "label", "uses", "kids", "head", "free")}
    per_entry = {name: np.zeros(entries, np.int32) for name in ("next", "entry")}
    keys, targets = np.full(2 * states, kernels.EMPTY, np.int64), np.zeros(2 * states, np.int32)
    labels = {name: np.zeros(0, np.int32) for name in ("group", "any")}
    return Nfa(keys=keys, targets=targets, **per_state, **per_entry, **labels)


# --- the index -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How much may be remembered about the paths of documents."""

    cache_pool_first: int = 1 << 18
    """States and entries to start with (4 bytes each)."""
    cache_pool_max: int = 1 << 24
    """States and entries at most; beyond it the cache starts again, or is passed by."""


@dataclass(slots=True)
class _Registered:
    """Where the parts of a guarded query, or of one with several clauses, are registered."""

    query: Path
    states: list[int]
    places: list[int]
    clauses: list[int]


class PathIndex:
    """XPath queries by number; `match` gives the numbers of those that hold in a document, ascending."""

    def __init__(self, limits: CacheLimits | None = None) -> None:
        self.automaton = Automaton()
        self.checked = 0  # guarded clauses that the last document came to
        self._limits = limits or CacheLimits()
        self._atoms, self._shared = Atoms(), Shared()
        self._known: dict[int, int] | None = {}
        self._numbers = np.zeros(1_024, np.int64)  # of a slot
        self._plain = np.zeros((1_024, 2), np.int32)  # of a slot with one plain path: state and place
        self._free_slots: list[int] = []
        self._used = 0
        self._in_order = True  # numbers rise with slots
        self._registered: dict[int, _Registered] = {}
        self._total = np.zeros(64, np.int32)  # of a clause: its linear paths
        self._atom = np.full(64, -1, np.int32)  # of a clause: its atom, or -1
        self._clauses: dict[int, tuple[int, Prefix | None]] = {}  # slot, hops (None: ask the oracle)
        self._free_clauses: list[int] = []
        self._pending: list[tuple[int, Linear, int]] = []  # slot, path, entry
        self._engine = _Engine(self._limits)

    def __len__(self) -> int:
        return self._used - len(self._free_slots)

    @property
    def _slots(self) -> dict[int, int]:
        """Slots by number; an index that was opened needs them only when it is changed."""
        if self._known is None:
            free = set(self._free_slots)
            numbers = self._numbers[: self._used].tolist()
            self._known = {number: slot for slot, number in enumerate(numbers) if slot not in free}
        return self._known

    # --- changing ----------------------------------------------------------------------------

    def add(self, number: int, query: Path) -> None:
        """Registers a query under a number that is not in use."""
        if number in self._slots:
            raise ValueError(f"the number {number} is in use")
        path = plain_path(query)
        if path is not None:
            slot = self._new_slot(number)
            self._pending.append((slot, path, slot))
            return
        clauses = clauses_of(query)
        slot = self._new_slot(number)
        found = self._registered[slot] = _Registered(query, [], [], [])
        for clause in clauses:
            paths = linear_paths(clause)
            entry = slot
            if clause.guarded:
                entry = ~self._new_clause(len(paths))
                self._guard(~entry, slot, clause)
                found.clauses.append(~entry)
            self._pending += [(slot, one, entry) for one in (paths if clause.guarded else paths[:1])]

    def remove(self, number: int) -> None:
        """Forgets the query of this number."""
        self._flush()
        self._own()
        slot = self._slots.pop(number)
        found = self._registered.pop(slot, None)
        if found is None:
            state, place = self._plain[slot].tolist()
            self.automaton.delete([state], [place])
        else:
            self.automaton.delete(found.states, found.places)
            for clause in found.clauses:
                self._forget(clause)
        self._free_slots.append(slot)
        self._engine.stale = True

    def _new_slot(self, number: int) -> int:
        self._own()
        slot = self._free_slots.pop() if self._free_slots else self._used
        self._used = max(self._used, slot + 1)
        if slot >= len(self._numbers):
            self._numbers = _grow(self._numbers, _power(slot + 1))
            self._plain = np.vstack([self._plain, np.zeros((len(self._numbers) - len(self._plain), 2), np.int32)])
        self._in_order = self._in_order and slot == self._used - 1 and (slot == 0 or number > self._numbers[slot - 1])
        self._slots[number] = slot
        self._numbers[slot] = number
        return slot

    def _own(self) -> None:
        """Copies arrays that belong to a file, before they are changed."""
        self.automaton.own()
        if not (self._numbers.flags.writeable and self._total.flags.writeable):
            self._numbers, self._plain = np.array(self._numbers), np.array(self._plain)
            self._total = np.array(self._total)

    def _new_clause(self, paths: int) -> int:
        clause = self._free_clauses.pop() if self._free_clauses else len(self._clauses)
        if clause >= len(self._total):
            self._total, self._atom = _grow(self._total, _power(clause + 1)), _grow(self._atom, _power(clause + 1))
        self._total[clause] = paths
        return clause

    def _guard(self, number: int, slot: int, clause: Clause) -> None:
        key = atom_of(clause)
        self._atom[number] = self._atoms.add(key) if key else -1
        self._clauses[number] = (slot, self._shared.prefix(clause.hops) if clause.exact else None)

    def _forget(self, clause: int) -> None:
        del self._clauses[clause]
        if self._atom[clause] >= 0:
            self._atoms.remove(int(self._atom[clause]))
        self._free_clauses.append(clause)

    def _flush(self) -> None:
        """Linear paths wait until they are needed, and are registered together."""
        for first in range(0, len(self._pending), INSERTED_TOGETHER):
            some = self._pending[first : first + INSERTED_TOGETHER]
            states, places = self.automaton.insert([path for _, path, _ in some], [entry for _, _, entry in some])
            for (slot, _, _), state, place in zip(some, states.tolist(), places.tolist(), strict=True):
                found = self._registered.get(slot)
                if found is None:
                    self._plain[slot] = state, place
                else:
                    found.states.append(state)
                    found.places.append(place)
            self._engine.stale = True
        self._pending.clear()

    # --- matching ----------------------------------------------------------------------------

    @property
    def states(self) -> int:
        """States of the automaton."""
        self._flush()
        return self.automaton.size

    def match(self, document: Markup) -> npt.NDArray[np.int64]:
        """The numbers of the queries that hold, ascending."""
        self._flush()
        flags, candidates = self._engine.run(self.automaton, document, self._used, self._total)
        self.checked = 0
        if len(candidates):
            self._select(document, candidates, flags)
        found = self._numbers[np.flatnonzero(flags.view(np.bool_))]
        if not self._in_order:
            found.sort()
        return found

    def _select(self, document: Markup, candidates: IntArray, flags: npt.NDArray[np.uint8]) -> None:
        """Selection, postponed until here."""
        truth = np.append(self._atoms.true_in(document), True)  # the atom -1 is always true
        candidates = candidates[truth[self._atom[candidates]]]
        masks: Masks | None = None
        for clause in candidates.tolist():
            slot, prefix = self._clauses[clause]
            if flags[slot]:
                continue
            masks = masks or Masks(document)
            self.checked += 1
            if prefix is None:
                flags[slot] = holds_xpath(self._registered[slot].query, document)
            else:
                flags[slot] = masks.reaches(prefix)

    # --- keeping -----------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        """The index as arrays and a note (JSON), for a snapshot; guarded queries are in the note as text."""
        self._flush()
        arrays = {f"nfa_{name}": array for name, array in self.automaton.to_arrays().items()}
        arrays |= {"numbers": self._numbers[: self._used], "plain": self._plain[: self._used], "total": self._total}
        arrays["free_slots"] = np.array(self._free_slots, np.int32)
        queries = [
            [slot, show_xpath(one.query), namespaces_in(one.query), one.states, one.places, one.clauses]
            for slot, one in self._registered.items()
        ]
        return arrays, {"labels": self.automaton.labels.names, "queries": queries, "in_order": bool(self._in_order)}

    @staticmethod
    def from_arrays(arrays: Mapping[str, AnyArray], about: Mapping[str, Any]) -> PathIndex:
        """An index over (memory-mapped) arrays; only guarded queries are read again."""
        found = PathIndex()
        nfa = {name.removeprefix("nfa_"): array for name, array in arrays.items() if name.startswith("nfa_")}
        found.automaton = Automaton.from_arrays(nfa, about["labels"])
        found._numbers, found._plain, found._total = arrays["numbers"], arrays["plain"], arrays["total"]
        found._free_slots = arrays["free_slots"].tolist()
        found._used, found._in_order, found._known = len(found._numbers), about["in_order"], None
        found._atom = np.full(len(found._total), -1, np.int32)
        for slot, text, namespaces, states, places, clauses in about["queries"]:
            query = parse_xpath(text, namespaces)
            found._registered[slot] = _Registered(query, states, places, clauses)
            guarded = [clause for clause in clauses_of(query) if clause.guarded]
            for number, clause in zip(clauses, guarded, strict=True):
                found._guard(number, slot, clause)
        used = set(found._clauses)
        found._free_clauses = [number for number in range(max(used, default=-1) + 1) if number not in used]
        return found


class _Engine:
    """Runs the kernels: turns documents into arrays and keeps the cache of sets."""

    def __init__(self, limits: CacheLimits) -> None:
        self.stale = True
        self._limits = limits
        self._cache = _empty_cache(limits.cache_pool_first)
        self._fresh = True
        self._marked = np.zeros(0, np.int64)
        self._met = np.zeros(0, np.int64)
        self._work = np.zeros(0, np.int32)
        self._stack = np.zeros(DEPTH_MAX + 2, np.int64)

    def run(
        self, automaton: Automaton, document: Markup, slots: int, total: IntArray
    ) -> tuple[npt.NDArray[np.uint8], IntArray]:
        """Which slots hold without guards, and which clauses have met all their linear paths."""
        tape = self._tape(automaton.labels, document)
        if self.stale:
            self._renew(automaton)
        while True:
            flags, hits, out = (
                np.zeros(slots, np.uint8),
                np.zeros(len(total), np.int32),
                np.zeros(len(total) + 1, np.int32),
            )
            self._cache.counts[kernels.RUN] += 1
            status = kernels.run_cached(
                automaton.nfa,
                self._cache,
                *tape,
                self._marked,
                self._met,
                self._stack,
                self._work,
                flags,
                hits,
                total,
                out,
            )
            if status == kernels.DONE:
                self._fresh = False
                return flags, out[1 : out[0] + 1]
            if len(self._cache.pool) >= self._limits.cache_pool_max and self._fresh:
                return self._run_stack(automaton, tape, slots, total)
            if len(self._cache.pool) < self._limits.cache_pool_max:
                self._cache = _larger_cache(self._cache)
            else:
                self._renew(automaton)

    def _run_stack(
        self, automaton: Automaton, tape: tuple[Any, ...], slots: int, total: IntArray
    ) -> tuple[npt.NDArray[np.uint8], IntArray]:
        """Without the cache: for a document whose paths are too many to remember."""
        pool = np.zeros(4 * len(self._work), np.int32)
        while True:
            flags, hits, out = (
                np.zeros(slots, np.uint8),
                np.zeros(len(total), np.int32),
                np.zeros(len(total) + 1, np.int32),
            )
            marked, reached = np.zeros(len(self._marked), np.int64), np.zeros(len(self._marked), np.uint8)
            run: Any = kernels.run_stack
            status = run(automaton.nfa, *tape, marked, reached, self._stack, pool, self._work, flags, hits, total, out)
            if status == kernels.DONE:
                return flags, out[1 : out[0] + 1]
            pool = np.zeros(2 * len(pool), np.int32)

    def _renew(self, automaton: Automaton) -> None:
        states = len(automaton.nfa.parent)
        self._marked = np.zeros(states, np.int64)
        self._met = np.zeros(max(1, len(automaton.nfa.next)), np.int64)
        self._work = np.zeros(states + 2, np.int32)
        kernels.open_cache(automaton.nfa, self._cache, self._marked, self._work)
        self.stale, self._fresh = False, True

    def _tape(self, labels: Labels, document: Markup) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, bool]:
        """Events as labels of queries: only the distinct names of the document are looked up."""
        lookup = labels.elements
        names = np.array([kernels.COMMENT, kernels.END, *(lookup[name] for name in document.names)], np.int32)
        lookup = labels.attributes
        attributes = np.array([lookup[name] for name in document.attribute_names], np.int32)
        return names[document.tape + 1], document.marks, document.owners, attributes[document.attribute], True


def _outputs(slots: int, clauses: int) -> tuple[npt.NDArray[np.uint8], IntArray, IntArray]:
    """What the kernels write: flags of slots, hits of clauses, and candidates behind their number."""
    return np.zeros(slots, np.uint8), np.zeros(clauses, np.int32), np.zeros(clauses + 1, np.int32)


def _empty_cache(pool: int) -> Cache:
    sets = max(64, pool // 64)
    keys, targets = np.full(8 * sets, kernels.EMPTY, np.int64), np.zeros(8 * sets, np.int32)
    arrays = {name: np.zeros(sets, np.int64) for name in ("first", "active", "accepted", "seen")}
    return Cache(keys=keys, targets=targets, pool=np.zeros(pool, np.int32), counts=np.zeros(9, np.int64), **arrays)


def _larger_cache(cache: Cache) -> Cache:
    """Twice the room, with everything that is remembered."""
    larger = _empty_cache(2 * len(cache.pool))
    for name in ("first", "active", "accepted", "seen", "pool", "counts"):
        getattr(larger, name)[: len(getattr(cache, name))] = getattr(cache, name)
    kernels.rehash(cache.keys, cache.targets, larger.keys, larger.targets)
    return larger
