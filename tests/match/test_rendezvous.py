"""Joins between a document and the queries of one node: equal to the oracle; and every payload survives the wire."""

from __future__ import annotations

import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import Analysis, Document, Knowledge, QueryError, Statistics, holds, parse, show
from tocsin.match import bloom_reference
from tocsin.match.bloom_kernels import route_words
from tocsin.match.lexicon import pack
from tocsin.match.rendezvous.bloom import BloomFilter, PartFilters, false_rate, hashes_of
from tocsin.match.rendezvous.conversation import DocumentSide, QuerySide, converse
from tocsin.match.rendezvous.dialogue import Dialogue, DialogueSettings
from tocsin.match.rendezvous.payload import (
    JOINS,
    Answers,
    Check,
    Join,
    Notice,
    PackedDocument,
    Queries,
    Questions,
    decode,
    encode,
)
from tocsin.match.rendezvous.registered import held_keys, register, word_clauses
from tocsin.query import Query
from tocsin.query.normal import Key
from tocsin.sim.workload import random_documents, random_query

MIXED = Analysis({"title": "english", "author": "keyword"})
SETTINGS = [
    DialogueSettings(),
    DialogueSettings(words_per_round=1),
    DialogueSettings(words_per_round=3, singletons_first=False),
]


# --- every join is exact ---------------------------------------------------------------------------------------------


def acceptable(rng: np.random.Generator, depth: int, analysis: Analysis, *, nested: bool) -> Query:
    """A random query that can be written down under the analysis (a lone stop word cannot)."""
    while True:
        with suppress(QueryError):
            return parse(show(random_query(rng, depth, nested=nested)), analysis)


def check_joins(seed: int, queries: int, documents: int, depth: int = 4) -> int:
    """Compares every join with the oracle; returns how many pairs matched."""
    rng = np.random.default_rng([seed, 7])
    analysis = MIXED if seed % 2 else Analysis()
    found = random_documents(rng, documents)
    knowledge = Knowledge(analysis, Statistics.of(found, analysis), found)
    trees = {f"q{n}": acceptable(rng, 1 + n % depth, analysis, nested=n % 9 == 0) for n in range(queries)}
    asked = [register(id, query, analysis, "me@example.org") for id, query in trees.items()]
    matched = 0
    for document in found:
        expected = tuple(sorted(id for id, query in trees.items() if holds(query, document, knowledge)))
        matched += len(expected)
        for join in JOINS:
            for settings in SETTINGS:
                side = DocumentSide(document, knowledge, filter_bits=200)
                outcome = converse(side, QuerySide(asked, knowledge, settings), join)
                assert outcome.matches == expected, (join, settings)
    return matched


def test_every_join_finds_what_the_oracle_finds_for_every_kind_of_query() -> None:
    assert sum(check_joins(seed, 60, 8) for seed in range(4)) > 300


@pytest.mark.slow
def test_every_join_finds_what_the_oracle_finds_in_volume() -> None:
    assert sum(check_joins(100 + seed, 200, 30, depth=6) for seed in range(10)) > 10_000


WORDS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5, unique=True)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=12), st.sampled_from(JOINS), st.sampled_from(SETTINGS))
def test_conjunctions_of_words_are_joined_exactly(held, queries, join, settings) -> None:
    document = Document("d", {"t": (" ".join(held),)})
    asked = [register(f"{n}", parse(" ".join(each)), Analysis()) for n, each in enumerate(queries)]
    outcome = converse(DocumentSide(document, Knowledge(), 64), QuerySide(asked, Knowledge(), settings), join)
    assert outcome.matches == tuple(sorted(f"{n}" for n, each in enumerate(queries) if set(each) <= set(held)))


def test_words_of_the_notice_are_not_asked_again() -> None:
    document = Document("d", {"t": ("peer network",)})
    asked = [register("one", parse("peer"), Analysis()), register("two", parse("peer grid"), Analysis())]
    owned = [Key("", "standard", "peer")]
    outcome = converse(DocumentSide(document, Knowledge()), QuerySide(asked, Knowledge()), Join.DIALOGUE, owned)
    assert outcome.matches == ("one",)
    assert outcome.join_bytes == len(encode(Questions((Key("", "standard", "grid"),)))) + len(
        encode(Answers.of([False]))
    )


@pytest.mark.parametrize("join", JOINS)
def test_a_query_node_without_queries_says_nothing(join) -> None:
    outcome = converse(DocumentSide(Document("d", {"t": ("a",)}), Knowledge()), QuerySide([], Knowledge()), join)
    assert outcome.matches == ()
    assert outcome.messages == 0


# --- clauses by words ------------------------------------------------------------------------------------------------


def test_word_clauses_allow_every_match_and_exact_ones_nothing_else() -> None:
    rng = np.random.default_rng(5)
    documents = random_documents(rng, 60)
    knowledge = Knowledge(MIXED, Statistics.of(documents, MIXED))
    for number in range(300):
        query = random_query(rng, 1 + number % 5, nested=False)
        clauses = word_clauses(query, MIXED)
        for document in documents:
            held = held_keys(document, MIXED)
            met = [clause for clause in clauses if clause.meets(held)]
            if holds(query, document, knowledge):
                assert met
            else:
                assert not any(clause.exact for clause in met)


def test_a_query_of_too_many_clauses_is_kept_by_what_it_must_hold() -> None:
    query = parse(" AND ".join(f"(a{n} OR b{n})" for n in range(12)) + " AND rare")
    clauses = word_clauses(query, Analysis())
    assert 1 <= len(clauses) <= 64
    assert all(Key("", "standard", "rare") in clause.required for clause in clauses)


# --- dialogue --------------------------------------------------------------------------------------------------------


