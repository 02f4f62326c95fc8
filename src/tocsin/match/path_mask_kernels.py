"""Compiled evaluation of conditions on the elements of a document; its twin is `path_reference.evaluate`.

A condition is a node of a graph (`path_guards`), its answer the set of elements at which it holds: a row of bits, one
for each element and, behind them, one for the document itself. A node is answered once per document, however many
queries share it, and only if some query comes to it: a conjunction with an empty side is empty. Sets are walked by
their members, so that a step costs what it finds.

What needs values of the document, or an answer of the oracle, is first reported as *missing*; the caller fetches it and
asks again.
"""
# ruff: noqa: PLR0917, PLR1714 — a kernel takes arrays, and many; Numba compares numbers faster than it searches sets

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

# What a node says; `left` and `right` are nodes but where noted
(
    NOTHING,  # nowhere
    START,  # the document
    NAMED,  # left: a label
    HELD,  # left: a place of values, right: a comparison
    ASKED,  # left: what the oracle is asked
    BOTH,
    EITHER,
    WITHOUT,  # all elements but those
    PARENTS,
    ABOVE,
    CHILDREN,
    BELOW,
    PLACED,  # right: a comparison of the position among the siblings of the set
    EVERYWHERE,  # every element, if the document is in the set
) = range(14)
EXISTS, SAME, DIFFERENT, EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST = range(9)
"""Comparisons: of strings (by their numbers), then of numbers."""
WILDCARD, ANY_ATTRIBUTE = 1, 2
DONE, FULL = 0, 1
ANSWERED, MISSING, NO_ROOM = 0, 1, 2
_BITS = np.array(
    [0, 1, 28, 2, 29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4, 8, 31, 27, 13, 23, 21, 19, 16, 7, 26, 12, 18, 6, 11, 5]
    + [10, 9],
    np.int64,
)


class Graph(NamedTuple):
    """Conditions: node[n] is what it says, left, right; `literal` what HELD and PLACED compare with."""

    node: Any
    literal: Any


class Elements(NamedTuple):
    """The elements of a document by number, in document order; the document itself stands behind them."""

    parent: Any
    last: Any  # the element after all below
    child: Any  # the first one, or -1
    sibling: Any  # the next one, or -1
    label: Any
    head: Any  # of a label: its first element, or -1
    next: Any  # the next element of the same label, or -1
    group: Any  # of a label: that of `p:*`, or -1


class Held(NamedTuple):
    """Values of a document: those of a place are rows first[place], …, end[place] - 1; first is -1 if not fetched."""

    first: Any
    end: Any
    element: Any
    text: Any  # the number of the string, or -1 if no condition mentions it
    number: Any
    asked: Any  # of a question: its row in the pool, -1 if empty, -2 if not asked yet


class Answers(NamedTuple):
    """What is known so far: memo[n] is run << 32 | row + 1, row in `pool`; row -1 is the empty set."""

    memo: Any
    pool: Any
    counts: Any  # run, rows in use
    stack: Any
    seen: Any  # of an element (for positions): last stamp
    count: Any  # and how many children have been met


RUN, ROWS, STAMP = 0, 1, 2


@njit(cache=True, nogil=True, inline="always")
def _lowest(word: Any) -> Any:
    """The place of the lowest bit that is set."""
    return _BITS[(((word & -word) * 0x077CB531) & 0xFFFFFFFF) >> 27]


@njit(cache=True, nogil=True)
def compares(value: Any, how: Any, literal: Any) -> Any:
    """Does a number compare so?"""
    if how == EQUAL:
        return value == literal
    if how == UNEQUAL:
        return value != literal
    if how == LESS:
        return value < literal
    if how == AT_MOST:
        return value <= literal
    if how == MORE:
        return value > literal
    return value >= literal


@njit(cache=True, nogil=True)
def _fill(row: Any, first: Any, end: Any) -> None:
    """Sets the bits first, …, end - 1."""
    at = first
    while at < end and at & 31:
        row[at >> 5] |= np.uint32(np.int64(1) << (at & 31))
        at += 1
    while at + 32 <= end:
        row[at >> 5] = np.uint32(0xFFFFFFFF)
        at += 32
    while at < end:
        row[at >> 5] |= np.uint32(np.int64(1) << (at & 31))
        at += 1


