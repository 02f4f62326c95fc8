"""What has come so far, as far as it tells what will come: the rate of documents, and a sample of them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from math import sqrt

from tocsin.match.index import IndexEngine
from tocsin.match.matcher import Matcher
from tocsin.match.paths import PathIndex
from tocsin.model import Document, Subscription
from tocsin.query.score import Statistics
from tocsin.store import Store, documents
from tocsin.text import Analysis

DAY_SECONDS = 86_400.0
WINDOW_SECONDS = 7 * DAY_SECONDS
SHORTEST_SECONDS = 3_600.0  # a history that is younger is taken for one of an hour
AGE_SECONDS_MAX = 30.0  # of a sample before it is drawn anew, if documents came meanwhile
NORMAL_95 = 1.959964


@dataclass(frozen=True, slots=True)
class Forecast:
    """Hits per day: the best guess and an interval that holds 19 times out of 20, if the days stay as they were."""

    per_day: float
    low: float
    high: float
    hits: int
    """Of the documents that were looked at."""
    looked_at: int
    documents_per_day: float


class History:
    """The documents of the last week. Safe to share between threads."""

    def __init__(self, store: Store, analysis: Analysis, documents_max: int) -> None:
        self._store = store
        self._analysis = analysis
        self._most = documents_max
        self._lock = threading.Lock()
        self._sample: list[Document] = []
        self._per_day = 0.0
        self._statistics = Statistics()  # of the sample: enough to foretell, not to score
        self._drawn = (0.0, -1)

    def forecast(self, subscription: Subscription) -> Forecast:
        """How often the subscription will be told, judged by the last week."""
        sample, per_day, statistics = self._current()
        matcher = Matcher([subscription], IndexEngine(self._analysis), self._analysis, statistics, PathIndex())
        hits = sum(1 for _ in matcher.match(sample))
        low, high = share_interval(hits, len(sample))
        guess = hits / len(sample) if sample else 0.0
        return Forecast(guess * per_day, low * per_day, high * per_day, hits, len(sample), per_day)

    def _current(self) -> tuple[list[Document], float, Statistics]:
        with self._lock:
            now, last = time.time(), documents.last_position(self._store)
            drawn, upto = self._drawn
            if upto != last and (now - drawn > AGE_SECONDS_MAX or last < 2 * self._most):
                self._draw(now, last)
            return self._sample, self._per_day, self._statistics

    def _draw(self, now: float, last: int) -> None:
        first = documents.first_accepted(self._store)
        after = documents.accepted_by(self._store, now - WINDOW_SECONDS)
        age = min(WINDOW_SECONDS, max(SHORTEST_SECONDS, now - (now if first is None else first)))
        self._sample = [stored.document() for stored in documents.sample(self._store, after, last, self._most)]
        self._statistics = Statistics.of(self._sample, self._analysis)
        self._per_day = (last - after) * DAY_SECONDS / age
        self._drawn = (now, last)


def share_interval(hits: int, looked_at: int) -> tuple[float, float]:
    """Wilson's interval for a share, 95 of 100 times; (0, 1) if nothing was looked at."""
    if not looked_at:
        return 0.0, 1.0
    share, z = hits / looked_at, NORMAL_95
    middle = share + z * z / (2 * looked_at)
    spread = z * sqrt(share * (1 - share) / looked_at + z * z / (4 * looked_at * looked_at))
    whole = 1 + z * z / looked_at
    low = 0.0 if not hits else max(0.0, (middle - spread) / whole)
    high = 1.0 if hits == looked_at else min(1.0, (middle + spread) / whole)
    return low, high
