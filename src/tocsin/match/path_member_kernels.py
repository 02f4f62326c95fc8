"""Which members of a family do values meet? Their twin is `path_reference.mark_members`.

The members of a family (`path_families`) are sorted by comparison and literal, so the ones that a value meets lie
together. A small family is not worth that: its members are looked at one by one.
"""
# ruff: noqa: PLR0917, PLR1714, SIM109 — a kernel takes arrays, and many; Numba likes plain loops and comparisons

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from tocsin.match.path_conditions import AT_LEAST, AT_MOST, DIFFERENT, EQUAL, EXISTS, LESS, MANY, SAME, STRING, UNEQUAL
from tocsin.match.path_set_kernels import following, held, holder


@njit(cache=True, nogil=True)
def place(member: Any, literals: Any, low: Any, high: Any, how: Any, literal: Any, after: Any) -> Any:
    """Where the first member is that does not come before this comparison and literal (`after`: nor equals it)."""
    while low < high:
        middle = (low + high) >> 1
        if (
            member[middle, 0] < how
            or (member[middle, 0] == how and literals[middle] < literal)
            or (after and member[middle, 0] == how and literals[middle] == literal)
        ):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _flag(member: Any, low: Any, high: Any, flags: Any) -> None:
    for at in range(low, high):
        flags[member[at, 1]] = 1


@njit(cache=True, nogil=True)
def mark_members(member: Any, literals: Any, first: Any, end: Any, strings: Any, numbers: Any, flags: Any) -> None:
    """Marks the slots of the members first, …, end - 1 that some value meets.

    A value is the number of its string, -1 if no condition mentions that, and its number, NaN if it is none.
    """
    if strings.size == 0:
        return
    low, high = np.inf, -np.inf
    for at in range(numbers.size):  # NaN is neither less nor more
        low = min(low, numbers[at])
        high = max(high, numbers[at])
    while first < end:
        how = np.int64(member[first, 0])
        stop = first + 1
        if end - first > MANY:
            stop = place(member, literals, stop, end, how, np.inf, True)
        else:
            while stop < end and member[stop, 0] == how:
                stop += 1
        if how <= UNEQUAL:
            _mark_equal(member, literals, first, stop, how, strings, numbers, flags)
        elif low <= high:
            if how == LESS:
                _flag(member, place(member, literals, first, stop, how, low, True), stop, flags)
            elif how == AT_MOST:
                _flag(member, place(member, literals, first, stop, how, low, False), stop, flags)
            else:
                _flag(member, first, place(member, literals, first, stop, how, high, how == AT_LEAST), flags)
        first = stop


@njit(cache=True, nogil=True)
def _mark_equal(
    member: Any, literals: Any, first: Any, end: Any, how: Any, strings: Any, numbers: Any, flags: Any
) -> None:
    """The same for members that all compare in this way: a value equals their literal, or some value does not."""
    of_strings = how == SAME or how == DIFFERENT
    if how == SAME or how == EQUAL:
        for at in range(strings.size):
            value = np.float64(strings[at]) if of_strings else numbers[at]
            if (strings[at] >= 0) if of_strings else not np.isnan(value):
                begin = place(member, literals, first, end, how, value, False)
                while begin < end and literals[begin] == value:
                    flags[member[begin, 1]] = 1
                    begin += 1
        return
    only = np.float64(strings[0]) if of_strings else numbers[0]
    is_one = (strings[0] >= 0) if of_strings else not np.isnan(only)
    for at in range(strings.size):
        is_one = is_one and (strings[at] if of_strings else numbers[at]) == only
    if is_one:  # all but those that equal it
        begin = place(member, literals, first, end, how, only, False)
        _flag(member, first, begin, flags)
        first = place(member, literals, begin, end, how, only, True)
    _flag(member, first, end, flags)


@njit(cache=True, nogil=True)
def is_in(pool: Any, found: Any, one: Any) -> Any:
    """Is the element in all three sets?"""
    word = pool[found[0], one >> 5] & pool[found[1], one >> 5] & pool[found[2], one >> 5]
    return (np.int64(word) >> (one & 31)) & 1


@njit(cache=True, nogil=True)
def meets_one(
    tree: Any,
    by_label: Any,
    rows: Any,
    number: Any,
    first: Any,
    start: Any,
    end: Any,
    up: Any,
    label: Any,
    how: Any,
    literal: Any,
    pool: Any,
    found: Any,
) -> Any:
    """Does a value of the label compare, at an element of the sets?"""
    chained = first != -2
    at = held(by_label, rows, number, first if chained else start, end, chained, label, how, literal)
    while at >= 0:
        if is_in(pool, found, holder(tree, rows, at, up)):
            return True
        at = held(by_label, rows, number, following(rows, at, chained, how), end, chained, label, how, literal)
    return False


@njit(cache=True, nogil=True)
def values_at(
    tree: Any,
    by_label: Any,
    rows: Any,
    number: Any,
    first: Any,
    start: Any,
    end: Any,
    up: Any,
    label: Any,
    pool: Any,
    found: Any,
    strings: Any,
    numbers: Any,
) -> Any:
    """Writes the values of the label at the elements of the sets; gives how many."""
    count, chained = 0, first != -2
    at = held(by_label, rows, number, first if chained else start, end, chained, label, EXISTS, 0.0)
    while at >= 0:
        if is_in(pool, found, holder(tree, rows, at, up)):
            strings[count], numbers[count] = rows[at, STRING], number[at]
            count += 1
        at = held(by_label, rows, number, following(rows, at, chained, EXISTS), end, chained, label, EXISTS, 0.0)
    return count
