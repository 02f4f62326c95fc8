"""Views on Spark: a batch is grouped where it lies, and its parts are merged into what is known.

Groups over events of one source (the bulk of the work) are computed by Spark's own aggregation, one job for each; what
comes to the driver is one row for each group that the batch touches. Everything derived from groups, and what needs the
events themselves (joins, lists), goes on in `views.partial`. State and the batch's number are written in one
transaction, so a batch that is run again changes nothing. The result is that of the engine in one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tocsin.store import Store
from tocsin.store import views as kept
from tocsin.views.engine import Change
from tocsin.views.events import Event
from tocsin.views.expression import Call, Expression, Literal, Type
from tocsin.views.expression import Column as Place
from tocsin.views.partial import Kept, Part, PartialEngine, can_be_tallied, source_of
from tocsin.views.plan import Aggregate, Group, Node, Plan, Project, Relation, Select
from tocsin.views.relation import Key

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
    below: Node = node.input
    while isinstance(below, Select | Project):
        expressions += [below.condition] if isinstance(below, Select) else [one for _, one in below.outputs]
        below = below.input
    return all(map(_is_plain, expressions))


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
    """A chain of selections and projections over a source, as a table and the columns of its rows."""
    if isinstance(node, Relation):
        return events, [events[one.name] for one in node.columns]
    assert isinstance(node, Select | Project)
    table, cells = cells_of(node.input, events)
    if isinstance(node, Select):
        return table.where(column(node.condition, cells)), cells
    return table, [column(expression, cells) for _, expression in node.outputs]


def partial_groups(node: Group, events: DataFrame) -> DataFrame:
    """Events of a source -> one row for each group: its keys k0, k1, …, then what they add to each aggregate."""
    table, cells = cells_of(node.input, events)
    keys = [column(expression, cells).alias(f"k{at}") for at, (_, expression) in enumerate(node.keys)]
    parts = [_part(aggregate, cells).alias(f"a{at}") for at, aggregate in enumerate(node.aggregates)]
    return table.groupBy(*keys).agg(*parts)


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
    order = column(aggregate.order, cells)
    return F.max(F.when(value.isNotNull() & order.isNotNull(), F.struct(order.alias("tick"), value.alias("value"))))


def _plain_part(aggregate: Aggregate, value: Any) -> Any:
    if value is None:
        return None
    if aggregate.function == "latest":
        return value["value"], value["tick"]
    if aggregate.function == "sum":
        return list(value) if isinstance(value, list) else int(value)
    return value


MATCHES = """
CREATE RELATION matches (tick BIGINT, subscription BIGINT, document TEXT, version BIGINT, score DOUBLE, day BIGINT);
"""


def matches(store: Store, spark: SparkSession, after: int, number: int = 20_000) -> DataFrame:
    """The outbox as a source relation: the next matches after a cursor, which is their tick."""
    rows = kept.matches_after(store, after, number)
    columns = "tick bigint, subscription bigint, document string, version bigint, score double, day bigint"
    return spark.createDataFrame(rows, columns)


class SparkViews:
    """A set of views that lives in a store and takes batches of events as tables."""

    def __init__(self, store: Store, name: str, plan: Plan, spark: SparkSession) -> None:
        self.name, self.plan = name, plan
        self._store, self._spark = store, spark
        self._engine = self._restored()

    def _restored(self) -> PartialEngine:
        engine = PartialEngine(self.plan, is_native)
        sources, groups, rows = kept.read(self._store, self.name)
        engine.restore(Kept(
            {one.name: None if one.closed else one.tick for one in sources if one.closed or one.tick is not None},
            [(one.node, one.key, one.tallies) for one in groups],
            [Event(*one) for one in rows],
        ))  # fmt: skip
        return engine

    def rows(self, view: str) -> list[dict[str, Any]]:
        """The rows of a view that are there, in their last state."""
        return [change.row for change in self._engine.engine.state() if change.view == view and change.row is not None]

    def state(self) -> list[Change]:
        """Every row of every view."""
        return list(self._engine.engine.state())

    def run(self, number: int, batch: Mapping[str, DataFrame], closed: tuple[str, ...] = ()) -> list[Change]:
        """Takes a batch: for each source its events, whose ticks follow those of earlier batches; earlier ones and
        repeats are passed over. Gives the rows that look different now; none if the batch is in already."""
        done = kept.last_batch(self._store, self.name)
        if done is not None and number <= done:
            return []
        upto: dict[str, int] = {}
        parts: dict[int, list[tuple[Key, Part]]] = {}
        events: list[Event] = []
        for relation, table in batch.items():
            fresh = self._fresh(relation, table).persist()
            try:
                last = fresh.agg(F.max("tick")).first()
                if last is None or last[0] is None:
                    continue
                upto[relation] = int(last[0])
                for at, node in self._engine.tallied.items():
                    if source_of(node.input) == self.plan.relations[relation]:
                        parts[at] = self._parts(node, fresh)
                if relation in self._engine.needs_rows:
                    rows = fresh.orderBy("tick").toArrow().to_pylist()
                    names = [one.name for one in self.plan.relations[relation].columns]
                    events += [Event(relation, row["tick"], tuple(row[name] for name in names)) for row in rows]
            finally:
                fresh.unpersist()
        return self._merge(number, upto, parts, events, closed)

    def _fresh(self, relation: str, table: DataFrame) -> DataFrame:
        names = [one.name for one in self.plan.relations[relation].columns]
        last = self._engine.last(relation)
        chosen = table.select(*names).where(F.col("tick").isNotNull()).dropDuplicates(["tick"])
        return chosen if last is None else chosen.where(F.col("tick") > last)

    def _parts(self, node: Group, events: DataFrame) -> list[tuple[Key, Part]]:
        width = len(node.keys)
        found = partial_groups(node, events).toArrow().to_pylist()
        made = []
        for row in found:
            values = list(row.values())
            parts = map(_plain_part, node.aggregates, values[width:])
            made.append((tuple(values[:width]), tuple(parts)))
        return made

    def _merge(
        self, number: int, upto: Mapping[str, int], parts: Mapping[int, list[tuple[Key, Part]]], events: list[Event],
        closed: tuple[str, ...],
    ) -> list[Change]:  # fmt: skip
        """Memory first, then the store; if the store refuses, memory is read from it again."""
        changes = self._engine.step(upto, parts, events)
        for relation in closed:
            changes += self._engine.close(relation)
        sources = [
            kept.Source(name, None if history.closed else history.known.last(), history.closed)
            for name, history in self._engine.engine.histories.items()
        ]
        groups = [kept.Group(*one) for one in self._engine.news()]
        rows = [kept.Row(event.relation, event.tick, event.cells) for event in events]
        try:
            is_new = kept.write(self._store, self.name, number, sources=sources, changed=groups, rows=rows)
        except Exception:
            self._engine = self._restored()
            raise
        if not is_new:
            self._engine = self._restored()
            return []
        return changes
