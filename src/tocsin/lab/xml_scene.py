"""The ring, the queries and the documents of the experiments with the distributed automaton (XML filtering paper §6).

Two workloads: *news*, this project's recursive news DTD, stands for NITF; *aggregated* is news, NewsML's and DBLP's
DTDs together, in turn (the paper has ten DTDs, of which these are free). A *random* set may repeat queries; a
*distinct* one has the first occurrences in the same stream. Table 1 with the paper's values is lost: ours is below, and
in each result. Traffic is counted by `sim.states_bulk`, which equals the nodes' own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from tocsin.errors import SettingError
from tocsin.lab.notes import Notes
from tocsin.markup import read_markup
from tocsin.overlay.placement.states.settings import Execution
from tocsin.sim.markup import NEWS_DTD, DocumentShape, DocumentType, QueryShape, documents, queries, read_dtd
from tocsin.sim.ring import Indices, Ring
from tocsin.sim.states_bulk import BulkAutomaton, BulkDocuments, Traffic, count_filtering

NEWS, AGGREGATED = "news", "aggregated"
DISTINCT, RANDOM = "distinct", "random"
TYPES = {NEWS: (NEWS,), AGGREGATED: (NEWS, "NewsML", "DBLP")}
DEPTHS = {NEWS: 10, "NewsML": 14, "DBLP": 4}
ELEMENTS = 60
"""Elements of a document, about: 70 in the mean, since required parts come on top."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large an experiment is."""

    peers: int
    sizes: tuple[int, ...]
    """Numbers of queries, ascending."""
    documents: int
    wildcard: float = 0.1
    descendant: float = 0.1


SCALES = {
    "small": Scale(200, (1_000, 2_000, 4_000, 8_000), 12),
    "paper": Scale(1_000, (125_000, 250_000, 500_000, 1_000_000), 30),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """Document types, and documents of them."""

    name: str
    kinds: dict[str, DocumentType]
    documents: BulkDocuments
    bytes_mean: float


def workload(name: str, count: int, seed: int) -> Workload | None:
    """A workload with so many documents; None if its DTDs are not at hand."""
    return _workload(name, count, seed, Path(os.environ.get("TOCSIN_DATA") or "../shared/data") / "xml")


@lru_cache(maxsize=2)
def _workload(name: str, count: int, seed: int, folder: Path) -> Workload | None:
    files = {NEWS: NEWS_DTD, "NewsML": folder / "NewsMLv1.2.dtd", "DBLP": folder / "dblp.dtd"}
    if not all(files[one].is_file() for one in TYPES[name]):
        return None
    kinds = {one: read_dtd(files[one], one.lower() if one == "DBLP" else one) for one in TYPES[name]}
    shape = DocumentShape(elements_max=ELEMENTS)
    texts = [list(documents(kind, -(-count // len(kinds)), seed, shape)) for kind in kinds.values()]
    mixed = [text for some in zip(*texts, strict=True) for text in some][:count]
    size = sum(len(text.encode()) for text in mixed) / len(mixed)
    return Workload(name, kinds, BulkDocuments([read_markup(text) for text in mixed]), size)


def workloads(names: Iterable[str], count: int, seed: int) -> list[Workload]:
    """Those of the workloads whose DTDs are at hand."""
    return [load for name in names if (load := workload(name, count, seed)) is not None]


def query_stream(kinds: dict[str, DocumentType], seed: int, scale: Scale, distinct: bool) -> Iterator[str]:
    """Queries of all types in turn, without end; a type that has no more distinct ones is passed over."""
    streams = [
        queries(kind, 1 << 40, seed, QueryShape(DEPTHS[name], scale.wildcard, scale.descendant, distinct=distinct))
        for name, kind in kinds.items()
    ]
    while streams:
        for stream in list(streams):
            try:
                yield next(stream)
            except SettingError:
                streams.remove(stream)


def growing(load: Workload, seed: int, scale: Scale, kind: str) -> Iterator[BulkAutomaton]:
    """One automaton that grows, at each size."""
    found = BulkAutomaton()
    stream = query_stream(load.kinds, seed, scale, kind == DISTINCT)
    for size in scale.sizes:
        found.add(islice(stream, size - found.queries))
        yield found


def publishers(ring: Ring, count: int, seed: int) -> Indices:
    """Where documents are published."""
    return np.random.default_rng([seed, count]).integers(0, len(ring.keys), count).astype(np.int32)


def measure(
    load: Workload, found: BulkAutomaton, ring: Ring, seed: int, execution: Execution = Execution.RECURSIVE,
    *, length: int = 0,
) -> Traffic:  # fmt: skip
    """Publishes all documents of a workload."""
    origins = publishers(ring, len(load.documents), seed)
    return count_filtering(found, ring, load.documents, origins, execution, length=length)


def write(notes: Notes, variant: str, x: float, found: Traffic, **more: float) -> None:
    """Means over the documents, as rows of the experiment "filtering"."""
    notes.add(
        "filtering", variant, x, requests=found.requests.mean(), answers=found.answers.mean(),
        messages=found.messages.mean(), hops=found.hops.mean(), latency=found.latency.mean(), **more,
    )  # fmt: skip


def about(experiment: str, scale: str, seed: int, loads: list[Workload], **more: object) -> dict[str, object]:
    """What a result says of its workload."""
    return {
        "experiment": experiment,
        "scale": scale,
        "seed": seed,
        **{name: value for name, value in asdict(SCALES[scale]).items() if name != "sizes"},
        "query_depths": DEPTHS,
        "document_types": {load.name: list(load.kinds) for load in loads},
        "document_bytes_mean": {load.name: round(load.bytes_mean) for load in loads},
        "document_elements_mean": {
            load.name: round(len(load.documents.last) / len(load.documents)) for load in loads
        },
        "paper_documents": 1_000,
        **more,
    }  # fmt: skip


def is_flat(points: dict[float, float], within: float = 1.3) -> bool:
    """Whether the largest of some values is hardly larger than the smallest."""
    return max(points.values()) <= within * min(points.values())


def slopes(points: dict[float, float]) -> list[float]:
    """Growth for each unit of x, between one point and the next."""
    pairs = list(points.items())
    return [(after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(pairs)]
