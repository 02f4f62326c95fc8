"""Views on Spark: a batch is grouped and joined where it lies, and what comes of it is merged into what is known.

Groups over events of one source (the bulk of the work) are computed by Spark's own aggregation, one job for each; what
comes to the driver is a table with one row for each group that the batch touches, which is merged column by column and
kept as it came (`views.parts`). Joins of sources are Spark's, too: new events of one side meet all of the other, and
groups over pairs are made of the new pairs. Everything derived from these goes on in `views.partial`. State and the
batch's number are written in one transaction, so a batch that is run again changes nothing. The result is that of the
engine in one process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as arrow_compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.pipeline.view_tables import (
    event_schema,
    is_joined,
    is_native,
    pairs_of,
    partial_groups,
    plain_part,
    selects_nothing,
)
from tocsin.store import Store
from tocsin.store import views as kept
from tocsin.views import parts
from tocsin.views.events import Event
from tocsin.views.partial import Kept, Part, PartialEngine, base_of
from tocsin.views.plan import Group, Join, Plan, Relation
from tocsin.views.relation import Cells, Key, Row
from tocsin.views.told import Change

PARTS_MAX = 16  # of one group or source, until they become one

MATCHES = """
CREATE RELATION matches (tick BIGINT, subscription BIGINT, document TEXT, version BIGINT, score DOUBLE, day BIGINT);
"""


def matches(store: Store, spark: SparkSession, after: int, number: int = 20_000) -> DataFrame:
    """The outbox as a source relation: the next matches after a cursor, which is their tick."""
    rows = kept.matches_after(store, after, number)
    columns = "tick bigint, subscription bigint, document string, version bigint, score double, day bigint"
    return spark.createDataFrame(rows, columns)


@dataclass(slots=True)
class _Taken:
    """What Spark found in a batch."""

    upto: dict[str, int] = field(default_factory=dict)
    tables: dict[int, pa.Table] = field(default_factory=dict)
    groups: dict[int, list[tuple[Key, Part]]] = field(default_factory=dict)
    pairs: dict[int, list[Row]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    rows: dict[str, pa.Table] = field(default_factory=dict)
    """Events that later ones may be joined with."""


class SparkViews:
    """A set of views that lives in a store and takes batches of events as tables."""

    def __init__(self, store: Store, name: str, plan: Plan, spark: SparkSession, *, ticks_differ: bool = False) -> None:
        """ticks_differ: no batch holds an event twice (a log numbers its events): then nobody looks for repeats."""
        self.name, self.plan = name, plan
        self._store, self._spark = store, spark
        self._ticks_differ = ticks_differ
        self._numbers = {node: at for at, node in enumerate(plan.nodes())}
        self._parts_kept: Counter[int] = Counter()
        self._old: dict[str, pa.Table] = {}
        self._engine = self._restored()

    def _restored(self) -> PartialEngine:
        engine = PartialEngine(self.plan, is_native, is_joined)
        sources, groups, rows = kept.read(self._store, self.name)
        found = kept.read_parts(self._store, self.name)
        self._parts_kept = Counter(one.node for one in found)
        self._old = self._joined_events(engine, rows, found)
        pairs = [
            (number, self._rows(join, self._all_pairs(join, {}))) for number, join in engine.joined.items()
            if number in engine.needs_pairs
        ]  # fmt: skip
        engine.restore(Kept(
            {one.name: None if one.closed else one.tick for one in sources if one.closed or one.tick is not None},
            [(one.node, one.key, one.tallies) for one in groups],
            [(one.node, parts.read(one.data)) for one in found if one.node in engine.tables],
            pairs,
            [Event(*one) for one in rows if one.source in engine.needs_rows],
        ))  # fmt: skip
        return engine

    def _joined_events(
        self, engine: PartialEngine, rows: Sequence[kept.Row], found: Sequence[kept.Part]
    ) -> dict[str, pa.Table]:
        """The events that later ones may be joined with: kept as rows where the engine reads them, too, else as
        tables."""
        made: dict[str, pa.Table] = {}
        for name in {base.name for join in engine.joined.values() for base in _sources(join)}:
            relation = self.plan.relations[name]
            own = [one.cells for one in rows if one.source == name]
            tables = [parts.read(one.data) for one in found if one.node == self._numbers[relation]]
            columns = list(zip(*own, strict=True)) or [()] * len(relation.columns)
            empty = parts.table(relation.columns, columns)
            made[name] = pa.concat_tables([empty, *(table.cast(empty.schema) for table in tables)]).combine_chunks()
        return made

    def rows(self, view: str) -> list[dict[str, Any]]:
        """The rows of a view that are there, in their last state."""
        return [change.row for change in self._engine.engine.state() if change.view == view and change.row is not None]

    def state(self) -> list[Change]:
        """Every row of every view."""
        return list(self._engine.engine.state())

    def run_rows(
        self,
        number: int,
        batch: Mapping[str, Sequence[Cells]],
        closed: tuple[str, ...] = (),
        upto: Mapping[str, int] | None = None,
    ) -> Sequence[Change]:
        """The same for events that the driver has."""
        tables = {}
        for name, cells in batch.items():
            relation = self.plan.relations[name]
            table = parts.table(relation.columns, list(zip(*cells, strict=True)))
            tables[name] = self._spark.createDataFrame(table, event_schema(relation))
        return self.run(number, tables, closed, upto)

    def run(
        self,
        number: int,
        batch: Mapping[str, DataFrame],
        closed: tuple[str, ...] = (),
        upto: Mapping[str, int] | None = None,
    ) -> Sequence[Change]:
        """Takes a batch: for each source its events, whose ticks follow those of earlier batches; earlier ones and
        repeats are passed over. Sources are also known `upto` these ticks, and all of them where they are closed. Gives
        the rows that look different now; none if the batch is in already."""
        done = kept.last_batch(self._store, self.name)
        if done is not None and number <= done:
            return []
        taken, joined = _Taken(), dict[str, DataFrame]()
        with ExitStack() as held:
            for relation, table in batch.items():
                fresh = self._fresh(relation, table)
                if relation in self._old:
                    fresh = joined[relation] = held.enter_context(_persisted(fresh))
                self._take(relation, fresh, taken)
            for at, join in self._engine.joined.items():
                if any(base.name in taken.upto for base in _sources(join)):
                    self._take_pairs(at, join, joined, taken)
            for relation, fresh in joined.items():
                if relation not in self._engine.needs_rows and relation in taken.upto:
                    taken.rows[relation] = fresh.toArrow()
        for relation, tick in (upto or {}).items():
            taken.upto[relation] = max(tick, taken.upto.get(relation, tick))
        return self._merge(number, taken, closed)

    def _fresh(self, relation: str, table: DataFrame) -> DataFrame:
        names = [one.name for one in self.plan.relations[relation].columns]
        last, tick = self._engine.last(relation), F.col("tick")
        chosen = table if table.columns == names else table.select(*names)  # each step costs Spark some milliseconds
        chosen = chosen.where(tick.isNotNull() if last is None else tick > last)
        return chosen if self._ticks_differ else chosen.dropDuplicates(["tick"])

    def _readers(self, base: Relation | Join) -> list[tuple[int, Group]]:
        return [(at, node) for at, node in self._engine.tallied.items() if base_of(node.input) == base]

    def _take(self, relation: str, fresh: DataFrame, taken: _Taken) -> None:
        """The jobs of one source. A source that one group reads is read once; else it is held for all of them."""
        readers = self._readers(self.plan.relations[relation])
        is_read_once = len(readers) == 1 and relation not in self._engine.needs_rows and relation not in self._old
        if is_read_once and readers[0][0] in self._engine.tables and selects_nothing(readers[0][1].input):
            at, node = readers[0]
            found = partial_groups(node, fresh, F.max("tick").alias("tick")).toArrow()
            if found.num_rows:
                taken.upto[relation] = int(arrow_compute.max(found.column("tick")).as_py())
                taken.tables[at] = found.drop_columns(["tick"])
            return
        with _persisted(fresh) if relation not in self._old else nullcontext():
            last = fresh.agg(F.max("tick")).first()
            if last is None or last[0] is None:
                return
            taken.upto[relation] = int(last[0])
            self._take_groups(readers, fresh, taken)
            if relation in self._engine.needs_rows:
                found, tick = fresh.orderBy("tick").toArrow(), self.plan.relations[relation].key[0]
                taken.events += [Event(relation, cells[tick], cells) for cells in _cells(found, self.plan, relation)]

    def _take_groups(self, readers: Sequence[tuple[int, Group]], rows: DataFrame, taken: _Taken) -> None:
        for at, node in readers:
            found = partial_groups(node, rows).toArrow()
            if at in self._engine.tables:
                taken.tables[at] = found
            else:
                taken.groups[at] = _parts(node, found)

    def _take_pairs(self, at: int, join: Join, fresh: Mapping[str, DataFrame], taken: _Taken) -> None:
        """The jobs of one join: groups of the new pairs, and the pairs themselves where the engine reads them."""
        with _persisted(self._all_pairs(join, fresh)) as pairs:
            self._take_groups(self._readers(join), pairs, taken)
            if at in self._engine.needs_pairs:
                taken.pairs[at] = self._rows(join, pairs)

    def _all_pairs(self, join: Join, fresh: Mapping[str, DataFrame]) -> DataFrame:
        """The pairs in which an event is new; if none is, all of them."""
        left, right = (base.name for base in _sources(join))
        old = {name: self._spark.createDataFrame(self._old[name], event_schema(self.plan.relations[name]))
               for name in {left, right}}  # fmt: skip
        if not fresh:
            return pairs_of(join, old[left], old[right])
        found = []
        if left in fresh:
            every = old[right].unionByName(fresh[right]) if right in fresh else old[right]
            found.append(pairs_of(join, fresh[left], every))
        if right in fresh:
            found.append(pairs_of(join, old[left], fresh[right]))
        return reduce(DataFrame.union, found)

    def _rows(self, join: Join, pairs: DataFrame) -> list[Row]:
        found = pairs.toArrow()
        made = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        return [Row(tuple([cells[place] for place in join.key]), cells, True) for cells in made]

    def _merge(self, number: int, taken: _Taken, closed: tuple[str, ...]) -> Sequence[Change]:
        """Memory first, then the store; if the store refuses, memory is read from it again."""
        told = self._engine.step(taken.upto, taken.groups, taken.events, taken.tables, taken.pairs, closed=closed)
        self._remember(taken)
        sources = [
            kept.Source(name, None if history.closed else history.known.last(), history.closed)
            for name, history in self._engine.engine.histories.items()
        ]
        groups = [kept.Group(*one) for one in self._engine.news()]
        rows = [kept.Row(event.relation, event.tick, event.cells) for event in taken.events]
        added = [self._kept_part(node, table, self._engine.tables[node].whole) for node, table in taken.tables.items()]
        for relation, table in taken.rows.items():
            node = self._numbers[self.plan.relations[relation]]
            added.append(self._kept_part(node, table, lambda name=relation: self._old[name]))  # type: ignore[misc]
        try:
            is_new = kept.write(self._store, self.name, number, sources=sources, changed=groups, rows=rows, added=added)
        except Exception:
            self._engine = self._restored()
            raise
        if not is_new:
            self._engine = self._restored()
            return []
        return told

    def _remember(self, taken: _Taken) -> None:
        """Events that later ones may be joined with."""
        for relation, old in self._old.items():
            columns = self.plan.relations[relation].columns
            rows = [event.cells for event in taken.events if event.relation == relation]
            new = taken.rows.get(relation)
            if rows:
                new = parts.table(columns, list(zip(*rows, strict=True)))
            if new is not None:
                new = new.select(old.column_names).cast(old.schema)
                self._old[relation] = pa.concat_tables([old, new]).combine_chunks()

    def _kept_part(self, node: int, table: pa.Table, whole: Callable[[], pa.Table]) -> kept.Part:
        """The part as it came, or, now and then, all of them as one."""
        self._parts_kept[node] += 1
        if self._parts_kept[node] < PARTS_MAX:
            return kept.Part(node, parts.written(table))
        self._parts_kept[node] = 1
        return kept.Part(node, parts.written(whole()), is_whole=True)


def _sources(join: Join) -> list[Relation]:
    """What is on its left, and on its right."""
    return [base for base in map(base_of, join.inputs) if isinstance(base, Relation)]


@contextmanager
def _persisted(table: DataFrame) -> Iterator[DataFrame]:
    """Held while several jobs read it."""
    table.persist()
    try:
        yield table
    finally:
        table.unpersist()


def _cells(found: pa.Table, plan: Plan, relation: str) -> list[tuple[Any, ...]]:
    names = [one.name for one in plan.relations[relation].columns]
    return list(zip(*(found.column(name).to_pylist() for name in names), strict=True))


def _parts(node: Group, found: pa.Table) -> list[tuple[Key, Part]]:
    """A table of groups, group by group."""
    width = len(node.keys)
    made = []
    for row in zip(*(column.to_pylist() for column in found.columns), strict=True):
        added = map(plain_part, node.aggregates, row[width:])
        made.append((row[:width], tuple(added)))
    return made
