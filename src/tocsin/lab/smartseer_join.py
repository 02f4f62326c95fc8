"""SmartSeer §V-A, Figure 1: bytes of the joins against the length of the list of queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.smartseer_scene import CORPORA, NAMES
from tocsin.lab.sweep import Sweep, in_turn

DIALOGUE, DOCUMENT, FILTER, QUERY = "Term Dialogue", "Send Document", "Bloom Filter", "Send Query"


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    queries: int
    documents: int
    sizes: tuple[int, ...]
    pairs: int


SCALES = {
    "small": Scale(20_000, 4, (1, 5, 10, 20, 40), 12),
    "paper": Scale(50_000, 500, (1, 2, 5, 10, 20, 30, 40, 60, 80), 500),
}


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Measures lists of every size, and judges the claims of §V-A."""
    size = SCALES[scale]
    notes = Notes(seed)
    notes.gather(sweep([partial(measure, name, length, size, seed) for name in CORPORA for length in size.sizes]))
    panels = [
        Panel(name, "bytes", f"Figure 1: {name}", "queries in the list", "bytes", is_log=True) for name in CORPORA
    ]
    about: dict[str, object] = {"queries": size.queries, "documents": size.documents, "words_per_query": 5}
    return Result(claims(notes), notes.rows, lambda path: draw(notes, panels, path), about)


def measure(name: str, length: int, size: Scale, seed: int) -> Notes:
    """Lists of one size."""
    notes, scene = Notes(seed), CORPORA[name](seed, size.documents, queries=size.queries)
    for join, value in scene.mean_bytes(length, NAMES, size.pairs).items():
        notes.add(name, NAMES[join], length, bytes=value)
    return notes


def claims(notes: Notes) -> list[Claim]:
    """The paper's sentences on Figure 1."""
    found = []
    for name in CORPORA:
        taken = {variant: notes.of(name, variant, "bytes") for variant in notes.variants(name, "bytes")}
        few, many = min(taken[DIALOGUE]), max(taken[DIALOGUE])
        ends = {variant: (points[few], points[many]) for variant, points in taken.items()}
        shown = ", ".join(f"{variant} {low:,.0f} → {high:,.0f}" for variant, (low, high) in ends.items())
        grown = {variant: high / low for variant, (low, high) in ends.items()}
        found += [
            Claim(
                f"{name}: the dialogue grows with the list, the filter hardly, the document not at all",
                "Send Document is constant; Term Dialogue is linear in the list; the Bloom filter grows slowly",
                f"{shown} bytes from {few:.0f} to {many:.0f} queries",
                grown[DIALOGUE] > 3 * grown[FILTER] and abs(grown[DOCUMENT] - 1) < 0.15,
            ),
            Claim(
                f"{name}: for short lists the dialogue sends least",
                "Term Dialogue is best for short lists",
                f"with {few:.0f}: " + ", ".join(f"{variant} {low:,.0f}" for variant, (low, _) in ends.items()),
                min(ends, key=lambda variant: ends[variant][0]) == DIALOGUE,
            ),
            Claim(
                f"{name}: the dialogue never sends more than the queries themselves",
                "Send Query is left out as the dialogue is never worse",
                ", ".join(
                    f"{length:.0f}: {taken[DIALOGUE][length]:,.0f} ≤ {taken[QUERY][length]:,.0f}"
                    for length in taken[QUERY]
                ),
                all(taken[DIALOGUE][length] <= taken[QUERY][length] for length in taken[QUERY]),
            ),
        ]
    return found
