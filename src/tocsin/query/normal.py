"""Queries in normal form: clauses, the words a query can be registered on, its cost.

SmartSeer §VI-A registers a query where its documents must come by. A conjunction can wait at any one
of its words; a disjunction must wait at one word of each part, or is split into disjoint clauses
Qi = ¬T1 ∧ … ∧ ¬Ti−1 ∧ Ti, so that at most one of them holds (S12, S13). What says only what a
document is not, or in which range it lies, can wait nowhere and sees every document (S14).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from tocsin.query.ast import (
    And,
    Atom,
    Equals,
    Exists,
    In,
    Near,
    Not,
    Or,
    Prefix,
    Query,
    Range,
    Similar,
    Words,
    conjunction,
    disjunction,
)
from tocsin.query.vector import factors
from tocsin.settings import DEFAULTS
from tocsin.text import Analysis, has_words, words

CLAUSES_MAX = DEFAULTS.query.query_clauses_max
NUMBERS = "number"  # the analysis of a number value: one word, the float's repr
EVERY_DOCUMENT = 10  # how much dearer a query is that sees every document


# --- clauses ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Clause:
    """One conjunction: all of `positive` hold and none of `negative`."""

    positive: tuple[Atom, ...]
    negative: tuple[Atom, ...] = ()

    def query(self) -> Query:
        """The clause as a query."""
        return conjunction([*self.positive, *(Not(atom) for atom in self.negative)])


Literals = dict[Atom, bool]
"""A clause in the making: each atom with its sign."""


class _TooMany(Exception):
    """The clauses would be more than the cap."""


def inward(query: Query, positive: bool = True) -> Query:
    """The same query with NOT only before atoms."""
    match query:
        case Not(part):
            return inward(part, not positive)
        case And(parts) | Or(parts):
            join = conjunction if isinstance(query, And) == positive else disjunction
            return join(list(dict.fromkeys(inward(part, positive) for part in parts)))
    return query if positive else Not(query)


def clauses(query: Query, most: int = CLAUSES_MAX) -> tuple[Clause, ...] | None:
    """Disjoint clauses whose union is the query, or None where they would be more than `most`.

    Without a normal form the query is kept whole: it is registered on its anchors and evaluated as it is.
    """
    try:
        found = _Splitter(most).split(inward(query))
    except _TooMany:
        return None
    return tuple(
        Clause(
            tuple(atom for atom, sign in literals.items() if sign),
            tuple(atom for atom, sign in literals.items() if not sign),
        )
        for literals in found
    )


class _Splitter:
    """Splits a query into literals, each distinct part once: a part and its negation may be met again and again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Query, list[Literals]] = {}

    def split(self, query: Query) -> list[Literals]:
        """The disjoint clauses of a query with NOT only before atoms."""
        if query not in self._known:
            self._known[query] = self._split(query)
        return self._known[query]

    def _split(self, query: Query) -> list[Literals]:
        match query:
            case And(parts):
                found: list[Literals] = [{}]
                for part in parts:
                    found = self._product(found, self.split(part))
                return found
            case Or(parts):
                return self._split_or(parts)
            case Not(part):
                return [{part: False}]  # type: ignore[dict-item]  # inward() leaves NOT only before atoms
        return [{query: True}]

    def _split_or(self, parts: tuple[Query, ...]) -> list[Literals]:
        """The first part, then each next part where no earlier one holds."""
        if len(parts) > self._most:
            raise _TooMany
        found: list[Literals] = []
        earlier: list[Literals] = [{}]
        for index, part in enumerate(parts):
            found += self._product(earlier, self.split(part))
            if len(found) > self._most:
                raise _TooMany
            if index + 1 < len(parts):
                earlier = self._product(earlier, self.split(inward(part, positive=False)))
        return found

    def _product(self, left: list[Literals], right: list[Literals]) -> list[Literals]:
        """Every pair joined, without those that contradict themselves."""
        found = []
        for one, other in product(left, right):
            if all(one.get(atom, sign) == sign for atom, sign in other.items()):
                found.append(one | other)
                if len(found) > self._most:
                    raise _TooMany
        return found


