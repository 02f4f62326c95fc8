"""Normal forms: clauses (S12, S13), where a query can wait (S11, S14), and what it costs."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.strategies import documents, joined, meanings, number_bound
from tests.steps import steps
from tocsin.model import Document
from tocsin.query.ast import And, Not, Or, Query, Range, Words, children
from tocsin.query.normal import NUMBERS, Clause, Key, anchors, clauses, cost, inward, is_supportable
from tocsin.query.parse import parse
from tocsin.query.score import Statistics
from tocsin.query.semantics import Knowledge, holds
from tocsin.text import ENGLISH, KEYWORD, Analysis, words

ANALYSES = [
    Analysis(),
    Analysis({"title": ENGLISH}),
    Analysis({"title": KEYWORD}),
    Analysis({"title": ENGLISH, "author": KEYWORD}),
]
STATISTICS = Statistics(10, {"peer": 3, "grid": 1})

A, B, C = (Words(None, letter) for letter in "abc")


def deep(levels: int) -> Query:
    """((((a OR b) AND a) OR b) AND a) …: few atoms, many levels; the deep part first."""
    query: Query = A
    for level in range(levels):
        query = And((query, A)) if level % 2 else Or((query, B))
    return query


# --- NOT only before atoms -------------------------------------------------------------------------------------------


@given(meanings(), documents())
def test_moving_not_inward_keeps_the_meaning_and_leaves_not_only_before_atoms(query, one):
    knowledge = Knowledge(statistics=STATISTICS, documents=[one])
    moved = inward(query)
    assert holds(moved, one, knowledge) == holds(query, one, knowledge)
    assert holds(inward(query, positive=False), one, knowledge) != holds(query, one, knowledge)

    def check(part: Query) -> None:
        if isinstance(part, Not):
            assert not isinstance(part.part, And | Or | Not)
        for inner in children(part):
            check(inner)

    check(moved)


# --- clauses ---------------------------------------------------------------------------------------------------------


def some_clauses(text: str, most: int = 64) -> tuple[Clause, ...]:
    found = clauses(parse(text), most)
    assert found is not None
    return found


def exactly_one(query: Query, found: tuple[Clause, ...], one: Document, knowledge: Knowledge) -> None:
    """The union of the clauses is the query, and no two hold together."""
    true = [clause for clause in found if holds(clause.query(), one, knowledge)]
    assert len(true) == int(holds(query, one, knowledge))


@pytest.mark.row("S13")
@settings(max_examples=150)
@given(meanings(most=8), st.lists(documents(), min_size=1, max_size=6))
def test_a_query_holds_exactly_where_one_of_its_clauses_does(query, corpus):
    found = clauses(query)
    if found is not None:
        knowledge = Knowledge(statistics=STATISTICS, documents=corpus)
        for one in corpus:
            exactly_one(query, found, one, knowledge)


LETTERS = [Words(None, letter) for letter in "abcd"]
SUBSETS = [
    Document("d", {"title": (" ".join(subset),)})
    for size in range(5)
    for subset in itertools.combinations("abcd", size)
]


@pytest.mark.row("S12", "S13")
@settings(max_examples=150)
@given(joined(st.sampled_from(LETTERS), most=16))
def test_over_all_documents_of_four_words_clauses_are_disjoint_and_together_the_query(query):
    found = clauses(query)
    assert found is not None
    assert len(found) <= 2**4  # clauses over the same atoms are disjoint, so there are no more than documents
    for one in SUBSETS:
        exactly_one(query, found, one, Knowledge())


@pytest.mark.row("S12")
def test_an_or_becomes_its_first_part_then_each_next_where_no_earlier_holds():
    """SmartSeer §VI-A: Qi = ¬T1 ∧ … ∧ ¬Ti−1 ∧ Ti, each with one positive term."""
    found = some_clauses("a OR b OR c")
    assert [(clause.positive, clause.negative) for clause in found] == [((A,), ()), ((B,), (A,)), ((C,), (A, B))]


@pytest.mark.row("S13")
@pytest.mark.parametrize(
    ("text", "count"),
    [("a", 1), ("a b", 1), ("NOT a", 1), ("a OR b", 2), ("(a OR b) (c OR d)", 4), ("a -a", 0), ("a OR NOT a", 2),
     ("NOT (a OR b)", 1), ("NOT (a b)", 2), ("(a b) OR (c d)", 3), ("a AND (a OR b)", None)],
)  # fmt: skip
def test_how_many_clauses_a_query_has(text, count):
    found = some_clauses(text)
    assert count is None or len(found) == count
    for one in SUBSETS:
        exactly_one(parse(text), found, one, Knowledge())


@pytest.mark.row("S13")
def test_clauses_are_capped_and_beyond_the_cap_the_query_is_kept_whole():
    """The trap: 2^n clauses of n conjuncts."""
    ors = [f"(a{n} OR b{n})" for n in range(12)]
    assert len(some_clauses(" ".join(ors[:6]))) == 64
    assert clauses(parse(" ".join(ors[:7]))) is None
    assert clauses(parse(" ".join(ors))) is None
    assert clauses(parse("a OR b OR c"), most=2) is None
    assert len(some_clauses("a OR b OR c", most=3)) == 3


@pytest.mark.row("S13")
@given(meanings(), st.integers(1, 8))
def test_there_are_never_more_clauses_than_the_cap(query, most):
    found = clauses(query, most)
    assert found is None or len(found) <= most


WIDE = {
    "ands of ors": " ".join(f"(a{n} OR b{n})" for n in range(700)),
    "ors of ands": " OR ".join(f"(a{n} b{n})" for n in range(700)),
    "a long and": " ".join(f"a{n}" for n in range(2_000)),
    "a long or": " OR ".join(f"a{n}" for n in range(2_000)),
    "contradictions": " ".join(f"(a{n} OR b{n}) -a{n} -b{n}" for n in range(300)),
    "the same again": " ".join("(a OR b) (-a OR -b)" for _ in range(300)),
}


@pytest.mark.row("S13")
@pytest.mark.parametrize("text", WIDE.values(), ids=WIDE)
def test_no_wide_query_makes_the_clauses_blow_up(text):
    assert steps(lambda: clauses(parse(text)), budget=5_000_000) > 0


@pytest.mark.row("S13")
@pytest.mark.parametrize("levels", [8, 16, 32, 64, 120])
def test_no_deep_query_makes_the_clauses_blow_up(levels):
    """Parts that contradict each other keep the clauses few, so the cap alone does not bound the work."""
    query = deep(levels)
    assert steps(lambda: clauses(query), budget=3_000_000) > 0


# --- where a query can wait ------------------------------------------------------------------------------------------


def holds_key(one: Document, key: Key, analysis: Analysis) -> bool:
    """Does the document hold the word, under this analysis, in this field ("": in some field of that analysis)?"""
    names = [key.field] if key.field else [name for name in one.fields if analysis.of(name) == key.analysis]
    values = [value for name in names for value in one.fields.get(name, ())]
    if key.analysis == NUMBERS:
        return any(not isinstance(value, str) and float(value) == float(key.word) for value in values)
    return any(isinstance(value, str) and key.word in words(value, key.analysis) for value in values)


@pytest.mark.row("S11", "S14")
@settings(max_examples=150)
@given(meanings(nested=False), st.lists(documents(), min_size=1, max_size=8), st.sampled_from(ANALYSES))
def test_every_matching_document_holds_an_anchor(query, corpus, analysis):
    found = anchors(query, analysis)
    assert (found is not None) == is_supportable(query)
    if found is not None:
        knowledge = Knowledge(analysis, STATISTICS)
        for one in corpus:
            if holds(query, one, knowledge):
                assert any(holds_key(one, key, analysis) for key in found)


@pytest.mark.row("S11", "S14")
@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: str(dict(analysis.fields)))
def test_atoms_wait_at_words_that_every_match_holds_in_many_documents(analysis):
    """Volume for the property above: seeded, every positive atom against texts made of its own words."""
    seeded = random.Random(3)
    vocabulary = ["peer", "peers", "grid", "the", "of", "2004", "John", "Smith"]
    atoms = ["peer", "title:peers", '"peer grid"', '"the peer"', "title:(peer NEAR[0,2] grid)", "peers NEAR/1 grid",
             "title = peer", 'title = "peer grid"', "year:2004", "year = 2004", 'title ~ "peer grid" >= 0.3', "2004",
             'author = "John Smith"', 'author:"john smith"', '"John Smith"', "the"]  # fmt: skip
    knowledge = Knowledge(analysis, STATISTICS)
    met = 0
    for _ in range(400):
        fields: dict[str, tuple[Any, ...]] = {
            name: tuple(
                " ".join(seeded.choices(vocabulary, k=seeded.randint(1, 3))) for _ in range(seeded.randint(1, 2))
            )
            for name in seeded.sample(["title", "author", "note"], seeded.randint(1, 3))
        }
        fields["year"] = (seeded.choice([2003, 2004, 2004.0, "2004"]),)
        one = Document("d", fields)
        for text in atoms:
            query = parse(text, analysis)
            if holds(query, one, knowledge):
                met += 1
                found = anchors(query, analysis)
                assert found
                assert any(holds_key(one, key, analysis) for key in found), text
    assert met > 500


def literals() -> list[Query]:
    """Two words, and two ranges that say nothing of each other; each plain and negated."""
    ranges = [Range(name, number_bound(5, True), None) for name in ("x", "y")]
    atoms: list[Query] = [A, B, *ranges]
    return [*atoms, *(Not(atom) for atom in atoms)]


def ranges_in(query: Query) -> list[str]:
    if isinstance(query, Range):
        return [query.field]
    return [name for part in children(query) for name in ranges_in(part)]


def small_trees() -> list[Query]:
    """All trees of AND, OR and NOT with up to four leaves in two levels, each range at most once."""
    leaves = literals()
    pairs: list[Query] = [join((one, two)) for join in (And, Or) for one, two in itertools.combinations(leaves, 2)]
    triples: list[Query] = [
        join((pair, leaf)) for join in (And, Or) for pair in pairs if not isinstance(pair, join) for leaf in leaves
    ]
    fours: list[Query] = [
        join(both)
        for join in (And, Or)
        for both in itertools.combinations([p for p in pairs if not isinstance(p, join)], 2)
    ]
    every = [*leaves, *pairs, *triples, *fours]
    every += [Not(tree) for tree in every]
    return [tree for tree in every if len(set(ranges_in(tree))) == len(ranges_in(tree))]


UNIVERSE = [
    Document("d", {**({"t": (text,)} if text else {}), "x": (x,), "y": (y,)})
    for text in ("", "a", "b", "a b")
    for x in (4, 6)
    for y in (4, 6)
]


@pytest.mark.row("S14")
def test_marked_exactly_if_some_set_of_words_meets_every_match():
    """SmartSeer §VI-C, by exhaustion. Words can be found in a document only if it has some: a query can wait at words
    if and only if no match is a document without the query's words."""
    knowledge = Knowledge()
    trees = small_trees()
    assert len(trees) > 1_500
    for tree in trees:
        met = [one for one in UNIVERSE if holds(tree, one, knowledge)]
        assert is_supportable(tree) == all("t" in one.fields for one in met), tree
        found = anchors(tree, Analysis())
        assert (found is not None) == is_supportable(tree)
        if found is not None:
            assert all(any(holds_key(one, key, Analysis()) for key in found) for one in met)