def key(word: str) -> Key:
    return Key("", "standard", word)


def test_a_dialogue_asks_singletons_until_there_are_none() -> None:
    asked = [register("s", parse("a"), Analysis()), register("p", parse("a b"), Analysis())]
    dialogue = Dialogue(asked, DialogueSettings(words_per_round=8))
    assert dialogue.ask() == (key("a"),)
    dialogue.learn({key("a"): True})
    assert dialogue.ask() == (key("b"),), "a new singleton"
    dialogue.learn({key("b"): False})
    assert dialogue.ask() == ()
    assert [each.id for each in dialogue.matched] == ["s"]


def test_an_eliminated_query_takes_its_words_with_it() -> None:
    asked = [register(f"q{n}", parse(f"x w{n} v{n}"), Analysis()) for n in range(20)]
    dialogue = Dialogue(asked, DialogueSettings(words_per_round=1))
    assert dialogue.ask() == (key("x"),), "it stands in most queries"
    dialogue.learn({key("x"): False})
    assert dialogue.ask() == ()
    assert not dialogue.remaining


# --- Bloom filters ---------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40)))
def test_the_hash_kernel_equals_its_twin(words) -> None:
    assert hashes_of(words).tolist() == bloom_reference.hash_words(words)


@given(
    st.lists(st.tuples(st.binary(max_size=6), st.integers(0, 4))),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9),
    st.integers(1, 5),
)
def test_the_routing_kernel_equals_its_twin(words, rows, probes) -> None:
    masks = np.zeros(5, np.uint64)
    places = np.array([place for _, place in words], np.int64)
    route_words(*pack([word for word, _ in words]), places, np.array(rows, np.uint64), probes, masks)
    expected = bloom_reference.route_words([word for word, _ in words], places.tolist(), rows, probes, 5)
    assert masks.tolist() == expected


@given(st.lists(st.binary(max_size=12)), st.integers(1, 500), st.integers(1, 16))
def test_a_filter_never_denies_what_it_was_given(words, bits, hashes) -> None:
    assert BloomFilter.of(words, bits, hashes).may_hold(words).all()


@pytest.mark.parametrize(("bits", "words"), [(10_000, 2_000), (1_000, 200), (10_000, 800), (50_000, 2_000)])
def test_a_filter_errs_as_often_as_theory_says(bits, words) -> None:
    rates = []
    for trial in range(20):
        known = BloomFilter.of([f"w{trial}.{n}".encode() for n in range(words)], bits)
        rates.append(known.may_hold([f"other{trial}.{n}".encode() for n in range(2_000)]).mean())
    assert np.mean(rates) == pytest.approx(false_rate(bits, words), rel=0.15, abs=2e-5)


@given(st.lists(st.lists(st.binary(max_size=6), max_size=20), min_size=1, max_size=64))
def test_filters_of_parts_name_every_part_that_holds_a_word(parts) -> None:
    filters = PartFilters.of(parts)
    for part, words in enumerate(parts):
        assert all(int(mask) >> part & 1 for mask in filters.parts_of(hashes_of(words)))


def test_filters_of_parts_name_few_others() -> None:
    parts = [[f"{part}.{n}".encode() for n in range(500)] for part in range(8)]
    strangers = PartFilters.of(parts).parts_of(hashes_of([f"stranger{n}".encode() for n in range(5_000)]))
    assert np.bitwise_count(strangers).sum() / (8 * 5_000) < 0.003


# --- the wire --------------------------------------------------------------------------------------------------------

PAYLOADS = [
    Notice(Join.DIALOGUE, "d", 3, (key("peer"), Key("title", "english", "run"))),
    Notice(Join.SEND_DOCUMENT, "d", 1, (), PackedDocument.of(Document("d", {"t": ("x",)}))),
    Notice(Join.BLOOM_QUERY, "d", 1, (key("a"),), BloomFilter.of([b"a"], 100)),
    Questions((key("a"), key("b"))),
    Answers.of([True, False, True] * 5),
    Queries((("id", "a b", "metadata"),)),
    Check(('"a b"',)),
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: type(payload).__name__)
def test_a_payload_survives_the_wire(payload) -> None:
    assert decode(encode(payload)) == payload


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: type(payload).__name__)
def test_a_damaged_payload_is_refused_or_another_payload(payload) -> None:
    """No exception but ValueError, whatever arrives."""
    data = encode(payload)
    rng = np.random.default_rng(1)
    for _ in range(400):
        spoiled = bytearray(data)
        spoiled[rng.integers(len(spoiled))] ^= int(rng.integers(1, 256))
        for candidate in (bytes(spoiled), data[: rng.integers(len(data))]):
            with suppress(ValueError):
                decode(candidate)


def test_a_document_that_unpacks_to_too_much_is_refused() -> None:
    bomb = PackedDocument(zlib.compress(b'{"id": "' + b"a" * 10_000_000))
    with pytest.raises(ValueError, match="more than 1000000 bytes"):
        bomb.unpacked(1_000_000)
    with pytest.raises(ValueError, match="no document"):
        PackedDocument(b"junk").unpacked()


@given(st.lists(st.booleans()))
def test_answers_are_one_bit_each(answers) -> None:
    packed = Answers.of(answers)
    assert packed.unpacked() == answers
    assert len(packed.bits) == (len(answers) + 7) // 8


def test_a_side_refuses_what_it_does_not_expect() -> None:
    document = DocumentSide(Document("d", {"t": ("a",)}), Knowledge())
    with pytest.raises(ValueError, match="does not expect Answers"):
        document.receive(Answers.of([True]))
    with pytest.raises(ValueError, match="does not expect Answers"):
        QuerySide([], Knowledge()).receive(Answers.of([True]))
