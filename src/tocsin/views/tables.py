"""Many lines of events at once, by column: no object is made for an event or a cell.

Arrow reads the lines. It is asked only about lines that are plainly in order, and whatever it refuses, or reads in
another way than `events` would, is left to `events`, line by line, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tocsin.views.columns import Columns, Vector, Words
from tocsin.views.expression import Type
from tocsin.views.plan import Relation
from tocsin.views.ticks import FIRST_TICK, LAST_TICK

Table: TypeAlias = dict[str, Columns]
"""Many events of several relations; text has codes of its own."""

BLOCK_BYTES_MIN = 1 << 16


def read_table(lines: Sequence[bytes], relations: Mapping[str, Relation]) -> Table | None:
    """The events of some lines; None if one of them needs a closer look."""
    text = b"\n".join(lines)
    if not _is_one_object_a_line(text, len(lines)):
        return None
    if len(relations) == 1:
        ((name, relation),) = relations.items()
        found = _read(text, len(lines), relation)
        return None if found is None else {name: found}
    names = _names(text, len(lines))
    if names is None:
        return None
    made: Table = {}
    for name in dict.fromkeys(names):
        known = relations.get(name)
        own = [line for line, its in zip(lines, names, strict=True) if its == name]
        found = None if known is None else _read(b"\n".join(own), len(own), known)
        if found is None:
            return None
        made[name] = found
    return made


def _is_one_object_a_line(text: bytes, number: int) -> bool:
    """An event has no objects inside, and no text reaches over a line break: so a line that ends in } ends one."""
    if text[:1] != b"{" or text[-1:] != b"}" or text.count(b"}\n{") != number - 1:
        return False
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _arrow(text: bytes, number: int, fields: Sequence[tuple[str, Type]], others: str) -> Any:
    """The named fields of the lines, one row for each; None if Arrow will not have it."""
    import pyarrow as pa
    import pyarrow.json as arrow_json

    types = {Type.INTEGER: pa.int64(), Type.REAL: pa.float64(), Type.TEXT: pa.string(), Type.BOOLEAN: pa.bool_()}
    try:
        table = arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=max(len(text) + 1, BLOCK_BYTES_MIN)),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=pa.schema([(name, types[kind]) for name, kind in fields]),
                newlines_in_values=False,
                unexpected_field_behavior=others,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowCapacityError):
        return None
    return table.combine_chunks() if table.num_rows == number else None


def _names(text: bytes, number: int) -> list[str] | None:
    """Whose events these are."""
    table = _arrow(text, number, [("relation", Type.TEXT)], "ignore")
    if table is None or table.column(0).null_count:
        return None
    names: list[str] = table.column(0).to_pylist()
    return names


def _read(text: bytes, number: int, relation: Relation) -> Columns | None:
    import pyarrow.compute as arrow_compute

    fields = [(column.name, column.type) for column in relation.columns]
    table = _arrow(text, number, [("relation", Type.TEXT), *fields], "error")
    if table is None:
        return None
    named = table.column(0)
    if named.null_count or not arrow_compute.all(arrow_compute.equal(named, relation.name)).as_py():
        return None
    vectors = [vector_of(table.column(at), kind) for at, (_, kind) in enumerate(fields, start=1)]
    ticks = vectors[relation.key[0]]
    made = [vector for vector in vectors if vector is not None]
    if len(made) < len(vectors) or ticks is None or ticks.valid is not None:
        return None
    if ticks.values.min() <= FIRST_TICK or ticks.values.max() >= LAST_TICK:
        return None
    return Columns(ticks.values, tuple(made))


def vector_of(column: Any, kind: Type) -> Vector | None:
    """A column of Arrow's as one of ours; None if a number is none."""
    array = column.chunk(0)
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    if kind is Type.TEXT:
        coded = array.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return Vector(codes, valid, Words(coded.dictionary.to_pylist()))
    if valid is not None:
        array = array.fill_null(False if kind is Type.BOOLEAN else 0)
    values = array.to_numpy(zero_copy_only=False)
    if kind is not Type.REAL:
        return Vector(values, valid)
    return Vector(values + 0.0, valid) if bool(np.isfinite(values).all()) else None
