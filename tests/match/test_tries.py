"""The engines of P2P-DIET §4: tries against their plain twins, their invariants, every engine against the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.strategies import corpora, meanings
from tocsin.errors import SettingError
from tocsin.match import awp_kernels
from tocsin.match.brute import Brute
from tocsin.match.tries import AwpEngine, BestFitTrie, PrefixTrie, Sequential, Swin, flat, plain
from tocsin.match.tries.awp import Chain, Conjunction, Equality, Pattern, conjunctions
from tocsin.match.tries.engine import ORDERS
from tocsin.match.tries.numbers import Numbers, ProximityArray, Vocabulary
from tocsin.match.tries.occurrence import Occurrences
from tocsin.model import Document
from tocsin.query import Knowledge, Query, Statistics, holds, parse
from tocsin.query.ast import Near
from tocsin.sim.workload import random_documents, random_query
from tocsin.text import Analysis

MIXED = Analysis({"title": "english", "author": "keyword"})
ENGINES: list[Callable[..., AwpEngine]] = [Sequential, Swin, PrefixTrie, BestFitTrie]
FORESTS = {"prefix": (plain.common_prefix, True), "best fit": (plain.best_fit, False)}

by_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
by_forest = pytest.mark.parametrize("kind", FORESTS)

WORDS = st.integers(1, 9)
SETS = st.lists(WORDS, min_size=1, max_size=6, unique=True)


class Twins:
    """A plain and a flat forest that are told the same, and checked after every step."""

    def __init__(self, kind: str) -> None:
        choose, by_prefix = FORESTS[kind]
        self.plain, self.flat = plain.Forest(choose), flat.Forest(by_prefix)
        self.by_prefix = by_prefix
        self.numbers = self.plain.open(), self.flat.open()
        self.sets: dict[int, frozenset[plain.Word]] = {}

    def insert(self, words: Iterable[int], formula: int) -> None:
        ordered = sorted(words) if self.by_prefix else list(words)
        self.plain.insert(self.numbers[0], ordered, formula)
        self.flat.insert(self.numbers[1], ordered, formula)
        self.sets[formula] = frozenset(ordered)

    def remove(self, formula: int) -> None:
        self.plain.remove(formula)
        self.flat.remove(formula)
        del self.sets[formula]

    def check(self) -> None:
        nodes = list(self.plain.stored(self.numbers[0]))
        assert set(nodes) == set(self.flat.stored(self.numbers[1]))
        plain.check(nodes, self.sets)
        assert self.plain.nodes == self.flat.nodes == len(nodes)

    def check_filter(self, words: Iterable[int]) -> None:
        found = frozenset(words)
        expected = sorted(formula for formula, wanted in self.sets.items() if wanted <= found)
        assert self.plain.qualifying(self.numbers[0], found) == expected
        assert qualifying(self.flat, self.numbers[1], found) == expected


def qualifying(store: flat.Store, directory: int, words: Iterable[int]) -> list[int]:
    """What the store finds for a document with these words."""
    distinct = np.array(sorted(words), np.int32)
    present = np.zeros(2 + int(distinct.max(initial=200)), np.uint8)
    present[distinct] = 1
    return sorted(store.qualifying(directory, present, distinct).tolist())


# --- forests ---------------------------------------------------------------------------------------------------------


@pytest.mark.row("P12", "P13")
@by_forest
@given(sets=st.lists(SETS, max_size=25), data=st.data())
def test_invariants_hold_after_every_insertion_and_deletion(kind, sets, data):
    twins = Twins(kind)
    for formula, words in enumerate(sets):
        twins.insert(words, formula)
        twins.check()
        if data.draw(st.booleans()):
            twins.remove(data.draw(st.sampled_from(sorted(twins.sets))))
            twins.check()
    twins.check_filter(data.draw(st.sets(WORDS)))
    for formula in data.draw(st.permutations(sorted(twins.sets))):
        twins.remove(formula)
        twins.check()
    assert twins.flat.nodes == 0


@pytest.mark.row("P13")
@by_forest
def test_sets_inside_each_other_in_every_order_of_insertion(kind):
    nested = [(1,), (1, 2), (2, 1, 3), (3, 2), (3, 1), (2, 3, 1)]
    for order in permutations(nested):
        twins = Twins(kind)
        for formula, words in enumerate(order):
            twins.insert(words, formula)
        twins.check()
        for document in [(), (1,), (2,), (1, 2), (2, 3), (1, 3), (1, 2, 3), (1, 2, 3, 4)]:
            twins.check_filter(document)


@by_forest
def test_forests_at_volume(kind):
    """Wide nodes become hash tables and shrink again; long Remainders leave the node; blocks are used again."""
    rng = np.random.default_rng(5)
    twins = Twins(kind)
    for formula in range(4_000):
        size = int(rng.integers(1, 5)) if rng.random() < 0.9 else int(rng.integers(5, 40))
        words = 1 + np.minimum(rng.zipf(1.3, size), 190)
        twins.insert(dict.fromkeys(words.tolist()), formula)
        if rng.random() < 0.3:
            twins.remove(int(rng.choice(list(twins.sets))))
    twins.check()
    for _ in range(30):
        twins.check_filter(set((1 + rng.choice(199, 60, replace=False)).tolist()))
    used = twins.flat.bytes
    for formula in list(twins.sets)[::2]:
        twins.remove(formula)
    twins.check()
    assert twins.flat.bytes < used
    for formula in list(twins.sets):
        twins.remove(formula)
    assert twins.flat.nodes == 0


@by_forest
def test_equal_sets_share_a_node_and_leave_it_one_by_one(kind):
    twins = Twins(kind)
    for formula in range(5):
        twins.insert((1, 2, 3), formula)
        assert twins.flat.nodes == 1
    for formula in (2, 0, 4):
        twins.remove(formula)
        twins.check()
        twins.check_filter((1, 2, 3))


def test_a_root_with_many_children_is_not_searched_one_by_one():
    forest = flat.Forest(by_prefix=False)
    directory = forest.open()
    count = 30_000
    words = np.stack([np.ones(count, np.int32), np.arange(2, count + 2, dtype=np.int32)], axis=1).ravel()
    forest.insert_many(directory, np.arange(0, 2 * count + 1, 2), words, np.arange(count, dtype=np.int32))
    assert forest.nodes == count + 1
    assert qualifying(forest, directory, [1, 7, 9, count + 1]) == [5, 7, count - 1]  # looked up, not read
    for formula in range(0, count, 2):
        forest.remove(formula)
    assert forest.nodes == count // 2 + 1
    assert qualifying(forest, directory, [1, 7, 9, 10, 12, count + 1]) == [5, 7, count - 1]


def test_a_search_that_would_be_exponential_is_cut_short(monkeypatch):
    """Long sets of the same few words: a trie holds them in many orders, and the paper's search follows every one."""
    cut, down = [], plain._down

    def counted(node: plain.Node, words: Sequence[plain.Word]) -> plain.Node:
        cut.append(node)
        return down(node, words)

    monkeypatch.setattr(plain, "_down", counted)
    rng = np.random.default_rng(3)
    twins = Twins("best fit")
    for formula in range(2_000):
        twins.insert(rng.permutation(np.arange(1, 25))[: rng.integers(8, 24)].tolist(), formula)
    assert len(cut) > 10
    nodes = list(twins.flat.stored(twins.numbers[1]))
    assert set(nodes) == set(twins.plain.stored(twins.numbers[0]))
    assert len({node.path for node in nodes}) == len(nodes)
    twins.check_filter(range(1, 25))
    twins.check_filter(range(1, 23))
    for formula in range(2_000):
        twins.remove(formula)
    assert twins.flat.nodes == twins.plain.nodes == 0


