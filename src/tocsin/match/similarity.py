"""Many texts against many documents: which cosines reach their thresholds? (`~`, DHTrie/MAPS §2; SmartSeer §VI-C)

Exactly the set that `query.score.similarity` gives, rounded cosines and all: a kernel finds what comes within a hair
of the threshold, and what is nearer than that is computed as the definition does. Texts are weighed by a state of the
statistics; another state weighs them anew. Changes gather in a small segment until they are worth a new large one,
so a new threshold is in force for the next document.

A text is a text as it was written, or one that feedback has moved (`query.vector`): to the index both are factors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from tocsin.errors import SettingError
from tocsin.match.similarity_kernels import near, tails
from tocsin.model import Document
from tocsin.query.score import ROUNDING, Statistics, Vector, cosine, word_counts
from tocsin.query.vector import Factors, factors_of, weighed
from tocsin.text import Analysis

MARGIN = 1e-9  # cosines nearer to a threshold than this are computed as the definition does
PREFIX_SLACK = 1e-6
LEVELS = 64  # of rarity
CHANGES_MIN, CHANGES_SHARE = 1_024, 8  # the small segment may have so many texts, or this part of all

Floats = npt.NDArray[np.float64]


@dataclass(eq=False, slots=True)
class _Text:
    """A text that somebody waits for, with its place in a segment."""

    number: int
    factors: Factors
    words: npt.NDArray[np.int64]
    tf: Floats
    threshold: float
    segment: _Segment | None = None
    slot: int = -1
    exact: Vector | None = None


class _Segment:
    """Texts as flat arrays, weighed by one state of the statistics. Words are numbered by the field's vocabulary."""

    def __init__(self, texts: Sequence[_Text], rarity: Floats) -> None:
        self.texts = list(texts)
        count, vocabulary = len(texts), rarity.size
        sizes = np.array([text.words.size for text in texts], np.int64)
        self.threshold = np.array([text.threshold for text in texts], np.float64)
        of = np.repeat(np.arange(count), sizes)
        found = np.concatenate([text.words for text in texts]) if count else np.empty(0, np.int64)
        weight = (np.concatenate([text.tf for text in texts]) if count else np.empty(0)) * rarity[found]
        order = np.lexsort((found, -rarity[found], of))  # the rarest words of each text first
        of, found, weight = of[order], found[order], weight[order]
        length = np.sqrt(np.bincount(of, weight * weight, count))
        weight = np.divide(weight, length[of], out=np.zeros_like(weight), where=length[of] > 0)
        self.starts = np.zeros(count + 1, np.int64)
        np.cumsum(sizes, out=self.starts[1:])
        self.text_words, self.text_weights = found.astype(np.int32), weight
        tail = np.zeros(weight.size, np.float64)
        tails(self.starts, weight, tail)
        indexed = tail >= np.maximum(0, self.threshold[of] - PREFIX_SLACK)
        self.level_of = _levels(rarity)
        self._bound_rest(of, found, tail, indexed)
        of, found, weight = of[indexed], found[indexed], weight[indexed]
        by_word = np.argsort(found, kind="stable")
        self.first = np.zeros(vocabulary + 1, np.int64)
        np.cumsum(np.bincount(found, minlength=vocabulary), out=self.first[1:])
        self.posting, self.posting_weight = of[by_word].astype(np.uint32), weight[by_word].astype(np.float32)
        self.partial, self.touched = np.zeros(count, np.float32), np.zeros(count, np.uint32)
        self.seen, self.document = np.zeros(count, np.int64), 0
        self.out, self.cosines = np.zeros(count, np.uint32), np.zeros(count, np.float64)
        self.dense = np.zeros(vocabulary, np.float64)
        for slot, text in enumerate(self.texts):
            text.segment, text.slot, text.exact = self, slot, None

    def _bound_rest(
        self, of: npt.NDArray[np.int64], found: npt.NDArray[np.int64], tail: Floats, indexed: npt.NDArray[np.bool_]
    ) -> None:
        """What the words that are not in the postings can add at most, and how rare they can be."""
        count = len(self.texts)
        self.rest = np.zeros(count, np.float32)
        self.rest_level = np.zeros(count, np.int32)
        others = np.flatnonzero(~indexed)
        if others.size:
            texts, at = np.unique(of[others], return_index=True)  # the first of each text is its rarest
            self.rest[texts] = tail[others[at]] + PREFIX_SLACK
            self.rest_level[texts] = self.level_of[found[others[at]]]

    def near(self, known: npt.NDArray[np.int64], weights: Floats) -> int:
        """How many texts the document comes near to; they are in `out`, their cosines in `cosines`."""
        inside = known < self.dense.size  # words that came into the vocabulary later are in none of these texts
        known, weights = known[inside], weights[inside]
        squares = np.bincount(self.level_of[known], weights * weights, LEVELS)
        levels = np.sqrt(np.cumsum(squares)).astype(np.float32)
        self.document += 1
        return int(
            near(
                known,
                weights,
                levels,
                self.first,
                self.posting,
                self.posting_weight,
                self.starts,
                self.text_words,
                self.text_weights,
                self.threshold,
                self.rest,
                self.rest_level,
                MARGIN,
                self.document,
                self.seen,
                self.partial,
                self.touched,
                self.dense,
                self.out,
                self.cosines,
            )
        )


