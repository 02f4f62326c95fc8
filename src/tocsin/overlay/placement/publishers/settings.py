"""How MAPS works, and what a subscription may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tocsin.errors import SettingError
from tocsin.overlay.node import Seconds


@dataclass(frozen=True, slots=True)
class Exact:
    """Every publisher is heard: the query lives at the owners of its words (DHTrie)."""


@dataclass(frozen=True, slots=True)
class Approximate:
    """Only the most promising publishers are heard (MAPS)."""

    rho: float
    """Share of all publishers that keep the query."""
    alpha: float = 0.25
    """1: the publishers that know most of the topic (selection); 0: those that will publish most (prediction)."""

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        if not 0 < self.rho <= 1:
            raise SettingError(f"rho is {self.rho}: the share of publishers to monitor must be above 0 and at most 1")
        if not 0 <= self.alpha <= 1:
            raise SettingError(f"alpha is {self.alpha}: the weight of selection must lie between 0 and 1")


Precision: TypeAlias = Exact | Approximate
EXACT = Exact()


@dataclass(frozen=True, slots=True)
class PublishersSettings:
    """Alike on all nodes."""

    interval_seconds: Seconds = 60.0
    """One point of a publishing series; statistics are posted at its end."""
    window: int = 8
    """Points of a series that are posted."""
    level_weight: float = 0.5
    """Double exponential smoothing: how much the newest point changes the level."""
    trend_weight: float = 0.3
    """Double exponential smoothing: how much the newest step changes the trend."""
    carry_seconds: Seconds = 3.0
    """How long posts wait for a message that they could ride on."""
    reposition_seconds: Seconds = 60.0
    """Time between two rankings of a subscription; 0: it stays where it was placed first."""
    set_support: int = 3
    """Subscriptions that must ask for words together before the directory keeps statistics of the set; 0: never."""
    set_confidence: float = 0.3
    """Share that they must be of all that ask for one of the words."""
    set_words_max: int = 4
    """Words in a set."""
    audit_publishers: int = 12
    """Publishers that are asked at each repositioning what was missed; 0: recall is not measured."""
    audit_rounds: int = 10
    """Repositionings over which recall is measured."""
    exact: bool = True
    """Documents also visit the owners of their words, for subscriptions that want every match. Without it a
    publication costs no message but its notices, and only approximate subscriptions are served."""

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        if self.interval_seconds <= 0 or self.window < 1:
            raise SettingError("a publishing series needs intervals longer than 0 seconds, and at least one of them")
        if not (0 < self.level_weight <= 1 and 0 <= self.trend_weight <= 1):
            raise SettingError("weights of smoothing lie between 0 and 1, that of the level above 0")

    def interval_of(self, now: Seconds) -> int:
        """The number of the interval that a time lies in."""
        return max(0, int(now // self.interval_seconds))
