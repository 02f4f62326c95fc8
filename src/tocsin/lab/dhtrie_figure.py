"""DHTrie, Figure 2, judged and drawn: what the paper says of traffic and of latency alike."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import numpy as np

from tocsin.lab.dhtrie_casts import PLAIN, READING, VARIANTS, grows_like_log, growth
from tocsin.lab.notes import Notes
from tocsin.lab.result import Claim

SIXFOLD = (4.0, 9.0)
"""What counts as "a sixfold reduction"."""
FIT_MIN = 0.95
"""What a line must explain of a curve (R²) for the curve to be one."""
QUOTED = "using FCache results in a sixfold reduction in both message traffic and latency"
LABEL_WIDTH = 13
COLOURS = {"It": "tab:blue", "Re": "tab:orange", "Hy": "tab:green"}


def is_sixfold(factor: float) -> bool:
    """Near enough to six."""
    return SIXFOLD[0] <= factor <= SIXFOLD[1]


def fit(points: dict[float, float], *, over_log: bool) -> float:
    """How well a line through log N, or N, fits (R²)."""
    nodes = np.log2(list(points)) if over_log else np.array(list(points))
    return float(np.corrcoef(nodes, list(points.values()))[0, 1] ** 2)


def at_most_nodes(notes: Notes, metric: str) -> dict[str, float]:
    """What each variant takes on the largest ring."""
    points = {name: notes.of("multicast", name, metric) for name in VARIANTS}
    return {name: some[max(some)] for name, some in points.items()}


# --- claims ----------------------------------------------------------------------------------------------------------


def claims_of(notes: Notes, metric: str, named: str, figure: str, *, is_paper: bool) -> list[Claim]:
    """The sentences that the paper says of both traffic and latency."""
    points = {name: notes.of("multicast", name, metric) for name in VARIANTS}
    grown = {name: growth(some) for name, some in points.items()}
    at = at_most_nodes(notes, metric)
    factors = {name: at[name] / at[f"{name}C"] for name in PLAIN}
    sweeps = {name: notes.of("cache", name, f"{metric}_factor") for name in PLAIN}
    return [
        Claim(
            f"{named} grows with the logarithm of the nodes, for every variant",
            f"all six curves of {figure} grow slowly",
            ", ".join(f"{name} ×{found:.2f} (log N: ×{log:.2f})" for name, (found, log) in grown.items())
            + ". Lists grow faster, as from the owner of a word to that of the next are log (N / words) hops",
            all(map(grows_like_log, points.values())),
        ),
        lines(named, points),
        Claim(
            f"FCache reduces {named.lower()} sixfold",
            QUOTED,
            f"{_factors(factors)} times less on {max(points['It']):,.0f} nodes. {_why(notes, metric)}",
            all(map(is_sixfold, factors.values())) if is_paper else None,
        ),
        Claim(
            f"A cache that can hold every word reduces {named.lower()} more than one that cannot",
            "(silent on how much of the vocabulary 10,000 entries are)",
            ", ".join(
                f"{name} " + " ".join(f"×{factor:.1f}" for factor in sweep.values()) for name, sweep in sweeps.items()
            )
            + " for a quarter, half, three quarters and all of the vocabulary",
            all(sweep[1.0] >= sweep[0.25] for sweep in sweeps.values()),
        ),
    ]


def lines(named: str, points: dict[str, dict[float, float]]) -> Claim:
    """Whether a + b log N is what curves are; two points are always on a line."""
    over_log, over_nodes = (
        {name: fit(some, over_log=over_log) for name, some in points.items()} for over_log in (True, False)
    )
    is_line = [over_log[name] >= max(FIT_MIN, over_nodes[name]) for name in points]
    return Claim(
        f"{named} of every variant is a line over log N, and not over N",
        "both message traffic and latency grow at a logarithmic scale compared to network size",
        ", ".join(f"{name} R² = {over_log[name]:.3f} (over N: {over_nodes[name]:.3f})" for name in points),
        all(is_line) if min(map(len, points.values())) > 2 else None,
    )


def _why(notes: Notes, metric: str) -> str:
    """What a cache can save at most, what it would have to know for six, and what it knew in each reading."""
    messages, receipts = at_most_nodes(notes, "messages"), at_most_nodes(notes, "receipts")
    most = {name: messages[name] / receipts[name] for name in PLAIN}
    known = (messages["It"] - messages["ItC"]) / (messages["It"] - receipts["It"])
    needed = (1 - 1 / 6) / (1 - 1 / most["It"])
    parts = [
        f"Each owner must get its message, so no cache can take more than {_factors(most)} times fewer messages",
        f"for a sixth of It's it would have to know {needed:.0%} of a document's words, and it knew {known:.0%} "
        f"(as many of the commonest words, chosen beforehand: {notes.of('multicast', 'document', 'commonest')[0]:.0%})",
    ]
    for reading in readings_of(notes):
        found, direct = (
            {name: notes.of(reading, name, f"{kind}{metric}_factor") for name in PLAIN} for kind in ("", "direct_")
        )
        shares = notes.of(reading, "It", "known")
        words, best = (notes.of(reading, "document", metric)[0] for metric in ("words", "commonest"))
        for entries, share in shares.items():
            limit = f"{entries:,.0f} entries (the commonest: {best:.0%})" if entries == min(shares) else "no limit"
            fewer, told = (_factors({name: some[entries] for name, some in kind.items()}) for kind in (found, direct))
            name = reading.removeprefix(READING)
            parts.append(
                f"{name} ({words:,.0f} distinct words), {limit}: {fewer} times less, {share:.0%} known; "
                f"told directly {told}"
            )
    if metric == "latency":
        parts.append("one word that is not known is enough for a chain of It to be as long as without a cache")
    return "; ".join(parts)


def readings_of(notes: Notes) -> list[str]:
    """The other readings that were measured."""
    return list(dict.fromkeys(row.experiment for row in notes.rows if row.experiment.startswith(READING)))


def _factors(factors: dict[str, float]) -> str:
    return ", ".join(f"{name} {factor:.1f}" for name, factor in factors.items())


# --- the plot --------------------------------------------------------------------------------------------------------


def draw(notes: Notes, metric: str, title: str, label: str, path: Path, *, is_log: bool) -> None:
    """The paper's figure, and beside it what a cache saves in each reading."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5), layout="constrained")
    curves, bars = figure.subplots(1, 2, width_ratios=(4, 5))
    for variant in VARIANTS:
        points = notes.of("multicast", variant, metric)
        line = "--" if variant.endswith("C") else "-"
        curves.plot(list(points), list(points.values()), line, marker="o", color=COLOURS[variant[:2]], label=variant)
    nodes = list(notes.of("multicast", "It", metric))
    curves.set(title=title, xlabel="nodes", ylabel=label, xscale="log")
    curves.set_xticks(nodes, [f"{count:,.0f}" for count in nodes])
    curves.minorticks_off()
    if is_log:
        curves.set_yscale("log")
    else:
        curves.set_ylim(0, None)
    figure.legend(*curves.get_legend_handles_labels(), loc="outside lower left", ncols=len(VARIANTS))
    saved = _saved(notes, metric)
    for at, name in enumerate(PLAIN):
        heights = [factors[name] for factors in saved.values()]
        bars.bar(np.arange(len(saved)) + (at - 1) / 4, heights, 1 / 4, color=COLOURS[name], label=f"{name} : {name}C")
    bars.axhline(6, color="black", linestyle=":", label="sixfold, as in the paper")
    bars.set_xticks(range(len(saved)), [fill(one, LABEL_WIDTH) for one in saved], fontsize=8)
    bars.set(title=f"what an FCache saves on {max(nodes):,.0f} nodes", ylabel="times less")
    bars.legend(fontsize=8)
    figure.savefig(path)


def _saved(notes: Notes, metric: str) -> dict[str, dict[str, float]]:
    """Factors by what they were measured on: the figure's documents, then each reading, with both uses of a cache."""
    at = at_most_nodes(notes, metric)
    saved = {"distinct words (left)": {name: at[name] / at[f"{name}C"] for name in PLAIN}}
    for reading in readings_of(notes):
        for kind, told in (("", ""), ("direct_", ": told directly")):
            found = {name: notes.of(reading, name, f"{kind}{metric}_factor") for name in PLAIN}
            saved[f"{reading.removeprefix(READING)}{told}"] = {name: some[min(some)] for name, some in found.items()}
    return saved
