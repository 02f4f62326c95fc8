"""A checkpoint of an engine: what its operators remember, and how much of each source that reflects.

Whoever starts again reads the checkpoint first and then the rest of the log (relational subscriptions §5). It is made
of parts, one for each operator, found by what the operator computes: so a plan with more views takes what it knows
from the checkpoint, and only what is new has to read the log from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

from tocsin.views import kept
from tocsin.views.codec import dumped, loaded
from tocsin.views.engine import Engine
from tocsin.views.events import Closed, Item, Silence
from tocsin.views.plan import Node, Plan, Relation
from tocsin.views.ticks import Range

LAYOUT = 2
"""Of what is remembered; a checkpoint of another layout is passed over, and the log is read."""

Replay = Callable[[Mapping[str, int | None]], Iterable[list[Item]]]
"""The events of some sources up to a tick each, in chunks."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a source was read."""

    events: int
    last: int | None
    """The tick of its last event."""
    known: tuple[Range, ...]
    closed: bool


class Names:
    """A name for each operator: equal ones have the same."""

    def __init__(self) -> None:
        self._known: dict[Node, str] = {}

    def of(self, node: Node) -> str:
        """Says what it computes, in few characters."""
        found = self._known.get(node)
        if found is None:
            said = [type(node).__name__, *(f"{one.name}={self._said(getattr(node, one.name))}" for one in fields(node))]
            found = self._known[node] = sha256("\n".join([str(LAYOUT), *said]).encode()).hexdigest()[:32]
        return found

    def _said(self, value: Any) -> str:
        if isinstance(value, Node):
            return self.of(value)
        if isinstance(value, tuple):
            return "(" + ",".join(map(self._said, value)) + ")"
        return repr(value)


def taken(engine: Engine) -> dict[str, str]:
    """The parts of a checkpoint, by name."""
    names, parts = Names(), dict[str, str]()
    for name, history in engine.histories.items():
        known = tuple(history.known.ranges())
        parts[f"source {names.of(engine.plan.relations[name])} {name}"] = dumped(
            (len(history), history.last_event(), known, history.closed)
        )
    for node, step in engine.steps.items():
        if type(step) in kept.KEPT:
            parts[f"node {names.of(node)}"] = dumped(kept.shared(step))
    for view in engine.views():
        parts[f"rows {names.of(view.node)}"] = dumped(view.shown)
    return parts


def marks(plan: Plan, parts: Mapping[str, str]) -> dict[str, Mark]:
    """How far the sources of a plan were read."""
    names, found = Names(), dict[str, Mark]()
    for name, relation in plan.relations.items():
        text = parts.get(f"source {names.of(relation)} {name}")
        if text is not None:
            found[name] = Mark(*loaded(text))
    return found


def restore(engine: Engine, parts: Mapping[str, str], replay: Replay) -> dict[str, Mark]:
    """Lets a fresh engine go on from a checkpoint; the log is replayed for what was not in it. Says how far each source
    was read: the rest of the log is the caller's to feed."""
    read = marks(engine.plan, parts)
    for name, mark in read.items():
        engine.histories[name].resume(mark.events, mark.last, mark.known, mark.closed)
    names = Names()
    new = [node for node in engine.plan.nodes() if _is_new(engine, node, names, parts)]
    for node in engine.steps.keys() - set(new):
        if type(engine.steps[node]) in kept.KEPT:
            kept.adopt(engine.steps[node], loaded(parts[f"node {names.of(node)}"]))
    fresh = {name for name, node in engine.plan.views.items() if f"rows {names.of(node)}" not in parts}
    for view in engine.views():
        if view.name not in fresh:
            view.resume(loaded(parts[f"rows {names.of(view.node)}"]))
    if new or fresh:
        _catch_up(engine, new, fresh, read, replay)
    return read


def _is_new(engine: Engine, node: Node, names: Names, parts: Mapping[str, str]) -> bool:
    return type(engine.steps[node]) in kept.KEPT and f"node {names.of(node)}" not in parts


def _catch_up(engine: Engine, new: list[Node], fresh: set[str], read: Mapping[str, Mark], replay: Replay) -> None:
    """Computes the new parts of a plan from the beginning of the log, beside the others, and puts them in."""
    wanted = {name: node for name, node in engine.plan.views.items() if name in fresh or _below(node) & set(new)}
    sources = {node.name: node for view in wanted.values() for node in _below(view) if isinstance(node, Relation)}
    beside = Engine(Plan(sources, wanted))
    upto = {name: read[name].last for name in sources if name in read and read[name].last is not None}
    for items in replay(upto):
        beside.step(items)
    for name in sources.keys() & read.keys():
        missing = [gap for first, last in read[name].known for gap in beside.histories[name].known.missing(first, last)]
        rest: list[Item] = [Silence(name, first, last) for first, last in missing]
        beside.step([Closed(name)] if read[name].closed else rest)
    for node in new:
        kept.adopt(engine.steps[node], kept.shared(beside.steps[node]))
    for view in engine.views():
        if view.name in fresh:
            view.resume(beside.rows(view.name))


def _below(node: Node) -> set[Node]:
    found, waiting = set[Node](), [node]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(one.inputs)
    return found
