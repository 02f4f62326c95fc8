"""What a trie engine keeps of a query: conjunctions in AWP, and what AWP lacks.

AWP (P2P-DIET §2) knows `field = text` and `field ⊒ word pattern`, where a word pattern is a set of words
with proximity formulas over them. A query of ours becomes clauses (SmartSeer §VI-A), and a clause becomes
conjunctions: a bare word under two analyses, or a number term, holds in two ways, and each way is one
conjunction. Atoms that AWP lacks are the `rest`, which the oracle answers where the AWP part holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import NamedTuple

from tocsin.query.ast import And, Atom, Equals, Near, Not, Or, Query, Words, conjunction
from tocsin.query.normal import NUMBERS, Clause, Key, anchors, clauses
from tocsin.query.semantics import only_words
from tocsin.text import Analysis, words

WAYS_MAX = 16  # conjunctions of one clause; beyond it an atom with several ways is left to the oracle
GAP_MAX = 1 << 30  # more words than any value has

Place = tuple[str, str]
"""A field ("": any field) and the analysis of its words: each has its own word directory."""

Value = tuple[str, ...] | float
"""What an equality compares: the words of a text, or a number."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A proximity formula: words at bounded distances in one value; a phrase is one with exact distances."""

    words: tuple[str, ...]
    gaps: tuple[tuple[int, int], ...]
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Pattern:
    """A word pattern: all of the words occur and all of the proximity formulas hold."""

    words: frozenset[str]
    chains: tuple[Chain, ...] = ()


class Contains(NamedTuple):
    """The atomic formula *field ⊒ word pattern*."""

    place: Place
    pattern: Pattern


class Equality(NamedTuple):
    """The atomic formula *field = text*; it is looked for by both, not by the text alone as §4 has it."""

    field: str
    value: Value


Way = Contains | Equality
"""One way in which an atom can hold."""


@dataclass(frozen=True, slots=True)
class Conjunction:
    """A conjunctive query in AWP, and the rest that AWP cannot say."""

    patterns: dict[Place, Pattern] = field(default_factory=dict)
    equalities: frozenset[Equality] = frozenset()
    rest: Query | None = None

    @property
    def total(self) -> int:
        """How many atomic formulas it has; 0: it must be evaluated on every document."""
        return len(self.patterns) + len(self.equalities)


def conjunctions(query: Query, analysis: Analysis) -> list[Conjunction]:
    """The query as AWP conjunctions: it holds where one of them does."""
    split = _clauses(query)
    if split is None:
        return _anchored(query, analysis)
    return [one for clause in split for one in _of_clause(clause, analysis)]


def _clauses(query: Query) -> tuple[Clause, ...] | None:
    """The clauses of normal form; most queries are one already."""
    parts = query.parts if isinstance(query, And) else (query,)
    atoms = tuple(dict.fromkeys(part for part in parts if not isinstance(part, And | Or | Not)))
    return (Clause(atoms),) if len(atoms) == len(parts) else clauses(query)


def _of_clause(clause: Clause, analysis: Analysis) -> Iterator[Conjunction]:
    known: list[list[Way]] = []
    rest: list[Query] = [Not(atom) for atom in clause.negative]
    count = 1
    for atom in clause.positive:
        ways = ways_of(atom, analysis)
        if ways is None or count * len(ways) > WAYS_MAX:
            rest.append(atom)
        else:
            known.append(ways)
            count *= len(ways)
    if not known:
        yield from _anchored(clause.query(), analysis)
        return
    for chosen in product(*known):
        yield _joined(chosen, conjunction(rest) if rest else None)


def _joined(chosen: Iterable[Way], rest: Query | None) -> Conjunction:
    patterns: dict[Place, Pattern] = {}
    equalities = set()
    for way in chosen:
        if isinstance(way, Equality):
            equalities.add(way)
        elif (old := patterns.get(way.place)) is None:
            patterns[way.place] = way.pattern
        else:
            new = way.pattern
            patterns[way.place] = Pattern(old.words | new.words, tuple(dict.fromkeys(old.chains + new.chains)))
    return Conjunction(patterns, frozenset(equalities), rest)


def _anchored(query: Query, analysis: Analysis) -> list[Conjunction]:
    """The whole query as the rest, wherever a document holds one of its anchors; without any: on every document."""
    keys = anchors(query, analysis)
    if keys is None:
        return [Conjunction(rest=query)]
    return [_joined([_way_of_key(key)], query) for key in sorted(keys)]


def _way_of_key(key: Key) -> Way:
    if key.analysis == NUMBERS:
        return Equality(key.field, float(key.word))
    return Contains((key.field, key.analysis), Pattern(frozenset({key.word})))


# --- atoms -----------------------------------------------------------------------------------


def ways_of(atom: Atom, analysis: Analysis) -> list[Way] | None:
    """The ways in which the atom can hold (none: it never does), or None where AWP has no such atom."""
    match atom:
        case Words(name, text):
            found = (_phrase(name, each, words(text, each)) for each in analysis.names(name))
            return [way for way in found if way is not None] + _number(atom)
        case Near(name, operands, gaps, ordered):
            chains = [(each, [words(text, each) for text in operands]) for each in analysis.names(name)]
            single = [(each, found) for each, found in chains if all(len(one) == 1 and one[0] for one in found)]
            return [_chain(name, each, [one[0] for one in found], gaps, ordered) for each, found in single]
        case Equals(name, text):
            value = only_words(words(text, analysis.of(name)))
            return [Equality(name, value)] * bool(value) + _number(atom)
    return None


def _number(atom: Words | Equals) -> list[Way]:
    return [] if atom.number is None or atom.field is None else [Equality(atom.field, atom.number)]


def _phrase(name: str | None, analysis: str, text: tuple[str, ...]) -> Way | None:
    """Adjacent words are a chain with exact gaps; a dropped word may be anything."""
    if len(text) == 1 and text[0]:
        return Contains((name or "", analysis), Pattern(frozenset(text)))
    wanted = [(offset, word) for offset, word in enumerate(text) if word]
    if not wanted:
        return None
    gaps = tuple((after - before - 1,) * 2 for (before, _), (after, _) in pairwise(wanted))
    return _chain(name, analysis, [word for _, word in wanted], gaps, True)


def _chain(name: str | None, analysis: str, text: list[str], gaps: tuple[tuple[int, ...], ...], ordered: bool) -> Way:
    bounded = tuple((min(low, GAP_MAX), min(high, GAP_MAX)) for low, high in gaps)
    chains = (Chain(tuple(text), bounded, ordered),) if len(text) > 1 else ()
    return Contains((name or "", analysis), Pattern(frozenset(text), chains))
