"""What a step changed, as it is told: rows in their new state, or the lines of JSON that say so.

Groups that were computed by array stay arrays until somebody asks for a row; lines are written from the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from tocsin.views.aggregate import sort_key
from tocsin.views.best import BestStep
from tocsin.views.column_group import GroupsStep
from tocsin.views.columns import ENCODE
from tocsin.views.evolving import Batch, Groups, rows_of
from tocsin.views.plan import Node
from tocsin.views.relation import Key, Row
from tocsin.views.value import PLAIN, json_of


class Change(NamedTuple):
    """A row of a view in a new state; row is None if it left."""

    view: str
    key: dict[str, Any]
    row: dict[str, Any] | None
    final: bool

    def json(self) -> dict[str, Any]:
        """As the contract prints it."""
        return {"view": self.view, "key": self.key, "row": self.row, "final": self.final}


class ViewRows:
    """What a subscriber has seen of a view."""

    def __init__(self, name: str, node: Node, best: BestStep | None, keep: bool) -> None:
        self.name, self.node = name, node
        self._best = best
        self._keep = keep
        self._rows: dict[Key, Row] = {}
        self._visible = node.visible
        self._key_names = node.key_names
        self._columns = [column.name for column in node.columns[: node.visible]]

    @property
    def shown(self) -> dict[Key, Row]:
        """The rows that are there."""
        return self._rows

    def size(self) -> int:
        """How many rows are there."""
        return len(self._rows)

    def resume(self, rows: dict[Key, Row]) -> None:
        """Goes on where these were shown."""
        self._rows = rows

    def take(self, batch: Batch) -> Sequence[Change]:
        """Those of the rows that look different from before."""
        return list(self._different(rows_of(batch)))

    def _different(self, rows: Sequence[Row]) -> Iterator[Change]:
        shown, keep = self._rows, self._keep
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

    def lines(self, groups: Groups) -> list[str]:
        """Groups as lines of JSON; no row is made."""
        final, made = groups.final(), np.empty(len(groups), object)
        for chosen in (np.flatnonzero(~final), np.flatnonzero(final)):  # each part has one format
            if len(chosen):
                made[chosen] = self._written(groups.at(chosen), bool(final[chosen[0]]))
        found: list[str] = made.tolist()
        return found

    def _written(self, groups: Groups, final: bool) -> list[str]:
        lists: list[list[Any]] = []
        parts = []
        for names, cells in ((self._key_names, groups.keys), (self._columns, groups.cells[: self._visible])):
            members = []
            for name, cell in zip(names, cells, strict=True):
                text, values = cell.pieces()
                members.append(f"{_literal(name)}: {text}")
                lists += values
            parts.append("{" + ", ".join(members) + "}")
        end = "true" if final else "false"
        line = f'{{"view": {_literal(self.name)}, "key": {parts[0]}, "row": {parts[1]}, "final": {end}}}\n'
        return list(map(line.__mod__, zip(*lists, strict=True)))


def _literal(text: str) -> str:
    return ENCODE(text).replace("%", "%%")


class GroupsTold(Sequence[Change]):
    """Changes of groups, made when they are asked for."""

    def __init__(self, view: ViewRows, groups: Groups) -> None:
        self._view, self._groups = view, groups

    def __len__(self) -> int:
        return len(self._groups)

    @overload
    def __getitem__(self, at: int) -> Change: ...

    @overload
    def __getitem__(self, at: slice) -> list[Change]: ...

    def __getitem__(self, at: int | slice) -> Change | list[Change]:
        """Some of them."""
        chosen = np.atleast_1d(np.arange(len(self))[at])
        found = [self._view.change(row) for row in self._groups.at(chosen).rows()]
        return found if isinstance(at, slice) else found[0]

    def __iter__(self) -> Iterator[Change]:
        return map(self._view.change, self._groups.rows())

    def lines(self) -> list[str]:
        """Each as a line of JSON."""
        return self._view.lines(self._groups)


class GroupViewRows(ViewRows):
    """A view of groups that are computed by array: they remember what was told."""

    def __init__(self, name: str, node: Node, step: GroupsStep) -> None:
        super().__init__(name, node, None, keep=False)
        self._step = step

    @property
    def shown(self) -> dict[Key, Row]:
        """Every group."""
        return {row.key: row for row in self._step.everything().rows()}

    def size(self) -> int:
        """How many groups there are."""
        return len(self._step.everything())

    def take(self, batch: Batch) -> Sequence[Change]:
        """Those of the groups that look different from before."""
        assert isinstance(batch, Groups)
        news = batch.news(self._visible)
        return GroupsTold(self, batch if news.all() else batch.at(np.flatnonzero(news)))


def lines_of(changes: Sequence[Change]) -> list[str]:
    """Changes as lines of JSON."""
    if isinstance(changes, GroupsTold | Told):
        return changes.lines()
    return [ENCODE(change.json()) + "\n" for change in changes]


class Told(Sequence[Change]):
    """What a step changed in several views."""

    def __init__(self, parts: Sequence[Sequence[Change]]) -> None:
        self._parts = [part for part in parts if len(part)]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @overload
    def __getitem__(self, at: int) -> Change: ...

    @overload
    def __getitem__(self, at: slice) -> list[Change]: ...

    def __getitem__(self, at: int | slice) -> Change | list[Change]:
        """Some of them."""
        return list(self)[at]

    def __iter__(self) -> Iterator[Change]:
        for part in self._parts:
            yield from part

    def lines(self) -> list[str]:
        """Each as a line of JSON."""
        return [line for part in self._parts for line in lines_of(part)]
