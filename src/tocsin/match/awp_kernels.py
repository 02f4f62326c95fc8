"""The document side and the counting of P2P-DIET §4 as inner loops over integers.

The twin of what they say of a document is `match.tries.occurrence`; that of counting is in
`tests/match/test_tries.py`, a line of Python.
Words are numbers from 1 on; 0 is a word that no query has.
"""
# ruff: noqa: PLR0917 — a kernel takes arrays, and many; names would not make the call cheaper

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.match.kernels import kernel, part

Number = Any  # an int; in machine code an int64
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]

NONE = -1
SEVERAL = -2
AHEAD = 64  # values that are fetched from memory together


@part
def fetch(values: Ints, rows: Ints, begin: Number, end: Number, fetched: Ints) -> None:
    """Reads the values of the next rows, in a loop so short that the processor waits for all at once."""
    for index in range(begin, end):
        fetched[index - begin] = values[rows[index]]


# --- a document's words ----------------------------------------------------------------------


@kernel
def mark_words(words: Ints, present: Bytes, distinct: Ints) -> Number:
    """Marks the words of a text as present and lists each once; 0 is a word that no query has."""
    count = 0
    for word in words:
        if word != 0 and present[word] == 0:
            present[word] = 1
            distinct[count] = word
            count += 1
    return count


@kernel
def clear_words(words: Ints, present: Bytes) -> None:
    """Forgets a document's words."""
    for word in words:
        present[word] = 0


@kernel
def sort_positions(words: Ints, at: Longs, distinct: Ints, rows: Ints, first: Longs, positions: Longs) -> None:
    """Sorts the positions by word: those of the word in row r are positions[first[r]:first[r + 1]]."""
    first[: len(distinct) + 1] = 0
    for row in range(len(distinct)):
        rows[distinct[row]] = row
    for word in words:
        if word != 0:
            first[rows[word] + 1] += 1
    for row in range(len(distinct)):
        first[row + 1] += first[row]
    for index in range(len(words) - 1, -1, -1):
        word = words[index]
        if word != 0:
            row = rows[word] + 1
            first[row] -= 1
            positions[first[row]] = at[index]
    # Now first[r + 1] is where row r begins: move it into place.
    for row in range(len(distinct)):
        first[row] = first[row + 1]
    first[len(distinct)] = 0
    for word in words:
        first[len(distinct)] += word != 0


# --- proximity -------------------------------------------------------------------------------


@part
def any_between(values: Longs, size: Number, low: Number, high: Number) -> Number:
    """Is one of the sorted values in [low, high]?"""
    left, right = 0, size
    while left < right:
        middle = (left + right) // 2
        if values[middle] < low:
            left = middle + 1
        else:
            right = middle
    return left < size and values[left] <= high


class Chains(NamedTuple):
    """The proximity array; see `tries.numbers.ProximityArray`."""

    of: Ints  # by formula: NONE, a chain, or SEVERAL - where in the pool their number stands, and then the chains
    start: Ints  # by chain: where in the pool it says whether it is ordered, how many words it has, the words, the gaps
    pool: Ints
    known: Longs  # by chain: twice the turn in which it was last looked at, plus one if it held


class Occurrences(NamedTuple):
    """Where the words of a field occur: those of word w are positions[first[rows[w]]:first[rows[w] + 1]]."""

    rows: Ints
    first: Longs
    positions: Longs
    reached: Longs  # two halves, each as long as positions, to work in


@kernel
def has_chain(pool: Ints, chain: Number, o: Occurrences) -> bool:
    """Does the proximity formula at this place of the pool hold?"""
    ordered, size = pool[chain] == 1, np.int64(pool[chain + 1])
    words, gaps = chain + 2, chain + 2 + size
    row = o.rows[pool[words]]
    half = len(o.reached) // 2
    count = o.first[row + 1] - o.first[row]
    now, then = o.reached[:half], o.reached[half:]  # where the chain so far can end, and where it can go on to
    now[:count] = o.positions[o.first[row] : o.first[row + 1]]
    for step in range(1, size):
        low, high = np.int64(pool[gaps + 2 * step - 2]), np.int64(pool[gaps + 2 * step - 1])
        row = o.rows[pool[words + step]]
        fitting = 0
        for index in range(o.first[row], o.first[row + 1]):
            at = o.positions[index]
            if any_between(now, count, at - 1 - high, at - 1 - low) or (
                not ordered and any_between(now, count, at + 1 + low, at + 1 + high)
            ):
                then[fitting] = at
                fitting += 1
        if fitting == 0:
            return False
        now, then = then, now
        count = fitting
    return True


@kernel
def is_near(c: Chains, chain: Number, turn: Number, o: Occurrences) -> Number:
    """Does the chain hold? Many queries have the same one, so it is looked at once in a turn."""
    if c.known[chain] >> 1 != turn:
        c.known[chain] = 2 * turn + has_chain(c.pool, np.int64(c.start[chain]), o)
    return c.known[chain] & 1 == 1


@kernel
def keep_near(found: Ints, c: Chains, turn: Number, o: Occurrences) -> Number:
    """Moves the formulas whose proximity formulas hold to the front; returns their number."""
    chains = np.empty(AHEAD, np.int32)
    kept = 0
    for begin in range(0, len(found), AHEAD):
        end = min(begin + AHEAD, len(found))
        fetch(c.of, found, begin, end, chains)
        for index in range(begin, end):
            chain = np.int64(chains[index - begin])
            near = True
            if chain >= 0:
                near = is_near(c, chain, turn, o)
            elif chain != NONE:
                at = SEVERAL - chain
                for place in range(at + 1, at + 1 + c.pool[at]):
                    near = near and is_near(c, np.int64(c.pool[place]), turn, o)
            if near:
                found[kept] = found[index]
                kept += 1
    return kept


# --- Total and Count -------------------------------------------------------------------------


class Counting(NamedTuple):
    """What is known of formulas and conjunctions."""

    conjunction_of: Ints  # by formula; ~ the conjunction where it is all of it
    query_of: Longs  # by conjunction
    total: Shorts  # by conjunction: how many formulas it has
    counts: Shorts  # by conjunction: zero before and after


@kernel
def count_formulas(found: Ints, k: Counting, queries: Longs, complete: Ints) -> tuple[Number, Number]:
    """The queries of formulas that are all of a conjunction; the other conjunctions all of whose formulas were found.

    Both are written to buffers as long as `found`; returns how many of each there are.
    """
    conjunctions = np.empty(AHEAD, np.int32)
    touched = np.empty(len(found), np.int32)
    alone, whole, looked = 0, 0, 0
    for begin in range(0, len(found), AHEAD):
        end = min(begin + AHEAD, len(found))
        fetch(k.conjunction_of, found, begin, end, conjunctions)
        for index in range(end - begin):
            conjunction = np.int64(conjunctions[index])
            if conjunction < 0:
                queries[alone] = k.query_of[~conjunction]
                alone += 1
                continue
            touched[looked] = conjunction
            looked += 1
            k.counts[conjunction] += 1
            if k.counts[conjunction] == k.total[conjunction]:
                complete[whole] = conjunction
                whole += 1
    for conjunction in touched[:looked]:
        k.counts[conjunction] = 0
    return alone, whole
