"""How much of what other sites publish a subscription should hear: all of it, or enough of it for less traffic.

    exact         every site's documents: the query lives at the owners of its words, or of its path's states
    approximate   those of the most promising publishers (MAPS): `rho` is the share of them that are heard, `alpha`
                  how they are chosen, 1: who knows most of the topic, 0: who is expected to publish most of it

It is about a ring of sites only: of what its own site is given, a subscription is always told all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.site.problems import Invalid

EXACT, APPROXIMATE = "exact", "approximate"
RHO, ALPHA = 0.1, 0.25
"""What is taken if nothing is said: the paper's (MAPS, "Experimental Evaluation")."""
HINT = f'"exactness" is "exact", "approximate", or {{"kind": "approximate", "rho": {RHO}, "alpha": {ALPHA}}}'


@dataclass(frozen=True, slots=True)
class Exactness:
    """A choice of a subscription."""

    rho: float | None = None
    """Share of the publishers; None: exact, all of them."""
    alpha: float = ALPHA

    @property
    def is_exact(self) -> bool:
        """Does it hear everybody?"""
        return self.rho is None

    def as_json(self) -> str | dict[str, Any]:
        """As it is written in a subscription."""
        return EXACT if self.rho is None else {"kind": APPROXIMATE, "rho": self.rho, "alpha": self.alpha}


def exactness_of(value: object) -> Exactness:
    """A choice from the body of a subscription."""
    if value is None or value == EXACT:
        return Exactness()
    if value == APPROXIMATE:
        return Exactness(RHO)
    if not isinstance(value, Mapping) or value.get("kind", APPROXIMATE) not in (EXACT, APPROXIMATE):
        raise Invalid(HINT, field="exactness")
    for key in value:
        if key not in ("kind", "rho", "alpha"):
            raise Invalid(f"the exactness has no key {str(key)[:60]!r}: it has kind, rho and alpha", field="exactness")
    if value.get("kind") == EXACT:
        for key in ("rho", "alpha"):
            if key in value:
                raise Invalid(f'"{key}" belongs to an approximate subscription', field=key)
        return Exactness()
    rho, alpha = _number(value.get("rho", RHO), "rho"), _number(value.get("alpha", ALPHA), "alpha")
    if not 0 < rho <= 1:
        raise Invalid(
            f'"rho" is {rho:g}: the share of publishers to listen to is above 0 and at most 1', field="rho"
        )  # fmt: skip
    if not 0 <= alpha <= 1:
        raise Invalid(f'"alpha" is {alpha:g}: the weight of who knows the topic is from 0 to 1', field="alpha")
    return Exactness(rho, alpha)


def _number(value: object, field: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Invalid(f'"{field}" is a number, such as {RHO if field == "rho" else ALPHA}', field=field)
    try:
        return float(value)
    except OverflowError:
        raise Invalid(f'"{field}" is out of all bounds', field=field) from None
