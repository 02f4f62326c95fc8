"""P2P-DIET §4.1, Figures 2 and 3: how long four algorithms take to filter a paper against very many queries.

Times are processor time of one core. *Filtering time* begins with the words of the document, as in the paper;
*throughput* begins with its text. Words are ordered lexicographically, as in the paper; the orders by frequency, which
it mentions and does not show, are an experiment of their own, as are the size of documents and the share of queries
that match. All four algorithms run over the same kind of arrays, BF too: what they differ in is the algorithm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import mean

import numpy as np

from tocsin.lab.p2p_diet_workload import Papers, papers
from tocsin.lab.result import Claim, Result, Row
from tocsin.match.tries import AwpEngine, BestFitTrie, PrefixTrie, Sequential, Swin
from tocsin.match.tries.engine import ORDERS
from tocsin.model import Document
from tocsin.query.ast import Query
from tocsin.query.score import Statistics
from tocsin.query.semantics import Knowledge
from tocsin.text import Analysis, words

ALGORITHMS: dict[str, Callable[..., AwpEngine]] = {
    "BF": Sequential,
    "SWIN": Swin,
    "PrefixTrie": PrefixTrie,
    "BestFitTrie": BestFitTrie,
}
FASTEST_FIRST = tuple(reversed(ALGORITHMS))  # as the paper finds them
MATCHING = 0.01  # of the queries match a paper
KNOWLEDGE = Knowledge()
SPACE_LESS, FASTER, PAPERS_PER_SECOND, INSERTED_PER_SECOND = 0.15, 10.0, 9.0, 40.0  # the paper's figures


@dataclass(frozen=True, slots=True)
class Scale:
    """How large an experiment is."""

    sizes: tuple[int, ...]
    """Numbers of queries, ascending."""
    documents: int
    middle: int
    """Queries where documents of several sizes are tried; one of the sizes."""
    aside: int
    """Queries where other shares of matching queries, and orders of words, are tried."""
    lengths: tuple[int, ...]
    """Words of documents."""
    shares: tuple[float, ...]
    """Shares of queries that match a document."""


SCALES = {
    "small": Scale((1_000, 2_000, 5_000, 10_000, 20_000), 25, 10_000, 5_000, (500, 1_000, 2_000, 4_000), (0.003, 0.03)),
    "paper": Scale(
        (100_000, 500_000, 1_000_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000),
        100,
        1_000_000,
        300_000,
        (250, 500, 1_000, 2_000, 4_000, 6_000),
        (0.001, 0.003, 0.01, 0.03, 0.1),
    ),
}


# --- measuring -------------------------------------------------------------------------------------------------------


@dataclass
class Notes:
    """What was measured, as rows of data.csv."""

    seed: int
    rows: list[Row] = field(default_factory=list)

    def add(self, experiment: str, variant: str, x: float, **values: float) -> None:
        """Writes one row for each value, named by its metric."""
        self.rows += (Row(experiment, variant, x, metric, value, self.seed) for metric, value in values.items())

    def of(self, experiment: str, variant: str, metric: str) -> dict[float, float]:
        """What was measured, by x."""
        asked = (experiment, variant, metric)
        return {row.x: row.value for row in self.rows if (row.experiment, row.variant, row.metric) == asked}

    def last(self, variant: str, metric: str) -> float:
        """At the largest number of queries."""
        found = self.of("queries", variant, metric)
        return found[max(found)]


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def timed(engine: AwpEngine, documents: Iterable[Document], queries: int) -> dict[str, float]:
    """Mean times over the documents, and how much of the queries matched."""
    filtering, whole, matched = [], [], 0
    for document in documents:
        whole.append(seconds(lambda: engine.match([document], KNOWLEDGE)))  # noqa: B023 — called at once
        # The words of a text are remembered for a while, so this time it begins with the words.
        filtering.append(seconds(lambda: engine.match([document], KNOWLEDGE)))  # noqa: B023
        matched += len(engine.match([document], KNOWLEDGE)[0])
    return {
        "filtering_ms": 1000 * mean(filtering),
        "documents_per_second": 1 / mean(whole),
        "matching_share": matched / len(whole) / queries,
    }


def add_all(engine: AwpEngine, queries: Iterator[tuple[int, Query]], count: int) -> float:
    """Adds the next queries; returns how many of them went in per second."""
    batch = list(islice(queries, count))

    def work() -> None:
        for number, query in batch:
            engine.add(number, query)

    return len(batch) / max(seconds(work), 1e-9)


def cut(document: Document, length: int) -> Document:
    """The document with the first words of its text only."""
    text = " ".join(words(str(document.fields["text"][0]))[:length])
    return Document(document.id, {**document.fields, "text": (text,)})


# --- experiments -----------------------------------------------------------------------------------------------------


def run(scale: str, seed: int) -> Result:
    """Re-draws Figures 2 and 3; `scale` is "small" or "paper"."""
    collection = papers(seed)
    chosen = np.random.default_rng([seed, 1]).permutation(len(collection.documents))[: SCALES[scale].documents]
    bench = Bench(SCALES[scale], collection, [collection.documents[index] for index in chosen], Notes(seed))
    bench.warm_up()
    popularity = collection.popularity(MATCHING, seed)
    for name in ALGORITHMS:
        bench.grow(name, popularity)
    bench.vary_share()
    bench.vary_order(popularity)
    notes = bench.notes
    kilobytes = mean(len(str(document.fields["text"][0]).encode()) for document in bench.documents) / 1000
    about: dict[str, object] = {
        "experiment": "p2p-diet",
        "scale": scale,
        "seed": seed,
        "papers": collection.name,
        "words_per_paper": round(mean(map(len, collection.bodies))),
        "kilobytes_per_paper": round(kilobytes, 1),
        "matching_share": notes.last("BF", "matching_share"),
        "time": "processor time of one core",
    }
    return Result(claims(notes, scale == "paper", kilobytes), notes.rows, lambda path: plot(notes, path), about)


@dataclass(frozen=True)
class Bench:
    """What all experiments share."""

    size: Scale
    collection: Papers
    documents: list[Document]
    notes: Notes

    def queries(self, count: int, popularity: float) -> Iterator[tuple[int, Query]]:
        """Queries with their numbers."""
        return enumerate(self.collection.queries(count, self.notes.seed, popularity))

    def warm_up(self) -> None:
        """Loads every kernel, so that no measured time has a part of it."""
        for make in ALGORITHMS.values():
            engine = make()
            add_all(engine, self.queries(200, 1.0), 200)
            engine.match(self.documents[:2], KNOWLEDGE)
            engine.reorganise()

    def grow(self, name: str, popularity: float) -> None:
        """Figures 2 and 3: one engine that grows, filtered at each size; documents of other lengths on the way."""
        engine, notes = ALGORITHMS[name](), self.notes
        queries = self.queries(self.size.sizes[-1], popularity)
        before = 0
        for count in self.size.sizes:
            rate = add_all(engine, queries, count - before)
            found = timed(engine, self.documents, count)
            notes.add("queries", name, count, **found, inserted_per_second=rate, bytes_per_query=engine.bytes / count)
            notes.add("queries", name, count, nodes=engine.nodes)
            if count == self.size.middle:
                for length in self.size.lengths:
                    found = timed(engine, [cut(document, length) for document in self.documents], count)
                    notes.add("document words", name, length, **found)
            before = count

    def vary_share(self) -> None:
        """Other shares of matching queries."""
        for share in self.size.shares:
            popularity = self.collection.popularity(share, self.notes.seed)
            for name, make in ALGORITHMS.items():
                engine = make()
                add_all(engine, self.queries(self.size.aside, popularity), self.size.aside)
                self.notes.add("matching share", name, share, **timed(engine, self.documents, self.size.aside))

    def vary_order(self, popularity: float) -> None:
        """Words by frequency instead of lexicographically; and re-organisation."""
        frequency = Statistics.of(self.collection.documents, Analysis()).frequency
        for name, make in ALGORITHMS.items():
            for order in ORDERS:
                engine = make(order=order, frequency=frequency)
                add_all(engine, self.queries(self.size.aside, popularity), self.size.aside)
                self._note_order(f"order: {order}", name, engine)
                engine.reorganise()
                self._note_order(f"order: {order}, re-organised", name, engine)

    def _note_order(self, experiment: str, name: str, engine: AwpEngine) -> None:
        found = timed(engine, self.documents, self.size.aside)
        self.notes.add(experiment, name, self.size.aside, **found, nodes=engine.nodes)


# --- what the paper claims -------------------------------------------------------------------------------------------


def claims(notes: Notes, is_paper_scale: bool, kilobytes: float) -> list[Claim]:
    """The paper's sentences beside what was measured; those about large databases are judged at its scale only."""
    judged = (lambda holds: holds) if is_paper_scale else (lambda holds: None)
    growth = {name: fit(notes.of("queries", name, "filtering_ms")) for name in FASTEST_FIRST}
    times = {name: notes.last(name, "filtering_ms") for name in FASTEST_FIRST}
    fastest = sorted(FASTEST_FIRST, key=times.__getitem__)
    steeper = {name: growth["BF"].slope / growth[name].slope for name in FASTEST_FIRST[:-1]}
    throughput = notes.last("BestFitTrie", "documents_per_second")
    space = {name: notes.last(name, "bytes_per_query") for name in FASTEST_FIRST}
    less = 1 - space["BF"] / space["BestFitTrie"]
    inserted = min(notes.last(name, "inserted_per_second") for name in ("PrefixTrie", "BestFitTrie"))
    return [
        Claim(
            "Filtering time grows linearly with the number of queries (Figure 2)",
            "linear for all four",
            "R² of a straight line: " + ", ".join(f"{name} {growth[name].r2:.3f}" for name in FASTEST_FIRST),
            judged(all(line.r2 > 0.95 for line in growth.values())),
        ),
        Claim(
            "SWIN, PrefixTrie and BestFitTrie are less sensitive than BF to the number of queries",
            "flatter lines",
            "BF's line is steeper by " + ", ".join(f"{name} {ratio:.1f}×" for name, ratio in steeper.items()),
            judged(all(ratio > 1 for ratio in steeper.values())),
        ),
        Claim(
            "BestFitTrie is faster than PrefixTrie, that faster than SWIN, that faster than BF (Figure 2)",
            " < ".join(FASTEST_FIRST),
            " < ".join(f"{name} {times[name]:.2f} ms" for name in fastest),
            judged(tuple(fastest) == FASTEST_FIRST),
        ),
        Claim(
            "BestFitTrie filters about 10 times faster than the sequential scan",
            f"{FASTER:.0f}×",
            f"{times['BF'] / times['BestFitTrie']:.1f}×",
            judged(times["BF"] / times["BestFitTrie"] > 0.75 * FASTER),
        ),
        Claim(
            "BestFitTrie filters about 9 papers (150 KB) a second against 3 million queries (Figure 3)",
            f"{PAPERS_PER_SECOND:.0f} papers/s, 150 KB/s",
            f"{throughput:.0f} papers/s, {throughput * kilobytes:,.0f} KB/s",
            judged(throughput >= PAPERS_PER_SECOND),
        ),
        Claim(
            "BF needs about 15 % less space than the tries",
            f"{SPACE_LESS:.0%} less",
            f"{less:.0%} less: " + ", ".join(f"{name} {space[name]:.0f} bytes/query" for name in FASTEST_FIRST),
            judged(abs(less - SPACE_LESS) <= 0.1),
        ),
        Claim(
            "The tries take about 40 new queries a second in a database of 2.5 million",
            f"{INSERTED_PER_SECOND:.0f}/s",
            f"{inserted:,.0f}/s",
            judged(inserted >= INSERTED_PER_SECOND),
        ),
    ]


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line through points, and how well it fits."""

    slope: float
    r2: float


def fit(points: dict[float, float]) -> Line:
    """Least squares."""
    x, y = np.array(list(points)), np.array(list(points.values()))
    slope, start = np.polyfit(x, y, 1)
    spread = float(((y - y.mean()) ** 2).sum())
    r2 = 1 - float(((y - slope * x - start) ** 2).sum()) / spread if spread else 1.0
    return Line(max(float(slope), 1e-12), r2)


# --- drawing ---------------------------------------------------------------------------------------------------------


def plot(notes: Notes, path: Path) -> None:
    """Figures 2 and 3, and the two axes that the paper names and does not show."""
    from matplotlib.figure import Figure

    panels = [
        ("queries", "filtering_ms", "Figure 2: filtering time", "queries", "ms per paper", False),
        ("queries", "documents_per_second", "Figure 3: throughput", "queries", "papers per second", False),
        ("document words", "filtering_ms", "size of documents", "words", "ms per paper", False),
        ("matching share", "filtering_ms", "share of queries that match", "share", "ms per paper", True),
    ]
    figure = Figure(figsize=(11, 8), layout="constrained")
    for axes, (experiment, metric, title, x, y, logarithmic) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        for name in ALGORITHMS:
            points = notes.of(experiment, name, metric)
            axes.plot(list(points), list(points.values()), marker="o", label=name)
        axes.set(title=title, xlabel=x, ylabel=y, ylim=(0, None))
        if logarithmic:
            axes.set_xscale("log")
        axes.legend()
    figure.savefig(path)
