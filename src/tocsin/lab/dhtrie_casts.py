"""DHTrie, "Experimental Evaluation", Figure 2: what a publication costs in six variants of multicast, counted in bulk.

It, Re, Hy: iterative, recursive, hybrid; with C: with an FCache. The paper publishes 10,000 documents of 5,415 words on
10,000 to 100,000 nodes; caches have 10,000 entries, lists of the hybrid 30 keys. It does not say how large the
vocabulary is, how words are distributed, nor how many nodes publish: here words are Zipf-distributed (exponent 1) over
a vocabulary of four times a document's words, and ten nodes publish in turn. The first tenth of each publisher's
documents warms its cache and is not measured.

What a cache saves depends on how many of a document's words it knows, and that on what the paper leaves open: whether
5,415 words are distinct ones (the figure; the hardest reading) or running text, of which a node contacts the distinct
words only (P2P-DIET §4.1, of the same authors, counts the running words of research papers). So the reduction is
measured for other readings too, one node publishing: running text after Zipf, and real papers in full, if they are at
hand; each with 10,000 entries and with a cache without a limit, which no way of choosing its entries can beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
import numpy.typing as npt

from tocsin.lab.notes import Notes
from tocsin.lab.result import Claim
from tocsin.overlay.multicast import Method
from tocsin.overlay.placement.entry import word_key
from tocsin.sim.bulk import Publications, Traffic, count_casts
from tocsin.sim.ring import Keys, make_ring

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
READING = "reading: "
FEWER_SHARE, FEWER_MIN = 0.2, 200
RUNNING_VOCABULARY = 20
"""Different words that running text is drawn from, for each word of a document."""
PLAIN = {"It": Method.ITERATIVE, "Re": Method.RECURSIVE, "Hy": Method.HYBRID}


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    nodes: tuple[int, ...]
    documents: int
    document_words: int
    cache_entries: int
    has_papers: bool = False

    @property
    def vocabulary(self) -> int:
        """Different words that exist."""
        return 4 * self.document_words

    @property
    def fewer_documents(self) -> int:
        """So many are enough to see what the size of a cache, or another reading, changes."""
        return min(self.documents, max(FEWER_MIN, int(FEWER_SHARE * self.documents)))


SCALES = {
    "small": Scale((1_000, 2_000, 5_000, 10_000), 200, 541, 1_000),
    "paper": Scale((10_000, 25_000, 50_000, 100_000), 10_000, 5_415, 10_000, has_papers=True),
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
    return collected(list(words), keys, PUBLISHERS)


def collected(documents: Sequence[npt.NDArray[np.int32]], keys: Keys, publishers: int) -> Publications:
    """Documents that so many nodes publish in turn; words sorted by key, which is quicker to count."""
    words = [document[np.argsort(keys[document])] for document in documents]
    first = np.cumsum([0, *map(len, words)], dtype=np.int64)
    origins = (np.arange(len(words)) % publishers).astype(np.int32)
    return Publications(origins, first, np.concatenate(words), keys)


def running_text(scale: Scale, seed: int) -> Publications:
    """The distinct words of documents whose words are drawn one after the other."""
    chance = np.random.default_rng([seed, 8])
    cumulative = np.cumsum(1 / np.arange(1, RUNNING_VOCABULARY * scale.document_words + 1))
    drawn = chance.random((scale.fewer_documents, scale.document_words)) * cumulative[-1]
    documents = [np.unique(np.searchsorted(cumulative, row)).astype(np.int32) for row in drawn]
    return collected(documents, chance.integers(0, 2**64, len(cumulative), dtype=np.uint64), 1)


def real_papers(seed: int) -> tuple[str, Publications]:
    """The distinct words of the papers that the P2P-DIET experiment filters."""
    from tocsin.lab.p2p_diet_workload import papers

    found = papers(seed)
    number = {word: at for at, word in enumerate(sorted(set().union(*found.bodies)))}
    keys = np.array([word_key(word) for word in number], dtype=np.uint64)
    documents = [np.array(sorted({number[word] for word in body}), dtype=np.int32) for body in found.bodies]
    return found.name, collected(documents, keys, 1)


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
    notes.add("multicast", "document", 0, commonest=commonest(made, scale.cache_entries))
    _sweep_caches(notes, scale, seed, made)
    _read_otherwise(notes, scale, seed)
    return notes


def _sweep_caches(notes: Notes, scale: Scale, seed: int, made: Publications) -> None:
    """How the reduction depends on what the paper does not say: how much of the vocabulary a cache can hold."""
    ring = make_ring(scale.nodes[0], f"seed{seed}n")
    some = scale.fewer_documents
    made = Publications(made.origins[:some], made.first[: some + 1], made.words, made.keys)
    for name, method in PLAIN.items():
        plain = count_casts(ring, made, method, LIST_MAX, 0)
        for share in CACHE_SHARES:
            cached = count_casts(ring, made, method, LIST_MAX, int(share * scale.vocabulary))
            notes.add("cache", name, share, **savings(plain, cached, some // 2))


def _read_otherwise(notes: Notes, scale: Scale, seed: int) -> None:
    """The same for other readings of "5,415 words", on the largest ring."""
    readings = {"running text": running_text(scale, seed)}
    if scale.has_papers:
        readings |= [real_papers(seed)]
    ring = make_ring(scale.nodes[-1], f"seed{seed}n")
    for reading, made in readings.items():
        warm = len(made.origins) // 2
        for name, method in PLAIN.items():
            plain = count_casts(ring, made, method, LIST_MAX, 0)
            for entries in (scale.cache_entries, len(made.keys)):
                cached = count_casts(ring, made, method, LIST_MAX, entries)
                notes.add(f"{READING}{reading}", name, entries, **savings(plain, cached, warm))
        notes.add(
            f"{READING}{reading}", "document", 0,
            words=np.diff(made.first).mean(), commonest=commonest(made, scale.cache_entries),
        )  # fmt: skip


def commonest(made: Publications, entries: int) -> float:
    """The share of documents' words that are among the commonest: what a cache knows that chose them beforehand."""
    counts = np.sort(np.bincount(made.words[: made.first[-1]]))
    return float(counts[-entries:].sum() / counts.sum())


