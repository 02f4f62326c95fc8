"""`tocsin view run --spark`: the same views over the same events, computed by Spark batch after batch.

The driver reads the lines and refuses what contradicts a history; what is new goes to Spark as tables, and what comes
back is printed as ever. The state lies in a folder that is gone afterwards.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tocsin.cli.console import waiting
from tocsin.errors import EventError
from tocsin.store import Store
from tocsin.store import views as kept
from tocsin.views.events import Closed, Event, Item
from tocsin.views.history import History
from tocsin.views.plan import Plan
from tocsin.views.ticks import FIRST_TICK
from tocsin.views.told import Change

Numbered = tuple[int, Item]
"""The number of a line, and what it says."""
Refuse = Callable[[int, EventError], None]


def changes(
    given: argparse.Namespace, plan: Plan, batches: Iterable[Sequence[Numbered]], refuse: Refuse
) -> Iterator[Sequence[Change]]:
    """What each batch changes; after the last one, if only the last state is asked for, that."""
    from tocsin.pipeline.session import SparkSettings, running  # Spark takes a second to import
    from tocsin.pipeline.views import SparkViews

    histories = {name: History(name) for name in plan.relations}
    with (
        TemporaryDirectory(prefix="tocsin-") as folder,
        running(SparkSettings(master=given.spark), waiting("starting Spark …")) as spark,
    ):
        store = Store(Path(folder))
        kept.create(store)
        views = SparkViews(store, "run", plan, spark, ticks_differ=True)
        for number, batch in enumerate(batches):
            rows, closed = _taken(histories, batch, refuse)
            silent = {
                name: upto for name, one in histories.items()
                if not one.closed and (upto := one.known.horizon()) >= FIRST_TICK
            }  # fmt: skip
            found = views.run_rows(number, rows, closed, silent)
            if not given.final:
                yield found
        if given.final:
            yield views.state()
        store.close()


def _taken(
    histories: dict[str, History], batch: Sequence[Numbered], refuse: Refuse
) -> tuple[dict[str, list[tuple[Any, ...]]], tuple[str, ...]]:
    """The events that are new, for each relation, and the relations that end."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    closed: list[str] = []
    for number, item in batch:
        try:
            is_news = histories[item.relation].take(item)
        except EventError as error:
            refuse(number, error)
            continue
        if is_news and isinstance(item, Event):
            rows.setdefault(item.relation, []).append(item.cells)
        if is_news and isinstance(item, Closed):
            closed.append(item.relation)
    return rows, tuple(closed)
