"""What a query says, as a tree.

Leaves are atoms; they keep the text as it was written, since the words of a text depend on the field
it is looked for in. The model is AWPS of DHTrie/MAPS §2 and P2P-DIET §2 (equality, words, word
distance, similarity), with SmartSeer's negation, ranges and nested queries (§VI).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from tocsin.text import NUMBER


@dataclass(frozen=True, slots=True)
class Words:
    """The words of the text are adjacent, in order, in one value: a word or a phrase.

    Not quoted and a number, it also holds where a number of the named field equals it.
    """

    field: str | None
    text: str
    quoted: bool = False

    @property
    def number(self) -> float | None:
        """The number that this names, if it names one."""
        return number_of(self)


@dataclass(frozen=True, slots=True)
class Near:
    """Words at bounded distances in one value; gaps[i] bounds the words between words[i] and words[i+1]."""

    field: str | None
    words: tuple[str, ...]
    gaps: tuple[tuple[int, int], ...]
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Equals:
    """Some value of the field has exactly the words of the text (a number: equals it)."""

    field: str
    text: str
    quoted: bool = False

    @property
    def number(self) -> float | None:
        """The number that this names, if it names one."""
        return number_of(self)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Some word starts with the folded text."""

    field: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Exists:
    """The field is present."""

    field: str


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range: a number (first = last), or a date with its first and last nanosecond."""

    text: str
    first: int | float
    last: int | float
    is_date: bool
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Range:
    """Some number (or date) of the field lies between the bounds; None is open."""

    field: str
    low: Bound | None
    high: Bound | None

    @property
    def is_date(self) -> bool:
        """Is this a range of dates?"""
        return any(bound.is_date for bound in (self.low, self.high) if bound)


@dataclass(frozen=True, slots=True)
class Similar:
    """The cosine of the field and the text is at least the threshold.

    Feedback moves the text: then these words are compared, as much as each counts (`query.vector`).
    """

    field: str
    text: str
    threshold: float
    moved: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class In:
    """Some value of the field is a value of `source` in a document that matches the inner query."""

    field: str
    source: str
    query: Query


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Query


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold."""

    parts: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some part holds."""

    parts: tuple[Query, ...]


Atom = Words | Near | Equals | Prefix | Exists | Range | Similar | In
Query = Atom | Not | And | Or


def number_of(atom: Words | Equals) -> float | None:
    """The number that an unquoted term on a field names."""
    if atom.quoted or atom.field is None or not NUMBER.fullmatch(atom.text):
        return None
    number = float(atom.text)
    return number if isfinite(number) else None


def children(query: Query) -> tuple[Query, ...]:
    """The parts of an operator; none for an atom. The inner query of a nested one is not a part."""
    match query:
        case And(parts) | Or(parts):
            return parts
        case Not(part):
            return (part,)
    return ()


def atoms(query: Query) -> Iterator[Atom]:
    """The atoms from left to right, without those inside nested queries."""
    if isinstance(query, And | Or | Not):
        for part in children(query):
            yield from atoms(part)
    else:
        yield query


def nested(query: Query) -> Iterator[In]:
    """Every nested query, innermost first."""
    for atom in atoms(query):
        if isinstance(atom, In):
            yield from nested(atom.query)
            yield atom


def conjunction(parts: list[Query]) -> Query:
    """AND of the parts, flat."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: list[Query]) -> Query:
    """OR of the parts, flat."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Or) else (part,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))
