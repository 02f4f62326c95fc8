"""Sets of ticks as ranges: memory grows with the number of gaps, not of ticks (relational subscriptions §3.1).

Ticks arrive almost in order, so nearly every addition extends the last range; a search starts there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

FIRST_TICK = -(1 << 63)
LAST_TICK = (1 << 63) - 1
ENDLESS = 1 << 62  # a set with this many ticks is as good as infinite

Range = tuple[int, int]
"""Its first and its last tick."""


class Ticks:
    """A growing set of ticks."""

    __slots__ = ("_first", "_last")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._first: list[int] = []
        self._last: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def add(self, first: int, last: int) -> list[Range]:
        """Adds the ticks first..last; says which of them are new."""
        if first > last:
            return []
        if not self._last or first > self._last[-1] + 1:
            self._first.append(first)
            self._last.append(last)
            return [(first, last)]
        if first > self._last[-1]:
            self._last[-1] = last
            return [(first, last)]
        new = self.missing(first, last)
        if new:
            low = bisect_left(self._last, first - 1)
            high = bisect_right(self._first, last + 1)
            if low < high:
                first, last = min(first, self._first[low]), max(last, self._last[high - 1])
            self._first[low:high] = [first]
            self._last[low:high] = [last]
        return new

    def __contains__(self, tick: int) -> bool:
        at = bisect_left(self._last, tick)
        return at < len(self._first) and self._first[at] <= tick

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ticks) and self._first == other._first and self._last == other._last

    __hash__ = None  # type: ignore[assignment]

    def __le__(self, other: Ticks) -> bool:
        return all(other.covers(first, last) for first, last in self.ranges())

    def __len__(self) -> int:
        """How many ranges it takes."""
        return len(self._first)

    def __repr__(self) -> str:
        return f"Ticks({self.ranges()})"

    def covers(self, first: int, last: int) -> bool:
        """Whether every tick of first..last is in the set."""
        if first > last:
            return True
        at = bisect_left(self._last, first)
        return at < len(self._first) and self._first[at] <= first and last <= self._last[at]

    def missing(self, first: int, last: int) -> list[Range]:
        """The ranges of first..last that are not in the set."""
        found = []
        at = bisect_left(self._last, first)
        while at < len(self._first) and self._first[at] <= last and first <= last:
            if first < self._first[at]:
                found.append((first, self._first[at] - 1))
            first = self._last[at] + 1
            at += 1
        if first <= last:
            found.append((first, last))
        return found

    def missing_count(self, first: int, last: int) -> int | None:
        """How many ticks of first..last are not in the set; None if there is no end to them."""
        count = sum(end - start + 1 for start, end in self.missing(first, last))
        return None if count >= ENDLESS else count

    def count(self) -> int:
        """How many ticks it holds."""
        return sum(last - first + 1 for first, last in self.ranges())

    def ranges(self) -> list[Range]:
        """The set as disjoint ranges in order, none adjacent to the next."""
        return list(zip(self._first, self._last, strict=True))

    def gaps(self) -> list[Range]:
        """What is missing between the ranges."""
        return [(last + 1, first - 1) for last, first in zip(self._last, self._first[1:], strict=False)]

    def last(self) -> int | None:
        """The highest tick."""
        return self._last[-1] if self._last else None

    def horizon(self, start: int = FIRST_TICK) -> int:
        """The doubt horizon (§3.1): every tick from start up to it is in the set; start - 1 if not even start is."""
        at = bisect_left(self._last, start)
        if at < len(self._first) and self._first[at] <= start:
            return self._last[at]
        return start - 1

    def copy(self) -> Ticks:
        """A set of its own."""
        twin = Ticks()
        twin._first, twin._last = self._first[:], self._last[:]
        return twin
