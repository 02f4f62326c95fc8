"""Hypothesis strategies over the whole language: trees that a parser could have made, texts, and documents.

Two kinds of trees. `trees()` ranges over every Unicode text that each form can hold, for printing and parsing.
`meanings()` uses few words, fields and numbers, so that trees and `documents()` often meet, for evaluating.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime, timedelta

from hypothesis import strategies as st

from tocsin.model import Document
from tocsin.query.ast import (
    And,
    Bound,
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
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400 * 10**9


def has_word(text: str) -> bool:
    """Does a letter, mark or number remain after folding? (The contract, without tocsin.text.)"""
    return bool(runs(text))


def runs(text: str) -> list[str]:
    """The words of a text, as the contract defines them."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in folded).split()


# --- joining atoms ---------------------------------------------------------------------------------------------------


@st.composite
def joined(
    draw: st.DrawFn,
    atoms: st.SearchStrategy[Query],
    nests: st.SearchStrategy[tuple[str, str]] | None = None,
    most: int = 12,
) -> Query:
    """Trees of at most so many atoms, as the parser builds them: no AND inside an AND, no OR inside an OR.

    `nests` are the (field, source) pairs of nested queries, if there may be any.
    """
    kinds = st.sampled_from(["atom", "not", "and", "or"] + ["in"] * (nests is not None))

    def grow(leaves: int, depth: int, above: str = "") -> Query:
        kind = draw(kinds) if depth else "atom"
        if kind == "not":
            return Not(grow(leaves, depth - 1))
        if kind == "in" and nests is not None:
            field, source = draw(nests)
            return In(field, source, grow(leaves, depth - 1))
        if kind in ("and", "or") and kind != above and leaves > 1:
            count = draw(st.integers(2, min(4, leaves)))
            parts = tuple(grow(leaves // count, depth - 1, kind) for _ in range(count))
            return And(parts) if kind == "and" else Or(parts)
        return draw(atoms)

    return grow(most, 6)


# --- bounds: numbers and dates, with their moments from datetime -----------------------------------------------------

INCLUSIVE = st.booleans()


def number_bound(number: float, inclusive: bool) -> Bound:
    """A bound as the parser makes it of a number."""
    text = repr(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)
    return Bound(text, float(number), float(number), False, inclusive)


def day_bound(day: date, inclusive: bool) -> Bound:
    """A bound as the parser makes it of a day: all of it."""
    first = (day - date(1970, 1, 1)).days * DAY
    return Bound(day.isoformat(), first, first + DAY - 1, True, inclusive)


def time_bound(when: datetime, inclusive: bool, separator: str = "T") -> Bound:
    """A bound as the parser makes it of an RFC 3339 time."""
    at = (when - EPOCH) // timedelta(microseconds=1) * 1000
    return Bound(when.isoformat(sep=separator), at, at, True, inclusive)


NUMBER_BOUNDS = st.builds(
    number_bound, st.integers(-9999, 9999) | st.floats(allow_nan=False, allow_infinity=False), INCLUSIVE
)
DATE_BOUNDS = st.builds(day_bound, st.dates(), INCLUSIVE) | st.builds(
    time_bound, st.datetimes(timezones=st.just(UTC)), INCLUSIVE, st.sampled_from("T ")
)


def ranges(fields: st.SearchStrategy[str], bounds: st.SearchStrategy[Bound]) -> st.SearchStrategy[Query]:
    """Ranges with one or two ends, never reversed."""

    def two(field: str, one: Bound, other: Bound) -> Range:
        low, high = sorted((one, other), key=lambda bound: (bound.first, bound.last))
        return Range(field, low, high)

    return st.one_of(
        st.builds(lambda field, bound: Range(field, bound, None), fields, bounds),
        st.builds(lambda field, bound: Range(field, None, bound), fields, bounds),
        st.builds(two, fields, bounds, bounds),
    )


# --- any tree, over any text -----------------------------------------------------------------------------------------

FIELD_NAMES = st.from_regex(re.compile(r"[^\W\d_][^\W_\-.]{0,4}[_\-.]?", re.UNICODE), fullmatch=True).filter(
    lambda name: (
        name not in ("AND", "OR", "NOT", "NEAR") and all(c in "_-." or c.isalpha() or c.isdecimal() for c in name)
    )
) | st.sampled_from(["title", "author", "year", "citation", "dc.title", "IN", "TO", "And"])
MAYBE_FIELD = st.none() | FIELD_NAMES
TEXTS = (st.text() | st.text(st.sampled_from('ab AND"\\*?()[]:~^-!NEAR/5\n'))).filter(has_word)
PLAIN = st.from_regex(r"[a-zA-Z0-9éß][a-zA-Z0-9éß.,;'_%-]{0,6}", fullmatch=True).filter(
    lambda text: text not in ("AND", "OR", "NOT", "NEAR")
)
VALUES = st.from_regex(r"[a-zA-Z0-9éß:=<>~+-]{0,4}[a-zA-Z0-9]", fullmatch=True)
ONE_WORD = TEXTS.filter(lambda text: len(runs(text)) == 1) | st.text(
    st.sampled_from("abAN(-!\"*'\\"), min_size=1, max_size=4
).filter(lambda text: len(runs(text)) == 1)
STARTS = st.text(st.characters(categories=["L", "M", "N"]), min_size=2, max_size=5).filter(
    lambda text: (
        len(found := runs(text)) == 1
        and len(found[0]) >= 2
        and found[0] == unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    )
)
INTERVALS = st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda pair: (min(pair), max(pair)))


@st.composite
def _chains(draw: st.DrawFn) -> Near:
    operands = draw(st.lists(ONE_WORD, min_size=2, max_size=5))
    ordered = draw(st.booleans())
    gaps = draw(st.lists(INTERVALS, min_size=len(operands) - 1, max_size=len(operands) - 1))
    return Near(
        draw(MAYBE_FIELD),
        tuple(operands),
        tuple(gap if ordered else (0, gap[1]) for gap in gaps),
        ordered,
    )


def trees(most: int = 12) -> st.SearchStrategy[Query]:
    """Every tree that some text of the language has."""
    atoms: st.SearchStrategy[Query] = st.one_of(
        st.builds(Words, MAYBE_FIELD, TEXTS, st.just(True)),
        st.builds(Words, MAYBE_FIELD, PLAIN, st.just(False)),
        st.builds(Words, FIELD_NAMES, st.sampled_from(["-5", "2004", "-0.5", "1e3", "IN", "TO"]), st.just(False)),
        _chains(),
        st.builds(Equals, FIELD_NAMES, TEXTS, st.just(True)),
        st.builds(Equals, FIELD_NAMES, VALUES, st.just(False)),
        st.builds(Prefix, MAYBE_FIELD, STARTS),
        st.builds(Exists, FIELD_NAMES),
        ranges(FIELD_NAMES, NUMBER_BOUNDS),
        ranges(FIELD_NAMES, DATE_BOUNDS),
        st.builds(Similar, FIELD_NAMES, TEXTS, st.floats(0, 1).map(lambda one: round(one, 12))),
    )
    return joined(atoms, st.tuples(FIELD_NAMES, FIELD_NAMES), most)


# --- trees and documents that meet -----------------------------------------------------------------------------------

VOCABULARY = ("peer", "peers", "grid", "the", "of", "information", "informing", "2004")
FIELDS = ("title", "author", "year")
NAMES = st.sampled_from(FIELDS)
MAYBE_NAME = st.none() | NAMES
SHORT = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=3).map(" ".join)
NUMBERS = st.sampled_from([-1, 0, 0.5, 2003, 2004, 2004.0, 2005])
DAYS = st.sampled_from([date(2004, 5, 30), date(2004, 5, 31), date(2004, 6, 1)])
TIMES = st.sampled_from(
    [
        datetime(2004, 5, 30, 23, 59, 59, tzinfo=UTC),
        datetime(2004, 5, 31, tzinfo=UTC),
        datetime(2004, 5, 31, 12, tzinfo=UTC),
    ]
)