def _levels(rarity: Floats) -> npt.NDArray[np.int64]:
    highest = rarity.max(initial=0.0)
    if highest <= 0:
        return np.zeros(rarity.size, np.int64)
    levels: npt.NDArray[np.int64] = np.minimum(LEVELS - 1, rarity * (LEVELS / highest)).astype(np.int64)
    return levels


def _is_same(known: Statistics | None, given: Statistics) -> bool:
    """Do both name the same state of knowledge? A version does, where there is one."""
    return known is given or (known is not None and known.version == given.version != 0)


@dataclass(eq=False)
class _Field:
    """The texts that are compared with one field."""

    vocabulary: dict[str, int] = field(default_factory=dict)
    large: _Segment | None = None
    small: _Segment | None = None
    waiting: dict[int, _Text] = field(default_factory=dict)
    """Texts that are in the small segment, or shall be."""
    is_stale: bool = False
    """Must the small segment be built anew?"""
    texts: dict[int, _Text] = field(default_factory=dict)
    everywhere: dict[int, _Text] = field(default_factory=dict)
    """Texts whose threshold is so low that a document need share nothing with them."""
    statistics: Statistics | None = None
    rarity: Floats = field(default_factory=lambda: np.empty(0, np.float64))
    """Of the first words of the vocabulary, by these statistics."""

    def take(self, number: int) -> _Text:
        """The text of this number, which is none of ours any more."""
        return self.texts.pop(number) if number in self.texts else self.everywhere.pop(number)

    def prepared(self, statistics: Statistics) -> list[_Segment]:
        """The segments, weighed by these statistics and with every change in them."""
        crowded = len(self.waiting) > max(CHANGES_MIN, len(self.texts) // CHANGES_SHARE)
        if not _is_same(self.statistics, statistics):
            self.rarity = self.rarity[:0]
        if not _is_same(self.statistics, statistics) or crowded:
            self.large = _Segment(list(self.texts.values()), self._rarity(statistics)) if self.texts else None
            self.small, self.statistics = None, statistics
            self.waiting.clear()
            for text in self.everywhere.values():
                text.exact = None
        elif self.is_stale:
            waiting = list(self.waiting.values())
            self.small = _Segment(waiting, self._rarity(statistics)) if waiting else None
        self.is_stale = False
        return [segment for segment in (self.large, self.small) if segment is not None]

    def _rarity(self, statistics: Statistics) -> Floats:
        new = islice(self.vocabulary, self.rarity.size, None)
        self.rarity = np.concatenate([self.rarity, [statistics.weight(word, 1) for word in new]])
        return self.rarity


class SimilarityIndex:
    """Texts with thresholds, by number; each is compared with one field of the documents."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self._fields: dict[str, _Field] = {}
        self._field_of: dict[int, str] = {}
        self.exact_checks = 0
        """How often a cosine was so near to a threshold that the definition had to decide."""

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self._field_of)

    def add(self, number: int, field: str, text: str, threshold: float) -> None:
        """Registers a text under a number that is not in use."""
        self.add_factors(number, field, factors_of(text, self.analysis.of(field)), threshold)

    def add_factors(self, number: int, field: str, factors: Factors, threshold: float) -> None:
        """The same with words that feedback has moved."""
        if not 0 <= threshold <= 1:
            raise SettingError(f"a threshold is between 0 and 1, not {threshold}")
        texts = self._fields.setdefault(field, _Field())
        ids = [texts.vocabulary.setdefault(word, len(texts.vocabulary)) for word in factors]
        tf = np.fromiter(factors.values(), np.float64, len(factors))
        text = _Text(number, factors, np.array(ids, np.int64), tf, round(threshold, ROUNDING))
        self._field_of[number] = field
        self._place(texts, text)

    def remove(self, number: int) -> None:
        """Forgets a text."""
        texts = self._fields[self._field_of.pop(number)]
        self._displace(texts, texts.take(number))

    def change(self, number: int, threshold: float) -> None:
        """Gives a text another threshold, from the next document on."""
        if not 0 <= threshold <= 1:
            raise SettingError(f"a threshold is between 0 and 1, not {threshold}")
        texts = self._fields[self._field_of[number]]
        text = texts.take(number)
        rounded = round(threshold, ROUNDING)
        if text.segment is not None and rounded >= text.threshold:  # its postings suffice for higher ones
            text.threshold = text.segment.threshold[text.slot] = rounded
            texts.texts[number] = text
            return
        self._displace(texts, text)
        text.threshold = rounded
        self._place(texts, text)

    def _place(self, texts: _Field, text: _Text) -> None:
        if text.threshold <= 2 * PREFIX_SLACK:
            texts.everywhere[text.number] = text
            return
        texts.texts[text.number] = texts.waiting[text.number] = text
        texts.is_stale = True

    def _displace(self, texts: _Field, text: _Text) -> None:
        if text.segment is not None:
            text.segment.threshold[text.slot] = np.inf
        if texts.waiting.pop(text.number, None) is not None:
            texts.is_stale = True
        text.segment, text.slot, text.exact = None, -1, None

    def match(self, documents: Iterable[Document], statistics: Statistics) -> list[list[int]]:
        """For each document the numbers of the texts whose threshold it reaches, ascending."""
        ready = [(name, texts, texts.prepared(statistics)) for name, texts in self._fields.items()]
        found = []
        for document in documents:
            numbers: list[int] = []
            for name, texts, segments in ready:
                numbers += self._match_field(document, name, texts, segments, statistics)
            found.append(sorted(numbers))
        return found

    def _match_field(
        self, document: Document, name: str, texts: _Field, segments: Collection[_Segment], statistics: Statistics
    ) -> list[int]:
        vector = Vector.of(word_counts(document, self.analysis, name), statistics)
        numbers = [
            text.number
            for text in texts.everywhere.values()
            if text.threshold <= 0 or self._reaches(vector, text, statistics)
        ]
        if not vector.length:
            return numbers
        get = texts.vocabulary.get
        pairs = [(id, weight) for word, weight in vector.weights.items() if (id := get(word)) is not None]
        if not pairs:
            return numbers
        known = np.array([id for id, _ in pairs], np.int64)
        weights = np.array([weight for _, weight in pairs], np.float64) / vector.length
        for segment in segments:
            count = segment.near(known, weights)
            close = segment.cosines[:count] - segment.threshold[segment.out[:count]] < MARGIN
            for slot, is_close in zip(segment.out[:count].tolist(), close.tolist(), strict=True):
                text = segment.texts[slot]
                if not is_close or self._reaches(vector, text, statistics):
                    numbers.append(text.number)
        return numbers

    def _reaches(self, vector: Vector, text: _Text, statistics: Statistics) -> bool:
        """By the definition."""
        self.exact_checks += 1
        if text.exact is None:
            text.exact = weighed(text.factors, statistics)
        return cosine(vector, text.exact) >= text.threshold
