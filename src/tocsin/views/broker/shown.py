"""What the subscribers of a view at a broker have been told.

Shown     rows in their last state; states may be skipped, and none is taken back (eventual correctness, §2.5)
InOrder   each row of a history once, in the order of ticks: guaranteed delivery, which is select and merge (§3)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tocsin.errors import ViewError
from tocsin.views.broker.messages import Storage
from tocsin.views.plan import Node, tick_keys
from tocsin.views.relation import Key, Row
from tocsin.views.ticks import FIRST_TICK, Ticks


class Shown:
    """The rows that subscribers see."""

    def __init__(self, view: str, node: Node, known: Mapping[str, Ticks], disk: Storage) -> None:
        self.view, self.node = view, node
        self._known, self._disk = known, disk
        self.rows: dict[Key, Row] = {}

    def take(self, rows: Iterable[Row]) -> list[Row]:
        """Those that look different from before."""
        told = []
        for row in rows:
            before = self.rows.get(row.key)
            if before == row or (before is None and not row.is_shown()):
                continue
            self.rows[row.key] = row
            told.append(row)
        return told

    def save(self) -> Any:
        """For a checkpoint."""
        return dict(self.rows)

    def load(self, saved: Any) -> None:
        """After a restart."""
        self.rows = dict(saved)


class InOrder(Shown):
    """Rows wait until nothing is unknown before them. How far it is, is on disk before anyone is told."""

    def __init__(self, view: str, node: Node, known: Mapping[str, Ticks], disk: Storage) -> None:
        super().__init__(view, node, known, disk)
        sources = tick_keys(node)
        if sources is None or not node.history:
            raise ViewError("only selections and merges of sources can be delivered in order", view)
        self._sources = sources
        cursor = disk.get(f"cursor {view}")
        self._cursor: dict[str, int] = dict.fromkeys(known, FIRST_TICK - 1) if cursor is None else dict(cursor)

    def take(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that may be delivered now: each source in the order of its ticks, and each row once."""
        for row in rows:
            if row.key[-1] > self._cursor[self._source(row)]:
                self.rows[row.key] = row
        horizon = {source: ticks.horizon() for source, ticks in self._known.items()}
        ready = [row for row in self.rows.values() if row.key[-1] <= horizon[self._source(row)]]
        ready.sort(key=lambda row: (row.key[-1], row.key[:-1]))
        for row in ready:
            del self.rows[row.key]
        moved = {source: max(tick, self._cursor[source]) for source, tick in horizon.items()}
        if moved != self._cursor:
            self._cursor = moved
            self._disk.put(f"cursor {self.view}", moved)
        return ready

    def load(self, saved: Any) -> None:
        """After a restart: what waited at the checkpoint may have been delivered since."""
        self.rows = {key: row for key, row in saved.items() if row.key[-1] > self._cursor[self._source(row)]}

    def _source(self, row: Row) -> str:
        return self._sources[row.key[:-1]]
