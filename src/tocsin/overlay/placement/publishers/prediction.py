"""How much will a publisher publish? Double exponential smoothing of its past (MAPS, "Continuous Query Forwarding").

    level_t = η·x_t + (1 − η)·(level_{t−1} + trend_{t−1})
    trend_t = γ·(level_t − level_{t−1}) + (1 − γ)·trend_{t−1}
    next    = level_t + trend_t, and never less than nothing

A publisher that starts on a topic rises within two intervals; one that falls silent is forgotten as fast.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def forecast(series: Floats, level_weight: float, trend_weight: float) -> Floats:
    """The next point of each row; rows are series of equal length, oldest point first."""
    level = series[:, 0].astype(np.float64)
    trend = np.zeros(len(series))
    for point in series.T[1:]:
        before = level
        level = level_weight * point + (1 - level_weight) * (before + trend)
        trend = trend_weight * (level - before) + (1 - trend_weight) * trend
    return np.maximum(level + trend, 0.0)