@st.composite
def _short_chains(draw: st.DrawFn) -> Near:
    operands = draw(st.lists(st.sampled_from(VOCABULARY[:6]), min_size=2, max_size=3))
    ordered = draw(st.booleans())
    gap = st.tuples(st.integers(0, 2), st.integers(0, 2)).map(lambda pair: (min(pair), max(pair)))
    gaps = [draw(gap) for _ in operands[1:]]
    return Near(draw(MAYBE_NAME), tuple(operands), tuple(g if ordered else (0, g[1]) for g in gaps), ordered)


def meaning_atoms(similar: bool = True) -> st.SearchStrategy[Query]:
    """Atoms over few words; without `~` if the tests have no statistics."""
    kinds: list[st.SearchStrategy[Query]] = [
        st.builds(Words, MAYBE_NAME, SHORT, st.booleans()),
        _short_chains(),
        st.builds(Equals, NAMES, SHORT, st.booleans()),
        st.builds(Prefix, MAYBE_NAME, st.sampled_from(["pe", "peer", "inform", "20", "th"])),
        st.builds(Exists, NAMES),
        ranges(NAMES, st.builds(number_bound, NUMBERS, INCLUSIVE)),
        ranges(NAMES, st.builds(day_bound, DAYS, INCLUSIVE) | st.builds(time_bound, TIMES, INCLUSIVE)),
    ]
    if similar:
        kinds.append(st.builds(Similar, NAMES, SHORT, st.sampled_from([0.0, 0.2, 0.6, 1.0])))
    return st.one_of(kinds)


def meanings(most: int = 10, similar: bool = True, nested: bool = True) -> st.SearchStrategy[Query]:
    """Trees over few words, to be evaluated on `documents()`."""
    nests = st.tuples(NAMES, st.sampled_from([*FIELDS, "id"])) if nested else None
    return joined(meaning_atoms(similar), nests, most)


VALUES_OF_FIELDS = st.one_of(
    st.lists(st.sampled_from(VOCABULARY), max_size=5).map(" ".join),
    NUMBERS,
    DAYS.map(date.isoformat),
    TIMES.map(datetime.isoformat),
)


def documents(identity: str = "d") -> st.SearchStrategy[Document]:
    """Documents with any of the fields absent, single or lists of texts, numbers and dates."""
    fields = st.dictionaries(NAMES, st.lists(VALUES_OF_FIELDS, min_size=1, max_size=3).map(tuple), max_size=3)
    return st.builds(lambda found: Document(identity, found), fields)


def corpora(most: int = 4) -> st.SearchStrategy[list[Document]]:
    """Some documents with different ids."""
    return st.lists(documents(), min_size=1, max_size=most).map(
        lambda found: [Document(f"d{number}", one.fields) for number, one in enumerate(found)]
    )
