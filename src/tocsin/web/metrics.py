"""What /metrics shows, in Prometheus' text form: numbers of the whole site, never of an account.

It needs no token, as those who collect it expect; so it names no account, no subscription and no document.
An operator who wants even the totals private keeps the path from strangers in the proxy before the site.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from threading import Lock

SECONDS = (0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Counter:
    """A number that only grows, for each set of labels."""

    kind = "counter"

    def __init__(self, name: str, help: str) -> None:
        self.name, self.help = name, help
        self._values: dict[Labels, float] = {}
        self._lock = Lock()

    def add(self, amount: float = 1, **labels: str) -> None:
        """It has grown."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    def value(self, **labels: str) -> float:
        """How much it is now."""
        return self._values.get(tuple(sorted(labels.items())), 0)

    def lines(self) -> Iterable[str]:
        """As Prometheus reads it."""
        with self._lock:
            values = sorted(self._values.items())
        return [f"{self.name}{_labels(labels)} {_number(value)}" for labels, value in values or [((), 0.0)]]


class Histogram:
    """How long something took."""

    kind = "histogram"

    def __init__(self, name: str, help: str, bounds: tuple[float, ...] = SECONDS) -> None:
        self.name, self.help, self.bounds = name, help, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = Lock()

    def observe(self, seconds: float) -> None:
        """It took so long."""
        with self._lock:
            self._counts[bisect_left(self.bounds, seconds)] += 1
            self._sum += seconds

    def lines(self) -> Iterable[str]:
        """As Prometheus reads it."""
        with self._lock:
            counts, total = list(self._counts), self._sum
        found, seen = [], 0
        for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
            seen += count
            label = "+Inf" if bound == float("inf") else _number(bound)
            found.append(f'{self.name}_bucket{{le="{label}"}} {seen}')
        return [*found, f"{self.name}_sum {_number(total)}", f"{self.name}_count {seen}"]


class Metrics:
    """What the web room counts itself."""

    def __init__(self) -> None:
        self.requests = Counter("tocsin_http_requests_total", "Calls by method, route and status.")
        self.seconds = Histogram("tocsin_http_request_seconds", "How long calls took, streams left out.")
        self.streams = Counter("tocsin_http_streams_total", "Streams of notifications that were opened.")
        self.streamed = Counter("tocsin_http_streamed_total", "Notifications that went out by streams.")
        self.documents = Counter(
            "tocsin_documents_offered_total", "Documents that were offered, by what became of them."
        )

    def text(self, gauges: Mapping[str, tuple[str, str, float]]) -> str:
        """Everything; `gauges` are (kind, help, value) by name, as the site tells them."""
        found = []
        for one in (self.requests, self.seconds, self.streams, self.streamed, self.documents):
            found += [f"# HELP {one.name} {one.help}", f"# TYPE {one.name} {one.kind}", *one.lines()]
        for name, (kind, help, value) in gauges.items():
            found += [f"# HELP {name} {help}", f"# TYPE {name} {kind}", f"{name} {_number(value)}"]
        return "\n".join(found) + "\n"


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
