"""Charts as numbers: where the bars and the line of an SVG picture are. Templates draw them; no script is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from tocsin.web.pages.tally import DAY, Series

WIDTH, HEIGHT, GAP = 720.0, 120.0, 7.0
SPARK_WIDTH, SPARK_HEIGHT = 120.0, 28.0
BARS_MAX = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, with what it says when it is pointed at."""

    x: float
    y: float
    width: float
    height: float
    count: int
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars over time."""

    bars: tuple[Bar, ...]
    most: int
    total: int
    first: str
    last: str
    width: float = WIDTH
    height: float = HEIGHT


def bars_of(series: Series) -> Chart:
    """A series as bars."""
    form = "%-d %b" if series.step >= DAY else "%H:%M"
    labels = [
        datetime.fromtimestamp(series.start + series.step * place, UTC).strftime(form)
        for place in range(len(series.counts))
    ]
    return chart(series.counts, labels, labels[0], "now")


def bars_of_days(per_day: Sequence[tuple[str, int]]) -> Chart | None:
    """Counts by day, the days between them filled up; many days become weeks or more, so that bars can be seen."""
    if not per_day:
        return None
    counted = {date.fromisoformat(day): count for day, count in per_day}
    first, last = min(counted), max(counted)
    if (last - first).days < 6:
        first = last - timedelta(days=min(6, (last - date.min).days))
    days = (last - first).days + 1
    size = -(-days // BARS_MAX)
    counts = [0] * (-(-days // size))
    for day, count in counted.items():
        counts[(day - first).days // size] += count
    labels = []
    for place in range(len(counts)):
        begin = first + timedelta(days=place * size)
        end = min(last, begin + timedelta(days=size - 1))
        labels.append(begin.isoformat() if size == 1 else f"{begin.isoformat()} to {end.isoformat()}")
    return chart(counts, labels, first.isoformat(), last.isoformat())


def chart(counts: Sequence[int], labels: Sequence[str], first: str, last: str) -> Chart:
    """Bars that fill the picture."""
    most = max(counts, default=0)
    step = WIDTH / max(1, len(counts))
    gap = min(GAP, step / 4)
    bars = []
    for place, (count, label) in enumerate(zip(counts, labels, strict=True)):
        height = 0.0 if not count else max(2.0, HEIGHT * count / most)
        bars.append(Bar(round(place * step + gap / 2, 2), round(HEIGHT - height, 2), round(step - gap, 2),
                        round(height, 2), count, label))  # fmt: skip
    return Chart(tuple(bars), most, sum(counts), first, last)


@dataclass(frozen=True, slots=True)
class Spark:
    """A small line without axes."""

    line: str
    area: str
    x: float
    y: float
    total: int
    width: float = SPARK_WIDTH
    height: float = SPARK_HEIGHT


def spark_of(series: Series) -> Spark:
    """A series as a line: points of SVG."""
    counts = series.counts
    most, edge = max(counts, default=0) or 1, 3.0
    step = (SPARK_WIDTH - 2 * edge) / max(1, len(counts) - 1)
    points = [
        (round(edge + place * step, 1), round(SPARK_HEIGHT - edge - (SPARK_HEIGHT - 2 * edge) * count / most, 1))
        for place, count in enumerate(counts)
    ]
    line = " ".join(f"{x},{y}" for x, y in points)
    area = f"{points[0][0]},{SPARK_HEIGHT} {line} {points[-1][0]},{SPARK_HEIGHT}"
    return Spark(line, area, *points[-1], series.total)
