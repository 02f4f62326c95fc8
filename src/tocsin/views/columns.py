"""Batches of events as columns: arrays in, arrays out.

A vector is an array of values and, unless all are there, an array that says which are not null. Text is held as codes
into a list of words. Arithmetic gives what `value` gives, value by value: integers that may not fit 64 bits become
Python's own, reals that are not finite become null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tocsin.views.expression import Column, Expression, Literal, Type
from tocsin.views.relation import Cells, Row

Array = NDArray[Any]
ENCODE = json.JSONEncoder(ensure_ascii=False).encode
SAFE = 1 << 62  # sums and differences of two integers below this fit 64 bits


class Words:
    """Codes for the text of one column."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        """With words, which are all different, it only tells what codes mean."""
        self._words: list[str] = list(words)
        self._codes: dict[str | None, int] = {None: -1}
        self._texts: list[str] = []

    @property
    def words(self) -> list[str]:
        """What the codes mean."""
        return self._words

    def encode(self, texts: Sequence[str | None]) -> Array:
        """A code for each text, the next one for a new text; -1 for null."""
        codes = self._codes
        found = [codes.setdefault(text, len(codes) - 1) for text in texts]
        self._words += [text or "" for text in islice(codes, len(self._words) + 1, None)]
        return np.array(found, np.int64)

    def code(self, text: str) -> int:
        """The code of one text; -2 if it never occurred."""
        return self._codes.get(text, -2)

    def texts(self) -> list[str]:
        """Each word as JSON: written once, however often it is told."""
        if len(self._texts) < len(self.words):
            self._texts += map(ENCODE, self.words[len(self._texts) :])
        return self._texts


@dataclass(frozen=True, slots=True)
class Vector:
    """The values of one column in a batch; where valid is False they are null."""

    values: Array
    valid: Array | None = None
    words: Words | None = None

    def there(self) -> Array:
        """Which are not null."""
        return np.ones(len(self.values), bool) if self.valid is None else self.valid

    def at(self, places: Array) -> Vector:
        """Some of the values."""
        return Vector(self.values[places], None if self.valid is None else self.valid[places], self.words)

    def scalars(self) -> list[Any]:
        """As Python values."""
        found = self.values.tolist()
        if self.words is not None:
            words = self.words.words
            found = [None if code < 0 else words[code] for code in found]
        if self.valid is None:
            return found  # type: ignore[no-any-return]
        return [value if there else None for value, there in zip(found, self.valid.tolist(), strict=True)]

    def scalar(self, place: int) -> Any:
        """One of them as a Python value."""
        if self.valid is not None and not self.valid[place]:
            return None
        found = self.values[place]
        return self.words.words[found] if self.words is not None else found.item()

    def pieces(self) -> tuple[str, list[list[Any]]]:
        """As JSON: a format, and what goes into each of its places."""
        if self.valid is None or bool(self.valid.all()):
            if self.words is not None:
                texts = self.words.texts()
                return "%s", [[texts[code] for code in self.values.tolist()]]
            if self.values.dtype != np.bool_:
                return "%r", [self.values.tolist()]  # finite numbers look as JSON has them
        return "%s", [list(map(ENCODE, self.scalars()))]


@dataclass(frozen=True, slots=True)
class Columns(Sequence[Cells]):
    """A batch of events of one source, all of them final, in tick order."""

    ticks: Array
    vectors: tuple[Vector, ...]

    def __len__(self) -> int:
        return len(self.ticks)

    @overload
    def __getitem__(self, place: int) -> Cells: ...

    @overload
    def __getitem__(self, place: slice) -> list[Cells]: ...

    def __getitem__(self, place: int | slice) -> Cells | list[Cells]:
        """Events as tuples, made when they are asked for."""
        if isinstance(place, slice):
            return self.at(np.arange(len(self))[place]).cells()
        return tuple([vector.scalar(place) for vector in self.vectors])

    def at(self, places: Array) -> Columns:
        """Some of the events."""
        return Columns(self.ticks[places], tuple(vector.at(places) for vector in self.vectors))

    def cells(self) -> list[Cells]:
        """The events as tuples."""
        return list(zip(*(vector.scalars() for vector in self.vectors), strict=True))

    def rows(self) -> list[Row]:
        """The events as rows."""
        return [Row((tick,), cells, True) for tick, cells in zip(self.ticks.tolist(), self.cells(), strict=True)]


def recoded(vector: Vector, words: Words) -> Vector:
    """Text by other codes than its own."""
    assert vector.words is not None
    codes = np.append(words.encode(vector.words.words), -1)  # the last place is that of null
    return Vector(codes[vector.values], vector.valid, words)


class Encoder:
    """Cells of one relation to columns; text keeps its codes from batch to batch."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._types = [column.type for column in columns]
        self._words = [Words() if kind is Type.TEXT else None for kind in self._types]

    def encode(self, ticks: Sequence[int], columns: Sequence[Sequence[Any]]) -> Columns:
        """Checked values of each column."""
        made = [
            _vector(values, kind, words) for values, kind, words in zip(columns, self._types, self._words, strict=True)
        ]
        return Columns(np.array(ticks, np.int64), tuple(made))

    def adopt(self, columns: Columns) -> Columns:
        """Columns whose text had codes of its own."""
        made = []
        for vector, words in zip(columns.vectors, self._words, strict=True):
            made.append(vector if words is None else recoded(vector, words))
        return Columns(columns.ticks, tuple(made))

    def rows(self, rows: Sequence[Row]) -> Columns:
        """Rows of the relation."""
        cells = list(zip(*(row.cells for row in rows), strict=True)) or [() for _ in self._types]
        return self.encode([row.key[0] for row in rows], cells)


