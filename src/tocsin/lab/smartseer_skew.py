"""SmartSeer §V-C, Figure 3: queries whose words are spread otherwise than those of documents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.smartseer_join import DIALOGUE
from tocsin.lab.smartseer_scene import CORPORA, NAMES, Scene
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.match.rendezvous.payload import Join
from tocsin.sim.workload import Skew

JOINS = (Join.SEND_DOCUMENT, Join.DIALOGUE, Join.BLOOM_DIALOGUE)
SHORT = 6
"""The longest list of queries for uniform and inverse skew, as Figure 3 has it."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    queries: int
    documents: int
    words_per_document: int
    """Words of a document at which joins are measured: enough for a mean."""


SCALES = {"small": Scale(10_000, 1, 40), "paper": Scale(50_000, 500, 60)}


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Measures every skew, word by word."""
    size = SCALES[scale]
    notes = Notes(seed)
    notes.gather(sweep([partial(measure, name, skew, size, seed) for name in CORPORA for skew in Skew]))
    panels = [Panel(name, "bytes", f"Figure 3: {name}", "skew: same, more, uniform, inverse", "bytes per word")
              for name in CORPORA]  # fmt: skip
    about = {"queries": size.queries, "documents": size.documents, "skews": [str(skew) for skew in Skew]}
    return Result(claims(notes), notes.rows, lambda path: draw(notes, panels, path), about)


def measure(name: str, skew: Skew, size: Scale, seed: int) -> Notes:
    """One skew."""
    notes, number = Notes(seed), list(Skew).index(skew)
    scene = CORPORA[name](seed, size.documents, queries=size.queries, query_skew=skew)
    met = sorted(len(scene.lists[key.word]) for side in scene.sides for key in scene.words(side)
                 if key.word in scene.lists)  # fmt: skip
    notes.add(
        f"{name} lists", str(skew), number, longest=met[-1] if met else 0, met=len(met),
        words=len(scene.lists), mean=len(scene.texts) / len(scene.lists),
    )  # fmt: skip
    for join, value in _word_by_word(scene, size.words_per_document).items():
        notes.add(f"{name} {skew}", NAMES[join], number, bytes=value)
        notes.add(name, NAMES[join], number, bytes=value)
    return notes


def _word_by_word(scene: Scene, most: int) -> dict[Join, float]:
    totals: Counter[Join] = Counter()
    count: Counter[str] = Counter()
    for pair in scene.by_word():
        if count[pair.side.document.id] < most:
            count[pair.side.document.id] += 1
            for join in JOINS:
                totals[join] += pair.join_bytes(join)
    return {join: totals[join] / max(1, count.total()) for join in JOINS}


def _spread(notes: Notes, name: str) -> str:
    """On how many words queries are registered."""
    words, means = (
        {skew: max(notes.of(f"{name} lists", str(skew), metric).values()) for skew in Skew}
        for metric in ("words", "mean")
    )
    return ", ".join(f"{skew} {words[skew]:,.0f} words with {means[skew]:.1f} queries on average" for skew in Skew)


def claims(notes: Notes) -> list[Claim]:
    """The paper's sentences on Figure 3."""
    found = []
    for name in CORPORA:
        longest = {skew: max(notes.of(f"{name} lists", str(skew), "longest").values()) for skew in Skew}
        even = (Skew.UNIFORM, Skew.INVERSE)
        found.append(
            Claim(
                f"{name}: uniform and inverse skew make short lists",
                f"lists of at most about {SHORT} queries",
                ", ".join(f"{skew} {length:.0f}" for skew, length in longest.items())
                + " in the longest list met. That depends on how many words queries are spread over, which the paper "
                f"does not say; here: {_spread(notes, name)}",
                all(longest[skew] <= 1.5 * SHORT for skew in even),
            )
        )
        for skew in even:
            taken = {
                variant: max(notes.of(f"{name} {skew}", variant, "bytes").values())
                for variant in notes.variants(f"{name} {skew}", "bytes")
            }
            found.append(
                Claim(
                    f"{name}, {skew}: the dialogue sends least",
                    "Term Dialogue wins for uniform and inverse skew",
                    ", ".join(f"{variant} {value:,.0f}" for variant, value in taken.items()) + " bytes a word",
                    min(taken, key=lambda variant: taken[variant]) == DIALOGUE,
                )
            )
    return found
