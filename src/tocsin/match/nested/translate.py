"""A nested query as plain queries and sets (SmartSeer §VI-B: the translated query).

A subscription's nested parts stand under no NOT, so it can only gain matches when a set gains values. Two
plain queries enclose it: with every nested part false it says what matches *alone*, whatever the sets hold;
with every nested part true it says what a document must be *at most* (the rest is up to the sets). Both are
registered like any other query, so that no nested query is evaluated on a document that cannot match it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tocsin.model import Document
from tocsin.query.ast import And, In, Not, Or, Query, Similar, atoms, conjunction, disjunction
from tocsin.query.semantics import Knowledge, holds
from tocsin.text import value_key, values_of

Value = str | float
"""A value as nested queries compare it (`text.value_key`)."""
Contains = Callable[[int, Value], bool]
"""Is this value in the set of this number?"""
Test = Callable[[Document, Knowledge, Contains], bool]


def assuming(query: Query, truth: bool) -> Query | bool:
    """The plain query that remains when every nested part is taken as true, or as false."""
    match query:
        case In():
            return truth
        case Not(part):
            inner = assuming(part, truth)
            return not inner if isinstance(inner, bool) else Not(inner)
        case And(parts) | Or(parts):
            decides = isinstance(query, Or)  # one true part decides an OR, one false part an AND
            found = [assuming(part, truth) for part in parts]
            if any(part is decides for part in found):
                return decides
            open_parts = [part for part in found if not isinstance(part, bool)]
            if not open_parts:
                return not decides
            return disjunction(open_parts) if decides else conjunction(open_parts)
    return query


@dataclass(frozen=True, slots=True)
class Member:
    """A nested part: some value of the field is in the set."""

    field: str
    set: int


@dataclass(eq=False, slots=True)
class Node:
    """A query that somebody waits for: subscriptions, or sets that collect values of the documents it matches."""

    number: int
    query: Query
    depth: int
    """0 for a plain query, else one more than the deepest query inside."""
    members: tuple[Member, ...]
    test: Test
    alone: Query | bool
    at_most: Query | bool
    every_member: bool
    """Does it hold where `at_most` holds and every member test does?"""
    has_one_member: bool
    """Does it hold where `at_most` holds and the only member test does?"""
    is_lasting: bool
    """Does `at_most` go on holding for a document, whatever the statistics become?"""
    alone_number: int | None = None
    """The engine's number of `alone`, if that is a query."""
    at_most_number: int | None = None
    """The engine's number of `at_most`, if that is another query."""
    sets: dict[str, int] = field(default_factory=dict)
    """By the field whose values are collected."""
    subscribers: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    """By number: told of what happens at the positions in (since, until]."""

    def holds(self, document: Document, knowledge: Knowledge, contains: Contains) -> bool:
        """Does the document match, if these are the sets?"""
        return self.test(document, knowledge, contains)

    def holds_if_at_most(self, document: Document, knowledge: Knowledge, contains: Contains) -> bool:
        """The same for a document of which `at_most` is known to hold."""
        if self.every_member:
            return all(holds_member(member, document, contains) for member in self.members)
        return self.test(document, knowledge, contains)

    def holds_at_member(self, document: Document, knowledge: Knowledge) -> bool:
        """The same for a document that is known to hold a value of the only set."""
        return self.at_most if isinstance(self.at_most, bool) else holds(self.at_most, document, knowledge)


def build(number: int, query: Query, depth: int, numbers: dict[In, int]) -> Node:
    """A node for the query, whose nested parts are read from the sets of these numbers."""
    inner = [atom for atom in atoms(query) if isinstance(atom, In)]
    members = tuple(dict.fromkeys(Member(atom.field, numbers[atom]) for atom in inner))
    parts = query.parts if isinstance(query, And) else (query,)
    every = sum(isinstance(part, In) for part in parts) == len(inner)
    alone, at_most = assuming(query, False), assuming(query, True)
    lasting = isinstance(at_most, bool) or not any(isinstance(atom, Similar) for atom in atoms(at_most))
    test, one = compiled(query, numbers), every and len(members) == 1
    return Node(number, query, depth, members, test, alone, at_most, every, one, lasting)


def holds_member(member: Member, document: Document, contains: Contains) -> bool:
    """Is some value of the field in the set?"""
    return any(contains(member.set, value) for value in keys_of(document, member.field))


def keys_of(document: Document, name: str) -> list[Value]:
    """The values of a field, as nested queries compare them."""
    return [value_key(value) for value in values_of(document, name)]


def compiled(query: Query, numbers: dict[In, int]) -> Test:
    """The oracle's rules, with nested parts read from sets."""
    match query:
        case In():
            member = Member(query.field, numbers[query])
            return lambda document, knowledge, contains: holds_member(member, document, contains)
        case And(parts) if any(map(_is_nested, parts)):
            tests = [compiled(part, numbers) for part in sorted(parts, key=_is_nested, reverse=True)]
            return lambda document, knowledge, contains: all(test(document, knowledge, contains) for test in tests)
        case Or(parts) if any(map(_is_nested, parts)):
            tests = [compiled(part, numbers) for part in parts]
            return lambda document, knowledge, contains: any(test(document, knowledge, contains) for test in tests)
        case Not(part) if _is_nested(part):
            test = compiled(part, numbers)
            return lambda document, knowledge, contains: not test(document, knowledge, contains)
    return lambda document, knowledge, contains: holds(query, document, knowledge)


def _is_nested(query: Query) -> bool:
    return any(isinstance(atom, In) for atom in atoms(query))
