"""Contract, "Query language": which text gives which tree, and what is refused where and why."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.strategies import day_bound, number_bound, runs
from tests.steps import steps
from tocsin.errors import (
    NestedUnderNot,
    QueryError,
    QuerySyntaxError,
    QueryTooCostly,
    QueryTooDeep,
    QueryTooLong,
    QueryTooManyAtoms,
)
from tocsin.query import parse_subscription
from tocsin.query.ast import And, Bound, Equals, Exists, In, Near, Not, Or, Prefix, Range, Similar, Words
from tocsin.query.parse import parse
from tocsin.settings import QueryLimits
from tocsin.text import ENGLISH, KEYWORD, Analysis


def word(text, field=None):
    return Words(field, text)


def phrase(text, field=None):
    return Words(field, text, quoted=True)


A, B, C, D = word("a"), word("b"), word("c"), word("d")
Y2004, Y2010 = number_bound(2004, True), number_bound(2010, True)


def open_end(bound: Bound) -> Bound:
    return replace(bound, inclusive=False)


def refusal(text: str, analysis: Analysis | None = None, **limits: int) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse(text, analysis or Analysis(), QueryLimits(**limits))
    assert 0 <= caught.value.position <= len(text)
    return caught.value


# --- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a AND b", And((A, B))),
        ("a OR b", Or((A, B))),
        ("NOT a", Not(A)),
        ("a and b or not c", And((A, word("and"), B, word("or"), word("not"), C))),
        ("a And b", And((A, word("And"), B))),
        ("a b", And((A, B))),
        ("a\n\tb\u3000c", And((A, B, C))),
        ("  a  ", A),
    ],
)
def test_operators_are_upper_case_and_juxtaposition_means_and(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a OR b AND c", Or((A, And((B, C))))),
        ("a b OR c d", Or((And((A, B)), And((C, D))))),
        ("a AND b OR c AND d", Or((And((A, B)), And((C, D))))),
        ("NOT a AND b", And((Not(A), B))),
        ("NOT a OR b", Or((Not(A), B))),
        ("NOT a b", And((Not(A), B))),
        ("NOT a NEAR/5 b", Not(Near(None, ("a", "b"), ((0, 5),), False))),
        ("a NEAR/5 b OR c", Or((Near(None, ("a", "b"), ((0, 5),), False), C))),
        ("c a NEAR[1,2] b d", And((C, Near(None, ("a", "b"), ((1, 2),)), D))),
        ("NOT NOT a", Not(Not(A))),
    ],
)
def test_near_binds_tightest_then_not_then_and_then_or(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("(a OR b) AND c", And((Or((A, B)), C))),
        ("a (b OR c)", And((A, Or((B, C))))),
        ("NOT (a OR b)", Not(Or((A, B)))),
        ("-(a b)", Not(And((A, B)))),
        ("((((a))))", A),
        ("(a b)c", And((A, B, C))),
        ("a AND(b)", And((A, B))),
    ],
)
def test_parentheses_group(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("(a AND b) AND c", And((A, B, C))),
        ("a AND (b AND (c AND d))", And((A, B, C, D))),
        ("(a OR b) OR (c OR d)", Or((A, B, C, D))),
    ],
)
def test_the_same_operator_inside_itself_is_one_flat_operator(text, tree):
    assert parse(text) == tree


# --- words and fields ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("title:peer", word("peer", "title")),
        ("title: peer", word("peer", "title")),
        ("title:(peer OR grid)", Or((word("peer", "title"), word("grid", "title")))),
        ("title:(a -b)", And((word("a", "title"), Not(word("b", "title"))))),
        ("title:(a (b OR NOT c))", And((word("a", "title"), Or((word("b", "title"), Not(word("c", "title"))))))),
        ("title:(a author:b c)", And((word("a", "title"), word("b", "author"), word("c", "title")))),
        ("title:a b", And((word("a", "title"), B))),
        ('title:"a b"', phrase("a b", "title")),
        ("dc.title:a", word("a", "dc.title")),
        ("x-y_z9:a", word("a", "x-y_z9")),
        ("título:a", word("a", "título")),
        ("id:D1", word("D1", "id")),
        ("source:ACL", word("ACL", "source")),
        ("title:IN", word("IN", "title")),
        ("year:([2004 TO 2010] OR 1999)", Or((Range("year", Y2004, Y2010), word("1999", "year")))),
    ],
)
def test_a_field_applies_to_what_follows_it_or_to_the_whole_group(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ('"information dissemination"', phrase("information dissemination")),
        ('"a \\"b\\" \\\\c"', phrase('a "b" \\c')),
        ('"a AND (b) title:c NEAR/5"', phrase("a AND (b) title:c NEAR/5")),
        ('"a""b"', And((phrase("a"), phrase("b")))),
        ("title\\:peer", phrase("title:peer")),
        ("\\AND", phrase("AND")),
        ("a\\ b", phrase("a b")),
        ("c++", word("c++")),
        ("a&b", word("a&b")),
    ],
)
def test_quotes_and_backslashes_make_text_of_anything(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("-a", Not(A)),
        ("!a", Not(A)),
        ("a -b", And((A, Not(B)))),
        ('-"a b"', Not(phrase("a b"))),
        ("-title:a", Not(word("a", "title"))),
        ("--a", Not(Not(A))),
        ("peer-grid", word("peer-grid")),
        ("peer!grid", word("peer!grid")),
        ("a- b!", And((word("a-"), word("b!")))),
        ("-peer-grid", Not(word("peer-grid"))),
        ("-5", Not(word("5"))),
        ("year:-5", word("-5", "year")),
        ("year:(-5)", Not(word("5", "year"))),
    ],
)
def test_minus_and_exclamation_mark_negate_only_at_the_start_of_a_term(text, tree):
    assert parse(text) == tree


# --- proximity -------------------------------------------------------------------------------------------------------


@pytest.mark.row("P2")
@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("title:(a NEAR[0,0] b)", Near("title", ("a", "b"), ((0, 0),))),
        ("title:(a NEAR[1,3] b NEAR[0,7] c)", Near("title", ("a", "b", "c"), ((1, 3), (0, 7)))),
        ("a NEAR[ 1 , 3 ] b", Near(None, ("a", "b"), ((1, 3),))),
        ("a NEAR/5 b", Near(None, ("a", "b"), ((0, 5),), False)),
        ("a NEAR/0 b NEAR/1 c", Near(None, ("a", "b", "c"), ((0, 0), (0, 1)), False)),
        ('"a" NEAR/5 "b!"', Near(None, ("a", "b!"), ((0, 5),), False)),
        ("title:(a NEAR/5 b c)", And((Near("title", ("a", "b"), ((0, 5),), False), word("c", "title")))),
        ("NEARBY", word("NEARBY")),
        ("near b", And((word("near"), B))),
    ],
)
def test_near_chains_are_one_atom(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("a NEAR[5,2] b", 2, "lower bound"),
        ("a NEAR[0,1] b NEAR/5 c", 14, "mix"),
        ("a NEAR b", None, "distance"),
        ("a NEAR[1] b", None, "distance"),
        ("a NEAR/ b", None, "distance"),
        ("a NEAR/x b", None, "distance"),
        ("a NEAR[-1,2] b", None, "distance"),
        ("a NEAR/5", 8, "right"),
        ("NEAR/5 b", 0, "left"),
        ("a NEAR/5 -b", 9, "single words"),
        ('a NEAR/5 "b c"', 9, "single words"),
        ("a NEAR/5 b-c", 9, "single words"),
        ("a NEAR/5 (b OR c)", 9, "single words"),
        ("a NEAR/5 bee*", 9, "single words"),
        ("a NEAR/5 !!!", 9, None),
        ("title:a NEAR/5 b", 0, "before the whole chain"),
        ("title:(a NEAR/5 author:b)", 16, "before the whole chain"),
    ],
)
def test_the_operands_of_near_are_single_words_and_a_chain_has_one_form(text, position, says):
    error = refusal(text)
    assert position in (None, error.position)
    assert says is None or says in error.reason


def test_a_distance_too_large_to_read_is_called_too_large():
    assert "large" in refusal("a NEAR[0,99999999999] b").reason
    assert "large" in refusal("a NEAR/99999999999 b").reason


# --- equality, prefixes, presence, ranges, similarity, nesting -------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ('author = "John Smith"', Equals("author", "John Smith", True)),
        ('author="John Smith"', Equals("author", "John Smith", True)),
        ("year = 2004", Equals("year", "2004")),
        ("year=-5", Equals("year", "-5")),
        ('year = "2004"', Equals("year", "2004", True)),
        ("author = O'Brien-Smith", Equals("author", "O'Brien-Smith")),
        ('NOT author = "x"', Not(Equals("author", "x", True))),
        ("url = http://x.org/a?b=c", Equals("url", "http://x.org/a?b=c")),
    ],
)
def test_equality(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("title:inform*", Prefix("title", "inform")),
        ("inform*", Prefix(None, "inform")),
        ("In*", Prefix(None, "In")),
        ("title:*", Exists("title")),
        ("title:(inform* OR grid)", Or((Prefix("title", "inform"), word("grid", "title")))),
        ("ß*", Prefix(None, "ß")),  # two characters after folding
        ("-title:*", Not(Exists("title"))),
        ("a\\**", None),
    ],
)
def test_a_star_after_a_word_is_a_prefix_and_alone_after_a_field_is_presence(text, tree):
    if tree is None:
        refusal(text)
    else:
        assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a*", "2 characters"), ("é*", "2 characters"), ("title:x*", "2 characters"), ("*", "field"), ("**", "end"),
        ("*ing", "end"), ("in*ing", "end"), ("peer-gr*", "one word"), ("!!*", None),
        ('author = "x" OR f = ab*', "prefix"),
    ],
)  # fmt: skip
def test_a_prefix_is_the_start_of_one_word_with_at_least_two_characters(text, says):
    error = refusal(text)
    assert says is None or says in error.reason


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("year:[2004 TO 2010]", Range("year", Y2004, Y2010)),
        ("year:{2004 TO 2010}", Range("year", open_end(Y2004), open_end(Y2010))),
        ("year:[2004 TO 2010}", Range("year", Y2004, open_end(Y2010))),
        ("year:{2004 TO 2010]", Range("year", open_end(Y2004), Y2010)),
        ("year:{2004 TO *}", Range("year", open_end(Y2004), None)),
        ("year:[* TO 2010]", Range("year", None, Y2010)),
        ("year >= 2004", Range("year", Y2004, None)),
        ("year > 2004", Range("year", open_end(Y2004), None)),
        ("year <= 2010", Range("year", None, Y2010)),
        ("year<2010", Range("year", None, open_end(Y2010))),
        ("year:>=2004", Range("year", Y2004, None)),
        (
            "x:[-1.5 TO 1e3]",
            Range("x", Bound("-1.5", -1.5, -1.5, False, True), Bound("1e3", 1000.0, 1000.0, False, True)),
        ),
    ],
)
def test_ranges_are_inclusive_or_exclusive_mixed_or_open(text, tree):
    assert parse(text) == tree


def test_the_bounds_of_a_range_may_be_dates_and_a_day_means_the_whole_day():
    found = parse("time:[2004-05-31 TO 2004-06-01}")
    assert found == Range("time", day_bound(date(2004, 5, 31), True), day_bound(date(2004, 6, 1), False))
    noon, ten = parse('time >= "2004-05-31T12:00:00+02:00"'), parse("time >= 2004-05-31T10:00:00Z")
    bounds = [found.low for found in (noon, ten) if isinstance(found, Range)]
    assert len({bound.first for bound in bounds if bound}) == 1


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("year:[2010 TO 2004]", 5, "reversed"),
        ("year:{2010 TO 2004}", 5, "reversed"),
        ("time:[2004-06-01 TO 2004-05-31]", 5, "reversed"),
        ("year:[b TO a]", 6, "neither a number nor a date"),
        ("year:[2004 TO 2004-05-31]", 5, "date"),
        ("year:[2004 2010]", 11, "TO"),
        ("year:[2004 to 2010]", 11, "TO"),
        ("year:[2004 TO 2010", 18, "close"),
        ("year:[2004 TO", None, None),
        ("[2004 TO 2010]", 0, "field"),
        ("year >= recent", 8, "neither a number nor a date"),
        ('year >= "2004"', 8, None),
        ("year >= 1e999", 8, "too large"),
        ("year >=", 7, "number or a date"),
        ("year => 2004", 5, "comparison"),
        ("year == 2004", 5, "comparison"),
        ("year <> 2004", 5, "comparison"),
        ("year != 2004", 5, "NOT"),
        ("year!=2004", 4, "NOT"),
        (">= 2004", 0, "field"),
    ],
)
def test_a_range_that_cannot_be_meant_is_refused(text, position, says):
    error = refusal(text)
    assert position in (None, error.position)
    assert says is None or says in error.reason


@pytest.mark.row("D1")
def test_similarity_names_a_field_a_text_and_a_threshold():
    assert parse('abstract ~ "some text" >= 0.4') == Similar("abstract", "some text", 0.4)
    assert parse('abstract~"some text">=1 a') == And((Similar("abstract", "some text", 1.0), A))
    assert parse('abstract ~ "a" >= 1e-13') == Similar("abstract", "a", 0.0)  # cosines have twelve decimals


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('abstract ~ "some text"', "threshold"), ('abstract ~ "some text" > 0.4', "threshold"),
        ("abstract ~ text >= 0.4", "quoted"), ('abstract ~ "t" >= 1.5', "1"), ('abstract ~ "t" >= -0.1', "0"),
        ('abstract ~ "t" >= x', "number"), ('~ "t" >= 0.4', "field"), ('abstract ~ "!!!" >= 0.4', "no word"),
    ],
)  # fmt: skip
def test_the_threshold_of_a_similarity_is_required_and_in_0_to_1(text, says):
    assert says in refusal(text).reason


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("author:IN:(networks AND author:Bob)", In("author", "author", And((word("networks"), word("Bob", "author"))))),
        ("author:IN:editor(a)", In("author", "editor", A)),
        ("citation:IN:(a)", In("citation", "id", A)),
        ("citation:IN:citation(a)", In("citation", "citation", A)),
        ("title:(a author:IN:(b))", And((word("a", "title"), In("author", "author", B)))),
        ("a:IN:(b:IN:(c:IN:d(x)))", In("a", "a", In("b", "b", In("c", "d", word("x"))))),
        ("NOT author:IN:(a)", Not(In("author", "author", A))),
    ],
)
def test_nested_queries_take_values_of_the_same_field_another_field_or_for_citations_the_id(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    "text", ["author:IN:", "author:IN:()", "author:IN:a b", "author:IN:(a", "author:IN:1x(a)", "IN:(a)x:"]
)
def test_a_nested_query_needs_its_parentheses(text):
    refusal(text)


# --- terms without words ---------------------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=8).filter(lambda text: '"' not in text and "\\" not in text))
def test_a_term_that_analyses_to_none_is_an_error_and_any_other_is_found_as_it_is_written(text):
    if runs(text):
        assert parse(f'"{text}"') == phrase(text)
    else:
        assert refusal(f'"{text}"').position == 0


@pytest.mark.parametrize("text", ["!!!", "…", '"!!!"', '""', "title:…", 'title:"—"', 'author = "..."', "a OR …", "' '"])
def test_a_query_of_only_punctuation_is_refused(text):
    refusal(text)


@pytest.mark.row("S2")
def test_a_term_is_an_error_only_if_it_is_empty_under_every_analysis_it_is_read_with():
    english, keyword = Analysis({"title": ENGLISH}), Analysis({"title": KEYWORD})
    assert "drops" in refusal("title:the", english).reason
    assert parse("the", english) == word("the")
    assert parse("abstract:the", english) == word("the", "abstract")
    assert parse('title:"the cat"', english) == phrase("the cat", "title")
    refusal('title = "the"', english)
    refusal('title ~ "the of" >= 0.4', english)
    refusal("title:(the NEAR/5 cat)", english)
    assert parse('title:"!!!"', keyword) == phrase("!!!", "title")
    assert parse('"!!!"', keyword) == phrase("!!!")


# --- what other languages have ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "position", "ours"),
    [
        ("+peer", 0, "AND"),
        ("+(a b)", 0, "AND"),
        ("title:+peer", 6, "AND"),
        ("peer^2", 4, "cosine"),
        ('"a b"^2', 5, "cosine"),
        ("(a b)^2", 5, "cosine"),
        ("title:peer^2", 10, "cosine"),
        ("peer~2", 4, "inform*"),
        ("peer~", 4, "inform*"),
        ("peer~0.8", 4, "inform*"),
        ("title:peer~2", 10, "inform*"),
        ("title:(peer~2)", 11, "inform*"),
        ('"a b"~2', 5, "NEAR/n"),
        ('title:"a b"~2', 11, "NEAR/n"),
        ("te?t", 2, "inform*"),
        ("\\??", 2, "inform*"),
        ("/re/", 0, "inform*"),
        ("title:/re/", 6, "inform*"),
        ("a && b", 2, "AND"),
        ("a&&b", 1, "AND"),
        ("a || b", 2, "OR"),
    ],
)
def test_lucenes_other_forms_are_refused_naming_ours(text, position, ours):
    error = refusal(text)
    assert error.position == position
    assert ours in error.reason


# --- bad input, each with its own message ----------------------------------------------------------------------------

BAD = {
    "": (0, "empty"),
    "   ": (3, "empty"),
    "-": (0, "lone"),
    "a -": (2, "lone"),
    "a - b": (2, "lone"),
    "(a !)": (3, "lone"),
    "(a": (0, "never closed"),
    "a (b (c)": (2, "never closed"),
    "a)": (1, "closes nothing"),
    "a]": (1, "closes nothing"),
    "()": (1, "empty"),
    "a AND ()": (7, "empty"),
    '"a': (0, "never closed"),
    'title:"a': (6, "never closed"),
    '"a\\"': (0, "never closed"),
    "a AND": (5, "expected"),
    "a OR": (4, "expected"),
    "NOT": (3, "expected"),
    "AND a": (0, "AND"),
    "a OR OR b": (5, "OR"),
    "a AND OR b": (6, "OR"),
    "(AND)": (1, "AND"),
    "title:": (6, "title:"),
    "title:)": (6, None),
    ":a": (0, "field name"),
    "title::a": (6, ":"),
    "dc:title:a": (8, ":"),
    "1st:a": (0, "field name"),
    "a_b/c:d": (0, "field name"),
    '"title":a': (0, "field name"),
    "AND:a": (0, "operator"),
    "title:-peer": (6, "-title:"),
    "title:AND": (6, "quote"),
    "a\\": (1, "backslash"),
    "\ud800": (0, "surrogate"),
    "peer \udfff": (5, "surrogate"),
}


@pytest.mark.parametrize(("text", "expected"), BAD.items(), ids=ascii)
def test_bad_input_is_refused_where_it_is_bad(text, expected):
    position, says = expected
    error = refusal(text)
    assert isinstance(error, QuerySyntaxError)
    assert error.position == position
    assert says is None or says in error.reason


def test_errors_show_the_position_with_a_caret_line_under_the_query():
    error = refusal("peer AND (grid")
    assert str(error).splitlines()[1:] == ["  peer AND (grid", "           ^"]
    assert f"position {error.position}" in str(error)


def test_the_caret_stands_in_its_own_line_of_a_query_of_several():
    lines = str(refusal("peer\n  AND ]grid\nOR x")).splitlines()
    assert lines[1:] == ["    AND ]grid", "        ^"]


@given(st.text(max_size=300), st.integers(0, 300))
def test_the_caret_is_under_the_character_it_means_however_long_the_query(text, position):
    error = QueryError("wrong", text, position)
    line, caret = error.caret().split("\n")
    assert len(line) <= 130
    assert caret.strip() == "^"
    at = caret.index("^")
    if error.position < len(text) and text[error.position].isprintable():
        assert line[at] == text[error.position]
    assert error.caret().isprintable() or all(c.isprintable() or c == "\n" for c in error.caret())


@pytest.mark.parametrize(
    "text", ["x" * 10_000 + "/:a", '"' + "…" * 10_000 + '"', "year >= " + "x" * 10_000, "NEAR/" + "x" * 9_000]
)
def test_a_message_stays_short_however_long_the_query(text):
    assert len(str(refusal(text))) < 1_000


# --- limits ----------------------------------------------------------------------------------------------------------


def test_the_limits_are_those_of_the_contract():
    limits = QueryLimits()
    assert (limits.query_characters_max, limits.query_nesting_max, limits.query_atoms_max) == (20_000, 64, 4_096)


def test_a_query_may_have_20_000_characters_and_no_more():
    parse("a" * 20_000)
    error = refusal("a" * 20_001)
    assert isinstance(error, QueryTooLong)
    assert "20,000" in error.reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(", ")"),
        ("NOT ", ""),
        ("-", ""),
        ("!", ""),
        ("title:(", ")"),
        ("f:IN:(", ")"),
        ("f:IN:g(", ")"),
        ("-f:IN:(", ")"),
    ],
)
def test_a_query_may_be_nested_64_deep_and_no_more(before, after):
    each = 2 if before == "-f:IN:(" else 1
    parse(before * (64 // each) + "a" + after * (64 // each))
    error = refusal(before * (64 // each + 1) + "a" + after * (64 // each + 1))
    assert isinstance(error, QueryTooDeep)
    assert "64" in error.reason


def test_nesting_side_by_side_does_not_add_up():
    parse("(a) " * 200 + "NOT b " * 200)


def test_a_query_may_have_4_096_atoms_and_no_more():
    parse("a " * 4_096)
    error = refusal("a " * 4_097)
    assert isinstance(error, QueryTooManyAtoms)
    assert "4,096" in error.reason
    assert error.position == 2 * 4_096


@pytest.mark.parametrize(
    ("text", "atoms"),
    [
        ("a", 1), ("a b", 2), ('"a b c"', 1), ("a NEAR/5 b", 2), ("a NEAR[0,1] b NEAR[0,1] c", 3), ("title:*", 1),
        ("in*", 1), ("year:[1 TO 2]", 1), ("year > 1", 1), ("f = x", 1), ('f ~ "a b" >= 0.1', 1), ("f:IN:(a)", 2),
        ("NOT (a OR b)", 2),
    ],
)  # fmt: skip
def test_every_atom_counts_once_and_each_operand_of_near(text, atoms):
    parse(text, limits=QueryLimits(query_atoms_max=atoms))
    assert isinstance(refusal(text, query_atoms_max=atoms - 1), QueryTooManyAtoms)


def test_each_limit_is_a_setting():
    assert isinstance(refusal("abc", query_characters_max=2), QueryTooLong)
    assert isinstance(refusal("((a))", query_nesting_max=1), QueryTooDeep)
    parse("(" * 80 + "a" + ")" * 80, limits=QueryLimits(query_nesting_max=80))


@pytest.mark.parametrize(("before", "after"), [("(", ")"), ("title:(", ")"), ("f:IN:(", ")"), ("NOT ", ""), ("-", "")])
def test_a_generous_nesting_limit_ends_in_our_error_not_in_the_end_of_the_stack(before, after):
    limits = QueryLimits(query_nesting_max=100_000, query_characters_max=2_000_000)
    with pytest.raises(QueryTooDeep):
        parse(before * 100_000 + "a" + after * 100_000, limits=limits)


@pytest.mark.parametrize(
    "unit", ["(", "NOT ", "-", "!", "title:(", "f:IN:(", "a AND (", "(a OR ", '"', "[", "a NEAR/5 "]
)
def test_100_000_of_anything_are_refused(unit):
    assert isinstance(refusal(unit * 100_000), QueryTooLong)
    refusal(unit * 100_000, query_characters_max=10**7)


# --- work ------------------------------------------------------------------------------------------------------------

FAMILIES: dict[str, Callable[[int], str]] = {
    "words": lambda n: "a " * n,
    "one long word": lambda n: "a" * n,
    "spaces": lambda n: "a" + " " * n + "b",
    "groups": lambda n: "(a) " * n,
    "ands": lambda n: " AND ".join(["a"] * n),
    "negations": lambda n: "-a " * n,
    "unclosed quotation": lambda n: 'a "' + "b" * n,
    "escapes": lambda n: "\\a" * n,
    "trailing escapes": lambda n: '"' + "\\a" * n,
    "phrases": lambda n: '"a b" ' * n,
    "chains": lambda n: " NEAR/5 ".join(["a"] * n),
    "ranges": lambda n: "y:[1 TO 2] " * n,
    "fields": lambda n: "f:a " * n,
    "minus signs": lambda n: "-" * n,
    "minus signs before a word": lambda n: "-" * 60 + "-a" * n,
    "operators": lambda n: "AND " * n,
    "stars": lambda n: "a" + "*" * n,
    "punctuation": lambda n: "." * n,
}


class _CountingPattern:
    """A compiled pattern that adds up how many characters it looked at."""

    def __init__(self, pattern, seen):
        self.pattern, self.seen = pattern, seen

    def _look(self, method, text, start=0):
        found = getattr(self.pattern, method)(text, start)
        self.seen[0] += found.end() - found.start() + 1 if found else self._before_failing(text, start)
        return found

    def _before_failing(self, text, start):
        """A quotation is looked for to the end of the text, white space to its end, anything else at one character."""
        if self.pattern.pattern.startswith('"') and text[start : start + 1] == '"':
            return len(text) - start
        if self.pattern.pattern.startswith(r"\s"):
            return len(text) - start - len(text[start:].lstrip()) + 1
        return 1

    def match(self, text, start=0):
        return self._look("match", text, start)

    def fullmatch(self, text):
        return self._look("fullmatch", text)

    def search(self, text):
        self.seen[0] += len(text)
        return self.pattern.search(text)

    def sub(self, by, text):
        self.seen[0] += len(text)
        return self.pattern.sub(by, text)


@pytest.mark.parametrize("family", FAMILIES)
def test_twice_the_query_takes_twice_the_work(family, monkeypatch):
    """Issue 2: no input may take more than linear work. Calls and characters looked at are counted, not seconds."""
    module = sys.modules[parse.__module__]
    seen = [0]
    for name, value in list(vars(module).items()):
        if isinstance(value, re.Pattern):
            monkeypatch.setattr(module, name, _CountingPattern(value, seen))
    limits = QueryLimits(query_characters_max=10**6, query_atoms_max=10**6)

    def run(n):
        with suppress(QueryError):
            parse(FAMILIES[family](n), limits=limits)

    def work(n):
        seen[0] = 0
        return steps(lambda: run(n)) + seen[0]

    small, large = work(2_000), work(4_000)
    assert large <= 2.2 * small + 1_000


# --- subscriptions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("NOT author:IN:(a)", 4),
        ("-author:IN:(a)", 1),
        ("a AND NOT (b OR author:IN:(c))", 16),
        ("f:IN:(NOT g:IN:(a))", 10),
        ("NOT NOT author:IN:(a)", 8),
        ("INDIA AND NOT author:IN:(a)", 14),
        ("author:IN:(a) AND NOT author:IN:(b)", 22),
    ],
)
def test_a_nested_query_under_not_is_refused_in_a_subscription_and_named_where_it_is(text, position):
    parse(text)
    with pytest.raises(NestedUnderNot) as caught:
        parse_subscription(text)
    assert caught.value.position in (position, text.find("IN:", position))


@pytest.mark.parametrize("text", ["author:IN:(a)", "author:IN:(NOT a)", "NOT a AND f:IN:(b)", "NOT a", "year > 5"])
def test_any_other_query_may_stand_as_a_subscription(text):
    assert parse_subscription(text) == parse(text)


def test_a_subscription_that_would_cost_too_much_is_refused():
    text = "aa* " * 4_000
    parse(text)
    with pytest.raises(QueryTooCostly, match="checks per document"):
        parse_subscription(text)
    with pytest.raises(QueryTooCostly):
        parse_subscription("a b c", limits=QueryLimits(query_cost_max=2))


def test_a_forgotten_colon_after_in_is_named():
    with pytest.raises(QueryError, match=r"author:IN:\(") as refused:
        parse("author:IN(Bob)")
    assert refused.value.position == len("author:IN")
    assert parse("author:IN (Bob)") == parse("author:IN AND Bob")
