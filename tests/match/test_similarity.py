"""Similarity: the index finds exactly what the definition says, at every threshold, whatever the statistics."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import Analysis, Document, Statistics
from tocsin.errors import QueryError, SettingError
from tocsin.intake import document_to_json
from tocsin.match import similarity, similarity_reference
from tocsin.match.index import IndexEngine, QueryIndex
from tocsin.match.lines import Lines
from tocsin.match.matcher import Matcher
from tocsin.match.registry import Registry
from tocsin.match.similarity import SimilarityIndex
from tocsin.match.similarity_kernels import tails
from tocsin.match.written import Entry
from tocsin.model import Subscription
from tocsin.query import Knowledge, Query, holds, parse, parse_subscription, show
from tocsin.query.ast import And, Near, Not, Or, Similar, Words, atoms
from tocsin.query.score import Vector, cosine, word_counts
from tocsin.query.vector import detached, to_text

MIXED = Analysis({"abstract": "english"})


def texts_of(rng: np.random.Generator, count: int, words: int, vocabulary: int) -> list[str]:
    """Texts of Zipf-distributed words."""
    ranks = np.arange(1, vocabulary + 1)
    chances = 1 / ranks / (1 / ranks).sum()
    sizes = rng.integers(1, words + 1, count)
    return [" ".join(f"w{rank}" for rank in rng.choice(vocabulary, size, p=chances)) for size in sizes]


def documents_of(rng: np.random.Generator, count: int) -> list[Document]:
    return [
        Document(f"{number}", {"abstract": (abstract,), "title": (title,)} if number % 7 else {"title": (title,)})
        for number, (abstract, title) in enumerate(
            zip(texts_of(rng, count, 40, 300), texts_of(rng, count, 6, 300), strict=True)
        )
    ]


class Asked:
    """The oracle's side: `holds` of every pair."""

    def __init__(self) -> None:
        self.atoms: dict[int, Similar] = {}

    def match(self, documents: list[Document], statistics: Statistics, analysis: Analysis) -> list[list[int]]:
        knowledge = Knowledge(analysis, statistics)
        return [
            [number for number, atom in sorted(self.atoms.items()) if holds(atom, document, knowledge)]
            for document in documents
        ]


THRESHOLDS = (0, 1e-12, 1e-7, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1)


@pytest.mark.parametrize("seed", range(12))
def test_the_index_finds_exactly_what_holds(seed, monkeypatch):
    """Texts come, go and change their thresholds between batches; statistics change too."""
    monkeypatch.setattr(similarity, "CHANGES_MIN", 8)  # large and small segments, and the way between them
    rng = np.random.default_rng([seed, 5])
    analysis = MIXED if seed % 2 else Analysis()
    collection = documents_of(rng, 60)
    index, asked = SimilarityIndex(analysis), Asked()
    statistics = Statistics.of(collection, analysis)
    found = 0
    for step in range(8):
        some = texts_of(rng, 15, 12, 300)
        near_copies = [str(value) for one in collection[:4] for value in one.fields.get("abstract", ())]
        for text in [*some, *near_copies, "!!!"]:
            number = len(asked.atoms) + 1000 * step
            atom = Similar(str(rng.choice(["abstract", "title"])), text, float(rng.choice(THRESHOLDS)))
            asked.atoms[number] = atom
            index.add(number, atom.field, atom.text, atom.threshold)
        for number in rng.choice(list(asked.atoms), 6, replace=False).tolist():
            atom = asked.atoms[number]
            asked.atoms[number] = Similar(atom.field, atom.text, float(rng.choice(THRESHOLDS)))
            index.change(number, asked.atoms[number].threshold)
        for number in rng.choice(list(asked.atoms), 3, replace=False).tolist():
            del asked.atoms[number]
            index.remove(number)
        if step % 3 == 2:
            statistics = Statistics.of(collection[: 10 * step], analysis)
        batch = [collection[at] for at in rng.integers(0, len(collection), 10)]
        expected = asked.match(batch, statistics, analysis)
        assert index.match(batch, statistics) == expected
        found += sum(map(len, expected))
    assert len(index) == len(asked.atoms)
    assert found > 100


