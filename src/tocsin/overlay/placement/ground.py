"""What all parts of a placement stand on."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.overlay.chord import Chord
from tocsin.overlay.delivery import Delivery
from tocsin.overlay.items import Items
from tocsin.overlay.multicast import Multicast
from tocsin.overlay.placement.asking import Asking
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.query.semantics import Knowledge


@dataclass(frozen=True, slots=True)
class Ground:
    """A node's other components, what it knows of words, and how the placement works."""

    chord: Chord
    items: Items
    multicast: Multicast
    asking: Asking
    delivery: Delivery
    knowledge: Knowledge
    settings: PlacementSettings
