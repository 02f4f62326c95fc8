"""DHTrie, "Experimental Evaluation", Figure 2: what a publication costs in six variants of multicast, counted in bulk.

It, Re, Hy: iterative, recursive, hybrid; with C: with an FCache. The paper publishes 10,000 documents of 5,415 words on
10,000 to 100,000 nodes; caches have 10,000 entries, lists of the hybrid 30 keys. It does not say how large the
vocabulary is, how words are distributed, nor how many nodes publish: here words are Zipf-distributed (exponent 1) over
a vocabulary of four times a document's words, and ten nodes publish in turn. The first tenth of each publisher's
documents warms its cache and is not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np

from tocsin.lab.notes import Notes
from tocsin.lab.result import Claim
from tocsin.overlay.multicast import Method
from tocsin.sim.bulk import Publications, count_casts
from tocsin.sim.ring import make_ring

VARIANTS = {
    "It": (Method.ITERATIVE, False),
    "Re": (Method.RECURSIVE, False),
    "Hy": (Method.HYBRID, False),
    "ItC": (Method.ITERATIVE, True),
    "ReC": (Method.RECURSIVE, True),
    "HyC": (Method.HYBRID, True),
}
LIST_MAX = 30
PUBLISHERS = 10
SIXFOLD = (4.0, 9.0)
"""What counts as "a sixfold reduction"."""
WARM_SHARE = 0.1
CACHE_SHARES = (0.25, 0.5, 0.75, 1.0)
"""Entries of a cache as a share of the vocabulary."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    nodes: tuple[int, ...]
    documents: int
    document_words: int
    cache_entries: int

    @property
    def vocabulary(self) -> int:
        """Different words that exist."""
        return 4 * self.document_words


SCALES = {
    "small": Scale((1_000, 2_000, 5_000, 10_000), 200, 541, 1_000),
    "paper": Scale((10_000, 25_000, 50_000, 100_000), 10_000, 5_415, 10_000),
}


def publications(scale: Scale, seed: int) -> Publications:
    """Documents with distinct words, the frequent ones in most of them."""
    chance = np.random.default_rng([seed, 7])
    weight = 1 / np.arange(1, scale.vocabulary + 1)
    # The smallest of exponential times with these rates are a sample without replacement by these weights.
    words = np.empty((scale.documents, scale.document_words), np.int32)
    for row in words:
        times = chance.exponential(size=scale.vocabulary) / weight
        row[:] = np.argpartition(times, scale.document_words)[: scale.document_words]
    keys = chance.integers(0, 2**64, scale.vocabulary, dtype=np.uint64)
    origins = (np.arange(scale.documents) % PUBLISHERS).astype(np.int32)
    first = np.arange(scale.documents + 1, dtype=np.int64) * scale.document_words
    return Publications(origins, first, words.reshape(-1), keys)


def measure(scale: Scale, seed: int) -> Notes:
    """Messages and latency of a document, for each variant and ring."""
    notes = Notes(seed)
    made = publications(scale, seed)
    warm = max(PUBLISHERS, int(scale.documents * WARM_SHARE))
    for nodes in scale.nodes:
        ring = make_ring(nodes, f"seed{seed}n")
        for variant, (method, is_cached) in VARIANTS.items():
            traffic = count_casts(ring, made, method, LIST_MAX, scale.cache_entries if is_cached else 0)
            notes.add(
                "multicast", variant, nodes,
                messages=traffic.messages[warm:].mean(), latency=traffic.latency[warm:].mean(),
                receipts=traffic.receipts[warm:].mean(), load_max=traffic.load.max() / scale.documents,
            )  # fmt: skip
    _sweep_caches(notes, scale, seed, made)
    return notes


def _sweep_caches(notes: Notes, scale: Scale, seed: int, made: Publications) -> None:
    """How the reduction depends on what the paper does not say: how much of the vocabulary a cache can hold."""
    ring = make_ring(scale.nodes[0], f"seed{seed}n")
    warm = max(PUBLISHERS, int(scale.documents * WARM_SHARE))
    for name, method in (("It", Method.ITERATIVE), ("Re", Method.RECURSIVE), ("Hy", Method.HYBRID)):
        plain = count_casts(ring, made, method, LIST_MAX, 0)
        for share in CACHE_SHARES:
            cached = count_casts(ring, made, method, LIST_MAX, int(share * scale.vocabulary))
            notes.add(
                "cache", name, share,
                messages_factor=plain.messages[warm:].mean() / cached.messages[warm:].mean(),
                latency_factor=plain.latency[warm:].mean() / cached.latency[warm:].mean(),
            )  # fmt: skip


def growth(points: dict[float, float]) -> tuple[float, float]:
    """How much a measure grows from the smallest ring to the largest, and how much log N does."""
    small, large = min(points), max(points)
    return points[large] / points[small], log2(large) / log2(small)


def grows_like_log(points: dict[float, float]) -> bool:
    """Not faster than log N, with a tenth to spare; a tenfold ring would make linear growth ten times."""
    found, log_growth = growth(points)
    return found <= 1.1 * log_growth


def at_most_nodes(notes: Notes, metric: str) -> dict[str, float]:
    """What each variant takes on the largest ring."""
    points = {name: notes.of("multicast", name, metric) for name in VARIANTS}
    return {name: some[max(some)] for name, some in points.items()}


def claims_of(notes: Notes, metric: str, named: str, figure: str, *, is_paper: bool) -> list[Claim]:
    """The sentences that the paper says of both traffic and latency."""
    points = {name: notes.of("multicast", name, metric) for name in VARIANTS}
    grown = {name: growth(some) for name, some in points.items()}
    at, plain = at_most_nodes(notes, metric), ("It", "Re", "Hy")
    factors = {name: at[name] / at[f"{name}C"] for name in plain}
    sweeps = {name: notes.of("cache", name, f"{metric}_factor") for name in plain}
    messages, receipts = at_most_nodes(notes, "messages"), at_most_nodes(notes, "receipts")
    most = {name: messages[name] / receipts[name] for name in plain}
    return [
        Claim(
            f"{named} grows with the logarithm of the nodes, for every variant",
            f"all six curves of {figure} grow slowly",
            ", ".join(f"{name} ×{found:.2f} (log N: ×{log:.2f})" for name, (found, log) in grown.items()),
            all(map(grows_like_log, points.values())),
        ),
        Claim(
            f"FCache reduces {named.lower()} sixfold",
            "a sixfold reduction in both network traffic and latency",
            f"{_factors(factors)} times less on {max(points['It']):,.0f} nodes; each owner must get its message, so no "
            f"cache can take more than {_factors(most)} times fewer",
            all(SIXFOLD[0] <= factor <= SIXFOLD[1] for factor in factors.values()) if is_paper else None,
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


def _factors(factors: dict[str, float]) -> str:
    return ", ".join(f"{name} {factor:.1f}" for name, factor in factors.items())


def about(scale: Scale) -> dict[str, object]:
    """What result.json says of the setting."""
    return {
        "nodes": list(scale.nodes), "documents": scale.documents, "document_words": scale.document_words,
        "vocabulary_words": scale.vocabulary, "cache_entries": scale.cache_entries, "list_max": LIST_MAX,
        "publishers": PUBLISHERS,
    }  # fmt: skip
