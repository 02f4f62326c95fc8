"""SmartSeer §V-B, Figure 2: the joins against the number of words in a query, for lists of 40 queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.smartseer_join import DIALOGUE, FILTER
from tocsin.lab.smartseer_scene import CORPORA, NAMES, TREC_BITS
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.match.rendezvous.bloom import CITESEER_BITS
from tocsin.match.rendezvous.payload import Join

LIST = 40
JOINS = (Join.SEND_DOCUMENT, Join.DIALOGUE, Join.BLOOM_DIALOGUE)


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    queries: int
    documents: int
    pairs: int
    words: tuple[int, ...] = (2, 4, 6, 8)


SCALES = {"small": Scale(10_000, 2, 8, (2, 5, 8)), "paper": Scale(50_000, 500, 500, (2, 3, 4, 5, 6, 7, 8))}


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Measures queries of every length, and judges the claims of §V-B."""
    size = SCALES[scale]
    notes = Notes(seed)
    notes.gather(sweep([partial(measure, name, words, size, seed) for name in CORPORA for words in size.words]))
    panels = [
        Panel(name, "bytes", f"Figure 2: {name}, lists of {LIST}", "words per query", "bytes") for name in CORPORA
    ]
    about: dict[str, object] = {"queries": size.queries, "documents": size.documents, "list": LIST}
    return Result(claims(notes), notes.rows, lambda path: draw(notes, panels, path), about)


def measure(name: str, words: int, size: Scale, seed: int) -> Notes:
    """Queries of one length."""
    notes = Notes(seed)
    scene = CORPORA[name](seed, size.documents, queries=size.queries, query_words_mean=float(words))
    for join, value in scene.mean_bytes(LIST, JOINS, size.pairs).items():
        notes.add(name, NAMES[join], words, bytes=value)
    return notes


def claims(notes: Notes) -> list[Claim]:
    """The factors that the paper names."""
    found = []
    for name, words, winner, loser, factor, bits in (
        ("TREC", 8, FILTER, DIALOGUE, 3.0, TREC_BITS),
        ("TREC", 2, DIALOGUE, FILTER, 2.0, TREC_BITS),
        ("CiteSeer", 2, DIALOGUE, FILTER, 3.0, CITESEER_BITS),
    ):
        won, lost = (notes.of(name, variant, "bytes").get(words) for variant in (winner, loser))
        ours, holds = "no list of that length", None
        if won and lost:
            ours, holds = f"×{lost / won:.1f} ({won:,.0f} and {lost:,.0f} bytes)", lost / won >= factor
            ours += (
                f"; {bits // 8:,} of {FILTER}'s bytes are the filter itself, the others ask for words that it left open"
            )
        more = "more than " if factor == 3.0 else ""
        found.append(
            Claim(
                f"{name}, lists of {LIST}, {words} words a query: {winner} is {more}{factor:.0f} times better",
                f"{winner} {more}{factor:.0f} times better than {loser}",
                ours,
                holds,
            )
        )
    return found
