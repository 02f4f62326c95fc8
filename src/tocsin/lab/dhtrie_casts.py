"""DHTrie, "Experimental Evaluation", Figure 2: what a publication costs in six variants of multicast, counted in bulk.

It, Re, Hy: iterative, recursive, hybrid; with C: with an FCache. The paper publishes 10,000 documents of 5,415 words on
10,000 to 100,000 nodes; caches have 10,000 entries, lists of the hybrid 30 keys. It does not say how large the
vocabulary is, how words are distributed, nor how many nodes publish: here words are Zipf-distributed (exponent 1) over
a vocabulary of four times a document's words, and ten nodes publish in turn. The first tenth of each publisher's
documents warms its cache and is not measured.

What a cache saves depends on how many of a document's words it knows, and that on what the paper leaves open: whether
5,415 words are distinct ones (the figure) or running text, of which a node contacts the distinct words only ("it
identifies all the distinct words in it"). So the reduction is measured for other readings too, one node publishing:
running text after Zipf; real papers of many fields; real text of one field, as the authors' own corpus was (P2P-DIET
§4.1: papers on neural networks), in documents of 5,415 words joined from abstracts; real text as far as it is at hand.
Each with 10,000 entries and with a cache without a limit, which no way of choosing its entries can beat.

The paper does not say either how lists and cache work together. Our nodes write the addresses that they know beside the
keys of the list. "Message originators can bypass the routing infrastructure" may also mean that the sender tells known
owners itself, and that only the others are in lists: this is counted for the readings, as "told directly".
"""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import log2
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tocsin.lab.notes import Notes
from tocsin.lab.p2p_diet_workload import DATA, elife
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.overlay.fcache import FCache
from tocsin.overlay.multicast import Method
from tocsin.overlay.placement.entry import word_key
from tocsin.sim.bulk import Flags, Publications, Traffic, count_casts
from tocsin.sim.ring import Keys, Ring, make_ring
from tocsin.text import words

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
WARM_SHARE = 0.1
CACHE_SHARES = (0.25, 0.5, 0.75, 1.0)
"""Entries of a cache as a share of the vocabulary."""
READING = "reading: "
RUNNING, PAPERS, ONE_FIELD = "running text", "papers of many fields", "abstracts of one field, joined"
FEWER_SHARE, FEWER_MIN = 0.2, 200
RUNNING_VOCABULARY = 20
"""Different words that running text is drawn from, for each word of a document."""
REAL = {PAPERS: DATA, ONE_FIELD: Path("scholarly", "acl_papers.jsonl.gz")}
"""Where real text is in the folder that TOCSIN_DATA names: eLife's articles; abstracts on computational linguistics."""
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


# --- documents -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def publications(scale: Scale, seed: int) -> Publications:
    """Documents with distinct words, the frequent ones in most of them; made once for all configurations."""
    chance = np.random.default_rng([seed, 7])
    weight = 1 / np.arange(1, scale.vocabulary + 1)
    # The smallest of exponential times with these rates are a sample without replacement by these weights.
    rows = np.empty((scale.documents, scale.document_words), np.int32)
    for row in rows:
        times = chance.exponential(size=scale.vocabulary) / weight
        row[:] = np.argpartition(times, scale.document_words)[: scale.document_words]
    keys = chance.integers(0, 2**64, scale.vocabulary, dtype=np.uint64)
    for row in rows:
        row[:] = row[np.argsort(keys[row])]  # quicker to count
    origins = (np.arange(scale.documents) % PUBLISHERS).astype(np.int32)
    return Publications(origins, np.arange(scale.documents + 1) * scale.document_words, rows.ravel(), keys)


def collected(documents: Sequence[npt.NDArray[np.int32]], keys: Keys) -> Publications:
    """Documents that one node publishes; words sorted by key, which is quicker to count."""
    rows = [document[np.argsort(keys[document])] for document in documents]
    first = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Publications(np.zeros(len(rows), np.int32), first, np.concatenate(rows), keys)


def running_text(scale: Scale, seed: int) -> Publications:
    """The distinct words of documents whose words are drawn one after the other."""
    chance = np.random.default_rng([seed, 8])
    cumulative = np.cumsum(1 / np.arange(1, RUNNING_VOCABULARY * scale.document_words + 1))
    drawn = chance.random((scale.fewer_documents, scale.document_words)) * cumulative[-1]
    documents = [np.unique(np.searchsorted(cumulative, row)).astype(np.int32) for row in drawn]
    return collected(documents, chance.integers(0, 2**64, len(cumulative), dtype=np.uint64))


def of_texts(texts: Sequence[Sequence[str]]) -> Publications:
    """The distinct words of texts, on the keys that they have on every ring."""
    number = {word: at for at, word in enumerate(sorted(set().union(*texts)))}
    keys = np.array([word_key(word) for word in number], dtype=np.uint64)
    return collected([np.array(sorted({number[word] for word in text}), dtype=np.int32) for text in texts], keys)


def joined(lines: Sequence[str], size: int) -> list[list[str]]:
    """Texts of at least so many words, each of several papers' titles and abstracts; what is left over is left out."""
    found: list[list[str]] = [[]]
    for line in lines:
        paper = json.loads(line)
        found[-1] += words(f"{paper['title']} {paper['abstract']}")
        if len(found[-1]) >= size:
            found.append([])
    return found[:-1]


def readings(scale: Scale) -> list[str]:
    """Those that can be measured: real text must be at hand."""
    return [RUNNING, *(name for name, path in REAL.items() if scale.has_papers and _data(path).is_file())]


