"""The shared automaton over linear paths (XML filtering paper §3): what it holds and how it grows.

Linear paths share their prefixes, so the automaton has as many states as there are distinct prefixes. It lives in flat
arrays that grow in place; adding and removing paths costs their length, and the order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match import path_kernels as kernels
from tocsin.match.path_kernels import Nfa
from tocsin.query.xpath.routes import EPSILON, TEXT, WILDCARD, Linear

IntArray = npt.NDArray[np.int32]
AnyArray = npt.NDArray[Any]
Numbered = tuple[int, ...]
"""A linear path as numbers of labels."""
LISTS_MAX, LIST_CHARACTERS_MAX = 256, 2_048
"""Lists of names that are remembered, and the length of one at most."""


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
        self._arrays: tuple[IntArray, IntArray] | None = None
        self._of_elements: dict[tuple[str, ...], IntArray] = {}
        self._of_attributes: dict[tuple[str, ...], IntArray] = {}
        for name in names:
            self.number(name)

    def number(self, name: str) -> int:
        """The number of a label, new if need be."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
            self._classify(name, found)
            self._arrays = None
            self._of_elements.clear()
            self._of_attributes.clear()
        return found

    def arrays(self) -> tuple[IntArray, IntArray]:
        """For each label those that it falls under: `p:*` (or -1), and `*` or `@*`."""
        if self._arrays is None:
            self._arrays = np.array(self.group, np.int32), np.array(self.any, np.int32)
        return self._arrays

    def of_elements(self, names: Sequence[str]) -> IntArray:
        """The labels of the events of a document: of a comment, of an end, then of these names."""
        return self._of(self._of_elements, self.elements, tuple(names), (kernels.COMMENT, kernels.END))

    def of_attributes(self, names: Sequence[str]) -> IntArray:
        """The labels of these names of attributes."""
        return self._of(self._of_attributes, self.attributes, tuple(names), ())

    def _of(
        self, known: dict[tuple[str, ...], IntArray], lookup: _Lookup, names: tuple[str, ...], before: tuple[int, ...]
    ) -> IntArray:
        """Records of one source have the same names, so a few lists of names are remembered."""
        found = known.get(names)
        if found is None:
            found = np.array([*before, *(lookup[name] for name in names)], np.int32)
            if len(known) >= LISTS_MAX:
                known.clear()
            if sum(map(len, names)) <= LIST_CHARACTERS_MAX:
                known[names] = found
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

    def __init__(self, labels: Labels | None = None) -> None:
        self.labels = labels or Labels()
        self._nfa = _empty_nfa(1_024, 1_024)
        self._counts = np.zeros(8, np.int64)
        self._counts[kernels.STATES] = 1
        self._counts[kernels.LIVE] = 1
        self._nfa.head[0] = -1
        self._nfa.parent[0] = -1
        self._nfa.label[0] = -1
        self._entries = 0
        self._free_entries: list[int] = []

    @property
    def size(self) -> int:
        """How many states there are: the distinct prefixes of all linear paths, the empty one included."""
        return int(self._counts[kernels.LIVE])

    @property
    def places(self) -> int:
        """Places of entries, those included that are free."""
        return self._entries

    @property
    def nfa(self) -> Nfa:
        """The arrays as the kernels take them."""
        group, any_label = self.labels.arrays()
        if self._nfa.group is not group:
            self._nfa = self._nfa._replace(group=group, any=any_label)
        return self._nfa

    def nbytes(self) -> int:
        """Memory of the arrays, as far as they are in use."""
        states = int(self._counts[kernels.STATES])
        return int(self._nfa.keys.nbytes + self._nfa.targets.nbytes) + states * 5 * 4 + self._entries * 8

    def insert(self, paths: Sequence[Linear], entries: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Registers an entry at the end of each path; gives accepting states and the entries' places."""
        number = self.labels.number
        return self.insert_numbered([tuple([number(label) for label in path]) for path in paths], entries)

    def insert_numbered(self, paths: Sequence[Numbered], entries: Sequence[int]) -> tuple[IntArray, IntArray]:
        """The same for paths whose labels have been numbered."""
        flat = np.fromiter(chain.from_iterable(paths), np.int32)
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

    def fresh_states(self, others: Sequence[Automaton]) -> int:
        """How many states (but the start) it has that the others, over the same labels, have not."""
        if not others:
            return self.size - 1
        seen = kernels.seen_in(self._nfa, int(self._counts[kernels.STATES]), others[0]._nfa)
        for other in others[1:]:
            seen |= kernels.seen_in(self._nfa, len(seen), other._nfa)
        return self.size - 1 - int(seen.sum())

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
            size = power(states)
            grown = {
                name: grow(getattr(nfa, name), size) for name in ("parent", "label", "uses", "kids", "head", "free")
            }
            nfa = nfa._replace(**grown)
        if self._entries + entries > len(nfa.next):
            size = power(self._entries + entries)
            nfa = nfa._replace(next=grow(nfa.next, size), entry=grow(nfa.entry, size))
        if 2 * (int(counts[kernels.SLOTS]) + labels) > len(nfa.keys):
            size = power(2 * (int(counts[kernels.LIVE]) + labels))
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
    def from_arrays(arrays: Mapping[str, AnyArray], labels: Labels) -> Automaton:
        """An automaton over (memory-mapped) arrays; `own` copies them before they are changed."""
        found = Automaton(labels)
        fields = {name: arrays[name] for name in Nfa._fields if name in arrays}
        found._nfa = found._nfa._replace(**fields)
        found._counts = np.array(arrays["counts"])
        found._entries = len(arrays["next"])
        found._free_entries = arrays["free_entries"].tolist()
        return found

    def own(self) -> None:
        """Copies arrays that belong to a file, before they are changed."""
        if not self._nfa.keys.flags.writeable:
            self._nfa = Nfa(*(np.array(array) for array in self._nfa))


def power(size: int) -> int:
    """Room for so many: a power of two."""
    return 1 << max(10, (size - 1).bit_length())


def grow(array: AnyArray, size: int) -> AnyArray:
    """A longer copy."""
    grown = np.zeros((size, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _empty_nfa(states: int, entries: int) -> Nfa:
    per_state = {name: np.zeros(states, np.int32) for name in ("parent", "label", "uses", "kids", "head", "free")}
    per_entry = {name: np.zeros(entries, np.int32) for name in ("next", "entry")}
    keys, targets = np.full(2 * states, kernels.EMPTY, np.int64), np.zeros(2 * states, np.int32)
    labels = {name: np.zeros(0, np.int32) for name in ("group", "any")}
    return Nfa(keys=keys, targets=targets, **per_state, **per_entry, **labels)
