"""Nested subscriptions: what is told equals the one-time answer, each document once (SmartSeer §VI-B)."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin import Analysis, Document, Knowledge, Statistics, holds, parse_subscription
from tocsin.match.nested import NestedSubscriptions


def paper(id: str, *authors: str, title: str = "", version: int = 1, cites: tuple[str, ...] = ()) -> Document:
    fields: dict[str, tuple[str, ...]] = {"author": authors, "title": (title,), "citation": cites}
    return Document(id, {name: values for name, values in fields.items() if values}, version=version)


def told(query: str, *documents: Document) -> list[list[str]]:
    """For each arriving document the ids that are told at it."""
    nested = NestedSubscriptions({0: parse_subscription(query)}, Analysis(), Statistics())
    return [[found.id for _, found in nested.arrive(document)] for document in documents]


def test_carols_old_papers_are_told_once_she_becomes_a_co_author() -> None:
    """SmartSeer §VI-B: the delta query runs over history."""
    old = [paper("old1", "Carol"), paper("old2", "Carol", "Dan")]
    joint = paper("joint", "Bob", "Carol", title="networks")
    later = paper("later", "Carol")
    assert told("author:IN:(networks AND author:Bob)", *old, joint, later) == [
        [],
        [],
        ["old1", "old2", "joint"],
        ["later"],
    ]


def test_bob_is_among_his_own_co_authors() -> None:
    """S15's trap: the paper's example drops Bob himself; the contract includes him."""
    assert told("author:IN:(networks AND author:Bob)", paper("a", "Bob", title="networks"), paper("b", "Bob")) == [
        ["a"],
        ["b"],
    ]


def test_citations_of_my_papers() -> None:
    """`citation:IN:(q)` means the ids of the matching documents."""
    mine, citing = paper("mine", "Me"), paper("citing", "You", cites=("mine",))
    assert told("citation:IN:(author:Me)", mine, citing) == [[], ["citing"]]
    assert told("citation:IN:(author:Me)", citing, mine) == [[], ["citing"]]


def test_a_set_that_grows_through_two_levels_reaches_old_documents() -> None:
    query = "author:IN:(author:IN:(author:Ann))"
    stream = [paper("c-d", "Cid", "Dan"), paper("b-c", "Bob", "Cid"), paper("a-b", "Ann", "Bob")]
    assert told(query, *stream)[:2] == [[], []]
    # Level 1: authors with Ann = {Ann, Bob}; level 2: authors of documents by those = {Ann, Bob, Cid}.
    assert sorted(told(query, *stream)[2]) == ["a-b", "b-c", "c-d"]


def test_values_of_a_replaced_document_leave_the_set_and_what_was_told_stays_told() -> None:
    query = "author:IN:(networks)"
    stream = [
        paper("a", "Ann", title="networks"),
        paper("b", "Ann"),
        paper("a", "Ann", title="gardens", version=2),
        paper("c", "Ann"),
    ]
    assert told(query, *stream) == [["a"], ["b"], [], []]


def test_a_new_version_that_matches_is_told_again() -> None:
    stream = [paper("a", "Ann", title="networks"), paper("a", "Ann", title="networks two", version=2)]
    assert told("author:IN:(networks)", *stream) == [["a"], ["a"]]


QUERIES = [
    "author:IN:(x AND author:a)",
    "author:IN:(y) AND NOT z",
    "author:IN:(author:IN:(x)) OR z",
    "citation:IN:(author:b)",
    "citation:IN:(citation:IN:(x))",
    "author:IN:citation(y)",
    "title:IN:author(x) AND (y OR author:IN:(z))",
    "author:IN:(NOT x AND author:c)",
]


@pytest.mark.parametrize("seed", range(60))
def test_what_was_told_after_each_document_equals_the_one_time_answer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    subscriptions = {number: parse_subscription(text) for number, text in enumerate(QUERIES)}
    nested = NestedSubscriptions(subscriptions, Analysis(), Statistics())
    seen: list[Document] = []
    delivered: set[tuple[int, str]] = set()
    for number in range(25):
        pick = lambda choices, most: tuple(rng.choice(list(choices), size=rng.integers(0, most + 1)))  # noqa: E731
        title = " ".join(pick("xyzabc", 2))
        document = paper(f"{number}", *pick("abcdef", 2), title=title, cites=pick("0123456789", 2))
        seen.append(document)
        new = [(number, found.id) for number, found in nested.arrive(document)]
        assert len(new) == len(set(new))
        assert not delivered.intersection(new)
        delivered.update(new)
        knowledge = Knowledge(documents=seen)
        assert delivered == {
            (number, document.id)
            for number, query in subscriptions.items()
            for document in seen
            if holds(query, document, knowledge)
        }
