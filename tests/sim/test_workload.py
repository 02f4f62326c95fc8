"""The workloads are what SmartSeer §V says, the same for everyone, and every operator is among the random queries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from tocsin.errors import SettingError
from tocsin.intake import document_from_json, document_to_json
from tocsin.query.ast import And, Equals, Exists, In, Near, Not, Or, Prefix, Range, Similar, Words, atoms, nested
from tocsin.query.parse import parse
from tocsin.query.score import Statistics
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.show import show
from tocsin.query.standing import parse_subscription
from tocsin.sim.workload import (
    CITESEER,
    FIELDS,
    QUERIES_PER_BLOCK,
    SMALL_VOCABULARY,
    TREC,
    Skew,
    WorkloadSettings,
    document_ranks,
    document_shares,
    document_table,
    documents,
    infer_frequency,
    query_ranks,
    query_shares,
    random_documents,
    random_query,
    user_query_ranks,
    vocabulary,
    word,
)
from tocsin.text import STOP_WORDS, Analysis, words

# --- words -----------------------------------------------------------------------------------------------------------


def test_every_rank_has_its_own_word_which_is_one_word_in_lower_case():
    spelled = vocabulary(400_000)
    assert len(set(spelled)) == len(spelled) == 400_001
    assert all(words(each) == (each,) for each in spelled[1::1_000])
    assert not STOP_WORDS & set(spelled)


def test_frequent_words_are_shorter():
    assert max(len(word(rank)) for rank in range(1, 500)) <= min(10, len(word(10_000_000)))
    lengths = [np.mean([len(word(rank)) for rank in range(first, first + 500)]) for first in (1, 100_000, 5_000_000)]
    assert lengths == sorted(lengths)


def test_words_never_change():
    """Benchmarks of different days must read the same text."""
    assert [word(rank) for rank in (1, 2, 3, 1_000, 100_000)] == ["draive", "geglu", "vutria", "kleplu", "dimun"]


# --- documents (SmartSeer §V) ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("settings", "unique"), [(TREC, 200), (CITESEER, 2_000)], ids=["TREC", "CiteSeer"])
def test_documents_have_the_unique_words_of_the_corpora(settings, unique):
    """SmartSeer §V: "an average of about 200 unique words", "about 2000 unique words"."""
    sizes = [len(set(ranks.tolist())) for ranks in islice(document_ranks(settings, 1), 200)]
    assert np.mean(sizes) == pytest.approx(unique, rel=0.06)
    assert np.std(sizes) == pytest.approx(0.25 * unique, rel=0.2)
    lengths = [len(ranks) for ranks in islice(document_ranks(settings, 1), 200)]
    assert np.mean(lengths) == pytest.approx(settings.document_words, rel=0.06)


def test_without_spread_all_documents_are_of_one_size():
    settings = WorkloadSettings(documents=20, document_spread=0)
    assert [(len(set(ranks.tolist())), len(ranks)) for ranks in document_ranks(settings, 1)] == [(200, 300)] * 20


def test_words_of_documents_follow_zipf():
    frequency = infer_frequency(
        WorkloadSettings(document_words=200, document_unique_words=100), seed=1, documents=2_000
    )
    # Documents stop when enough words differ and so favour the head a little less than pure Zipf does.
    ranks = np.unique(np.logspace(0.5, 3, 30).astype(int))
    slope = np.polyfit(np.log(ranks), np.log(frequency[ranks - 1]), 1)[0]
    assert slope == pytest.approx(-1, abs=0.08)


def test_a_document_is_the_text_of_its_ranks():
    settings = WorkloadSettings(documents=5)
    spelled = vocabulary(settings.vocabulary_words)
    for document, ranks in zip(documents(settings, 3), document_ranks(settings, 3), strict=True):
        text = " ".join(str(value) for values in document.fields.values() for value in values)
        assert words(text) == tuple(spelled[rank] for rank in ranks)


def test_a_table_holds_the_same_documents():
    settings = WorkloadSettings(documents=7)
    table = document_table(settings, 5)
    assert [table.row(i).tolist() for i in range(len(table))] == [r.tolist() for r in document_ranks(settings, 5)]


# --- queries (SmartSeer §V) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [2, 5, 8])
@pytest.mark.parametrize("skew", Skew)
def test_queries_have_a_normal_number_of_different_words(mean, skew):
    """SmartSeer §V: "a normal distribution with mean ν and standard deviation .3ν", "without replacement"."""
    table = query_ranks(WorkloadSettings(queries=20_000, query_words_mean=mean, query_skew=skew), seed=2)
    lengths = np.diff(table.first)
    assert lengths.mean() == pytest.approx(mean, rel=0.02)
    assert lengths.std() == pytest.approx(np.hypot(0.3 * mean, 12**-0.5), rel=0.05)  # the second part is rounding
    assert lengths.min() >= 1
    assert all(len(set(table.row(i).tolist())) == lengths[i] for i in range(2_000))


def test_skews_are_ordered_as_defined():
    """SmartSeer §V: more, same, uniform, inverse: ever less of the frequent words."""
    first_hundred = {}
    for skew in Skew:
        table = query_ranks(WorkloadSettings(queries=50_000, query_skew=skew), seed=3)
        first_hundred[skew] = np.mean(table.ranks <= 100)
    more, same, uniform, inverse = (first_hundred[skew] for skew in (Skew.MORE, Skew.SAME, Skew.UNIFORM, Skew.INVERSE))
    assert more > 1.5 * same > 100 * uniform
    assert uniform == pytest.approx(100 / TREC.vocabulary_words, rel=0.3)
    assert inverse < uniform / 10
    rare = query_ranks(WorkloadSettings(queries=50_000, query_skew=Skew.INVERSE), seed=3).ranks
    assert np.mean(rare > 50_000) == pytest.approx(0.75, abs=0.01)


def test_same_skew_is_the_distribution_of_documents():
    shares = document_shares(TREC)
    assert np.allclose(query_shares(shares, Skew.SAME), shares)
    single = query_ranks(WorkloadSettings(queries=100_000, query_words_mean=1), seed=1)
    assert np.mean(single.ranks[single.first[:-1]] == 1) == pytest.approx(shares[0], rel=0.03)


def test_an_inferred_distribution_has_only_words_that_occurred():
    """SmartSeer §V: "the first 500 documents are used to infer the term frequency distribution"."""
    frequency = infer_frequency(TREC, seed=1)
    assert frequency.sum() == sum(len(ranks) for ranks in islice(document_ranks(TREC, 1), 500))
    for skew in Skew:
        table = query_ranks(WorkloadSettings(queries=2_000, query_skew=skew), 1, frequency)
        assert (frequency[table.ranks - 1] > 0).all()


def test_uniform_and_inverse_skews_make_short_lists():
    """SmartSeer §V-C, Figure 3: lists of queries under a word are then very short, at most about 6."""
    longest = {}
    for skew in Skew:
        table = query_ranks(WorkloadSettings(queries=50_000, query_skew=skew), seed=4)
        rarest = np.maximum.reduceat(table.ranks, table.first[:-1])
        longest[skew] = np.bincount(rarest).max()
    assert longest[Skew.UNIFORM] < 15
    assert longest[Skew.INVERSE] < 15
    assert min(longest[Skew.SAME], longest[Skew.MORE]) > 30


def test_user_like_queries_have_two_to_four_middling_words():
    table = user_query_ranks(WorkloadSettings(queries=30_000), seed=1)
    assert set(np.diff(table.first).tolist()) == {2, 3, 4}
    assert 500 <= table.ranks.min() < 505
    assert 45_000 < table.ranks.max() <= 50_000
    assert all(len(set(row.split())) == len(row.split()) for row in table.texts())


def test_texts_and_trees_say_the_same():
    table = query_ranks(WorkloadSettings(queries=300, query_words_mean=2), seed=1)
    assert [parse(text) for text in table.texts()] == list(table.trees())


def test_the_first_queries_do_not_depend_on_how_many_are_asked_for():
    few, many = (query_ranks(WorkloadSettings(queries=n), 1) for n in (10, QUERIES_PER_BLOCK + 10))
    assert few.ranks.tolist() == many.ranks[: many.first[10]].tolist()
    assert len(many) == QUERIES_PER_BLOCK + 10
    assert len(query_ranks(WorkloadSettings(queries=0), 1)) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"vocabulary_words": 300},
        {"zipf_exponent": 3.0},
        {"query_words_mean": 0.2},
        {"document_spread": 2.0},
        {"document_unique_words": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(SettingError):
        WorkloadSettings(**wrong)


def test_too_few_words_for_the_queries_are_refused():
    with pytest.raises(SettingError, match="only 3 words occur"):
        query_ranks(TREC, 1, np.array([1.0, 2.0, 3.0, 0.0]))
    with pytest.raises(SettingError, match="user_rank_first"):
        user_query_ranks(WorkloadSettings(vocabulary_words=1_000, user_rank_first=995), 1)


# --- the same for everyone -------------------------------------------------------------------------------------------

DIGEST = """
import hashlib, numpy as np
from tocsin.sim.workload import *
from tocsin.query.show import show
told = [repr(d) for d in documents(WorkloadSettings(documents=3), 1)]
told += [t for s in Skew for t in query_ranks(WorkloadSettings(queries=50, query_skew=s), 1).texts()]
told += list(user_query_ranks(WorkloadSettings(queries=50), 1).texts())
rng = np.random.default_rng(9)
told += [show(random_query(rng, 4)) for _ in range(200)] + [repr(d) for d in random_documents(rng, 20)]
print(hashlib.sha256("\\n".join(told).encode()).hexdigest())
"""


@pytest.mark.row("X3")
def test_the_same_seed_gives_the_same_output_under_any_hash_seed():
    told = set()
    for hash_seed in ("0", "1", "42"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", DIGEST]
        told.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(told) == 1


@pytest.mark.row("X3")
def test_another_seed_gives_another_output():
    settings = WorkloadSettings(documents=1, queries=20)
    assert list(documents(settings, 1)) != list(documents(settings, 2))
    assert list(query_ranks(settings, 1).texts()) != list(query_ranks(settings, 2).texts())
    assert list(query_ranks(settings, 1).texts()) != list(user_query_ranks(settings, 1).texts())


# --- random documents and queries ------------------------------------------------------------------------------------


def test_random_queries_survive_printing():
    rng = np.random.default_rng(1)
    for _ in range(3_000):
        query = random_query(rng, 4)
        assert parse(show(query)) == query


def test_random_queries_survive_printing_with_words_that_need_quoting():
    rng = np.random.default_rng(2)
    for _ in range(500):
        query = random_query(rng, 3, ("AND", "NEAR", "TO", "e\u0301a", "naïve"))
        assert parse(show(query)) == query


def forms(query):
    """The forms of the contract that occur in the query, those of nested queries too."""
    for part in walk(query):
        yield type(part)
        match part:
            case Words(field, text, quoted):
                yield "field" if field else "bare"
                yield "quoted" if quoted else "plain"
                yield "number" if part.number is not None else "phrase" if len(words(text)) > 1 else "word"
            case Near(field, operands, _, ordered):
                yield "in order" if ordered else "either order"
                yield "long chain" if len(operands) > 2 else "pair"
                yield "near in a field" if field else "near anywhere"
            case Equals():
                yield "equal number" if part.number is not None else "equal text"
            case Range(_, low, high):
                yield "dates" if part.is_date else "numbers"
                yield ("range", low and low.inclusive, high and high.inclusive)
            case In(field, source):
                yield "same field" if field == source else "other field"


def walk(query):
    yield query
    for part in getattr(query, "parts", ()):
        yield from walk(part)
    if isinstance(query, Not):
        yield from walk(query.part)
    if isinstance(query, In):
        yield from walk(query.query)


FORMS = {
    *(And, Or, Not, Words, Near, Equals, Prefix, Exists, Range, Similar, In),
    *("bare", "field", "plain", "quoted", "word", "phrase", "number", "in order", "either order", "pair", "long chain"),
    *(
        "near in a field",
        "near anywhere",
        "equal text",
        "equal number",
        "dates",
        "numbers",
        "same field",
        "other field",
    ),
    *(
        ("range", low, high)
        for low in (True, False, None)
        for high in (True, False, None)
        if (low, high) != (None, None)
    ),
}


def test_random_queries_use_every_operator_and_form():
    rng = np.random.default_rng(3)
    seen = {form for _ in range(3_000) for form in forms(random_query(rng, 3))}
    assert seen == FORMS


def test_without_nesting_there_is_none():
    rng = np.random.default_rng(4)
    assert not any(list(nested(random_query(rng, 4, nested=False))) for _ in range(500))


def test_random_subscriptions_are_accepted():
    rng = np.random.default_rng(5)
    queries = [random_query(rng, 4, subscription=True) for _ in range(1_000)]
    assert all(parse_subscription(show(query)) == query for query in queries)
    assert sum(1 for query in queries if any(nested(query))) > 100


def test_random_documents_have_every_shape():
    found = random_documents(np.random.default_rng(6), 300)
    values = [value for document in found for values in document.fields.values() for value in values]
    assert len({document.id for document in found}) == 300
    assert "" in values
    assert {int, float, str} == {type(value) for value in values}
    assert {1, 2, 3} == {len(values) for document in found for values in document.fields.values()}
    for name in FIELDS.all[:-3]:
        assert 0.1 < np.mean([name not in document.fields for document in found]) < 0.4
    assert {document.source is None for document in found} == {True, False} == {d.time is None for d in found}
    assert not all(value.isascii() for value in values if isinstance(value, str))


def test_links_point_to_earlier_documents():
    for number, document in enumerate(random_documents(np.random.default_rng(7), 100)):
        assert all(int(str(link)[1:]) < number for link in document.fields.get("citation", ()))


def test_matches_are_frequent_and_not_too_frequent():
    rng = np.random.default_rng(8)
    found = random_documents(rng, 60)
    known = Knowledge(Analysis(), Statistics.of(found, Analysis()), found)
    queries = [random_query(rng, 2) for _ in range(300)]
    shares = [np.mean([holds(query, document, known) for document in found]) for query in queries]
    assert 0.2 < np.mean(shares) < 0.6
    assert np.mean([0 < share < 1 for share in shares]) > 0.65
    kinds = {type(atom) for query in queries if not isinstance(query, And | Or | Not) for atom in atoms(query)}
    assert kinds == {Words, Near, Equals, Prefix, Exists, Range, Similar, In}


def test_the_small_vocabulary_is_single_words():
    assert all(len(words(each)) == 1 for each in SMALL_VOCABULARY)


def test_random_documents_are_documents_that_a_stranger_could_send():
    for document in random_documents(np.random.default_rng(9), 200):
        assert document_from_json(document_to_json(document)) == document


# --- the subscriptions written by hand -------------------------------------------------------------------------------

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.row("X1")
def test_the_subscriptions_for_acl_papers_use_every_operator_and_form():
    lines = (EXAMPLES / "acl_subscriptions.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    assert len(entries) == len({entry["id"] for entry in entries}) == len({entry["query"] for entry in entries}) == 200
    assert all(list(entry) == ["id", "query", "name"] and all(entry.values()) for entry in entries)
    queries = [parse_subscription(entry["query"]) for entry in entries]
    assert {form for query in queries for form in forms(query)} >= FORMS
    text = "\n".join(entry["query"] for entry in entries)
    signs = (
        " NOT ",
        " !",
        " -",
        " >= ",
        " > ",
        " < ",
        " <= ",
        " = ",
        "\\+",
        '\\"',
        ":* ",
        "id:",
        "source",
        "time",
        "NEAR[",
    )
    assert [sign for sign in signs if sign not in text] == []
    deep = [query for query in queries if any(any(nested(part.query)) for part in nested(query))]
    assert len(deep) == 2
