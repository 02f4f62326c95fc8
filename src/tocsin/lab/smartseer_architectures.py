"""SmartSeer §III-A: pull or push; mirroring, partition by id, partition by word: nodes contacted and bytes (S5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.smartseer_scene import Scene, news
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.match.rendezvous.architectures import ById, ByWord, Mirror, Traffic, pull, push
from tocsin.match.rendezvous.notification import Ring
from tocsin.query.normal import Key
from tocsin.query.semantics import Knowledge


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    queries: int
    documents: int
    nodes: tuple[int, ...]
    polls: tuple[int, int]
    """Documents between two polls: what pull costs depends on how late it may be, of which the paper says nothing."""


SCALES = {
    "small": Scale(2_000, 10, (10, 100, 1_000), (2, 10)),
    "paper": Scale(50_000, 500, (10, 100, 1_000), (20, 100)),
}
OFTEN, SELDOM = "pull, often", "pull, seldom"


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """All architectures on the same documents and queries."""
    size = SCALES[scale]
    notes = Notes(seed)
    found = sweep([partial(measure, nodes, size, seed) for nodes in size.nodes])
    notes.gather(measured for measured, _ in found)
    agree = all(is_same for _, is_same in found)
    panels = [
        Panel("architectures", "nodes_per_document", "nodes contacted", "nodes", "per document", is_log=True),
        Panel("architectures", "bytes_per_document", "bytes", "nodes", "per document", is_log=True),
    ]
    about = {
        "queries": size.queries, "documents": size.documents, "nodes": list(size.nodes), "same_matches": agree,
        "documents_between_polls": list(size.polls),
    }  # fmt: skip
    return Result(claims(notes, size, agree), notes.rows, lambda path: draw(notes, panels, path), about)


def measure(nodes: int, size: Scale, seed: int) -> tuple[Notes, bool]:
    """So many nodes; and whether all architectures found the same matches."""
    notes = Notes(seed)
    found = _measure(news(seed, size.documents, queries=size.queries), nodes, size.polls)
    for name, traffic in found.items():
        notes.add(
            "architectures", name, nodes,
            nodes_per_document=traffic.nodes_per_document, bytes_per_document=traffic.bytes_per_document,
            copies_per_query=traffic.copies / size.queries,
        )  # fmt: skip
    return notes, len({frozenset(traffic.matches) for traffic in found.values()}) == 1


def _measure(scene: Scene, nodes: int, polls: tuple[int, int]) -> dict[str, Traffic]:
    def frequency(key: Key) -> int:
        return int(scene.frequency[scene.ranks[key.word]])

    ring, knowledge = Ring(nodes), Knowledge()
    queries = scene.at(Key("", "standard", word) for word in scene.lists)
    pulled = {
        name: pull(
            ring.owner, ring.nodes, queries, scene.sides, knowledge,
            frequency=frequency, documents_between_polls=between,
        )
        for name, between in zip((OFTEN, SELDOM), polls, strict=True)
    }  # fmt: skip
    return pulled | {
        "mirror": push(Mirror(nodes), queries, scene.sides, knowledge),
        "by id": push(ById(nodes), queries, scene.sides, knowledge),
        "by word": push(ByWord(ring, knowledge.analysis, frequency), queries, scene.sides, knowledge),
    }


def claims(notes: Notes, size: Scale, agree: bool) -> list[Claim]:
    """What §III-A argues for."""
    nodes = {name: notes.of("architectures", name, "nodes_per_document") for name in ("by id", "by word")}
    sent = {name: notes.of("architectures", name, "bytes_per_document") for name in ("by word", OFTEN, SELDOM)}
    most = max(nodes["by id"])
    often, seldom = size.polls
    return [
        Claim("All architectures find the same matches", "(implied)", str(agree), agree),
        Claim(
            "By word a document contacts fewer nodes than by id, where it contacts all",
            "partition by keyword: only the nodes of the document's words",
            f"{nodes['by word'][most]:,.0f} and {nodes['by id'][most]:,.0f} of {most:,.0f} nodes",
            nodes["by word"][most] < nodes["by id"][most],
        ),
        Claim(
            f"Push sends less than pull that may be late by {often} documents",
            "no polling: push at insertion",
            "; ".join(
                f"{many:,.0f} nodes: {pushed:,.0f} and {sent[OFTEN][many]:,.0f} bytes (late by {seldom}: "
                f"{sent[SELDOM][many]:,.0f})"
                for many, pushed in sent["by word"].items()
            ),
            all(pushed < sent[OFTEN][many] for many, pushed in sent["by word"].items()),
        ),
    ]  # fmt: skip