@njit(cache=True, nogil=True)
def _named(elements: Any, label: Any, row: Any) -> None:
    size = elements.label.shape[0]
    if label == WILDCARD:
        _fill(row, np.int64(0), np.int64(size))
        return
    at = np.int64(elements.head[label])
    while at >= 0:
        row[at >> 5] |= np.uint32(np.int64(1) << (at & 31))
        at = np.int64(elements.next[at])
    if elements.group[label] == label:
        for at in range(size):
            if elements.group[elements.label[at]] == label:
                row[at >> 5] |= np.uint32(np.int64(1) << (at & 31))


@njit(cache=True, nogil=True)
def _held(held: Any, place: Any, how: Any, literal: Any, row: Any) -> None:
    for at in range(held.first[place], held.end[place]):
        if how == EXISTS:
            holds = True
        elif how == SAME:
            holds = held.text[at] == literal
        elif how == DIFFERENT:
            holds = held.text[at] != literal
        else:
            holds = compares(held.number[at], how, literal)
        if holds:
            element = np.int64(held.element[at])
            row[element >> 5] |= np.uint32(np.int64(1) << (element & 31))


@njit(cache=True, nogil=True)
def _step(elements: Any, what: Any, source: Any, row: Any) -> None:
    """From a set to its parents, ancestors, children or descendants."""
    size = np.int64(elements.label.shape[0])
    done = np.int64(0)
    for at in range(source.shape[0]):
        word = np.int64(source[at])
        while word:
            one = (np.int64(at) << 5) + _lowest(word)
            word &= word - 1
            if what == PARENTS:
                if one < size:
                    one = np.int64(elements.parent[one])
                    row[one >> 5] |= np.uint32(np.int64(1) << (one & 31))
            elif what == ABOVE:
                while one < size:
                    one = np.int64(elements.parent[one])
                    if (np.int64(row[one >> 5]) >> (one & 31)) & 1:
                        break
                    row[one >> 5] |= np.uint32(np.int64(1) << (one & 31))
            elif what == CHILDREN:
                one = np.int64(elements.child[one]) if one < size else np.int64(0)
                while one >= 0:
                    row[one >> 5] |= np.uint32(np.int64(1) << (one & 31))
                    one = np.int64(elements.sibling[one])
            elif one == size:
                _fill(row, np.int64(0), size)
            elif one >= done:
                done = np.int64(elements.last[one])
                _fill(row, one + 1, done)


@njit(cache=True, nogil=True)
def _placed(elements: Any, answers: Any, how: Any, number: Any, source: Any, row: Any) -> None:
    """Those whose position among the siblings in the set compares."""
    answers.counts[STAMP] += 1
    stamp = answers.counts[STAMP]
    for at in range(source.shape[0]):
        word = np.int64(source[at])
        while word:
            one = (np.int64(at) << 5) + _lowest(word)
            word &= word - 1
            parent = elements.parent[one]
            if answers.seen[parent] != stamp:
                answers.seen[parent] = stamp
                answers.count[parent] = 0
            answers.count[parent] += 1
            if compares(np.float64(answers.count[parent]), how, number):
                row[one >> 5] |= np.uint32(np.int64(1) << (one & 31))


@njit(cache=True, nogil=True, inline="always")
def _row(memo: Any) -> Any:
    return (memo & 0xFFFFFFFF) - 1


