"""Sets of elements as rows of bits, and how one is made from another or from the values of a document.

A row has a bit for each element and, behind them, one for the document itself. Sets are walked by their members, so
that a step costs what it finds. The twin of all of these is `path_reference.evaluate`.
"""
# ruff: noqa: PLR0917, PLR1714, SIM109, SIM110 — a kernel takes arrays, and many; Numba likes plain loops and comparisons

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from tocsin.match.path_conditions import (
    ABOVE,
    ANY_ATTRIBUTE,
    AT_MOST,
    BOTH,
    CHILDREN,
    DIFFERENT,
    EITHER,
    EQUAL,
    EXISTS,
    FIRST_CHILD,
    LABEL,
    LAST,
    LESS,
    MORE,
    NEXT,
    NEXT_NUMBER,
    NEXT_STRING,
    OWNER,
    PARENT,
    PARENTS,
    SAME,
    SAME_LABEL,
    SIBLING,
    STAMP,
    STRING,
    UNEQUAL,
    VALUE_LABEL,
    WILDCARD,
    WITHOUT,
)

_PLACES = "0 1 28 2 29 14 24 3 30 22 20 15 25 17 4 8 31 27 13 23 21 19 16 7 26 12 18 6 11 5 10 9"
_BITS = np.array([int(place) for place in _PLACES.split()], np.int64)  # by de Bruijn's sequence 0x077CB531


@njit(cache=True, nogil=True, inline="always")
def lowest(word: Any) -> Any:
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
def mark(pool: Any, row: Any, one: Any) -> None:
    """Puts an element into a set."""
    pool[row, one >> 5] |= np.uint32(np.int64(1) << (one & 31))


@njit(cache=True, nogil=True)
def fill(pool: Any, row: Any, first: Any, end: Any) -> None:
    """Puts the elements first, …, end - 1 into a set."""
    at = first
    while at < end and at & 31:
        mark(pool, row, at)
        at += 1
    while at + 32 <= end:
        pool[row, at >> 5] = np.uint32(0xFFFFFFFF)
        at += 32
    while at < end:
        mark(pool, row, at)
        at += 1


@njit(cache=True, nogil=True)
def is_empty(pool: Any, row: Any) -> Any:
    for at in range(pool.shape[1]):
        if pool[row, at] != 0:
            return False
    return True


@njit(cache=True, nogil=True)
def set_named(tree: Any, by_label: Any, label: Any, pool: Any, row: Any) -> None:
    size = np.int64(tree.shape[0] - 1)
    if label == WILDCARD:
        fill(pool, row, np.int64(0), size)
        return
    at = np.int64(by_label[label, 0])
    while at >= 0:
        mark(pool, row, at)
        at = np.int64(tree[at, SAME_LABEL])
    if by_label[label, 1] == label:
        for one in range(size):
            if by_label[tree[one, LABEL], 1] == label:
                mark(pool, row, np.int64(one))


@njit(cache=True, nogil=True)
def first_row(by_label: Any, by_kind: Any, by_string: Any, kind: Any, label: Any, how: Any, literal: Any) -> Any:
    """The first value that could compare, or -1; -2 where all of a kind must be looked at."""
    if how == SAME:
        return np.int64(by_string[kind, np.int64(literal)])
    if label == WILDCARD or label == ANY_ATTRIBUTE or by_label[label, 1] == label:
        return np.int64(-2)
    if how == EQUAL or how >= LESS:
        return np.int64(by_kind[kind, label, 1])
    return np.int64(by_kind[kind, label, 0])


@njit(cache=True, nogil=True)
def held(
    by_label: Any, rows: Any, number: Any, at: Any, end: Any, chained: Any, label: Any, how: Any, literal: Any
) -> Any:
    """The first value from `at` on that compares, or -1: the one walk over values.

    Looks only at what can compare: the rows of the string, those of the label that are numbers, or those of the label.
    Where they are not chained (see `first_row`), at all up to `end`.
    """
    every = label == WILDCARD or label == ANY_ATTRIBUTE
    group = not every and by_label[label, 1] == label
    while at >= 0 and at < end:
        if how == EXISTS:
            holds = True
        elif how == SAME:
            holds = every or group or rows[at, VALUE_LABEL] == label
        elif how == DIFFERENT:
            holds = rows[at, STRING] != literal
        else:
            holds = compares(number[at], how, literal)
        if holds and (not group or by_label[rows[at, VALUE_LABEL], 1] == label):
            return at
        at = following(rows, at, chained, how)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def following(rows: Any, at: Any, chained: Any, how: Any) -> Any:
    """The value after this one, among those that can compare."""
    if not chained:
        return at + 1
    if how == SAME:
        return np.int64(rows[at, NEXT_STRING])
    return np.int64(rows[at, NEXT_NUMBER if how == EQUAL or how >= LESS else NEXT])


