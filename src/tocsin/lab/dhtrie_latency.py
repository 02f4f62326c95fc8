"""DHTrie, Figure 2(b): the longest chain of messages until the last owner has a publication, six variants."""

from __future__ import annotations

from tocsin.lab.dhtrie_casts import SCALES, about, grows_like_log, growth, measure
from tocsin.lab.dhtrie_traffic import SIXFOLD
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
    latency = {name: notes.of("multicast", name, "latency") for name in notes.variants("multicast", "latency")}
    most = max(latency["It"])
    at = {name: points[most] for name, points in latency.items()}
    factors = {name: at[name] / at[f"{name}C"] for name in ("It", "Re", "Hy")}
    grown = {name: growth(points) for name, points in latency.items()}
    sweeps = {name: notes.of("cache", name, "latency_factor") for name in ("It", "Re", "Hy")}
    return [
        Claim(
            "Latency grows with the logarithm of the nodes, for every variant",
            "all six curves of Figure 2(b) grow slowly",
            ", ".join(f"{name} ×{found:.2f} (log N: ×{log:.2f})" for name, (found, log) in grown.items()),
            all(map(grows_like_log, latency.values())),
        ),
        Claim(
            "FCache reduces latency sixfold",
            "a sixfold reduction in both network traffic and latency",
            ", ".join(f"{name} {factor:.1f}" for name, factor in factors.items()) + f" times less on {most:,.0f} nodes",
            all(SIXFOLD[0] <= factor <= SIXFOLD[1] for factor in factors.values()) if is_paper else None,
        ),
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
        Claim(
            "A cache that can hold every word reduces latency more than one that cannot",
            "(silent on how much of the vocabulary 10,000 entries are)",
            ", ".join(
                f"{name} " + " ".join(f"×{factor:.1f}" for factor in sweep.values()) for name, sweep in sweeps.items()
            )
            + " for a quarter, half, three quarters and all of the vocabulary",
            all(sweep[1.0] >= sweep[0.25] for sweep in sweeps.values()),
        ),
    ]
