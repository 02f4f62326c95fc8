"""What a subscriber knows of its subscriptions: what they want, where they are, how they fare."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgpack

from tocsin.overlay.message import Address
from tocsin.overlay.node import Seconds
from tocsin.overlay.placement.publishers.audit import Recall, Round
from tocsin.overlay.placement.publishers.messages import Figures, Totals
from tocsin.overlay.placement.publishers.settings import Approximate, Precision


@dataclass(frozen=True, slots=True)
class Report:
    """What a user is told of a subscription."""

    id: str
    text: str
    precision: Precision
    publishers: tuple[Address, ...] = ()
    """Those that keep the query; of an exact subscription all do as much as is needed."""
    population: int = 0
    """Publishers in all, when it was last looked."""
    recall: Recall | None = None
    """None: not measured yet; an exact subscription has all."""


@dataclass(slots=True)
class Place:
    """A publisher that has an order."""

    stamp: int
    is_wanted: bool
    version: int  # of the subscription, when the order was given
    is_old: bool = False  # the query of an older version may be in force there
    is_done: bool = False
    attempts: int = 0
    life: int = 0  # of the publisher that said it is done
    since: Seconds = 0.0  # when it said so


@dataclass(slots=True)
class Record:
    """What is known of a subscription here."""

    text: str  # "": it is ending
    precision: Approximate
    version: int
    words: tuple[str, ...]
    places: dict[Address, Place] = field(default_factory=dict)
    round: int = 0
    is_placed: bool = False
    is_standing: bool = False
    since: Seconds = 0.0
    heard: set[tuple[str, int]] = field(default_factory=set)
    rounds: list[Round] = field(default_factory=list)
    population: int = 0

    def packed(self) -> bytes:
        """What is written to disk."""
        places = [[to, one.stamp, one.is_wanted, one.version, one.is_old] for to, one in self.places.items()]
        precision = [self.precision.rho, self.precision.alpha]
        data: bytes = msgpack.packb([self.text, precision, self.version, self.words, places])
        return data

    @classmethod
    def unpacked(cls, data: bytes) -> Record:
        """What was written to disk."""
        text, (rho, alpha), version, words, places = msgpack.unpackb(data)
        found = {to: Place(*order) for to, *order in places}
        return cls(text, Approximate(rho, alpha), version, tuple(words), found)

    def monitored(self) -> list[Address]:
        """Publishers that keep the query, and said so."""
        return sorted(to for to, one in self.places.items() if one.is_wanted and one.is_done)

    def monitored_since(self, time: Seconds) -> list[Address]:
        """Those that have kept the query from this time on."""
        return [to for to in self.monitored() if self.places[to].since <= time]

    def is_settled(self) -> bool:
        """No older query is in force, and every publisher that can be reached has the new one."""
        return self.is_placed and not any(
            one.is_old or (one.is_wanted and not one.is_done and not one.attempts) for one in self.places.values()
        )


@dataclass(slots=True)
class Ranking:
    """Answers of the directory, as they come."""

    round: int
    waiting: set[str]
    totals: Totals | None = None
    figures: dict[str, tuple[Figures, ...]] = field(default_factory=dict)
    sets: set[str] = field(default_factory=set)
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class Period:
    """What is known at the end of a period: how much was heard of, and who kept the query all the time."""

    heard: int
    monitored: list[Address]
    start: Seconds
    end: Seconds
