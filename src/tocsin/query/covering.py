"""Which query covers which: P2P-DIET §3 keeps queries in a poset, and forwards none that is covered.

`covers(general, special)` is sound, not complete: True means that every match of `special` is a match
of `general`; False means that this could not be shown. Words are compared under the fields' analyses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tocsin.query.ast import And, Atom, Bound, Equals, Exists, In, Near, Not, Or, Prefix, Query, Range, Similar, Words
from tocsin.query.ast import atoms as atoms_of
from tocsin.query.normal import inward
from tocsin.query.parse import STANDARD_ANALYSIS
from tocsin.query.semantics import has_chain, has_phrase, only_words
from tocsin.text import ENGLISH, UNSEEN_BY_BARE, Analysis, fold, words

PAIRS_MAX = 100_000  # of atoms: above it covering is not tried


def covers(general: Query, special: Query, analysis: Analysis = STANDARD_ANALYSIS) -> bool:
    """Is every match of `special` surely a match of `general`?"""
    general, special = inward(general), inward(special)
    if _size(general) * _size(special) > PAIRS_MAX:
        return general == special
    return _Cover(analysis).implies(special, general)


def _size(query: Query) -> int:
    """Atoms, those of nested queries included; each word of a chain or text counts."""
    total = 0
    for atom in atoms_of(query):
        match atom:
            case In(query=inner):
                total += 1 + _size(inner)
            case Near(words=operands):
                total += len(operands)
            case _:
                total += 1
    return total


class _Cover:
    """One comparison, remembering the pairs of parts that it has already seen."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.implies: Callable[[Query, Query], bool] = cache(self._implies)

    def _implies(self, special: Query, general: Query) -> bool:
        if special == general:
            return True
        if isinstance(special, Or):
            return all(self.implies(part, general) for part in special.parts)
        if isinstance(general, And):
            return all(self.implies(special, part) for part in general.parts)
        if isinstance(general, Or) and any(self.implies(special, part) for part in general.parts):
            return True
        if isinstance(special, And):
            return any(self.implies(part, general) for part in special.parts)
        return self._literal(special, general)

    def _literal(self, special: Query, general: Query) -> bool:
        if isinstance(special, Not) and isinstance(general, Not):
            return self.implies(general.part, special.part)
        if isinstance(special, And | Or | Not) or isinstance(general, And | Or | Not):
            return False
        return self._atom(special, general)

    def _atom(self, special: Atom, general: Atom) -> bool:
        match general:
            case Exists(field):
                return special.field == field and not (isinstance(special, Similar) and special.threshold == 0)
            case Range(field, low, high):
                return isinstance(special, Range) and special.field == field and _inside(special, low, high)
            case Similar(field, text, threshold, moved):
                asked = (field, text, moved)
                same = isinstance(special, Similar) and (special.field, special.text, special.moved) == asked
                return threshold == 0 or (same and special.threshold >= threshold)  # type: ignore[union-attr]
            case In(field, source, inner):
                same = isinstance(special, In) and (special.field, special.source) == (field, source)
                return same and self.implies(inward(special.query), inward(inner))  # type: ignore[union-attr]
            case Words() | Near() | Equals() | Prefix():
                return self._textual(special, general)

    def _textual(self, special: Atom, general: Words | Near | Equals | Prefix) -> bool:
        """Does what `special` says of some value's words imply what `general` asks for?"""
        if not isinstance(special, Words | Near | Equals | Prefix) or not _same_place(special.field, general.field):
            return False
        if not isinstance(special, Prefix | Near) and special.number is not None:
            return False  # it may hold of a number, where there are no words
        if isinstance(special, Prefix):
            return isinstance(general, Prefix) and fold(special.text).startswith(fold(general.text))
        return all(self._under(special, general, name) for name in self.analysis.names(special.field))

    def _under(self, special: Words | Near | Equals, general: Words | Near | Equals | Prefix, name: str) -> bool:
        if isinstance(special, Near):
            return self._near(special, general, name)
        known = words(special.text, name)
        if isinstance(special, Equals) and name == ENGLISH and isinstance(general, Words | Near):
            # Equality does not see dropped words, so it tells no distances.
            asked = only_words(words(general.text, name)) if isinstance(general, Words) else ()
            return len(asked) == 1 and asked[0] in known
        match general:
            case Words(text=text):
                return has_phrase(known, words(text, name))
            case Near(words=operands, gaps=gaps, ordered=ordered):
                return has_chain(known, [words(operand, name) for operand in operands], gaps, ordered)
            case Prefix(text=text):
                return any(word.startswith(fold(text)) for word in known if word)
            case Equals(text=text):
                return isinstance(special, Equals) and only_words(known) == only_words(words(text, name)) != ()

    def _near(self, special: Near, general: Words | Near | Equals | Prefix, name: str) -> bool:
        known = [words(operand, name) for operand in special.words]
        if not all(len(word) == 1 and word[0] for word in known):
            return True  # it never holds under this analysis
        match general:
            case Words(text=text):
                return any(has_phrase(word, words(text, name)) for word in known)
            case Prefix(text=text):
                return any(word[0].startswith(fold(text)) for word in known)
            case Near(words=operands, gaps=gaps, ordered=ordered):
                same = known == [words(operand, name) for operand in operands]
                wider = all(
                    low <= least and most <= high
                    for (least, most), (low, high) in zip(special.gaps, gaps, strict=False)
                )
                return same and wider and (special.ordered or not ordered)
        return False


def _same_place(special: str | None, general: str | None) -> bool:
    """Is where `special` looks also where `general` looks?"""
    return special == general or (general is None and special is not None and special not in UNSEEN_BY_BARE)


def _inside(special: Range, low: Bound | None, high: Bound | None) -> bool:
    if special.is_date != any(bound.is_date for bound in (low, high) if bound):
        return False
    return _not_below(special.low, low) and _not_above(special.high, high)


def _not_below(special: Bound | None, general: Bound | None) -> bool:
    if general is None or special is None:
        return general is None
    start = special.first if special.inclusive else special.last
    limit = general.first if general.inclusive else general.last
    return start > limit or (start == limit and (general.inclusive or not special.inclusive))


def _not_above(special: Bound | None, general: Bound | None) -> bool:
    if general is None or special is None:
        return general is None
    end = special.last if special.inclusive else special.first
    limit = general.last if general.inclusive else general.first
    return end < limit or (end == limit and (general.inclusive or not special.inclusive))
