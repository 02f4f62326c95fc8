"""The experiments on multicast, at a tiny scale: what they count is what nodes send, and they judge what they may."""

from __future__ import annotations

import gzip
import json
import pickle

import numpy as np
import pytest

from tests.sim.test_bulk import same, sent
from tocsin.lab import EXPERIMENTS, dhtrie_casts, dhtrie_figure, dhtrie_traffic
from tocsin.lab.notes import Notes
from tocsin.lab.result import write
from tocsin.overlay.key import MASK
from tocsin.overlay.multicast import Method
from tocsin.sim.bulk import Publications, count_casts
from tocsin.sim.ring import make_ring

TINY = dhtrie_casts.Scale((64, 128, 256), 30, 40, 80)


@pytest.fixture(params=["dhtrie-traffic", "dhtrie-latency"])
def result(request, monkeypatch):
    monkeypatch.setitem(dhtrie_casts.SCALES, "small", TINY)
    return EXPERIMENTS[request.param].run("small", 1)


def test_six_variants_on_every_ring(result):
    for metric in ("messages", "latency"):
        rows = [row for row in result.data if row.metric == metric]
        assert {row.variant for row in rows} == set(dhtrie_casts.VARIANTS)
        assert {row.x for row in rows} == {64, 128, 256}
        assert all(row.value > 0 for row in rows)


def test_a_cache_never_costs_messages(result):
    found = {(row.variant, row.x): row.value for row in result.data if row.metric == "messages"}
    for name in ("It", "Re", "Hy"):
        for nodes in TINY.nodes:
            assert found[f"{name}C", nodes] <= found[name, nodes]


def test_sixfold_is_judged_at_the_papers_scale_only(result):
    judged = [claim.holds for claim in result.claims if "sixfold" in claim.claim]
    assert judged == [None]
    assert all(claim.holds is not None for claim in result.claims if "sixfold" not in claim.claim)


def test_the_result_is_written(result, tmp_path):
    paths = write(result, tmp_path)
    about = json.loads(paths[0].read_text())
    assert about["document_words"] == 40
    assert len(about["claims"]) == 6
    assert paths[2].stat().st_size > 1_000


def test_configurations_find_the_same_wherever_they_run(monkeypatch):
    def sent_away(configurations):
        return [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(one))())) for one in configurations]

    monkeypatch.setitem(dhtrie_casts.SCALES, "small", TINY)
    here, there = dhtrie_traffic.run("small", 1), dhtrie_traffic.run("small", 1, sent_away)
    assert here.data == there.data
    assert here.claims == there.claims


def test_documents_hold_distinct_words_and_frequent_ones_are_in_most():
    made = dhtrie_casts.publications(TINY, 3)
    rows = made.words.reshape(TINY.documents, TINY.document_words)
    assert all(len(set(row)) == TINY.document_words for row in rows.tolist())
    counts = np.bincount(made.words, minlength=TINY.vocabulary)
    assert counts[:10].mean() > 2 * counts[-40:].mean()


def test_what_is_counted_is_what_nodes_send():
    made = dhtrie_casts.publications(TINY, 3)
    ring = make_ring(64, "seed3n")
    for method, is_cached in dhtrie_casts.VARIANTS.values():
        entries = TINY.cache_entries if is_cached else 0
        counted = count_casts(ring, made, method, dhtrie_casts.LIST_MAX, entries)
        same(counted, sent(ring, made, method, dhtrie_casts.LIST_MAX, entries))


@pytest.mark.parametrize("method", Method)
def test_owners_that_are_told_directly_cost_a_message_each_and_the_rest_what_nodes_send(method):
    made, ring = dhtrie_casts.running_text(TINY, 3), make_ring(64, "seed3n")
    known = dhtrie_casts.known_words(ring, made, 50)
    told = dhtrie_casts.tell_directly(ring, made, method, known)
    documents = [slice(*span) for span in zip(made.first[:-1].tolist(), made.first[1:].tolist(), strict=True)]
    rest = [made.words[document][~known[document]] for document in documents]
    first = np.cumsum([0, *map(len, rest)], dtype=np.int64)
    others = sent(
        ring, Publications(made.origins, first, np.concatenate(rest), made.keys), method, dhtrie_casts.LIST_MAX, 0
    )
    many = np.array([known[document].sum() for document in documents])
    assert 0 < many.sum() < len(made.words)
    np.testing.assert_array_equal(told.messages, others.messages + many)
    np.testing.assert_array_equal(told.receipts, others.receipts + many)
    np.testing.assert_array_equal(told.latency, np.maximum(others.latency, many > 0))
    assert told.load.sum() == told.messages.sum()


