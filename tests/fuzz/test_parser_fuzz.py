"""Issue 2: 200,000 inputs to the parser, each gives a tree or our own error with a position, and nothing else.

Seeded, so that a failure can be repeated: the input is in the message, and `inputs(seed)` gives the same ones again.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tocsin.errors import QueryError
from tocsin.query.normal import clauses, cost, is_supportable
from tocsin.query.parse import parse
from tocsin.query.show import show
from tocsin.settings import QueryLimits
from tocsin.text import ENGLISH, KEYWORD, Analysis

ANALYSES = [Analysis(), Analysis({"title": ENGLISH, "author": KEYWORD})]
WIDE = QueryLimits(query_characters_max=1_000_000)  # what was shown may be longer than what was written

SEEDS = [
    "peer",
    "title:peer OR title:(peer OR grid)",
    '"information dissemination" -grid',
    "title:(a NEAR[0,3] b NEAR[1,2] c) AND a NEAR/5 b",
    'author = "John Smith" AND title:p2p AND title:(information NEAR[0,0] dissemination)',
    "title:inform* OR title:*",
    "year:2004 year:[2004 TO 2010] year:{2004 TO *} year >= 2004 year<5",
    'time:[2004-05-31 TO "2004-06-01 12:00:00"} time > 2004-05-31T12:00:00.5+02:00',
    "NOT x !y -z peer-grid",
    'abstract ~ "some text" >= 0.4',
    "author:IN:(networks AND author:Bob) citation:IN:id(author:IN:g(x))",
    "a\\ b \\(c\\) d\\*",
]
TOKENS = [
    "AND", "OR", "NOT", "NEAR", "NEAR/5", "NEAR[0,5]", "NEAR[5,0]", "NEAR/", "NEAR[", "IN:", ":IN:(", "TO", "(", ")",
    "[", "]", "{", "}", '"', "'", "\\", "*", "?", "~", "^", "^2", "~2", "+", "-", "!", "&&", "||", "/", ":", "=", "<",
    ">", "<=", ">=", "!=", "title", "title:", "year:", "id:", "author = ", "a", "b", "peer", "the", "2004", "-5",
    "1e999", "1e3", "0.4", "2004-05-31", "2004-05-31T12:00:00Z", "*]", "[* TO *]", " ", "\t", "\n", "\u3000",
    "\u200d", "é", "ß", "ﬁ", "İ", "😀", "\u0301", "\ud800", "\x00", "𝔭𝔢𝔢𝔯", "日本", "½", ">= 0.4", 'f ~ "a" >= 0.5',
]  # fmt: skip


def mutated(chance: random.Random) -> str:
    """A good query with some pieces taken out, put in, exchanged, doubled."""
    text = chance.choice(SEEDS)
    if chance.random() < 0.3:
        text += chance.choice([" ", " AND ", " OR ", ""]) + chance.choice(SEEDS)
    for _ in range(chance.randint(1, 4)):
        start = chance.randint(0, len(text))
        end = min(len(text), start + chance.randint(0, 6))
        piece = chance.choice([chance.choice(TOKENS), "", text[start:end] * 2, text[end : end + 8]])
        text = text[:start] + piece + text[end:]
    return text


def grammatical(chance: random.Random) -> str:
    """Tokens of the language in any order."""
    between = chance.choice(["", " "])
    return between.join(chance.choice(TOKENS) for _ in range(chance.randint(1, 15)))


def unicode(chance: random.Random) -> str:
    """Any code points, among them surrogates and those never assigned."""
    top = chance.choice([0x7F, 0x2FF, 0xFFFF, sys.maxunicode])
    return "".join(chr(chance.randint(0, top)) for _ in range(chance.randint(0, 20)))


def truncated(chance: random.Random) -> str:
    """A good query that ends too early, or begins too late."""
    text = f"{chance.choice(SEEDS)} {chance.choice(SEEDS)}"
    cut = chance.randint(0, len(text))
    return text[:cut] if chance.random() < 0.7 else text[cut:]


def nested(chance: random.Random) -> str:
    """Openings within openings, closed or not."""
    depth = chance.choice([1, 5, 63, 64, 65, 200])
    openings = [
        chance.choice(["(", "NOT ", "-", "!", "title:(", "f:IN:(", "f:IN:g(", "(a OR ", "(a "]) for _ in range(depth)
    ]
    closings = sum(one.count("(") for one in openings) + chance.choice([0, 0, 0, -1, 1])
    return "".join(openings) + chance.choice(["a", "", '"a b"', "year:[1 TO 2]"]) + ")" * closings


MAKERS = [mutated, mutated, grammatical, unicode, truncated, nested]


def inputs(count: int, seed: int) -> Iterator[tuple[str, str]]:
    chance = random.Random(seed)
    for _ in range(count):
        maker = chance.choice(MAKERS)
        yield maker.__name__, maker(chance)


def check_error(error: QueryError, text: str) -> None:
    """It says something, and points into the text; it can be printed, whatever was sent."""
    assert 0 <= error.position <= len(text), ascii(text)
    assert error.text == text
    assert error.reason, ascii(text)
    line, caret = error.caret().split("\n")
    assert caret.strip() == "^", ascii(text)
    assert len(caret) <= len(line) + 1, ascii(text)
    assert str(error).encode()


def check(count: int, seed: int) -> Counter[tuple[str, str]]:
    """Every input gives a tree that can be shown and read back, or an error with a position inside the text."""
    seen: Counter[tuple[str, str]] = Counter()
    for number, (maker, text) in enumerate(inputs(count, seed)):
        analysis = ANALYSES[number % 2]
        try:
            query = parse(text, analysis)
        except QueryError as error:
            check_error(error, text)
            seen[maker, "refused"] += 1
            continue
        except BaseException as error:  # the promise is about everything that can be raised
            pytest.fail(f"{type(error).__name__} for {text!a}")
        assert parse(show(query), analysis, WIDE) == query, ascii(text)
        assert cost(query) > 0
        if number % 50 == 0:
            is_supportable(query)
            clauses(query)
        seen[maker, "read"] += 1
    return seen


def test_20_000_inputs_each_give_a_tree_or_our_error():
    seen = check(20_000, seed=1)
    for maker in {maker.__name__ for maker in MAKERS}:
        assert seen[maker, "read"] > 100, f"{maker} makes too few good queries to mean anything"
        assert seen[maker, "refused"] > 100, f"{maker} makes too few bad queries to mean anything"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_200_000_inputs_each_give_a_tree_or_our_error(seed):
    check(20_000, seed)


EVERYTHING = [
    "(", ")", '"', "\\", "-", "!", "*", "~", ":", "[", "{", "a", "a ", "NOT ", "AND ", "a:", "a=", "a~", "f:IN:(",
    "a NEAR/1 ", 'a~"', "year:[", "year:[1 TO ", "\u0301", "ﷺ", "\t", "\ud800", "((a OR b) AND ", "a OR (b AND ",
]  # fmt: skip


@pytest.mark.parametrize("unit", EVERYTHING, ids=ascii)
def test_20_000_characters_of_anything_give_a_tree_or_our_error(unit):
    for text in ((unit * 20_000)[:20_000], (unit * 20_000)[:20_001], unit * 4_096, unit * 100_000):
        try:
            query = parse(text)
        except QueryError as error:
            check_error(error, text)
        else:
            assert parse(show(query), limits=WIDE) == query