def _vector(values: Sequence[Any], kind: Type, words: Words | None) -> Vector:
    if words is not None:
        codes = words.encode(values)
        return Vector(codes, codes >= 0 if None in values else None, words)
    dtype = {Type.INTEGER: np.int64, Type.REAL: np.float64, Type.BOOLEAN: np.bool_}[kind]
    if None not in values:
        return Vector(np.array(values, dtype))
    filled = [0 if value is None else value for value in values]
    return Vector(np.array(filled, dtype), np.array([value is not None for value in values], bool))


# --- expressions -----------------------------------------------------------------------------------------------------

Maker = Callable[[Columns], Vector]


def vectorised(expression: Expression) -> Maker | None:
    """The expression over a batch; None if there is no array form of it."""
    if isinstance(expression, Column):
        index = expression.index
        return lambda columns: columns.vectors[index]
    if isinstance(expression, Literal):
        return _constant(expression)
    textual = any(argument.type not in (Type.INTEGER, Type.REAL, Type.BOOLEAN) for argument in expression.arguments)
    if textual:
        return _text_test(expression.operation, expression.arguments)
    operation = VECTORISED.get(expression.operation)
    parts = [vectorised(argument) for argument in expression.arguments]
    made = [part for part in parts if part is not None]
    if operation is None or len(made) != len(parts):
        return None
    return lambda columns: operation(*[part(columns) for part in made])


def _constant(literal: Literal) -> Maker | None:
    value = literal.value
    if not isinstance(value, int | float) or (isinstance(value, int) and abs(value) >= SAFE):
        return None
    return lambda columns: Vector(np.full(len(columns), value))


def _text_test(operation: str, arguments: Sequence[Expression]) -> Maker | None:
    """column = 'text' compares codes."""
    if operation not in ("=", "<>") or not isinstance(arguments[0], Column) or not isinstance(arguments[1], Literal):
        return None
    index, text = arguments[0].index, arguments[1].value
    if not isinstance(text, str):
        return None

    def test(columns: Columns) -> Vector:
        vector = columns.vectors[index]
        assert vector.words is not None
        same = vector.values == vector.words.code(text)
        return Vector(same if operation == "=" else ~same, vector.valid)

    return test


