"""XML filtering paper §6.4, Figure 7: storage with virtual nodes, filtering with load shedding."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tocsin.lab.notes import Notes
from tocsin.lab.result import Claim, Result
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.lab.xml_scene import (
    AGGREGATED,
    DISTINCT,
    NEWS,
    SCALES,
    Scale,
    Workload,
    about,
    growing,
    publishers,
    workloads,
)
from tocsin.overlay.placement.states.settings import StateSettings
from tocsin.sim.bulk import Counts
from tocsin.sim.states import virtual_ring
from tocsin.sim.states_bulk import BulkAutomaton, by_host, count_filtering, overloaded, storage

VIRTUAL = 3
TOP_STORAGE = 0.2
"""The share of the peers whose storage the paper names: 200 of 1,000."""
TOP_FILTERING = 0.05
"""The share of the peers whose requests it names: 50 of 1,000."""
STORAGE_MAX = 0.40
FILTERING_MAX = 0.005
BEFORE, AFTER = "without balancing", "with balancing"


Curves = dict[str, dict[str, Counts]]
"""Loads of the peers, ranked: of an experiment, before and after."""


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Storage with one and three nodes for each peer; requests before and after shedding."""
    size, notes = SCALES[scale], Notes(seed)
    size = replace(size, sizes=size.sizes[-1:])
    loads = workloads((NEWS, AGGREGATED), 2 * size.documents, seed)
    found = sweep([partial(balance, load.name, size, seed) for load in loads])
    notes.gather(measured for measured, _, _ in found)
    curves = {name: curve for _, some, _ in found for name, curve in some.items()}
    queries = {load.name: count for load, (_, _, count) in zip(loads, found, strict=True)}
    return Result(
        claims(notes, scale == "paper"), notes.rows, lambda path: plot(curves, path),
        about("xml-balance", scale, seed, loads, queries=queries, virtual_nodes=VIRTUAL),
    )  # fmt: skip


def balance(name: str, size: Scale, seed: int) -> tuple[Notes, Curves, int]:
    """One workload; its curves; and how many queries there were: as asked for, or as are found to be distinct."""
    notes, curves = Notes(seed), Curves()
    [load] = workloads([name], 2 * size.documents, seed)
    found = next(growing(load, seed, size, DISTINCT))
    if name == NEWS:
        curves["storage"] = stored(found, size.peers, notes)
    curves[f"filtering, {name}"] = filtered(load, found, size.peers, notes)
    return notes, curves, found.queries


def share(load: Counts, of: float) -> float:
    """What the first of the peers, ranked by load, have of all."""
    return float(load[: round(of * len(load))].sum() / load.sum())


def stored(found: BulkAutomaton, peers: int, notes: Notes) -> dict[str, Counts]:
    """States at each peer."""
    curves = {}
    for name, nodes in ((BEFORE, 1), (AFTER, VIRTUAL)):
        ring = virtual_ring(peers, nodes)
        curves[name] = by_host(ring, storage(ring, found.keys()))
        notes.add("storage", name, nodes, top_share=share(curves[name], TOP_STORAGE), states=found.states)
    return curves


def filtered(load: Workload, found: BulkAutomaton, peers: int, notes: Notes) -> dict[str, Counts]:
    """Requests at each peer: without balancing; then with virtual nodes and copies of overloaded states."""
    settings, curves = StateSettings(), {}
    for name, nodes in ((BEFORE, 1), (AFTER, VIRTUAL)):
        ring = virtual_ring(peers, nodes)
        origins = publishers(ring, len(load.documents), notes.seed)
        traffic = count_filtering(found, ring, load.documents, origins)
        hot = overloaded(traffic, settings.overload_share)
        if nodes > 1:
            unshed = by_host(ring, traffic.load)
            notes.add("filtering", f"{load.name}, virtual nodes only", peers, max_share=unshed[0] / unshed.sum())
            traffic = count_filtering(
                found, ring, load.documents, origins, hot=hot.tolist(), copies=settings.copies
            )  # fmt: skip
        curves[name] = by_host(ring, traffic.load)
        notes.add(
            "filtering", f"{load.name}, {name}", peers,
            top_share=share(curves[name], TOP_FILTERING), max_share=curves[name][0] / curves[name].sum(),
            idle_share=float(np.mean(curves[name] == 0)), overloaded_states=len(hot),
        )  # fmt: skip
    return curves


def claims(notes: Notes, is_paper: bool) -> list[Claim]:
    """The paper's sentences on balance; its limits are those of 1,000 peers."""

    def one(experiment: str, variant: str, metric: str) -> float:
        return next(iter(notes.of(experiment, variant, metric).values()))

    def judged(holds: bool) -> bool | None:
        return holds if is_paper else None

    loads = [name for name in (NEWS, AGGREGATED) if notes.of("filtering", f"{name}, {AFTER}", "max_share")]
    before, after = (one("storage", name, "top_share") for name in (BEFORE, AFTER))
    tops = {name: one("filtering", f"{name}, {BEFORE}", "top_share") for name in loads}
    most = {
        name: [one("filtering", f"{name}, {kind}", "max_share") for kind in (BEFORE, "virtual nodes only", AFTER)]
        for name in loads
    }
    return [
        Claim(
            f"Three virtual nodes for each peer balance storage: the first fifth of the peers has at most "
            f"{STORAGE_MAX:.0%} of the states (§6.4, Figure 7a)",
            "from 53% to 38%",
            f"from {before:.1%} to {after:.1%}",
            judged(after <= STORAGE_MAX < before),
        ),
        Claim(
            "Before balancing, a twentieth of the peers has a fifth of the requests (§6.4, Figure 7b)",
            "the first 50 peers receive almost 20%",
            ", ".join(f"{name} {top:.0%}" for name, top in tops.items()),
            judged(all(top >= 0.15 for top in tops.values())),
        ),
        Claim(
            f"With load shedding no peer has more than {FILTERING_MAX:.1%} of the requests (§6.4, Figures 7b and 7c)",
            "no peer receives more than 0.3%",
            "; ".join(
                f"{name}: {found[0]:.2%} before, {found[1]:.2%} with virtual nodes only, {found[2]:.2%} after"
                for name, found in most.items()
            ),
            judged(all(found[2] <= FILTERING_MAX for found in most.values())),
        ),
    ]


def plot(curves: dict[str, dict[str, Counts]], path: Path) -> None:
    """Peers by rank."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(curves), 4.5), layout="constrained")
    for axes, (title, lines) in zip(figure.subplots(1, len(curves), squeeze=False).flat, curves.items(), strict=True):
        for name, load in lines.items():
            axes.plot(np.arange(1, len(load) + 1), load, label=name)
        what = "states" if title == "storage" else "requests"
        axes.set(title=f"Figure 7: {title}", xlabel=f"peers by {what}", ylabel=what, ylim=(0, None))
        axes.legend(fontsize=7)
    figure.savefig(path)
