"""Compiled loops of the path automaton; their twins are in `match.path_reference`.

The automaton is a tree of states in flat arrays. A transition (state, label) -> state is a slot of an open hash table.
Labels are integers: ε is 0, `*` is 1, `@*` is 2, text() is 3; names of documents that no query mentions are 4
(elements) and 5 (attributes); the names of queries follow. A state that is reached by ε has a loop to itself.

A document is a tape: the label of an element that starts, END, or COMMENT. `run_stack` is the run-time stack of YFilter
(XML filtering paper §5): a set of active states for each open element. `run_cached` remembers each set it has built
as one state of a deterministic automaton, so that a path that was seen before costs one look-up.
"""
# ruff: noqa: PLR0917, PLR1714 — a kernel takes arrays, and many; Numba compares numbers faster than it searches sets

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

EPSILON, WILDCARD, ANY_ATTRIBUTE, TEXT, OTHER, OTHER_ATTRIBUTE, NAMES = 0, 1, 2, 3, 4, 5, 6
END, COMMENT = 0, -1
EMPTY, DELETED = -1, -2
DONE, FULL = 0, 1
# Places in `counts`
STATES, FREE, SLOTS, LIVE, STAMP, SETS, POOL, CACHE_SLOTS, RUN = 0, 1, 2, 3, 4, 5, 6, 7, 8
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


class Cache(NamedTuple):
    """Sets of states that have been active together."""

    keys: Any
    targets: Any
    first: Any  # a set is pool[first : first + active] for what goes on, then `accepted` entries
    active: Any
    accepted: Any
    pool: Any
    seen: Any  # last run that visited the set
    counts: Any


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


# --- execution -------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _activate(nfa: Any, state: Any, marked: Any, stamp: Any, pool: Any, end: Any) -> Any:
    """Adds a state, and the one that it reaches by ε, to a set, unless they are in it or lead nowhere.

    Gives the new end of the set; what is registered at the states is collected later.
    """
    if marked[state] != stamp:
        marked[state] = stamp
        pool[end] = state
        end += 1
        loop = find(nfa.keys, nfa.targets, state, EPSILON) if nfa.kids[state] > 0 else np.int64(-1)
        if loop >= 0 and marked[loop] != stamp:
            marked[loop] = stamp
            pool[end] = loop
            end += 1
    return end


@njit(cache=True, nogil=True)
def expand(
    nfa: Any, label: Any, source: Any, first: Any, active: Any, marked: Any, stamp: Any, pool: Any, end: Any
) -> Any:
    """The states after one event (paper §5, ExpandState): by name, by `p:*`, by `*`, and loops stay.

    Reads the set source[first : first + active], writes from pool[end] on, gives the new end.
    """
    named = label != OTHER and label != OTHER_ATTRIBUTE
    group, any_label = nfa.group[label], nfa.any[label]
    element = any_label == WILDCARD
    for at in range(first, first + active):
        state = np.int64(source[at])
        if element and nfa.label[state] == EPSILON and state != 0:
            end = _activate(nfa, state, marked, stamp, pool, end)
        if named:
            target = find(nfa.keys, nfa.targets, state, label)
            if target >= 0:
                end = _activate(nfa, target, marked, stamp, pool, end)
        if group >= 0 and group != label:
            target = find(nfa.keys, nfa.targets, state, group)
            if target >= 0:
                end = _activate(nfa, target, marked, stamp, pool, end)
        if any_label >= 0:
            target = find(nfa.keys, nfa.targets, state, any_label)
            if target >= 0:
                end = _activate(nfa, target, marked, stamp, pool, end)
    return end


@njit(cache=True, nogil=True, inline="always")
def _count(entry: Any, flags: Any, hits: Any) -> None:
    """A query without guards holds; a clause has met one more of its linear paths."""
    if entry >= 0:
        flags[entry] = 1
    else:
        hits[~entry] += 1


@njit(cache=True, nogil=True)
def _first_time(
    nfa: Any,
    pool: Any,
    first: Any,
    end: Any,
    reached: Any,
    met: Any,
    run: Any,
    flags: Any,
    hits: Any,
) -> None:
    for at in range(first, end):
        state = pool[at]
        if reached[state] == 0:
            reached[state] = 1
            number = nfa.head[state]
            while number >= 0:
                if met[number] != run:
                    met[number] = run
                    _count(nfa.entry[number], flags, hits)
                number = nfa.next[number]


@njit(cache=True, nogil=True)
def run_stack(
    nfa: Any,
    tape: Any,
    marks: Any,
    owner: Any,
    attribute: Any,
    has_text: Any,
    marked: Any,
    reached: Any,
    met: Any,
    run: Any,
    stack: Any,
    pool: Any,
    work: Any,
    flags: Any,
    hits: Any,
) -> int:
    """YFilter's execution: a stack of sets of active states, one for each open element.

    `marked` holds for each state the last set that it was put into, `reached` whether it was active before in this
    document, `met` the last run that counted an entry; `stack[d]` is where the set of depth d starts in `pool`.
    """
    stamp = np.int64(1)
    depth, before, leaf = 0, 0, 0
    stack[0] = 0
    end = _activate(nfa, np.int64(0), marked, stamp, pool, 0)
    for at in range(tape.shape[0]):
        if has_text and marks[at] > before and depth > 0:
            stamp += 1
            last = expand(nfa, TEXT, pool, stack[depth], end - stack[depth], marked, stamp, work, 0)
            _first_time(nfa, work, 0, last, reached, met, run, flags, hits)
        before = marks[at]
        if tape[at] > 0:
            if end + min(8 * (end - stack[depth]), work.shape[0]) > pool.shape[0]:
                return FULL
            stamp += 1
            new_end = expand(nfa, tape[at], pool, stack[depth], end - stack[depth], marked, stamp, pool, end)
            depth += 1
            stack[depth] = end
            end = new_end
            _first_time(nfa, pool, stack[depth], end, reached, met, run, flags, hits)
            while leaf < owner.shape[0] and owner[leaf] == at:
                stamp += 1
                size = end - stack[depth]
                last = expand(nfa, attribute[leaf], pool, stack[depth], size, marked, stamp, work, 0)
                _first_time(nfa, work, 0, last, reached, met, run, flags, hits)
                leaf += 1
        elif tape[at] == END:
            end = stack[depth]
            depth -= 1
    return DONE