def read(reading: str, scale: Scale, seed: int) -> Publications:
    """The documents of a reading."""
    if reading == RUNNING:
        return running_text(scale, seed)
    if reading == PAPERS:
        return of_texts(elife(_data(REAL[PAPERS])).bodies)
    with gzip.open(_data(REAL[ONE_FIELD]), "rt", encoding="utf-8") as file:
        return of_texts(joined(list(file), scale.document_words))


def _data(path: Path) -> Path:
    return Path(os.environ.get("TOCSIN_DATA") or "../shared/data") / path


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(scale: Scale, seed: int, sweep: Sweep = in_turn) -> Notes:
    """Messages and latency of a document, for each variant and ring; and what caches save in other settings."""
    notes = Notes(seed)
    notes.gather(
        sweep([
            *(partial(measure_variant, scale, seed, nodes, variant) for nodes in scale.nodes for variant in VARIANTS),
            *(partial(measure_caches, scale, seed, name) for name in PLAIN),
            *(partial(measure_reading, scale, seed, reading) for reading in readings(scale)),
        ])
    )  # fmt: skip
    return notes


@lru_cache(maxsize=1)
def _ring(nodes: int, seed: int) -> Ring:
    return make_ring(nodes, f"seed{seed}n")


def measure_variant(scale: Scale, seed: int, nodes: int, variant: str) -> Notes:
    """One point of each figure."""
    notes, made = Notes(seed), publications(scale, seed)
    method, is_cached = VARIANTS[variant]
    warm = max(PUBLISHERS, int(scale.documents * WARM_SHARE))
    traffic = count_casts(_ring(nodes, seed), made, method, LIST_MAX, scale.cache_entries if is_cached else 0)
    notes.add(
        "multicast", variant, nodes,
        messages=traffic.messages[warm:].mean(), latency=traffic.latency[warm:].mean(),
        receipts=traffic.receipts[warm:].mean(), load_max=traffic.load.max() / scale.documents,
    )  # fmt: skip
    return notes


def measure_caches(scale: Scale, seed: int, name: str) -> Notes:
    """How the reduction depends on what the paper does not say: how much of the vocabulary a cache can hold."""
    notes, made, ring = Notes(seed), publications(scale, seed), _ring(scale.nodes[0], seed)
    if name == next(iter(PLAIN)):
        notes.add("multicast", "document", 0, commonest=commonest(made, scale.cache_entries))
    some = scale.fewer_documents
    made = Publications(made.origins[:some], made.first[: some + 1], made.words, made.keys)
    plain = count_casts(ring, made, PLAIN[name], LIST_MAX, 0)
    for share in CACHE_SHARES:
        cached = count_casts(ring, made, PLAIN[name], LIST_MAX, int(share * scale.vocabulary))
        notes.add("cache", name, share, **savings(plain, cached, some // 2))
    return notes


def measure_reading(scale: Scale, seed: int, reading: str) -> Notes:
    """The same for another reading of "5,415 words", on the largest ring."""
    notes, made, ring = Notes(seed), read(reading, scale, seed), _ring(scale.nodes[-1], seed)
    warm, experiment = len(made.origins) // 2, f"{READING}{reading}"
    plain = {name: count_casts(ring, made, method, LIST_MAX, 0) for name, method in PLAIN.items()}
    for entries in (scale.cache_entries, len(made.keys)):
        known = known_words(ring, made, entries)
        for name, method in PLAIN.items():
            cached = count_casts(ring, made, method, LIST_MAX, entries)
            direct = savings(plain[name], tell_directly(ring, made, method, known), warm)
            notes.add(
                experiment, name, entries, **savings(plain[name], cached, warm),
                direct_messages_factor=direct["messages_factor"], direct_latency_factor=direct["latency_factor"],
            )  # fmt: skip
    notes.add(
        experiment, "document", 0,
        words=np.diff(made.first).mean(), commonest=commonest(made, scale.cache_entries),
    )  # fmt: skip
    return notes


def known_words(ring: Ring, made: Publications, entries: int) -> Flags:
    """Of every word of every document: whether its sender's FCache knows the owner."""
    caches: defaultdict[int, FCache] = defaultdict(lambda: FCache(entries))
    owners = np.searchsorted(ring.keys, made.keys) % len(ring.keys)
    known = np.zeros(len(made.words), np.bool_)
    for document, origin in enumerate(made.origins.tolist()):
        cache, start, end = caches[origin], made.first[document], made.first[document + 1]
        for at in (start + np.argsort(made.keys[made.words[start:end]] - ring.keys[origin])).tolist():
            word = int(made.words[at])
            if owners[word] != origin:
                known[at] = bool(cache.use(word))
                cache.learn(word, "known")
    return known


def tell_directly(ring: Ring, made: Publications, method: Method, known: Flags) -> Traffic:
    """What it costs if the sender tells known owners itself, one message for a word, and the others without a cache."""
    before = np.concatenate(([0], np.cumsum(known)))[made.first]  # known words before each document
    told = np.diff(before)
    rest = count_casts(
        ring, Publications(made.origins, made.first - before, made.words[~known], made.keys), method, LIST_MAX, 0
    )
    owners = np.searchsorted(ring.keys, made.keys[made.words[known]]) % len(ring.keys)
    return Traffic(
        rest.messages + told,
        rest.receipts + told,
        np.maximum(rest.latency, told > 0),
        rest.load + np.bincount(owners, minlength=len(ring.keys)),
    )


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


def about(scale: Scale) -> dict[str, object]:
    """What result.json says of the setting."""
    return {
        "nodes": list(scale.nodes), "documents": scale.documents, "document_words": scale.document_words,
        "vocabulary_words": scale.vocabulary, "cache_entries": scale.cache_entries, "list_max": LIST_MAX,
        "publishers": PUBLISHERS,
    }  # fmt: skip
