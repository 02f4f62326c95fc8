"""Compiled execution of the path automaton over a document; its twin is `match.path_reference.run_stack`.

A document is a tape: the label of an element that starts, END, or COMMENT. `run_stack` is the run-time stack of YFilter
(XML filtering paper §5): a set of active states for each open element. `run_cached` remembers each set it has built
as one state of a deterministic automaton, so that a path that was seen before costs one look-up.
"""
# ruff: noqa: PLR0917, PLR1714 — a kernel takes arrays, and many; Numba compares numbers faster than it searches sets

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tocsin.match.path_kernels import (
    CACHE_SLOTS,
    DEAD,
    DONE,
    EMPTY,
    END,
    EPSILON,
    FULL,
    OTHER,
    OTHER_ATTRIBUTE,
    POOL,
    RUN,
    SETS,
    STAMP,
    START,
    TEXT,
    VISITED,
    WILDCARD,
    find,
    put,
)
from tocsin.match.path_set_kernels import lowest


class Cache(NamedTuple):
    """Sets of states that have been active together."""

    keys: Any
    targets: Any
    first: Any  # a set is pool[first : first + active] for what goes on, then the places of `accepted` entries
    active: Any
    accepted: Any
    pool: Any
    seen: Any  # last run that visited the set
    visited: Any  # the sets that the last run visited, counts[VISITED] of them
    bits: Any  # of the places of entries: which have been met
    counts: Any


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
def _meet(bits: Any, place: Any) -> None:
    """Notes that the entry at a place has been met."""
    bits[place >> 5] |= np.uint32(np.int64(1) << (place & 31))


@njit(cache=True, nogil=True)
def _tell(entries: Any, bits: Any, flags: Any, hits: Any) -> None:
    """What the entries that have been met say: a query holds, or a clause has met one more of its linear paths."""
    for at in range(bits.shape[0]):
        word = np.int64(bits[at])
        while word:
            entry = entries[(at << 5) + lowest(word)]
            word &= word - 1
            if entry >= 0:
                flags[entry] = 1
            else:
                hits[~entry] += 1


@njit(cache=True, nogil=True)
def _first_time(nfa: Any, pool: Any, first: Any, end: Any, reached: Any, bits: Any) -> None:
    for at in range(first, end):
        state = pool[at]
        if reached[state] == 0:
            reached[state] = 1
            place = np.int64(nfa.head[state])
            while place >= 0:
                _meet(bits, place)
                place = np.int64(nfa.next[place])


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
    bits: Any,
    stack: Any,
    pool: Any,
    work: Any,
    flags: Any,
    hits: Any,
) -> int:
    """YFilter's execution: a stack of sets of active states, one for each open element.

    `marked` holds for each state the last set that it was put into, `reached` whether it was active before in this
    document, `bits` the places of the entries that were met; `stack[d]` is where the set of depth d starts in `pool`.
    """
    stamp = np.int64(1)
    depth, before, leaf = 0, 0, 0
    stack[0] = 0
    end = _activate(nfa, np.int64(0), marked, stamp, pool, 0)
    for at in range(tape.shape[0]):
        if has_text and marks[at] > before and depth > 0:
            stamp += 1
            last = expand(nfa, TEXT, pool, stack[depth], end - stack[depth], marked, stamp, work, 0)
            _first_time(nfa, work, 0, last, reached, bits)
        before = marks[at]
        if tape[at] > 0:
            if end + min(8 * (end - stack[depth]), work.shape[0]) > pool.shape[0]:
                return FULL
            stamp += 1
            new_end = expand(nfa, tape[at], pool, stack[depth], end - stack[depth], marked, stamp, pool, end)
            depth += 1
            stack[depth] = end
            end = new_end
            _first_time(nfa, pool, stack[depth], end, reached, bits)
            while leaf < owner.shape[0] and owner[leaf] == at:
                stamp += 1
                size = end - stack[depth]
                last = expand(nfa, attribute[leaf], pool, stack[depth], size, marked, stamp, work, 0)
                _first_time(nfa, work, 0, last, reached, bits)
                leaf += 1
        elif tape[at] == END:
            end = stack[depth]
            depth -= 1
    _tell(nfa.entry, bits, flags, hits)
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
    """Writes a set into the pool: the states that lead on, then the places of the entries of all.

    Places are a list, or, where that is shorter, bits: `accepted` is then how many words, negative.
    """
    counts = cache.counts
    number = counts[SETS]
    if number >= cache.first.shape[0] or counts[CACHE_SLOTS] * 2 >= cache.keys.shape[0]:
        return np.int64(-1)
    end, limit, words = counts[POOL], cache.pool.shape[0], cache.bits.shape[0]
    active, entries = np.int64(0), np.int64(0)
    for at in range(last):
        active += nfa.kids[work[at]] > 0
        place = nfa.head[work[at]]
        while place >= 0:
            entries += 1
            place = nfa.next[place]
    if end + active + min(entries, words) > limit:
        return np.int64(-1)
    cache.first[number], cache.active[number] = end, active
    cache.accepted[number] = entries if entries <= words else -words
    for at in range(last):
        if nfa.kids[work[at]] > 0:
            cache.pool[end] = work[at]
            end += 1
    _write_places(nfa, cache, work, last, end, entries > words)
    cache.seen[number] = 0
    counts[POOL] = end + min(entries, words)
    counts[SETS] += 1
    put(cache.keys, cache.targets, key_set, label, number)
    counts[CACHE_SLOTS] += 1
    return np.int64(number)