@njit(cache=True, nogil=True)
def _remember(nfa: Any, cache: Any, key_set: Any, label: Any, marked: Any, work: Any) -> Any:
    """Builds the set after an event and files it; -1 if the cache is full."""
    counts = cache.counts
    counts[STAMP] += 1
    first = cache.first[key_set]
    last = expand(nfa, label, cache.pool, first, cache.active[key_set], marked, counts[STAMP], work, 0)
    if last == 0:
        put(cache.keys, cache.targets, key_set, label, DEAD)
        counts[CACHE_SLOTS] += 1
        return np.int64(DEAD)
    return _file(nfa, cache, key_set, label, work, last)


@njit(cache=True, nogil=True)
def _file(nfa: Any, cache: Any, key_set: Any, label: Any, work: Any, last: Any) -> Any:
    """Writes a set into the pool: the states that lead on, then the entries of all."""
    counts = cache.counts
    number = counts[SETS]
    if number >= cache.first.shape[0] or counts[CACHE_SLOTS] * 2 >= cache.keys.shape[0]:
        return np.int64(-1)
    end, limit = counts[POOL], cache.pool.shape[0]
    cache.first[number] = end
    for at in range(last):
        if nfa.kids[work[at]] > 0:
            if end >= limit:
                return np.int64(-1)
            cache.pool[end] = work[at]
            end += 1
    cache.active[number] = end - cache.first[number]
    for at in range(last):
        entry = nfa.head[work[at]]
        while entry >= 0:
            if end >= limit:
                return np.int64(-1)
            # A clause counts its paths, each once in a document: keep which entry this is.
            cache.pool[end] = nfa.entry[entry] if nfa.entry[entry] >= 0 else ~entry
            end += 1
            entry = nfa.next[entry]
    cache.accepted[number] = end - cache.first[number] - cache.active[number]
    cache.seen[number] = 0
    counts[POOL] = end
    counts[SETS] += 1
    put(cache.keys, cache.targets, key_set, label, number)
    counts[CACHE_SLOTS] += 1
    return np.int64(number)


@njit(cache=True, nogil=True)
def open_cache(nfa: Any, cache: Any, marked: Any, work: Any) -> None:
    """Empties the cache but for the dead set and the start."""
    counts = cache.counts
    cache.keys[:] = EMPTY
    counts[SETS] = 1
    counts[POOL] = 0
    counts[CACHE_SLOTS] = 0
    cache.active[DEAD] = 0
    cache.accepted[DEAD] = 0
    counts[STAMP] += 1
    last = _activate(nfa, np.int64(0), marked, counts[STAMP], work, 0)
    _file(nfa, cache, np.int64(DEAD), EPSILON, work, last)


@njit(cache=True, nogil=True)
def _visit(entries: Any, pool: Any, first: Any, end: Any, run: Any, met: Any, flags: Any, hits: Any) -> None:
    """Reports what is registered in a set, the first time that a document comes to it."""
    for at in range(first, end):
        entry = pool[at]
        if entry >= 0:
            flags[entry] = 1
        elif met[~entry] != run:
            met[~entry] = run
            _count(entries[~entry], flags, hits)


@njit(cache=True, nogil=True)
def run_cached(
    nfa: Any,
    cache: Any,
    tape: Any,
    marks: Any,
    owner: Any,
    attribute: Any,
    has_text: Any,
    marked: Any,
    met: Any,
    stack: Any,
    work: Any,
    flags: Any,
    hits: Any,
) -> int:
    """The same execution on remembered sets; FULL when the cache has no room for another one.

    An event is a text, an element or an attribute; `parent` is the set of the element it is below.
    """
    keys, targets, seen, first, active = cache.keys, cache.targets, cache.seen, cache.first, cache.active
    accepted, pool, entries = cache.accepted, cache.pool, nfa.entry
    run = cache.counts[RUN]
    depth, before, leaf, at = 0, 0, 0, 0
    leaves, events = owner.shape[0], tape.shape[0]
    stack[0] = START
    while at < events or leaf < leaves:
        parent = np.int64(stack[depth])
        opens = False
        if leaf < leaves and owner[leaf] < at:
            label = np.int64(attribute[leaf])
            leaf += 1
        elif marks[at] > before:
            before = marks[at]
            if not has_text or depth == 0:
                continue
            label = np.int64(TEXT)
        else:
            label = np.int64(tape[at])
            at += 1
            if label <= 0:
                if label == END:
                    depth -= 1
                continue
            opens = True
        after = find(keys, targets, parent, label)
        if after < 0:
            after = _remember(nfa, cache, parent, label, marked, work)
            if after < 0:
                return FULL
        if seen[after] != run:
            seen[after] = run
            start = first[after] + active[after]
            _visit(entries, pool, start, start + accepted[after], run, met, flags, hits)
        if opens:
            depth += 1
            stack[depth] = after
    return DONE


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