@pytest.mark.row("S18")
def test_a_new_threshold_is_in_force_for_the_next_document():
    """SmartSeer §VI-C: the user varies the threshold, and the next document obeys."""
    documents = [Document("a", {"abstract": ("peer to peer networks",)}), Document("b", {"abstract": ("gardens",)})]
    statistics = Statistics.of(documents, Analysis())
    score = cosine(
        Vector.of(word_counts(documents[0], Analysis(), "abstract"), statistics),
        Vector.of({"peer": 1, "networks": 1}, statistics),
    )
    index = SimilarityIndex(Analysis())
    index.add(3, "abstract", "peer networks", score)
    assert index.match(documents, statistics) == [[3], []]  # at least the threshold: equal is enough
    index.change(3, score + 1e-11)
    assert index.match(documents, statistics) == [[], []]
    index.change(3, 0.1)
    assert index.match(documents, statistics) == [[3], []]
    index.change(3, 0)
    assert index.match(documents, statistics) == [[3], [3]]
    index.remove(3)
    assert index.match(documents, statistics) == [[], []]


def test_equal_texts_have_cosine_one():
    texts = texts_of(np.random.default_rng(1), 50, 30, 100)
    documents = [Document(f"{number}", {"abstract": (text,)}) for number, text in enumerate(texts)]
    statistics = Statistics.of(documents, Analysis())
    index = SimilarityIndex(Analysis())
    for number, text in enumerate(texts):
        index.add(number, "abstract", text, 1)
    found = index.match(documents, statistics)
    assert all(number in numbers for number, numbers in enumerate(found))
    assert index.exact_checks >= len(texts)


def test_without_statistics_nothing_is_similar():
    index = SimilarityIndex(Analysis())
    index.add(0, "abstract", "peer", 0.5)
    index.add(1, "abstract", "peer", 0)
    assert index.match([Document("a", {"abstract": ("peer",)})], Statistics()) == [[1]]


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan")])
def test_a_threshold_outside_zero_to_one_is_refused(threshold):
    index = SimilarityIndex(Analysis())
    with pytest.raises(SettingError, match="between 0 and 1"):
        index.add(0, "abstract", "peer", threshold)
    index.add(0, "abstract", "peer", 0.5)
    with pytest.raises(SettingError, match="between 0 and 1"):
        index.change(0, threshold)
    if threshold == 1.5:
        with pytest.raises(QueryError, match="threshold"):
            parse_subscription(f'abstract ~ "peer" >= {threshold}')


# --- among other queries ---------------------------------------------------------------------------------------------


def similar_query(rng: np.random.Generator, collection: list[Document]) -> Query:
    """`~` alone, beside words, under NOT and OR; some texts are near a document, some are asked for again and again."""

    def atom() -> Similar:
        near = " ".join(rng.permutation(str(collection[int(rng.integers(9))].fields["title"][0]).split())[:5])
        text = str(rng.choice([near, *texts_of(rng, 1, 12, 300), "w1 w2 w9"]))
        return Similar(str(rng.choice(["abstract", "title"])), text, float(rng.choice(THRESHOLDS)))

    word = parse(f"w{rng.integers(1, 12)}")
    forms: list[Query] = [
        atom(),
        And((word, atom())),
        Or((word, atom())),
        Not(atom()),
        And((word, Not(atom()))),
        And((Or((atom(), word)), Or((atom(), atom())))),
    ]
    return forms[int(rng.integers(len(forms)))]


@pytest.mark.parametrize("seed", range(10))
def test_a_registry_of_similar_texts_equals_the_oracle(seed, tmp_path, monkeypatch):
    """Queries come, go, are edited, saved and opened, and statistics change; documents come as objects and as lines."""
    monkeypatch.setattr(similarity, "CHANGES_MIN", 8)
    rng = np.random.default_rng([seed, 6])
    analysis = MIXED if seed % 2 else Analysis()
    collection = documents_of(rng, 70)
    lines = Lines.of([document_to_json(document).encode() for document in collection])
    registry, truth = Registry(analysis), dict[str, Query]()
    statistics = Statistics.of(collection, analysis)
    found = 0
    for step in range(6):
        for _ in range(12):
            id, query = f"s{rng.integers(25)}", similar_query(rng, collection)
            registry.add(id, show(query))
            truth[id] = query
        for id in [id for id in truth if rng.random() < 0.15]:
            registry.remove(id)
            del truth[id]
        if step % 3 == 1:
            registry.save(tmp_path)
            registry = Registry.open(tmp_path, verify=True)
            if seed % 3 == 0:  # saved again before anything was read
                registry.save(tmp_path)
                registry = Registry.open(tmp_path)
        if step % 3 == 2:
            statistics = Statistics.of(collection[: 10 * step], analysis)
        knowledge = Knowledge(analysis, statistics)
        expected = {
            (place, id)
            for place, document in enumerate(collection)
            for id, query in truth.items()
            if holds(query, document, knowledge)
        }
        assert set(registry.match(collection, knowledge).matches) == expected
        told = registry.match_lines(lines, knowledge)
        assert set(zip(told.places.tolist(), registry.names(told.owners).to_pylist(), strict=True)) == expected
        found += len(expected)
    assert found > 500
    asked = {atom for query in truth.values() for atom in atoms(query) if isinstance(atom, Similar)}
    assert len(registry.index.interner.similar) == len(asked)  # what nobody asks for is compared no more


