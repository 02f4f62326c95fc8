"""Counting what the distributed automaton costs, against the nodes themselves."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tocsin.markup import read_markup
from tocsin.model import Document
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.states import Execution, StateSettings
from tocsin.overlay.placement.states.key import ring_key
from tocsin.query.xpath import parse_xpath
from tocsin.query.xpath.routes import plain_path
from tocsin.sim.markup import NEWS_DTD, DocumentShape, QueryShape, documents, queries, read_dtd
from tocsin.sim.ring import make_ring
from tocsin.sim.states import HOP_SECONDS, CalmStates, virtual_ring
from tocsin.sim.states_bulk import (
    BulkAutomaton,
    BulkDocuments,
    by_host,
    count_filtering,
    labels_of_plain,
    overloaded,
    storage,
)

NEWS = read_dtd(NEWS_DTD)
WAYS = [(Execution.RECURSIVE, 0), (Execution.RECURSIVE, 1), (Execution.RECURSIVE, 3), (Execution.ITERATIVE, 0)]


def bare(text: str) -> str:
    """Without attributes and texts, which the count does not know."""
    return re.sub(r">[^<]+<", "><", re.sub(r' [\w:]+="[^"]*"', "", text))


@pytest.mark.parametrize(("execution", "length"), WAYS)
@pytest.mark.parametrize("nodes", [2, 17])
def test_what_is_counted_is_what_nodes_send(nodes, execution, length):
    """Requests, hops, answers, latency and load, document by document and node by node."""
    texts = list(queries(NEWS, 40, nodes, QueryShape(6, 0.3, 0.3)))
    published = [bare(text) for text in documents(NEWS, 2, nodes, DocumentShape(elements_max=25))]
    ring, bulk = make_ring(nodes), BulkAutomaton()
    bulk.add(texts)
    origins = np.arange(2, dtype=np.int32)
    read = BulkDocuments([read_markup(text) for text in published])
    found = count_filtering(bulk, ring, read, origins, execution, length=length)
    calm = CalmStates(ring, StateSettings(execution=execution, length=length, copies=0))
    for number, text in enumerate(texts):
        calm.subscribe(ring.addresses[number % nodes], f"s{number}", text)
    for number, text in enumerate(published):
        before, start = calm.requests(), calm.world.now
        calm.arrived.clear()
        calm.spent()
        calm.publish(ring.addresses[number], Document(f"d{number}", xml=text))
        sent, requests = calm.spent()[0], calm.requests() - before
        assert requests.total() == found.requests[number]
        assert sent["Route"] == found.hops[number]
        assert sent["RecExpanded"] + sent["Expanded"] == found.answers[number]
        assert round((max(calm.arrived) - start) / HOP_SECONDS) == found.latency[number]
    assert len(calm.what(Published)) == 2
    assert calm.load() == found.load.tolist()
    assert found.hits.sum() == found.requests.sum()


def test_states_are_counted_where_they_are_and_hosts_have_all_of_their_nodes():
    ring, bulk = virtual_ring(5, 3), BulkAutomaton()
    bulk.add(["/a/b", "/a//c", "/a/b"])
    assert bulk.states == 5
    assert set(bulk.keys().tolist()) == {
        ring_key(state) for state in ((), ("a",), ("a", "b"), ("a", "$"), ("a", "$", "c"))
    }
    assert storage(ring, bulk.keys()).sum() == by_host(ring, storage(ring, bulk.keys())).sum() == 5
    assert len(by_host(ring, storage(ring, bulk.keys()))) == 5
    assert bulk.sizes().tolist() == [1, 2, 0, 1, 0]


def test_copies_take_requests_of_overloaded_states_and_change_nothing_else():
    ring, bulk = make_ring(50), BulkAutomaton()
    bulk.add(["/a/b", "/a/rare"])
    texts = ["<a>" + "<b/>" * 30 + ("<rare/>" if number == 0 else "") + "</a>" for number in range(20)]
    read, origins = BulkDocuments([read_markup(text) for text in texts]), np.zeros(20, np.int32)
    before = count_filtering(bulk, ring, read, origins)
    hot = overloaded(before, 0.1)
    assert {bulk.path(state) for state in hot.tolist()} == {(), ("a",), ("a", "b")}
    after = count_filtering(bulk, ring, read, origins, hot=hot.tolist(), copies=10)
    assert after.requests.tolist() == before.requests.tolist() == [32 + (number == 0) for number in range(20)]
    assert before.load.max() >= 600
    assert after.load.max() <= 200
    assert after.load.sum() == before.load.sum()


def test_the_shortcut_reads_queries_as_the_parser_does():
    for text in queries(NEWS, 300, 1, QueryShape(8, 0.3, 0.3)):
        assert labels_of_plain(text) == plain_path(parse_xpath(text))
