"""Deletion: EXCEPT and NOT EXISTS (relational subscriptions §1.2.3: rows of one relation that are not in another).

Both inputs only grow, and for each value that is compared it is decided once: deleted for good, when one deletion is
final; kept for good, when every tick that could bring one is known. What is final is told and forgotten: of all
deletions of a value one bit stays, as long as rows of that value may come; and when the ticks of both inputs are known
that could bring anything of the value, as when a window closes, nothing stays of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tocsin.views.plan import Without
from tocsin.views.relation import Advance, Key, Knowledge, Row, Side, Stateless, Step
from tocsin.views.value import SoFar, Value, both, negation, now_of
from tocsin.views.window import Closed, Windows


class WithoutStep(Stateless):
    """A row is there while none of the deletions equals it."""

    def __init__(self, node: Without, inputs: Sequence[Step], knowledge: Knowledge) -> None:
        super().__init__(inputs)
        self._rows, self._deletions = Side(node.on), Side(node.deletions_on)
        self._nulls_are_equal = node.nulls_are_equal
        self._values: dict[Key, bool | None] = {}  # those in play, and whether they are deleted: None, not decided
        self._windows = Windows(node.waits, knowledge)
        self._closing = Windows(node.closes, knowledge)
        self._closed = Closed(node.closes, knowledge)
        self._ripe: dict[Key, None] = {}  # nothing new can come for these values
        self._told: dict[Key, Row] = {}  # rows that may still change
        self._was_quiet = self._was_still = True

    def is_quiet(self) -> bool:
        """Rows come from the first input only."""
        return self._inputs[0].is_quiet()

    def size(self) -> int:
        """How many rows, deletions and values are held."""
        return len(self._rows.place) + len(self._deletions.place) + len(self._values)

    def step(self, increments: Sequence[Sequence[Row]], advance: Advance) -> list[Row]:
        """Looks again at every row whose deletions changed or became completely known."""
        changed: dict[Key, Row] = {}
        touched: dict[Key, None] = {}
        for deletion in increments[1]:
            self._delete(deletion, touched)
        touched.update(dict.fromkeys(self._windows.touched(advance)))
        quiet = self._inputs[1].is_quiet() and not self._deletions.unsettled
        if quiet and not self._was_quiet:
            touched.update(dict.fromkeys(self._rows.buckets))
        self._was_quiet = quiet
        for row in increments[0]:
            self._take(row, changed)
        for at in touched:
            for row in self._rows.buckets.get(at, {}).values():
                changed[row.key] = self._state(row, at)
        told = self._tell(changed, touched)
        self._close(touched, advance)
        return told

    def _take(self, row: Row, changed: dict[Key, Row]) -> None:
        at, settled = self._rows.key_of(row.cells)
        before = self._rows.remove(row.key)
        if row.present is False:
            changed[row.key] = row
        elif before is not None or not settled or not self._is_over(at):
            self._enter(at)
            self._rows.put(row, at, settled)
            changed[row.key] = self._state(row, at)

    def _delete(self, deletion: Row, touched: dict[Key, None]) -> None:
        before = self._deletions.remove(deletion.key)
        if before is not None:
            touched[before] = None
        if deletion.present is False:
            return
        at, settled = self._deletions.key_of(deletion.cells)
        if settled and (self._equals_nothing(at) or self._values.get(at) is not None):
            return
        if settled and before is None and self._is_over(at):
            return
        self._enter(at)
        touched[at] = None
        if settled and deletion.present is True:
            self._values[at] = True
            for key in self._deletions.buckets.get(at, {}).keys() - self._deletions.unsettled:
                self._deletions.remove(key)
        else:
            self._deletions.put(deletion, at, settled)

    def _equals_nothing(self, at: Key) -> bool:
        return None in at and not self._nulls_are_equal

    def _is_over(self, at: Key) -> bool:
        """Whether everything was said of a value: then this comes again."""
        return at not in self._values and self._closed.covers(at)

    def _enter(self, at: Key) -> None:
        if at in self._values or self._equals_nothing(at):
            return
        self._values[at] = None
        self._windows.register(at, at)
        self._closing.register(at, at)
        if not self._closing.is_open(at):
            self._ripe[at] = None

    def _state(self, row: Row, at: Key) -> Row:
        deleted = self._is_deleted(at)
        if row.key in self._rows.unsettled:
            deleted = SoFar(now_of(deleted))
        return row._replace(present=both(row.present, negation(deleted)))

    def _is_deleted(self, at: Key) -> Value:
        if self._equals_nothing(at):
            return False
        decided = self._values[at]
        if decided is not None:
            return decided
        found = self._deletions.buckets.get(at, {})
        if not found and self._was_quiet and self._windows.is_complete(at):
            self._values[at] = False
            return False
        return SoFar(any(row.is_shown() for row in found.values()))

    def _tell(self, changed: Mapping[Key, Row], touched: dict[Key, None]) -> list[Row]:
        """What is final is not held any longer; that a row is gone is told to those who have heard of it."""
        told = []
        for key, row in changed.items():
            before = self._told.get(key)
            if before != row and (before is not None or row.present is not False):
                told.append(row)
                self._told[key] = row
            if row.is_final():
                self._told.pop(key, None)
                at = self._rows.remove(key)
                if at is not None:
                    touched[at] = None
        return told

    def _close(self, touched: Iterable[Key], advance: Advance) -> None:
        """Forgets the values of which everything was told."""
        fresh = [at for at in self._closing.touched(advance) if not self._closing.is_open(at)]
        self._ripe.update(dict.fromkeys(fresh))
        still = self._was_quiet and self._inputs[0].is_quiet() and not self._rows.unsettled
        if still:
            self._closed.advance()
            for at in (*fresh, *touched) if self._was_still else list(self._ripe):
                if at in self._ripe and at not in self._rows.buckets and at not in self._deletions.buckets:
                    del self._values[at], self._ripe[at]
        self._was_still = still
