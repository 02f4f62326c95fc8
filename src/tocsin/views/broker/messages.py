"""What brokers send each other, and what a broker asks its driver to do.

A source relation travels as `Knowledge` and `Curiosity` about ticks (`views.knowledge`). A derived relation travels as
its state: rows that changed since a version, and the ticks that they reflect. Versions belong to one life of the sender
(`epoch`); what orders two states for ever is the ticks that they reflect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tocsin.views.knowledge import Curiosity, Knowledge, Seconds
from tocsin.views.relation import Key, Row
from tocsin.views.ticks import Range

Known: TypeAlias = tuple[tuple[str, tuple[Range, ...]], ...]
"""For each source the ticks that a state reflects."""
Place: TypeAlias = tuple[Any, ...]
"""Where a row stands in an order."""


@dataclass(frozen=True, slots=True)
class Increment:
    """Downstream: the rows of a relation that changed after the version `since`, each in its last state."""

    relation: int
    epoch: int
    since: int
    version: int
    rows: tuple[Row, ...]
    known: Known
    is_quiet: bool
    reach: Place | None = None
    """Where only the best rows are tracked: what stands beyond this place may have changed since it was told."""


@dataclass(frozen=True, slots=True)
class Unneeded:
    """Negative curiosity about values (§3.2): what a join would match with these is not needed."""

    join: int
    """The node that reads the relation."""
    for_good: frozenset[Key]
    for_now: frozenset[Key]
    """Changes of rows that were told of are not needed until these values are wanted again."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """Best-k at a distance (§3.2): k rows and some spare ones are tracked."""

    best: int
    """The node that reads the relation."""
    reach: Place | None
    """So many are here, and stand no further than this: changes beyond are not needed now."""
    beaten: Place | None
    """k rows that will stay stand no further than this: a row beyond that will stay, too, is never needed."""
    pulled: int
    """Fewer than k are left, and so many more are wanted."""


Selective: TypeAlias = Unneeded | Tracked


@dataclass(frozen=True, slots=True)
class Question:
    """Upstream: which version is here, and which is safe here. `wanted`: send what came after it."""

    relation: int
    epoch: int
    version: int
    durable: int
    wanted: bool
    selective: Selective | None = None


Body: TypeAlias = Knowledge | Curiosity | Increment | Question


@dataclass(frozen=True, slots=True)
class Letter:
    """A message and who sent it."""

    sender: str
    body: Body


@dataclass(frozen=True, slots=True)
class Say:
    """Effect: put a letter on the network; it may be lost, repeated, late."""

    to: str
    letter: Letter


@dataclass(frozen=True, slots=True)
class Show:
    """Effect: tell the subscribers of a view a row in its new state."""

    view: str
    row: Row


@dataclass(frozen=True, slots=True)
class Call:
    """Effect: call wake at a time of the broker's clock."""

    at: Seconds


Effect: TypeAlias = Say | Show | Call


class Storage(Protocol):
    """Stable storage: what was put is there after a crash."""

    def get(self, name: str) -> Any | None:
        """What was put under a name."""

    def put(self, name: str, value: Any) -> None:
        """Keeps a value; on return it is safe."""

    def remove(self, name: str) -> None:
        """Forgets it."""

    def names(self, prefix: str) -> list[str]:
        """The names that begin like this."""
