"""Groups that are tallied elsewhere, and pairs that are found elsewhere: equal to the engine that does it all."""

from __future__ import annotations

import random
from dataclasses import astuple
from typing import Any

import pyarrow as pa
import pytest

from tests.views.test_engine import RELATIONS, SQL, stream
from tocsin.views import parts
from tocsin.views.aggregate import tally
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder, Event
from tocsin.views.expression import evaluator
from tocsin.views.partial import Kept, PartialEngine, base_of, can_be_tallied, source_of
from tocsin.views.plan import Group, Join, Relation, Select
from tocsin.views.told import lines_of


def only_sources(node: Any) -> bool:
    return can_be_tallied(node) and isinstance(base_of(node.input), Relation)


def is_pair(node: Any) -> bool:
    return isinstance(node, Join) and node.history


def chain(node: Any, cells: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """An event through selections and projections; None if it does not get through."""
    if isinstance(node, Relation):
        return cells
    below = chain(node.input, cells)
    if below is None or isinstance(node, Select):
        return below if below is not None and evaluator(node.condition)(below) is True else None
    return tuple(evaluator(one)(below) for _, one in node.outputs)


def tallied(node: Group, events: list[Event]) -> dict[tuple[Any, ...], list[list[Any]]]:
    """What events add to groups, done in the simplest way."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for event in events:
        cells = chain(node.input, event.cells)
        if cells is None:
            continue
        key = tuple(evaluator(one)(cells) for _, one in node.keys)
        own = found.setdefault(key, [tally(one.function, one.names) for one in node.aggregates])
        for one, counted in zip(node.aggregates, own, strict=True):
            order = (0, 0) if one.order is None else (evaluator(one.order)(cells), 0)
            counted.add(tuple(evaluator(argument)(cells) for argument in one.arguments), order, (event.tick,))
    return {key: [list(astuple(one)) for one in own] for key, own in found.items()}


def plain(node: Group, values: list[list[Any]]) -> tuple[Any, ...]:
    """Tallies as the part of one group."""
    made: list[Any] = []
    for one, (first, *rest) in zip(node.aggregates, values, strict=True):
        if one.function == "sum":
            made.append([*([] if first is None else [first]), *rest[0]] or None)
        elif one.function == "latest":
            made.append(None if rest[0] is None else (first, rest[0][0]))
        else:
            made.append(first if one.function == "count" else rest[0])
    return tuple(made)


def table_of(node: Group, found: dict[tuple[Any, ...], list[list[Any]]]) -> pa.Table:
    kinds = [getattr(pa, parts.ARROW[one.type])() for _, one in node.keys]
    columns = list(zip(*found, strict=True)) or [()] * len(kinds)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    for at, aggregate in enumerate(node.aggregates):
        arrays.append(parts._tallied(aggregate, [own[at] for own in found.values()]))
    return parts.read(parts.written(pa.table(arrays, names=[str(at) for at in range(len(arrays))])))


def recorded(engine: Engine, plan: Any) -> dict[int, list[Any]]:
    """The pairs that the joins of an engine find."""
    found: dict[int, list[Any]] = {}
    for at, node in enumerate(plan.nodes()):
        if is_pair(node):
            found[at] = []

            def step(increments, advance, once=engine._steps[node].step, own=found[at]):
                made = once(increments, advance)
                own.extend(made)
                return made

            engine._steps[node].step = step  # type: ignore[method-assign]
    return found


def told(changes) -> list[str]:
    return sorted(lines_of(changes))


@pytest.mark.parametrize("seed", range(6))
def test_parts_and_pairs_from_elsewhere_give_what_the_engine_gives(seed):
    """Random cuts; now and then it is built anew from all parts, or from all of them as one."""
    plan = compile_views(SQL).plan
    chance = random.Random(seed)
    items = [Decoder(plan.relations).item(item) for item in stream(seed, length=40)]
    whole, views = Engine(plan), PartialEngine(plan, only_sources, is_pair)
    pairs = recorded(whole, plan)
    assert len(views.tables) >= 4
    assert views.pairs
    kept = Kept()
    every: dict[int, list[Any]] = {at: [] for at in pairs}
    seen: set[tuple[str, int]] = set()
    while items:
        number = chance.randint(1, 12)
        batch = [item for item in items[:number] if isinstance(item, Event)]  # batches of Spark hold nothing else
        items = items[number:]
        first = {(item.relation, item.tick): item for item in batch}
        fresh = [item for key, item in first.items() if key not in seen]
        seen |= first.keys()
        for own in pairs.values():
            own.clear()
        wanted = whole.step(fresh)
        upto = {item.relation: item.tick for item in fresh}
        tables, groups = {}, {}
        for at, node in views.tallied.items():
            source = source_of(node.input)
            assert source is not None
            added = tallied(node, [item for item in fresh if item.relation == source.name])
            if at in views.tables:
                tables[at] = table_of(node, added)
                kept.parts.append((at, tables[at]))
            else:
                groups[at] = [(key, plain(node, own)) for key, own in added.items()]
        events = [item for item in fresh if item.relation in views.needs_rows]
        new = {at: list(own) for at, own in pairs.items() if at in views.needs_pairs}
        assert told(views.step(upto, groups, events, tables, new)) == told(wanted)
        kept.known |= upto
        kept.events += events
        changed = {(at, key): own for at, key, own in [*kept.groups, *views.news()]}
        kept.groups = [(at, key, own) for (at, key), own in changed.items()]
        for at, own in new.items():
            every[at] += own
        if chance.random() < 0.3:
            if chance.random() < 0.5:
                kept.parts = [(at, parts.read(parts.written(step.whole()))) for at, step in views.tables.items()]
            kept.pairs = [(at, own) for at, own in every.items() if at in views.needs_pairs]
            views = PartialEngine(plan, only_sources, is_pair)
            views.restore(kept)
        assert told(views.engine.state()) == told(whole.state())


def test_groups_that_were_kept_one_by_one_are_read_as_a_part():
    """As stores of an earlier format have them."""
    sql = (
        RELATIONS
        + """CREATE VIEW g AS SELECT k, count(*) AS n, max(y) AS high, min(x) AS low, sum(x) AS total,
        latest(k) AS word, latest(y) AS now FROM r GROUP BY k;"""
    )
    plan = compile_views(sql).plan
    chance = random.Random(1)
    events = [
        Event("r", tick, (tick, chance.choice("ab"), chance.choice([None, 2**62, 3]), chance.choice([None, 0.5])))
        for tick in range(1, 30)
    ]  # fmt: skip
    whole, views = Engine(plan), PartialEngine(plan)
    whole.step(events)
    ((at, node),) = views.tallied.items()
    groups = [(at, key, own) for key, own in tallied(node, events).items()]
    views.restore(Kept({"r": 29}, groups))
    assert told(views.engine.state()) == told(whole.state())
    assert views.tables[at].whole().num_rows == 2
