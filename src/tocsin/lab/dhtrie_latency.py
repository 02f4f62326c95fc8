"""DHTrie, Figure 2(b): the longest chain of messages until the last owner has a publication, six variants."""

from __future__ import annotations

from tocsin.lab.dhtrie_casts import SCALES, about, at_most_nodes, claims_of, measure
from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result


def run(scale: str, seed: int) -> Result:
    """Counts, and judges the claims on latency."""
    notes = measure(SCALES[scale], seed)
    panels = [Panel("multicast", "latency", "Figure 2(b): latency", "nodes", "longest chain of messages", is_log=True)]
    return Result(
        claims(notes, scale == "paper"), notes.rows, lambda path: draw(notes, panels, path), about(SCALES[scale])
    )


def claims(notes: Notes, is_paper: bool) -> list[Claim]:
    """The paper's sentences on latency."""
    at = at_most_nodes(notes, "latency")
    return [
        *claims_of(notes, "latency", "Latency", "Figure 2(b)", is_paper=is_paper),
        Claim(
            "ItC has the lowest latency",
            "when publication latency is in question, ItC performs best",
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
