"""An engine whose groups are tallied elsewhere, in parts: what another system computes well is merged, not redone.

A part is what one batch adds to a group: how many rows, the largest value, the last one. Parts of several batches merge
into the same tallies that `views.group` keeps, so everything that is derived from groups goes on as in one process.
The tallies are plain values: they are what is kept between two runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, TypeAlias

from tocsin.errors import EventError
from tocsin.views.aggregate import CountTally, ExtremeTally, LatestTally, SumTally, Tally
from tocsin.views.engine import Change, Engine
from tocsin.views.events import Event
from tocsin.views.group import GroupStep
from tocsin.views.plan import Group, Node, Plan, Project, Relation, Select
from tocsin.views.relation import Advance, Key, Knowledge, Row, Step
from tocsin.views.ticks import FIRST_TICK, LAST_TICK, Range

FUNCTIONS = frozenset({"count", "max", "min", "sum", "latest"})
Part: TypeAlias = tuple[Any, ...]
"""For each aggregate: a count, an extreme, a sum or a list of reals to add, (value, tick); None if there is none."""


def source_of(node: Node) -> Relation | None:
    """The one source of a chain of selections and projections."""
    while isinstance(node, Select | Project):
        node = node.input
    return node if isinstance(node, Relation) else None


def can_be_tallied(node: Node) -> bool:
    """Whether a group can be computed in parts: its rows are events of one source."""
    return (
        isinstance(node, Group)
        and source_of(node.input) is not None
        and all(aggregate.function in FUNCTIONS for aggregate in node.aggregates)
    )


def merge(tally: Tally, part: Any) -> None:
    """Adds a part to a tally."""
    if part is None:
        return
    if isinstance(tally, CountTally):
        tally.number += part
    elif isinstance(tally, SumTally):
        for value in part if isinstance(part, list) else [part]:
            tally.add((value,), (0, 0), ())
    elif isinstance(tally, LatestTally):
        value, tick = part
        tally.add((value,), (tick, 0), ())
    else:
        tally.add((part,), (0, 0), ())


def plain(tally: Tally) -> list[Any]:
    """A tally as plain values."""
    return list(astuple(tally))  # type: ignore[call-overload]


def restore(tally: Tally, values: Sequence[Any]) -> None:
    """The tally that had these plain values."""
    if isinstance(tally, CountTally):
        (tally.number,) = values
    elif isinstance(tally, ExtremeTally):
        _, tally.best = values
    elif isinstance(tally, SumTally):
        tally.whole, parts, tally.broken = values
        tally.parts = list(parts)
    elif isinstance(tally, LatestTally):
        tally.value, order = values
        tally.order = None if order is None else (order[0], order[1])


class PartialGroupStep(GroupStep):
    """A group that is given parts instead of rows."""

    def __init__(self, node: Group, inputs: Sequence[Step], knowledge: Knowledge) -> None:
        super().__init__(node, inputs, knowledge)
        self._waiting: dict[Key, None] = {}
        self.changed: dict[Key, None] = {}

    def put(self, key: Key, part: Part) -> None:
        """What a batch adds to a group."""
        if key not in self._tallies:
            self._open(key)
        for tally, one in zip(self._tallies[key], part, strict=True):
            merge(tally, one)
        self._waiting[key] = self.changed[key] = None

    def tallies(self, key: Key) -> list[list[Any]]:
        """What is kept of a group."""
        return [plain(tally) for tally in self._tallies[key]]

    def restore(self, key: Key, kept: Sequence[Sequence[Any]]) -> None:
        """A group as it was kept."""
        if key not in self._tallies:
            self._open(key)
        for tally, values in zip(self._tallies[key], kept, strict=True):
            restore(tally, values)
        self._waiting[key] = None

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """Looks again at the groups that were given parts, or whose ticks became known."""
        dirty, self._waiting = self._waiting, {}
        return self._look_again(dirty, advance)


@dataclass(slots=True)
class Kept:
    """What lies between two batches: how far each source is, the groups, and the events that are needed as rows."""

    known: dict[str, int | None] = field(default_factory=dict)
    """For each source its last known tick; None: closed."""
    groups: list[tuple[int, Key, list[list[Any]]]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class PartialEngine:
    """Views over batches of which some groups were tallied elsewhere."""

    def __init__(self, plan: Plan, is_tallied: Callable[[Node], bool] = can_be_tallied) -> None:
        self.plan = plan
        self.tallied: dict[int, Group] = {}
        self.steps: dict[int, PartialGroupStep] = {}
        numbers = {node: at for at, node in enumerate(plan.nodes())}

        def make(node: Node, inputs: Sequence[Step], knowledge: Knowledge) -> Step | None:
            if not isinstance(node, Group) or not can_be_tallied(node) or not is_tallied(node):
                return None
            self.tallied[numbers[node]] = node
            step = self.steps[numbers[node]] = PartialGroupStep(node, inputs, knowledge)
            return step

        self.engine = Engine(plan, make=make)
        self.needs_rows = frozenset(self._readers_of_rows())

    def _readers_of_rows(self) -> list[str]:
        """Sources that something other than a tallied group reads."""
        found: dict[str, None] = {}
        needed: list[Node] = list(self.plan.views.values())
        while needed:
            node = needed.pop()
            if isinstance(node, Relation):
                found[node.name] = None
            elif node not in self.tallied.values():
                needed.extend(node.inputs)
        return list(found)

    def last(self, relation: str) -> int | None:
        """The last tick that is known of a source."""
        return self.engine.histories[relation].known.last()

    def step(
        self, upto: Mapping[str, int], parts: Mapping[int, Sequence[tuple[Key, Part]]], events: Sequence[Event] = ()
    ) -> list[Change]:
        """A batch: every source up to a tick, what it adds to groups, and its events where rows are needed."""
        for number, found in parts.items():
            for key, part in found:
                self.steps[number].put(key, part)
        rows: dict[str, list[Row]] = {}
        for event in events:
            rows.setdefault(event.relation, []).append(Row((event.tick,), event.cells, True))
        advance: dict[str, list[Range]] = {}
        for relation, tick in upto.items():
            history = self.engine.histories[relation]
            if history.closed:
                raise EventError(f"{relation}: the relation is closed, so nothing can happen at tick {tick}")
            advance[relation] = history.known.add(FIRST_TICK, tick)
        return self.engine.flow(rows, advance)

    def close(self, relation: str) -> list[Change]:
        """Nothing will happen any more."""
        history = self.engine.histories[relation]
        history.closed = True
        return self.engine.flow({}, {relation: history.known.add(FIRST_TICK, LAST_TICK)})

    def news(self) -> list[tuple[int, Key, list[list[Any]]]]:
        """The groups that changed since this was asked last, as they are to be kept."""
        found = [(number, key, step.tallies(key)) for number, step in self.steps.items() for key in step.changed]
        for step in self.steps.values():
            step.changed.clear()
        return found

    def restore(self, kept: Kept) -> None:
        """Goes on from what was kept; what was told before is not told again."""
        for number, key, tallies in kept.groups:
            self.steps[number].restore(key, tallies)
        rows: dict[str, list[Row]] = {}
        for event in kept.events:
            rows.setdefault(event.relation, []).append(Row((event.tick,), event.cells, True))
        advance: dict[str, list[Range]] = {}
        for relation, tick in kept.known.items():
            history = self.engine.histories[relation]
            history.closed = tick is None
            advance[relation] = history.known.add(FIRST_TICK, LAST_TICK if tick is None else tick)
        self.engine.flow(rows, advance)
