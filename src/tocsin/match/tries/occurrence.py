"""The document side of P2P-DIET §4: occurrence table OT(d), distinct field list DAL(d), distinct word lists DWL.

Words are looked for in all values of a field, but phrases and proximity never cross from one value into
the next: a position carries its value's number in its high bits, so that two values are further apart
than any distance a query can ask for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tocsin.match.tries.awp import Chain, Equality, Place
from tocsin.model import Document
from tocsin.query.semantics import is_number, only_words
from tocsin.text import Analysis, values_of, words

VALUE_BITS = 32  # a value has fewer words than 2^31, a gap is at most 2^30
NAMED = ("id", "source", "time")  # can be named like fields; bare words do not look into them


@dataclass(frozen=True, slots=True)
class Occurrences:
    """OT(d) with its lists: where each word of the document occurs."""

    table: dict[str, dict[Place, list[int]]] = field(default_factory=dict)
    """OT(d): word -> place -> positions, ascending."""
    distinct: dict[Place, list[str]] = field(default_factory=dict)
    """DAL(d), the keys: the fields of the document; DWL, the values: their distinct words."""

    def positions(self, place: Place, word: str) -> list[int]:
        """Where the word occurs in the field."""
        return self.table.get(word, {}).get(place, [])

    def has(self, place: Place, chain: Chain) -> bool:
        """Does the proximity formula hold in the field? (The algorithm *prox*, §4.)"""
        reached = self.positions(place, chain.words[0])
        for (low, high), word in zip(chain.gaps, chain.words[1:], strict=True):
            reached = [
                after
                for after in self.positions(place, word)
                if any(low <= distance(before, after, chain.ordered) - 1 <= high for before in reached)
            ]
        return bool(reached)

    @staticmethod
    def of(document: Document, analysis: Analysis) -> Occurrences:
        """The table of a document, with the places where bare words are looked for."""
        found = Occurrences()
        for place in places(document, analysis):
            found.distinct[place] = []
            for number, value in enumerate(texts_at(document, place, analysis)):
                for index, word in enumerate(value):
                    if word:
                        found._add(place, word, number << VALUE_BITS | index)
        return found

    def _add(self, place: Place, word: str, position: int) -> None:
        at = self.table.setdefault(word, {})
        if place not in at:
            at[place] = []
            self.distinct[place].append(word)
        at[place].append(position)


def distance(before: int, after: int, ordered: bool) -> int:
    """How many positions on; without order, how many apart."""
    return after - before if ordered else abs(after - before)


def places(document: Document, analysis: Analysis) -> list[Place]:
    """Every place of the document that holds text: its fields, those named like fields, and "any field"."""
    named = [name for name in NAMED if values_of(document, name)]
    fields = [name for name in document.fields if name not in NAMED]
    anywhere = dict.fromkeys(("", analysis.of(name)) for name in document.fields)
    return [*((name, analysis.of(name)) for name in [*fields, *named]), *anywhere]


def texts_at(document: Document, place: Place, analysis: Analysis) -> Iterator[tuple[str, ...]]:
    """The words of each string value at the place."""
    name, how = place
    for each in (name,) if name else document.fields:
        if analysis.of(each) == how:
            for value in values_of(document, each):
                if isinstance(value, str):
                    yield words(value, how)


def values_at(document: Document, analysis: Analysis) -> Iterator[Equality]:
    """What each value of the document equals, with its field: the keys that probe the equality table."""
    for name, how in places(document, analysis):
        for value in values_of(document, name) if name else ():
            if is_number(value):
                with suppress(OverflowError):  # beyond float64 it equals nothing that a query can name
                    yield Equality(name, float(value))
            elif isinstance(value, str) and (found := only_words(words(value, how))):
                yield Equality(name, found)
