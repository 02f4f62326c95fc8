"""What a batch adds to groups, for many groups at once: a table with the columns k0, k1, … of their keys and a0, a1, …
of their aggregates.

All that was ever added to groups is a part as well. So what is kept of groups is a list of parts, and any number of
them may be replaced by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tocsin.errors import EventError
from tocsin.views.column_group import ColumnGroupStep
from tocsin.views.columns import Array, Vector, Words
from tocsin.views.expression import Column, Type
from tocsin.views.plan import Aggregate, Group, Relation
from tocsin.views.relation import Advance, Key, Knowledge
from tocsin.views.tables import vector_of

ARROW = {Type.INTEGER: "int64", Type.REAL: "float64", Type.TEXT: "string", Type.BOOLEAN: "bool_"}
Part: TypeAlias = Any
"""A table of Arrow's."""


class PartStep(ColumnGroupStep):
    """Groups of one source that are given parts, not events."""

    def __init__(self, node: Group, source: Relation, knowledge: Knowledge) -> None:
        super().__init__(node, source, knowledge)
        self._types = [expression.type for _, expression in node.keys]
        self._aggregates = node.aggregates
        self._words = [_Texts() for _ in (*node.keys, *node.aggregates)]
        self._waiting: list[Array] = []

    def put(self, part: Part) -> None:
        """What a batch adds."""
        if not part.num_rows:
            return
        part, width = part.combine_chunks(), len(self._types)
        columns = [self._vector(part.column(at), kind, at) for at, kind in enumerate(self._types)]
        places = self._places(columns)
        for at, (aggregate, tallies) in enumerate(zip(self._aggregates, self._tallies, strict=True), width):
            vector, ticks = self._added(part.column(at), aggregate, at)
            tallies.merge(vector, ticks, places)
        self._waiting.append(places)

    def put_rows(self, groups: Sequence[tuple[Key, Sequence[Sequence[Any]]]]) -> None:
        """The same from tallies, group by group: that is how parts were kept before they were tables."""
        import pyarrow as pa

        keys = list(zip(*(key for key, _ in groups), strict=True))
        arrays = [pa.array(values, getattr(pa, ARROW[kind])()) for values, kind in zip(keys, self._types, strict=True)]
        for at, aggregate in enumerate(self._aggregates):
            arrays.append(_tallied(aggregate, [tallies[at] for _, tallies in groups]))
        self.put(pa.table(arrays, names=[str(at) for at in range(len(arrays))]))

    def _vector(self, column: Any, kind: Type, at: int) -> Vector:
        if kind is Type.TEXT:
            return self._words[at].vector(column.chunk(0))
        vector = vector_of(column, kind)
        if vector is None:
            raise EventError("a number is not finite")
        return vector

    def _added(self, column: Any, aggregate: Aggregate, at: int) -> tuple[Vector, Array]:
        """The values of one aggregate, and their ticks if it is the latest."""
        none = np.zeros(len(column), np.int64)
        if aggregate.function == "count":
            return self._vector(column, Type.INTEGER, at), none
        if aggregate.function == "sum":
            return self._sums(column, at), none
        kind = aggregate.arguments[0].type
        if aggregate.function != "latest":
            return self._vector(column, kind, at), none
        pairs = column.chunk(0)
        there = pairs.is_valid().to_numpy(zero_copy_only=False)
        vector = self._vector(_chunked(pairs.field("value")), kind, at)
        ticks = pairs.field("tick").fill_null(0).to_numpy(zero_copy_only=False)
        return Vector(vector.values, None if there.all() else there & vector.there(), vector.words), ticks

    def _sums(self, column: Any, at: int) -> Vector:
        """Sums of integers, beyond 64 bits as Python's own."""
        import pyarrow as pa

        try:
            return self._vector(column.cast(pa.int64()), Type.INTEGER, at)
        except pa.ArrowInvalid:
            found = column.to_pylist()
            values = np.array([0 if one is None else int(one) for one in found], object)
            return Vector(values, np.array([one is not None for one in found], bool) if None in found else None)

    def whole(self) -> Part:
        """All parts as one."""
        import pyarrow as pa

        places = np.arange(len(self._keys))
        arrays = [_array(vector) for vector in self._keys.at(places)]
        for tallies in self._tallies:
            vector, ticks = tallies.whole(places)
            arrays.append(_array(vector) if ticks is None else _struct(vector, ticks))
        keys = [f"k{at}" for at in range(len(self._types))]
        return pa.table(arrays, names=[*keys, *(f"a{at}" for at in range(len(self._tallies)))])

    def step(self, increments: Sequence[Any], advance: Advance) -> Any:
        """Tells of the groups that were given parts, or whose ticks became known."""
        is_touched = np.zeros(len(self._keys), bool)
        for places in (*self._waiting, self._spans.touched(advance)):
            is_touched[places] = True
        self._waiting = []
        return self._groups(np.flatnonzero(is_touched))