# --- where a query can wait ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Something that a document either holds or not: a word under an analysis, in a field ("": in any)."""

    field: str
    analysis: str
    word: str

    def __str__(self) -> str:
        where = f"{self.field}:" if self.field else ""
        how = f" ({self.analysis})" if self.analysis not in ("standard", NUMBERS) else ""
        return f"{where}{self.word}{how}"


Frequency = Callable[[Key], int]
"""In how many documents a key is held."""


def keys_of(atom: Atom, analysis: Analysis) -> tuple[frozenset[Key], ...]:
    """What a document must hold for the atom: all keys of one of these sets.

    An empty set means that the atom alone does not tell where to wait for it.
    """
    match atom:
        case Words(field) | Equals(field):
            found = [_word_keys(field, name, (atom.text,)) for name in analysis.names(field)]
            if atom.number is not None:
                found.append(frozenset({Key(field or "", NUMBERS, number_word(atom.number))}))
            return tuple(filter(None, found))
        case Near(field, operands):
            names = [name for name in analysis.names(field) if all(has_words(text, name) for text in operands)]
            return tuple(_word_keys(field, name, operands) for name in names)
        case Similar(field, threshold=threshold) if threshold > 0:
            name = analysis.of(field)
            return tuple(frozenset({Key(field, name, word)}) for word in sorted(factors(atom, analysis)))
    return (frozenset(),)


def number_word(number: float) -> str:
    """A number as the word of a key; -0 and 0 are one number."""
    return repr(float(number) + 0.0)


def _word_keys(field: str | None, name: str, texts: tuple[str, ...]) -> frozenset[Key]:
    return frozenset(Key(field or "", name, word) for text in texts for word in words(text, name) if word)


def is_supportable(query: Query) -> bool:
    """Can the query wait at words? AND: if some part can; OR: if all parts can (SmartSeer §VI-A)."""
    return _marked(inward(query))


def _marked(query: Query) -> bool:
    match query:
        case And(parts):
            return any(_marked(part) for part in parts)
        case Or(parts):
            return all(_marked(part) for part in parts)
        case Similar(threshold=threshold):
            return threshold > 0
    # A nested query waits at the values of its set, which are equalities.
    return isinstance(query, Words | Near | Equals | In)


def anchors(query: Query, analysis: Analysis, frequency: Frequency = lambda key: 0) -> frozenset[Key] | None:
    """The rarest keys such that every matching document holds at least one; None if there are none.

    Selectivity is read from document frequencies (SmartSeer §III: the most selective word). A nested
    query's values are not known here, so it alone offers no anchor.
    """
    return _anchors(inward(query), analysis, frequency)


def _anchors(query: Query, analysis: Analysis, frequency: Frequency) -> frozenset[Key] | None:
    def weight(keys: frozenset[Key]) -> tuple[int, int, list[Key]]:
        return sum(frequency(key) for key in keys), len(keys), sorted(keys)

    match query:
        case And(parts):
            found = [keys for part in parts if (keys := _anchors(part, analysis, frequency)) is not None]
            return min(found, key=weight) if found else None
        case Or(parts):
            every = [_anchors(part, analysis, frequency) for part in parts]
            return None if None in every else frozenset().union(*(keys for keys in every if keys))
        case Not():
            return None
    options = keys_of(query, analysis)
    if not all(options):
        return None
    return frozenset(min(keys, key=lambda key: weight(frozenset({key}))) for keys in options)


# --- cost ------------------------------------------------------------------------------------


def cost(query: Query) -> int:
    """Checks per document in the worst case; ten times as much if the query must see every document."""
    price = _price(query)
    return price if is_supportable(query) else price * EVERY_DOCUMENT


def _price(query: Query) -> int:
    match query:
        case And(parts) | Or(parts):
            return sum(_price(part) for part in parts)
        case Not(part):
            return _price(part)
        case Words(text=text) | Equals(text=text):
            return max(1, len(words(text)))
        case Near(words=operands):
            return 2 * len(operands)
        case Prefix():
            return 50
        case Range() | Exists():
            return 1
        case Similar(text=text, moved=moved):
            return 20 + (len(moved) or len(words(text)))
        case In(query=inner):
            return 20 + _price(inner)
