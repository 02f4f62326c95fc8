"""SmartSeer §II, §III-B and §VI: what its continuous queries can say, one test per sentence."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tocsin.errors import NestedUnderNot
from tocsin.model import Document
from tocsin.query import Knowledge, Statistics, holds, parse, parse_subscription, score
from tocsin.query.ast import Query
from tocsin.query.normal import Key, anchors, clauses, is_supportable
from tocsin.text import ENGLISH, Analysis


def paper(identity: str = "p", **fields: Any) -> Document:
    return Document(identity, {name: tuple(v) if isinstance(v, list) else (v,) for name, v in fields.items()})


def matches(text: str, **fields: Any) -> bool:
    return holds(parse(text), paper("p", **fields), Knowledge())


def waits_at(text: str) -> set[str] | None:
    """The words that the query is registered at, with their fields."""
    found = anchors(parse(text), Analysis())
    return None if found is None else {str(key) for key in found}


# --- §II Background, §III-B DHT-based design -------------------------------------------------------------------------


@pytest.mark.row("S2")
def test_users_submit_a_set_of_search_terms():
    """§II: "Keyword queries, where users submit a set of search terms, are the simplest form of queries"."""
    assert matches("continuous queries", title="Continuous Queries", abstract="on DHTs")
    assert matches("continuous queries", title="queries", abstract="continuous")
    assert not matches("continuous queries", title="queries")


@pytest.mark.row("S2")
def test_users_can_optionally_specify_a_context_such_as_title_or_author():
    """§II: "(TITLE:smartseer) specifies the keyword “smartseer” appearing in the title of the document"."""
    assert matches("(title:smartseer)", title="SmartSeer")
    assert not matches("(title:smartseer)", abstract="SmartSeer")
    assert matches("author:kannan citation:p7 year:2005", author=["J. Kannan"], citation=["p7"], year=2005)
    assert matches("smartseer", body="full text of smartseer")


@pytest.mark.row("S2")
def test_queries_are_conjunctions_or_disjunctions_of_such_terms():
    """§II: "Queries are boolean conjunctions or disjunctions of such terms"."""
    assert matches("title:a AND author:b", title="a", author="b")
    assert not matches("title:a AND author:b", title="a")
    assert matches("title:a OR author:b", title="a")


def test_the_score_of_a_result_is_the_cosine_metric():
    """§II: "we use the standard cosine similarity metric"; "provides the relevance score of individual results"."""
    made = [paper("1", title="peer peer grid"), paper("2", title="peer"), paper("3", title="grid")]
    statistics = Statistics.of(made, Analysis())
    scores = [score(parse("peer"), one, Analysis(), statistics) for one in made]
    assert scores[1] == 1 > scores[0] > scores[2] == 0


@pytest.mark.row("S2")
def test_tokens_become_terms_via_stop_words_and_stems_on_both_sides():
    """§III-B: a document "is parsed into tokens, which are then transformed into terms via stop-word filtering and
    stemming"; the query goes through the same."""
    analysis = Analysis({"title": ENGLISH})
    one = paper(title="The Indexing of Queries")
    forms = ["index", "indexes", "INDEXED", "indexing"]
    for asked, written in itertools.product(forms, forms):
        document = paper(title=f"the {written}")
        assert holds(parse(f"title:{asked}", analysis), document, Knowledge(analysis))
    assert holds(parse('title:"indexes in the query"', analysis), one, Knowledge(analysis)) is False
    assert holds(parse('title:"indexes in query"', analysis), one, Knowledge(analysis))


@pytest.mark.row("S11")
def test_a_conjunctive_query_is_registered_at_one_of_its_terms_the_most_selective():
    """§III-B, Query Insertion: "We choose ts as the most selective term in the query"."""
    frequency = {"common": 1000, "rare": 2, "usual": 50}
    found = anchors(parse("common rare usual"), Analysis(), lambda key: frequency[key.word])
    assert found == frozenset({Key("", "standard", "rare")})


