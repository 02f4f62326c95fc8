"""Runs a plan over events, in one process.

A step takes some events, lets what they change flow once through the graph, and gives the rows of the views that look
different afterwards. Between two steps every view shows what is certain of the events taken so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tocsin.errors import EventError
from tocsin.views.best import BestStep
from tocsin.views.column_group import ColumnGroupStep, ColumnPickStep, column_step
from tocsin.views.columns import Encoder
from tocsin.views.events import Event, Item
from tocsin.views.evolving import Batch, rows_of
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
)
from tocsin.views.tables import Table
from tocsin.views.ticks import Range
from tocsin.views.told import Change, GroupViewRows, Told, ViewRows
from tocsin.views.without import WithoutStep

Maker: TypeAlias = Callable[[Node, Sequence[Step], Knowledge], Step | None]


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
        self._views = [self._view_rows(name, node, keep) for name, node in plan.views.items()]
        self._started = False
        self._fresh: dict[str, Batch] = {}
        self.flow({}, {})

    def _view_rows(self, name: str, node: Node, keep: bool) -> ViewRows:
        step = self._steps[node]
        if isinstance(step, ColumnGroupStep | ColumnPickStep):
            return GroupViewRows(name, node, step)
        return ViewRows(name, node, self._ranks(node), keep or not node.history)

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
        return list(self.flow({name: self._encoded(name, found) for name, found in rows.items()}, advance))

    def step_table(self, table: Table) -> Sequence[Change] | None:
        """Takes many events at once, by column. None, and takes none, if one of them is not simply the next."""
        if any(self.histories[name].is_behind(columns.ticks) for name, columns in table.items()):
            return None
        batches: dict[str, Batch] = {}
        advance: dict[str, list[Range]] = {}
        for name, given in table.items():
            columns = self._encoders[name].adopt(given) if name in self._encoders else given
            advance[name] = self.histories[name].extend(columns.ticks, columns)
            batches[name] = columns if name in self._encoders else columns.rows()
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
        return self._view(view).size()

    def fresh(self, view: str) -> Sequence[Row]:
        """The rows that the last step gave the view, those that look as before among them."""
        return rows_of(self._fresh.get(view, ()))

    def views(self) -> list[ViewRows]:
        """What is shown of each view."""
        return self._views

    @property
    def steps(self) -> Mapping[Node, Step]:
        """The operator of each node."""
        return self._steps

    def _view(self, name: str) -> ViewRows:
        return next(one for one in self._views if one.name == name)

    def _ranks(self, node: Node) -> BestStep | None:
        """What ranks the rows of a view that is a best-k."""
        while isinstance(node, Project):
            node = node.input
        step = self._steps[node]
        return step if isinstance(step, BestStep) else None

    def flow(self, batches: Mapping[str, Batch], advance: Mapping[str, list[Range]]) -> Sequence[Change]:
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
        self._fresh = {view.name: made[view.node] for view in self._views}
        return Told([view.take(self._fresh[view.name]) for view in self._views])


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
