"""Evidence: what is told of a match is in the document, and is what the query asked for."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.query.strategies import documents, meanings
from tocsin.match.explain import evidence
from tocsin.model import Document
from tocsin.query.parse import parse
from tocsin.query.score import Statistics, document_vector, score
from tocsin.query.semantics import Knowledge, holds
from tocsin.text import ENGLISH, Analysis, values_of, words

STATISTICS = Statistics(10, {"peer": 3, "grid": 1})


@given(meanings(), documents(), st.sampled_from([Analysis(), Analysis({"title": ENGLISH})]))
def test_every_place_that_is_told_is_one(query, document, analysis):
    """Words at positions are the document's; what is told holds alone; the parts of the score sum up to it."""
    knowledge = Knowledge(analysis, STATISTICS)
    assume(holds(query, document, knowledge))
    found = evidence(query, document, knowledge)
    assert holds(parse(found["clause"]), document, knowledge)
    for told in found["atoms"]:
        assert holds(parse(told["atom"]), document, knowledge)
        if "positions" in told:
            value = values_of(document, told["field"])[told["value_index"]]
            split = words(str(value), analysis.of(told["field"]))
            assert [split[position] for position in told["positions"]] == told["words"]
            again = Document("again", {told["field"]: (value,)})
            assert holds(parse(told["atom"]), again, knowledge)
    whole = score(query, document, analysis, STATISTICS)
    assert sum(found["score"].values()) == pytest.approx(whole, abs=1e-4)
    vector = document_vector(document, analysis, STATISTICS)
    assert evidence(query, document, knowledge, vector) == found


@pytest.mark.parametrize(
    ("query", "text", "positions"),
    [
        ('"a b"', "a a b", [1, 2]),
        ('"a b a"', "a b b a b a", [3, 4, 5]),
        ('"a b"', "b a", None),
        ('"a b"', "x a", None),
        ("a", "b b a a", [2]),
        ('title:"peers of the grid"', "peers in our grid", [0, 3]),
    ],
)
def test_a_phrase_is_told_where_it_stands_first(query, text, positions):
    analysis = Analysis({"title": ENGLISH})
    field = "title" if query.startswith("title") else "text"
    found = evidence(parse(query), Document("d", {field: (text,)}), Knowledge(analysis))["atoms"]
    assert [one["positions"] for one in found] == ([] if positions is None else [positions])
