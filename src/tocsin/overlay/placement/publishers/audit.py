"""How much of what matches does a subscription hear? A figure from a sample, and how far to trust it.

At each repositioning some publishers are drawn from all, and those that have not kept the query all the time are asked
how many of their documents have matched since the last time and were not told. What the others published has been
heard; what these did is estimated from those asked. Asking costs the same however much is published.

The interval is that of a ratio with an estimated total: ±2 standard errors of what was missed, never less than what
was seen to be missed. If nobody asked had missed anything, the others may still have: with n asked, at most a share of
1 − 0.05^(1/n) of them at 95 %, each with as much as a monitored publisher has on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

ERRORS = 2.0


class Round(NamedTuple):
    """What was found at one repositioning."""

    heard: int
    """Notices since the last one."""
    monitored: int
    """Publishers that kept the query all the time."""
    others: int
    """Publishers that did not."""
    missed: tuple[int, ...]
    """Matching documents of each that was asked."""


@dataclass(frozen=True, slots=True)
class Recall:
    """The share of matching documents that a subscription heard of, and an interval for it."""

    value: float
    low: float
    high: float
    heard: int
    asked: int
    """Answers of publishers that the figure rests on."""

    def __str__(self) -> str:
        return f"{self.value:.0%} ({self.low:.0%}–{self.high:.0%}, {self.asked} publishers asked)"


def recall_of(rounds: Sequence[Round]) -> Recall | None:
    """Recall over some rounds; None if nothing was published that anybody heard or missed, or nobody was asked."""
    asked = [one for one in rounds if one.missed or not one.others]
    counts = [count for one in asked for count in one.missed]
    heard = sum(one.heard for one in asked)
    if not asked or (not heard and not any(counts)):
        return None
    missed = sum(one.others * sum(one.missed) / len(one.missed) for one in asked if one.missed)
    mean = sum(counts) / len(counts) if counts else 0.0
    spread = sum((count - mean) ** 2 for count in counts) / max(1, len(counts) - 1)
    error = sqrt(sum(_variance(one, spread) for one in asked if one.missed))
    most, least = missed + ERRORS * error, max(missed - ERRORS * error, float(sum(counts)))
    if counts and not any(counts):
        typical = max(1.0, heard / max(1, sum(one.monitored for one in asked)))
        unseen = sum(one.others - len(one.missed) for one in asked)
        most = unseen * (1 - 0.05 ** (1 / len(counts))) * typical
    return Recall(
        _share(heard, missed), _share(heard, max(most, least)), _share(heard, min(least, missed)), heard, len(counts)
    )


def _variance(one: Round, spread: float) -> float:
    """Of the estimated total of a round; drawn without replacement."""
    asked = len(one.missed)
    return one.others**2 * (1 - asked / one.others) * spread / asked


def _share(heard: float, missed: float) -> float:
    return heard / (heard + missed) if heard + missed else 1.0
