"""The vector of `~`: the words of its text, or those that feedback has moved it to (Rocchio's method).

A text's vector is kept as *factors*: how much each word counts in it, as tf does for a text that was only written;
rarity comes on top when it is compared, so a moved text is weighed by the statistics of the day as any other is. The
query language has no form for a moved text: its words stand beside the query, by field and text, and `attached` puts
them into the tree. `semantics.holds` reads them there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, log, sqrt

from tocsin.model import Document
from tocsin.query.ast import And, Not, Or, Query, Similar, atoms
from tocsin.query.score import Statistics, Vector, cosine, word_counts
from tocsin.text import Analysis, words

Factors = Mapping[str, float]
"""How much words count: 1 + ln f where they occur f times in a text."""
Vectors = Mapping[tuple[str, str], Factors]
"""Moved texts, by the field and the text of their `~`."""


@dataclass(frozen=True, slots=True)
class Rocchio:
    """How far feedback moves a text: keep · text + towards · mean(liked) - away · mean(disliked)."""

    keep: float = 1.0
    towards: float = 0.75
    away: float = 0.15
    words_max: int = 100


def factors_of(text: str, analysis: str) -> dict[str, float]:
    """The words of a text, in order, with their tf."""
    return _tf(Counter(word for word in words(text, analysis) if word))


def factors_in(document: Document, field: str, analysis: Analysis) -> dict[str, float]:
    """The same for a field of a document."""
    return _tf(word_counts(document, analysis, field))


def _tf(counts: Mapping[str, int]) -> dict[str, float]:
    return {word: 1 + log(counts[word]) if counts[word] > 1 else 1.0 for word in sorted(counts)}


def factors(atom: Similar, analysis: Analysis) -> Factors:
    """What the atom compares with: its moved words, or those of its text."""
    return dict(atom.moved) if atom.moved else factors_of(atom.text, analysis.of(atom.field))


def weighed(asked: Factors, statistics: Statistics) -> Vector:
    """The vector that `~` compares: tf · idf, as `Vector.of` does."""
    weights = {word: asked[word] * statistics.weight(word, 1) for word in sorted(asked)}
    return Vector(weights, sqrt(sum(weight * weight for weight in weights.values())))


def similarity_to(atom: Similar, document: Document, analysis: Analysis, statistics: Statistics) -> float:
    """The cosine that `~` compares with its threshold."""
    found = Vector.of(word_counts(document, analysis, atom.field), statistics)
    return cosine(found, weighed(factors(atom, analysis), statistics))


# --- feedback --------------------------------------------------------------------------------------------------------


def rocchio(
    asked: Factors,
    liked: Iterable[Factors],
    disliked: Iterable[Factors],
    statistics: Statistics,
    how: Rocchio = Rocchio(),  # noqa: B008  # it is frozen
) -> dict[str, float]:
    """The text's words after feedback, each vector normalised before and after; sums do not depend on the order.

    Words that end at or below zero are dropped; of the others the heaviest are kept.
    """
    moved: dict[str, float] = {}
    for share, some in ((how.keep, [asked]), (how.towards, list(liked)), (-how.away, list(disliked))):
        for one in sorted((normal(each, statistics) for each in some), key=lambda each: sorted(each.items())):
            for word, factor in one.items():
                moved[word] = moved.get(word, 0.0) + share * factor / len(some)
    weights = {word: factor * statistics.weight(word, 1) for word, factor in moved.items() if factor > 0}
    heaviest = sorted(weights, key=lambda word: (-weights[word], word))[: how.words_max]
    return normal({word: moved[word] for word in heaviest}, statistics)


def normal(some: Factors, statistics: Statistics) -> dict[str, float]:
    """Scaled so that the weighed vector has length 1; nothing if its words weigh nothing."""
    length = weighed(some, statistics).length
    return {word: some[word] / length for word in sorted(some)} if length else {}


# --- beside the query ------------------------------------------------------------------------------------------------


def attached(query: Query, vectors: Vectors) -> Query:
    """The query with these words in place of the texts that were moved; nested queries stay as they are."""
    match query:
        case And(parts):
            return And(tuple(attached(part, vectors) for part in parts))
        case Or(parts):
            return Or(tuple(attached(part, vectors) for part in parts))
        case Not(part):
            return Not(attached(part, vectors))
        case Similar(field, text) if vectors.get((field, text)):
            return replace(query, moved=tuple(sorted(vectors[field, text].items())))
    return query


def detached(query: Query) -> Vectors:
    """What `attached` has put into the query."""
    moved = (atom for atom in atoms(query) if isinstance(atom, Similar) and atom.moved)
    return {(atom.field, atom.text): dict(atom.moved) for atom in moved}


def movable(query: Query) -> list[Similar]:
    """The texts that feedback moves, each once: those that a document should be like, outside nested queries."""
    found = {(atom.field, atom.text): atom for atom in _wanted(query, True)}
    return list(found.values())


def _wanted(query: Query, positive: bool) -> Iterable[Similar]:
    match query:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _wanted(part, positive)
        case Not(part):
            yield from _wanted(part, not positive)
        case Similar() if positive:
            yield query


def to_text(vectors: Vectors) -> str | None:
    """For a column or a file; None if nothing was moved."""
    if not vectors:
        return None
    rows = [[field, text, sorted(moved.items())] for (field, text), moved in sorted(vectors.items())]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def from_text(text: str | None) -> dict[tuple[str, str], dict[str, float]]:
    """Undo to_text."""
    return {(field, asked): dict(moved) for field, asked, moved in json.loads(text)} if text else {}


def is_sound(moved: Sequence[tuple[str, float]], how: Rocchio) -> bool:
    """Can these be the words of a moved text, from wherever they come?"""
    known = {word for word, _ in moved}
    return len(known) == len(moved) <= how.words_max and all(
        word and isfinite(factor) and factor > 0 for word, factor in moved
    )