@pytest.mark.parametrize("by_word", [True, False], ids=["SWIN", "scan"])
@given(sets=st.lists(SETS, min_size=1, max_size=30), gone=st.sets(st.integers(0, 29)), document=st.sets(WORDS))
def test_lists_equal_their_twins(by_word, sets, gone, document):
    twin: plain.Postings | plain.Scan = plain.Postings() if by_word else plain.Scan()
    lists = flat.Lists(by_word)
    numbers = twin.open(), lists.open()
    for formula, words in enumerate(sets):
        twin.insert(numbers[0], words, formula)
        lists.insert(numbers[1], words, formula)
    for formula in gone & set(range(len(sets))):
        twin.remove(formula)
        lists.remove(formula)
    assert qualifying(lists, numbers[1], document) == twin.qualifying(numbers[0], document)
    left = np.array(sorted(set(range(len(sets))) - gone), np.int32)
    offsets, words, _ = lists.sets(left)
    assert [set(words[a:b]) for a, b in pairwise(offsets)] == [set(sets[f]) for f in left]
    for formula in left.tolist():
        twin.remove(formula)
        lists.remove(formula)
    assert lists.nodes == 0
    twin.close(numbers[0])
    lists.close(numbers[1])


# --- documents -------------------------------------------------------------------------------------------------------


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    words = draw(st.lists(st.sampled_from("abc"), min_size=2, max_size=4))
    gap = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda pair: (min(pair), max(pair)))
    return Chain(tuple(words), tuple(draw(gap) for _ in words[1:]), draw(st.booleans()))


