"""What the kernels of `posting_kernels` mean: the same names in plain Python."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence


def invert(documents: Sequence[Sequence[int]], words: int) -> list[list[int]]:
    """For each word the documents that hold it."""
    return [[at for at, held in enumerate(documents) if word in held] for word in range(words)]


def leap(posting: Sequence[int], at: int, end: int, wanted: int) -> int:
    """The first place from `at` on whose document is not before the wanted one."""
    return bisect_left(posting, wanted, at, end)


def find_all(
    asked: Sequence[int],
    documents: Mapping[int, Sequence[tuple[int, int]]],
    tf: Sequence[float],
    rarity: Sequence[float],
) -> list[tuple[int, float]]:
    """For documents of (word, count) pairs by position: those that hold all words, and their cosines."""
    asked_length = sum(rarity[word] * rarity[word] for word in asked) ** 0.5
    found = []
    for position, document in documents.items():
        weights = {word: tf[count] * rarity[word] for word, count in document}
        if all(word in weights for word in asked):
            length = sum(weight * weight for weight in weights.values()) ** 0.5 * asked_length
            shared = sum(rarity[word] * weights[word] for word in weights if word in asked)
            found.append((position, shared / length if length else 0.0))
    return found
