"""SmartSeer §III-C: bandwidth of Send Query is β·R·C·F·Wd; β is fitted, and the example is multiplied out.

**Trap:** the example's inputs (C = 10⁶ queries, Wd = 10⁴ words, F = 0.01, selectivity 10⁻³, 10 bytes) multiply to 1 MB
for a document; the text says about 10 MB, which is so with β ≈ 10.

It also says that this is three orders of magnitude below what instantaneous queries take, and names no rates. So both
are counted for one of each: a document that fetches the queries of its words, and a query that fetches the documents
of its words, from as many documents as there are queries ("the number of continuous queries corresponds to the number
of documents"). The rest of three orders must come from more queries than documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tocsin.lab import smartseer_scene
from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.smartseer_scene import Scene, news
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.match.rendezvous.architectures import ID_BYTES
from tocsin.match.rendezvous.cost import list_selectivity, scaling_bytes

THREE_ORDERS = 300.0
"""So many times more counts as "about three orders of magnitude"."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    queries: tuple[int, ...]
    documents: int


SCALES = {
    "small": Scale((2_500, 5_000, 10_000, 20_000), 15),
    "paper": Scale((10_000, 20_000, 50_000, 100_000, 200_000), 500),
}


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Counts what Send Query ships for each document."""
    size = SCALES[scale]
    notes = Notes(seed)
    notes.gather(sweep([partial(measure, queries, size.documents, seed) for queries in size.queries]))
    panels = [Panel("send query", "bytes", "Send Query", "queries", "bytes per document", is_log=True)]
    about = {"queries": list(size.queries), "documents": size.documents}
    return Result(claims(notes), notes.rows, lambda path: draw(notes, panels, path), about)


def measure(queries: int, documents: int, seed: int) -> Notes:
    """So many queries."""
    notes, scene = Notes(seed), news(seed, documents, queries=queries)
    shipped = sum(
        len(text) for side in scene.sides for key in scene.words(side) for _, text in scene.lists.get(key.word, ())
    )
    settings = scene.settings
    law = scaling_bytes(
        queries,
        settings.document_unique_words,
        1.0,
        list_selectivity(settings.vocabulary_words, settings.zipf_exponent, round(settings.query_words_mean)),
        sum(map(len, scene.texts)) / queries,
    )
    mean = shipped / documents
    notes.add("send query", "measured", queries, bytes=mean, beta=mean / law)
    notes.add("send query", "law, β = 1", queries, bytes=law)
    notes.add("instantaneous", "measured", queries, bytes=fetched_bytes(scene, documents=queries))
    return notes


def fetched_bytes(scene: Scene, documents: int) -> float:
    """What an instantaneous query fetches on average: for each of its words, the ids of the documents that have it."""
    held = sum(int(scene.frequency[scene.ranks[word]]) for text in scene.texts for word in text.split())
    return ID_BYTES * documents * held / smartseer_scene.TRAINING / len(scene.texts)


def claims(notes: Notes) -> list[Claim]:
    """Linear in C; one β; what the example multiplies to; and how it compares with instantaneous queries."""
    measured, betas = notes.of("send query", "measured", "bytes"), notes.of("send query", "measured", "beta")
    slopes = [value / queries for queries, value in measured.items()]
    mean = sum(betas.values()) / len(betas)
    example = {"document_words": 10_000, "keyword_fraction": 0.01, "selectivity": 1e-3, "query_bytes": 10}
    one = scaling_bytes(1_000_000, **example)
    fetched = notes.of("instantaneous", "measured", "bytes")
    most = max(measured)
    times = fetched[most] / measured[most]
    return [
        Claim(
            "Bandwidth is linear in the number of queries, with one β",
            "β·R·C·F·Wd",
            f"β = {mean:.1f} ({', '.join(f'{queries:,.0f}: {beta:.1f}' for queries, beta in betas.items())})",
            max(slopes) / min(slopes) < 1.25 and max(betas.values()) / min(betas.values()) < 1.25,
        ),
        Claim(
            "A document costs about three orders of magnitude less than answering instantaneous queries",
            "about 3 orders of magnitude smaller, rates not stated",
            f"{measured[most]:,.0f} bytes a document, {fetched[most]:,.0f} a query on {most:,.0f} documents: "
            f"×{times:.0f} at equal rates, ×1,000 with {1_000 / times:,.0f} queries for each new document",
            times >= THREE_ORDERS,
        ),
        Claim(
            "The example: a million queries, documents of 10,000 words",
            "about 10 MB a document",
            f"{one / 1e6:.0f} MB with β = 1, {10 * one / 1e6:.0f} MB with β = 10; with our β {mean * one / 1e6:.0f} MB",
            abs(one / 10e6 - 1) < 0.1,
        ),
    ]