@njit(cache=True, nogil=True)
def _write_places(nfa: Any, cache: Any, work: Any, last: Any, end: Any, as_bits: Any) -> None:
    pool, bits = cache.pool, cache.bits
    bits[:] = 0
    for at in range(last):
        place = np.int64(nfa.head[work[at]])
        while place >= 0:
            if as_bits:
                _meet(bits, place)
            else:
                pool[end] = place
                end += 1
            place = np.int64(nfa.next[place])
    if as_bits:
        for at in range(bits.shape[0]):
            pool[end + at] = np.int32(bits[at])


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
def report(entries: Any, cache: Any, flags: Any, hits: Any) -> None:
    """Reports what is registered in the sets that the last run visited."""
    pool, bits = cache.pool, cache.bits
    bits[:] = 0
    for number in range(cache.counts[VISITED]):
        one = cache.visited[number]
        first, size = cache.first[one] + cache.active[one], cache.accepted[one]
        if size < 0:
            for at in range(-size):
                bits[at] |= np.uint32(pool[first + at])
        else:
            for at in range(first, first + size):
                _meet(bits, np.int64(pool[at]))
    _tell(entries, bits, flags, hits)


@njit(cache=True, nogil=True)
def collect(flags: Any, numbers: Any) -> Any:
    """The numbers of the flags that are set; flags are looked at eight at a time, since most are not."""
    size = flags.shape[0]
    whole = size & ~7
    eights = flags[:whole].view(np.uint64)
    count, end = np.int64(0), np.int64(0)
    for at in range(size):
        count += np.int64(flags[at])
    found = np.empty(count + 1, np.int64)  # one more, since each number is written before it is known to count
    for eight in range(eights.shape[0]):
        if eights[eight]:
            for at in range(8 * eight, 8 * eight + 8):
                found[end] = numbers[at]
                end += np.int64(flags[at])
    for at in range(whole, size):
        found[end] = numbers[at]
        end += np.int64(flags[at])
    return found[:count]


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
    stack: Any,
    work: Any,
) -> int:
    """The same execution on remembered sets, which `report` needs; FULL when the cache has no room for another one.

    An event is a text, an element or an attribute; `parent` is the set of the element it is below.
    """
    keys, targets, seen, visited, accepted = cache.keys, cache.targets, cache.seen, cache.visited, cache.accepted
    run, visits = cache.counts[RUN], cache.counts[VISITED]
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
                cache.counts[VISITED] = visits
                return FULL
        if seen[after] != run:
            seen[after] = run
            if accepted[after] != 0:
                visited[visits] = after
                visits += 1
        if opens:
            depth += 1
            stack[depth] = after
    cache.counts[VISITED] = visits
    return DONE
