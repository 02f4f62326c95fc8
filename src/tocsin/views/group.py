"""GROUP BY: one row for each value of the keys, evolving with its members (relational subscriptions §2.4, §3.2).

The state kept accounts not only for the results but for the input that they reflect: rows of a history are remembered
as the ranges of ticks that were counted, so that a retransmission is ignored; other rows by their keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tocsin.views.aggregate import Member, Tally, aggregate, loosely, sort_key, tally
from tocsin.views.best import _Falling
from tocsin.views.expression import Evaluator, Kind, evaluator
from tocsin.views.plan import Aggregate, Group, adds_one_row_per_tick, tick_keys
from tocsin.views.relation import Advance, Cells, Key, Knowledge, Row, Step, key_function
from tocsin.views.ticks import Ticks
from tocsin.views.value import UNKNOWN, SoFar, Value, both, now_of
from tocsin.views.window import Closed, Windows


class Counted:
    """Which rows of a history were counted already."""

    def __init__(self, group: Group) -> None:
        self._sources = tick_keys(group.input)
        self._ticks: dict[str, Ticks] = {}
        self._keys: set[Key] = set()

    def add(self, key: Key) -> bool:
        """Counts a row; False if it was counted before."""
        if self._sources is not None:
            ticks = self._ticks.get(self._sources[key[:-1]])
            if ticks is not None and key[-1] in ticks:
                return False
        if key in self._keys:
            return False
        self._keys.add(key)
        return True

    def advance(self, advance: Advance) -> None:
        """Whatever lies in ticks that are known by now was counted: ranges take less memory than rows."""
        if self._sources is None:
            return
        for source in set(self._sources.values()):
            ticks = self._ticks.setdefault(source, Ticks())
            for first, last in advance.get(source, ()):
                ticks.add(first, last)
        early = [key for key in self._keys if key[-1] not in self._ticks[self._sources[key[:-1]]]]
        self._keys = set(early)  # rows may come before it is known that their tick is complete


class _Argument:
    """How one aggregate reads a row."""

    def __init__(self, node: Aggregate, group: Group) -> None:
        self.node = node
        keys = tick_keys(group.input)
        sources = [prefix[0] for prefix in keys or () if prefix]
        self._by_tick = keys is not None and node.order == group.input.columns[group.input.key[-1]]
        self.rank = {source: rank for rank, source in enumerate(sources)}
        self._values: list[Evaluator] = [evaluator(argument) for argument in node.arguments]
        self._order = None if node.order is None else evaluator(node.order)
        self.evolves = any(argument.kind is not Kind.FINAL for argument in node.arguments)
        self.loose = self.evolves and node.function in ("latest", "collect")

    def read(self, row: Row) -> tuple[Cells, tuple[int, Any]]:
        """The arguments, and where the row stands in order; null ticks stand nowhere. Where rows may share a place,
        the one with the smaller key counts (the first event, as SQL has it), whichever came first."""
        values = tuple([value(row.cells) for value in self._values])
        if self._order is None:
            return values, (0, 0)
        tick: Any = self._order(row.cells)
        if tick is None:
            return (None,), (0, 0)
        if not self._by_tick:
            return values, (tick, _Falling(sort_key(row.key)))
        return values, (tick, self.rank.get(row.key[0], 0) if row.key and isinstance(row.key[0], str) else 0)


class GroupStep:
    """Groups of any relation. Where the input is a history each row is tallied once; else members are remembered."""

    columnar = False

    def __init__(self, node: Group, inputs: Sequence[Step], knowledge: Knowledge) -> None:
        self._node, self._input = node, inputs[0]
        self._key_of = key_function([expression for _, expression in node.keys])
        self._arguments = [_Argument(part, node) for part in node.aggregates]
        self._windows = Windows(node.origins, knowledge, watched=any(a.function == "count" for a in node.aggregates))
        self._one_row_per_tick = adds_one_row_per_tick(node.input)
        self._tallies: dict[Key, list[Tally]] = {}
        self._counted = Counted(node)
        self._members: dict[Key, dict[Key, tuple[Value, list[tuple[Cells, tuple[int, Any]]]]]] = {}
        self._place: dict[Key, Key] = {}
        self._unsettled: set[Key] = set()
        self._told: dict[Key, Row] = {}
        self._closed = Closed(node.origins, knowledge)
        self._was_quiet = True
        if node.whole:
            self._open(())

    def is_quiet(self) -> bool:
        """Not while a member may move to another group."""
        return not self._unsettled and self._input.is_quiet()

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """Tallies, then looks again at the groups that changed or whose ticks became known."""
        dirty: dict[Key, None] = {}
        take = self._tally if self._node.input.history else self._place_member
        for row in increments[0]:
            take(row, dirty)
        self._counted.advance(advance)
        told = self._look_again(dirty, advance)
        if self._was_quiet and not self._node.whole:
            self._forget(dirty)
        return told

    def size(self) -> int:
        """How many groups and members are held."""
        return len(self._told) + len(self._place)

    def _forget(self, looked: Iterable[Key]) -> None:
        """Groups that are final, and for which no tick is unknown: what still comes for them comes again."""
        self._closed.advance()
        for key in looked:
            if not self._windows.is_open(key) and self._told[key].is_final():
                self._tallies.pop(key, None)
                for member in self._members.pop(key, ()):
                    del self._place[member]
                del self._told[key]

    def _look_again(self, dirty: dict[Key, None], advance: Advance) -> list[Row]:
        dirty.update(dict.fromkeys(self._windows.touched(advance)))
        quiet = self.is_quiet()
        if quiet and not self._was_quiet:
            dirty.update((key, None) for key, row in self._told.items() if not row.is_final())
        self._was_quiet = quiet
        if self._node.whole and () not in self._told:
            dirty[()] = None
        return self._tell(dirty)

    def _open(self, key: Key) -> None:
        if self._node.input.history:
            self._tallies[key] = [tally(a.node.function, a.node.names) for a in self._arguments]
        else:
            self._members[key] = {}
        self._windows.register(key, key)

    def _tally(self, row: Row, dirty: dict[Key, None]) -> None:
        if not self._counted.add(row.key):
            return
        key, _ = self._key_of(row.cells)
        if key not in self._tallies:
            self._open(key)
        for argument, counted in zip(self._arguments, self._tallies[key], strict=True):
            values, order = argument.read(row)
            counted.add(values, order, row.key)
        dirty[key] = None

    def _place_member(self, row: Row, dirty: dict[Key, None]) -> None:
        key, settled = self._key_of(row.cells)
        before = self._place.pop(row.key, None)
        self._unsettled.discard(row.key)
        if before is not None:
            dirty[before] = None
            if before != key or row.present is False:
                del self._members[before][row.key]
        if row.present is False or (before is None and settled and self._is_over(key)):
            return
        if key not in self._members:
            self._open(key)
        if not settled:
            self._unsettled.add(row.key)
        present = row.present if settled else both(row.present, SoFar(True))
        self._place[row.key] = key
        self._members[key][row.key] = present, [argument.read(row) for argument in self._arguments]
        dirty[key] = None

    def _is_over(self, key: Key) -> bool:
        return key not in self._members and self._closed.covers(key)

    def _more(self, key: Key) -> int | None:
        """How many rows may still come to a group; None if there is no end to them."""
        if not self._was_quiet:
            return None
        missing = self._windows.unknown(key)
        return missing if self._one_row_per_tick or missing == 0 else None

    def _tell(self, dirty: dict[Key, None]) -> list[Row]:
        told = []
        for key in dirty:
            row = self._row(key)
            if row != self._told.get(key):
                self._told[key] = row
                told.append(row)
        return told

    def _row(self, key: Key) -> Row:
        more = self._more(key)
        if self._node.input.history:
            values = [counted.result(more) for counted in self._tallies[key]]
            return Row(key, (*key, *values), True)
        members = self._members[key]
        values = [self._aggregate(at, members, more) for at in range(len(self._arguments))]
        return Row(key, (*key, *values), self._presence(members, more))

    def _aggregate(self, at: int, members: dict[Key, Any], more: int | None) -> Value:
        argument = self._arguments[at]
        rows = [Member(present, read[at][0], read[at][1], key) for key, (present, read) in members.items()]
        value = aggregate(argument.node.function, rows, more, argument.node.names)
        if value is UNKNOWN and (self._node.loose or argument.evolves):
            return SoFar(None)  # something may have been known before
        return loosely(value) if self._node.loose or argument.loose else value

    def _presence(self, members: dict[Key, Any], more: int | None) -> Value:
        if self._node.whole:
            return True
        states = [present for present, _ in members.values()]
        if any(present is True for present in states):
            return True
        if not states and more == 0:
            return False
        return SoFar(any(now_of(present) is True for present in states))
