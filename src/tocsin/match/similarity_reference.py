"""What the kernels of `similarity_kernels` mean: the same names in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isnan

Texts = Sequence[Sequence[tuple[int, float]]]


def tails(texts: Sequence[Sequence[float]]) -> list[list[float]]:
    """For each weight of each text, the norm of the text from this weight on."""
    return [[sum(weight * weight for weight in text[at:]) ** 0.5 for at in range(len(text))] for text in texts]


def near(
    document: Mapping[int, float], texts: Texts, threshold: Sequence[float], margin: float
) -> list[tuple[int, float]]:
    """Every text whose cosine with the document is at least its threshold, less the margin."""
    found = []
    for number, text in enumerate(texts):
        cosine = sum(weight * document.get(word, 0.0) for word, weight in text)
        if cosine > 0 and cosine >= threshold[number] - margin:
            found.append((number, cosine))
    return found


def cosines(
    documents: Sequence[Sequence[tuple[int, int]]],
    tf: Sequence[float],
    rarity: Sequence[float],
    asked: Mapping[int, float],
    asked_length: float,
) -> list[float]:
    """For documents of (word, count) pairs: the cosine of each with a query."""
    found = []
    for document in documents:
        weights = {word: tf[count] * rarity[word] for word, count in document}
        length = sum(weight * weight for weight in weights.values()) ** 0.5 * asked_length
        shared = sum(asked.get(word, 0.0) * weight for word, weight in weights.items())
        found.append(shared / length if length else 0.0)
    return found


def unweighed(documents: Sequence[Sequence[int]], rarity: Sequence[float]) -> list[int]:
    """The words of the documents whose rarity is NaN, each once, as they come."""
    return list(dict.fromkeys(word for document in documents for word in document if isnan(rarity[word])))


def count_words(documents: Sequence[Sequence[int]]) -> Counter[int]:
    """In how many of the documents each word occurs; each holds a word once."""
    return Counter(word for document in documents for word in document)
