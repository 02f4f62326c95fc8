"""Which texts is a document near to? Partial cosines over the rare words, the rest only where it can still matter.

Only the rarest words of a text are in the postings: as many as are needed so that the others alone cannot reach the
threshold (the bound of the maximum score, by Cauchy and Schwarz). What a document meets there gets a partial cosine;
where partial cosine and the bound of the rest reach the threshold, the cosine is computed in full. The twin in
`similarity_reference` is the definition.
"""

# ruff: noqa: PLR0917 — a kernel takes arrays, and many

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba.typed import List

from tocsin.match.kernels import kernel

SLACK = 1e-5  # partial cosines are kept in 32 bits


def listed(items: Iterable[Any]) -> Any:
    """Tuples of arrays, all of the same types, as a list that kernels take without compiling for each length."""
    found = List()
    for item in items:
        found.append(item)
    return found


@kernel
def tails(starts: Any, weights: Any, out: Any) -> None:
    """out[i] = the norm of the weights of a text from the i-th on; text t has those of starts[t]:starts[t + 1]."""
    for text in range(starts.size - 1):
        squares = 0.0
        for at in range(starts[text + 1] - 1, starts[text] - 1, -1):
            squares += weights[at] * weights[at]
            out[at] = np.sqrt(squares)


@kernel
def near(
    words: Any,
    weights: Any,
    levels: Any,
    first: Any,
    posting: Any,
    posting_weight: Any,
    starts: Any,
    text_words: Any,
    text_weights: Any,
    threshold: Any,
    rest: Any,
    rest_level: Any,
    margin: float,
    document: int,
    seen: Any,
    partial: Any,
    touched: Any,
    dense: Any,
    out: Any,
    cosines: Any,
) -> int:
    """Writes the texts whose cosine is at least threshold - margin, and their cosines; returns how many.

    words, weights: the document's, normalised. levels[l]: the norm of its weights at rarity level l and below.
    document is a number that `seen` does not hold yet; dense is zero before and after.
    """
    met = 0
    for i in range(words.size):
        word = words[i]
        weight = np.float32(weights[i])
        dense[word] = weights[i]
        for at in range(first[word], first[word + 1]):
            text = posting[at]
            if seen[text] != document:
                seen[text] = document
                partial[text] = 0
                touched[met] = text
                met += 1
            partial[text] += weight * posting_weight[at]
    found = 0
    for i in range(met):
        text = touched[i]
        bound = partial[text] + rest[text] * levels[rest_level[text]]
        if bound + SLACK >= threshold[text]:
            cosine = 0.0
            for at in range(starts[text], starts[text + 1]):
                cosine += text_weights[at] * dense[text_words[at]]
            if cosine >= threshold[text] - margin:
                out[found] = text
                cosines[found] = cosine
                found += 1
    for i in range(words.size):
        dense[words[i]] = 0.0
    return found


@kernel
def cosines(
    begins: Any, ends: Any, words: Any, counts: Any, tf: Any, rarity: Any, asked: Any, asked_length: float, out: Any
) -> None:
    """out[i] = the cosine of a query and the document with words[begins[i]:ends[i]], not rounded.

    tf[f] is the weight of a count; asked[w] is the query's weight of a word. Documents hold their words in the order
    of the definition, so every sum is the definition's sum, to the last bit.
    """
    for i in range(begins.size):
        squares = 0.0
        shared = 0.0
        for at in range(begins[i], ends[i]):
            word = words[at]
            weight = tf[counts[at]] * rarity[word]
            squares += weight * weight
            if asked[word] != 0:
                shared += asked[word] * weight
        length = np.sqrt(squares) * asked_length
        out[i] = shared / length if length > 0 else 0.0


@kernel
def unweighed(begins: Any, ends: Any, words: Any, rarity: Any, out: Any) -> int:
    """Writes each word of the documents whose rarity is NaN, once, and returns how many; their rarity is then -1."""
    found = 0
    for i in range(begins.size):
        for at in range(begins[i], ends[i]):
            word = words[at]
            if np.isnan(rarity[word]):
                rarity[word] = -1.0
                out[found] = word
                found += 1
    return found


@kernel
def count_words(begins: Any, ends: Any, words: Any, out: Any) -> None:
    """Adds to out[w] in how many of the documents word w occurs."""
    for i in range(begins.size):
        for at in range(begins[i], ends[i]):
            out[words[at]] += 1
