"""Text to tree: a hand-written recursive-descent parser of the contract's subset of XPath 1.0.

Whatever XPath has and the subset lacks is refused by name, with its position. The depth of the recursion
is bounded by query_nesting_max and every token is looked at a bounded number of times.

    path      = [ '/' | '//' ] step { ( '/' | '//' ) step }
    step      = '.' | [ axis '::' | '@' ] ( name | '*' | p ':*' | 'text()' ) { '[' either ']' }
    either    = both { 'or' both }            both = comparison { 'and' comparison }
    comparison = operand [ op operand ]       op   = '=' '!=' '<>' '<' '<=' '>' '>='
    operand   = path | string | number | 'position()' | 'not(' either ')' | '(' either ')'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import NoReturn, TypeVar

from tocsin.errors import QueryError, QuerySyntaxError, QueryTooDeep, QueryTooLong, QueryTooManyAtoms
from tocsin.query.xpath.ast import (
    ANY,
    ORDER,
    Axis,
    Compare,
    Every,
    Exists,
    Name,
    Never,
    Node,
    Path,
    Position,
    Predicate,
    Some,
    Step,
    Test,
    Text,
)
from tocsin.settings import DEFAULTS, QueryLimits

T = TypeVar("T")

XML = "http://www.w3.org/XML/1998/namespace"

AXES = ", ".join(axis for axis in Axis if axis is not Axis.SELF)
OTHER_AXES = frozenset(
    "ancestor ancestor-or-self following following-sibling namespace parent preceding preceding-sibling self".split()
)
NODE_TESTS = frozenset("node comment processing-instruction".split())

_START = "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f"
_START += "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
_NCNAME = f"[{_START}][{_START}0-9.\u00b7\u0300-\u036f\u203f\u2040-]*"
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r\n]+)
    | (?P<number>\d+(?:\.\d*)?|\.\d+)
    | (?P<string>"[^"]*"|'[^']*')
    | (?P<name>{_NCNAME}(?::(?:{_NCNAME}|\*))?)
    | (?P<sign>//|::|\.\.|!=|<>|<=|>=|[/@.*\[\]()=<>|+,$-])""",
    re.VERBOSE | re.ASCII,
)
_PLAIN = re.compile(rf"(?://?(?:{_NCNAME}|\*))+")
_PLAIN_STEP = re.compile(rf"(//?)({_NCNAME}|\*)")


