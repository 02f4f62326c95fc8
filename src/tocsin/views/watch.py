"""Rows of a view that somebody waits for: those for which a condition holds, so far or for good.

A condition over a view is one more selection at the end of the graph. It can be added while the views run: it is fed
the rows that are there, and from then on those that each step changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tocsin.views.engine import Engine
from tocsin.views.plan import Select
from tocsin.views.relation import Key, Row, SelectStep
from tocsin.views.told import Change, ViewRows


class Watch:
    """What of a view is inside a condition. `edges`: tells only of rows that enter or leave it."""

    def __init__(self, engine: Engine, view: str, conditions: Sequence[Select], edges: bool = False) -> None:
        self.view, self._edges = view, edges
        self._steps = [SelectStep(condition, []) for condition in conditions]
        self._rows = ViewRows(view, engine.plan.views[view], None, keep=True)
        self._inside: dict[Key, Row] = self._rows.shown
        self.take(engine.rows(view).values())

    def take(self, rows: Iterable[Row]) -> list[Change]:
        """What is to be told of rows that a step changed."""
        found = list(rows)
        keys = [row.key for row in found]
        for step in self._steps:
            found = step.step([found], {})
        passed = {row.key for row in found}
        missing = [row for key in keys if key not in passed and (row := self._inside.get(key)) is not None]
        found += [row.absent(True) for row in missing]  # a selection does not pass on what is certainly outside
        before = {row.key: row.key in self._inside for row in found}
        changes = list(zip(found, map(list, (self._rows.take([row]) for row in found)), strict=True))
        return [
            change
            for row, told in changes
            for change in told
            if not self._edges or before[row.key] != (row.key in self._inside)
        ]

    def state(self) -> list[Change]:
        """Every row that is inside."""
        return list(self._rows.state())