def test_similar_texts_are_looked_at_by_no_query_of_its_own():
    """`~` is a key: what it costs a query is to wait for it."""
    documents = [Document(f"{n}", {"abstract": (f"peer w{n}",)}) for n in range(20)]
    index = QueryIndex(Analysis())
    for number in range(20):
        index.add(parse(f'abstract ~ "w{number} peer" >= 0.9 AND peer'))
    owners, places = index.match(documents, Knowledge(statistics=Statistics.of(documents, Analysis())))
    assert (owners.tolist(), places.tolist()) == (list(range(20)), list(range(20)))
    assert (index.counts.candidates, index.counts.checks) == (0, 0)


@pytest.mark.row("S18")
def test_a_continuous_result_has_its_score_and_obeys_a_threshold_that_changes_live():
    """SmartSeer §VI-C: keywords and a threshold; the subscription is edited, and the next document obeys."""
    rng = np.random.default_rng(8)
    documents = [Document(f"{n}", {"abstract": (text,)}) for n, text in enumerate(texts_of(rng, 60, 12, 30))]
    statistics = Statistics.of(documents, Analysis())
    knowledge = Knowledge(Analysis(), statistics)
    counts = Counter(word for document in documents for word in set(str(document.fields["abstract"][0]).split()))

    def cosine_with(asked: list[str], document: Document) -> float:
        """By hand, with numpy: SmartSeer §II."""
        vocabulary = sorted(counts | Counter(asked))
        rarity = np.array([np.log(1 + len(documents) / max(1, counts[word])) for word in vocabulary])
        bags = Counter(asked), Counter(str(document.fields["abstract"][0]).split())
        one, two = (rarity * [1 + np.log(bag[word]) if bag[word] else 0.0 for word in vocabulary] for bag in bags)
        return float(one @ two / (np.linalg.norm(one) * np.linalg.norm(two)))

    registry, outcomes = Registry(), Counter[bool]()
    for document in documents:
        exact = round(cosine_with(["w1", "w2", "w5"], document), 12)
        for threshold in (min(1, exact + 1e-6), 0.9, exact / 2, 0.3, max(0, exact - 1e-6)):
            registry.add("mine", f'w1 AND abstract ~ "w1 w2 w5" >= {threshold:.12f}')
            expected = "w1" in str(document.fields["abstract"][0]).split() and exact >= round(threshold, 12)
            assert bool(registry.match([document], knowledge).matches) == expected
            outcomes[expected] += 1
    assert min(outcomes[True], outcomes[False]) > 50
    mine = Subscription("mine", parse('w1 AND abstract ~ "w1 w2 w5" >= 0.3'), "")
    hits = list(Matcher([mine], IndexEngine(Analysis()), Analysis(), statistics).match(documents))
    assert len(hits) > 5
    for hit in hits:
        assert hit.score == pytest.approx(cosine_with(["w1"], hit.document), abs=1e-9)


def test_a_threshold_outside_zero_to_one_is_refused_by_the_index_and_leaves_it_as_it_was():
    index = QueryIndex(Analysis())
    with pytest.raises(SettingError, match="between 0 and 1"):
        index.add(Similar("abstract", "peer", 1.5))
    assert (index.next_owner, len(index.interner.similar)) == (0, 0)


def test_a_field_cannot_pass_for_a_similar_text():
    """A key of `~` has no name that a document could have."""
    index = QueryIndex(Analysis())
    index.add(parse('abstract ~ "peer" >= 0.5'))
    number = index.interner.similar.number(Similar("abstract", "peer", 0.5))
    document = Document("d", {f"~{number}": ("x",), 'abstract ~ "peer" >= 0.5': ("x",)})
    assert index.match([document], Knowledge())[0].size == 0


# --- feedback --------------------------------------------------------------------------------------------------------


def random_vectors(rng, count):
    """Atoms whose text was moved: words with any factors."""
    found = []
    for number in range(count):
        words = rng.choice(VOCABULARY, rng.integers(1, 12), replace=False).tolist()
        moved = tuple(sorted((word, float(rng.uniform(0.001, 3))) for word in words))
        found.append(Similar("abstract", f"text {number}", float(rng.choice([0.0, 0.05, 0.2, 0.35, 0.6])), moved))
    return found


VOCABULARY = [f"w{number}" for number in range(40)]