def savings(plain: Traffic, cached: Traffic, warm: int) -> dict[str, float]:
    """What a cache saves; and, of the iterative method, which share of the words it knew."""
    before, after = plain.messages[warm:].mean(), cached.messages[warm:].mean()
    return {
        "messages_factor": before / after,
        "latency_factor": plain.latency[warm:].mean() / cached.latency[warm:].mean(),
        "known": (before - after) / max(1, before - plain.receipts[warm:].mean()),
    }


def growth(points: dict[float, float]) -> tuple[float, float]:
    """How much a measure grows from the smallest ring to the largest, and how much log N does."""
    small, large = min(points), max(points)
    return points[large] / points[small], log2(large) / log2(small)


def grows_like_log(points: dict[float, float]) -> bool:
    """Not faster than log N, with a tenth to spare; a tenfold ring would make linear growth ten times."""
    found, log_growth = growth(points)
    return found <= 1.1 * log_growth


def fit(points: dict[float, float]) -> float:
    """How well a line through log N fits (R²)."""
    return float(np.corrcoef(np.log2(list(points)), list(points.values()))[0, 1] ** 2)


def at_most_nodes(notes: Notes, metric: str) -> dict[str, float]:
    """What each variant takes on the largest ring."""
    points = {name: notes.of("multicast", name, metric) for name in VARIANTS}
    return {name: some[max(some)] for name, some in points.items()}


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
            + ". Lists grow faster, as from the owner of a word to that of the next are log (N / words) hops: "
            f"Re is a + b log N with R² = {fit(points['Re']):.3f}",
            all(map(grows_like_log, points.values())),
        ),
        Claim(
            f"FCache reduces {named.lower()} sixfold",
            "a sixfold reduction in both network traffic and latency",
            f"{_factors(factors)} times less on {max(points['It']):,.0f} nodes. {_why(notes, metric)}",
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
    for reading in dict.fromkeys(row.experiment for row in notes.rows if row.experiment.startswith(READING)):
        found = {name: notes.of(reading, name, f"{metric}_factor") for name in PLAIN}
        shares = notes.of(reading, "It", "known")
        words, best = (notes.of(reading, "document", metric)[0] for metric in ("words", "commonest"))
        for entries, share in shares.items():
            limit = f"{entries:,.0f} entries (the commonest: {best:.0%})" if entries == min(shares) else "no limit"
            fewer = _factors({name: some[entries] for name, some in found.items()})
            name = reading.removeprefix(READING)
            parts.append(f"{name} ({words:,.0f} distinct words), {limit}: {fewer} times less, {share:.0%} known")
    if metric == "latency":
        parts.append("one word that is not known is enough for a chain of It to be as long as without a cache")
    return "; ".join(parts)


def _factors(factors: dict[str, float]) -> str:
    return ", ".join(f"{name} {factor:.1f}" for name, factor in factors.items())


def about(scale: Scale) -> dict[str, object]:
    """What result.json says of the setting."""
    return {
        "nodes": list(scale.nodes), "documents": scale.documents, "document_words": scale.document_words,
        "vocabulary_words": scale.vocabulary, "cache_entries": scale.cache_entries, "list_max": LIST_MAX,
        "publishers": PUBLISHERS,
    }  # fmt: skip