@njit(cache=True, nogil=True)
def holder(tree: Any, rows: Any, at: Any, up: Any) -> Any:
    """The element that has a value (with `up`: that has it as a child's)."""
    one = np.int64(rows[at, OWNER])
    return np.int64(tree[one, PARENT]) if up else one


@njit(cache=True, nogil=True)
def set_held(
    tree: Any,
    by_label: Any,
    rows: Any,
    number: Any,
    first: Any,
    start: Any,
    end: Any,
    up: Any,
    label: Any,
    right: Any,
    literal: Any,
    pool: Any,
    row: Any,
) -> None:
    """The elements of a label whose values (with `up`: their children's) of another label compare."""
    how, owner, chained = right & 15, right >> 4, first != -2
    at = held(by_label, rows, number, first if chained else start, end, chained, label, how, literal)
    while at >= 0:
        one = holder(tree, rows, at, up)
        if owner == WILDCARD or (
            one < tree.shape[0] - 1 and (tree[one, LABEL] == owner or by_label[tree[one, LABEL], 1] == owner)
        ):
            mark(pool, row, one)
        at = held(by_label, rows, number, following(rows, at, chained, how), end, chained, label, how, literal)


@njit(cache=True, nogil=True)
def set_stepped(tree: Any, what: Any, pool: Any, source: Any, row: Any) -> None:
    """From a set to its parents, ancestors, children or descendants."""
    size = np.int64(tree.shape[0] - 1)
    done = np.int64(0)
    for at in range(pool.shape[1]):
        word = np.int64(pool[source, at])
        while word:
            one = (np.int64(at) << 5) + lowest(word)
            word &= word - 1
            if what == PARENTS:
                if one < size:
                    mark(pool, row, np.int64(tree[one, PARENT]))
            elif what == ABOVE:
                while one < size:
                    one = np.int64(tree[one, PARENT])
                    if (np.int64(pool[row, one >> 5]) >> (one & 31)) & 1:
                        break
                    mark(pool, row, one)
            elif what == CHILDREN:
                one = np.int64(tree[one, FIRST_CHILD]) if one < size else np.int64(0)
                while one >= 0:
                    mark(pool, row, one)
                    one = np.int64(tree[one, SIBLING])
            elif one == size:
                fill(pool, row, np.int64(0), size)
            elif one >= done:
                done = np.int64(tree[one, LAST])
                fill(pool, row, one + 1, done)


@njit(cache=True, nogil=True)
def set_placed(tree: Any, places: Any, counts: Any, how: Any, number: Any, pool: Any, source: Any, row: Any) -> None:
    """Those whose position among the siblings in the set compares."""
    counts[STAMP] += 1
    stamp = counts[STAMP]
    for at in range(pool.shape[1]):
        word = np.int64(pool[source, at])
        while word:
            one = (np.int64(at) << 5) + lowest(word)
            word &= word - 1
            parent = tree[one, PARENT]
            if places[parent, 0] != stamp:
                places[parent, 0] = stamp
                places[parent, 1] = 0
            places[parent, 1] += 1
            if compares(np.float64(places[parent, 1]), how, number):
                mark(pool, row, one)


@njit(cache=True, nogil=True)
def set_combined(what: Any, pool: Any, first: Any, second: Any, row: Any, size: Any) -> None:
    """Sets from sets, word by word."""
    if what == BOTH:
        for at in range(pool.shape[1]):
            pool[row, at] = pool[first, at] & pool[second, at]
    elif what == EITHER:
        for at in range(pool.shape[1]):
            pool[row, at] = pool[first, at] | pool[second, at]
    elif what == WITHOUT:
        fill(pool, row, np.int64(0), size)
        if first >= 0:
            for at in range(pool.shape[1]):
                pool[row, at] &= ~pool[first, at]
    elif (np.int64(pool[first, size >> 5]) >> (size & 31)) & 1:  # EVERYWHERE
        fill(pool, row, np.int64(0), size)
