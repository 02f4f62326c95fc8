"""DHTrie, Figure 2(a): messages of a publication, six variants, 10,000 to 100,000 nodes."""

from __future__ import annotations

from tocsin.lab.dhtrie_casts import SCALES, about, measure
from tocsin.lab.dhtrie_figure import at_most_nodes, claims_of, draw
from tocsin.lab.notes import Notes
from tocsin.lab.result import Claim, Result
from tocsin.lab.sweep import Sweep, in_turn


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Counts, and judges the claims on traffic."""
    notes = measure(SCALES[scale], seed, sweep)
    return Result(
        claims(notes, scale == "paper"),
        notes.rows,
        lambda path: draw(notes, "messages", "Figure 2(a): traffic", "messages per document", path, is_log=False),
        about(SCALES[scale]),
    )


def claims(notes: Notes, is_paper: bool) -> list[Claim]:
    """The paper's sentences on network traffic."""
    at = at_most_nodes(notes, "messages")
    return [
        *claims_of(notes, "messages", "Traffic", "Figure 2(a)", is_paper=is_paper),
        Claim(
            "ReC has the least traffic",
            "algorithm ReC performs best when message traffic is in question",
            ", ".join(f"{name} {value:,.0f}" for name, value in sorted(at.items(), key=lambda one: one[1])),
            min(at, key=lambda name: at[name]) == "ReC",
        ),
        Claim(
            "Without a cache the recursive method has the least traffic, the iterative the most, the hybrid is between",
            "Re < Hy < It",
            f"{at['Re']:,.0f} < {at['Hy']:,.0f} < {at['It']:,.0f}",
            at["Re"] < at["Hy"] < at["It"],
        ),
    ]
