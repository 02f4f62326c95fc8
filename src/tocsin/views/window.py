"""Which ticks can still change a row? The key often tells (relational subscriptions §2.4: "we know from the key").

A row of `GROUP BY tick / 3600` depends on the ticks of one hour only; when these are all known, the row is final, and
until then as many rows may come as ticks are unknown. A view inherits such limits from its inputs: an Origin says, for
one source, how the tick of an event is tied to the cells of the rows that it contributes to. A limit that cannot be
expressed is dropped: windows grow wider then, and values become final later, never wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from tocsin.views.expression import (
    COMPARISONS,
    FLIPPED,
    TICK,
    Call,
    Column,
    Evaluator,
    Expression,
    Kind,
    Literal,
    Type,
    columns_of,
    conjuncts,
    direction,
    evaluator,
    shifted,
    substitute,
)
from tocsin.views.ticks import FIRST_TICK, LAST_TICK, Range, Ticks
from tocsin.views.value import EVOLVING, Value

NOTHING = Literal(None, Type.NULL)  # a column that an input of a merge lacks
REMEMBERED = 10_000  # solved limits; rows of one hour share theirs


@dataclass(frozen=True, slots=True)
class Limit:
    """function(tick) comparison reference(row), where the function never turns."""

    function: Expression
    comparison: str
    reference: Expression


@dataclass(frozen=True, slots=True)
class Origin:
    """One source of a relation, and how its ticks are tied to the relation's rows."""

    source: str
    limits: tuple[Limit, ...]


def of_source(name: str) -> tuple[Origin, ...]:
    """The row at a tick depends on that tick."""
    return (Origin(name, (Limit(TICK, "=", TICK),)),)


def move(origins: Iterable[Origin], by: int) -> tuple[Origin, ...]:
    """The same where the columns stand further right."""
    return tuple(
        Origin(o.source, tuple(Limit(x.function, x.comparison, shifted(x.reference, by)) for x in o.limits))
        for o in origins
    )


def equality(left: Expression, right: Expression) -> Call:
    """left = right, as a condition."""
    return Call("=", (left, right), Type.BOOLEAN, Kind.FINAL if left.kind is right.kind is Kind.FINAL else Kind.SO_FAR)


def refine(origins: Iterable[Origin], condition: Expression) -> tuple[Origin, ...]:
    """What a condition on the rows adds: `tick >= 100`, `goals.tick <= moments.tick`."""
    tests = [part for part in conjuncts(condition) if isinstance(part, Call) and part.operation in COMPARISONS]
    return tuple(Origin(o.source, _unique([*o.limits, *_implied(o.limits, tests)])) for o in origins)


def _implied(limits: Sequence[Limit], tests: Sequence[Call]) -> list[Limit]:
    tied = [(limit.reference, limit.function) for limit in limits if limit.comparison == "="]
    found = []
    for test in tests:
        left, right = test.arguments
        for this, other, comparison in ((left, right, test.operation), (right, left, FLIPPED[test.operation])):
            if other.kind is not Kind.FINAL:
                continue
            for reference, function in tied:
                composed = _compose(this, reference, function)
                if composed is not None:
                    found.append(Limit(composed, comparison, other))
    return found


def _compose(outer: Expression, column: Expression, inner: Expression) -> Expression | None:
    """outer(inner(tick)), if outer is a function of that column only and never turns."""
    if not isinstance(column, Column) or {c.index for c in columns_of(outer)} != {column.index}:
        return None
    return substitute(outer, {column.index: inner}) if direction(outer) else None


def regroup(origins: Iterable[Origin], outputs: Sequence[Expression]) -> tuple[Origin, ...]:
    """The limits in terms of other columns, which are computed from the present ones."""
    return tuple(
        Origin(o.source, _unique(new for limit in o.limits for new in _renamed(limit, outputs))) for o in origins
    )