@pytest.mark.parametrize("seed", range(6))
def test_moved_texts_are_matched_as_the_oracle_does(seed):
    """Also beside other atoms, under NOT, and after the index was saved and opened."""
    rng = np.random.default_rng(seed)
    documents = [
        Document(f"d{number}", {"abstract": (" ".join(rng.choice(VOCABULARY, rng.integers(0, 30)).tolist()),)})
        for number in range(60)
    ]
    knowledge = Knowledge(Analysis(), Statistics.of(documents, Analysis()))
    index = QueryIndex(Analysis())
    queries = []
    for number, atom in enumerate(random_vectors(rng, 40)):
        other = Words("abstract", VOCABULARY[number])
        near = Near("abstract", ("w1", "w2"), ((0, 9),))  # so that it must be checked
        forms = (atom, And((atom, other)), And((other, Not(atom))), Or((atom, near)), And((near, atom)))
        queries.append(forms[number % len(forms)])
        index.add(queries[-1])
    index.add(Similar("abstract", "text 0", 0.2))  # the same text, not moved
    arrays, about = index.arrays(), index.about()
    again = QueryIndex.from_arrays(arrays, about, index.segments())
    for one in (index, again):
        owners, places = one.match(documents, knowledge)
        found = {pair for pair in zip(owners.tolist(), places.tolist(), strict=True) if pair[0] < len(queries)}
        wanted = {
            (owner, place)
            for owner, query in enumerate(queries)
            for place, document in enumerate(documents)
            if holds(query, document, knowledge)
        }
        assert found == wanted
    assert wanted


def test_a_registry_keeps_the_words_that_a_text_was_moved_to(tmp_path):
    text = 'abstract ~ "peer" >= 0.3'
    moved = to_text({("abstract", "peer"): {"grid": 2.0, "swarm": 0.5}})
    document = Document("d", {"abstract": ("a swarm on the grid",)})
    knowledge = Knowledge(Analysis(), Statistics.of([document, Document("e", {"abstract": ("peer",)})], Analysis()))
    registry = Registry()
    registry.add("plain", text)
    registry.add("moved", text, moved=moved)
    registry.add_many([("also", Entry(text, moved=moved))])
    registry.save(tmp_path)
    for one in (registry, Registry.open(tmp_path)):
        assert [id for _, id in one.match([document], knowledge).matches] == ["moved", "also"]
        query = one.subscription(1).query
        assert query is not None
        assert holds(query, document, knowledge)
        assert to_text(detached(query)) == moved
    assert dict(Registry.open(tmp_path).entries())["moved"] == Entry(text, moved=moved)


# --- the kernels and their twins -------------------------------------------------------------------------------------

WEIGHTS = st.floats(0.01, 1)


@given(texts=st.lists(st.lists(WEIGHTS, max_size=6), max_size=5))
def test_tails_are_the_norms_from_each_word_on(texts):
    starts = np.cumsum([0, *map(len, texts)])
    weights = np.array([weight for text in texts for weight in text], np.float64)
    out = np.zeros(weights.size)
    tails(starts, weights, out)
    expected = similarity_reference.tails(texts)
    for (first, last), text in zip(pairwise(starts), expected, strict=True):
        assert out[first:last] == pytest.approx(text, abs=1e-12)


BAGS = st.dictionaries(st.integers(0, 20), WEIGHTS, min_size=1, max_size=8)


@given(
    document=BAGS, texts=st.lists(st.tuples(BAGS, st.sampled_from([0.1, 0.3, 0.5, 0.9, 1.0])), min_size=1, max_size=8)
)
def test_near_finds_every_text_that_reaches_its_threshold(document, texts):
    """The kernel behind its postings and bounds, against every text in full."""
    rarity = np.arange(21, 0, -1).astype(np.float64)
    found = [
        similarity._Text(
            number, {}, np.array(list(bag), np.int64), np.array(list(bag.values())) / rarity[list(bag)], threshold
        )
        for number, (bag, threshold) in enumerate(texts)
    ]
    segment = similarity._Segment(found, rarity)
    length = sum(weight * weight for weight in document.values()) ** 0.5
    words = np.array(list(document), np.int64)
    weights = np.array(list(document.values())) / length
    count = segment.near(words, weights)
    forward = [
        list(zip(segment.text_words[a:b].tolist(), segment.text_weights[a:b].tolist(), strict=True))
        for a, b in pairwise(segment.starts)
    ]
    expected = similarity_reference.near(
        dict(zip(words.tolist(), weights.tolist(), strict=True)), forward, segment.threshold.tolist(), 1e-9
    )
    assert sorted(zip(segment.out[:count].tolist(), segment.cosines[:count].tolist(), strict=True)) == expected