@njit(cache=True, nogil=True)
def solve(graph: Any, elements: Any, held: Any, answers: Any, root: Any, missing: Any) -> int:
    """Answers a node and what it needs; MISSING if something must be fetched first, NO_ROOM if the pool is full."""
    memo, pool, counts, stack = answers.memo, answers.pool, answers.counts, answers.stack
    run = counts[RUN]
    size = np.int64(elements.label.shape[0])
    depth = 1
    stack[0] = root
    while depth > 0:
        node = np.int64(stack[depth - 1])
        if memo[node] >> 32 == run:
            depth -= 1
            continue
        what = graph.node[node, 0]
        left, right = np.int64(graph.node[node, 1]), np.int64(graph.node[node, 2])
        first, second = np.int64(-1), np.int64(-1)
        if what >= BOTH:
            if memo[left] >> 32 != run:
                stack[depth] = left
                depth += 1
                continue
            first = _row(memo[left])
            if first < 0 and what != EITHER and what != WITHOUT:
                memo[node] = run << 32
                depth -= 1
                continue
            if what <= EITHER:
                if memo[right] >> 32 != run:
                    stack[depth] = right
                    depth += 1
                    continue
                second = _row(memo[right])
                if first < 0 or second < 0:  # of BOTH only the second can be empty here
                    kept = np.int64(-1) if what == BOTH else max(first, second)
                    memo[node] = (run << 32) | (kept + 1)
                    depth -= 1
                    continue
        elif what == HELD and held.first[left] < 0:
            _miss(missing, np.int64(0), left)
            return MISSING
        elif what == ASKED:
            if held.asked[left] == -2:
                _miss(missing, np.int64(1), left)
                return MISSING
            memo[node] = (run << 32) | np.int64(held.asked[left] + 1)
            depth -= 1
            continue
        used = counts[ROWS]
        if used >= pool.shape[0]:
            return NO_ROOM
        row = pool[used]
        if what == BOTH:
            for at in range(row.shape[0]):
                row[at] = pool[first, at] & pool[second, at]
        elif what == EITHER:
            for at in range(row.shape[0]):
                row[at] = pool[first, at] | pool[second, at]
        else:
            row[:] = 0
            if what == NAMED:
                _named(elements, left, row)
            elif what == HELD:
                _held(held, left, right, graph.literal[node], row)
            elif what == START:
                _fill(row, size, size + 1)
            elif what == WITHOUT:
                _fill(row, np.int64(0), size)
                if first >= 0:
                    for at in range(row.shape[0]):
                        row[at] &= ~pool[first, at]
            elif what == EVERYWHERE:
                if (np.int64(pool[first, size >> 5]) >> (size & 31)) & 1:
                    _fill(row, np.int64(0), size)
            elif what == PLACED:
                _placed(elements, answers, right, graph.literal[node], pool[first], row)
            elif what != NOTHING:
                _step(elements, what, pool[first], row)
        some = False
        for at in range(row.shape[0]):
            if row[at] != 0:
                some = True
                break
        if some:
            counts[ROWS] += 1
            memo[node] = (run << 32) | (used + 1)
        else:
            memo[node] = run << 32
        depth -= 1
    return ANSWERED


@njit(cache=True, nogil=True)
def chain(labels: Any, head: Any, following: Any) -> None:
    """Chains the elements of each label, in document order."""
    for at in range(labels.shape[0] - 1, -1, -1):
        following[at] = head[labels[at]]
        head[labels[at]] = at


@njit(cache=True, nogil=True)
def _miss(missing: Any, kind: Any, what: Any) -> None:
    """Reports a place (0) or a question (1) that is not fetched; `missing[0, 0]` counts."""
    for at in range(1, missing[0, 0] + 1):
        if missing[at, 0] == kind and missing[at, 1] == what:
            return
    if missing[0, 0] + 1 < missing.shape[0]:
        missing[0, 0] += 1
        missing[missing[0, 0], 0] = kind
        missing[missing[0, 0], 1] = what


@njit(cache=True, nogil=True)
def select(
    graph: Any,
    elements: Any,
    held: Any,
    answers: Any,
    tests: Any,
    clauses: Any,
    slots: Any,
    flags: Any,
    waiting: Any,
    missing: Any,
) -> Any:
    """Marks the slots of the clauses whose conditions hold together at some element.

    A clause has up to three conditions, tests[clause]. Gives how many clauses were looked at: fewer than all if the
    pool is full. waiting[0] counts the clauses that need something missing, written behind it.
    """
    pool, memo, run = answers.pool, answers.memo, answers.counts[RUN]
    for at in range(clauses.shape[0]):
        clause = clauses[at]
        if flags[slots[clause]]:
            continue
        first, status = np.int64(-1), ANSWERED
        rows0, rows1, rows2 = np.int64(-1), np.int64(-1), np.int64(-1)
        for part in range(3):
            node = np.int64(tests[clause, part])
            if node < 0:
                continue
            if memo[node] >> 32 != run:
                status = solve(graph, elements, held, answers, node, missing)
                if status != ANSWERED:
                    break
            first = _row(memo[node])
            if first < 0:
                break
            if part == 0:
                rows0 = rows1 = rows2 = first
            elif part == 1:
                rows1 = first
            else:
                rows2 = first
        if status == NO_ROOM:
            return at
        if status == MISSING:
            waiting[0] += 1
            waiting[waiting[0]] = clause
            continue
        if first < 0:
            continue
        for word in range(pool.shape[1]):
            if pool[rows0, word] & pool[rows1, word] & pool[rows2, word]:
                flags[slots[clause]] = 1
                break
    return clauses.shape[0]
