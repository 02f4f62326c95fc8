"""What the distributed automaton costs on rings that do not change, counted, not sent (XML filtering paper §6).

A million queries and a thousand documents are beyond any event simulator in Python. On a ring that does not change,
what the nodes of `overlay.placement.states` would do follows from the keys of states and the elements of documents, and
is counted here in machine code. Tests show that it equals `sim.states`, request by request and node by node.

    requests     how often a state was reached at an element by way of another one: the paper's messages
    messages     those of them that went to another node
    hops         links that they took on the ring
    answers      from owners back to who asked; the paper's recursive execution has none, ours says when all have heard
    latency      the longest chain of hops, answers of the iterative execution included
    load         requests that each node had

Queries have names, `*`, `/` and `//`; attributes and texts, which only predicates ask for, are not part of it.
"""
# ruff: noqa: PLR0917 — a kernel takes arrays, and many

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.markup import Markup
from tocsin.match.kernels import kernel, part
from tocsin.match.path_automaton import Automaton
from tocsin.match.path_kernels import EPSILON, find
from tocsin.overlay.key import host_of
from tocsin.overlay.placement.states.key import ring_key
from tocsin.overlay.placement.states.settings import Execution
from tocsin.query.xpath.routes import EPSILON as EPSILON_LABEL
from tocsin.query.xpath.routes import Linear
from tocsin.sim.bulk import Counts, Number, _next_hop, _owns
from tocsin.sim.ring import Indices, Keys, Ring

Array = npt.NDArray[Any]
INSERTED_TOGETHER = 4_096
_STEP = re.compile(r"(//?)([^/]+)")
RECORDS = 1 << 16
"""Requests of one document that there is room for at first."""


def labels_of_plain(text: str) -> Linear:
    """The linear path of a query with names, '*', '/' and '//' only: a shortcut past the parser, for millions."""
    labels: list[str] = []
    for slashes, name in _STEP.findall(text):
        if slashes == "//":
            labels.append(EPSILON_LABEL)
        labels.append(name)
    return tuple(labels)


