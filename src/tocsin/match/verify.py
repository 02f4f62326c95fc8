"""Is a candidate a match? Up to 64 documents at a time, as bits of a mask.

An index finds candidates by words; what it cannot tell from words alone (NOT, phrases, distances,
ranges, prefixes …) is checked here, and only for the documents that are still candidates. AND, OR and
NOT are operations on masks. An atom that several queries share is looked at once per document: a batch
remembers for each atom which documents it has been asked about and in which it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from tocsin.model import Document
from tocsin.query.ast import And, Atom, Equals, Near, Not, Or, Query, Words
from tocsin.query.semantics import Knowledge, holds, only_words
from tocsin.text import Analysis, has_words, texts, values_of, words

Plan = Callable[["Batch", int], int]
"""Of the documents in the mask, those in which a (part of a) query holds."""
VALUE = 1 << 32
"""An occurrence is one number: this times the number of the value in its field, plus the position. Distances of
words in different values are so larger than any gap that a query can ask for."""


class Reading:
    """One document, read once: where each word of a field stands, computed when first asked for."""

    def __init__(self, document: Document, knowledge: Knowledge) -> None:
        self.document = document
        self._knowledge = knowledge
        self._occurrences: dict[str, dict[str, list[int]]] = {}

    def fields(self, field: str | None, name: str) -> Iterable[str]:
        """The fields to look into for a query on this field (None: any) under this analysis."""
        if field is not None:
            return (field,)
        return [one for one in self.document.fields if self._knowledge.analysis.of(one) == name]

    def occurrences(self, field: str) -> dict[str, list[int]]:
        """Where each word of the field stands, in reading order."""
        known = self._occurrences.get(field)
        if known is None:
            known = self._occurrences[field] = {}
            for number, (value, _) in enumerate(texts(self.document, field, self._knowledge.analysis)):
                for at, word in enumerate(value, number * VALUE):
                    places = known.get(word)
                    if places is None:
                        known[word] = [at]
                    else:
                        places.append(at)
            known.pop("", None)
        return known

    @cached_property
    def _values(self) -> dict[str, set[tuple[str, ...] | float]]:
        return {}

    def values(self, field: str) -> set[tuple[str, ...] | float]:
        """The values of the field as `=` compares them: the words of each text, and each number."""
        known = self._values.get(field)
        if known is None:
            numbers = (float(value) for value in values_of(self.document, field) if not isinstance(value, str))
            known = self._values[field] = set(numbers)
            known.update(only_words(value) for value, _ in texts(self.document, field, self._knowledge.analysis))
        return known


class Batch:
    """The documents that are matched together, and what is known of them so far."""

    def __init__(self, documents: Sequence[Document], knowledge: Knowledge, key_mask: Callable[[int], int]) -> None:
        self.documents = documents
        self.knowledge = knowledge
        self.key_mask = key_mask
        self._readings = [Reading(document, knowledge) for document in documents]
        self._known: dict[int, tuple[int, int]] = {}
        self.checks = 0

    def holding(self, number: int, test: Callable[[Reading, Knowledge], bool], among: int) -> int:
        """The documents of the mask in which the atom of this number holds; each is tested once."""
        asked, held = self._known.get(number, (0, 0))
        new = among & ~asked
        while new:
            bit = new & -new
            new ^= bit
            self.checks += 1
            if test(self._readings[bit.bit_length() - 1], self.knowledge):
                held |= bit
        self._known[number] = (asked | among, held)
        return held & among


class Planner:
    """Turns queries into plans; equal atoms get the same number."""

    def __init__(self, analysis: Analysis, exact: Callable[[Atom], tuple[int, ...] | None]) -> None:
        self._analysis = analysis
        self._exact = exact
        self._numbers: dict[Atom, int] = {}

    def plan(self, query: Query) -> Plan:
        """How to check this query."""
        match query:
            case And(parts):
                return _all([self.plan(part) for part in sorted(parts, key=_price)])
            case Or(parts):
                return _any([self.plan(part) for part in sorted(parts, key=_price)])
            case Not(part):
                inner = self.plan(part)
                return lambda batch, among: among & ~inner(batch, among)
        keys = self._exact(query)
        if keys is not None:
            return lambda batch, among: among & _union(batch, keys)
        number = self._numbers.setdefault(query, len(self._numbers))
        test = _test(query, self._analysis)
        return lambda batch, among: batch.holding(number, test, among)


def _price(query: Query) -> int:
    """Words first, then what needs positions or the whole document, operators last."""
    match query:
        case Words(text=text):
            return text.count(" ")
        case And() | Or() | Not():
            return 3
    return 2


def _all(plans: list[Plan]) -> Plan:
    def plan(batch: Batch, among: int) -> int:
        for one in plans:
            among = one(batch, among)
            if not among:
                break
        return among

    return plan


def _any(plans: list[Plan]) -> Plan:
    def plan(batch: Batch, among: int) -> int:
        held = 0
        for one in plans:
            held |= one(batch, among & ~held)
            if held == among:
                break
        return held

    return plan


def _union(batch: Batch, keys: tuple[int, ...]) -> int:
    held = 0
    for key in keys:
        held |= batch.key_mask(key)
    return held


def _test(atom: Atom, analysis: Analysis) -> Callable[[Reading, Knowledge], bool]:
    """The quickest way to ask whether an atom holds in one document; the oracle where there is no quicker."""
    match atom:
        case Words(field, text) if atom.number is None:
            patterns = [(name, _pattern(text, name)) for name in analysis.names(field) if has_words(text, name)]
            return lambda reading, knowledge: any(
                _has_pattern(reading.occurrences(one), pattern)
                for name, pattern in patterns
                for one in reading.fields(field, name)
            )
        case Near(field, operands):
            chains = [(name, _chain(operands, name)) for name in analysis.names(field)]
            return lambda reading, knowledge: any(
                _has_chain(reading.occurrences(one), atom, chain)
                for name, chain in chains
                if chain
                for one in reading.fields(field, name)
            )
        case Equals(field, text):
            wanted = {only_words(words(text, analysis.of(field))), atom.number} - {(), None}
            return lambda reading, knowledge: not wanted.isdisjoint(reading.values(field))
    return lambda reading, knowledge: holds(atom, reading.document, knowledge)


def _pattern(text: str, name: str) -> list[tuple[int, str]]:
    """The words of a phrase with their distances from its first word."""
    wanted = [(offset, word) for offset, word in enumerate(words(text, name)) if word]
    return [(offset - wanted[0][0], word) for offset, word in wanted]


def _has_pattern(occurrences: dict[str, list[int]], pattern: list[tuple[int, str]]) -> bool:
    lists = [occurrences.get(word) for _, word in pattern]
    starts: set[int] | None = None
    for (offset, _), found in zip(pattern, lists, strict=True):
        if found is None:
            return False
        here = {at - offset for at in found}
        starts = here if starts is None else starts & here
        if not starts:
            return False
    return True


def _chain(operands: tuple[str, ...], name: str) -> list[str]:
    found = [words(operand, name) for operand in operands]
    return [word[0] for word in found] if all(len(word) == 1 and word[0] for word in found) else []


def _has_chain(occurrences: dict[str, list[int]], atom: Near, chain: list[str]) -> bool:
    reached = occurrences.get(chain[0], [])
    for (low, high), word in zip(atom.gaps, chain[1:], strict=True):
        reached = _step(reached, occurrences.get(word, []), low, high, atom.ordered)
        if not reached:
            return False
    return True


def _step(reached: list[int], found: list[int], low: int, high: int, ordered: bool) -> list[int]:
    """The occurrences that can follow one of those reached; both lists are in order, so two fingers suffice."""
    kept = []
    start = 0
    for at in found:
        while start < len(reached) and reached[start] < at - 1 - high:
            start += 1
        for other in reached[start : start + 2]:
            between = (at - other if ordered else abs(at - other)) - 1
            if low <= between <= high:
                kept.append(at)
            if ordered or between >= 0:
                break  # in order, the farthest one decides; in either order, only the word itself is passed over
    return kept
