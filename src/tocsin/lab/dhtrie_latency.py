"""DHTrie, Figure 2(b): the longest chain of messages until the last owner has a publication, six variants."""

from __future__ import annotations

from tocsin.lab.dhtrie_casts import SCALES, about, measure
from tocsin.lab.dhtrie_figure import at_most_nodes, claims_of, draw
from tocsin.lab.notes import Notes
from tocsin.lab.result import Claim, Result
from tocsin.lab.sweep import Sweep, in_turn


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Counts, and judges the claims on latency."""
    notes = measure(SCALES[scale], seed, sweep)
    return Result(
        claims(notes, scale == "paper"),
        notes.rows,
        lambda path: draw(notes, "latency", "Figure 2(b): latency", "longest chain of messages", path, is_log=True),
        about(SCALES[scale]),
    )


def claims(notes: Notes, is_paper: bool) -> list[Claim]:
    """The paper's sentences on latency."""
    at = at_most_nodes(notes, "latency")
    return [
        *claims_of(notes, "latency", "Latency", "Figure 2(b)", is_paper=is_paper),
        Claim(
            "ItC has the lowest latency",
            "when publication latency is in question, algorithm ItC is a good candidate",
            ", ".join(f"{name} {value:,.1f}" for name, value in sorted(at.items(), key=lambda one: one[1])),
            min(at, key=lambda name: at[name]) == "ItC",
        ),
        Claim(
            "Without a cache the iterative method is the fastest, the recursive the slowest, the hybrid is between",
            "It < Hy < Re",
            f"{at['It']:,.1f} < {at['Hy']:,.1f} < {at['Re']:,.1f}",
            at["It"] < at["Hy"] < at["Re"],
        ),
    ]
