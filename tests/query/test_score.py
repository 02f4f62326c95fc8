"""Contract, "Score": the cosine between document and query, with the formula written out again in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.strategies import corpora, meanings
from tocsin.model import Document
from tocsin.query.parse import parse
from tocsin.query.score import Statistics, score
from tocsin.text import ENGLISH, KEYWORD, Analysis

PLAIN = Analysis()
LETTERS = "abcdef"
TEXTS = st.lists(st.sampled_from(LETTERS[:5]), max_size=8).map(" ".join)


def reference(asked: set[str], text: str, corpus: list[str]) -> float:
    """cos(document, query): tf = 1 + ln f, idf = ln(1 + N/df), df 0 counts as 1, the query's tf is 1."""
    counts = np.array([[document.split().count(letter) for letter in LETTERS] for document in corpus])
    idf = np.log(1 + len(corpus) / np.maximum(1, (counts > 0).sum(axis=0)))
    f = np.array([text.split().count(letter) for letter in LETTERS])
    document = np.where(f > 0, 1 + np.log(np.maximum(f, 1)), 0) * idf
    query = np.array([letter in asked for letter in LETTERS]) * idf
    lengths = np.linalg.norm(document) * np.linalg.norm(query)
    return float(document @ query / lengths) if lengths else 0.0


def of(query: str, document: Document, corpus: list[Document] | None = None, analysis: Analysis = PLAIN) -> float:
    corpus = [document] if corpus is None else corpus
    return score(parse(query, analysis), document, analysis, Statistics.of(corpus, analysis))


@given(st.lists(TEXTS, min_size=1, max_size=6), st.sets(st.sampled_from(LETTERS), min_size=1))
def test_the_score_is_the_cosine_of_tf_idf_vectors(corpus, asked):
    made = [Document(str(n), {"title": (text,)}) for n, text in enumerate(corpus)]
    for text, document in zip(corpus, made, strict=True):
        found = of(" OR ".join(sorted(asked)), document, made)
        assert found == pytest.approx(reference(asked, text, corpus), abs=1e-11)


def test_a_score_worked_out_by_hand():
    corpus = [Document("1", {"title": ("peer peer grid",)}), Document("2", {"title": ("grid",)})]
    peer, grid = (1 + math.log(2)) * math.log(1 + 2 / 1), math.log(1 + 2 / 2)
    assert of("peer", corpus[0], corpus) == pytest.approx(peer / math.hypot(peer, grid))
    assert of("grid", corpus[1], corpus) == 1
    assert of("peer", corpus[1], corpus) == 0


@given(meanings(), corpora())
def test_every_score_lies_in_0_to_1(query, corpus):
    statistics = Statistics.of(corpus, PLAIN)
    assert all(0 <= score(query, document, PLAIN, statistics) <= 1 for document in corpus)


def test_the_document_vector_counts_the_words_of_all_string_fields_and_of_nothing_else():
    one = Document(
        "peer", {"title": ("peer",), "note": ("peer", "peer")}, source="peer", time="2004-05-31", xml="<peer/>"
    )
    other = Document("x", {"title": ("peer peer peer",), "year": (2004,)})
    assert of("peer OR grid", one, [one]) == of("peer OR grid", other, [other])
    assert Statistics.of([one, other], PLAIN).frequency == {"peer": 2}


def test_each_field_counts_under_its_analysis():
    analysis = Analysis({"title": ENGLISH, "author": KEYWORD})
    document = Document("d", {"title": ("the running peers",), "author": ("John Smith",), "note": ("the peers",)})
    assert Statistics.of([document], analysis).frequency == {
        "run": 1, "peer": 1, "john smith": 1, "the": 1, "peers": 1,
    }  # fmt: skip
    assert of("title:runs", document, analysis=analysis) == pytest.approx(1 / math.sqrt(5))
    assert of('author:"JOHN SMITH"', document, analysis=analysis) == pytest.approx(1 / math.sqrt(5))


DOCUMENT = Document("d", {"title": ("a b c d",), "year": (2004,)})


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("a", {"a"}),
        ("a a a", {"a"}),  # each distinct word once
        ("a b", {"a", "b"}),
        ("a OR b", {"a", "b"}),
        ('"a b c"', {"a", "b", "c"}),
        ('"a a"', {"a"}),
        ("a NEAR/5 b", {"a", "b"}),
        ("title:(a NEAR[0,5] b NEAR[0,5] c)", {"a", "b", "c"}),
        ('title = "a b c d"', {"a", "b", "c", "d"}),
        ("title:a", {"a"}),
        ("a -b", {"a"}),
        ("a NOT (b OR c)", {"a"}),
        ("a AND NOT NOT b", {"a", "b"}),
        ("NOT (NOT a OR b)", {"a"}),
        ("a AND zz", {"a", "zz"}),
        ("a AND title:bb*", {"a"}),
        ("a AND title:*", {"a"}),
        ("a AND year:[1 TO 3000]", {"a"}),
        ('a AND title ~ "b c" >= 0.1', {"a"}),
        ("a AND title:IN:(b)", {"a"}),
    ],
)
def test_the_query_vector_has_each_distinct_word_of_the_positive_words_phrases_proximities_and_equalities(query, words):
    inside = len(words & set("abcd"))
    assert of(query, DOCUMENT) == pytest.approx(inside / (2 * math.sqrt(len(words))))


@pytest.mark.parametrize(
    "query", ["NOT a", "title:*", "year >= 2004", "ab*", 'title ~ "a" >= 0.1', "title:IN:(a)", "-a -b"]
)
def test_without_such_a_word_the_score_is_0(query):
    assert of(query, DOCUMENT) == 0


def test_a_document_without_words_scores_0():
    assert of("a", Document("d", {"year": (5,), "title": ("",)})) == 0


def test_a_word_that_occurs_nowhere_counts_as_occurring_once():
    """df 0 counts as 1: an unknown word weighs as much as a word of one document."""
    corpus = [Document("1", {"title": ("a",)}), Document("2", {"title": ("b",)})]
    assert of("a zz", corpus[0], corpus) == pytest.approx(of("a b", corpus[0], corpus))


@given(st.permutations(["a", "b", "c", "d", "e"]), st.permutations(["a b", "b c d", "e", "a a"]))
def test_the_order_of_words_fields_and_documents_makes_no_difference(letters, texts):
    corpus = [Document(str(n), {"title": (text,)}) for n, text in enumerate(texts)]
    one = Document("d", {"x": (" ".join(letters),), "y": ("a c",)})
    other = Document("d", {"y": ("c", "a"), "x": ("a b c d e",)})
    scores = {of(" OR ".join([*letters[:3], "zz"]), d, corpus) for d in (one,)} | {
        of(" OR ".join(["zz", *sorted(letters[:3])]), other, corpus)
    }
    assert len(scores) == 1  # exactly equal: scores are stored and compared
