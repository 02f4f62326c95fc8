"""Compiled reading of values: which texts of a document are numbers, or are strings that some query mentions?

Texts are places in the bytes of a document (`markup_kernels`), and are not decoded for this. The few that differ from
their bytes, because of references, line ends or blanks, are left to Python. Its twin is `path_masks.Reading._known`.
"""
# ruff: noqa: PLR0917, PLR1714 — a kernel takes arrays, and many; Numba compares numbers faster than it searches sets

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tocsin.markup_kernels import is_space


class Texts(NamedTuple):
    """The texts that are mentioned, by their fingerprints. A row is old if its number is not its own any more."""

    table: Any  # rows by hash, -1 where there is none
    place: Any  # of a row: start and end in the pool
    number: Any  # of a row
    current: Any  # of a number: its row
    pool: Any  # bytes
    lengths: Any  # of a length in bytes, up to the longest: is a text so long?


@njit(cache=True, nogil=True)
def fingerprint(data: Any, start: Any, end: Any, before: Any) -> Any:
    """A number below 2^30 for the bytes start, …, end - 1, behind bytes that have the number `before` (none: 0)."""
    mixed = before
    for at in range(start, end):
        mixed = (mixed * 31 + np.int64(data[at])) & 0x3FFFFFFF
    return mixed


@njit(cache=True, nogil=True)
def put_text(table: Any, row: Any, mixed: Any) -> None:
    """Files a row under the fingerprint of its text."""
    mask = table.shape[0] - 1
    slot = (mixed ^ (mixed >> 13)) & mask
    while table[slot] >= 0:
        slot = (slot + 1) & mask
    table[slot] = row


@njit(cache=True, nogil=True)
def _find_text(data: Any, piece: Any, first: Any, end: Any, texts: Any, length: Any) -> Any:
    """The number of the text of the pieces first, …, end - 1, which is its bytes; -1 if nothing mentions it."""
    mixed = np.int64(0)
    for one in range(first, end):
        mixed = fingerprint(data, np.int64(piece[one, 0]), np.int64(piece[one, 1]), mixed)
    mask = texts.table.shape[0] - 1
    slot = (mixed ^ (mixed >> 13)) & mask
    while texts.table[slot] >= 0:
        row = texts.table[slot]
        at = texts.place[row, 0]
        if texts.place[row, 1] - at == length and texts.current[texts.number[row]] == row:
            is_same = True
            for one in range(first, end):
                for byte in range(piece[one, 0], piece[one, 1]):
                    if data[byte] != texts.pool[at]:
                        is_same = False
                        break
                    at += 1
                if not is_same:
                    break
            if is_same:
                return np.int64(texts.number[row])
        slot = (slot + 1) & mask
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _is_hard(data: Any, start: Any, end: Any, is_value: Any, is_cdata: Any) -> Any:
    """Does a text differ from its bytes, because of references, line ends or blanks?"""
    found = False
    for at in range(start, end):
        byte = data[at]
        found |= (byte == 38 and not is_cdata) or byte == 13 or (is_value and (byte == 9 or byte == 10))
    return found


@njit(cache=True, nogil=True)
def _decimal(data: Any, piece: Any, lead: Any, first: Any, end: Any) -> Any:
    """What a text of digits says, exactly: how sure (0: it is no number, 1: it is this one, 2: Python must say)."""
    value, digits, after = np.int64(0), 0, 0
    state = 0  # 0: at the start, 1: behind '-', 2: in digits, 3: behind '.', 4: behind all
    negative = False
    for one in range(first, end):
        for at in range(lead if one == first else piece[one, 0], piece[one, 1]):
            byte = np.int64(data[at])
            if is_space(byte):
                if state == 1:
                    return 0, np.nan
                state = 4
            elif 48 <= byte <= 57:
                if state == 4:
                    return 0, np.nan
                digits += 1
                if digits > 15:
                    return 2, np.nan
                value = value * 10 + (byte - 48)
                after += state == 3
                state = 3 if state == 3 else 2
            elif byte == 45 and state == 0:
                negative, state = True, 1
            elif byte == 46 and state < 3:
                state = 3
            elif (byte == 69 or byte == 101) and digits and state < 4:
                return 2, np.nan
            else:
                return 0, np.nan
    if digits == 0:
        return 0, np.nan
    found = np.float64(value) / 10.0**after  # both are exact, so this is the nearest number
    return 1, -found if negative else found


@njit(cache=True, nogil=True)
def _survey(data: Any, piece: Any, is_value: Any) -> Any:
    """Of a piece: bytes before it, those of hard ones, the next piece that is not blank, and where its text starts."""
    size = piece.shape[0]
    before, hard = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    solid, lead = np.full(size + 1, size, np.int64), np.zeros(size + 1, np.int64)
    for one in range(size):
        start, end = np.int64(piece[one, 0]), np.int64(piece[one, 1])
        before[one + 1] = before[one] + end - start
        hard[one + 1] = hard[one]
        if _is_hard(data, start, end, is_value, not is_value and piece[one, 2] != 0):
            hard[one + 1] += end - start
    for one in range(size - 1, -1, -1):
        at, end = np.int64(piece[one, 0]), np.int64(piece[one, 1])
        while at < end and is_space(data[at]):
            at += 1
        solid[one], lead[one] = one, at
        if at == end:
            solid[one], lead[one] = solid[one + 1], lead[one + 1]
    return before, hard, solid, lead


@njit(cache=True, nogil=True)
def find_values(
    data: Any, piece: Any, is_value: Any, first: Any, end: Any, texts: Any, number: Any, string: Any, asked: Any
) -> Any:
    """Which texts are numbers, and which are mentioned? Each is the pieces first[i], …, end[i] - 1.

    What is found is written into `number` and `string`. What only Python can say (numbers that are long, short texts
    with references) is written into `asked`; gives how many.
    """
    before, hard, solid, lead = _survey(data, piece, is_value)
    longest, count = texts.lengths.shape[0] - 1, 0
    for at in range(first.shape[0]):
        begin, stop = np.int64(first[at]), np.int64(end[at])
        length, start = before[stop] - before[begin], solid[begin]
        unsure = hard[stop] - hard[begin]
        is_asked = False
        if unsure:  # what is hard may become short: only the rest is known, and how it begins
            is_asked = length - unsure <= longest
            if not is_asked and start < stop:
                byte = data[lead[begin]]
                is_asked = 48 <= byte <= 57 or byte == 45 or byte == 46 or byte == 38
        else:
            if start < stop:
                sure, found = _decimal(data, piece, lead[begin], start, stop)
                if sure == 1:
                    number[at] = found
                is_asked = sure == 2
            if length <= longest and texts.lengths[length]:
                string[at] = _find_text(data, piece, begin, stop, texts, length)
        if is_asked:
            asked[count] = at
            count += 1
    return count
