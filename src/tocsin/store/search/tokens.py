"""Documents and queries as tokens that a search library can find.

A document has a token for each word of each field under that field's analysis, one for the word wherever it stands,
one for each whole value (nested queries), number and day (ranges), and one for each field that is present. Tokens are
made here and only split at white space there, so both sides always agree: candidates are never missed. A query becomes
a boolean query of tokens that holds wherever the query does; it is exact where tokens are all that is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

import tantivy

from tocsin import dates
from tocsin.model import Document
from tocsin.query.ast import And, Equals, Exists, In, Near, Not, Or, Prefix, Query, Range, Similar, Words
from tocsin.query.normal import number_word
from tocsin.query.semantics import Knowledge, within
from tocsin.query.vector import factors, weighed
from tocsin.text import ENGLISH, KEYWORD, STANDARD, UNSEEN_BY_BARE, fold, value_key, values_of, words

KEYS = "key"  # the field of the search library that holds all tokens
KIND = {STANDARD: "s", ENGLISH: "e", KEYWORD: "k"}
NUMBER, VALUE, DAY, PRESENT = "n", "v", "d", "p"
NANOSECONDS_A_DAY = 24 * 3600 * 10**9
CHARACTERS = 100  # of a word that are kept as they are; the rest of a longer one becomes a digest
SIMILAR_SLACK = 1e-6
_UNSAFE = re.compile(r"[\s%\x00-\x20\x7f-\xa0]")


def _escaped(text: str) -> str:
    """The text without white space, character by character, so that prefixes stay prefixes."""
    return text if text.isalnum() else _UNSAFE.sub(lambda found: f"%{ord(found[0]):x};", text)


@lru_cache(maxsize=4_096)
def _start(field: str, kind: str) -> str:
    name = field if len(field) <= CHARACTERS else f"\x1e{sha256(field.encode()).hexdigest()}"
    return f"{name}\x1f{kind}\x1f"


def token(field: str, kind: str, word: str) -> str:
    """One token; no two things share one."""
    if len(word) <= CHARACTERS:
        return _start(field, kind) + _escaped(word)
    return f"{_start(field, kind)}{_escaped(word[:CHARACTERS])}\x1e{sha256(word.encode()).hexdigest()}"


EVERY = token("id", PRESENT, "")
"""What every document has."""


FIELDS = token("", PRESENT, "")
"""How the tokens begin that name the fields of the collection."""


def value_token(field: str, value: str | float) -> str:
    """For a whole value, as nested queries compare it."""
    if not isinstance(value, str):
        return f"{_start(field, VALUE)}n{number_word(value)}"
    if len(value) > CHARACTERS:
        return f"{_start(field, VALUE)}h{sha256(value.encode()).hexdigest()}"
    plain = value.replace("%", "%25;").replace(" ", "%20;")  # its white space is folded already
    return f"{_start(field, VALUE)}t{plain}"


def tokens_of(document: Document, knowledge: Knowledge) -> set[str]:
    """All tokens of a document."""
    found: set[str] = set()
    for field in [*document.fields, *UNSEEN_BY_BARE]:
        values = values_of(document, field)
        if not values:
            continue
        found.add(token(field, PRESENT, ""))
        found.add(token("", PRESENT, field))
        analysis = knowledge.analysis.of(field)
        for value in values:
            found.add(value_token(field, value_key(value)))
            if not isinstance(value, str):
                found.add(token(field, NUMBER, number_word(value)))
                continue
            for place in (field, "") if field in document.fields else (field,):
                found |= _word_tokens(place, analysis, value)
            at = dates.moment(value)
            if at is not None:
                found.add(token(field, DAY, str(at // NANOSECONDS_A_DAY)))
    return found


def _word_tokens(field: str, analysis: str, value: str) -> set[str]:
    distinct = set(words(value, analysis))
    distinct.discard("")
    if analysis == KEYWORD or (len(value) > CHARACTERS and max(map(len, distinct), default=0) > CHARACTERS):
        return {token(field, KIND[analysis], word) for word in distinct}
    start = _start(field, KIND[analysis])
    return {start + word for word in distinct}  # letters, marks and numbers need no escape


class Candidates(NamedTuple):
    """Where a query can hold: everywhere (None), or where these tokens are; exact if it holds there."""

    query: tantivy.Query | None
    exact: bool


NEVER = Candidates(tantivy.Query.empty_query(), True)


@dataclass(frozen=True, slots=True)
class Translator:
    """Queries to candidates, for one state of the index."""

    schema: tantivy.Schema
    searcher: tantivy.Searcher
    knowledge: Knowledge

    def candidates(self, query: Query) -> Candidates:
        """Where to look for the query."""
        match query:
            case And(parts):
                return self._all([self.candidates(part) for part in parts])
            case Or(parts):
                return self._any([self.candidates(part) for part in parts])
            case Not(part):
                inner = self.candidates(part)
                if not inner.exact:
                    return Candidates(None, False)
                return NEVER if inner.query is None else Candidates(self._without(inner.query), True)
            case Words(field):
                return self._words(field, (query.text,), query.number, exact=True)
            case Equals(field):
                return self._words(field, (query.text,), query.number, exact=False)
            case Near(field, operands):
                return self._words(field, operands, None, exact=False)
            case Prefix(field, text):
                return self._prefix(field, fold(text))
            case Exists(field):
                return Candidates(self._term(token(field, PRESENT, "")), True)
            case Range(field):
                return self._range(query)
            case Similar():
                return self._similar(query)
            case In(field, source, inner_query):
                values = self.knowledge.values(inner_query, source)
                return Candidates(self._terms(value_token(field, value) for value in values), True)

    def whole(self, found: Candidates) -> tantivy.Query:
        """The query to run; everywhere means: in every document."""
        return self._term(EVERY) if found.query is None else found.query

    # --- operators -----------------------------------------------------------------------------

    def _all(self, parts: list[Candidates]) -> Candidates:
        asked = [(tantivy.Occur.Must, part.query) for part in parts if part.query is not None]
        exact = all(part.exact for part in parts)
        return Candidates(tantivy.Query.boolean_query(asked) if asked else None, exact)

    def _any(self, parts: list[Candidates]) -> Candidates:
        if not parts:
            return NEVER
        exact = all(part.exact for part in parts)
        asked = [(tantivy.Occur.Should, part.query) for part in parts if part.query is not None]
        if len(asked) < len(parts):
            return Candidates(None, exact)
        return Candidates(tantivy.Query.boolean_query(asked), exact)

    def _without(self, query: tantivy.Query) -> tantivy.Query:
        every = (tantivy.Occur.Must, self._term(EVERY))
        return tantivy.Query.boolean_query([every, (tantivy.Occur.MustNot, query)])

    def _term(self, word: str) -> tantivy.Query:
        return tantivy.Query.term_query(self.schema, KEYS, word, index_option="basic")

    def _terms(self, found: Iterable[str]) -> tantivy.Query:
        several = list(found)
        if not several:
            return tantivy.Query.empty_query()
        return self._term(several[0]) if len(several) == 1 else tantivy.Query.term_set_query(self.schema, KEYS, several)

    # --- atoms ---------------------------------------------------------------------------------

    def _words(self, field: str | None, texts: tuple[str, ...], number: float | None, exact: bool) -> Candidates:
        """All words, under one of the analyses that the field (None: any field) can have."""
        options = []
        for analysis in self.knowledge.analysis.names(field):
            found = [word for text in texts for word in words(text, analysis) if word]
            if found:
                asked = [Candidates(self._term(token(field or "", KIND[analysis], word)), True) for word in set(found)]
                options.append(Candidates(self._all(asked).query, exact and len(found) == 1))
        if number is not None:
            options.append(Candidates(self._term(token(field or "", NUMBER, number_word(number))), True))
        return self._any(options)

    def _prefix(self, field: str | None, start: str) -> Candidates:
        found = []
        for analysis in self.knowledge.analysis.names(field):
            beginning = _start(field or "", KIND[analysis]) + _escaped(start[:CHARACTERS])
            found += [term for term, _ in self.searcher.terms_with_prefix(KEYS, beginning)]
        return Candidates(self._terms(found), len(start) <= CHARACTERS)

    def _range(self, query: Range) -> Candidates:
        """The numbers, or the days, that occur in the field and lie between the bounds."""
        low, high = query.low, query.high
        if not query.is_date:
            start = _start(query.field, NUMBER)
            terms = [term for term, _ in self.searcher.terms_with_prefix(KEYS, start)]
            inside = [term for term in terms if within(float(term[len(start) :]), low, high, False)]
            return Candidates(self._terms(inside), True)
        start = _start(query.field, DAY)
        first = None if low is None else int(low.first) // NANOSECONDS_A_DAY
        last = None if high is None else int(high.last) // NANOSECONDS_A_DAY
        days = []
        for term, _ in self.searcher.terms_with_prefix(KEYS, start):
            day = int(term[len(start) :])
            if (first is None or day >= first) and (last is None or day <= last):
                days.append(term)
        return Candidates(self._terms(days), False)

    def _similar(self, query: Similar) -> Candidates:
        """A word of the text, without those common ones that cannot reach the threshold by themselves."""
        if query.threshold <= 2 * SIMILAR_SLACK:
            return Candidates(None, False)
        analysis = self.knowledge.analysis.of(query.field)
        vector = weighed(factors(query, self.knowledge.analysis), self.knowledge.statistics)
        if not vector.length:
            return NEVER
        needed, tail = [], 0.0
        for word, weight in sorted(vector.weights.items(), key=lambda one: one[1]):
            tail += (weight / vector.length) ** 2
            if tail**0.5 >= query.threshold - SIMILAR_SLACK:
                needed.append(token(query.field, KIND[analysis], word))
        return Candidates(self._terms(needed), False)