def _valid(*vectors: Vector) -> Array | None:
    held = [vector.valid for vector in vectors if vector.valid is not None]
    return None if not held else held[0] if len(held) == 1 else np.logical_and.reduce(held)


def _wide(array: Array, limit: int) -> Array:
    """Integers that could leave 64 bits go on as Python's."""
    if array.dtype == np.int64 and len(array) and max(-int(array.min()), int(array.max())) >= limit:
        return array.astype(object)
    return array


def _arithmetic(operation: Callable[[Array, Array], Array], limit: int) -> Callable[[Vector, Vector], Vector]:
    def apply(left: Vector, right: Vector) -> Vector:
        with np.errstate(all="ignore"):
            made = operation(_wide(left.values, limit), _wide(right.values, limit))
        return _finite(made, _valid(left, right))

    return apply


def _finite(array: Array, valid: Array | None) -> Vector:
    if array.dtype != np.float64:
        return Vector(array, valid)
    array = array + 0.0  # there is one zero
    finite = np.isfinite(array)
    if finite.all():
        return Vector(array, valid)
    return Vector(np.where(finite, array, 0.0), finite if valid is None else finite & valid)


def _divisible(right: Vector) -> tuple[Array, Array | None]:
    zero = right.values == 0
    if not zero.any():
        return right.values, None
    return np.where(zero, 1, right.values), ~zero


def _both(left: Array | None, right: Array | None) -> Array | None:
    return right if left is None else left if right is None else left & right


def _divide_integers(left: Vector, right: Vector) -> Vector:
    divisor, nonzero = _divisible(right)
    a, b = _wide(left.values, SAFE), _wide(divisor, SAFE)
    quotient = np.abs(a) // np.abs(b)
    made = np.where((a < 0) == (b < 0), quotient, -quotient)
    return Vector(made, _both(_valid(left, right), nonzero))


def _divide(left: Vector, right: Vector) -> Vector:
    divisor, nonzero = _divisible(right)
    with np.errstate(all="ignore"):
        made = left.values.astype(np.float64) / divisor.astype(np.float64)
    return _finite(made, _both(_valid(left, right), nonzero))


def _remainder(left: Vector, right: Vector) -> Vector:
    divisor, nonzero = _divisible(right)
    a = _wide(left.values, SAFE)
    rest = np.abs(a) % np.abs(_wide(divisor, SAFE))
    return Vector(np.where(a < 0, -rest, rest), _both(_valid(left, right), nonzero))


def _comparison(operation: Callable[[Array, Array], Array]) -> Callable[[Vector, Vector], Vector]:
    def apply(left: Vector, right: Vector) -> Vector:
        a, b = left.values, right.values
        if a.dtype != b.dtype:  # a real beside an integer: Python compares these exactly
            a, b = a.astype(object), b.astype(object)
        return Vector(operation(a, b).astype(bool), _valid(left, right))

    return apply


def _and(left: Vector, right: Vector) -> Vector:
    a, b = left.there(), right.there()
    false = (a & ~left.values) | (b & ~right.values)
    return Vector(~false & left.values & right.values, false | (a & b))


def _or(left: Vector, right: Vector) -> Vector:
    a, b = left.there(), right.there()
    true = (a & left.values) | (b & right.values)
    return Vector(true, true | (a & b))


VECTORISED: Mapping[str, Callable[..., Vector]] = {
    "+": _arithmetic(np.add, SAFE >> 1), "-": _arithmetic(np.subtract, SAFE >> 1),
    "*": _arithmetic(np.multiply, 1 << 31), "div": _divide_integers, "/": _divide, "%": _remainder,
    "<": _comparison(np.less), "<=": _comparison(np.less_equal), ">": _comparison(np.greater),
    ">=": _comparison(np.greater_equal), "=": _comparison(np.equal), "<>": _comparison(np.not_equal),
    "and": _and, "or": _or, "not": lambda vector: Vector(~vector.values, vector.valid),
    "isnull": lambda vector: Vector(~vector.there()),
}  # fmt: skip
