"""Runs a plan over events, in one process.

A step takes some events, lets what they change flow once through the graph, and gives the rows of the views that look
different afterwards. Between two steps every view shows what is certain of the events taken so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tocsin.errors import EventError
from tocsin.views.aggregate import sort_key
from tocsin.views.best import BestStep
from tocsin.views.column_group import column_step
from tocsin.views.columns import Batch, Encoder, rows_of
from tocsin.views.events import Event, Item, Table
from tocsin.views.group import GroupStep
from tocsin.views.history import History
from tocsin.views.plan import Best, Group, Join, Merge, Node, Plan, Project, Relation, Select, Without
from tocsin.views.relation import (
    JoinStep,
    Key,
    Knowledge,
    MergeStep,
    Origin,
    ProjectStep,
    Row,
    SelectStep,
    Step,
    WithoutStep,
)
from tocsin.views.ticks import Range
from tocsin.views.value import PLAIN, json_of

Maker: TypeAlias = Callable[[Node, Sequence[Step], Knowledge], Step | None]


class Change(NamedTuple):
    """A row of a view in a new state; row is None if it left."""

    view: str
    key: dict[str, Any]
    row: dict[str, Any] | None
    final: bool

    def json(self) -> dict[str, Any]:
        """As the contract prints it."""
        return {"view": self.view, "key": self.key, "row": self.row, "final": self.final}


class Engine:
    """The state of all views of a plan."""

    def __init__(self, plan: Plan, keep: bool = True, columns: bool = False, make: Maker | None = None) -> None:
        """keep: remember rows that cannot change any more, which `state` needs. columns: for large batches.

        make: another operator for some nodes.
        """
        self.plan = plan
        self.histories = {name: History(name) for name in plan.relations}
        self.knowledge: Knowledge = {name: history.known for name, history in self.histories.items()}
        self._nodes = plan.nodes()
        self._steps: dict[Node, Step] = {}
        for node in self._nodes:
            inputs = [self._steps[part] for part in node.inputs]
            made = column_step(node, inputs, self.knowledge) if columns else None
            made = made or (make(node, inputs, self.knowledge) if make is not None else None)
            self._steps[node] = made or make_step(node, inputs, self.knowledge)
        self._encoders = {name: Encoder(r.columns) for name, r in plan.relations.items()} if columns else {}
        self._views = [
            ViewRows(name, node, self._ranks(node), keep or not node.history) for name, node in plan.views.items()
        ]
        self._started = False
        self._fresh: dict[str, Sequence[Row]] = {}
        self.flow({}, {})

    def step(self, items: Sequence[Item], refuse: Callable[[int, EventError], None] | None = None) -> list[Change]:
        """Takes some events at once. A bad one is refused (raised, if no `refuse` is given) and changes nothing."""
        rows: dict[str, list[Row]] = {}
        advance: dict[str, list[Range]] = {}
        for at, item in enumerate(items):
            try:
                new = self.histories[item.relation].take(item)
            except EventError as error:
                if refuse is None:
                    raise
                refuse(at, error)
                continue
            if new:
                advance.setdefault(item.relation, []).extend(new)
                if isinstance(item, Event):
                    rows.setdefault(item.relation, []).append(Row((item.tick,), item.cells, True))
        return self.flow({name: self._encoded(name, found) for name, found in rows.items()}, advance)

    def step_table(self, table: Table) -> list[Change] | None:
        """Takes many events at once, by column. None, and takes none, if one of them is not simply the next."""
        if any(self.histories[name].is_behind(bulk.ticks) for name, bulk in table.items()):
            return None
        batches: dict[str, Batch] = {}
        advance: dict[str, list[Range]] = {}
        for name, bulk in table.items():
            advance[name] = self.histories[name].extend(bulk.ticks, bulk.cells)
            if name in self._encoders:
                batches[name] = self._encoders[name].encode(bulk.ticks, bulk.columns)
            else:
                batches[name] = [Row((tick,), cells, True) for tick, cells in zip(bulk.ticks, bulk.cells, strict=True)]
        return self.flow(batches, advance)

    def _encoded(self, name: str, rows: list[Row]) -> Batch:
        return self._encoders[name].rows(rows) if name in self._encoders else rows

    def state(self) -> Iterator[Change]:
        """Every row that is there, in its last state: views as they were created, rows by rank or key."""
        for view in self._views:
            yield from view.state()

    def rows(self, view: str) -> dict[Key, Row]:
        """The rows of a view that are there, by key."""
        return dict(self._view(view).shown)

    def state_of(self, view: str) -> Iterator[Change]:
        """Every row of one view that is there, in its last state."""
        return self._view(view).state()

    def size_of(self, view: str) -> int:
        """How many rows of a view are there."""
        return len(self._view(view).shown)

    def fresh(self, view: str) -> Sequence[Row]:
        """The rows that the last step gave the view, those that look as before among them."""
        return self._fresh.get(view, ())

    def _view(self, name: str) -> ViewRows:
        return next(one for one in self._views if one.name == name)

    def _ranks(self, node: Node) -> BestStep | None:
        """What ranks the rows of a view that is a best-k."""
        while isinstance(node, Project):
            node = node.input
        step = self._steps[node]
        return step if isinstance(step, BestStep) else None

    def flow(self, batches: Mapping[str, Batch], advance: Mapping[str, list[Range]]) -> list[Change]:
        """Lets new rows of sources, and what became known of their ticks, run once through the graph."""
        if not advance and self._started:
            return []
        self._started = True
        made: dict[Node, Batch] = {}
        for node in self._nodes:
            if isinstance(node, Relation):
                made[node] = batches.get(node.name, [])
                continue
            step = self._steps[node]
            given = [made[part] if step.columnar else rows_of(made[part]) for part in node.inputs]
            made[node] = step.step(given, advance)  # type: ignore[arg-type]
        self._fresh = {view.name: rows_of(made[view.node]) for view in self._views}
        return [change for view in self._views for change in view.take(self._fresh[view.name])]


def make_step(node: Node, inputs: Sequence[Step], knowledge: Knowledge) -> Step:
    """The operator of a node."""
    if isinstance(node, Select):
        return SelectStep(node, inputs)
    if isinstance(node, Project):
        return ProjectStep(node, inputs)
    if isinstance(node, Join):
        return JoinStep(node, inputs)
    if isinstance(node, Merge):
        return MergeStep(node, inputs)
    if isinstance(node, Group):
        return GroupStep(node, inputs, knowledge)
    if isinstance(node, Without):
        return WithoutStep(node, inputs, knowledge)
    if isinstance(node, Best):
        return BestStep(node, inputs, knowledge)
    return Origin()


class ViewRows:
    """What a subscriber has seen of a view."""

    def __init__(self, name: str, node: Node, best: BestStep | None, keep: bool) -> None:
        self.name, self.node = name, node
        self._best = best
        self._keep = keep
        self.shown: dict[Key, Row] = {}
        self._visible = node.visible
        self._key_names = node.key_names
        self._columns = [column.name for column in node.columns[: node.visible]]

    def take(self, rows: Sequence[Row]) -> Iterator[Change]:
        """Those of the rows that look different from before."""
        shown, keep = self.shown, self._keep
        for row in rows:
            before = shown.get(row.key)
            if row.present is True or row.is_shown():
                if keep:
                    shown[row.key] = row
                if before is None or self._looks_different(before, row):
                    yield self.change(row)
            elif before is not None:
                del shown[row.key]
                yield self.change(row)

    def state(self) -> Iterator[Change]:
        """Every row that is there."""
        rank = {} if self._best is None else self._best.ranks()
        for row in sorted(self.shown.values(), key=lambda row: (rank.get(row.key, 0), sort_key(row.key))):
            yield self.change(row)

    def _looks_different(self, before: Row, row: Row) -> bool:
        for old, new in zip(before.cells[: self._visible], row.cells, strict=False):
            if old != new and json_of(old) != json_of(new):
                return True
        return before.is_final() != row.is_final()

    def change(self, row: Row) -> Change:
        """A row as it is told. Most values are plain: they need no call, and this is called for every row."""
        names, cells = self._columns, row.cells
        key = {
            name: v if v.__class__ in PLAIN else json_of(v) for name, v in zip(self._key_names, row.key, strict=True)
        }
        if row.present is not True and not row.is_shown():
            return Change(self.name, key, None, row.is_final())
        told = {name: v if v.__class__ in PLAIN else json_of(v) for name, v in zip(names, cells, strict=False)}
        return Change(self.name, key, told, row.is_final())