# --- §VI-A Boolean queries -------------------------------------------------------------------------------------------


@pytest.mark.row("S11")
def test_a_query_is_registered_only_on_its_non_negated_predicates():
    """§VI-A: "SmartSeer always registers such a query on its nonnegated predicates"."""
    assert waits_at("!author:s AND title:t") == {"title:t"}
    assert waits_at("title:t AND NOT (author:s OR author:r)") == {"title:t"}
    assert waits_at("NOT (NOT title:t OR author:s)") == {"title:t"}


@pytest.mark.row("S11")
def test_negated_predicates_are_matched_when_query_and_document_are_joined():
    """§VI-A: "Q is matched only if the document satisfies the negated predicate !S as well"."""
    assert matches("(!s) AND (t)", title="t u")
    assert not matches("(!s) AND (t)", title="s t")
    assert matches("!author:s AND t", title="t")  # the document has no author


@pytest.mark.row("S11")
def test_a_range_rides_on_an_equality_predicate():
    """§VI-A: "SmartSeer will simply register the query on a non-negated equality predicate"."""
    assert waits_at("title:t AND year:[2000 TO 2004]") == {"title:t"}
    assert matches("title:t AND year:[2000 TO 2004]", title="t", year=2004)
    assert not matches("title:t AND year:[2000 TO 2004]", title="t", year=2005)


@pytest.mark.row("S12")
def test_or_queries_are_registered_on_every_term():
    """§VI-A: "OR queries are registered on every term, rather than the least selective (or any single term)"."""
    assert waits_at("t1 OR title:t2 OR t3") == {"t1", "title:t2", "t3"}


@pytest.mark.row("S12")
def test_an_or_can_be_rewritten_so_that_a_document_matches_at_most_one_part():
    """§VI-A: Qi = (!T1) AND … AND (!Ti−1) AND Ti; "a new document cannot match more than one"."""
    found = clauses(parse("t1 OR t2 OR t3 OR t4"))
    assert found is not None
    assert [len(clause.positive) for clause in found] == [1, 1, 1, 1]
    assert [len(clause.negative) for clause in found] == [0, 1, 2, 3]
    words = ["t1", "t2", "t3", "t4"]
    for size in range(5):
        for subset in itertools.combinations(words, size):
            true = [c for c in found if holds(c.query(), paper(title=" ".join(subset)), Knowledge())]
            assert len(true) == min(1, size)


@pytest.mark.row("S13")
def test_any_boolean_query_is_an_or_of_and_clauses_and_a_hit_of_one_is_a_hit_of_the_query():
    """§VI-A: "Q is written as Q1 OR Q2 ··· OR Qk, and each clause Qi is an AND query"."""
    chance = random.Random(5)

    def grow(depth: int) -> str:
        if depth == 0:
            return chance.choice(["a", "b", "c", "year > 5", "title:d"])
        kind = chance.choice(["AND", "OR", "NOT"])
        return f"(NOT {grow(depth - 1)})" if kind == "NOT" else f"({grow(depth - 1)} {kind} {grow(depth - 1)})"

    made = [
        paper(title=" ".join(subset), year=year)
        for size in range(5)
        for subset in itertools.combinations("abcd", size)
        for year in (5, 6)
    ]
    for _ in range(150):
        query = parse(grow(3))
        found = clauses(query)
        assert found is not None
        for one in made:
            true = [clause for clause in found if holds(clause.query(), one, Knowledge())]
            assert len(true) == holds(query, one, Knowledge())  # and the owner is told once


# --- §VI-B Nested queries --------------------------------------------------------------------------------------------

PAPERS = [
    paper("x1", author=["Bob", "AuthorX", "AuthorY"], body="networks", year=2003),
    paper("x2", author=["Bob", "AuthorZ"], body="networks", year=2004),
    paper("x3", author=["AuthorZ"], body="databases", year=2004, citation=["x1"]),
    paper("x4", author=["Carol"], body="networks", year=2004, citation=["x3"]),
    paper("x5", author=["AuthorY"], body="compilers", year=2003, citation=["x4"]),
]


