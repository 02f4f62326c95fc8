"""What all parts of the placement by states stand on."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.overlay.chord import Chord
from tocsin.overlay.delivery import Delivery
from tocsin.overlay.items import Items
from tocsin.overlay.placement.states.copies import Copies
from tocsin.overlay.placement.states.errands import Errands
from tocsin.overlay.placement.states.settings import StateSettings


@dataclass(frozen=True, slots=True)
class Ground:
    """A node's other components, and how the placement works."""

    chord: Chord
    items: Items
    errands: Errands
    delivery: Delivery
    copies: Copies
    settings: StateSettings