@given(values=st.lists(st.lists(st.sampled_from("abcd"), max_size=8), min_size=1, max_size=3), chain=chains())
def test_proximity_kernel_and_occurrence_table_agree(values, chain):
    document = Document("d", {"t": tuple(" ".join(value) for value in values)})
    engine = BestFitTrie()
    engine.add(1, Near("t", chain.words, chain.gaps, chain.ordered))
    expected = Occurrences.of(document, Analysis()).has(("t", "standard"), chain)
    assert engine.match([document], Knowledge()) == [[1] if expected else []]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_positions_are_sorted_by_word(words):
    numbers = np.array(words, np.int32)
    present, distinct, rows = np.zeros(6, np.uint8), np.zeros(len(words), np.int32), np.zeros(6, np.int32)
    distinct = distinct[: awp_kernels.mark_words(numbers, present, distinct)]
    assert distinct.tolist() == [word for word in dict.fromkeys(words) if word]
    first, positions = np.zeros(len(distinct) + 1, np.int64), np.zeros(len(words), np.int64)
    awp_kernels.sort_positions(numbers, np.arange(len(words)), distinct, rows, first, positions)
    for row, word in enumerate(distinct.tolist()):
        found = positions[first[row] : first[row + 1]].tolist()
        assert found == [at for at, other in enumerate(words) if other == word]
    awp_kernels.clear_words(distinct, present)
    assert not present.any()


@given(owners=st.lists(st.integers(0, 6), min_size=1, max_size=20), data=st.data())
def test_counting_finds_the_conjunctions_all_of_whose_formulas_were_found(owners, data):
    total = np.bincount(owners, minlength=7).astype(np.uint16)
    alone = [total[owner] == 1 and owner % 2 == 0 for owner in owners]
    codes = np.array([~owner if is_all else owner for owner, is_all in zip(owners, alone, strict=True)], np.int32)
    formulas = data.draw(st.permutations(range(len(owners))))[: data.draw(st.integers(0, len(owners)))]
    counting = awp_kernels.Counting(codes, np.arange(100, 107), total, np.zeros(7, np.uint16))
    queries, complete = np.zeros(20, np.int64), np.zeros(20, np.int32)
    found = awp_kernels.count_formulas(np.array(formulas, np.int32), counting, queries, complete)
    counted = Counter(owners[formula] for formula in formulas)
    by_one = {owners[formula] + 100 for formula in formulas if alone[formula]}
    assert set(queries[: found[0]].tolist()) == by_one
    assert set(complete[: found[1]].tolist()) == {
        c for c in counted if counted[c] == total[c] and c + 100 not in by_one
    }
    assert not counting.counts.any()


# --- queries as conjunctions -----------------------------------------------------------------------------------------


def test_a_clause_has_one_pattern_for_each_field():
    (found,) = conjunctions(parse('title:(p2p AND grid) AND title:"a b" AND author:smith AND year = "x"'), Analysis())
    title = Pattern(frozenset({"p2p", "grid", "a", "b"}), (Chain(("a", "b"), ((0, 0),)),))
    patterns = {("title", "standard"): title, ("author", "standard"): Pattern(frozenset({"smith"}))}
    assert found == Conjunction(patterns, frozenset({Equality("year", ("x",))}))
    assert found.total == 3


