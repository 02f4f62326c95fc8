"""How super-peers work; alike on all of them."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.overlay.node import Seconds


@dataclass(frozen=True, slots=True)
class SuperpeerSettings:
    """Times in seconds of a node's own clock."""

    probe_seconds: Seconds = 1.0
    """Between two questions "are you alive?"."""
    probes_missed_max: int = 3
    """A neighbour, client or access point that is silent for so many probes is taken for gone."""
    again_seconds: Seconds = 2.0
    """What was not answered is said again after this time."""
    hold_seconds: Seconds = 10.0
    """How long an access point waits for what a former one has stored, before it delivers what is newer."""
    values_max: int = 32
    """Values that an advertisement lists for a field; with more it says only that the field is there."""
    window: int = 50
    """Things on their way to one client or super-peer that are sent again at a time."""
    advertises_values: bool = True
    """Clients advertise values (attribute/value), or only fields (attribute)."""
    prunes: bool = True
    """One-time queries are kept from where advertisements say that no answer can be."""
    covers: bool = True
    """A query that another one of the same access point covers is not forwarded."""
