"""XML filtering paper §6, Figure 3: iterative against recursive execution, messages and latency, queries growing."""

from __future__ import annotations

from functools import partial

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.lab.xml_scene import (
    DISTINCT,
    NEWS,
    SCALES,
    Scale,
    about,
    growing,
    measure,
    workloads,
    write,
)
from tocsin.overlay.placement.states.settings import Execution
from tocsin.sim.ring import make_ring

TWICE = (1.5, 3.0)
"""What counts as "approximately twice"."""
PANELS = (
    Panel("filtering", "traffic", "Figure 3(a): traffic", "queries", "messages per document"),
    Panel("filtering", "latency", "Figure 3(b): latency", "queries", "hops"),
)


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Counts both executions on the same queries and documents."""
    size, notes = SCALES[scale], Notes(seed)
    notes.gather(sweep([partial(execute, execution, size, seed) for execution in Execution]))
    loads = workloads([NEWS], size.documents, seed)
    return Result(
        claims(notes), notes.rows, lambda path: draw(notes, PANELS, path),
        about("xml-iterative-recursive", scale, seed, loads),
    )  # fmt: skip


def execute(execution: Execution, size: Scale, seed: int) -> Notes:
    """One execution, while the automaton grows."""
    notes, ring = Notes(seed), make_ring(size.peers)
    [load] = workloads([NEWS], size.documents, seed)
    for found in growing(load, seed, size, DISTINCT):
        traffic = measure(load, found, ring, seed, execution)
        answers = traffic.answers if execution is Execution.ITERATIVE else 0  # the paper's recursion has none
        paper = float((traffic.requests + answers).mean())
        write(notes, str(execution), found.queries, traffic, traffic=paper, states=found.states)
    return notes


def claims(notes: Notes) -> list[Claim]:
    """The paper's sentences on the two executions."""
    iterative, recursive = str(Execution.ITERATIVE), str(Execution.RECURSIVE)

    def ratios(metric: str) -> dict[float, float]:
        below = notes.of("filtering", recursive, metric)
        return {x: value / below[x] for x, value in notes.of("filtering", iterative, metric).items()}

    traffic, latency, requests = ratios("traffic"), ratios("latency"), ratios("requests")
    last = max(traffic)
    with_answers = sum(notes.of("filtering", recursive, metric)[last] for metric in ("requests", "answers"))
    ours = notes.of("filtering", iterative, "traffic")[last] / with_answers
    return [
        Claim(
            "The iterative execution needs about twice the messages, for the answers to the publisher (§6.1)",
            "approximately twice more messages",
            f"{_shown(traffic)} times; requests alone {_shown(requests)} times. Our recursion answers each request, so "
            f"that the publisher knows when all have heard: with these answers {ours:.1f} times",
            all(TWICE[0] <= ratio <= TWICE[1] for ratio in traffic.values()),
        ),
        Claim(
            "The recursive execution has more than 10 times less latency (§6.1)",
            "always outperforms the iterative method by more than 10 times",
            f"{_shown(latency)} times",
            min(latency.values()) > 10,
        ),
    ]


def _shown(ratios: dict[float, float]) -> str:
    return ", ".join(f"{ratio:.1f}" for ratio in ratios.values())
