"""How fast an account may go: a bucket of tokens that fills at a rate, and is emptied by what it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tocsin.site.problems import TooFast

BURST_SECONDS = 10.0
"""A bucket holds what its rate brings in this time."""
NEVER_SECONDS = 86_400.0  # to come back to a rate of 0
BUCKETS_MAX = 100_000


class Buckets:
    """One bucket for each name. Safe to share between threads."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, name: str, rate: float, amount: float = 1.0, what: str = "calls") -> None:
        """Takes the amount out of the bucket, or raises TooFast, which says when it will be there.

        More than a bucket holds is let through when the bucket is full, which is then in debt: a large call is
        possible, and counts.
        """
        most = rate * BURST_SECONDS
        with self._lock:
            now = self._now()
            level, at = self._levels.get(name, (most, now))
            level = min(most, level + (now - at) * rate)
            needed = min(amount, most)
            if rate <= 0 or level + 1e-9 < needed:
                wait = (needed - level) / rate if rate > 0 else NEVER_SECONDS
                raise TooFast(
                    f"more than {rate:g} {what} a second: try again in {wait:.1f} seconds",
                    retry_after_seconds=wait,
                )
            if len(self._levels) >= BUCKETS_MAX and name not in self._levels:
                self._forget_full(now)
            self._levels[name] = (level - amount, now)

    def _forget_full(self, now: float) -> None:
        """An idle bucket is full, and a full one need not be remembered; the longest idle go first."""
        oldest = sorted(self._levels, key=lambda name: self._levels[name][1])[: BUCKETS_MAX // 2]
        for name in oldest:
            del self._levels[name]