class _Texts(Words):
    """Codes for text that stays Arrow's own until somebody reads it."""

    def __init__(self) -> None:
        import pyarrow as pa

        super().__init__()
        self._known = pa.array([], pa.string())

    @property
    def words(self) -> list[str]:
        """What the codes mean."""
        if len(self._words) < len(self._known):
            self._words += self._known.slice(len(self._words)).to_pylist()
        return self._words

    def vector(self, array: Any) -> Vector:
        """A column of text; a new text has the next code."""
        import pyarrow as pa
        import pyarrow.compute as arrow_compute

        array = array.cast(pa.string())
        there = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
        found = arrow_compute.index_in(array, value_set=self._known)
        if found.null_count > array.null_count:
            new = array.filter(found.is_null()).drop_null().unique()
            self._known = pa.concat_arrays([self._known, new])
            found = arrow_compute.index_in(array, value_set=self._known)
        return Vector(found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), there, self)


def table(columns: Sequence[Column], values: Sequence[Sequence[Any]]) -> Part:
    """Events by column, as a table."""
    import pyarrow as pa

    arrays = [pa.array(one, getattr(pa, ARROW[column.type])()) for column, one in zip(columns, values, strict=True)]
    return pa.table(arrays, names=[column.name for column in columns])


def _tallied(aggregate: Aggregate, tallies: Sequence[Sequence[Any]]) -> Any:
    """The plain values of tallies as a column of a part."""
    import pyarrow as pa

    kind = getattr(pa, ARROW[aggregate.arguments[0].type])()
    if aggregate.function == "count":
        return pa.array([one[0] for one in tallies], pa.int64())
    if aggregate.function == "sum":
        return pa.array([one[0] for one in tallies], pa.decimal128(38, 0))
    if aggregate.function == "latest":
        found = [None if order is None else {"tick": order[0], "value": value} for value, order in tallies]
        return pa.array(found, pa.struct([("tick", pa.int64()), ("value", kind)]))
    return pa.array([one[1] for one in tallies], kind)


def written(part: Part) -> bytes:
    """A part as bytes."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(part)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def read(data: bytes) -> Part:
    """The part that was written."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _chunked(array: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([array])


def _array(vector: Vector) -> Any:
    import pyarrow as pa

    mask = None if vector.valid is None else ~vector.valid
    if vector.words is not None:
        return pa.array(vector.words.words, pa.string()).take(pa.array(vector.values, pa.int64(), mask=mask))
    if vector.values.dtype != object:
        return pa.array(vector.values, mask=mask)
    return pa.array(vector.scalars(), pa.decimal128(38, 0))


def _struct(vector: Vector, ticks: Array) -> Any:
    import pyarrow as pa

    mask = None if vector.valid is None else pa.array(~vector.valid)
    return pa.StructArray.from_arrays([pa.array(ticks), _array(vector)], names=["tick", "value"], mask=mask)