class BulkAutomaton:
    """The automaton of many queries, and the keys of its states."""

    def __init__(self) -> None:
        self.automaton = Automaton()
        self.queries = 0
        self._paths: list[Linear] = [()]
        self._keys: list[int] = [ring_key(())]

    def add(self, texts: Iterable[str]) -> None:
        """Registers queries."""
        waiting: list[Linear] = []
        for text in texts:
            waiting.append(labels_of_plain(text))
            if len(waiting) == INSERTED_TOGETHER:
                self._insert(waiting)
                waiting = []
        self._insert(waiting)

    def _insert(self, paths: list[Linear]) -> None:
        if paths:
            self.automaton.insert(paths, range(self.queries, self.queries + len(paths)))
            self.queries += len(paths)

    @property
    def states(self) -> int:
        """How many there are."""
        return self.automaton.size

    def keys(self) -> Keys:
        """The key of each state: a state is made after the one that leads to it."""
        nfa, names = self.automaton.nfa, self.automaton.labels.names
        known, size = len(self._paths), self.states
        fresh = zip(nfa.parent[known:size].tolist(), nfa.label[known:size].tolist(), strict=True)
        for parent, label in fresh:
            path = (*self._paths[parent], names[label])
            self._paths.append(path)
            self._keys.append(ring_key(path))
        return np.array(self._keys, dtype=np.uint64)

    def path(self, state: int) -> Linear:
        """The labels that lead to a state whose key has been asked for."""
        return self._paths[state]

    def sizes(self) -> Counts:
        """Transitions of each state: its storage load."""
        return np.asarray(self.automaton.nfa.kids[: self.states], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What filtering costs, by document, by node and by state."""

    requests: Counts
    messages: Counts
    hops: Counts
    answers: Counts
    latency: Counts
    load: Counts
    hits: Counts
    """Requests for each state."""
    documents: Counts
    """Documents that came to each state."""


def owners_of(ring: Ring, keys: Keys) -> Indices:
    """The owner of each key."""
    found: Indices = (np.searchsorted(ring.keys, keys) % len(ring.keys)).astype(np.int32)
    return found


def hosts_of(ring: Ring) -> Indices:
    """The number of the host of each node, where hosts are several nodes."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(host_of(one), len(numbers)) for one in ring.addresses], dtype=np.int32)


def by_host(ring: Ring, load: Counts) -> Counts:
    """What each host has of a load, the most first."""
    found: Counts = np.bincount(hosts_of(ring), load).astype(np.int64)
    return np.sort(found)[::-1]


def storage(ring: Ring, keys: Keys) -> Counts:
    """States at each node."""
    return np.bincount(owners_of(ring, keys), minlength=len(ring.keys)).astype(np.int64)


def overloaded(traffic: Traffic, share: float) -> npt.NDArray[np.int64]:
    """The states to which more than a share of the documents came."""
    found: npt.NDArray[np.int64] = np.flatnonzero(traffic.documents > share * len(traffic.requests))
    return found


class BulkDocuments:
    """Documents as the kernel takes them: labels of elements, and where each ends."""

    def __init__(self, documents: Sequence[Markup]) -> None:
        self._names = [one.tree.names for one in documents]
        self.first = np.zeros(len(documents) + 1, np.int64)
        np.cumsum([len(names) for names in self._names], out=self.first[1:])
        self.last = np.concatenate([np.array(one.tree.last, np.int32) for one in documents])

    def __len__(self) -> int:
        return len(self._names)

    def labels(self, automaton: Automaton) -> Indices:
        """The elements' labels; of names that no query mentions, OTHER."""
        number = automaton.labels.elements
        return np.array([number[name] for names in self._names for name in names], np.int32)


def count_filtering(
    queries: BulkAutomaton,
    ring: Ring,
    documents: BulkDocuments,
    origins: Indices,
    execution: Execution = Execution.RECURSIVE,
    *,
    length: int = 0,
    hot: Sequence[int] = (),
    copies: int = 0,
) -> Traffic:
    """What publishing each document at its origin costs; requests for `hot` states are spread over copies."""
    keys = queries.keys()
    nfa = queries.automaton.nfa
    group, any_label = queries.automaton.labels.arrays()
    size, nodes = len(documents), len(ring.keys)
    totals = np.zeros((5, size), np.int64)
    load, hits, came = np.zeros(nodes, np.int64), np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    spread, copy_keys = _spread(queries, keys, hot, copies)
    labels = documents.labels(queries.automaton)
    marks, chain = np.full(len(keys), -1, np.int64), np.full((len(keys), 2), -1, np.int64)
    arrays = (
        nfa.keys, nfa.targets, nfa.label, group, any_label, ring.keys, ring.finger,
        labels, documents.last,
    )  # fmt: skip
    records = RECORDS
    for one in range(size):
        span = documents.first[one], documents.first[one + 1]
        numbers = np.zeros(5, np.int64)
        if execution is Execution.ITERATIVE:
            _iterative(*arrays, span, origins[one], one, copy_keys, spread, marks, numbers, load, hits, came)
        else:
            while not _recursive(
                *arrays,
                span,
                origins[one],
                one,
                copy_keys,
                spread,
                length,
                records,
                chain,
                marks,
                numbers,
                load,
                hits,
                came,
            ):
                records *= 4
                chain.fill(-1)  # it names requests of the attempt that failed
        totals[:, one] = numbers
    requests, messages, hops, answers, latency = totals
    return Traffic(requests, messages, hops, answers, latency, load, hits, came)


def _spread(queries: BulkAutomaton, keys: Keys, hot: Sequence[int], copies: int) -> tuple[Indices, Keys]:
    """Of each state where its copies' keys begin (its own is the first of them), or -1; then how many there are."""
    spread = np.full(len(keys) + 1, -1, np.int32)
    spread[-1] = copies + 1
    table = np.zeros((len(hot) if copies else 0, copies + 1), np.uint64)
    for row, state in enumerate(hot if copies else ()):
        spread[state] = len(keys) + row * (copies + 1)
        table[row] = [ring_key(queries.path(state), copy) for copy in range(copies + 1)]
    return spread, np.concatenate([keys, table.ravel()]) if len(table) else keys.copy()


# --- kernels ---------------------------------------------------------------------------------------------------------


@part
def _chosen(keys: Keys, spread: Indices, state: Number, document: Number, element: Number) -> Number:
    """The place in `keys` of the copy that a request goes to."""
    begin, width = np.int64(spread[state]), np.uint64(spread[-1])
    if begin < 0:
        return np.int64(state)
    mixed = np.uint64(document) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(element) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(state)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
    return begin + np.int64((mixed >> np.uint64(33)) % width)


@part
def _walk(nodes: Keys, finger: Indices, start: Number, key: Any) -> Any:
    """Hops to the owner of a key, and the owner."""
    at, hops = np.int64(start), np.int64(0)
    while not _owns(nodes, at, key):
        at = _next_hop(nodes, finger, at, key)
        hops += 1
    return hops, at


@kernel
def _request(
    nodes: Keys, finger: Indices, keys: Keys, spread: Indices, start: Number, state: Number, document: Number,
    element: Number, time: Number, numbers: Counts, load: Counts, hits: Counts, came: Counts, marks: Counts,
) -> Any:  # fmt: skip
    """One request on its way: when it arrives, and where."""
    hops, owner = _walk(nodes, finger, start, keys[_chosen(keys, spread, state, document, element)])
    numbers[0] += 1
    numbers[1] += hops > 0
    numbers[2] += hops
    numbers[3] += 1
    numbers[4] = max(numbers[4], time + hops)
    load[owner] += 1
    hits[state] += 1
    if marks[state] != document:
        marks[state] = document
        came[state] += 1
    return time + hops, owner


@part
def _note(
    record: Counts, at: Number, state: Number, sender: Number, time: Number, following: Number, element: Number
) -> None:  # fmt: skip
    record[at, 0] = state
    record[at, 1] = sender
    record[at, 2] = time
    record[at, 3] = following
    record[at, 4] = element


@part
def _push(work: Counts, top: Number, state: Number, element: Number, taken: Number) -> None:
    work[top, 0] = state
    work[top, 1] = element
    work[top, 2] = taken


@kernel
def _recursive(
    table: Counts, targets: Indices, label_of: Indices, group: Indices, any_label: Indices,
    nodes: Keys, finger: Indices, labels: Indices, last: Indices, span: Any, origin: Number, document: Number,
    keys: Keys, spread: Indices, length: Number, records: Number, chain: Counts, marks: Counts,
    numbers: Counts, load: Counts, hits: Counts, came: Counts,
) -> Any:  # fmt: skip
    """Procedure 4 for one document. False: there was no room for all requests, and nothing was counted."""
    first, size = np.int64(span[0]), np.int64(span[1] - span[0])
    # A request: state; sender (~node: the owner itself, by a loop); when it was sent; the next one at the same element;
    # the element (`size` is the document); owner; when it arrives; another one for the same state at the same element.
    head = np.full(size + 1, -1, np.int64)
    record = np.empty((records, 8), np.int64)
    slots = np.full(2 * records, -1, np.int64)  # requests by state, element and sender: each is sent once
    mask = np.int64(2 * records - 1)
    work = np.empty((4 * size + 64 + 64 * (length + 1), 3), np.int64)
    _note(record, 0, 0, origin, 0, -1, size)
    head[size] = 0
    made = np.int64(1)
    for step in range(-1, size):
        element = size if step < 0 else step
        token = first + document + element
        at = head[element]
        while at >= 0:  # where does each request come to, and when?
            state, sender = record[at, 0], record[at, 1]
            record[at, 5], record[at, 6] = ~sender, record[at, 2]
            if sender >= 0:
                key = keys[_chosen(keys, spread, state, document, element)]
                hops, record[at, 5] = _walk(nodes, finger, sender, key)
                record[at, 6] += hops
            record[at, 7] = chain[state, 1] if chain[state, 0] == token else -1
            chain[state, 0], chain[state, 1] = token, at
            at = record[at, 3]
        at = head[element]
        while at >= 0:  # those that come to one owner for the same state begin one work, with the first of them
            state, owner, earliest = record[at, 0], record[at, 5], record[at, 6]
            is_first = True
            other = chain[state, 1]
            while other >= 0:
                if record[other, 5] == owner:
                    is_first = is_first and at <= other
                    earliest = min(earliest, record[other, 6])
                other = record[other, 7]
            at = record[at, 3]
            if not is_first:
                continue
            # The work: paths from this state, as far as the owner's fragment reaches.
            _push(work, 0, state, element, 0)
            top = 1
            while top > 0:
                top -= 1
                here, place, taken = work[top, 0], work[top, 1], work[top, 2]
                below = find(table, targets, here, EPSILON)
                if below >= 0:
                    _push(work, top, below, place, taken)
                    top += 1
                is_loop = here != 0 and label_of[here] == EPSILON
                is_root = here == state and taken == 0
                child = 0 if place == size else place + 1
                end = size if place == size else np.int64(last[first + place])
                while child < end:
                    label = np.int64(labels[first + child])
                    for way in range(4):
                        if way == 0:
                            target = find(table, targets, here, label)
                        elif way == 1:
                            target = find(table, targets, here, np.int64(any_label[label]))
                        elif way == 2:
                            other_label = np.int64(group[label])
                            target = np.int64(-1)
                            if other_label >= 0 and other_label != label:
                                target = find(table, targets, here, other_label)
                        else:
                            target = here if is_loop else np.int64(-1)
                        if target < 0:
                            continue
                        sender = owner
                        if way == 3 and is_root:
                            sender = ~owner  # the owner itself, as if it had been asked again
                        elif taken < length:
                            if top + 1 >= len(work):
                                grown = np.empty((2 * len(work), 3), np.int64)
                                grown[: len(work)] = work
                                work = grown
                            _push(work, top, target, child, taken + 1)
                            top += 1
                            continue
                        mixed = (target * 0x1E3779B1 + child) * 0x5BD1E995 + sender * 0x27D4EB2F
                        slot = (mixed ^ (mixed >> 29)) & mask
                        while slots[slot] >= 0:
                            known = slots[slot]
                            if record[known, 0] == target and record[known, 4] == child and record[known, 1] == sender:
                                break
                            slot = (slot + 1) & mask
                        if slots[slot] >= 0:
                            known = slots[slot]
                            record[known, 2] = min(record[known, 2], earliest)
                            continue
                        if made == records:
                            return False
                        _note(record, made, target, sender, earliest, head[child], child)
                        head[child] = made
                        slots[slot] = made
                        made += 1
                    child = np.int64(last[first + child])
    for at in range(made):
        if record[at, 1] >= 0:
            _request(
                nodes, finger, keys, spread, record[at, 1], record[at, 0], document, record[at, 4], record[at, 2],
                numbers, load, hits, came, marks,
            )  # fmt: skip
    return True


@kernel
def _iterative(
    table: Counts, targets: Indices, label_of: Indices, group: Indices, any_label: Indices,
    nodes: Keys, finger: Indices, labels: Indices, last: Indices, span: Any, origin: Number, document: Number,
    keys: Keys, spread: Indices, marks: Counts, numbers: Counts, load: Counts, hits: Counts, came: Counts,
) -> None:  # fmt: skip
    """Procedures 2 and 3 for one document, put right: the publisher asks for each event, and waits for the answers."""
    first, size = np.int64(span[0]), np.int64(span[1] - span[0])
    pool = np.empty(1_024, np.int64)
    ends = np.zeros(size + 3, np.int64)  # of the active states at each depth
    opened = np.empty(size + 2, np.int64)
    pool[0] = 0
    ends[1] = 1
    opened[0] = -1
    depth, clock = np.int64(0), np.int64(0)
    seen = np.full(len(label_of), -1, np.int64)
    for element in range(size + 1):
        while depth >= 0 and element >= (size if opened[depth] < 0 else last[first + opened[depth]]):
            longest = np.int64(0)
            for at in range(ends[depth], ends[depth + 1]):
                if marks[pool[at]] != document:
                    when, _ = _request(nodes, finger, keys, spread, origin, pool[at], document, element, clock,
                                       numbers, load, hits, came, marks)  # fmt: skip
                    longest = max(longest, when - clock + 1)
            clock += longest
            depth -= 1
        if depth < 0:
            break
        label = np.int64(labels[first + element])
        begin, end, longest = ends[depth], ends[depth + 1], np.int64(0)
        made = end
        for at in range(begin, end):
            state = pool[at]
            when, _ = _request(nodes, finger, keys, spread, origin, state, document, element, clock,
                               numbers, load, hits, came, marks)  # fmt: skip
            longest = max(longest, when - clock + 1)
            is_loop = state != 0 and label_of[state] == EPSILON
            below = state if is_loop else find(table, targets, state, EPSILON)
            for way in range(7):
                target = np.int64(-1)
                source = state if way < 3 else below
                if way == 6:
                    target = below
                elif source >= 0 and not (way >= 3 and is_loop):
                    kind = way % 3
                    if kind == 0:
                        target = find(table, targets, source, label)
                    elif kind == 1:
                        target = find(table, targets, source, np.int64(any_label[label]))
                    elif group[label] >= 0 and group[label] != label:
                        target = find(table, targets, source, np.int64(group[label]))
                if target >= 0 and seen[target] != element:
                    seen[target] = element
                    if made == len(pool):
                        grown = np.empty(2 * len(pool), np.int64)
                        grown[:made] = pool
                        pool = grown
                    pool[made] = target
                    made += 1
        clock += longest
        depth += 1
        opened[depth] = element
        ends[depth + 1] = made
    numbers[4] = clock
