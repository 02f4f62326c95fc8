"""What an experiment gives: the paper's claims beside what we found, the numbers, and a plot of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

COLUMNS = ("experiment", "variant", "x", "metric", "value", "seed")


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper; `holds` is None where it can be judged at the paper's scale only."""

    claim: str
    paper: str
    ours: str
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number."""

    experiment: str
    variant: str
    x: float
    metric: str
    value: float
    seed: int


@dataclass(frozen=True, slots=True)
class Result:
    """All that a run of an experiment found; `plot` draws it into a file."""

    claims: list[Claim]
    data: list[Row]
    plot: Callable[[Path], None]
    about: dict[str, object] = field(default_factory=dict)


def write(result: Result, folder: Path) -> list[Path]:
    """result.json, data.csv and plot.png in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("result.json", "data.csv", "plot.png")]
    about = {**result.about, "claims": [asdict(claim) for claim in result.claims]}
    paths[0].write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    with paths[1].open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([getattr(row, column) for column in COLUMNS] for row in result.data)
    result.plot(paths[2])
    return paths
