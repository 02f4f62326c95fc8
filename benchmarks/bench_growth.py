"""How does matching cost grow with the number of queries? User-like sets, documents of about 200 distinct words.

    python benchmarks/bench_growth.py --size full --plot docs/growth.png

Prints one JSON object: documents per second of one core's time, from text, at each size, and the exponent of the
growth between neighbours (1 would be linear).
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import bench_kernel, workload_text

SIZES = {"small": [10_000, 100_000], "full": [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000]}
DOCUMENTS, PASSES, SEED = 1_024, 5, 1


def measure(sizes: list[int]) -> list[dict[str, Any]]:
    documents = {"200 words": [line.encode() for line in workload_text.documents(DOCUMENTS, 200, SEED)]}
    points = []
    for size in sizes:
        cell = bench_kernel.measure(size, dense=False, kinds=documents, passes=PASSES, scans=False)
        row = cell["documents"]["200 words"]
        points.append({"queries": size, "documents_per_second": row["documents_per_second_median"]})
        print(json.dumps(points[-1]), file=sys.stderr, flush=True)
    return points


def exponents(points: list[dict[str, Any]]) -> list[float]:
    """Between neighbours: by which power of the number of queries the time per document grows."""
    return [
        round(log(a["documents_per_second"] / b["documents_per_second"]) / log(b["queries"] / a["queries"]), 2)
        for a, b in pairwise(points)
    ]


def plot(points: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    queries = [point["queries"] for point in points]
    micros = [1e6 / point["documents_per_second"] for point in points]
    axes.loglog(queries, micros, marker="o", label="measured")
    axes.loglog(queries, [micros[0] * size / queries[0] for size in queries], linestyle=":", label="linear growth")
    axes.set(xlabel="standing queries", ylabel="µs per document, one core", title="Cost of matching, from raw text")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=["small", "full"], default="small", help="seconds, or the real thing")
    parser.add_argument("--plot", type=Path, help="draw the curve into this file")
    chosen = parser.parse_args(arguments)
    points = measure(SIZES[chosen.size])
    if chosen.plot:
        plot(points, chosen.plot)
    print(json.dumps({"points": points, "exponents": exponents(points), "sub_linear": max(exponents(points)) < 1}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
