"""An engine whose groups are tallied elsewhere, in parts: what another system computes well is merged, not redone.

A part is what one batch adds to a group: how many rows, the largest value, the last one. Parts of several batches merge
into the same tallies that `views.group` keeps, so everything that is derived from groups goes on as in one process.
The tallies are plain values: they are what is kept between two runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, TypeAlias

from tocsin.errors import EventError
from tocsin.views import parts
from tocsin.views.aggregate import CountTally, ExtremeTally, LatestTally, SumTally, Tally
from tocsin.views.column_group import ColumnGroupStep, ColumnPickStep, can_group, picks
from tocsin.views.engine import Engine
from tocsin.views.events import Event
from tocsin.views.group import GroupStep
from tocsin.views.parts import PartStep
from tocsin.views.plan import Group, Join, Node, Plan, Project, Relation, Select
from tocsin.views.relation import Advance, Key, Knowledge, Row, Step
from tocsin.views.ticks import FIRST_TICK, LAST_TICK, Range
from tocsin.views.told import Change

FUNCTIONS = frozenset({"count", "max", "min", "sum", "latest"})
Part: TypeAlias = tuple[Any, ...]
"""For each aggregate: a count, an extreme, a sum or a list of reals to add, (value, tick); None if there is none."""


def source_of(node: Node) -> Relation | None:
    """The one source of a chain of selections and projections."""
    while isinstance(node, Select | Project):
        node = node.input
    return node if isinstance(node, Relation) else None


def base_of(node: Node) -> Relation | Join | None:
    """What a chain of selections and projections starts from, if that is a source or a join."""
    while isinstance(node, Select | Project):
        node = node.input
    return node if isinstance(node, Relation | Join) else None


def can_be_tallied(node: Node) -> bool:
    """Whether a group can be computed in parts: its rows are events of one source, or final pairs of them."""
    if not isinstance(node, Group):
        return False
    base, functions = base_of(node.input), {aggregate.function for aggregate in node.aggregates}
    if isinstance(base, Join):
        return base.history and functions <= FUNCTIONS - {"latest"}  # of pairs several may be the latest
    tick = node.input.columns[node.input.key[0]]
    by_tick = all(part.order == tick for part in node.aggregates if part.function == "latest")
    return base is not None and functions <= FUNCTIONS and by_tick


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


class PairsStep:
    """A join that is given the pairs that are new."""

    columnar = False

    def __init__(self) -> None:
        self._waiting: list[Row] = []

    def put(self, pairs: Iterable[Row]) -> None:
        """What a batch adds."""
        self._waiting += pairs

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """The pairs; what is joined was read elsewhere."""
        found, self._waiting = self._waiting, []
        return found

    def is_quiet(self) -> bool:
        """Pairs come from new ticks only."""
        return True


@dataclass(slots=True)
class Kept:
    """What lies between two batches: how far each source is, the groups, and the events that are needed as rows."""

    known: dict[str, int | None] = field(default_factory=dict)
    """For each source its last known tick; None: closed."""
    groups: list[tuple[int, Key, list[list[Any]]]] = field(default_factory=list)
    parts: list[tuple[int, parts.Part]] = field(default_factory=list)
    pairs: list[tuple[int, list[Row]]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class PartialEngine:
    """Views over batches of which some groups were tallied elsewhere."""

    def __init__(
        self,
        plan: Plan,
        is_tallied: Callable[[Node], bool] = can_be_tallied,
        is_joined: Callable[[Node], bool] = lambda node: False,
    ) -> None:
        self.plan = plan
        self.tallied: dict[int, Group] = {}
        self.steps: dict[int, PartialGroupStep] = {}
        self.tables: dict[int, PartStep] = {}
        self.joined: dict[int, Join] = {}
        self.pairs: dict[int, PairsStep] = {}
        numbers = {node: at for at, node in enumerate(plan.nodes())}

        def make(node: Node, inputs: Sequence[Step], knowledge: Knowledge) -> Step | None:
            if isinstance(node, Project) and isinstance(inputs[0], ColumnGroupStep | ColumnPickStep):
                return ColumnPickStep(node, inputs[0]) if picks(node) else None
            if isinstance(node, Join) and is_joined(node):
                self.joined[numbers[node]] = node
                pairs = self.pairs[numbers[node]] = PairsStep()
                return pairs
            if not isinstance(node, Group) or not can_be_tallied(node) or not is_tallied(node):
                return None
            self.tallied[numbers[node]] = node
            source = source_of(node.input)
            if can_group(node) and source is not None:
                table = self.tables[numbers[node]] = PartStep(node, source, knowledge)
                return table
            step = self.steps[numbers[node]] = PartialGroupStep(node, inputs, knowledge)
            return step

        self.engine = Engine(plan, make=make)
        needed = self._needed()
        self.needs_rows = frozenset(node.name for node in needed if isinstance(node, Relation))
        self.needs_pairs = frozenset(numbers[node] for node in needed if isinstance(node, Join))

    def _needed(self) -> list[Relation | Join]:
        """The sources whose events, and the given joins whose pairs, something reads that is computed here."""
        found: dict[Relation | Join, None] = {}
        needed: list[Node] = list(self.plan.views.values())
        elsewhere = {*self.tallied.values(), *self.joined.values()}
        while needed:
            node = needed.pop()
            if isinstance(node, Relation) or (isinstance(node, Join) and node in elsewhere):
                found[node] = None
            elif node not in elsewhere:
                needed.extend(node.inputs)
        return list(found)

    def last(self, relation: str) -> int | None:
        """The last tick that is known of a source."""
        return self.engine.histories[relation].known.last()

    def step(
        self,
        upto: Mapping[str, int],
        added: Mapping[int, Sequence[tuple[Key, Part]]],
        events: Sequence[Event] = (),
        tables: Mapping[int, parts.Part] | None = None,
        pairs: Mapping[int, Sequence[Row]] | None = None,
        *,
        closed: Iterable[str] = (),
    ) -> Sequence[Change]:
        """A batch: every source up to a tick, what it adds to groups, and its events where rows are needed; in `closed`
        nothing will happen any more."""
        for number, new in (pairs or {}).items():
            self.pairs[number].put(new)
        for number, table in (tables or {}).items():
            self.tables[number].put(table)
        for number, found in added.items():
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
        for relation in closed:
            history = self.engine.histories[relation]
            history.closed = True
            advance.setdefault(relation, []).extend(history.known.add(FIRST_TICK, LAST_TICK))
        return self.engine.flow(rows, advance)

    def news(self) -> list[tuple[int, Key, list[list[Any]]]]:
        """The groups that changed since this was asked last, as they are to be kept."""
        found = [(number, key, step.tallies(key)) for number, step in self.steps.items() for key in step.changed]
        for step in self.steps.values():
            step.changed.clear()
        return found

    def restore(self, kept: Kept) -> None:
        """Goes on from what was kept; what was told before is not told again."""
        rows: dict[int, list[tuple[Key, list[list[Any]]]]] = {}
        for number, key, tallies in kept.groups:
            if number in self.tables:
                rows.setdefault(number, []).append((key, tallies))
            else:
                self.steps[number].restore(key, tallies)
        for number, found in rows.items():
            self.tables[number].put_rows(found)
        for number, new in kept.pairs:
            self.pairs[number].put(new)
        for number, part in kept.parts:
            self.tables[number].put(part)
        happened: dict[str, list[Row]] = {}
        for event in kept.events:
            happened.setdefault(event.relation, []).append(Row((event.tick,), event.cells, True))
        advance: dict[str, list[Range]] = {}
        for relation, tick in kept.known.items():
            history = self.engine.histories[relation]
            history.closed = tick is None
            advance[relation] = history.known.add(FIRST_TICK, LAST_TICK if tick is None else tick)
        self.engine.flow(happened, advance)
