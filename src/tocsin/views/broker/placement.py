"""Which broker computes which part of a plan (relational subscriptions §3): any choice gives the same result.

Nodes are called by their number in `plan.nodes()`. A source lives where its publishers are. A broker that needs a
relation which it does not compute is fed by the broker that does, or by another one that is fed itself (a mirror).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tocsin.errors import ViewError
from tocsin.views.plan import Plan


@dataclass(frozen=True)
class Placement:
    """Homes of nodes, watchers of views, and detours."""

    homes: Mapping[int, str]
    watchers: Mapping[str, tuple[str, ...]]
    """For each view the brokers that host its subscribers."""
    feeds: Mapping[tuple[int, str], str] = field(default_factory=dict)
    """(node, broker): who feeds it, if not the node's home."""
    ordered: frozenset[str] = frozenset()
    """Views whose subscribers want each row once, in the order of ticks: guaranteed delivery."""

    def feeder(self, node: int, broker: str) -> str:
        """Who tells a broker of a node."""
        return self.feeds.get((node, broker), self.homes[node])


@dataclass(frozen=True)
class Part:
    """What one broker does."""

    computes: tuple[int, ...]
    hosts: tuple[int, ...]
    """Sources whose publishers are here."""
    reads: Mapping[int, str]
    """Nodes that it is fed, and by whom."""
    tells: Mapping[int, tuple[str, ...]]
    """Nodes that it feeds to others."""
    views: Mapping[str, int]
    """Views whose subscribers are here."""


def parts(plan: Plan, placement: Placement) -> dict[str, Part]:
    """The part of every broker."""
    nodes = plan.nodes()
    numbers = {node: at for at, node in enumerate(nodes)}
    inputs = {at: tuple(numbers[part] for part in node.inputs) for at, node in enumerate(nodes)}
    watched = {view: numbers[node] for view, node in plan.views.items()}
    brokers = {*placement.homes.values(), *placement.feeds.values()}
    brokers.update(broker for found in placement.watchers.values() for broker in found)
    reads = {broker: _reads(broker, inputs, watched, placement) for broker in brokers}
    tells: dict[str, dict[int, list[str]]] = {broker: {} for broker in brokers}
    for broker in sorted(brokers):
        for node, feeder in reads[broker].items():
            _check_route(node, broker, placement)
            tells[feeder].setdefault(node, []).append(broker)
    made = {}
    for broker in sorted(brokers):
        own = [at for at in inputs if placement.homes[at] == broker]
        made[broker] = Part(
            tuple(at for at in own if nodes[at].inputs),
            tuple(at for at in own if not nodes[at].inputs),
            reads[broker],
            {node: tuple(readers) for node, readers in tells[broker].items()},
            {view: watched[view] for view, found in placement.watchers.items() if broker in found},
        )
    return made


def _reads(
    broker: str, inputs: Mapping[int, Iterable[int]], watched: Mapping[str, int], placement: Placement
) -> dict[int, str]:
    needed = {part for at, found in inputs.items() if placement.homes[at] == broker for part in found}
    needed.update(watched[view] for view, brokers in placement.watchers.items() if broker in brokers)
    needed.update(node for (node, _), feeder in placement.feeds.items() if feeder == broker)
    return {node: placement.feeder(node, broker) for node in sorted(needed) if placement.homes[node] != broker}


def _check_route(node: int, broker: str, placement: Placement) -> None:
    seen = [broker]
    while seen[-1] != placement.homes[node]:
        seen.append(placement.feeder(node, seen[-1]))
        if seen[-1] in seen[:-1]:
            raise ViewError(f"node {node} is fed in a circle: {' from '.join(seen)}", broker)
