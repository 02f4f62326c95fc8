"""Nested subscriptions: what is told equals the one-time answer, each document once (SmartSeer §VI-B)."""

from __future__ import annotations

import pytest

from tests.match.nested_histories import History, paper
from tocsin import Analysis, Document, Statistics, parse_subscription
from tocsin.errors import QueryError
from tocsin.match.nested import InMemory, NestedSubscriptions, Reason
from tocsin.match.nested.translate import assuming
from tocsin.query import show


def subscribed(*queries: str, tables: InMemory | None = None) -> NestedSubscriptions:
    nested = NestedSubscriptions(Analysis(), Statistics(), tables)
    nested.add_all((number, parse_subscription(query), 0, None) for number, query in enumerate(queries))
    return nested


def told_at_each(nested: NestedSubscriptions, *documents: Document) -> list[list[str]]:
    """For each arriving document the ids that are told at it."""
    start = nested.tables.last
    found = []
    for position, document in enumerate(documents, start + 1):
        told = nested.match([(position, document)])
        assert all(one.cause == position for one in told)
        found.append([nested.tables.document(one.position).id for one in told])
    return found


def told(query: str, *documents: Document) -> list[list[str]]:
    return told_at_each(subscribed(query), *documents)


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


def test_citations_of_my_papers() -> None:
    """`citation:IN:(q)` means the ids of the matching documents."""
    mine, citing = paper("mine", "Me"), paper("citing", "You", cites=("mine",))
    assert told("citation:IN:(author:Me)", mine, citing) == [[], ["citing"]]
    assert told("citation:IN:(author:Me)", citing, mine) == [[], ["citing"]]


def test_a_set_that_grows_through_two_levels_reaches_old_documents() -> None:
    query = "author:IN:(author:IN:(author:Ann))"
    stream = [paper("c-d", "Cid", "Dan"), paper("b-c", "Bob", "Cid"), paper("a-b", "Ann", "Bob")]
    # Level 1: authors with Ann = {Ann, Bob}; level 2: authors of documents by those = {Ann, Bob, Cid}.
    assert told(query, *stream) == [[], [], ["c-d", "b-c", "a-b"]]


def test_values_of_a_replaced_document_leave_the_set_and_what_was_told_stays_told() -> None:
    stream = [
        paper("a", "Ann", title="networks"),
        paper("b", "Ann"),
        paper("a", "Ann", title="gardens", version=2),
        paper("c", "Ann"),
    ]
    assert told("author:IN:(networks)", *stream) == [["a"], ["b"], [], []]


def test_a_new_version_that_matches_is_told_again() -> None:
    stream = [paper("a", "Ann", title="networks"), paper("a", "Ann", title="networks two", version=2)]
    assert told("author:IN:(networks)", *stream) == [["a"], ["a"]]


def test_the_values_of_a_deleted_document_leave_the_set_through_two_levels() -> None:
    nested = subscribed("author:IN:(author:IN:(author:Ann))")
    told_at_each(nested, paper("b-c", "Bob", "Cid"), paper("a-b", "Ann", "Bob"), paper("c", "Cid"))
    nested.leave("a-b")
    assert told_at_each(nested, paper("cid", "Cid"), paper("bob", "Bob")) == [[], []]
    # What was told before the deletion is not told again when the set is enlarged anew.
    assert told_at_each(nested, paper("a-b-2", "Ann", "Bob")) == [["cid", "bob", "a-b-2"]]


def test_a_subscription_made_later_starts_from_what_is_stored_and_hears_only_of_what_changes() -> None:
    """The contract: older documents are delivered only when a later document enlarges a set."""
    nested = subscribed("author:IN:(title:other)")
    told_at_each(nested, paper("bob", "Bob", title="networks"), paper("b", "Bob"), paper("carol", "Carol"))
    nested.add(7, parse_subscription("author:IN:(networks)"), since=3)
    assert told_at_each(nested, paper("b2", "Bob")) == [["b2"]]
    # Carol becomes a co-author: her old paper is told; Bob's old papers matched before, and stay untold.
    assert told_at_each(nested, paper("joint", "Bob", "Carol", title="networks")) == [["carol", "joint"]]


