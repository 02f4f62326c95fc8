"""How well a document fits a query: the cosine of their words, weighted by tf · idf (SmartSeer §II).

Weights: tf = 1 + ln f and idf = ln(1 + N/df), where a word that occurs nowhere counts as df = 1.
Cosines are rounded, so that equal texts have cosine 1 and every engine gives the same score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import log, sqrt

from tocsin.model import Document
from tocsin.query.ast import And, Equals, Near, Not, Or, Query, Words
from tocsin.text import Analysis, texts, words

ROUNDING = 12  # decimals


@dataclass(frozen=True)
class Statistics:
    """In how many of the documents each word occurs; `version` names this state of knowledge."""

    documents: int = 0
    frequency: Mapping[str, int] = field(default_factory=dict)
    version: int = 0
    _rarity: dict[str, float] = field(default_factory=dict, compare=False, repr=False)

    def weight(self, word: str, count: int) -> float:
        """tf · idf, with tf = 1 + ln f and idf = ln(1 + N/df)."""
        rarity = self._rarity.get(word)
        if rarity is None:
            rarity = self._rarity[word] = log(1 + self.documents / max(1, self.frequency.get(word, 0)))
        return (1 + log(count)) * rarity if count > 1 else rarity

    @staticmethod
    def of(documents: Iterable[Document], analysis: Analysis) -> Statistics:
        """Counted from these documents."""
        frequency: Counter[str] = Counter()
        number = 0
        for document in documents:
            number += 1
            frequency.update(word_counts(document, analysis).keys())
        return Statistics(number, frequency)


def word_counts(document: Document, analysis: Analysis, name: str | None = None) -> Counter[str]:
    """How often each word occurs in the string values of the field (None: of all fields)."""
    counts: Counter[str] = Counter()
    for value, _ in texts(document, name, analysis):
        counts.update(value)
    counts.pop("", None)  # positions whose word was dropped
    return counts


def query_words(query: Query, analysis: Analysis, positive: bool = True) -> set[str]:
    """The distinct words of the positive words, phrases, proximities and equalities."""
    match query:
        case And(parts) | Or(parts):
            return set().union(*(query_words(part, analysis, positive) for part in parts))
        case Not(part):
            return query_words(part, analysis, not positive)
        case Words() | Near() | Equals():
            if not positive:
                return set()
            names = analysis.names(query.field)
            operands = query.words if isinstance(query, Near) else (query.text,)
            return {word for text in operands for name in names for word in words(text, name) if word}
    return set()


@dataclass(frozen=True, slots=True)
class Vector:
    """Weights of words, and the length of the vector; built in the order of the words, so sums are always equal."""

    weights: Mapping[str, float]
    length: float

    @staticmethod
    def of(counts: Mapping[str, int], statistics: Statistics) -> Vector:
        """The weighted words of a bag of words."""
        weights = {word: statistics.weight(word, counts[word]) for word in sorted(counts)}
        return Vector(weights, sqrt(sum(weight * weight for weight in weights.values())))


def cosine(document: Vector, query: Vector) -> float:
    """The cosine of the two, in [0, 1]; 0 if one of them is empty."""
    shared = sum(weight * document.weights.get(word, 0.0) for word, weight in query.weights.items())
    length = document.length * query.length
    return min(1.0, round(shared / length, ROUNDING)) if length else 0.0


def query_vector(query: Query, analysis: Analysis, statistics: Statistics) -> Vector:
    """The words that the query asks for, each once."""
    return Vector.of(dict.fromkeys(query_words(query, analysis), 1), statistics)


def document_vector(document: Document, analysis: Analysis, statistics: Statistics) -> Vector:
    """The words of all string fields."""
    return Vector.of(word_counts(document, analysis), statistics)


def score(query: Query, document: Document, analysis: Analysis, statistics: Statistics) -> float:
    """How well the document fits the query, in [0, 1]; 0 if the query asks for no word."""
    return cosine(document_vector(document, analysis, statistics), query_vector(query, analysis, statistics))


def similarity(field: str, text: str, document: Document, analysis: Analysis, statistics: Statistics) -> float:
    """The cosine that `~` compares with its threshold: of the named field and the text, each word as often as it is."""
    asked = Counter(word for word in words(text, analysis.of(field)) if word)
    found = word_counts(document, analysis, field)
    return cosine(Vector.of(found, statistics), Vector.of(asked, statistics))


def score_parts(
    query: Query, document: Document, analysis: Analysis, statistics: Statistics, vector: Vector | None = None
) -> dict[str, float]:
    """What each word of the query adds to the score; `vector`: the document's, if it is known already."""
    asked = query_vector(query, analysis, statistics)
    found = document_vector(document, analysis, statistics) if vector is None else vector
    length = asked.length * found.length
    shared = {word: weight * found.weights[word] for word, weight in asked.weights.items() if word in found.weights}
    return {word: round(part / length, 6) for word, part in shared.items()} if length else {}
