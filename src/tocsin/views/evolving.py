"""Columns of values that may still change: what `value` says of one, said of many by arrays.

A column of a group has one form, an array of what is known, and an array that says which are final; a value of `value`
is made only where one is asked for. So are rows; most become lines of JSON without ever being one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from tocsin.views.columns import ENCODE, Array, Columns, Vector
from tocsin.views.relation import Row
from tocsin.views.value import UNKNOWN, Latest, SoFar, Value, interval, json_of

NO_END = -1  # in the place of an upper bound


class Form(Enum):
    """How a value that is not final is written."""

    AT_LEAST = '{"at_least": %s}'
    AT_MOST = '{"at_most": %s}'
    SO_FAR = '{"so_far": %s}'
    LATEST = '{"latest": %s, "tick": %%d}'
    BETWEEN = '{"between": [%s, %%d]}'


@dataclass(frozen=True, slots=True)
class Evolving:
    """The values of one column; where the vector is null nothing is known yet, or, if that is final, null is."""

    form: Form
    vector: Vector
    final: Array
    news: Array
    """Which of them look different from when they were told last."""
    beside: Array | None = None
    """The tick of each latest value; the upper bound of each count."""

    def at(self, places: Array) -> Evolving:
        """Some of the values."""
        beside = None if self.beside is None else self.beside[places]
        return Evolving(self.form, self.vector.at(places), self.final[places], self.news[places], beside)

    def scalars(self) -> list[Value]:
        """As values of a view."""
        found = zip(self.vector.scalars(), self.vector.there().tolist(), self.final.tolist(), strict=True)
        beside = [0] * len(self.final) if self.beside is None else self.beside.tolist()
        return [_value(self.form, *one, more) for one, more in zip(found, beside, strict=True)]

    def pieces(self) -> tuple[str, list[list[Any]]]:
        """As JSON: a format, and what goes into each of its places."""
        if bool(self.final.all()):
            return self.vector.pieces()
        plain = not self.final.any() and bool(self.vector.there().all())
        if not plain or (self.form is Form.BETWEEN and self._is_endless()):
            return "%s", [[ENCODE(json_of(value)) for value in self.scalars()]]
        inner, lists = self.vector.pieces()
        beside = [] if self.beside is None else [self.beside.tolist()]
        return self.form.value % inner, lists + beside

    def _is_endless(self) -> bool:
        return self.beside is not None and bool((self.beside == NO_END).any())


def _value(form: Form, known: Any, seen: bool, final: bool, beside: int) -> Value:
    if form is Form.BETWEEN:
        return interval(known, known, None if beside == NO_END else beside)
    if final:
        return known if seen else None
    if not seen:
        return UNKNOWN
    if form is Form.LATEST:
        return Latest(known, beside)
    low, high = (known if form is Form.AT_LEAST else None), (known if form is Form.AT_MOST else None)
    return SoFar(known, low, high)


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows of a grouping: their keys and cells, array by array; all of them are there."""

    keys: tuple[Vector, ...]
    cells: tuple[Vector | Evolving, ...]
    is_new: Array
    """Which were never told of."""

    def __len__(self) -> int:
        return len(self.is_new)

    def at(self, places: Array) -> Groups:
        """Some of the rows."""
        keys, cells = tuple(one.at(places) for one in self.keys), tuple(one.at(places) for one in self.cells)
        return Groups(keys, cells, self.is_new[places])

    def pick(self, places: Sequence[int]) -> Groups:
        """Some of the cells of every row."""
        return Groups(self.keys, tuple(self.cells[place] for place in places), self.is_new)

    def final(self) -> Array:
        """Which rows cannot change any more."""
        found = np.ones(len(self), bool)
        for cell in self.cells:
            if isinstance(cell, Evolving):
                found &= cell.final
        return found

    def news(self, visible: int) -> Array:
        """Which rows look different: a cell that is shown does, or one becomes final."""
        found = self.is_new.copy()
        for at, cell in enumerate(self.cells):
            if isinstance(cell, Evolving):
                found |= cell.news if at < visible else cell.news & cell.final
        return found

    def rows(self) -> list[Row]:
        """As rows."""
        if not len(self):
            return []
        keys = list(zip(*(vector.scalars() for vector in self.keys), strict=True)) or [()] * len(self)
        cells = list(zip(*(cell.scalars() for cell in self.cells), strict=True)) or [()] * len(self)
        return [Row(key, values, True) for key, values in zip(keys, cells, strict=True)]


Batch: TypeAlias = Sequence[Row] | Columns | Groups


def rows_of(batch: Batch) -> Sequence[Row]:
    """A batch in rows, whatever it was."""
    return batch.rows() if isinstance(batch, Columns | Groups) else batch
