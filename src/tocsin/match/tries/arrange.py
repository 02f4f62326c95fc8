"""The order in which sets of words are stored when a word directory is built anew (P2P-DIET §4: "re-organizing").

Sorted by their commonest words, sets that share words come one after the other, and the words that many
share are spelled out first.
"""

from __future__ import annotations

import numpy as np

from tocsin.match.trie_kernels import Ints, Longs


def arranged(offsets: Longs, words: Ints, formulas: Ints, ranks: Longs) -> tuple[Longs, Ints, Ints]:
    """The same sets in their new order, the words of each by rank."""
    if not len(formulas):
        return offsets, words, formulas
    uses = np.bincount(words, minlength=len(ranks))
    commonness = np.empty(len(ranks), np.int64)
    commonness[np.argsort(-uses, kind="stable")] = np.arange(len(ranks))
    order = _by_sequence(offsets, commonness[_sorted_within(offsets, words, commonness)])
    sizes = np.diff(offsets)[order]
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    moved = np.repeat(offsets[:-1][order] - starts[:-1], sizes) + np.arange(len(words))
    return starts, _sorted_within(offsets, words, ranks)[moved], formulas[order]


def _sorted_within(offsets: Longs, words: Ints, key: Longs) -> Ints:
    """The words, those of each set sorted by the key."""
    which = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return words[np.lexsort((key[words], which))]


def _by_sequence(offsets: Longs, numbers: Longs) -> Longs:
    """The order of the sets as sequences of numbers; beyond the first DEPTH numbers they count as equal."""
    sizes = np.diff(offsets)
    columns = []
    for index in range(min(DEPTH, int(sizes.max()))):
        has = sizes > index
        column = np.full(len(sizes), -1, np.int64)
        column[has] = numbers[offsets[:-1][has] + index]
        columns.append(column)
    return np.lexsort(columns[::-1])


DEPTH = 16
