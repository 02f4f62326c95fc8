"""DHTrie (Tryfonopoulos et al.), "Content-Based Multicasting" and "Experimental Evaluation": a test for each sentence.

The paper's sizes are the lab's; here the rings are smaller and counted (`sim.bulk` equals the nodes).
"""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from tests.sim.test_bulk import sent
from tocsin.overlay.multicast import Method
from tocsin.sim.bulk import Publications, count_casts
from tocsin.sim.ring import make_ring

WORDS, VOCABULARY = 1_000, 8_000


def published(nodes: int, documents: int, publishers: int = 1) -> Publications:
    """Documents of a thousand words, some words far more frequent than others."""
    chance = np.random.default_rng(nodes)
    share = 1 / np.arange(1, VOCABULARY + 1)
    share /= share.sum()
    words = [chance.choice(VOCABULARY, WORDS, replace=False, p=share) for _ in range(documents)]
    keys = np.random.default_rng(1).integers(0, 2**64, VOCABULARY, dtype=np.uint64)
    origins = (np.arange(documents) % publishers).astype(np.int32)
    return Publications(origins, np.arange(documents + 1) * WORDS, np.concatenate(words).astype(np.int32), keys)


def costs(nodes: int, method: Method, cache: int = 0, list_max: int = 30) -> tuple[float, float]:
    """Messages and latency of a document, once the cache is warm."""
    traffic = count_casts(make_ring(nodes), published(nodes, 30), method, list_max, cache)
    return float(traffic.messages[20:].mean()), float(traffic.latency[20:].mean())


def test_send_costs_a_logarithm_of_hops():
    """ "The function send() is similar to the Chord function lookup(I) and costs O(logN) overlay hops"."""
    for nodes in (256, 1_024, 4_096):
        messages, latency = costs(nodes, Method.ITERATIVE)
        assert messages / WORDS == pytest.approx(log2(nodes) / 2 + 1, abs=0.6)
        assert latency <= 2 * log2(nodes)


def test_iterative_takes_k_log_n_messages_and_optimises_latency():
    """ "locate the message's recipients in an iterative fashion using O(k log N) messages ... optimizes latency"."""
    iterative = costs(4_096, Method.ITERATIVE)
    for method in (Method.RECURSIVE, Method.HYBRID):
        assert costs(4_096, method)[1] > iterative[1]
        assert costs(4_096, method)[0] < iterative[0]


def test_the_last_recipient_of_a_recursive_list_waits_long():
    """ "If the recipient list is long, then the last recipient must wait for a long time"."""
    messages, latency = costs(4_096, Method.RECURSIVE)
    assert latency == messages  # one message after the other


@pytest.mark.row("D5")
def test_hybrid_trades_traffic_for_latency_by_its_list_size():
    """ "The hybrid method ... can trade network traffic for publication latency" (maximum list size)."""
    some = [costs(4_096, Method.HYBRID, list_max=size) for size in (1, 5, 30, 100, 400)]
    assert [messages for messages, _ in some] == sorted((messages for messages, _ in some), reverse=True)
    assert [latency for _, latency in some] == sorted(latency for _, latency in some)
    assert costs(4_096, Method.RECURSIVE)[0] < some[2][0] < costs(4_096, Method.ITERATIVE)[0]


def test_fcache_reduces_traffic_of_every_method():
    """ "using FCache results in a sixfold reduction in ... traffic and latency": how far is the lab's question."""
    for method in Method:
        plain, cached = costs(4_096, method), costs(4_096, method, cache=VOCABULARY)
        assert cached[0] < plain[0]
        assert cached[1] <= plain[1]


def test_rec_is_cheapest_and_itc_fastest():
    """ "ReC performs best when message traffic is in question ... when publication latency is in question, ItC"."""
    cached = {method: costs(4_096, method, cache=VOCABULARY) for method in Method}
    assert min(cached, key=lambda method: cached[method][0]) is Method.RECURSIVE
    assert min(cached, key=lambda method: cached[method][1]) is Method.ITERATIVE
    assert cached[Method.RECURSIVE][0] < cached[Method.HYBRID][0] < cached[Method.ITERATIVE][0]


def test_frequently_used_entries_need_no_repair():
    """FCache is "self-tunable (frequently used entries need less repairs)": a small cache keeps the frequent words."""
    ring, made = make_ring(512), published(512, 12)
    bounded = count_casts(ring, made, Method.ITERATIVE, 30, 1_500)
    none = count_casts(ring, made, Method.ITERATIVE, 30, 0)
    assert bounded.messages[-4:].mean() < 0.8 * none.messages[-4:].mean()
    np.testing.assert_array_equal(bounded.messages, sent(ring, made, Method.ITERATIVE, 30, 1_500).messages)
