"""XML filtering paper §6, Figure 6: latency and traffic as the ring grows from 1,000 to 5,000 peers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.lab.xml_scene import (
    AGGREGATED,
    DISTINCT,
    NEWS,
    SCALES,
    Scale,
    about,
    growing,
    is_flat,
    measure,
    workloads,
    write,
)
from tocsin.sim.ring import make_ring

PEERS = {"small": (100, 200, 300, 400, 500), "paper": (1_000, 2_000, 3_000, 4_000, 5_000)}
PANELS = (
    Panel("filtering", "latency", "Figure 6: latency", "peers", "hops"),
    Panel("filtering", "requests", "traffic (not shown in the paper)", "peers", "messages per document"),
    Panel("filtering", "chain", "latency in requests", "peers", "longest chain of requests"),
)


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """The same queries and documents on rings of several sizes."""
    size, notes = SCALES[scale], Notes(seed)
    size = replace(size, sizes=size.sizes[-1:])
    loads = workloads((NEWS, AGGREGATED), size.documents, seed)
    found = sweep([partial(publish, load.name, PEERS[scale], size, seed) for load in loads])
    notes.gather(measured for measured, _ in found)
    queries = {load.name: count for load, (_, count) in zip(loads, found, strict=True)}
    return Result(
        claims(notes), notes.rows, lambda path: draw(notes, PANELS, path),
        about("xml-network", scale, seed, loads, queries=queries),
    )  # fmt: skip


def publish(name: str, rings: tuple[int, ...], size: Scale, seed: int) -> tuple[Notes, int]:
    """One workload on all rings; and how many queries there were: as asked for, or as are found to be distinct."""
    notes = Notes(seed)
    [load] = workloads([name], size.documents, seed)
    found = next(growing(load, seed, size, DISTINCT))
    for peers in rings:
        traffic = measure(load, found, make_ring(peers), seed)
        per_request = float((traffic.hops / traffic.requests).mean())
        chain = float(traffic.latency.mean()) / per_request
        write(notes, name, peers, traffic, hops_per_request=per_request, chain=chain)
    return notes, found.queries


def claims(notes: Notes) -> list[Claim]:
    """The paper's sentences on the size of the network."""
    loads = notes.variants("filtering", "latency")
    latency = {name: notes.of("filtering", name, "latency") for name in loads}
    traffic = {name: notes.of("filtering", name, "requests") for name in loads}
    routes = {name: notes.of("filtering", name, "hops_per_request") for name in loads}
    return [
        Claim(
            "Latency is unaffected as the network grows (§6.3, Figure 6)",
            "remains unaffected as the size of the network increases",
            "; ".join(f"{name} {_values(points)} hops" for name, points in latency.items())
            + f" for {_values(latency[loads[0]], keys=True)} peers. The chain of requests stays as it is; each takes "
            + "; ".join(f"{_values(points, 1)}" for points in routes.values())
            + " hops, which grow with the logarithm of the peers",
            all(is_flat(points, 1.35) for points in latency.values()),
        ),
        Claim(
            "Traffic is unaffected as the network grows (§6.3)",
            "roughly the same number of messages regardless of the network size",
            "; ".join(f"{name} {_values(points)} requests" for name, points in traffic.items()),
            all(is_flat(points, 1.1) for points in traffic.values()),
        ),
    ]


def _values(points: dict[float, float], digits: int = 0, keys: bool = False) -> str:
    return ", ".join(f"{value:,.{digits}f}" for value in (points if keys else points.values()))