def test_a_phrase_over_a_dropped_word_keeps_its_distance():
    (found,) = conjunctions(parse('title:"state of the art"', MIXED), MIXED)
    assert found.patterns["title", "english"].chains == (Chain(("state", "art"), ((2, 2),)),)


def test_what_holds_in_several_ways_becomes_several_conjunctions():
    numbers = conjunctions(parse("year:2004"), Analysis())
    assert [(set(one.patterns), set(one.equalities)) for one in numbers] == [
        ({("year", "standard")}, set()),
        (set(), {("year", 2004.0)}),
    ]
    places = [set(one.patterns) for one in conjunctions(parse("peers", MIXED), MIXED)]
    assert places == [{("", "standard")}, {("", "english")}, {("", "keyword")}]


def test_what_awp_lacks_is_left_to_the_oracle():
    (found,) = conjunctions(parse("peer AND NOT grid AND year > 5 AND inf*"), Analysis())
    assert set(found.patterns) == {("", "standard")}
    assert found.rest == parse("NOT grid AND year > 5 AND inf*")


def test_without_a_clause_form_a_query_waits_at_its_anchors():
    query = parse(" AND ".join(f"(a{n} OR b{n})" for n in range(12)))
    found = conjunctions(query, Analysis())
    assert {word for one in found for pattern in one.patterns.values() for word in pattern.words} == {"a0", "b0"}
    assert all(one.rest == query for one in found)
    assert [one.total for one in conjunctions(parse("NOT a"), Analysis())] == [0]


# --- engines ---------------------------------------------------------------------------------------------------------


def oracle(queries: dict[int, Query], documents: list[Document], knowledge: Knowledge) -> list[list[int]]:
    return [sorted(n for n, query in queries.items() if holds(query, document, knowledge)) for document in documents]


@pytest.mark.row("P14")
@by_engine
@given(queries=st.lists(meanings(6), min_size=1, max_size=4), documents=corpora(), mixed=st.booleans())
def test_every_engine_equals_the_oracle(engine, queries, documents, mixed):
    analysis = MIXED if mixed else Analysis()
    knowledge = Knowledge(analysis, Statistics.of(documents, analysis), documents)
    index = engine(analysis)
    for number, query in enumerate(queries):
        index.add(number, query)
    assert index.match(documents, knowledge) == oracle(dict(enumerate(queries)), documents, knowledge)


@pytest.mark.row("P14", "P15")
@pytest.mark.parametrize("order", ORDERS)
@by_engine
def test_queries_come_and_go_and_the_index_is_rebuilt(engine, order):
    rng = np.random.default_rng(17)
    documents = random_documents(rng, 25)
    statistics = Statistics.of(documents, MIXED)
    knowledge = Knowledge(MIXED, statistics)
    index = engine(MIXED, order, statistics.frequency)
    empty = index.bytes
    queries: dict[int, Query] = {}
    for number in range(200):
        queries[number] = random_query(rng, number % 4, nested=False)
        index.add(number, queries[number])
        if rng.random() < 0.3:
            gone = int(rng.choice(list(queries)))
            index.remove(gone)
            del queries[gone]
        if number % 50 == 49:
            assert index.match(documents, knowledge) == oracle(queries, documents, knowledge)
            index.reorganise()
            assert index.match(documents, knowledge) == oracle(queries, documents, knowledge)
    for number in list(queries):
        index.remove(number)
    assert index.match(documents, knowledge) == [[] for _ in documents]
    assert index.nodes == 0
    assert index.bytes == empty


@by_engine
def test_an_index_follows_the_analysis_that_documents_are_read_with(engine):
    index, brute = engine(), Brute()
    for number, text in enumerate(["title:peers", "title:peer", "peers", 'author:"john smith"', "author:john"]):
        index.add(number, parse(text))
        brute.add(number, parse(text))
    documents = [Document("d", {"title": ("Peers",), "author": ("John Smith",)})]
    for analysis in (Analysis(), MIXED, Analysis()):
        assert index.match(documents, Knowledge(analysis)) == brute.match(documents, Knowledge(analysis))


