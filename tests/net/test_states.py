"""The distributed automaton in real processes: what lxml says, each match told once, whichever owner is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from lxml import etree

from tests.net.placement_driver import Nodes, Step, in_drivers, in_processes, in_the_world, script
from tests.net.rings import true_owner
from tocsin.overlay.placement.states.key import START, ring_key

QUERIES = [
    "/dblp/article/author", "/dblp/*/author", "//author", "/dblp//year[. > 1999]", "//article[@key = 'a1']",
    "/dblp/article[author]/title", "//*/author[. = 'Codd']", "/dblp/article[year = 1970]//author", "/dblp/book",
    "//book//cite/*", "/thesis/author", "//article[author = 'Gray'][year]",
]  # fmt: skip
DOCUMENTS = [
    "<dblp><article key='a1'><author>Codd</author><title>Relations</title><year>1970</year></article></dblp>",
    "<dblp><article key='a2'><title>Alone</title></article><article><author>Gray</author></article></dblp>",
    "<dblp><book><title>B</title><chapter><cite><label>x</label></cite></chapter></book></dblp>",
    "<dblp><article><author>Gray</author><year>2001</year></article><book><year>1999</year></book></dblp>",
    "<thesis><author>Codd</author></thesis>",
    "<other><dblp><article/></dblp></other>",
    "<dblp><inproceedings><author>Codd</author></inproceedings><article key='a1'/></dblp>",
    "<dblp><article><a><author>Deep</author></a><year>1970</year></article></dblp>",
]
RECURSIVE, ITERATIVE = "recursive", "iterative"


def due(subscriptions: dict[str, tuple[int, str]], documents: Iterable[tuple[str, str]]) -> Counter[tuple[object, ...]]:
    """Node, subscription, document, version: of every match, once, by lxml."""
    return Counter(
        (node, id, document, 1)
        for document, xml in documents
        for id, (node, path) in subscriptions.items()
        if etree.fromstring(xml).xpath(path)
    )


class Stage:
    """Six processes: three whose documents travel, three that ask state by state. `owner` keeps the start state."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.owner = nodes.addresses.index(true_owner(nodes.addresses, ring_key(START)))
        self.others = [node for node in nodes.living if node != self.owner]
        self.documents: list[tuple[str, str]] = []

    def publish(self, *publishers: int) -> None:
        """Each document once, by one node after the other; comes back when all say that everybody has heard."""
        before = self._published()
        for number, xml in enumerate(DOCUMENTS):
            id = f"d{len(self.documents)}"
            self.documents.append((id, xml))
            self.nodes.act("publish", publishers[number % len(publishers)], id, xml)
        self.nodes.wait(lambda: self._published() == before + len(DOCUMENTS))

    def _published(self) -> int:
        return sum(len(self.nodes.told(node, "Published")) for node in self.others)


def test_six_processes_say_what_lxml_says_when_the_owner_of_the_start_is_killed(tmp_path: Path) -> None:
    with Nodes(tmp_path, *[RECURSIVE] * 3, *[ITERATIVE] * 3) as nodes:
        stage = Stage(nodes)
        owner, others = stage.owner, stage.others
        travelling, asking = [node for node in others if node < 3], [node for node in others if node >= 3]
        standing = {f"s{number}": (others[number % len(others)], path) for number, path in enumerate(QUERIES)}
        for id, (node, path) in standing.items():
            nodes.act("subscribe", node, id, path)
        nodes.wait(lambda: sum(len(nodes.told(node, "Standing")) for node in others) == len(QUERIES))
        assert sum(one["owned"] > 0 for one in nodes.statuses()) >= 3  # the automaton is spread over nodes

        stage.publish(*travelling)
        stage.publish(*asking)
        expected = due(standing, stage.documents)
        assert nodes.notices() == expected
        assert sum(expected.values()) > 40
        used = sum((Counter(one["requests"]) for one in nodes.statuses()), Counter[str]())
        assert {"IndexQuery", "ExpandState", "RecExpandState"} == used.keys()

        # The owner of the start state is killed; every document must pass there.
        nodes.kill(owner)
        stage.publish(*travelling, *asking)
        assert nodes.notices() == due(standing, stage.documents)

        # X2: it comes back with what it had, and unsubscribing removes every state there too.
        nodes.start(owner)
        nodes.until_right()
        assert nodes.status(owner)["kept"] > 0
        for id, (node, _) in standing.items():
            nodes.act("unsubscribe", node, id)
        nodes.wait(lambda: sum(len(nodes.told(node, "Ended")) for node in others) == len(QUERIES))
        nodes.wait(lambda: not any(one["kept"] for one in nodes.statuses()))  # copies follow
        before = nodes.notices()
        stage.publish(*travelling, *asking)
        assert nodes.notices() == before
        assert not [one["counts"] for one in nodes.statuses() if "failed" in one["counts"]]


# --- X4 ---------------------------------------------------------------------------------------------------------------


SAID = {
    RECURSIVE: {"Route", "Indexed", "RecExpanded", "Candidates", "Taken", "Replicate", "Notify", "Heard"},
    ITERATIVE: {"Route", "Indexed", "Expanded", "Replicate", "Notify", "Heard"},
}
"""What owners and publishers say, at least; questions to owners are inside of routes."""


def trace(seed: int, nodes: int, acts: int) -> list[Step]:
    """Subscriptions that come, change and go; documents in between."""
    chance = Random(f"states {seed}")
    steps: list[Step] = []
    standing: dict[str, int] = {}
    for number in range(acts):
        who, kind = chance.randrange(nodes), chance.random()
        if kind < 0.4 or not standing:
            standing[f"s{number}"] = who
            steps.append(["subscribe", who, f"s{number}", chance.choice(QUERIES)])
        elif kind < 0.55:
            id = chance.choice(sorted(standing))
            if chance.random() < 0.5:
                steps.append(["unsubscribe", standing.pop(id), id])
            else:
                steps.append(["subscribe", standing[id], id, chance.choice(QUERIES)])
        else:
            steps.append(["publish", who, f"d{number}", chance.choice(DOCUMENTS)])
    steps += [["unsubscribe", who, id] for id, who in list(standing.items())[:2]]
    return script(nodes, steps)


@pytest.mark.row("X4")
@pytest.mark.parametrize(
    ("execution", "seed"),
    [
        (ITERATIVE, 1),
        *(
            pytest.param(execution, seed, marks=pytest.mark.slow)
            for execution in (RECURSIVE, ITERATIVE)
            for seed in range(2, 20)
        ),
    ],
)
def test_messages_and_bytes_of_the_world_are_those_of_real_connections(
    tmp_path: Path, execution: str, seed: int
) -> None:
    steps = trace(seed, 5, 30)
    addresses, counted = asyncio.run(in_drivers(execution, steps, 5, tmp_path))
    assert counted == in_the_world(execution, steps, addresses)
    assert counted != in_the_world(execution, steps[:-5], addresses)  # one round less is seen
    assert counted[0].keys() >= SAID[execution]
    assert {text.split()[1] for text in counted[2]} >= {"Standing", "Ended", "Notified", "Published"}


@pytest.mark.row("X4")
@pytest.mark.parametrize("execution", [RECURSIVE, pytest.param(ITERATIVE, marks=pytest.mark.slow)])
def test_messages_and_bytes_of_the_world_are_those_of_processes(tmp_path: Path, execution: str) -> None:
    steps = trace(3, 4, 20)
    addresses, counted = in_processes(execution, steps, 4, tmp_path)
    assert counted == in_the_world(execution, steps, addresses)
    assert counted[0].keys() >= SAID[execution]