def found(text: str, made: list[Document] | None = None) -> set[str]:
    made = PAPERS if made is None else made
    knowledge = Knowledge(documents=made)
    return {one.id for one in made if holds(parse(text), one, knowledge)}


def test_track_citations_to_my_papers():
    """§VI-B: CITATION:IN:(AUTHOR:author name) equals the OR over the ids of all the user's papers."""
    assert found("citation:IN:(author:Bob)") == found("citation:x1 OR citation:x2") == {"x3"}


def test_keep_track_of_papers_by_co_authors():
    """§VI-B: AUTHOR:IN:(AUTHOR:John): "people who are in the set of authors found in all papers written by John"."""
    assert found("author:IN:(author:Bob)") == {"x1", "x2", "x3", "x5"}


def test_a_nested_query_equals_its_translated_version():
    """§VI-B1: (YEAR:2004 AND AUTHOR:(networks AND AUTHOR:Bob)) and the OR of the authors of its matches."""
    nested = "year:2004 AND author:IN:(networks AND author:Bob)"
    translated = "year:2004 AND (author:Bob OR author:AuthorX OR author:AuthorY OR author:AuthorZ)"
    assert found(nested) == found(translated) == {"x2", "x3"}


def test_a_new_paper_with_bob_makes_all_of_carols_papers_match():
    """§VI-B2: "Carol now satisfies the original subquery, and suddenly all of Carol's documents from 2004" match."""
    query = "year:2004 AND author:IN:(networks AND author:Bob)"
    later = [*PAPERS, paper("x6", author=["Bob", "Carol"], body="networks", year=2005)]
    assert found(query, later) - found(query) == {"x4"}


def test_higher_order_constraints_nest_to_several_levels():
    """§VI-B: "papers cited by papers that cite paper XXX"."""
    assert found("id:IN:citation(citation:x3)") == {"x3"}
    assert found("citation:IN:(citation:IN:(citation:x1))") == {"x5"}


@pytest.mark.parametrize("text", ["NOT author:IN:(author:Bob)", "a -citation:IN:(b)", "author:IN:(NOT author:IN:(b))"])
def test_negated_subqueries_are_not_allowed_in_continuous_queries(text):
    """§VI-B2: "SmartSeer does not allow negated subqueries in a continuous query"."""
    parse(text)  # as a one-time query it has an answer
    with pytest.raises(NestedUnderNot, match="NOT"):
        parse_subscription(text)


# --- §VI-C Limitations -----------------------------------------------------------------------------------------------

MARKED = [
    "t",
    "title:t",
    "author = a",
    "t AND !s",
    "t AND year > 4",
    "t OR s",
    "(t OR !s) AND u",
    "(t AND !s) OR (u AND year > 4)",
]
UNMARKED = [
    "!t",
    "!t AND !s",
    "year > 4",
    "t OR !s",
    "t OR year > 4",
    "!t AND year > 4",
    "(t OR !s) AND (u OR year > 4)",
]


@pytest.mark.row("S14")
@pytest.mark.parametrize("text", MARKED)
def test_a_marked_root_can_be_supported(text):
    """§VI-C: mark non-negated equalities; AND: at least one child is marked; OR: all children are."""
    assert is_supportable(parse(text))
    assert waits_at(text)


@pytest.mark.row("S14")
@pytest.mark.parametrize("text", UNMARKED)
def test_an_unmarked_root_sees_every_document(text):
    """§VI-C: "store these queries on a dedicated set of machines [that] will receive all new documents"."""
    query: Query = parse_subscription(text)  # accepted all the same
    assert not is_supportable(query)
    assert waits_at(text) is None
    assert any(holds(query, one, Knowledge()) for one in (paper(), paper(year=5)))  # no word brings these documents