@pytest.mark.row("S14")
@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("peer", True), ("title:peer", True), ('"a b"', True), ("a NEAR/5 b", True), ("f = x", True),
        ("year = 5", True), ("year:5", True), ('f ~ "a" >= 0.1', True), ("f:IN:(NOT a)", True), ("NOT peer", False),
        ("year > 5", False), ("year:[1 TO 5]", False), ("title:*", False), ("ab*", False), ('f ~ "a" >= 0', False),
        ("NOT year > 5", False), ("-a -b", False), ("peer year > 5", True), ("peer -grid", True),
        ("peer OR year > 5", False), ("peer OR -grid", False), ("peer OR grid", True), ("(peer OR -grid) x", True),
        ("NOT (-peer OR year > 5)", True), ("NOT (peer OR grid)", False), ("NOT (-peer AND -grid)", True),
        ("NOT NOT peer", True),
    ],
)  # fmt: skip
def test_equalities_are_marked_and_by_any_child_and_or_by_all(text, marked):
    assert is_supportable(parse(text)) == marked


@pytest.mark.row("S11")
def test_a_query_waits_at_its_rarest_word_and_never_at_a_negated_one():
    """SmartSeer §III-B: the most selective term; §VI-A: on its non-negated predicates."""
    key = {letter: Key("", "standard", letter) for letter in "abc"}
    frequency = {key["a"]: 100, key["b"]: 3, key["c"]: 50}

    def often(one: Key) -> int:
        return frequency.get(one, 0)

    assert anchors(parse("a b c"), Analysis(), often) == frozenset({key["b"]})
    assert anchors(parse("a -b c"), Analysis(), often) == frozenset({key["c"]})
    assert anchors(parse('"a b c"'), Analysis(), often) == frozenset({key["b"]})
    assert anchors(parse("a OR b"), Analysis(), often) == frozenset({key["a"], key["b"]})
    assert anchors(parse("(a OR b) c"), Analysis(), often) == frozenset({key["c"]})
    assert anchors(parse("a year > 5"), Analysis(), often) == frozenset({key["a"]})
    assert anchors(parse("-a"), Analysis(), often) is None


def test_minus_zero_waits_where_zero_does():
    assert anchors(parse("n:-0"), Analysis()) == anchors(parse("n:0"), Analysis())


# --- cost ------------------------------------------------------------------------------------------------------------


@given(meanings())
def test_every_query_costs_something_and_a_part_never_more_than_the_whole(query):
    assert cost(query) >= 1
    if isinstance(query, And | Or) and is_supportable(query):
        assert all(cost(part) <= cost(query) for part in query.parts if is_supportable(part))


def test_a_query_that_sees_every_document_is_dearer():
    assert cost(parse("NOT a")) > cost(parse("a"))
    assert cost(parse("year > 5")) > cost(parse("a AND year > 5"))


def test_cost_counts_the_words_of_a_term_not_its_spaces():
    assert cost(parse("a-b-c-d")) == cost(parse('"a b c d"')) > cost(parse("a"))


def test_forms_that_look_at_more_cost_more():
    texts = ["b", "b NEAR/1 c", 't ~ "b" >= 0.5', "t:bb*"]
    prices = [cost(parse(f"a AND {text}")) for text in texts]
    assert prices == sorted(set(prices))
    assert cost(parse("a AND f:IN:(b)")) > cost(parse("a AND b"))
