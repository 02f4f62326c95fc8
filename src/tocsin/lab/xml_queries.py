"""XML filtering paper §6, Figure 5: traffic, latency and states as queries grow, two workloads, two kinds of sets.

Traffic is made by the states that a document comes to (`reached`). Queries share those near the start; what another
query adds lies deeper, where fewer documents come: so traffic grows, but more slowly than queries.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.lab.xml_scene import (
    AGGREGATED,
    DISTINCT,
    NEWS,
    RANDOM,
    SCALES,
    Scale,
    about,
    growing,
    is_flat,
    measure,
    slopes,
    workloads,
    write,
)
from tocsin.sim.ring import make_ring

LINEAR = 0.7
"""The last part of a curve grows at least this much of what the first does: then it counts as linear."""
TWICE = (1.5, 3.0)
PANELS = (
    Panel("filtering", "requests", "Figure 5(a): traffic", "queries", "messages per document"),
    Panel("filtering", "latency", "Figure 5(b): latency", "queries", "hops"),
    Panel("filtering", "states", "Figure 5(c): automaton", "queries", "states"),
)


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Lets four automata grow."""
    size, notes = SCALES[scale], Notes(seed)
    loads = workloads((NEWS, AGGREGATED), size.documents, seed)
    kinds = (DISTINCT, RANDOM)
    notes.gather(sweep([partial(grow, load.name, kind, size, seed) for load in loads for kind in kinds]))
    return Result(
        claims(notes), notes.rows, lambda path: draw(notes, PANELS, path), about("xml-queries", scale, seed, loads)
    )


def grow(name: str, kind: str, size: Scale, seed: int) -> Notes:
    """Lets one automaton grow."""
    notes, ring = Notes(seed), make_ring(size.peers)
    [load] = workloads([name], size.documents, seed)
    for found in growing(load, seed, size, kind):
        traffic = measure(load, found, ring, seed)
        reached = float(traffic.documents.sum()) / len(load.documents)
        write(notes, f"{name}, {kind}", found.queries, traffic, states=found.states, reached=reached)
    return notes


def claims(notes: Notes) -> list[Claim]:
    """The paper's sentences on growing numbers of queries."""
    sets = notes.variants("filtering", "requests")
    traffic = {name: notes.of("filtering", name, "requests") for name in sets}
    latency = {name: notes.of("filtering", name, "latency") for name in sets}
    states = {name: notes.of("filtering", name, "states") for name in sets}
    reached = {name: notes.of("filtering", name, "reached") for name in sets}
    bends = {name: slopes(points)[-1] / slopes(points)[0] for name, points in traffic.items()}
    return [
        Claim(
            "Traffic scales linearly with the number of queries (§6.2, Figure 5a)",
            "scales linearly",
            "twice the queries give "
            + "; ".join(
                f"{name} ×{_doubled(traffic[name]):.2f} the requests, with ×{_doubled(states[name]):.2f} the states, "
                f"of which a document comes to ×{_doubled(reached[name]):.2f} as many"
                for name in sets
            )
            + " (linear without a constant: ×2)."
            + "".join(
                f" There are hardly more than {max(points):,.0f} queries in {name}."
                for name, points in traffic.items()
                if max(points) < max(max(other) for other in traffic.values())
            )
            + " Of what a query adds at the beginning it adds at the end "
            + ", ".join(f"{bend:.0%}" for bend in bends.values())
            + ". It grows, but more slowly than queries: they share the states near the start, where documents come "
            "first, and what another query adds lies deeper, where fewer do",
            all(bend >= LINEAR for bend in bends.values()),
        ),
        Claim(
            "Latency is relatively unaffected by the number of queries (§6.2, Figure 5b)",
            "remains relatively unaffected",
            "; ".join(f"{name} {_range(points)} hops" for name, points in latency.items()),
            all(map(is_flat, latency.values())),
        ),
        _twice(traffic, states),
    ]


def _doubled(points: dict[float, float]) -> float:
    """What the last doubling of the queries did: where distinct ones run out, the last step is a shorter one."""
    before, after = [pair for pair in pairwise(points) if pair[1] == 2 * pair[0]][-1]
    return points[after] / points[before]


def _twice(traffic: dict[str, dict[float, float]], states: dict[str, dict[float, float]]) -> Claim:
    def last(points: dict[float, float]) -> float:
        return points[max(points)]

    ratios = {
        kind: (
            last(traffic[f"{NEWS}, {kind}"]) / last(traffic[f"{AGGREGATED}, {kind}"]),
            last(states[f"{NEWS}, {kind}"]) / last(states[f"{AGGREGATED}, {kind}"]),
        )
        for kind in (DISTINCT, RANDOM)
        if f"{AGGREGATED}, {kind}" in traffic
    }
    return Claim(
        "The NITF workload gives almost twice the messages of the aggregated one (§6.2)",
        "almost twice more messages, mainly due to the larger automaton",
        "; ".join(f"{kind}: ×{messages:.1f}, with ×{size:.1f} the states" for kind, (messages, size) in ratios.items())
        or "NewsML's and DBLP's DTDs are not at hand",
        all(TWICE[0] <= messages <= TWICE[1] for messages, _ in ratios.values()) if ratios else None,
    )


def _range(points: dict[float, float]) -> str:
    return f"{min(points.values()):.0f}–{max(points.values()):.0f}"
