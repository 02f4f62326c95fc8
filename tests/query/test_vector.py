"""The vector of `~`: of a text as it was written, and of one that feedback has moved."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import Analysis, Document, Statistics
from tocsin.query import Knowledge, holds, parse
from tocsin.query.ast import Similar
from tocsin.query.covering import covers
from tocsin.query.normal import anchors, keys_of
from tocsin.query.score import Vector, cosine, similarity
from tocsin.query.vector import (
    Rocchio,
    attached,
    detached,
    factors_in,
    factors_of,
    from_text,
    is_sound,
    movable,
    normal,
    rocchio,
    similarity_to,
    to_text,
    weighed,
)

STATISTICS = Statistics(10, {"peer": 3, "grid": 1, "the": 10, "jaguar": 2})
FACTORS = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.01, 5), max_size=6)
COUNTED = Statistics(20, {letter: number + 1 for number, letter in enumerate("abcdefgh")})


def test_a_text_is_weighed_as_its_words_are():
    counts = {"grid": 2, "peer": 3}
    assert weighed(factors_of("peer grid peer grid peer", "standard"), STATISTICS) == Vector.of(counts, STATISTICS)


def test_a_text_that_was_not_moved_is_as_similar_as_the_definition_says():
    document = Document("d", {"abstract": ("a peer in the grid of peers, a peer",)})
    atom = Similar("abstract", "the peer grid", 0.1)
    assert similarity_to(atom, document, Analysis(), STATISTICS) == similarity(
        "abstract", "the peer grid", document, Analysis(), STATISTICS
    )


def test_a_moved_text_holds_by_its_words_and_not_by_its_text():
    document = Document("d", {"abstract": ("grid",)})
    knowledge = Knowledge(Analysis(), STATISTICS)
    query = parse('abstract ~ "peer" >= 0.9')
    assert not holds(query, document, knowledge)
    assert holds(attached(query, {("abstract", "peer"): {"grid": 0.01}}), document, knowledge)
    away = attached(parse('abstract ~ "grid" >= 0.9'), {("abstract", "grid"): {"peer": 1.0}})
    assert not holds(away, document, knowledge)


# --- Rocchio ---------------------------------------------------------------------------------------------------------


def test_words_move_by_the_formula():
    """q' = q + 0.75 · mean(liked) - 0.15 · mean(disliked), each normalised; what falls to zero is dropped."""
    even = Statistics(1, {})  # every word weighs the same
    liked, disliked = [{"jaguar": 1.0, "cat": 1.0}, {"cat": 1.0}], [{"jaguar": 1.0}, {"car": 1.0}]
    found = rocchio({"jaguar": 1.0}, liked, disliked, even)
    root = 2**-0.5
    wanted = {"jaguar": 1 + 0.75 * root / 2 - 0.15 / 2, "cat": 0.75 * (root + 1) / 2}
    assert found.keys() == wanted.keys()  # the car is gone
    assert weighed(found, even).length == pytest.approx(1)
    assert found["jaguar"] / found["cat"] == pytest.approx(wanted["jaguar"] / wanted["cat"])


