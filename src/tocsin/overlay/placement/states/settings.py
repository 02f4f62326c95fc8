"""How the distributed automaton works."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tocsin.errors import SettingError
from tocsin.overlay.node import Seconds


class Execution(StrEnum):
    """How a document meets the automaton (XML filtering paper §5)."""

    ITERATIVE = "iterative"
    RECURSIVE = "recursive"


@dataclass(frozen=True, slots=True)
class StateSettings:
    """The knobs of the placement by states; all nodes of a ring have the same length."""

    execution: Execution = Execution.RECURSIVE
    """Whether the publisher asks state by state, or the document travels."""
    length: int = 0
    """The paper's l: an owner keeps, with its state, the states that so many labels lead to (ε counts nothing)."""
    fragment_bytes_max: int = 65_536
    """A longer outline of a document travels in several messages of about this size at most."""
    overload_share: float = 0.1
    """A state is overloaded when more than this share of the documents comes to it."""
    overload_documents_min: int = 50
    """Documents that must have come before that is judged."""
    copies: int = 10
    """Other owners that help with an overloaded state; 0: nobody does."""
    relief_share: float = 0.05
    """They are given back when less than this share of the documents comes to it; 0: never."""
    relief_documents_min: int = 1_000
    """Documents that must have come before that is judged, each time anew."""
    again_seconds: Seconds = 5.0
    """After this time a publication that failed somewhere is tried there again."""

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        if self.length < 0 or self.copies < 0 or self.fragment_bytes_max < 1 or not 0 <= self.overload_share <= 1:
            raise SettingError("length and copies are at least 0, a fragment has at least a byte, a share is in [0, 1]")
        if not 0 <= self.relief_share <= self.overload_share:
            raise SettingError(
                f"relief_share is {self.relief_share}: it lies between 0 and overload_share ({self.overload_share}), "
                f"or help would come and go with every document"
            )