def test_a_subscription_hears_nothing_outside_its_span() -> None:
    nested = subscribed()
    nested.add(0, parse_subscription("author:IN:(networks)"), since=1, until=2)
    stream = [paper("a", "Ann", title="networks"), paper("b", "Ann"), paper("c", "Ann")]
    assert told_at_each(nested, *stream) == [[], ["b"], []]


def test_sets_are_shared_and_go_with_the_last_subscription_that_needs_them() -> None:
    tables = InMemory()
    nested = subscribed(
        "author:IN:(networks)", "author:IN:(networks) AND x", "z OR author:IN:(networks)", tables=tables
    )
    assert len(tables.sets()) == 1
    told_at_each(nested, paper("a", "Ann", title="networks"))
    for number in (0, 2):
        nested.remove(number)
        assert len(tables.sets()) == 1
    nested.remove(1)
    assert not tables.sets()
    assert not tables.rows()["support"]
    assert told_at_each(nested, paper("b", "Ann")) == [[]]
    nested.add(3, parse_subscription("author:IN:(networks)"), since=2)
    assert told_at_each(nested, paper("c", "Ann")) == [["c"]]


def test_evidence_names_the_document_that_put_the_value_into_the_set() -> None:
    nested = subscribed("author:IN:(author:IN:(author:Ann)) AND x")
    stream = [paper("b-c", "Bob", "Cid"), paper("a-b", "Ann", "Bob"), paper("c", "Cid", title="x")]
    told_at_each(nested, *stream)
    assert nested.reasons(0, 3) == (Reason("author", "cid", "b-c", 1, (Reason("author", "bob", "a-b", 1, ()),)),)


def test_the_translated_queries_enclose_the_nested_one() -> None:
    """SmartSeer §VI-B: what can be registered of a nested query."""
    shown = lambda found: found if isinstance(found, bool) else show(found)  # noqa: E731
    expected = {
        "author:IN:(x)": (False, True),
        "y AND author:IN:(x)": (False, "y"),
        "y OR author:IN:(x)": ("y", True),
        "y AND (z OR author:IN:(x)) AND NOT w": ("y AND z AND NOT w", "y AND NOT w"),
    }
    for text, (alone, at_most) in expected.items():
        query = parse_subscription(text)
        assert (shown(assuming(query, False)), shown(assuming(query, True))) == (alone, at_most)


@pytest.mark.row("S17")
@pytest.mark.parametrize(
    "query", ["NOT author:IN:(x)", "y AND -author:IN:(x)", "author:IN:(NOT author:IN:(x))", "NOT (y OR author:IN:(x))"]
)
def test_a_nested_query_under_not_is_refused_with_a_reason(query: str) -> None:
    """SmartSeer §VI-B: negated subqueries are not allowed in continuous queries."""
    with pytest.raises(QueryError, match="NOT"):
        parse_subscription(query)


def test_a_value_that_one_document_takes_and_another_keeps_stays() -> None:
    stream = [
        paper("a", "Ann", title="networks"),
        paper("b", "Ann", title="networks"),
        paper("a", "Bob", title="gardens", version=2),
        paper("c", "Ann"),
    ]
    assert told("author:IN:(networks)", *stream)[3] == ["c"]


# --- histories -------------------------------------------------------------------------------------------------------


def test_what_is_told_in_300_histories_is_what_the_oracle_says() -> None:
    assert sum(History(seed).run() for seed in range(300)) > 3_000


@pytest.mark.slow
@pytest.mark.row("S16")
def test_what_is_told_in_10_000_histories_is_what_the_oracle_says() -> None:
    """Random documents, versions, deletions, late subscriptions, batch cuts, restarts and replays."""
    assert sum(History(1_000 + seed).run() for seed in range(10_000)) > 100_000


@pytest.mark.parametrize("seed", range(20))
def test_after_each_batch_what_was_told_equals_the_one_time_answer(seed: int) -> None:
    """The contract's property: documents neither updated nor deleted, subscriptions made before the first."""
    History(seed, plain=True).run()
