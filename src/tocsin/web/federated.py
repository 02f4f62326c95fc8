"""What a site that is a node of a ring lets its users choose, and tells them: whom a subscription listens to, and how
much of what matches elsewhere it is told of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tocsin.site import life
from tocsin.site.exactness import ALPHA, APPROXIMATE, EXACT, RHO, exactness_of
from tocsin.site.problems import Invalid
from tocsin.site.site import Site
from tocsin.store.subscriptions import Kept

if TYPE_CHECKING:
    from tocsin.site.federation import Fare

CHOICES = {
    EXACT: "You are told of every document that matches, whichever site publishes it.",
    APPROXIMATE: "Only the most promising publishers are listened to, for less traffic; how much that misses is "
    "measured and shown to you.",
}
"""How much a subscription may hear, and what that means, in a sentence."""


# --- what it answers -------------------------------------------------------------------------------------------------


def fares_of(site: Site, kept: Sequence[Kept]) -> dict[int, Fare]:
    """How those of them fare that are approximate, by number; nothing where the site is in no ring."""
    numbers = [one.number for one in kept if "exactness" in one.about]
    return site.federation.fares(numbers) if numbers and site.federation is not None else {}


def as_json(site: Site, kept: Sequence[Kept]) -> list[dict[str, Any]]:
    """Subscriptions as the API answers them, with how they fare on the ring."""
    fares = fares_of(site, kept)
    return [
        life.as_json(one) | ({"ring": fares[one.number].as_json()} if one.number in fares else {}) for one in kept
    ]  # fmt: skip


def gauges(site: Site) -> dict[str, tuple[str, str, float]]:
    """The site's node, for /metrics: kind, help, value by name; nothing where the site is in no ring."""
    if site.federation is None:
        return {}
    node = site.federation.node
    return {
        "tocsin_ring_ready": ("gauge", "Is the site's node in the ring, and owns its range?", float(node.is_ready)),
        "tocsin_ring_refused_total": ("counter", "Messages of other nodes that were refused.", node.refused),
    }


def sentence(fare: Fare) -> str:
    """How a subscription fares, for a person."""
    heard = f"It listens to {fare.heard:,} of {_counted(fare.publishers, 'publisher')} on other sites."
    recall = fare.recall
    if recall is None:
        return f"{heard} How much of what matches there it is told of is not measured yet."
    share = f"{recall.value:.0%} of what matches there (between {recall.low:.0%} and {recall.high:.0%})"
    return f"{heard} It was told of {share}, as {_counted(recall.asked, 'answer')} of a sample of the others say."


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


# --- the editor ------------------------------------------------------------------------------------------------------


def filled(kept: Kept | None) -> dict[str, str]:
    """The fields of the form: as a subscription has it, or as usual."""
    found = exactness_of(None if kept is None else kept.about.get("exactness"))
    rho = RHO if found.rho is None else found.rho
    return {"exactness": EXACT if found.is_exact else APPROXIMATE, "rho": f"{rho:g}", "alpha": f"{found.alpha:g}"}


def chosen(values: Mapping[str, str]) -> Any:
    """The choice in the fields of the form, as a body of a subscription has it."""
    if values["exactness"] != APPROXIMATE:
        return values["exactness"] or None
    numbers = {"rho": _number(values["rho"], "rho", RHO), "alpha": _number(values["alpha"], "alpha", ALPHA)}
    return {"kind": APPROXIMATE, **numbers}


def _number(text: str, field: str, usual: float) -> float:
    try:
        return float(text.strip().replace(",", ".") or usual)
    except ValueError:
        raise Invalid(f'"{field}" is a number, such as {usual}', field=field) from None
