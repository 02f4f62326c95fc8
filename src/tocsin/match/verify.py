"""Is a candidate a match? Up to 64 documents at a time, as bits of a mask.

An index finds candidates by words; what it cannot tell from words alone (NOT, phrases, distances,
ranges, prefixes …) is checked here, and only for the documents that are still candidates. AND, OR and
NOT are operations on masks. An atom that several queries share is looked at once per document: a batch
remembers for each atom which documents it has been asked about and in which it holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property

from tocsin.model import Document
from tocsin.query.ast import And, Atom, Near, Not, Or, Query, Words
from tocsin.query.semantics import Knowledge, holds
from tocsin.text import Analysis, texts, words

Plan = Callable[["Batch", int], int]
"""Of the documents in the mask, those in which a (part of a) query holds."""
Occurrence = tuple[int, int]
"""The number of a value in its document, and a position in it."""


class Reading:
    """One document, read once: where each word stands."""

    def __init__(self, document: Document, analysis: Analysis) -> None:
        self.document = document
        self._analysis = analysis

    @cached_property
    def occurrences(self) -> dict[tuple[str, str, str], list[Occurrence]]:
        """(field, analysis, word) -> where it stands; the field "" stands for any field."""
        found: defaultdict[tuple[str, str, str], list[Occurrence]] = defaultdict(list)
        number = 0
        for field in self.document.fields:
            for value, name in texts(self.document, field, self._analysis):
                for position, word in enumerate(value):
                    if word:
                        found["", name, word].append((number, position))
                        found[field, name, word].append((number, position))
                number += 1
        return found


class Batch:
    """The documents that are matched together, and what is known of them so far."""

    def __init__(self, documents: Sequence[Document], knowledge: Knowledge, key_mask: Callable[[int], int]) -> None:
        self.documents = documents
        self.knowledge = knowledge
        self.key_mask = key_mask
        self._readings = [Reading(document, knowledge.analysis) for document in documents]
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
    if isinstance(atom, Words) and atom.number is None and atom.field not in ("id", "source", "time"):
        patterns = [_pattern(atom.field, name, atom.text) for name in analysis.names(atom.field)]
        return lambda reading, knowledge: any(_has_pattern(reading, pattern) for pattern in patterns if pattern)
    if isinstance(atom, Near) and atom.field not in ("id", "source", "time"):
        chains = [_chain(atom, name) for name in analysis.names(atom.field)]
        return lambda reading, knowledge: any(_has_chain(reading, atom, chain) for chain in chains if chain)
    return lambda reading, knowledge: holds(atom, reading.document, knowledge)


Place = tuple[str, str, str]
"""(field, analysis, word)."""


def _pattern(field: str | None, name: str, text: str) -> list[tuple[int, Place]]:
    """The words of a phrase with their distances from its first word."""
    wanted = [(offset, (field or "", name, word)) for offset, word in enumerate(words(text, name)) if word]
    return [(offset - wanted[0][0], place) for offset, place in wanted]


def _has_pattern(reading: Reading, pattern: list[tuple[int, Place]]) -> bool:
    occurrences = reading.occurrences
    lists = [occurrences.get(place, ()) for _, place in pattern]
    if not all(lists):
        return False
    starts = {(value, position - pattern[0][0]) for value, position in lists[0]}
    for (offset, _), found in zip(pattern[1:], lists[1:], strict=True):
        starts &= {(value, position - offset) for value, position in found}
        if not starts:
            return False
    return True


def _chain(atom: Near, name: str) -> list[Place]:
    found = [words(operand, name) for operand in atom.words]
    if not all(len(word) == 1 and word[0] for word in found):
        return []
    return [(atom.field or "", name, word[0]) for word in found]


def _has_chain(reading: Reading, atom: Near, chain: list[Place]) -> bool:
    occurrences = reading.occurrences
    lists = [occurrences.get(place, []) for place in chain]
    if not all(lists):
        return False
    reached = lists[0]
    for (low, high), found in zip(atom.gaps, lists[1:], strict=True):
        reached = _step(reached, found, low, high, atom.ordered)
        if not reached:
            return False
    return True


def _step(
    reached: Sequence[Occurrence], found: Sequence[Occurrence], low: int, high: int, ordered: bool
) -> list[Occurrence]:
    """The occurrences that can follow one of those reached; both lists are in order, so two fingers suffice."""
    kept = []
    start = 0
    for value, position in found:
        while start < len(reached) and (
            reached[start][0] < value or (reached[start][0] == value and reached[start][1] < position - 1 - high)
        ):
            start += 1
        for at in range(start, len(reached)):
            other_value, other = reached[at]
            if other_value != value:
                break
            between = (position - other if ordered else abs(position - other)) - 1
            if low <= between <= high:
                kept.append((value, position))
            if ordered or between >= 0:
                break  # in order, the farthest one decides; in either order, only the word itself is passed over
    return kept
