"""The printer: what it writes is read back as the same tree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.strategies import trees
from tocsin.errors import QueryError
from tocsin.query.ast import And, Equals, Exists, In, Near, Not, Or, Prefix, Similar, Words
from tocsin.query.parse import parse
from tocsin.query.show import show
from tocsin.settings import QueryLimits
from tocsin.text import ENGLISH, KEYWORD, Analysis

A, B, C = Words(None, "a"), Words(None, "b"), Words(None, "c")


@pytest.mark.row("S2")
@settings(max_examples=300)
@given(trees())
def test_what_is_shown_parses_to_the_same_tree(query):
    assert parse(show(query)) == query


FRAGMENTS = st.sampled_from(
    [
        "a", "b", "title:", "(", ")", " AND ", " OR ", " NOT ", "-", "!", " ", '"a b"', "a*", "year:", "[1 TO 2]",
        "{1 TO *}", " NEAR[0,1] ", " NEAR/2 ", "year>=5", "f = x", 'f ~ "a" >= 0.5', "f:IN:(", "f:IN:g(", "*", "-5",
        "\\(", "2004-05-31",
    ]
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(FRAGMENTS, max_size=12).map("".join))
def test_whatever_was_parsed_can_be_shown_and_parsed_again(text):
    try:
        query = parse(text)
    except QueryError:
        return
    assert parse(show(query)) == query
    assert show(parse(show(query))) == show(query)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (Or((And((A, B)), C)), "a AND b OR c"),
        (And((Or((A, B)), C)), "(a OR b) AND c"),
        (Not(Or((A, B))), "NOT (a OR b)"),
        (Not(Not(A)), "NOT NOT a"),
        (And((Not(A), B)), "NOT a AND b"),
        (Not(Near(None, ("a", "b"), ((0, 5),), False)), "NOT a NEAR/5 b"),
        (Near("title", ("a", "b", "c"), ((0, 0), (1, 3))), "title:(a NEAR[0,0] b NEAR[1,3] c)"),
        (Words("title", 'say "no"', True), 'title:"say \\"no\\""'),
        (Words(None, "AND", True), '"AND"'),
        (Near(None, ("NEAR", "b"), ((0, 1),)), '"NEAR" NEAR[0,1] b'),
        (Equals("author", "John Smith", True), 'author = "John Smith"'),
        (Prefix("title", "inform"), "title:inform*"),
        (Exists("title"), "title:*"),
        (Similar("abstract", "some text", 0.4), 'abstract ~ "some text" >= 0.4'),
        (In("citation", "id", Words("author", "Bob")), "citation:IN:id(author:Bob)"),
    ],
)
def test_parentheses_and_quotes_stand_only_where_they_are_needed(query, text):
    assert show(query) == text
    assert parse(text) == query


@pytest.mark.parametrize(
    ("text", "analysis"),
    [('title:john\\ smi*', Analysis({"title": KEYWORD})), ('title:"!!!"', Analysis({"title": KEYWORD})),
     ('title:("John Smith" NEAR/3 b)', Analysis({"title": KEYWORD})), ("title:running", Analysis({"title": ENGLISH})),
     ('title:\\(\\"\\*a*', Analysis({"title": KEYWORD})), ("a\\\nb*", Analysis({"title": KEYWORD}))],
)  # fmt: skip
def test_what_only_some_analyses_allow_is_shown_as_well(text, analysis):
    query = parse(text, analysis)
    assert parse(show(query), analysis) == query


@pytest.mark.parametrize(
    "text", [
        "year:[2004 TO 2010]", "year:{2004 TO 2010]", "year:[2004 TO 2010}", "year:{* TO 2010}", "year:[-1.5 TO *]",
        "time:[2004-05-31 TO 2004-06-01}", 'time:["2004-05-31 12:00:00" TO *]', "year:[1e-7 TO 1e300]",
    ]
)  # fmt: skip
def test_each_end_of_a_range_keeps_its_bracket(text):
    query = parse(text)
    assert parse(show(query)) == query
    for sign, other in (("[", "{"), ("]", "}")):
        if sign in text and "*" not in text:
            assert parse(text.replace(sign, other)) != query


def test_the_shown_text_may_be_longer_than_what_was_written_but_means_the_same():
    """A group's field and every AND are written out, so a program that reads it back lifts query_characters_max."""
    text = f"{'f' * 60}:({' '.join(f'w{n}' for n in range(1_000))})"
    query = parse(text)
    assert parse(show(query), limits=QueryLimits(query_characters_max=len(show(query)))) == query
