"""What an experiment measured, as rows of data.csv, and plain plots of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tocsin.lab.result import Row


@dataclass
class Notes:
    """Rows by experiment (a figure), variant (a line), x and metric."""

    seed: int
    rows: list[Row] = field(default_factory=list)

    def add(self, experiment: str, variant: str, x: float, **values: float) -> None:
        """Writes one row for each value, named by its metric."""
        self.rows += (Row(experiment, variant, x, metric, float(value), self.seed) for metric, value in values.items())

    def gather(self, others: Iterable[Notes]) -> None:
        """Adds what configurations measured, in their order."""
        for other in others:
            self.rows += other.rows

    def of(self, experiment: str, variant: str, metric: str) -> dict[float, float]:
        """What was measured, by x."""
        asked = (experiment, variant, metric)
        return {row.x: row.value for row in self.rows if (row.experiment, row.variant, row.metric) == asked}

    def variants(self, experiment: str, metric: str) -> list[str]:
        """In the order of measuring."""
        found = (row.variant for row in self.rows if (row.experiment, row.metric) == (experiment, metric))
        return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot: all variants of a metric."""

    experiment: str
    metric: str
    title: str
    x: str
    y: str
    is_log: bool = False


def draw(notes: Notes, panels: Sequence[Panel], path: Path) -> None:
    """The panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(panels), 4.5), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False).flat, panels, strict=True):
        for variant in notes.variants(panel.experiment, panel.metric):
            points = notes.of(panel.experiment, variant, panel.metric)
            axes.plot(list(points), list(points.values()), marker="o", label=variant)
        axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        if panel.is_log:
            axes.set(xscale="log", yscale="log")
        else:
            axes.set_ylim(0, None)
        axes.legend(fontsize=7)
    figure.savefig(path)
