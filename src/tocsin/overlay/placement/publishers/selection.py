"""Which publishers promise most for a query (MAPS, "Continuous Query Forwarding").

    score(P, q) = α · sel(P, q) + (1 − α) · pred(P, q)

sel is CORI, the standard of resource selection: for a term t and the collection of P,

    T = df / (df + 50 + 150 · cw / mean cw)      df: documents of P with t; cw: words of its collection
    I = log((C + ½) / cf) / log(C + 1)           C: publishers; cf: those that have t
    belief = 0.4 + 0.6 · T · I                   0.4 if P has no such document

and its mean over the terms of the query. pred is the mean over the terms of log(1 + forecast): documents with t that P
will publish next. The paper does not say how two scores of different scale are added up: here each is measured from the
least that a publisher can have, in shares of the best publisher's.

A term is a word, or a set of words that the directory keeps statistics of. Publishers that have documents with all
words of a set come before those that have not, however many of each word these have; among them the score of the sets
counts half and that of the words, which are counted more often and so more surely, the other half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from tocsin.overlay.message import Address
from tocsin.overlay.placement.publishers.messages import Figures
from tocsin.overlay.placement.publishers.prediction import Floats, forecast
from tocsin.overlay.placement.publishers.settings import PublishersSettings

BELIEF_LEAST = 0.4


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of some publishers and the terms of a query."""

    documents: Floats  # [term, publisher]: with the term, in the collection
    series: Floats  # [term, publisher, interval]
    words: Floats  # [publisher]: size of the collection
    publishers: int  # in all
    words_mean: float  # of all collections

    def of(self, terms: slice) -> Evidence:
        """Some of the terms."""
        return replace(self, documents=self.documents[terms], series=self.series[terms])


def selection(evidence: Evidence) -> Floats:
    """CORI beliefs, the mean over terms."""
    count = evidence.publishers
    relative = evidence.words / max(evidence.words_mean, 1.0)
    documents = evidence.documents
    often = documents / (documents + 50 + 150 * relative)
    holders = np.maximum((documents > 0).sum(axis=1), 1)
    rare = np.log((count + 0.5) / np.minimum(holders, count)) / np.log(count + 1.0)
    belief = BELIEF_LEAST + (1 - BELIEF_LEAST) * often * rare[:, None]
    found: Floats = belief.mean(axis=0)
    return found


def prediction(evidence: Evidence, settings: PublishersSettings) -> Floats:
    """What will be published next, the mean over terms of its logarithm."""
    expected = [forecast(series, settings.level_weight, settings.trend_weight) for series in evidence.series]
    found: Floats = np.log1p(np.array(expected)).mean(axis=0)
    return found


def score(evidence: Evidence, alpha: float, settings: PublishersSettings) -> Floats:
    """Between 0 and 1 for each publisher."""
    chosen = _of_the_best(selection(evidence) - BELIEF_LEAST)
    expected = _of_the_best(prediction(evidence, settings))
    return alpha * chosen + (1 - alpha) * expected


def rank(words: Evidence, sets: Evidence | None, alpha: float, settings: PublishersSettings) -> Floats:
    """Scores by words, and by recognised sets of them if there are any; between 0 and 1."""
    by_words = score(words, alpha, settings)
    if sets is None:
        return by_words
    by_sets = score(sets, alpha, settings)
    found: Floats = np.where(by_sets > 0, 1 + (by_sets + by_words) / 2, by_words) / 2
    return found


def _of_the_best(values: Floats) -> Floats:
    most = values.max(initial=0.0)
    return values / most if most > 0 else np.zeros_like(values)


def best(scores: Floats, count: int) -> list[int]:
    """The places of the highest scores; of equal ones the first; none that is 0."""
    order = np.argsort(-scores, kind="stable")[:count]
    return [place for place in order.tolist() if scores[place] > 0]


def monitored(rho: float, publishers: int) -> int:
    """How many publishers keep a query."""
    return max(1, ceil(rho * publishers - 1e-9))


def gather(
    terms: Sequence[Sequence[Figures]], interval: int, publishers: int, words: int, window: int
) -> tuple[list[Address], Evidence]:
    """The figures of all terms side by side; a publisher that a term does not name has nothing of it.

    Series end at `interval`: who has posted nothing since has published nothing since.
    """
    names = sorted({one.publisher for figures in terms for one in figures})
    place = {name: index for index, name in enumerate(names)}
    documents = np.zeros((len(terms), len(names)))
    series = np.zeros((len(terms), len(names), window))
    sizes = np.zeros(len(names))
    newest = np.full(len(names), -1)
    for term, figures in enumerate(terms):
        for one in figures:
            at = place[one.publisher]
            documents[term, at] = one.documents
            silent = max(0, interval - one.last)
            for back, value in enumerate(reversed(one.series)):
                if silent + back < window:
                    series[term, at, window - 1 - silent - back] = value
            if one.last > newest[at]:  # a term that was posted later knows the size better
                newest[at], sizes[at] = one.last, one.words
    count = max(1, publishers, len(names))
    return names, Evidence(documents, series, sizes, count, words / max(1, publishers))
