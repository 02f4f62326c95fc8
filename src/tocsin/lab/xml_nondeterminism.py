"""What the XML filtering paper promises for an extended version: more `*` and `//`, and other lengths of fragments.

And what it leaves to the DHT: peers that join and leave while documents are filtered. For that the real protocols run
in the false world, on a small ring; all their messages count, those that keep the ring together too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.lab.xml_scene import (
    DISTINCT,
    NEWS,
    SCALES,
    Scale,
    Workload,
    about,
    growing,
    measure,
    workloads,
    write,
)
from tocsin.query.xpath.routes import EPSILON
from tocsin.sim.faults import Faults
from tocsin.sim.ring import make_ring
from tocsin.sim.states import BRISK_STATES, StatesRun
from tocsin.sim.states_bulk import BulkAutomaton

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3)
LENGTHS = (0, 1, 2, 3, 4)
QUERIES = {"small": 2_000, "paper": 20_000}
"""Fewer than elsewhere: without `*` and `//`, the DTD does not have more distinct paths of this depth."""
WILDCARDS, DESCENDANTS, FRAGMENTS, CHURN = "P(*)", "P(//)", "length l", "joins and leaves"
TANGLED = "tangled"
MOVES = (0, 2, 4, 6)
"""Peers that join, and that leave, while documents are published."""
CHURNED = replace(BRISK_STATES, routers=12, subscriptions=20, operations=40, fault_seconds=20.0, limits=None)
CHURNED_RUNS = {"small": 3, "paper": 20}
FEW_MORE = 1.5
"""So many times the messages of a ring that stands count as few more."""
PANELS = tuple(
    Panel(variant, metric, f"{metric} against {variant}", variant, metric)
    for variant, metric in (
        (WILDCARDS, "requests"), (DESCENDANTS, "requests"), (FRAGMENTS, "requests"), (FRAGMENTS, "stored_per_state"),
        (CHURN, "messages"),
    )
)  # fmt: skip


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Four sweeps, the other knobs at their defaults."""
    size, notes = SCALES[scale], Notes(seed)
    size = replace(size, sizes=(QUERIES[scale],))
    notes.gather(
        sweep([
            *(partial(_shares, name, share, size, seed) for share in SHARES for name in (WILDCARDS, DESCENDANTS)),
            partial(_fragments, size, seed),
            *(partial(_churn, moves, CHURNED_RUNS[scale], seed) for moves in MOVES),
        ])
    )  # fmt: skip
    [load] = workloads([NEWS], size.documents, seed)
    return Result(
        claims(notes), notes.rows, lambda path: draw(notes, PANELS, path),
        about("xml-nondeterminism", scale, seed, [load], queries=size.sizes[-1]),
    )  # fmt: skip


def _shares(name: str, share: float, size: Scale, seed: int) -> Notes:
    """More wildcards, or more descendants."""
    notes, ring = Notes(seed), make_ring(size.peers)
    [load] = workloads([NEWS], size.documents, seed)
    changed = replace(size, wildcard=share) if name == WILDCARDS else replace(size, descendant=share)
    found = _automaton(load, seed, changed)
    traffic = measure(load, found, ring, seed)
    _write(notes, name, share, found, requests=traffic.requests.mean(), latency=traffic.latency.mean())
    return notes


def _fragments(size: Scale, seed: int) -> Notes:
    """States that are kept with those that so many labels lead to."""
    notes, ring = Notes(seed), make_ring(size.peers)
    [load] = workloads([NEWS], size.documents, seed)
    found = _automaton(load, seed, size)
    for length in LENGTHS:
        traffic = measure(load, found, ring, seed, length=length)
        write(notes, FRAGMENTS, length, traffic)
        _write(
            notes, FRAGMENTS, length, found, requests=traffic.requests.mean(), latency=traffic.latency.mean(),
            stored_per_state=stored_states(found, length) / found.states,
        )  # fmt: skip
    return notes


def _churn(moves: int, count: int, seed: int) -> Notes:
    """Peers come and go."""
    notes = Notes(seed)
    runs = [churned(seed + number, moves) for number in range(count)]
    messages, wrong = (sum(values) for values in zip(*runs, strict=True))
    notes.add(CHURN, TANGLED, moves, messages=messages / len(runs), wrong=wrong)
    return notes


