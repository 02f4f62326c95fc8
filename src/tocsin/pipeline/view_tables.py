"""Parts of views as Spark's own tables: chains over events, joins of them, and groups of either.

What Spark would compute in another way than the engine (arithmetic that overflows or rounds) is not native, and stays
with the engine.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tocsin.views.expression import Call, Expression, Literal, Type
from tocsin.views.expression import Column as Place
from tocsin.views.partial import base_of, can_be_tallied
from tocsin.views.plan import Aggregate, Group, Join, Node, Project, Relation, Select

TYPES: dict[Type, T.DataType] = {
    Type.INTEGER: T.LongType(), Type.REAL: T.DoubleType(), Type.TEXT: T.StringType(), Type.BOOLEAN: T.BooleanType(),
}  # fmt: skip
WIDE = T.DecimalType(38, 0)  # sums of 64-bit integers do not fit into 64 bits
PLAIN = frozenset({"=", "<>", "<", "<=", ">", ">=", "and", "or", "not", "isnull", "coalesce", "div", "%"})


def event_schema(relation: Relation) -> T.StructType:
    """A source relation as a table of Spark."""
    return T.StructType([T.StructField(column.name, TYPES[column.type]) for column in relation.columns])


def is_native(node: Node) -> bool:
    """Whether Spark computes a group exactly as the engine does: no arithmetic that may overflow or round."""
    if not isinstance(node, Group) or not can_be_tallied(node):
        return False
    expressions = [expression for _, expression in node.keys]
    for aggregate in node.aggregates:
        expressions += [*aggregate.arguments, *([] if aggregate.order is None else [aggregate.order])]
    base = base_of(node.input)
    return all(map(_is_plain, expressions + _chained(node.input))) and (isinstance(base, Relation) or is_joined(base))


def is_joined(node: Node | None) -> bool:
    """Whether Spark finds the pairs of a join exactly as the engine does: sources, compared by values of one type."""
    if not isinstance(node, Join) or not all(isinstance(base_of(side), Relation) for side in node.inputs):
        return False
    alike = all(left.type is right.type for left, right in zip(node.left_on, node.right_on, strict=True))
    return alike and all(map(_is_plain, [*node.left_on, *node.right_on, *_chained(node.left), *_chained(node.right)]))


def _chained(node: Node) -> list[Expression]:
    """The expressions of a chain of selections and projections."""
    found: list[Expression] = []
    while isinstance(node, Select | Project):
        found += [node.condition] if isinstance(node, Select) else [one for _, one in node.outputs]
        node = node.input
    return found


def _is_plain(expression: Expression) -> bool:
    if not isinstance(expression, Call):
        return expression.type in TYPES or isinstance(expression, Literal)
    if expression.operation not in PLAIN:
        return False
    if expression.operation in ("div", "%"):
        divisor = expression.arguments[1]
        whole = isinstance(divisor, Literal) and type(divisor.value) is int and divisor.value not in (0, -1)
        if not whole or expression.arguments[0].type is not Type.INTEGER:
            return False
    return all(map(_is_plain, expression.arguments))


def column(expression: Expression, cells: list[Column]) -> Column:
    """An expression over the columns of a table."""
    if isinstance(expression, Place):
        return cells[expression.index]
    if isinstance(expression, Literal):
        made = F.lit(expression.value)
        return made.cast(TYPES[expression.type]) if expression.type in TYPES else made
    parts = [column(argument, cells) for argument in expression.arguments]
    if expression.operation == "not":
        return ~parts[0]
    if expression.operation == "isnull":
        return parts[0].isNull()
    if expression.operation == "coalesce":
        return F.coalesce(*parts)
    left, right = parts
    made = {
        "=": lambda: left == right, "<>": lambda: left != right, "<": lambda: left < right,
        "<=": lambda: left <= right, ">": lambda: left > right, ">=": lambda: left >= right,
        "and": lambda: left & right, "or": lambda: left | right, "%": lambda: left % right,
        "div": lambda: F.call_function("div", left, right),
    }[expression.operation]()  # fmt: skip
    return made


def cells_of(node: Node, events: DataFrame) -> tuple[DataFrame, list[Column]]:
    """A chain of selections and projections over a source or a join, as a table and the columns of its rows."""
    if isinstance(node, Relation):
        return events, [events[one.name] for one in node.columns]
    if isinstance(node, Join):
        return events, [events[f"c{at}"] for at in range(len(node.columns))]
    assert isinstance(node, Select | Project)
    table, cells = cells_of(node.input, events)
    if isinstance(node, Select):
        return table.where(column(node.condition, cells)), cells
    return table, [column(expression, cells) for _, expression in node.outputs]


def partial_groups(node: Group, events: DataFrame, *more: Column) -> DataFrame:
    """Events of a source, or pairs -> a row for each group: keys k0, k1, …, then what they add to each aggregate."""
    table, cells = cells_of(node.input, events)
    keys = [column(expression, cells).alias(f"k{at}") for at, (_, expression) in enumerate(node.keys)]
    added = [_part(aggregate, cells).alias(f"a{at}") for at, aggregate in enumerate(node.aggregates)]
    return table.groupBy(*keys).agg(*added, *more)


def pairs_of(join: Join, left: DataFrame, right: DataFrame) -> DataFrame:
    """Events of two sources -> the pairs of a join, with the columns c0, c1, …"""
    sides: list[DataFrame] = []
    for node, events in ((join.left, left), (join.right, right)):
        table, cells = cells_of(node, events)
        first = len(sides[0].columns) if sides else 0
        sides.append(table.select(*[cell.alias(f"c{at}") for at, cell in enumerate(cells, first)]))
    one, other = ([side[name] for name in side.columns] for side in sides)
    tests = [column(a, one) == column(b, other) for a, b in zip(join.left_on, join.right_on, strict=True)]
    return sides[0].join(sides[1], reduce(and_, tests))


def selects_nothing(node: Node) -> bool:
    """Whether every event of the source gets there."""
    while isinstance(node, Project):
        node = node.input
    return isinstance(node, Relation)


def _part(aggregate: Aggregate, cells: list[Column]) -> Column:
    value = column(aggregate.arguments[0], cells)
    if aggregate.function == "count":
        return F.count(value)
    if aggregate.function == "max":
        return F.max(value)
    if aggregate.function == "min":
        return F.min(value)
    if aggregate.function == "sum":
        if aggregate.arguments[0].type is Type.INTEGER:
            return F.sum(value.cast(WIDE))
        return F.collect_list(value)  # reals are added once, exactly, whatever the order
    assert aggregate.order is not None
    order = F.when(value.isNotNull(), column(aggregate.order, cells))
    tick = F.max(order)  # two numbers that Spark updates in place; a largest pair would have it sort all rows
    return F.when(tick.isNotNull(), F.struct(tick.alias("tick"), F.max_by(value, order).alias("value")))


def plain_part(aggregate: Aggregate, value: Any) -> Any:
    """What comes of an aggregate of Spark's, as a part of a tally."""
    if value is None:
        return None
    if aggregate.function == "latest":
        return value["value"], value["tick"]
    if aggregate.function == "sum":
        return list(value) if isinstance(value, list) else int(value)
    return value
