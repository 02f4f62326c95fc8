"""The experiments on multicast, at a tiny scale: what they count is what nodes send, and they judge what they may."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.sim.test_bulk import same, sent
from tocsin.lab import EXPERIMENTS, dhtrie_casts
from tocsin.lab.result import write
from tocsin.sim.bulk import count_casts
from tocsin.sim.ring import make_ring

TINY = dhtrie_casts.Scale((64, 128), 30, 40, 80)


@pytest.fixture(params=["dhtrie-traffic", "dhtrie-latency"])
def result(request, monkeypatch):
    monkeypatch.setitem(dhtrie_casts.SCALES, "small", TINY)
    return EXPERIMENTS[request.param].run("small", 1)


def test_six_variants_on_every_ring(result):
    for metric in ("messages", "latency"):
        rows = [row for row in result.data if row.metric == metric]
        assert {row.variant for row in rows} == set(dhtrie_casts.VARIANTS)
        assert {row.x for row in rows} == {64, 128}
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
    assert len(about["claims"]) == 5
    assert paths[2].stat().st_size > 1_000


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
