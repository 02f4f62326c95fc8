"""Checking candidates 64 at a time gives what the oracle gives one at a time."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin import Analysis, Knowledge, Statistics, holds
from tocsin.match import verify
from tocsin.match.requirement import Requirement, exact_keys, requirements
from tocsin.match.verify import Batch, Planner
from tocsin.model import Document
from tocsin.query import parse
from tocsin.query.ast import Equals
from tocsin.query.normal import NUMBERS, Key, number_word
from tocsin.sim.workload import random_documents, random_query
from tocsin.text import texts, values_of

ANALYSES = [Analysis(), Analysis({"title": "english", "author": "keyword"})]


def keys_held(document: Document, analysis: Analysis) -> set[Key]:
    """Every key that a document holds, by the definition of a key."""
    held = set()
    for field in [*document.fields, "id", "source", "time"]:
        if values_of(document, field):
            held.add(Key(field, "present", ""))
        for value, name in texts(document, field, analysis):
            for word in filter(None, value):
                held.add(Key(field, name, word))
                if field in document.fields:
                    held.add(Key("", name, word))
        for value, _ in texts(document, field, analysis):
            for word in filter(None, value):
                starts = [word[:length] for length in range(2, len(word) + 1)]
                held.update(Key(field, "prefix", start) for start in starts)
                if field in document.fields:
                    held.update(Key("", "prefix", start) for start in starts)
        for number in values_of(document, field):
            if not isinstance(number, str):
                held.add(Key(field, NUMBERS, number_word(number)))
    return held


@pytest.mark.parametrize("analysis", ANALYSES, ids=["standard", "mixed"])
@pytest.mark.parametrize("seed", range(40))
def test_plans_and_requirements_agree_with_the_oracle(seed: int, analysis: Analysis) -> None:
    rng = np.random.default_rng(seed)
    documents = list(random_documents(rng, 64))
    knowledge = Knowledge(analysis, Statistics.of(documents, analysis))
    held = [keys_held(document, analysis) for document in documents]
    numbers: dict[Key, int] = {}

    def exact(atom):
        keys = exact_keys(atom, analysis)
        return None if keys is None else tuple(numbers.setdefault(key, len(numbers)) for key in keys)

    def mask(number: int) -> int:
        key = list(numbers)[number]
        return sum(1 << index for index, keys in enumerate(held) if key in keys)

    planner, batch = Planner(analysis, exact), Batch(documents, knowledge, mask)
    for _ in range(12):
        query = random_query(rng, 4, nested=False)
        truth = [holds(query, document, knowledge) for document in documents]
        among = int(rng.integers(0, 1 << 63))
        expected = sum(1 << index for index, true in enumerate(truth) if true and among >> index & 1)
        assert planner.plan(query)(batch, among) == expected
        required = requirements(query, analysis)
        for true, keys in zip(truth, held, strict=True):
            met = [one for one in required if one.keys <= keys]
            assert met or not true, "every match meets a requirement"
            assert true or not any(one.exact for one in met), "an exact requirement is all that is asked"


@pytest.mark.parametrize("analysis", ANALYSES, ids=["standard", "mixed"])
def test_equality_is_decided_without_the_oracle(analysis: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of a field are read once per document, however many equalities ask for them."""
    values: list[str | int | float] = [
        "Straße",
        "the strasse",
        "",
        "!!!",
        "7",
        "the",
        "running dogs",
        "Running, dogs!",
        7,
        7.5,
        0,
        -0.0,
        "7.0",
    ]
    documents = [Document(f"{at}", {"title": (one,)}) for at, one in enumerate(values)]
    documents += [Document(f"two {at}", {"title": (one, values[at - 3])}) for at, one in enumerate(values)]
    documents += [Document("none", {"note": ("Straße",)}), Document("7", {"author": ("Running Dogs", "B. Straße")})]
    asked = [Equals("title", str(value), quoted) for value in values for quoted in (False, True)]
    asked += [
        Equals("id", "7"),
        Equals("author", "running dogs"),
        Equals("author", "straße"),
        Equals("note", "strasse"),
        Equals("absent", "strasse"),
    ]
    knowledge = Knowledge(analysis, Statistics())
    truth = [[holds(atom, document, knowledge) for document in documents] for atom in asked]
    assert {any(row) for row in truth} == {True, False}
    monkeypatch.setattr(verify, "holds", None)
    planner, batch = Planner(analysis, lambda atom: None), Batch(documents, knowledge, lambda key: 0)
    everything = (1 << len(documents)) - 1
    for atom, row in zip(asked, truth, strict=True):
        assert planner.plan(atom)(batch, everything) == sum(1 << at for at, true in enumerate(row) if true), atom


def test_a_product_of_disjunctions_does_not_multiply() -> None:
    groups = ["(" + " OR ".join(f"{letter}{number}" for number in range(40)) + ")" for letter in "vwxyz"]
    many = requirements(parse(" AND ".join(groups)), Analysis())
    assert len(many) <= 64
    assert not any(one.exact for one in many)


def test_requirements_of_simple_queries() -> None:
    analysis = Analysis()
    assert requirements(parse("a b"), analysis) == (
        Requirement(frozenset({Key("", "standard", "a"), Key("", "standard", "b")}), True),
    )
    assert [one.exact for one in requirements(parse('"a b" OR c'), analysis)] == [False, True]
    assert not requirements(parse("year > 5"), analysis)[0].keys
