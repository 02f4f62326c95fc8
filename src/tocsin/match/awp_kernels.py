"""The document side and the counting of P2P-DIET §4 as inner loops over integers.

The twin of the first half is `match.tries.occurrence`, that of the second `match.tries.engine`.
Words are numbers from 1 on; 0 is a word that no query has.
"""
# ruff: noqa: PLR0917 — a kernel takes arrays, and many; names would not make the call cheaper

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match.kernels import kernel, part

Number = Any  # an int; in machine code an int64
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]

NONE = -1


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


@part
def has_chain(pool: Ints, chain: Number, rows: Ints, first: Longs, positions: Longs, reached: Longs) -> bool:
    """Does the proximity formula hold? In the pool: whether ordered, how many words, the words, the gaps.

    `reached` has two halves, each as long as `positions`: where the chain so far can end, and what follows.
    """
    ordered, size = pool[chain] == 1, np.int64(pool[chain + 1])
    words, gaps = chain + 2, chain + 2 + size
    row = rows[pool[words]]
    half = len(reached) // 2
    count = first[row + 1] - first[row]
    now, then = reached[:half], reached[half:]
    now[:count] = positions[first[row] : first[row + 1]]
    for step in range(1, size):
        low, high = np.int64(pool[gaps + 2 * step - 2]), np.int64(pool[gaps + 2 * step - 1])
        row = rows[pool[words + step]]
        fitting = 0
        for index in range(first[row], first[row + 1]):
            at = positions[index]
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
def keep_near(
    found: Ints, chains: Ints, pool: Ints, rows: Ints, first: Longs, positions: Longs, reached: Longs
) -> Number:
    """Moves the formulas whose proximity formulas hold to the front; returns their number.

    In the pool, from chains[formula] on: the length of all, the number of chains, then the chains.
    """
    kept = 0
    for index in range(len(found)):
        formula = found[index]
        at = np.int64(chains[formula])
        near = True
        if at != NONE:
            left = pool[at + 1]
            at += 2
            while left > 0 and near:
                near = has_chain(pool, at, rows, first, positions, reached)
                at += 3 * np.int64(pool[at + 1])  # 2 + size words + 2 (size - 1) bounds
                left -= 1
        if near:
            found[kept] = formula
            kept += 1
    return kept


# --- Total and Count -------------------------------------------------------------------------


@kernel
def count_formulas(found: Ints, clause_of: Ints, total: Shorts, counts: Shorts, complete: Ints) -> Number:
    """Writes the conjunctions all of whose formulas were found; `counts` is zero before and after."""
    size = 0
    for formula in found:
        clause = np.int64(clause_of[formula])
        if total[clause] > 1:
            counts[clause] += 1
            if counts[clause] != total[clause]:
                continue
        complete[size] = clause
        size += 1
    for formula in found:
        clause = np.int64(clause_of[formula])
        if total[clause] > 1:
            counts[clause] = 0
    return size
