"""Compiled loops of the path automaton; their twins are in `match.path_reference`.

The automaton is a tree of states in flat arrays. A transition (state, label) -> state is a slot of an open hash table.
Labels are integers: ε is 0, `*` is 1, `@*` is 2, text() is 3; names of documents that no query mentions are 4
(elements) and 5 (attributes); the names of queries follow. A state that is reached by ε has a loop to itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

EPSILON, WILDCARD, ANY_ATTRIBUTE, TEXT, OTHER, OTHER_ATTRIBUTE, NAMES = 0, 1, 2, 3, 4, 5, 6
END, COMMENT = 0, -1
EMPTY, DELETED = -1, -2
DONE, FULL = 0, 1
# Places in `counts`
STATES, FREE, SLOTS, LIVE, STAMP, SETS, POOL, CACHE_SLOTS, RUN, VISITED = range(10)
DEAD, START = 0, 1
"""The cached set that is empty, and the one that holds the start state (with its ε)."""


class Nfa(NamedTuple):
    """The automaton: hash table, states, and what is registered at them."""

    keys: Any  # int64: state << 32 | label
    targets: Any
    parent: Any
    label: Any
    uses: Any  # linear paths that end at the state or go through it
    kids: Any  # transitions out of the state
    head: Any  # first entry at the state, or -1
    free: Any  # states that were given up
    next: Any  # of an entry: the next one at the same state, or -1
    entry: Any  # what is registered: a slot of a query, or ~clause
    group: Any  # of a label: the label of `p:*` that it falls under, or -1
    any: Any  # of a label: the label of `*` or `@*` that it falls under, or -1


@njit(cache=True, nogil=True, inline="always")
def _home(state: Any, label: Any, mask: Any) -> Any:
    mixed = state * 0x1E3779B1 + label * 0x5BD1E995
    return (mixed ^ (mixed >> 17)) & mask


@njit(cache=True, nogil=True)
def find(keys: Any, targets: Any, state: Any, label: Any) -> Any:
    """The target of a transition, or -1."""
    mask = keys.shape[0] - 1
    key = (np.int64(state) << 32) | np.int64(label)
    at = _home(np.int64(state), np.int64(label), mask)
    while keys[at] != EMPTY:
        if keys[at] == key:
            return np.int64(targets[at])
        at = (at + 1) & mask
    return np.int64(-1)


@njit(cache=True, nogil=True)
def put(keys: Any, targets: Any, state: Any, label: Any, target: Any) -> None:
    """Adds a transition that is not there."""
    mask = keys.shape[0] - 1
    at = _home(np.int64(state), np.int64(label), mask)
    while keys[at] != EMPTY:
        at = (at + 1) & mask
    keys[at] = (np.int64(state) << 32) | np.int64(label)
    targets[at] = target


@njit(cache=True, nogil=True)
def rehash(keys: Any, targets: Any, new_keys: Any, new_targets: Any) -> int:
    """Moves what is left into a larger table; says how many."""
    moved = 0
    for at in range(keys.shape[0]):
        if keys[at] >= 0:
            put(new_keys, new_targets, keys[at] >> 32, keys[at] & 0xFFFFFFFF, targets[at])
            moved += 1
    return moved


@njit(cache=True, nogil=True)
def insert_paths(nfa: Any, counts: Any, labels: Any, first: Any, accepting: Any) -> None:
    """Adds linear paths, sharing prefixes (paper §3, Procedure 1); writes the accepting state of each."""
    for path in range(first.shape[0] - 1):
        state = np.int64(0)
        for at in range(first[path], first[path + 1]):
            target = find(nfa.keys, nfa.targets, state, labels[at])
            if target < 0:
                target = _new_state(nfa, counts, state, labels[at])
            nfa.uses[target] += 1
            state = target
        accepting[path] = state


@njit(cache=True, nogil=True)
def _new_state(nfa: Any, counts: Any, state: Any, label: Any) -> Any:
    if counts[FREE] > 0:
        counts[FREE] -= 1
        target = np.int64(nfa.free[counts[FREE]])
    else:
        target = counts[STATES]
        counts[STATES] += 1
    put(nfa.keys, nfa.targets, state, label, target)
    counts[SLOTS] += 1
    counts[LIVE] += 1
    nfa.parent[target] = state
    nfa.label[target] = label
    nfa.uses[target] = 0
    nfa.kids[target] = 0
    nfa.head[target] = -1
    nfa.kids[state] += 1
    return target


@njit(cache=True, nogil=True)
def remove_paths(nfa: Any, counts: Any, accepting: Any) -> None:
    """Takes linear paths out again; a state that no path needs is given up."""
    mask = nfa.keys.shape[0] - 1
    for path in range(accepting.shape[0]):
        state = np.int64(accepting[path])
        while state != 0:
            parent = np.int64(nfa.parent[state])
            nfa.uses[state] -= 1
            if nfa.uses[state] == 0:
                key = (parent << 32) | np.int64(nfa.label[state])
                at = _home(parent, np.int64(nfa.label[state]), mask)
                while nfa.keys[at] != key:
                    at = (at + 1) & mask
                nfa.keys[at] = DELETED
                nfa.kids[parent] -= 1
                nfa.free[counts[FREE]] = state
                counts[FREE] += 1
                counts[LIVE] -= 1
            state = parent


@njit(cache=True, nogil=True)
def link_entries(nfa: Any, states: Any, numbers: Any, entries: Any) -> None:
    """Registers entries at accepting states; `numbers` are free places in `next` and `entry`."""
    for at in range(states.shape[0]):
        nfa.entry[numbers[at]] = entries[at]
        nfa.next[numbers[at]] = nfa.head[states[at]]
        nfa.head[states[at]] = numbers[at]


@njit(cache=True, nogil=True)
def unlink_entry(nfa: Any, state: Any, number: Any) -> None:
    """Takes an entry away from its state."""
    if nfa.head[state] == number:
        nfa.head[state] = nfa.next[number]
        return
    at = nfa.head[state]
    while nfa.next[at] != number:
        at = nfa.next[at]
    nfa.next[at] = nfa.next[number]


@njit(cache=True, nogil=True)
def seen_in(nfa: Any, states: Any, other: Any) -> Any:
    """Which states (but the start) of one automaton the other one has too."""
    seen = np.zeros(states, np.bool_)
    labels = np.zeros(states + 1, np.int64)
    for state in range(1, states):
        if nfa.uses[state] <= 0:
            continue
        depth, at = 0, np.int64(state)
        while at != 0:
            labels[depth] = nfa.label[at]
            depth += 1
            at = np.int64(nfa.parent[at])
        while depth > 0 and at >= 0:
            depth -= 1
            at = find(other.keys, other.targets, at, labels[depth])
        seen[state] = at >= 0
    return seen