def _automaton(load: Workload, seed: int, scale: Scale) -> BulkAutomaton:
    return next(growing(load, seed, scale, DISTINCT))


def _write(notes: Notes, experiment: str, x: float, found: BulkAutomaton, **values: float) -> None:
    notes.add(experiment, NEWS, x, states=found.states, **values)


def stored_states(found: BulkAutomaton, length: int) -> int:
    """States in all fragments together: each state with those that `length` labels lead to, ε not counted."""
    nfa, names = found.automaton.nfa, found.automaton.labels.names
    labels = np.array([label != EPSILON for label in names])[nfa.label[: found.states]]
    parent = np.asarray(nfa.parent[: found.states])
    # A state is in the fragments of those above it whose labels to it are at most `length`.
    total, above = found.states, np.arange(found.states)
    weight = np.zeros(found.states, np.int64)
    while True:
        weight = weight + labels[above] * (above > 0)
        above = np.where(above > 0, parent[above], -1)
        inside = (above >= 0) & (weight <= length)
        if not inside.any():
            return total
        total += int(inside.sum())
        above = np.where(inside, above, -1)
        weight = np.where(inside, weight, length + 1)


def churned(seed: int, moves: int) -> tuple[float, int]:
    """Messages for each document while so many peers join and as many leave; and notices that were wrong or missing.

    The first half of the peers stays: they publish and subscribe, whatever the others do.
    """
    one = StatesRun(seed, CHURNED)
    until, routers = CHURNED.fault_seconds, one.routers
    one.outcome.faults = Faults(
        seed,
        until,
        joins=tuple((until * (number + 0.5) / moves, f"late{number}") for number in range(moves)),
        leaves=tuple((until * number / moves, routers[-1 - number]) for number in range(moves)),
    )
    one.publishers = one.subscribers = routers[: len(routers) // 2]
    outcome = one.run()
    return sum(one.world.count()[0].values()) / outcome.published, len(outcome.violations)


def claims(notes: Notes) -> list[Claim]:
    """The paper has no numbers here: what we found, against what its design lets expect."""

    def shown(experiment: str, metric: str, digits: int = 0) -> str:
        return ", ".join(f"{value:,.{digits}f}" for value in notes.of(experiment, NEWS, metric).values())

    def grows(experiment: str) -> bool:
        found = list(notes.of(experiment, NEWS, "requests").values())
        return found[-1] > found[0]

    traffic = list(notes.of(FRAGMENTS, NEWS, "requests").values())
    latency = list(notes.of(FRAGMENTS, NEWS, "latency").values())
    kept = list(notes.of(FRAGMENTS, NEWS, "stored_per_state").values())
    messages = list(notes.of(CHURN, TANGLED, "messages").values())
    wrong = sum(notes.of(CHURN, TANGLED, "wrong").values())
    return [
        Claim(
            "More wildcards and descendants make more paths active, and so more messages",
            "promised for an extended version",
            f"P(*) from {SHARES[0]} to {SHARES[-1]}: {shown(WILDCARDS, 'requests')} requests; "
            f"P(//): {shown(DESCENDANTS, 'requests')}",
            grows(WILDCARDS) and grows(DESCENDANTS),
        ),
        Claim(
            "Longer fragments save messages and latency, and cost storage",
            "promised for an extended version; §4: l controls traffic and load",
            f"l from {LENGTHS[0]} to {LENGTHS[-1]}: {shown(FRAGMENTS, 'requests')} requests, "
            f"{shown(FRAGMENTS, 'latency')} hops; each state is stored {shown(FRAGMENTS, 'stored_per_state', 1)} times",
            traffic[-1] < traffic[0] and latency[-1] < latency[0] and kept[-1] > kept[0],
        ),
        Claim(
            "Peers that join and leave cost few messages, and no notice",
            "(left to the DHT)",
            f"{', '.join(map(str, MOVES))} of {CHURNED.routers} peers leave and as many join in "
            f"{CHURNED.fault_seconds:.0f} s: {', '.join(f'{value:,.0f}' for value in messages)} messages a document, "
            f"all that keep the ring together among them; {wrong:.0f} notices wrong or missing",
            wrong == 0 and messages[-1] < FEW_MORE * messages[0],
        ),
    ]
