"""Text to tree: a hand-written recursive-descent parser of the query language.

One pass from left to right, each character looked at a bounded number of times; the depth of the
recursion is bounded by query_nesting_max, so no input can take more than linear work or blow the
stack. Every refusal is a QueryError with the position, and says what was expected or what to write.

    query    = and { OR and }
    and      = not { [AND] not }
    not      = NOT not | '-' not | '!' not | near
    near     = primary { NEAR[l,u] primary | NEAR/n primary }
    primary  = '(' query ')' | '"' text '"' | term | prefix '*'
             | field ':' ( primary | '*' | range | IN ':' [field] '(' query ')' )
             | field ( '=' | '<' | '<=' | '>' | '>=' ) value | field '~' '"' text '"' '>=' number
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import NoReturn

from tocsin import dates
from tocsin.errors import (
    NestedUnderNot,
    QueryError,
    QuerySyntaxError,
    QueryTooDeep,
    QueryTooLong,
    QueryTooManyAtoms,
)
from tocsin.query.ast import (
    Bound,
    Equals,
    Exists,
    In,
    Near,
    Not,
    Prefix,
    Query,
    Range,
    Similar,
    Words,
    conjunction,
    disjunction,
)
from tocsin.query.score import ROUNDING
from tocsin.query.show import OPERATORS
from tocsin.settings import DEFAULTS, QueryLimits
from tocsin.text import KEYWORD, NUMBER, Analysis, fold, has_words, is_field_name, words

STANDARD_ANALYSIS = Analysis()

_SPACE = re.compile(r"\s*")
_TERM = re.compile(r'(?:\\.|[^\s\\()":=<>~\[\]{}])+', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
_COMPARISON = re.compile(r"<=|>=|<|>|=")
_VALUE = re.compile(r"[^\s()\[\]{}\"]+")
_INTERVAL = re.compile(r"\[\s*(\d+)\s*,\s*(\d+)\s*\]", re.ASCII)
_DISTANCE = re.compile(r"/(\d+)(?![^\s()\"])", re.ASCII)
_NEAR = re.compile(r"NEAR(?=[\s/\[()\"]|$)")
_SPACE_QUOTE = re.compile(r'\s*"')
_IN = re.compile(r"IN\s*:")
_TO = re.compile(r"TO(?=[\s*\"])")
_AT_LEAST = re.compile(">=")
_SURROGATE = re.compile("[\ud800-\udfff]")

DISTANCE_DIGITS_MAX = 9
SHOWN_MAX = 40  # characters of the query that a message repeats
FUZZY = "fuzzy words (word~n) do not exist here: write a prefix such as inform*, or OR of the spellings"
_LUCENE = (
    (re.compile(r"^\+"), "'+' does not exist here: parts are joined by AND, which may be left out"),
    (re.compile(r"&&"), "'&&' is written AND here"),
    (re.compile(r"\|\|"), "'||' is written OR here"),
    (re.compile(r"\^"), "boosts ('^') do not exist here: leave it out, scores are the cosine of query and document"),
    (re.compile(r"\?"), "the wildcard '?' does not exist here: write a prefix such as inform*, or quote the text"),
    (re.compile(r"^/"), "regular expressions do not exist here: write a prefix such as inform*, or quote the text"),
)


def parse(text: str, analysis: Analysis = STANDARD_ANALYSIS, limits: QueryLimits = DEFAULTS.query) -> Query:
    """The tree of a query, or a QueryError that names the position."""
    check_text(text, limits)
    return _parsed(_Parser(text, analysis, limits))


def check_text(text: str, limits: QueryLimits) -> None:
    """Length, and that it is text at all."""
    if len(text) > limits.query_characters_max:
        reason = f"the query has {len(text):,} characters, at most {limits.query_characters_max:,} are allowed"
        raise QueryTooLong(reason, text, limits.query_characters_max)
    if found := _SURROGATE.search(text):
        raise QuerySyntaxError("a lone surrogate is no character: the text is not valid Unicode", text, found.start())


def parse_monotone(text: str, analysis: Analysis, limits: QueryLimits) -> Query:
    """Like parse, and refuses NOT over a nested query, which later documents could make untrue (SmartSeer §VI-B)."""
    check_text(text, limits)
    return _parsed(_Parser(text, analysis, limits, monotone=True))


def _parsed(parser: _Parser) -> Query:
    try:
        return parser.whole()
    except RecursionError:
        reason = "the query is nested deeper than this process can follow: write it with fewer parentheses"
        raise QueryTooDeep(reason, parser.text, parser.at) from None


def shorten(text: str) -> str:
    """A message names a text, it does not repeat all of it."""
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"


def shown(text: str) -> str:
    """The text, short and in quotation marks."""
    return f"{shorten(text)!r}" if text else '""'


class _Parser:
    """State of one parse: the text, where we are in it, and what has been used of the limits."""

    def __init__(self, text: str, analysis: Analysis, limits: QueryLimits, *, monotone: bool = False) -> None:
        self.text = text
        self.analysis = analysis
        self.limits = limits
        self.at = 0
        self.depth = 0
        self.atoms = 0
        self.negations = 0
        self.monotone = monotone

    # --- reading ---------------------------------------------------------------------------

    def fail(self, reason: str, position: int | None = None, kind: type[QueryError] = QuerySyntaxError) -> NoReturn:
        raise kind(reason, self.text, self.at if position is None else position)

    def skip(self) -> None:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]

    def peek(self, characters: str) -> bool:
        return self.at < len(self.text) and self.text[self.at] in characters

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def operator(self, name: str) -> bool:
        """Takes the operator if it stands here as a word of its own."""
        self.skip()
        term = _TERM.match(self.text, self.at)
        if term is None or term.group() != name or self._names_field(term.end()):
            return False
        self.at = term.end()
        return True

    def _names_field(self, end: int) -> bool:
        """Does what ends here stand before ':' or a comparison?"""
        end = _SPACE.match(self.text, end).end()  # type: ignore[union-attr]
        return end < len(self.text) and self.text[end] in ":=<>~"

    def ends(self) -> bool:
        self.skip()
        return self.at >= len(self.text) or self.text[self.at] == ")"

    def deeper(self, parser: Callable[[], Query], position: int) -> Query:
        self.depth += 1
        if self.depth > self.limits.query_nesting_max:
            reason = f"the query is nested deeper than {self.limits.query_nesting_max} levels"
            self.fail(reason, position, QueryTooDeep)
        inner = parser()
        self.depth -= 1
        return inner

    def count(self, atoms: int, position: int) -> None:
        self.atoms += atoms
        if self.atoms > self.limits.query_atoms_max:
            reason = f"the query has more than {self.limits.query_atoms_max:,} atoms"
            self.fail(reason, position, QueryTooManyAtoms)

    # --- operators -------------------------------------------------------------------------

    def whole(self) -> Query:
        self.skip()
        if self.at == len(self.text):
            self.fail("the query is empty: write at least one word")
        query = self.either(None)
        if self.at < len(self.text):
            self.fail("this ')' closes nothing: remove it, or open a '(' before it")
        return query

    def either(self, field: str | None) -> Query:
        parts = [self.all(field)]
        while self.operator("OR"):
            parts.append(self.all(field))
        return disjunction(parts)

    def all(self, field: str | None) -> Query:
        parts = [self.negated(field)]
        while True:
            if not self.operator("AND"):
                start = self.at
                if self.ends() or self.operator("OR"):
                    self.at = start
                    return conjunction(parts)
            parts.append(self.negated(field))

    def negated(self, field: str | None) -> Query:
        self.skip()
        start = self.at
        if self.operator("NOT"):
            return self.negation(field, start)
        if self.peek("-!"):
            sign = self.text[self.at]
            if self.text.startswith("!=", self.at):
                self.fail("'!=' does not exist here: write NOT field = value")
            self.at += 1
            if self.at == len(self.text) or self.text[self.at].isspace() or self.peek(")"):
                self.fail(f"a lone {sign!r} negates nothing: put it right before a term, or leave it out", start)
            return self.negation(field, start)
        return self.near(field)

    def negation(self, field: str | None, start: int) -> Query:
        self.negations += 1
        query = self.deeper(lambda: Not(self.negated(field)), start)
        self.negations -= 1
        return query

    def near(self, field: str | None) -> Query:
        self.skip()
        start = self.at
        first = self.primary(field)
        operands, gaps, forms = [(first, start)], [], []
        while True:
            self.skip()
            operator_at = self.at
            if not self.take(_NEAR):
                break
            if interval := self.take(_INTERVAL):
                low, high = self.distance(interval[1], operator_at), self.distance(interval[2], operator_at)
                if low > high:
                    self.fail(f"NEAR[{low},{high}] can never hold: the lower bound comes first", operator_at)
                forms.append(True)
            elif distance := self.take(_DISTANCE):
                low, high = 0, self.distance(distance[1], operator_at)
                forms.append(False)
            else:
                self.fail("NEAR needs a distance: NEAR/5 (either order) or NEAR[0,5] (in this order)")
            if forms[-1] != forms[0]:
                self.fail("one chain cannot mix NEAR[l,u] and NEAR/n: join two chains with AND", operator_at)
            gaps.append((low, high))
            self.skip()
            position = self.at
            operands.append((self.operand(field), position))
        if not gaps:
            return first
        return self.chain(field, operands, tuple(gaps), ordered=forms[0])

    def distance(self, digits: str, position: int) -> int:
        if len(digits.lstrip("0")) > DISTANCE_DIGITS_MAX:
            self.fail(f"this distance is too large: at most {DISTANCE_DIGITS_MAX} digits", position)
        return int(digits)

    def operand(self, field: str | None) -> Query:
        if self.ends():
            self.fail("NEAR needs a word on its right")
        if self.peek("-!"):
            self.fail("NEAR joins single words: negate the whole chain with NOT")
        return self.primary(field)

    def chain(
        self, field: str | None, operands: list[tuple[Query, int]], gaps: tuple[tuple[int, int], ...], ordered: bool
    ) -> Near:
        names = self.analysis.names(field)
        found = []
        for operand, position in operands:
            if not isinstance(operand, Words):
                self.fail("NEAR joins single words, not groups, prefixes or other forms", position)
            if operand.field != field:
                reason = "a field stands before the whole chain: write title:(a NEAR/5 b)"
                self.fail(reason, position)
            lengths = [len(words(operand.text, name)) for name in names if name != KEYWORD]
            if any(length > 1 for length in lengths):
                self.fail(f"NEAR joins single words, {shown(operand.text)} is several", position)
            found.append(operand.text)
        return Near(field, tuple(found), gaps, ordered)

    # --- atoms -----------------------------------------------------------------------------

    def primary(self, field: str | None) -> Query:
        self.skip()
        start = self.at
        if self.ends():
            self.fail("expected a word, a phrase or '(' here")
        if self.peek("("):
            return self.group(field)
        if self.peek('"'):
            return self.phrase(field)
        if self.peek("[{"):
            return self.range(field)
        if self.peek("]}"):
            self.fail(f"this {self.text[self.at]!r} closes nothing: ranges are written field:[1 TO 5]")
        if self.peek("<>=~:"):
            return self.headless(field)
        term = self.take(_TERM)
        if term is None:
            self.fail("a backslash at the end escapes nothing: remove it, or write \\\\")
        if self._names_field(self.at):
            return self.named(term.group(), start)
        return self.term(term.group(), field, start)

    def group(self, field: str | None) -> Query:
        start = self.at
        self.at += 1
        if self.ends() and self.at < len(self.text):
            self.fail("these parentheses are empty: write a query between them")
        query = self.deeper(lambda: self.either(field), start)
        if not self.peek(")"):
            self.fail("this '(' is never closed: add a ')'", start)
        self.at += 1
        if self.peek("^"):
            self.fail(_LUCENE[3][1])
        return query

    def quoted(self) -> str:
        start = self.at
        found = self.take(_QUOTED)
        if found is None:
            self.fail("this quotation mark is never closed: add a '\"'", start)
        return _ESCAPE.sub(r"\1", found[1])

    def phrase(self, field: str | None) -> Query:
        start = self.at
        text = self.quoted()
        if self.peek("~"):
            self.fail('"…"~n does not exist here: write a NEAR/n b')
        if self.peek("^"):
            self.fail(_LUCENE[3][1])
        if self.peek(":"):
            self.fail("a field name is written without quotation marks", start)
        return self.words(field, text, True, start)

    def headless(self, field: str | None) -> Query:
        """A comparison without a name before it: field:>=5, or a mistake."""
        start = self.at
        if field is not None and self.peek("<>="):
            return self.comparison(field)
        self.fail(f"a field name must stand before {self.text[start]!r}")

    def term(self, raw: str, field: str | None, start: int) -> Query:
        if raw in OPERATORS or raw.startswith("NEAR/"):
            self.fail(
                f'{shorten(raw)} needs something on its left (to find the word, quote it: "{shorten(raw)}")', start
            )
        plain = _ESCAPE.sub("\0\0", raw)  # as long as what was written, so that positions stay
        for pattern, reason in _LUCENE:
            if found := pattern.search(plain):
                self.fail(reason, start + found.start())
        if "*" in plain:
            return self.prefix(raw, field, start)
        return self.words(field, _ESCAPE.sub(r"\1", raw), "\\" in raw, start)

    def words(self, field: str | None, text: str, quoted: bool, start: int) -> Words:
        self.count(1, start)
        if not any(has_words(text, name) for name in self.analysis.names(field)):
            self.fail(
                f"{shown(text)} holds no word to look for: write letters or digits{self._stopped(text, field)}", start
            )
        return Words(field, text, quoted)

    def _stopped(self, text: str, field: str | None) -> str:
        return f" (the analysis of {field!r} drops its words)" if field and has_words(text, "standard") else ""

    def prefix(self, raw: str, field: str | None, start: int) -> Query:
        if raw == "*":
            if field is None:
                self.fail("'*' needs a field: title:* holds where the field is present", start)
            self.count(1, start)
            return Exists(field)
        body = raw[:-1]
        if not raw.endswith("*") or "*" in _ESCAPE.sub("", body):
            self.fail("'*' stands only at the end of a word: inform*", start + raw.find("*"))
        text = _ESCAPE.sub(r"\1", body)
        folded = fold(text)
        names = self.analysis.names(field)
        if KEYWORD not in names and words(text) != (folded,):
            self.fail(f"a prefix is the start of one word, {shown(text)} is not", start)
        if len(folded) < 2:
            self.fail("a prefix needs at least 2 characters before '*'", start)
        self.count(1, start)
        return Prefix(field, text)

    # --- what follows a field name ---------------------------------------------------------

    def named(self, raw: str, start: int) -> Query:
        """field: …, field = …, field ~ …"""
        self.skip()
        sign = self.text[self.at]
        if sign == "~" and (self.at == start + len(raw)) and not _SPACE_QUOTE.match(self.text, self.at + 1):
            self.fail(FUZZY)
        if raw in OPERATORS:
            self.fail(f"{raw} is an operator, not a field name", start)
        if raw.endswith("!") and sign == "=":
            self.fail("'!=' does not exist here: write NOT field = value", self.at - 1)
        if not is_field_name(raw):
            reason = (
                f"{shown(raw)} is no field name (a letter, then letters, digits, '_', '-', '.'): quote it if it is text"
            )
            self.fail(reason, start)
        if sign == "~":
            return self.similar(raw, start)
        if sign != ":":
            return self.comparison(raw)
        self.at += 1
        return self.inside(raw, start)

    def inside(self, field: str, start: int) -> Query:
        self.skip()
        here = self.at
        if self.ends():
            self.fail(f"expected a word, a phrase, a range or '(' after {field}:")
        if self.peek(":"):
            self.fail("a field name is followed by one ':'; quote the text if it holds one", here)
        if self.take(_IN):
            return self.nested(field, here)
        if self.text.startswith("IN(", here):
            self.fail(f"a nested query has a ':' after IN: {field}:IN:(…)", here + 2)
        if self.peek("-!"):
            term = _TERM.match(self.text, here)
            if term is None or not NUMBER.fullmatch(term.group()):
                sign = self.text[here]
                self.fail(f"{sign!r} negates a whole term: write {sign}{field}:…, or quote the text")
            self.at = term.end()
            return self.words(field, term.group(), False, here)
        term = _TERM.match(self.text, here)
        if term is not None:
            if self._colon_follows(term.end()):
                self.fail(f"a second ':' after {field}: quote the text if it holds a ':'", term.end())
            self.at = term.end()
            if self.peek("~"):
                self.fail(FUZZY)
            return self.term(term.group(), field, here)
        return self.primary(field)

    def _colon_follows(self, end: int) -> bool:
        return end < len(self.text) and self.text[end] == ":"

    def comparison(self, field: str) -> Query:
        start = self.at
        sign = self.take(_COMPARISON)[0]  # type: ignore[index]
        if self.peek("=<>"):
            self.fail(f"'{sign}{self.text[self.at]}' is no comparison: use =, <, <=, > or >=", start)
        self.skip()
        here = self.at
        if sign == "=":
            return self.equals(field, here)
        bound = self.bound(inclusive=sign in ("<=", ">="))
        self.count(1, here)
        return Range(field, bound, None) if sign in (">", ">=") else Range(field, None, bound)

    def equals(self, field: str, here: int) -> Query:
        self.count(1, here)
        if self.peek('"'):
            text, quoted = self.quoted(), True
        else:
            value = self.take(_VALUE)
            if value is None:
                self.fail(f"expected a value after {field} =")
            text, quoted = _ESCAPE.sub(r"\1", value.group()), "\\" in value.group()
            if text.endswith("*") and not quoted:
                self.fail(f"'=' compares whole values: write {field}:{shorten(text)} for a prefix", here)
        if not has_words(text, self.analysis.of(field)):
            self.fail(f"{shown(text)} holds no word to compare with", here)
        return Equals(field, text, quoted)

    def bound(self, inclusive: bool) -> Bound:
        """A number or a date; a date may be quoted, a number not."""
        start = self.at
        if self.peek('"'):
            text, quoted = self.quoted(), True
        else:
            value = self.take(_VALUE)
            if value is None:
                self.fail("expected a number or a date here")
            text, quoted = value.group(), False
        if not quoted and NUMBER.fullmatch(text):
            number = float(text)
            if not isfinite(number):
                self.fail(f"{shorten(text)} is too large for a number", start)
            return Bound(text, number, number, False, inclusive)
        moments = dates.span(text)
        if moments is None:
            self.fail(f"{shown(text)} is neither a number nor a date (2004-05-31 or 2004-05-31T12:00:00Z)", start)
        return Bound(text, *moments, True, inclusive)

    def range(self, field: str | None) -> Query:
        start = self.at
        if field is None:
            self.fail("a range needs a field: year:[2004 TO 2010]", start)
        opening = self.text[self.at]
        self.at += 1
        low = self.end(opening == "[")
        self.skip()
        if not self.take(_TO):
            self.fail("expected TO between the bounds: year:[2004 TO 2010]")
        high = self.end(False)
        self.skip()
        if not self.peek("]}"):
            self.fail("expected ']' or '}' to close the range")
        if high is not None:
            high = Bound(high.text, high.first, high.last, high.is_date, self.text[self.at] == "]")
        self.at += 1
        self.count(1, start)
        if low is None and high is None:
            return Exists(field)
        if low is not None and high is not None:
            if low.is_date != high.is_date:
                self.fail("one bound is a number and the other a date: use two of a kind", start)
            if low.first > high.last:
                self.fail(f"the bounds are reversed: write [{shorten(high.text)} TO {shorten(low.text)}]", start)
        return Range(field, low, high)

    def end(self, inclusive: bool) -> Bound | None:
        self.skip()
        if self.peek("*"):
            self.at += 1
            return None
        return self.bound(inclusive)

    def similar(self, field: str, start: int) -> Query:
        self.at += 1
        self.skip()
        here = self.at
        if not self.peek('"'):
            self.fail('expected a quoted text after ~: abstract ~ "some text" >= 0.4')
        text = self.quoted()
        self.count(1, start)
        if not has_words(text, self.analysis.of(field)):
            self.fail(f"{shown(text)} holds no word to compare with", here)
        self.skip()
        if not self.take(_AT_LEAST):
            self.fail('a similarity needs its threshold: abstract ~ "some text" >= 0.4')
        self.skip()
        here = self.at
        value = self.take(_VALUE)
        if value is None or not NUMBER.fullmatch(value.group()):
            self.fail("the threshold is a number from 0 to 1", here)
        threshold = float(value.group())
        if not 0 <= threshold <= 1:
            self.fail(f"the threshold {shorten(value.group())} lies outside [0, 1]", here)
        return Similar(field, text, round(threshold, ROUNDING))  # as the cosine is: what is nearly 0 is 0 to everybody

    def nested(self, field: str, start: int) -> Query:
        if self.negations and self.monotone:
            reason = "a nested query (IN) under NOT cannot be a subscription: what was told could become untrue later"
            self.fail(reason, start, NestedUnderNot)
        self.skip()
        source = "id" if field == "citation" else field
        here = self.at
        if name := self.take(_TERM):
            source = name.group()
            if not is_field_name(source):
                self.fail(f"{shown(source)} is no field name", here)
        self.skip()
        if not self.peek("("):
            self.fail(f"expected a query in parentheses: {field}:IN:(…)")
        self.count(1, start)
        return In(field, source, self.group(None))
