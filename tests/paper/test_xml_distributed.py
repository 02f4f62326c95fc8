"""Claims of the XML filtering paper about the automaton on a ring: §4 placement, §5 execution, §6 measurements."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lxml import etree

from tocsin.errors import TocsinError
from tocsin.lab import xml_balance, xml_iterative_recursive, xml_network, xml_nondeterminism, xml_queries
from tocsin.lab.xml_scene import NEWS, RANDOM, SCALES, growing, workload
from tocsin.markup import read_markup
from tocsin.match.path_automaton import Automaton
from tocsin.match.paths import PathIndex
from tocsin.model import Document
from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.message import Item
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.states import Execution, StateSettings
from tocsin.overlay.placement.states.fragment import kept_states, states_of
from tocsin.overlay.placement.states.key import STATE_KIND, ring_key, state_key
from tocsin.overlay.placement.states.outline import DEPTH, LEFT, NAME, RIGHT, pieces_of
from tocsin.query.xpath import parse_xpath
from tocsin.query.xpath.routes import plain_path
from tocsin.sim.markup import NAMESPACES, Tangle
from tocsin.sim.states import CalmStates

FIGURE_1 = [
    "/dblp/phdthesis/year",
    "/dblp/www/title",
    "/dblp/proceedings/school",
    "/dblp/proceedings/title",
    "/dblp/*/author",
    "//*/cite",
]
FIGURE_2 = {
    ("dblp",): 1,
    ("dblp", "phdthesis"): 2,
    ("dblp", "phdthesis", "year"): 3,
    ("dblp", "proceedings"): 4,
    ("dblp", "proceedings", "school"): 5,
    ("dblp", "proceedings", "title"): 6,
    ("dblp", "*"): 7,
    ("dblp", "*", "author"): 8,
    ("$",): 9,
    ("$", "*"): 10,
    ("$", "*", "cite"): 11,
    (): 0,
}
FIGURE_2_KEPT = {
    0: {0, 1, 9, 10}, 1: {1, 2, 4, 7}, 2: {2, 3}, 3: {3}, 4: {4, 5, 6}, 5: {5}, 6: {6}, 7: {7, 8}, 8: {8},
    9: {9, 10}, 10: {10, 11}, 11: {11},
}  # fmt: skip
ITERATIVE = Execution.ITERATIVE


def calm_ring(nodes: int = 6, queries: list[str] | None = None, **settings: Any) -> CalmStates:
    calm = CalmStates(nodes, StateSettings(copies=0, **settings))
    for number, text in enumerate(queries or []):
        calm.subscribe(f"n{number % nodes}", f"s{number}", text, NAMESPACES)
    return calm


def linear(text: str) -> tuple[str, ...]:
    path = plain_path(parse_xpath(text))
    assert path is not None
    return path


def told(calm: CalmStates, text: str, id: str = "d") -> list[str]:
    """Publishes, and gives what was told: each subscription as often as it was."""
    calm.publish("n0", Document(id, xml=text))
    assert Published(id, 1) in calm.what(Published)
    return calm.told(id)


def central(queries: list[str], text: str) -> list[str]:
    index = PathIndex()
    for number, query in enumerate(queries):
        index.add(number, parse_xpath(query, NAMESPACES))
    return sorted(f"s{number}" for number in index.match(read_markup(text)).tolist())


def by_lxml(queries: list[str], text: str) -> list[str]:
    root = etree.fromstring(text.encode())
    return sorted(
        f"s{number}"
        for number, query in enumerate(queries)
        if root.xpath(query.replace("<>", "!="), namespaces=NAMESPACES)
    )


def tangled(seed: int, queries: int = 12, documents: int = 2) -> tuple[list[str], list[str]]:
    tangle = Tangle(seed)
    found: list[str] = []
    while len(found) < queries:
        text = tangle.query()
        try:
            states_of(parse_xpath(text, NAMESPACES))
        except TocsinError:
            continue
        found.append(text)
    return found, [tangle.document() for _ in range(documents)]


# --- §4: where states live -------------------------------------------------------------------------------------------


@pytest.mark.row("Y4")
def test_states_are_at_the_successors_of_their_keys_and_fragments_are_those_of_figures_1_and_2():
    """§4: keys are labels from the start, `$` for ε; with l = 1 owners keep what Figure 2 shows."""
    automaton = Automaton()
    automaton.insert([linear(text) for text in FIGURE_1], range(6))
    calm = calm_ring(11, FIGURE_1, length=1)
    held: dict[int, set[str]] = {}
    for address, item in calm.items():
        assert address == calm.owner(item.key)
        held.setdefault(item.key, set()).add(address)
    assert set(held) == {ring_key(tuple(key.split(" + ")[1:])) for key in automaton.states()}
    assert len(held) == 14  # Figure 1: states 0 to 13
    assert state_key(("dblp", "phdthesis")) == "start + dblp + phdthesis"
    assert state_key(("$",)) == "start + $"
    # Figure 2 leaves out q2 (www), and numbers the states anew.
    calm = calm_ring(11, [text for text in FIGURE_1 if "www" not in text], length=1)
    for state, number in FIGURE_2.items():
        owner = calm.sites[calm.owner(ring_key(state))].states.owner
        kept = kept_states(state, owner.fragment(ring_key(state)), 1)
        assert {FIGURE_2[one] for one in kept} == FIGURE_2_KEPT[number]
    text = "<dblp><phdthesis><year/><author/></phdthesis><proceedings><x><cite/></x><title/></proceedings></dblp>"
    messages: set[int] = set()
    for length in range(5):
        calm = calm_ring(11, FIGURE_1, length=length)
        messages.add(calm.requests()["IndexQuery"])
        assert told(calm, text) == central(FIGURE_1, text) == ["s0", "s3", "s4", "s5"]
    assert messages == {sum(len(linear(text)) + 1 for text in FIGURE_1)}


@pytest.mark.row("Y5")
def test_a_query_is_indexed_with_one_message_for_each_of_its_states():
    """§4, Procedure 1; of a query with branches the states of all its linear paths, shared ones once."""
    calm = calm_ring()
    queries = [*FIGURE_1, "/a", "//a//b//*", "/a[b/c]/d", "//a[@x = 1][b]/c[d]", *tangled(3, 30)[0]]
    for number, text in enumerate(queries):
        calm.spent()
        before = calm.requests()["IndexQuery"]
        calm.subscribe("n1", f"q{number}", text, NAMESPACES)
        states = states_of(parse_xpath(text, NAMESPACES))
        assert calm.requests()["IndexQuery"] - before == len(states)
        assert calm.spent()[0]["Indexed"] == len(states)
    assert len(states_of(parse_xpath("/a[b/c]/d"))) == 5  # start, a, b, c, d


def table_sizes(calm: CalmStates) -> list[int]:
    return [site.chord.table.size() for site in calm.sites.values()]


def kept_ring(nodes: int) -> CalmStates:
    """A ring whose nodes look after their neighbours, their fingers and a second copy of all that they store."""
    calm = CalmStates(nodes, StateSettings(copies=0), chord=ChordSettings(replicas=2))
    for address in calm.sites:
        calm.world.invoke(address, lambda site, now: site.start(now))
    return calm


def fill_up(calm: CalmStates, sizes: tuple[int, ...]) -> None:
    """Puts the states of so many queries where they belong, lets the ring live with them, and looks at the tables."""
    before, others = table_sizes(calm), sum(site.items.store.count for site in calm.sites.values())
    known, load = 0, workload(NEWS, 1, 5)
    assert load is not None
    for automaton in growing(load, 5, replace(SCALES["small"], sizes=sizes), RANDOM):
        keys = automaton.keys()
        for key in keys[known:].tolist():
            owner = calm.ring.addresses[calm.ring.owner(key)]
            calm.sites[owner].items.store.merge(Item(key, STATE_KIND, b"", 1, b""))
        known = len(keys)
        calm.world.run(calm.world.now + 12)
        stored = sum(site.items.store.count for site in calm.sites.values()) - others
        assert 1.9 * known < stored <= 2 * known, "nodes have copied what their neighbours store"
        assert table_sizes(calm) == before
    assert known > sizes[-1] // 10
    assert {"Stabilise", "Owner", "Replicate"} <= set(calm.world.count()[0]), "tables could have changed"


def test_routing_tables_do_not_grow_while_queries_are_indexed():
    """§6: at most log n fingers (and the successors); nobody assigns anything: owners are found by lookup alone."""
    calm = kept_ring(40)
    before = table_sizes(calm)
    assert max(before) <= calm.sites["n0"].chord.settings.successors + 2 * np.log2(40)
    for number, text in enumerate(FIGURE_1 * 5):
        calm.subscribe(f"n{number}", f"s{number}", text)
    assert table_sizes(calm) == before
    fill_up(calm, (1_000, 3_000))


@pytest.mark.row("Y10")
@pytest.mark.slow
def test_routing_tables_do_not_grow_with_a_million_queries():
    """§6: their size does not depend on the number of queries."""
    calm = kept_ring(1_000)
    before = table_sizes(calm)
    assert max(before) <= calm.sites["n0"].chord.settings.successors + 2 * np.log2(1_000)
    for number, text in enumerate(FIGURE_1):
        calm.subscribe(f"n{number}", f"s{number}", text)
    fill_up(calm, (10_000, 100_000, 1_000_000))
    assert table_sizes(calm) == before


# --- §5: execution ---------------------------------------------------------------------------------------------------


@pytest.mark.row("Y6")
def test_iterative_execution_finds_what_the_centralised_automaton_finds():
    """§5, Procedures 2 and 3, without their mistakes: leaves, backtracking, ε."""
    queries = ["/a/b", "/a/b/c", "/a/d", "//c", "//b//*", "/*/*/e", "/a//d", "/a/@x", "//text()", "//d[. = 1]", "/x"]
    text = "<a x='1'><b><c/></b><b/><d>1</d></a>"
    calm = calm_ring(8, queries, execution=ITERATIVE)
    assert told(calm, text) == central(queries, text) == by_lxml(queries, text)
    assert "s1" in calm.told("d")  # a leaf's accepting state is not lost
    assert "s2" in calm.told("d")  # after </b> the states of a are active again
    assert "s3" in calm.told("d")  # what ε leads to is among the targets
    assert calm.spent()[0]["ExpandState"] == 0  # they are routed: what is counted is what came
    assert calm.requests()["ExpandState"] == calm.world.count()[0]["Expanded"] > 0
    for seed in range(6):
        queries, documents = tangled(seed)
        calm = calm_ring(6, queries, execution=ITERATIVE)
        for number, text in enumerate(documents):
            assert told(calm, text, f"d{number}") == central(queries, text) == by_lxml(queries, text)


@pytest.mark.row("Y7")
def test_recursive_execution_equals_the_iterative_one_and_tells_once():
    """§5, Procedure 4: siblings and targets fork; events carry (L:R,D); its trap: it tells for every sibling."""
    (piece,) = pieces_of(read_markup("<a><b><c/></b><b/></a>"), 65_536)
    found = [(piece.names[event[NAME]], event[LEFT], event[RIGHT], event[DEPTH]) for event in piece.events]
    assert found == [("a", 0, 7, 1), ("b", 1, 4, 2), ("c", 2, 3, 3), ("b", 5, 6, 2)]
    calm = calm_ring(8, ["//b", "/a/b", "//b//c"])
    assert told(calm, "<a>" + "<b><c/><b><c/></b></b>" * 5 + "</a>") == ["s0", "s1", "s2"]
    assert calm.world.count()[0]["Notify"] <= 3  # not one for each of the siblings
    for seed in range(8):
        queries, documents = tangled(seed)
        ways = [calm_ring(6, queries, execution=way, length=seed % 3) for way in Execution]
        for number, text in enumerate(documents):
            recursive, iterative = (told(calm, text, f"d{number}") for calm in ways)
            assert recursive == iterative == central(queries, text) == by_lxml(queries, text)
            assert len(recursive) == len(set(recursive))


def test_real_documents_are_filtered_as_by_lxml(data_dir):
    """§5 on an article of eLife."""
    with tarfile.open(data_dir / "xml" / "elife_jats_xml_350.tar.gz") as archive:
        files = (archive.extractfile(one) for one in archive if one.name.endswith(".xml"))
        article = next(file for file in files if file is not None).read().decode()
    article = article[article.index("<article") :]
    queries = [
        "/article/front//title-group/article-title", "//sec/title", "//ref[.//year = '2010']",
        "//xref[@ref-type = 'bibr']", "/article/body//fig/label", "//sec[title = 'Results']//p", "/article/back/ack",
        "//nothing", "//sec//sec//sec",
    ]  # fmt: skip
    for length in (0, 2):
        calm = calm_ring(10, queries, length=length)
        assert told(calm, article) == by_lxml(queries, article) == central(queries, article)
        assert calm.told("d")


@pytest.mark.row("Y8")
def test_a_large_document_travels_in_messages_of_bounded_size():
    """§5: "we forward smaller fragments of the document"; 5 MB."""
    queries = ["/log/day/entry/who", "//entry[@n = '17000']", "/log/*//what", "//entry/none", "/log/day[entry/late]"]
    entry = '<entry n="%d"><who>w</who><what>' + "x" * 7_000 + "</what></entry>"
    days = "".join(f"<day>{''.join(entry % (day * 20 + one) for one in range(20))}</day>" for day in range(40))
    text = f"<log>{days}<day><entry n='17000'><late/></entry></day></log>"
    assert len(text) > 5_000_000
    results = []
    for bytes_max in (4_096, 1 << 24):
        calm = calm_ring(5, queries, fragment_bytes_max=bytes_max)
        results.append(told(calm, text))
        if bytes_max == 4_096:
            assert calm.bytes_max < bytes_max + 1_024  # what a message says besides the outline
            assert len(list(pieces_of(read_markup(text), bytes_max))) > 10
    assert results[0] == results[1] == central(queries, text) == ["s0", "s1", "s2", "s4"]


# --- §6: measurements ------------------------------------------------------------------------------------------------


def held(result):
    return {claim.claim: claim.holds for claim in result.claims}


@pytest.mark.slow
@pytest.mark.row_part("Y14")
def test_the_shapes_of_figures_3_5_and_6_and_the_promised_sweeps():
    """§6.1 to §6.3. Traffic grows with queries, but less than linearly on our workloads: the result says so."""
    results = [one.run("small", 1) for one in (xml_iterative_recursive, xml_network, xml_nondeterminism)]
    for result in results:
        assert all(held(result).values()), held(result)
    result = xml_queries.run("small", 1)
    linear, *others = result.claims
    assert all(claim.holds in (True, None) for claim in others), held(result)
    assert linear.holds is False
    by_set: dict[str, list[float]] = {}
    for row in result.data:
        if row.metric == "requests":
            by_set.setdefault(row.variant, []).append(row.value)
    for values in by_set.values():
        ratios = np.array(values[1:]) / values[:-1]
        assert (ratios > 1.1).all()
        assert values[-1] / values[0] < SCALES["small"].sizes[-1] / SCALES["small"].sizes[0]


@pytest.mark.row_part("Y14")
def test_peers_that_join_and_leave_cost_messages_and_no_notice():
    """§6 leaves churn to the DHT: half of the peers leave, and as many join, while documents are filtered."""
    (calm, no_trouble), (churned, trouble) = (xml_nondeterminism.churned(1, moves) for moves in (0, 6))
    assert no_trouble == trouble == 0
    assert calm < churned < xml_nondeterminism.FEW_MORE * calm


@pytest.mark.row("Y11", "Y12")
@pytest.mark.slow
def test_virtual_nodes_balance_storage_and_load_shedding_balances_filtering():
    """§6.4, Figure 7: a thousand peers, a million queries of the recursive news DTD."""
    assert SCALES["paper"].peers == 1_000
    assert SCALES["paper"].sizes[-1] == 1_000_000
    found = held(xml_balance.run("paper", 1))
    assert len(found) == 3
    assert all(found.values()), found