def test_words_are_known_to_the_iterative_methods_cache():
    """What is known is what the bulk's own cache knew: of each document the iterative method saves just that."""
    made, ring = dhtrie_casts.running_text(TINY, 4), make_ring(64, "seed4n")
    for entries in (30, 100, len(made.keys)):
        told = dhtrie_casts.tell_directly(
            ring, made, Method.ITERATIVE, dhtrie_casts.known_words(ring, made, entries)
        )  # fmt: skip
        same(told, count_casts(ring, made, Method.ITERATIVE, 30, entries))


# --- real text -------------------------------------------------------------------------------------------------------

PAPER = '{"title": "Ring of nodes", "abstract": "A ring of nodes, %s"}\n'


def test_abstracts_are_joined_to_documents():
    lines = [PAPER % f"number {number}" for number in range(7)]
    assert [len(text) for text in dhtrie_casts.joined(lines, 15)] == [18, 18, 18]  # nine words each, one is left over
    assert dhtrie_casts.joined(lines[:1], 15) == []


def test_words_of_texts_have_their_keys():
    made = dhtrie_casts.of_texts([["ring", "of", "ring"], ["of", "nodes"]])
    assert made.first.tolist() == [0, 2, 4]
    assert len(made.keys) == 3
    assert all(key <= MASK for key in made.keys.tolist())
    for start, end in ((0, 2), (2, 4)):
        keys = made.keys[made.words[start:end]].tolist()
        assert keys == sorted(keys)


@pytest.fixture
def abstracts(tmp_path, monkeypatch):
    """Six documents' worth of abstracts, where the experiment looks for them."""
    monkeypatch.setenv("TOCSIN_DATA", str(tmp_path))
    path = tmp_path / dhtrie_casts.REAL[dhtrie_casts.ONE_FIELD]
    path.parent.mkdir()
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(PAPER % " ".join(f"word{number * step}" for step in range(8)) for number in range(20))


def test_a_reading_needs_its_data(tmp_path, monkeypatch):
    monkeypatch.setenv("TOCSIN_DATA", str(tmp_path))
    scale = dhtrie_casts.Scale((64,), 30, 40, 80, has_papers=True)
    assert dhtrie_casts.readings(scale) == [dhtrie_casts.RUNNING]


def test_one_field_is_measured_by_itself(abstracts):
    scale = dhtrie_casts.Scale((64,), 30, 40, 80, has_papers=True)
    assert dhtrie_casts.readings(scale) == [dhtrie_casts.RUNNING, dhtrie_casts.ONE_FIELD]
    notes = dhtrie_casts.measure_reading(scale, 1, dhtrie_casts.ONE_FIELD)
    factors = notes.of(f"{dhtrie_casts.READING}{dhtrie_casts.ONE_FIELD}", "Re", "direct_latency_factor")
    assert factors[80] > 1


def test_a_curve_is_a_line_over_log_n_only_if_it_is_one():
    for shape, holds in ((np.log2, True), (float, False), (np.sqrt, False)):
        notes = Notes(1)
        for name in dhtrie_casts.VARIANTS:
            for nodes in (100, 1_000, 10_000, 100_000):
                notes.add("multicast", name, nodes, messages=1_000 + 5 * shape(nodes))
        points = {name: notes.of("multicast", name, "messages") for name in dhtrie_casts.VARIANTS}
        assert dhtrie_figure.lines("Traffic", points).holds is holds
        two = {name: dict(list(some.items())[:2]) for name, some in points.items()}
        assert dhtrie_figure.lines("Traffic", two).holds is None