def _renamed(limit: Limit, outputs: Sequence[Expression]) -> Iterable[Limit]:
    reference = limit.reference
    read = {column.index for column in columns_of(reference)}
    if not read:
        yield limit
        return
    places = {output.index: Column(at) for at, output in enumerate(outputs) if isinstance(output, Column)}
    if read <= places.keys():
        yield Limit(limit.function, limit.comparison, substitute(reference, dict(places)))
    if not isinstance(reference, Column):
        return
    for at, output in enumerate(outputs):
        if isinstance(output, Call) and output.kind is Kind.FINAL:
            composed = _compose(output, reference, limit.function)
            if composed is not None:
                comparison = limit.comparison.replace("<", "<=").replace(">", ">=").replace("==", "=")
                comparison = comparison if direction(output) > 0 else FLIPPED[comparison]
                yield Limit(composed, comparison, Column(at))


def _unique(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    return tuple(dict.fromkeys(limits))


def is_bounded(origins: Iterable[Origin]) -> bool:
    """Whether every row waits for ticks up to some last one only: then a count of them is bounded."""
    return all(any(_bounds_above(limit) for limit in origin.limits) for origin in origins)


def _bounds_above(limit: Limit) -> bool:
    rising = direction(limit.function) > 0
    return (limit.comparison if rising else FLIPPED[limit.comparison]) in ("=", "<", "<=")


# --- windows at run time ---------------------------------------------------------------------------------------------


class Solver:
    """The window of one source for a row."""

    def __init__(self, origin: Origin) -> None:
        self.source = origin.source
        self._limits = [(_Solved(limit), evaluator(limit.reference)) for limit in origin.limits]

    def window(self, cells: tuple[Value, ...]) -> Range:
        """The ticks that may contribute to a row with these cells."""
        first, last = FIRST_TICK, LAST_TICK
        for solved, reference in self._limits:
            low, high = solved.ticks(reference(cells))
            first, last = max(first, low), min(last, high)
        return first, last


class _Solved:
    """One limit, with the windows that it was solved for."""

    def __init__(self, limit: Limit) -> None:
        self._comparison = limit.comparison
        self._sign = direction(limit.function)
        self._identity = limit.function == TICK
        self._function: Evaluator = evaluator(limit.function)
        self._known: dict[Any, Range] = {}

    def ticks(self, bound: Value) -> Range:
        """The ticks for which the limit holds, in a range."""
        if not isinstance(bound, int | float) or bound.__class__ in EVOLVING:
            return FIRST_TICK, LAST_TICK
        if self._identity and self._comparison == "=" and isinstance(bound, int):
            return bound, bound
        found = self._known.get(bound)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[bound] = self._solve(bound)
        return found

    def _solve(self, bound: float) -> Range:
        comparison = self._comparison if self._sign > 0 else FLIPPED[self._comparison]
        first, last = FIRST_TICK, LAST_TICK
        if comparison in (">=", "="):
            first = self._first(bound, strict=False)
        elif comparison == ">":
            first = self._first(bound, strict=True)
        if comparison in ("<=", "="):
            last = self._first(bound, strict=True) - 1
        elif comparison == "<":
            last = self._first(bound, strict=False) - 1
        return first, last

    def _first(self, bound: float, strict: bool) -> int:
        """The first tick at which the function, turned so that it rises, reaches (strictly: passes) the bound."""
        low, high = FIRST_TICK, LAST_TICK + 1
        while low < high:
            middle = (low + high) // 2
            if self._reaches(self._function((middle,)), middle, bound, strict):
                high = middle
            else:
                low = middle + 1
        return low

    def _reaches(self, value: Any, tick: int, bound: float, strict: bool) -> bool:
        if value is None:  # a number too large to be written, at either end
            return tick > 0
        return bool(value > bound if self._sign > 0 else value < bound) or (not strict and value == bound)


Key = tuple[Any, ...]


class Windows:
    """The rows that still wait for ticks. Completion is found by the window's end, not by looking at every row."""

    def __init__(self, origins: Sequence[Origin], knowledge: Mapping[str, Ticks], watched: bool = False) -> None:
        self._solvers = [Solver(origin) for origin in origins]
        self._knowledge = knowledge
        self._watched = watched
        self._open: dict[Key, list[tuple[str, int, int]]] = {}
        self._ends: dict[str, list[int]] = {solver.source: [] for solver in self._solvers}
        self._waiting: dict[tuple[str, int], list[Key]] = {}

    def register(self, key: Key, cells: tuple[Value, ...]) -> None:
        """Lets a row wait for the ticks that its cells allow."""
        windows = []
        for solver in self._solvers:
            first, last = solver.window(cells)
            if not self._knowledge[solver.source].covers(first, last):
                windows.append((solver.source, first, last))
        if not windows:
            return
        self._open[key] = windows
        for source, _, last in windows:
            waiting = self._waiting.setdefault((source, last), [])
            if not waiting:
                heappush(self._ends[source], last)
            waiting.append(key)

    def unknown(self, key: Key) -> int | None:
        """How many ticks may still contribute; None if there is no end to them."""
        windows = self._open.get(key)
        if windows is None:
            return 0
        counts = [self._knowledge[source].missing_count(first, last) for source, first, last in windows]
        if None in counts:
            return None
        missing = sum(count for count in counts if count is not None)
        if missing == 0:
            del self._open[key]
        return missing

    def is_open(self, key: Key) -> bool:
        """Whether ticks may still change the row: exact after `touched`."""
        return key in self._open

    def is_complete(self, key: Key) -> bool:
        """Whether no tick can change the row any more."""
        windows = self._open.get(key)
        if windows is None:
            return True
        if all(self._knowledge[source].covers(first, last) for source, first, last in windows):
            del self._open[key]
            return True
        return False

    def touched(self, advance: Mapping[str, Sequence[Range]]) -> list[Key]:
        """The rows that new knowledge may complete, or, where counts are bounded, bound more tightly."""
        found: dict[Key, None] = {}
        for source in self._ends.keys() & advance.keys():
            self._pop(source, found)
        islands = any(
            last > self._knowledge[source].horizon() for source, ranges in advance.items() for _, last in ranges
        )
        if self._watched or islands:
            for key, windows in self._open.items():
                if any(_meet(first, last, advance.get(source, ())) for source, first, last in windows):
                    found[key] = None
        for key in found:
            self.is_complete(key)
        return list(found)

    def _pop(self, source: str, found: dict[Key, None]) -> None:
        ends, horizon = self._ends[source], self._knowledge[source].horizon()
        while ends and ends[0] <= horizon:
            for key in self._waiting.pop((source, heappop(ends))):
                if key in self._open:
                    found[key] = None


class Closed:
    """For which rows nothing can come any more: all their ticks were known while nothing was on its way.

    Whoever asks has told everything of such rows, and may forget them: what still comes for them comes again. It rests
    on the ticks that were known at the last such moment, so it takes no memory for each row.
    """

    def __init__(self, origins: Sequence[Origin], knowledge: Mapping[str, Ticks]) -> None:
        self._solvers = [Solver(origin) for origin in origins]
        self._knowledge = knowledge
        self._ticks: dict[str, Ticks] = {solver.source: Ticks() for solver in self._solvers}

    def advance(self) -> None:
        """Everything that the known ticks bring is here."""
        for source, ticks in self._ticks.items():
            for first, last in self._knowledge[source].ranges():
                ticks.add(first, last)

    def covers(self, cells: tuple[Value, ...]) -> bool:
        """Whether nothing can come for a row with these cells."""
        return all(self._ticks[solver.source].covers(*solver.window(cells)) for solver in self._solvers)


def _meet(first: int, last: int, ranges: Sequence[Range]) -> bool:
    return any(start <= last and first <= end for start, end in ranges)