@by_engine
def test_queries_that_are_looked_at_by_themselves_are_counted_and_their_errors_kept(engine):
    index = engine()
    queries = {1: "a", 2: "a AND NOT b", 3: "NOT b", 4: "z AND NOT b", 5: "huge > 1 AND a", 6: "huge = 1"}
    for number, text in queries.items():
        index.add(number, parse(text))
    documents = [Document("d", {"t": ("a",)}), Document("e", {"t": ("a b",), "huge": (10**400,)})]
    assert index.match(documents, Knowledge()) == [[1, 2, 3], [1]]
    assert index.counts.documents == 2
    assert index.counts.tried == {2: 2, 3: 2, 5: 2}
    assert index.counts.candidates == 6
    assert list(index.counts.errors) == [5]


@by_engine
def test_phrases_and_proximity_stay_inside_one_value(engine):
    index = engine()
    for number, text in enumerate(['"b c"', "t:(b NEAR/999999999 c)", "t:(b AND c)", "b NEAR[0,999999999] c", '"a b"']):
        index.add(number, parse(text))
    assert index.match([Document("d", {"t": ("a b", "c d")})], Knowledge()) == [[2, 4]]


@by_engine
def test_many_formulas_and_many_equal_queries(engine):
    index = engine()
    index.add(0, parse(" AND ".join(f"f{n}:x" for n in range(300))))
    for number in range(1, 50):
        index.add(number, parse("f1:x AND f2:x"))
    document = Document("d", {f"f{n}": ("x",) for n in range(300)})
    assert index.match([document], Knowledge()) == [list(range(50))]
    short = Document("d", {f"f{n}": ("x",) for n in range(1, 300)})
    assert index.match([short, document], Knowledge()) == [list(range(1, 50)), list(range(50))]


@pytest.mark.row("P15")
def test_the_index_reorganises_itself_by_and_by():
    rng = np.random.default_rng(2)
    texts = [" ".join({f"w{min(word, 60)}" for word in rng.zipf(1.4, rng.integers(2, 6))}) for _ in range(400)]
    by_itself, never = BestFitTrie(reorganise_after=100), BestFitTrie()
    for number, text in enumerate(texts):
        by_itself.add(number, parse(text))
        never.add(number, parse(text))
    assert by_itself.nodes < never.nodes
    document = Document("d", {"t": (" ".join(f"w{n}" for n in range(20)),)})
    assert by_itself.match([document], Knowledge()) == never.match([document], Knowledge())


def test_an_unknown_order_of_words_is_refused():
    with pytest.raises(SettingError, match="one of words, rarest, commonest"):
        BestFitTrie(order="random")


def test_numbers_words_and_chains_are_given_back():
    numbers = Numbers()
    assert [numbers.take(), numbers.take()] == [0, 1]
    numbers.give(0)
    assert [numbers.take(), numbers.take(), numbers.end] == [0, 2, 3]
    vocabulary = Vocabulary()
    assert vocabulary.take(["a", "b", "a"]) == [1, 2, 1]
    vocabulary.give([1, 2])
    assert vocabulary.number_of == {"a": 1}
    assert vocabulary.take(["c"]) == [2]
    proximity = ProximityArray()
    empty = proximity.bytes
    near, far = Chain(("a", "c"), ((0, 5),)), Chain(("c", "a", "a"), ((0, 0), (1, 9)), ordered=False)
    for formula in range(99):
        proximity.put(formula, [[], [near], [near, far]][formula % 3], vocabulary.number_of)
    assert [proximity.has(formula) for formula in range(3)] == [False, True, True]
    assert proximity.bytes < 99 * 20  # each chain once
    for formula in range(99):
        proximity.remove(formula)
    assert proximity.bytes == empty


@pytest.mark.row("P14")
@pytest.mark.slow
@by_engine
@pytest.mark.parametrize("seed", range(20))
def test_every_engine_equals_the_oracle_at_volume(engine, seed):
    rng = np.random.default_rng([seed, 41])
    documents = random_documents(rng, 60)
    analysis = MIXED if seed % 2 else Analysis()
    knowledge = Knowledge(analysis, Statistics.of(documents, analysis))
    queries = {number: random_query(rng, 1 + number % 4, nested=False) for number in range(400)}
    index = engine(analysis)
    for number, query in queries.items():
        index.add(number, query)
    assert index.match(documents, knowledge) == oracle(queries, documents, knowledge)
