"""Queries as a query node keeps them, and documents as a document node asks itself about them.

A query is kept whole with its metadata (SmartSeer §III-B), and beside it the clauses that words decide. A document
matches only if all words of some clause occur and none of its forbidden ones; if the clause is *exact* that is all
there is to ask, otherwise (phrases, ranges, prefixes …) the oracle is asked at the end, where the document is.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import product

from tocsin.match.requirement import PREFIX, PRESENT, exact_keys, requirements
from tocsin.model import Document
from tocsin.query.ast import Atom, Query
from tocsin.query.normal import CLAUSES_MAX, NUMBERS, Clause, Frequency, Key, anchors, clauses, keys_of, number_word
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.show import show
from tocsin.text import UNSEEN_BY_BARE, Analysis, values_of, words


@dataclass(frozen=True, slots=True)
class WordClause:
    """All of `required` occur and none of `forbidden`; exact if nothing else is asked."""

    required: frozenset[Key]
    forbidden: frozenset[Key] = frozenset()
    exact: bool = True

    def meets(self, held: AbstractSet[Key]) -> bool:
        """Do the words of a document allow this clause?"""
        return self.required <= held and not (self.forbidden & held)


@dataclass(frozen=True, slots=True)
class Registered:
    """A query with what is kept of it: who asked, how to reach them, what they liked (§IV-B: "metadata")."""

    id: str
    query: Query
    clauses: tuple[WordClause, ...]
    text: str
    metadata: str = ""

    @property
    def keys(self) -> frozenset[Key]:
        """All words that the query names."""
        return frozenset().union(*(clause.required | clause.forbidden for clause in self.clauses))


def register(id: str, query: Query, analysis: Analysis, metadata: str = "") -> Registered:
    """Prepares a query for a query node."""
    return Registered(id, query, word_clauses(query, analysis), show(query), metadata)


def anchor_of(query: Query, analysis: Analysis, frequency: Frequency) -> Key | None:
    """The word that a conjunction is registered on: its most selective one (§III-B); None if there is no single one."""
    found = anchors(query, analysis, frequency)
    return next(iter(found)) if found is not None and len(found) == 1 else None


def decide(registered: Registered, held: AbstractSet[Key], document: Document, knowledge: Knowledge) -> bool:
    """Does the document match? Words first; the oracle only where they do not tell."""
    met = [clause for clause in registered.clauses if clause.meets(held)]
    return any(clause.exact for clause in met) or (bool(met) and holds(registered.query, document, knowledge))


def held_keys(document: Document, analysis: Analysis) -> frozenset[Key]:
    """Every word of a document: anywhere, in its field, its numbers, and which fields are there."""
    held: set[Key] = set()
    for name in (*document.fields, *UNSEEN_BY_BARE):
        values = values_of(document, name)
        if values:
            held.add(Key(name, PRESENT, ""))
        how = analysis.of(name)
        for value in values:
            if not isinstance(value, str):
                held.add(Key(name, NUMBERS, number_word(value)))
                continue
            found = set(filter(None, words(value, how)))
            held.update(Key(name, how, word) for word in found)
            if name not in UNSEEN_BY_BARE:
                held.update(Key("", how, word) for word in found)
    return frozenset(held)


# --- clauses that words decide ---------------------------------------------------------------------------------------


def word_clauses(query: Query, analysis: Analysis, most: int = CLAUSES_MAX) -> tuple[WordClause, ...]:
    """The clauses of a query by words; where they would be too many, what a document must hold at least."""
    split = clauses(query, most)
    found = None if split is None else _from_clauses(split, analysis, most)
    if found is None:
        found = [_without_prefixes(one.keys, one.exact) for one in requirements(query, analysis, most)]
    return tuple(dict.fromkeys(found))


def _from_clauses(split: tuple[Clause, ...], analysis: Analysis, most: int) -> list[WordClause] | None:
    found: list[WordClause] = []
    for clause in split:
        options = [_options(atom, analysis) for atom in clause.positive]
        ways = 1
        for option in options:
            ways *= len(option)
        if len(found) + ways > most:
            return None
        forbidden, exact = _forbidden(clause.negative, analysis)
        for chosen in product(*options):
            required = frozenset().union(*(one.required for one in chosen))
            if not required & forbidden:
                found.append(WordClause(required, forbidden, exact and all(one.exact for one in chosen)))
    return found


def _options(atom: Atom, analysis: Analysis) -> list[WordClause]:
    """The ways in which an atom can hold."""
    exact = exact_keys(atom, analysis)
    if exact is not None:
        return [_without_prefixes(frozenset({key}), True) for key in exact]
    return [WordClause(keys, exact=False) for keys in keys_of(atom, analysis)]


def _without_prefixes(keys: frozenset[Key], exact: bool) -> WordClause:
    """A prefix is no word that a filter could hold: it is left to the oracle."""
    kept = frozenset(key for key in keys if key.analysis != PREFIX)
    return WordClause(kept, exact=exact and len(kept) == len(keys))


def _forbidden(atoms: tuple[Atom, ...], analysis: Analysis) -> tuple[frozenset[Key], bool]:
    """The words that must not occur, and whether that is all that the negations say."""
    forbidden: set[Key] = set()
    exact = True
    for atom in atoms:
        keys = exact_keys(atom, analysis)
        if keys is None or any(key.analysis == PREFIX for key in keys):
            exact = False
        else:
            forbidden.update(keys)
    return frozenset(forbidden), exact
