"""Publishers that change their topic, and what MAPS would hear of them (MAPS, "Experimental Evaluation").

The paper has 1,000 peers in 10 categories, 2 million documents of a focused crawl, and queries of two to four words
that strongly represent a category. The crawl is not to be had; here documents are drawn:

    a publisher belongs to a category, and publishes at a rate of its own (log-normal); now and then it is off its topic
    a document belongs to a topic of its category, and holds each word with a chance: a high one for words of its
    topic, a lower one for those of its category, a small one for all others
    a query asks for two, three or four words of one topic
    in the topic shift every publisher changes to another category, once, at a time of its own

`History` counts what was published. As MAPS ranks by counts alone, whom a subscription would monitor and what it would
hear follows from them, with the overlay's own `selection` and `prediction`: two million documents take seconds. Tests
show that a small ring of real nodes (`run_world`) monitors the same publishers and hears the same documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tocsin.model import Document
from tocsin.overlay.placement.publishers.selection import Evidence, best, monitored, rank
from tocsin.overlay.placement.publishers.settings import PublishersSettings
from tocsin.sim.workload import word

Counts = npt.NDArray[np.int64]
Bits = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class Shift(StrEnum):
    """When publishers change their topic."""

    NEVER = "never"
    AT_ONCE = "at once"  # all in the middle
    STAGGERED = "staggered"  # each at a time of its own


@dataclass(frozen=True, slots=True)
class ShiftSettings:
    """What is published, and what is asked for."""

    publishers: int = 1_000
    categories: int = 10
    topics: int = 10
    """Of each category."""
    topic_words: int = 6
    documents: int = 2_000_000
    """In all intervals together, about."""
    intervals: int = 20
    first: int = 4
    """Subscriptions are made in this interval; what came before is history."""
    queries: int = 30
    shift: Shift = Shift.STAGGERED
    rate_spread: float = 0.7
    """Of the logarithm of how much publishers publish."""
    off_topic: float = 0.1
    """Share of documents from any category."""
    topic_chance: float = 0.5
    category_chance: float = 0.1
    other_chance: float = 0.01
    decoys: bool = False
    """Another category has the words of a query, too, each in documents of its own: many of each, never together."""
    background_words: int = 1
    """Further words of a document, that no query asks for."""
    background_vocabulary: int = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """What is published in one interval."""

    publishers: Counts  # of each document
    holds: Bits  # [document, word that queries ask for]
    background: Counts  # [document, place]: words that none asks for

    def sizes(self) -> Counts:
        """Distinct words of each document."""
        ordered = np.sort(self.background, axis=1)
        distinct = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
        found: Counts = self.holds.sum(axis=1) + distinct
        return found


class Workload:
    """Everything that is drawn from a seed."""

    def __init__(self, settings: ShiftSettings, seed: int) -> None:
        self.settings, self.seed = settings, seed
        chance = np.random.default_rng([seed, 1])
        count, times = settings.publishers, settings.intervals
        rates = np.exp(chance.normal(0.0, settings.rate_spread, count))
        self.rates: Floats = rates / rates.sum() * settings.documents / times
        self.categories = self._categories(chance)
        self.queries = self._queries(chance)
        """Words of each query, as columns of `Batch.holds`."""

    def _categories(self, chance: np.random.Generator) -> Counts:
        """[interval, publisher]."""
        settings = self.settings
        count, times = settings.publishers, settings.intervals
        before = np.arange(count) % settings.categories
        after = (before + chance.integers(1, settings.categories, count)) % settings.categories
        if settings.shift is Shift.NEVER:
            when = np.full(count, times)
        elif settings.shift is Shift.AT_ONCE:
            when = np.full(count, (settings.first + times) // 2)
        else:
            when = chance.integers(settings.first, times, count)
        found: Counts = np.where(np.arange(times)[:, None] < when, before, after)
        return found

    def _queries(self, chance: np.random.Generator) -> list[tuple[int, ...]]:
        settings = self.settings
        self._columns: dict[tuple[int, int, int], int] = {}
        queries = []
        for number in range(settings.queries):
            category, topic = number % settings.categories, int(chance.integers(settings.topics))
            some = chance.choice(settings.topic_words, 2 + number // settings.categories % 3, replace=False)
            words = [(category, topic, int(one)) for one in some]
            queries.append(tuple(sorted(self._columns.setdefault(one, len(self._columns)) for one in words)))
        return queries

    def _category(self, column: int) -> int:
        return next(category for (category, _, _), one in self._columns.items() if one == column)

    @cached_property
    def words(self) -> list[str]:
        """The words that queries ask for, by column."""
        first = self.settings.background_vocabulary + 1
        return [word(first + column) for column in range(len(self._columns))]

    @cached_property
    def background(self) -> list[str]:
        """The words that none asks for."""
        return [word(rank + 1) for rank in range(self.settings.background_vocabulary)]

    def text(self, query: int) -> str:
        """A query as it is written."""
        return " AND ".join(self.words[column] for column in self.queries[query])

    @cached_property
    def _chances(self) -> npt.NDArray[np.float32]:
        """[category and topic, column]: how probably a document holds a word."""
        settings = self.settings
        found = np.full((settings.categories, settings.topics, len(self._columns)), settings.other_chance, np.float32)
        for (category, topic, _), column in self._columns.items():
            found[category, :, column] = settings.category_chance
            found[category, topic, column] = settings.topic_chance
        for words in self.queries if settings.decoys else ():
            for place, column in enumerate(words):
                decoy = (self._category(column) + 1) % settings.categories
                apart = np.arange(settings.topics) % len(words) == place
                found[decoy, :, column] = np.where(apart, settings.topic_chance, 0.0)
        return found.reshape(-1, len(self._columns))

    def batch(self, interval: int) -> Batch:
        """What is published in an interval."""
        settings = self.settings
        chance = np.random.default_rng([self.seed, 2, interval])
        publishers = np.repeat(np.arange(settings.publishers), chance.poisson(self.rates))
        count = len(publishers)
        category = self.categories[interval, publishers]
        is_off = chance.random(count) < settings.off_topic
        category = np.where(is_off, chance.integers(settings.categories, size=count), category)
        topic = chance.integers(settings.topics, size=count)
        chances = self._chances[category * settings.topics + topic]
        holds: Bits = chance.random(chances.shape, dtype=np.float32) < chances
        shares = np.cumsum(1 / np.arange(1, settings.background_vocabulary + 1))
        places = chance.random((count, settings.background_words)) * shares[-1]
        return Batch(publishers, holds, np.searchsorted(shares, places))

    def documents(self, interval: int, batch: Batch) -> Iterator[tuple[int, Document]]:
        """The same as documents, each with its publisher."""
        for number, publisher in enumerate(batch.publishers.tolist()):
            words = [self.words[column] for column in np.flatnonzero(batch.holds[number]).tolist()]
            words += [self.background[one] for one in sorted(set(batch.background[number].tolist()))]
            yield publisher, Document(f"d{interval}-{number}", {"text": (" ".join(words),)})


class History:
    """What was published, counted: by interval, publisher, and word or query."""

    def __init__(self, workload: Workload, batches: Iterator[Batch] | None = None) -> None:
        self.workload, settings = workload, workload.settings
        times, count, columns = settings.intervals, settings.publishers, len(workload.words)
        self.counts: Counts = np.zeros((times, count, columns), np.int64)
        self.matches: Counts = np.zeros((times, count, len(workload.queries)), np.int64)
        self.sizes: Counts = np.zeros((times, count), np.int64)
        self.documents = 0
        made = batches if batches is not None else map(workload.batch, range(times))
        for time, batch in enumerate(made):
            who = batch.publishers
            self.documents += len(who)
            self.sizes[time] = np.bincount(who, batch.sizes(), minlength=count).astype(np.int64)
            for column in range(columns):
                self.counts[time, :, column] = np.bincount(who[batch.holds[:, column]], minlength=count)
            for query, words in enumerate(workload.queries):
                found = batch.holds[:, words].all(axis=1)
                self.matches[time, :, query] = np.bincount(who[found], minlength=count)
        self._total_counts, self._total_matches = self.counts.cumsum(axis=0), self.matches.cumsum(axis=0)
        self._total_sizes = self.sizes.cumsum(axis=0)

    def evidence(
        self, query: int, interval: int, settings: PublishersSettings, learnt: int | None = None
    ) -> tuple[Evidence, Evidence | None]:
        """What the directory says in an interval; `learnt`: in this one it recognised the query's words as a set."""
        words = list(self.workload.queries[query])
        counts = self.counts[:interval, :, words]
        posted: Bits = counts.sum(axis=2) > 0  # a publisher's size is known as of its last post
        last = np.where(posted.any(axis=0), interval - 1 - posted[::-1].argmax(axis=0), 0)
        is_ripe = learnt is not None and interval >= learnt + 2
        if is_ripe and learnt is not None:  # who had such documents posted them when they were asked for
            had = self._total_matches[learnt - 1, :, query] > 0
            last = np.where(had, np.maximum(last, learnt - 1), last)
        sizes = self._total_sizes[last, np.arange(len(last))].astype(np.float64)
        publishers = self.population(interval)
        mean = self._total_sizes[interval - 1].sum() / max(1, publishers)

        def some(counts: Counts, totals: Counts) -> Evidence:
            recent = counts[-settings.window :]
            series = np.zeros((counts.shape[2], counts.shape[1], settings.window))
            series[:, :, settings.window - len(recent) :] = recent.transpose(2, 1, 0)
            return Evidence(totals.T.astype(np.float64), series, sizes, publishers, mean)

        by_words = some(counts, self._total_counts[interval - 1][:, words])
        if not is_ripe:
            return by_words, None
        return by_words, some(self.matches[:interval, :, [query]], self._total_matches[interval - 1][:, [query]])

    def ranking(
        self, query: int, interval: int, alpha: float, settings: PublishersSettings, learnt: int | None = None
    ) -> list[int]:
        """Publishers from the best on."""
        words, sets = self.evidence(query, interval, settings, learnt)
        return best(rank(words, sets, alpha, settings), self.workload.settings.publishers)

    def population(self, interval: int) -> int:
        """Publishers that the directory knows in an interval."""
        return int((self._total_sizes[interval - 1] > 0).sum())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What subscriptions monitored and heard."""

    chosen: dict[tuple[int, int], frozenset[int]]
    """Publishers by query and interval."""
    heard: dict[tuple[int, int], int]
    """Documents by query and interval."""
    matching: int

    @property
    def recall(self) -> float:
        """Notices received of all matching documents published."""
        return sum(self.heard.values()) / max(1, self.matching)


def hear(
    history: History,
    rhos: Sequence[float],
    alpha: float,
    settings: PublishersSettings,
    *,
    repositions: bool = True,
    uses_sets: bool = False,
) -> dict[float, Outcome]:
    """What subscriptions would monitor and hear, for several ρ at once."""
    shape = history.workload.settings
    times = range(shape.first, shape.intervals)
    found = {rho: Outcome({}, {}, int(history.matches[shape.first :].sum())) for rho in rhos}
    for query in range(len(history.workload.queries)):
        for time in times:
            if time == shape.first or repositions:
                learnt = shape.first if uses_sets else None
                ranking = history.ranking(query, time, alpha, settings, learnt)
                population = history.population(time)
            for rho, outcome in found.items():
                chosen = frozenset(ranking[: monitored(rho, population)])
                outcome.chosen[query, time] = chosen
                outcome.heard[query, time] = int(history.matches[time, sorted(chosen), query].sum())
    return found
