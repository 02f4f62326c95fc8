"""How fast a site's pipeline goes, as one line that a person can watch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Protocol

LOOKED_BACK_SECONDS = 10.0


class Progress(Protocol):
    """How far a pipeline is; `pipeline.stream.Progress` is one."""

    @property
    def documents(self) -> int:
        """Since the start."""

    @property
    def matches(self) -> int:
        """Since the start."""

    @property
    def lag(self) -> int:
        """Documents that wait."""

    @property
    def batch_seconds(self) -> float:
        """Of the last batch."""


class Pace:
    """Remembers the last seconds of a pipeline's progress."""

    def __init__(self, ask: Callable[[], Progress | None], now: Callable[[], float] = monotonic) -> None:
        self._ask, self._now = ask, now
        self._seen: deque[tuple[float, int, int]] = deque()

    def line(self) -> str:
        """Documents and matches a second, those that wait, the time of a batch; "" before the pipeline runs."""
        progress = self._ask()
        if progress is None:
            return ""
        now = self._now()
        self._seen.append((now, progress.documents, progress.matches))
        while len(self._seen) > 2 and self._seen[1][0] <= now - LOOKED_BACK_SECONDS:
            self._seen.popleft()
        begin, documents, matches = self._seen[0]
        seconds = max(now - begin, 1e-9)
        is_new = len(self._seen) < 2
        told = [
            f"{progress.documents:,} documents ({0 if is_new else (progress.documents - documents) / seconds:,.1f}/s)",
            f"{progress.lag:,} wait",
            f"{progress.matches:,} matches ({0 if is_new else (progress.matches - matches) / seconds:,.1f}/s)",
            f"last batch {progress.batch_seconds:.2f} s",
        ]
        return " · ".join(told)
