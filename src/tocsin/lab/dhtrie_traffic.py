"""DHTrie, Figure 2(a): messages of a publication, six variants, 10,000 to 100,000 nodes."""

from __future__ import annotations

from tocsin.lab.dhtrie_casts import SCALES, about, grows_like_log, growth, measure
from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result

SIXFOLD = (4.0, 9.0)
"""What counts as "a sixfold reduction"."""


def run(scale: str, seed: int) -> Result:
    """Counts, and judges the claims on traffic."""
    notes = measure(SCALES[scale], seed)
    panel = Panel("multicast", "messages", "Figure 2(a): traffic", "nodes", "messages per document")
    return Result(
        claims(notes, scale == "paper"), notes.rows, lambda path: draw(notes, [panel], path), about(SCALES[scale])
    )


def claims(notes: Notes, is_paper: bool) -> list[Claim]:
    """The paper's sentences on network traffic."""
    messages = {name: notes.of("multicast", name, "messages") for name in notes.variants("multicast", "messages")}
    most = max(messages["It"])
    at = {name: points[most] for name, points in messages.items()}
    factors = {name: at[name] / at[f"{name}C"] for name in ("It", "Re", "Hy")}
    shown = ", ".join(f"{name} {factor:.1f}" for name, factor in factors.items())
    sixfold = all(SIXFOLD[0] <= factor <= SIXFOLD[1] for factor in factors.values())
    grown = {name: growth(points) for name, points in messages.items()}
    sweeps = {name: notes.of("cache", name, "messages_factor") for name in ("It", "Re", "Hy")}
    return [
        Claim(
            "Traffic grows with the logarithm of the nodes, for every variant",
            "all six curves of Figure 2(a) grow slowly",
            ", ".join(f"{name} ×{found:.2f} (log N: ×{log:.2f})" for name, (found, log) in grown.items()),
            all(map(grows_like_log, messages.values())),
        ),
        Claim(
            "FCache reduces traffic sixfold",
            "a sixfold reduction in both network traffic and latency",
            f"{shown} times less on {most:,.0f} nodes",
            sixfold if is_paper else None,
        ),
        Claim(
            "ReC has the least traffic",
            "ReC performs best when message traffic is in question",
            ", ".join(f"{name} {value:,.0f}" for name, value in sorted(at.items(), key=lambda one: one[1])),
            min(at, key=lambda name: at[name]) == "ReC",
        ),
        Claim(
            "Without a cache the recursive method has the least traffic, the iterative the most, the hybrid is between",
            "Re < Hy < It",
            f"{at['Re']:,.0f} < {at['Hy']:,.0f} < {at['It']:,.0f}",
            at["Re"] < at["Hy"] < at["It"],
        ),
        Claim(
            "A cache that can hold every word reduces traffic more than one that cannot",
            "(silent on how much of the vocabulary 10,000 entries are)",
            ", ".join(
                f"{name} " + " ".join(f"×{factor:.1f}" for factor in sweep.values()) for name, sweep in sweeps.items()
            )
            + " for a quarter, half, three quarters and all of the vocabulary",
            all(sweep[1.0] >= sweep[0.25] for sweep in sweeps.values()),
        ),
    ]
