"""What a document must hold for a query: conjunctions of keys that an index can wait on.

Every document that matches the query holds all keys of at least one requirement. Where a requirement
is exact the reverse is true as well, and nothing more has to be checked. A requirement without keys
says that the query must see every document (SmartSeer §VI-A, S14).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.query.ast import And, Atom, Exists, Not, Or, Prefix, Query, Words
from tocsin.query.normal import CLAUSES_MAX, Key, inward, keys_of
from tocsin.text import Analysis, fold, words

PRESENT = "present"  # the analysis of a key that says: the field is there
PREFIX = "prefix"  # the analysis of a key that says: a word starts so


@dataclass(frozen=True, slots=True)
class Requirement:
    """All these keys; exact if they are all that is asked."""

    keys: frozenset[Key]
    exact: bool


EVERYTHING = Requirement(frozenset(), False)


def requirements(query: Query, analysis: Analysis, most: int = CLAUSES_MAX) -> tuple[Requirement, ...]:
    """The requirements of a query; at most `most` where a conjunction of disjunctions would multiply."""
    found = _requirements(inward(query), analysis, most)
    return (EVERYTHING,) if any(not one.keys for one in found) else tuple(dict.fromkeys(found))


def exact_keys(atom: Atom, analysis: Analysis) -> tuple[Key, ...] | None:
    """The keys of which any one is all that the atom asks for; None if the atom asks for more than a key."""
    if isinstance(atom, Exists):
        return (Key(atom.field, PRESENT, ""),)
    if isinstance(atom, Prefix):
        return (Key(atom.field or "", PREFIX, fold(atom.text)),)
    if not isinstance(atom, Words):
        return None
    if any(sum(map(bool, words(atom.text, name))) > 1 for name in analysis.names(atom.field)):
        return None
    return tuple(key for keys in keys_of(atom, analysis) for key in keys)


def _requirements(query: Query, analysis: Analysis, most: int) -> list[Requirement]:
    match query:
        case And(parts):
            return _all([_requirements(part, analysis, most) for part in parts], most)
        case Or(parts):
            return [one for part in parts for one in _requirements(part, analysis, most)]
        case Not():
            return [EVERYTHING]
    exact = exact_keys(query, analysis)
    if exact is not None:
        return [Requirement(frozenset({key}), True) for key in exact]
    return [Requirement(keys, False) for keys in keys_of(query, analysis)]


def _all(parts: Iterable[list[Requirement]], most: int) -> list[Requirement]:
    """Every way to meet all parts; parts that would make too many are left to the check of the candidates."""
    found = [Requirement(frozenset(), True)]
    for part in sorted(parts, key=_fewest):
        if len(part) * len(found) > most and any(one.keys for one in found):
            found = [Requirement(one.keys, False) for one in found]
        else:
            found = [Requirement(a.keys | b.keys, a.exact and b.exact) for a in found for b in part]
    return found


def _fewest(part: list[Requirement]) -> tuple[bool, int]:
    """Parts that require something first, those with the fewest ways before the others."""
    return (any(not one.keys for one in part), len(part))
