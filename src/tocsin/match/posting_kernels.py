"""Which documents hold all of some words, and how near are they? One call for a whole collection, whatever its files.

A word's posting is the ascending list of the documents of a file that hold it. The rarest word of a query leads; in the
postings of the others we leap ahead (galloping search), so a common word costs little beside a rare one. What is found
is scored where it lies. The twin in `posting_reference` is the definition.
"""

# ruff: noqa: PLR0917 — a kernel takes arrays, and many

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.match.id_kernels import _slot
from tocsin.match.kernels import kernel

FULL = -1
SPACE = 32


@kernel
def invert(starts: Any, words: Any, first: Any, posting: Any) -> None:
    """Puts the documents of each word w into posting[first[w]:first[w + 1]]; first is zero before."""
    for at in range(words.size):
        first[words[at] + 1] += 1
    for word in range(1, first.size):
        first[word] += first[word - 1]
    for document in range(starts.size - 1):
        for at in range(starts[document], starts[document + 1]):
            posting[first[words[at]]] = document
            first[words[at]] += 1
    for word in range(first.size - 1, 0, -1):  # each has moved to where the next begins
        first[word] = first[word - 1]
    first[0] = 0


@kernel
def leap(posting: Any, at: Any, end: Any, wanted: Any) -> Any:
    """The first place from `at` on whose document is not before the wanted one."""
    step = 1
    low = at
    while at < end and posting[at] < wanted:
        low = at + 1
        at += step
        step *= 2
    high = min(at, end)
    while low < high:
        middle = (low + high) // 2
        if posting[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _places(text: Any, blob: Any, ends: Any, slots: Any, numbers: Any) -> int:
    """The numbers of the words, which stand between single spaces; how many, or 0 if one is unknown."""
    count = 0
    begin = 0
    for at in range(text.size + 1):
        if at == text.size or text[at] == SPACE:
            number = np.int64(slots[_slot(text, begin, at, blob, ends, slots)]) - 1
            if number < 0:
                return 0
            numbers[count] = number
            count += 1
            begin = at + 1
    return count


@kernel
def find_all(
    text: Any, blob: Any, ends: Any, slots: Any, files: Any, tf: Any, rarity: Any, positions: Any, scores: Any
) -> int:
    """The positions of the documents that hold all words of the text, ascending, and their cosines; returns how many.

    The words are distinct, in order, with a space between two. FULL if there is no room for all. A score is NaN where
    the rarity of some word is. Sums are the definition's, to the last bit (`similarity_kernels.cosines`).
    A file has the postings of its `terms`, or, if these are none, of the words from 0 on.
    """
    numbers = np.empty(text.size + 1, np.int64)
    count = _places(text, blob, ends, slots, numbers)
    if count == 0 or ends.size == 0:
        return 0
    squares = 0.0
    for i in range(count):
        squares += rarity[numbers[i]] * rarity[numbers[i]]
    asked_length = np.sqrt(squares)
    at = np.empty(count, np.int64)
    end = np.empty(count, np.int64)
    found = 0
    for file in range(len(files)):
        here, terms, first, posting, starts, words, counts = files[file]
        lead = 0
        for i in range(count):
            place = numbers[i]
            if terms.size:
                place = np.searchsorted(terms, numbers[i])
                if place == terms.size or terms[place] != numbers[i]:
                    place = np.int64(first.size)
            if place + 1 >= first.size or first[place] == first[place + 1]:
                lead = -1
                break
            at[i] = first[place]
            end[i] = first[place + 1]
            if end[i] - at[i] < end[lead] - at[lead]:
                lead = i
        while lead >= 0 and at[lead] < end[lead]:
            document = np.int64(posting[at[lead]])
            at[lead] += 1
            holds = True
            for i in range(count):
                if i != lead:
                    at[i] = leap(posting, at[i], end[i], document)
                    if at[i] == end[i]:
                        lead = -1
                        holds = False
                        break
                    if posting[at[i]] != document:
                        holds = False
                        break
            if not holds:
                continue
            if found == positions.size:
                return FULL
            squares = 0.0
            shared = 0.0
            for word_at in range(starts[document], starts[document + 1]):
                word = words[word_at]
                weight = tf[counts[word_at]] * rarity[word]
                squares += weight * weight
                for i in range(count):
                    if numbers[i] == word:
                        shared += rarity[word] * weight
                        break
            length = np.sqrt(squares) * asked_length
            positions[found] = here[document]
            scores[found] = 0.0 if length == 0 else shared / length
            found += 1
    return found