@given(FACTORS, st.lists(FACTORS, max_size=4), st.lists(FACTORS, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_thumbs_does_not_matter(asked, liked, disliked, chance: random.Random):
    found = rocchio(asked, liked, disliked, COUNTED)
    chance.shuffle(liked)
    chance.shuffle(disliked)
    assert rocchio(asked, liked, disliked, COUNTED) == found
    assert all(factor > 0 for factor in found.values())
    assert list(found) == sorted(found)


@given(FACTORS.filter(bool))
def test_without_thumbs_the_direction_stays(asked):
    found = rocchio(asked, [], [], COUNTED)
    assert found == normal(normal(asked, COUNTED), COUNTED)
    assert cosine(weighed(asked, COUNTED), weighed(found, COUNTED)) == 1


def test_the_heaviest_words_are_kept_by_their_weight():
    common = Statistics(1_000, {"rare": 1, "common": 1_000})
    assert list(rocchio({"rare": 1.0, "common": 1.5}, [], [], common, Rocchio(words_max=1))) == ["rare"]
    many = {f"w{number:03}": float(number) for number in range(1, 200)}
    assert list(rocchio(many, [], [], STATISTICS, Rocchio(words_max=10))) == [
        f"w{number}" for number in range(190, 200)
    ]


def test_where_words_weigh_nothing_nothing_is_moved():
    assert rocchio({"peer": 1.0}, [{"grid": 1.0}], [], Statistics()) == {}


def test_a_liked_document_comes_nearer_and_a_disliked_one_goes():
    texts = ("the jaguar is a cat of the forest", "the jaguar is a car of the road", "a cat in a forest")
    documents = [Document(text, {"abstract": (text,)}) for text in texts]
    statistics = Statistics.of(documents, Analysis())
    liked, disliked, _ = (factors_in(document, "abstract", Analysis()) for document in documents)
    asked = factors_of("jaguar", "standard")
    moved = rocchio(asked, [liked], [disliked], statistics)
    before, after = (
        [
            cosine(weighed(factors_in(one, "abstract", Analysis()), statistics), weighed(text, statistics))
            for one in documents
        ]
        for text in (asked, moved)
    )
    assert after[0] > before[0]
    assert after[2] > before[2]
    assert after[0] - before[0] > after[1] - before[1]


# --- beside the query ------------------------------------------------------------------------------------------------


def test_vectors_are_attached_by_field_and_text_outside_nested_queries():
    query = parse('(abstract ~ "peer" >= 0.2 AND NOT abstract ~ "peer" >= 0.9) OR author:IN:(abstract ~ "peer" >= 0.2)')
    vectors = {("abstract", "peer"): {"grid": 0.5, "peer": 1.25}, ("title", "peer"): {"x": 1.0}}
    moved = attached(query, vectors)
    assert moved != query
    assert detached(moved) == {("abstract", "peer"): vectors["abstract", "peer"]}
    assert attached(query, {}) == query
    assert from_text(to_text(detached(moved))) == detached(moved)
    assert to_text({}) is None
    assert from_text(None) == {}


def test_what_a_document_should_be_like_is_moved_and_no_other_text():
    query = parse('abstract ~ "a" >= 0.2 AND NOT abstract ~ "b" >= 0.2 AND author:IN:(abstract ~ "c" >= 0.2)')
    assert [atom.text for atom in movable(query)] == ["a"]
    assert [atom.text for atom in movable(parse('NOT NOT title ~ "d" >= 0.5 OR title ~ "d" >= 0.7'))] == ["d"]


def test_a_moved_text_waits_at_its_words():
    atom = Similar("abstract", "peer", 0.2, (("grid", 1.0), ("swarm", 0.5)))
    assert [key.word for keys in keys_of(atom, Analysis()) for key in keys] == ["grid", "swarm"]
    assert {key.word for key in anchors(atom, Analysis()) or ()} == {"grid", "swarm"}


def test_a_moved_text_covers_only_itself():
    plain, moved = Similar("abstract", "peer", 0.2), Similar("abstract", "peer", 0.2, (("grid", 1.0),))
    assert covers(moved, Similar("abstract", "peer", 0.5, (("grid", 1.0),)), Analysis())
    assert not covers(moved, plain, Analysis())
    assert not covers(plain, moved, Analysis())


@pytest.mark.parametrize(
    ("words", "sound"),
    [
        ([("a", 1.0), ("b", 0.5)], True),
        ([("a", 1.0), ("a", 0.5)], False),
        ([("a", 0.0)], False),
        ([("a", -1.0)], False),
        ([("", 1.0)], False),
        ([("a", float("nan"))], False),
        ([("a", float("inf"))], False),
        ([(f"w{number}", 1.0) for number in range(101)], False),
    ],
)
def test_words_from_elsewhere_are_looked_at(words, sound):
    assert is_sound(words, Rocchio()) is sound