class UnsupportedXPath(QuerySyntaxError):
    """XPath has this, the subset that subscriptions may use has not."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


Operand = Predicate | Path | str | float
"""What stands on one side of a comparison; a float alone is a position, a path alone asks for existence."""


class _PositionCall:
    """position(), waiting for its comparison."""


def parse_xpath(text: str, namespaces: Mapping[str, str] | None = None, limits: QueryLimits = DEFAULTS.query) -> Path:
    """The tree of an XPath expression, or a QueryError that names the position."""
    if len(text) > limits.query_characters_max:
        reason = f"the query has {len(text):,} characters, at most {limits.query_characters_max:,} are allowed"
        raise QueryTooLong(reason, text, limits.query_characters_max)
    if namespaces and "" in namespaces:
        reason = "a namespace needs a prefix, which the names of the path carry: XPath has no default namespace"
        raise QuerySyntaxError(reason, text, 0)
    if _PLAIN.fullmatch(text) and text.count("/") <= limits.query_atoms_max:
        return _plain(text)
    return _Parser(text, namespaces or {}, limits).whole()


def _plain(text: str) -> Path:
    """Most queries are names, '*', '/' and '//' only: one regular expression reads them."""
    return Path(tuple([_plain_step(slashes, name) for slashes, name in _PLAIN_STEP.findall(text)]))


@lru_cache(maxsize=65_536)
def _plain_step(slashes: str, name: str) -> Step:
    return Step(Axis.CHILD, ANY if name == "*" else Name(name), (), slashes == "//")


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] in "\"'":
                raise QuerySyntaxError("this quotation mark is never closed", text, at)
            raise QuerySyntaxError(f"{text[at]!r} has no meaning in XPath here", text, at)
        if match.lastgroup != "space":
            found.append(_Token(match.lastgroup or "", match.group(), at))
        at = match.end()
    found.append(_Token("end", "", len(text)))
    return found


class _Parser:
    """State of one parse: the tokens, where we are, and what has been used of the limits."""

    def __init__(self, text: str, namespaces: Mapping[str, str], limits: QueryLimits) -> None:
        self.text = text
        self.namespaces = {"xml": XML, **namespaces}  # bound by itself, as XML says
        self.limits = limits
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0
        self.atoms = 0

    # --- reading ---------------------------------------------------------------------------

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    @property
    def after(self) -> str:
        """The text of the token after this one."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)].text

    def fail(self, reason: str, token: _Token | None = None, kind: type[QueryError] = QuerySyntaxError) -> NoReturn:
        raise kind(reason, self.text, (token or self.token).at)

    def refuse(self, what: str, instead: str, token: _Token | None = None) -> NoReturn:
        self.fail(f"{what} is not supported here: {instead}", token, UnsupportedXPath)

    def sign(self, *texts: str) -> str:
        """Takes the next token if it is one of these signs."""
        if self.token.kind == "sign" and self.token.text in texts:
            self.at += 1
            return self.tokens[self.at - 1].text
        return ""

    def word(self, text: str) -> bool:
        """Takes an operator that is written as a word."""
        if self.token.kind == "name" and self.token.text == text:
            self.at += 1
            return True
        return False

    def expect(self, sign: str, reason: str, token: _Token | None = None) -> None:
        if not self.sign(sign):
            self.fail(reason, token)

    def deeper(self, parser: Callable[[], T], token: _Token) -> T:
        self.depth += 1
        if self.depth > self.limits.query_nesting_max:
            self.fail(f"the query is nested deeper than {self.limits.query_nesting_max} levels", token, QueryTooDeep)
        inner = parser()
        self.depth -= 1
        return inner

    def count(self) -> None:
        self.atoms += 1
        if self.atoms > self.limits.query_atoms_max:
            reason = f"the query has more than {self.limits.query_atoms_max:,} steps and predicates"
            self.fail(reason, kind=QueryTooManyAtoms)

    # --- paths -----------------------------------------------------------------------------

    def whole(self) -> Path:
        if self.token.kind == "end":
            self.fail("the query is empty: write a path such as //title")
        self.call("a query", "a path such as //title[. = 'x'] selects nodes")
        if self.token.kind in ("string", "number") or self.token.text in ("(", "-"):
            self.fail("a query is a path: it starts with '/', '//', '.' or a name")
        path = self.path()
        if self.token.kind != "end":
            self.leftover("the query")
        return path

    def leftover(self, what: str) -> NoReturn:
        """Something stands where an operator or the end was expected."""
        token = self.token
        if token.text == "|":
            self.refuse("a union ('|')", "make a subscription for each part, or use 'or' in a predicate")
        if token.text in ("+", "-", "*", "div", "mod"):
            self.refuse(f"arithmetic ({token.text!r})", "compare with a number")
        if token.text in ORDER or token.text == "<>":
            self.fail("a comparison stands in a predicate: write path[. = 'x']")
        if token.text in ("and", "or"):
            self.fail(f"{token.text!r} stands in a predicate: write path[a {token.text} b]")
        self.fail(f"{token.text!r} does not continue {what}: expected '/', '[' or the end")

    def path(self) -> Path:
        start = self.token
        opening = self.sign("/", "//")
        if opening == "/" and not self.starts_step():
            self.fail("'/' alone selects the document itself: write a step after it, such as /*", start)
        steps = [self.step(opening == "//")]
        while slashes := self.sign("/", "//"):
            self.last_of_its_kind(steps[-1])
            steps.append(self.step(slashes == "//"))
        if all(step.axis is Axis.SELF and not step.deep for step in steps) and opening:
            self.fail("this selects the document itself: write a step with a name, such as /*", start)
        return Path(tuple(steps), bool(opening))

    def starts_step(self) -> bool:
        return self.token.kind == "name" or self.token.text in (".", "..", "@", "*", "$")

    def last_of_its_kind(self, step: Step) -> None:
        if self.token.text == ".":
            return
        if isinstance(step.test, Text):
            self.fail("text() stands in the last step: nothing is below a text", self.tokens[self.at - 1])
        if step.axis is Axis.ATTRIBUTE:
            self.fail("an attribute stands in the last step: nothing is below it", self.tokens[self.at - 1])

    def step(self, deep: bool) -> Step:
        self.count()
        token = self.token
        if self.sign("."):
            if self.token.text == "[":
                self.fail("XPath allows no predicate after '.': write *[…], or put the predicate on the step before")
            return Step(Axis.SELF, Node(), (), deep)
        if token.text == "..":
            self.refuse("the axis 'parent' ('..')", f"use {AXES}")
        axis = self.axis()
        test = self.test(axis)
        return Step(axis, test, self.predicates(), deep)

    def axis(self) -> Axis:
        if self.sign("@"):
            return Axis.ATTRIBUTE
        token = self.token
        if token.kind != "name" or self.after != "::":
            return Axis.CHILD
        if token.text in OTHER_AXES:
            self.refuse(f"the axis {token.text!r}", f"use {AXES}")
        if token.text not in AXES.split(", "):
            self.fail(f"there is no axis {token.text!r}: use {AXES}")
        self.at += 2
        return Axis(token.text)

    def test(self, axis: Axis) -> Test:
        token = self.token
        if self.sign("*"):
            return ANY
        if token.kind != "name":
            if token.text == "$":
                self.refuse("a variable", "write its value")
            shown = repr(token.text) if token.text else "the end"
            self.fail(f"expected a name, '*', '@', '.' or text() instead of {shown}")
        if self.after == "(":
            if token.text == "text" and axis is not Axis.ATTRIBUTE:
                self.at += 2
                self.expect(")", "text() takes nothing between its parentheses")
                return Text()
            self.call("a step", "use names, '*', '@name' and text()")
        self.at += 1
        return self.name(token)

    def name(self, token: _Token) -> Name:
        prefix, colon, local = token.text.rpartition(":")
        if colon and prefix not in self.namespaces:
            known = ", ".join(sorted(self.namespaces.keys() - {"xml"})) or "none"
            reason = f"the prefix {prefix!r} has no namespace (given: {known}): add it to the subscription's namespaces"
            self.fail(reason, token)
        uri = self.namespaces[prefix] if colon else ""
        return Name(None if local == "*" else local, uri, prefix)

    def call(self, where: str, instead: str) -> None:
        """Refuses a function or node test by its name, if one stands here."""
        token = self.token
        if token.kind != "name" or self.after != "(":
            return
        if token.text in NODE_TESTS:
            self.refuse(f"the node test '{token.text}()'", "use names, '*', '@name' and text()")
        if token.text != "text":
            self.refuse(f"the function '{token.text}()' as {where}", instead)

    # --- predicates ------------------------------------------------------------------------

    def predicates(self) -> tuple[Predicate, ...]:
        found = []
        while self.token.text == "[" and self.token.kind == "sign":
            found.append(self.deeper(self.predicate, self.token))
        return tuple(found)

    def predicate(self) -> Predicate:
        opening = self.token
        self.at += 1
        if self.token.text == "]":
            self.fail("this predicate is empty: write a condition between '[' and ']'")
        inner = self.either()
        if self.token.kind == "end":
            self.fail("this '[' is never closed: add a ']'", opening)
        if self.token.text != "]":
            self.leftover_inside("]")
        self.at += 1
        return Position("=", inner) if isinstance(inner, float) else self.condition(inner, opening)

    def leftover_inside(self, closing: str) -> NoReturn:
        token = self.token
        if token.text in ("|", "+", "-", "*", "div", "mod"):
            self.leftover("the predicate")
        self.fail(f"expected a comparison, 'and', 'or' or {closing!r} instead of {token.text!r}")

    def close(self, opening: _Token) -> None:
        """The ')' that belongs to an opening."""
        if self.token.kind == "end":
            self.fail("this '(' is never closed: add a ')'", opening)
        if not self.sign(")"):
            self.leftover_inside(")")

    def condition(self, operand: Operand | _PositionCall, token: _Token) -> Predicate:
        """An operand where something true or false is needed."""
        if isinstance(operand, _PositionCall):
            self.fail("position() needs a comparison: write position() = 2", token)
        if isinstance(operand, float):
            self.fail("a number alone is a position only as the whole predicate: write position() = 2", token)
        if isinstance(operand, str):
            self.fail("a string alone says nothing: compare it with a path", token)
        return Exists(operand) if isinstance(operand, Path) else operand

    def either(self) -> Operand:
        token = self.token
        first = self.both()
        if not (self.token.kind == "name" and self.token.text == "or"):
            return first
        parts = [self.condition(first, token)]
        while self.word("or"):
            token = self.token
            parts.append(self.condition(self.both(), token))
        return Some(tuple(inner for part in parts for inner in (part.parts if isinstance(part, Some) else (part,))))

    def both(self) -> Operand:
        token = self.token
        first = self.comparison()
        if not (self.token.kind == "name" and self.token.text == "and"):
            return first
        parts = [self.condition(first, token)]
        while self.word("and"):
            token = self.token
            parts.append(self.condition(self.comparison(), token))
        return Every(tuple(inner for part in parts for inner in (part.parts if isinstance(part, Every) else (part,))))

    def comparison(self) -> Operand:
        start = self.token
        left = self.operand()
        operator = self.token
        op = self.sign("=", "!=", "<>", "<=", "<", ">=", ">")
        if not op:
            return self.condition(left, start) if isinstance(left, _PositionCall) else left
        op = "!=" if op == "<>" else op
        right_token = self.token
        right = self.operand()
        if self.token.text in ORDER and self.token.kind == "sign":
            self.fail("comparisons do not chain: join them with 'and'")
        if isinstance(left, str | float) and not isinstance(right, str | float):
            left, right, op, right_token = right, left, ORDER[op], start
        if not isinstance(right, str | float):
            self.fail("one side of a comparison is a string or a number", right_token)
        return self.compare(left, op, right, operator, right_token)

    def compare(
        self, left: Operand | _PositionCall, op: str, right: str | float, operator: _Token, literal: _Token
    ) -> Predicate:
        self.count()
        if isinstance(left, _PositionCall):
            if isinstance(right, str):
                self.fail("position() is compared with a number", literal)
            return Position(op, right)
        if not isinstance(left, Path):
            self.fail("one side of a comparison is a path or position()", operator)
        if left.steps[-1].axis is Axis.SELF and any(step.deep for step in _trailing(left)):
            self.refuse("comparing '//.'", "compare '.' or './/*'", operator)
        return Compare(left, op, right)

    def operand(self) -> Operand | _PositionCall:
        token = self.token
        if token.kind == "string":
            self.at += 1
            return token.text[1:-1]
        if token.kind == "number" or token.text == "-":
            return self.number()
        if self.sign("("):
            inner = self.deeper(self.either, token)
            self.close(token)
            if isinstance(inner, Path) and self.token.text in ("/", "//", "["):
                self.refuse("a path that continues after parentheses", "write it without them")
            return inner
        if token.kind == "name" and self.after == "(" and token.text in ("not", "position"):
            return self.called(token)
        self.call("a condition", "conditions are paths, comparisons, position(), not(), 'and' and 'or'")
        if token.kind == "end" or not (self.starts_step() or token.text in ("/", "//")):
            shown = repr(token.text) if token.text else "the end"
            self.fail(f"expected a path, a literal, position() or not() instead of {shown}")
        return self.deeper(self.path, token)

    def called(self, token: _Token) -> Operand | _PositionCall:
        self.at += 2
        if token.text == "position":
            self.expect(")", "position() takes nothing between its parentheses")
            return _PositionCall()
        condition = self.token
        inner = self.condition(self.deeper(self.either, token), condition)
        self.close(token)
        return Never(inner)

    def number(self) -> float:
        sign = 1.0
        while self.sign("-"):
            sign = -sign
        if self.token.kind != "number":
            self.refuse("arithmetic ('-')", "write a number after the sign")
        number = sign * float(self.token.text)
        if not isfinite(number):
            self.fail("this number is too large")
        self.at += 1
        return number


def _trailing(path: Path) -> list[Step]:
    """The '.' steps at the end."""
    last = len(path.steps)
    while last and path.steps[last - 1].axis is Axis.SELF:
        last -= 1
    return list(path.steps[last:])
