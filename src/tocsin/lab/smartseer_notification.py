"""SmartSeer §V-D, Figure 4: naive, clustered and broadcast notification on 10 to 1,000 nodes, with every join."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.smartseer_scene import NAMES, Scene, news
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.match.rendezvous.conversation import HEADER_BYTES, QuerySide, converse
from tocsin.match.rendezvous.notification import LOOKUP_BYTES, Notification, Ring, plan
from tocsin.match.rendezvous.payload import Join
from tocsin.query.semantics import Knowledge

JOINS = (Join.DIALOGUE, Join.BLOOM_DIALOGUE)


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    queries: int
    documents: int
    nodes: tuple[int, ...]


SCALES = {
    "small": Scale(3_000, 2, (10, 30, 100, 300, 1_000)),
    "paper": Scale(50_000, 500, (10, 30, 100, 300, 1_000)),
}


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Counts notices, lookups and conversations."""
    size = SCALES[scale]
    notes = Notes(seed)
    notes.gather(sweep([partial(measure, nodes, size, seed) for nodes in size.nodes]))
    panels = [
        Panel("document", "bytes", "Figure 4(a): Send Document", "nodes", "bytes per document", is_log=True),
        Panel("joins", "bytes", "Figure 4(b)", "nodes", "bytes per document", is_log=True),
        Panel("document", "latency", "latency", "nodes", "messages one after the other", is_log=True),
    ]
    about = {"queries": size.queries, "documents": size.documents, "nodes": list(size.nodes)}
    return Result(claims(notes, size), notes.rows, lambda path: draw(notes, panels, path), about)


def measure(nodes: int, size: Scale, seed: int) -> Notes:
    """A ring of so many nodes."""
    notes, scene = Notes(seed), news(seed, size.documents, queries=size.queries)
    for kind in Notification:
        _document(notes, scene, kind, nodes)
    for join in JOINS:
        for kind in (Notification.NAIVE, Notification.CLUSTERED):
            value = _joined(scene, join, kind, nodes) / size.documents
            notes.add("joins", f"{NAMES[join]}, {kind}", nodes, bytes=value)
    return notes


def _document(notes: Notes, scene: Scene, kind: Notification, nodes: int) -> None:
    ring = Ring(nodes)
    plans = [(side, plan(kind, Join.SEND_DOCUMENT, scene.words(side), ring.owner, ring.nodes)) for side in scene.sides]
    count = len(plans)
    notes.add(
        "document", str(kind), nodes,
        bytes=sum(planned.bytes(side, Join.SEND_DOCUMENT) for side, planned in plans) / count,
        latency=sum(planned.steps for _, planned in plans) / count,
        words=sum(len(scene.words(side)) for side in scene.sides) / count,
    )  # fmt: skip


def _joined(scene: Scene, join: Join, kind: Notification, nodes: int) -> float:
    ring, total = Ring(nodes), 0
    for side in scene.sides:
        planned = plan(kind, join, scene.words(side), ring.owner, ring.nodes)
        total += planned.lookups * (LOOKUP_BYTES + 2 * HEADER_BYTES)
        for visit in planned.visits:
            total += converse(side, QuerySide(scene.at(visit.words), Knowledge()), join, visit.words).total_bytes()
    return total


def claims(notes: Notes, size: Scale) -> list[Claim]:
    """The paper's sentences on Figure 4."""
    taken = {kind: notes.of("document", str(kind), "bytes") for kind in Notification}
    latency = {kind: notes.of("document", str(kind), "latency") for kind in Notification}
    words = next(iter(notes.of("document", "naive", "words").values()))
    naive, clustered, broadcast = (taken[kind] for kind in Notification)
    per_node = [value / nodes for nodes, value in broadcast.items()]
    ratio = [clustered[nodes] / naive[nodes] for nodes in size.nodes]
    grown = {}
    for join in JOINS:
        points = notes.of("joins", f"{NAMES[join]}, clustered", "bytes")
        grown[join] = points[max(points)] - points[min(points)]
    few = [nodes for nodes in size.nodes if nodes <= words]
    steps = latency[Notification.CLUSTERED]
    return [
        Claim(
            "Naive does not depend on the nodes; clustered approaches it as nodes become more",
            "naive flat, clustered converging to it",
            "clustered / naive: " + ", ".join(f"{value:.2f}" for value in ratio),
            len(set(naive.values())) == 1 and ratio == sorted(ratio) and ratio[0] < ratio[-1],
        ),
        Claim(
            "Clustered never costs more than naive",
            "clustered at most as much as naive",
            f"clustered / naive is {max(ratio):.2f} at most (lookups and their headers count)",
            max(ratio) <= 1,
        ),
        Claim(
            "Broadcast is linear in the nodes, and about as dear as clustered while all nodes own words",
            "broadcast linear, about equal to clustered",
            ", ".join(f"{one}: {broadcast[one]:,.0f} and {clustered[one]:,.0f}" for one in size.nodes) + " bytes",
            max(per_node) / min(per_node) < 1.01 and all(0.5 < broadcast[n] / clustered[n] < 2 for n in few),
        ),
        Claim(
            "The Bloom filter grows faster with the nodes than the dialogue",
            "the Bloom Filter method has a much higher slope than the Term Dialogue method",
            ", ".join(f"{NAMES[join]} +{value:,.0f} bytes" for join, value in grown.items()),
            grown[Join.BLOOM_DIALOGUE] > 1.3 * grown[Join.DIALOGUE],
        ),
        Claim(
            "Latency: naive is constant, clustered grows with min(nodes, words)",
            "constant for naive, roughly linear in min(nodes, words) for clustered",
            ", ".join(f"{nodes:.0f}: {value:.0f}" for nodes, value in steps.items()) + " steps clustered, 1 naive",
            set(latency[Notification.NAIVE].values()) == {1.0}
            and all(min(nodes, words) < value <= 2 * min(nodes, words) + 1 for nodes, value in steps.items()
                    if nodes <= words / 3),
        ),
    ]  # fmt: skip
