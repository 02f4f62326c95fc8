"""Aggregates over rows of which some may be unknown (relational subscriptions §2.4, Figure 2).

The functions are the definition: they look at all members of a group and at how many more rows may still come
(0: none; None: no end). The tallies do the same in constant time per row where members never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any, Protocol

from tocsin.views.value import (
    UNKNOWN,
    Growing,
    Latest,
    Number,
    Rows,
    Scalar,
    SoFar,
    Value,
    bounds,
    interval,
    is_final,
    never_null,
    now_of,
)

More = int | None


@dataclass(frozen=True, slots=True)
class Member:
    """A row of a group: is it there, the value of each argument, and where it stands in order."""

    present: Value
    values: tuple[Value, ...]
    order: tuple[int, Any] = (0, 0)
    key: tuple[Any, ...] = ()

    @property
    def value(self) -> Value:
        """The first argument."""
        return self.values[0]

    def settled(self) -> bool:
        """Whether it cannot change."""
        return self.present is False or (self.present is True and all(map(is_final, self.values)))


def _settled(members: Sequence[Member], more: More) -> bool:
    return more == 0 and all(member.settled() for member in members)


def _now(members: Iterable[Member]) -> list[Any]:
    found = (now_of(member.value) for member in members if now_of(member.present) is True)
    return [value for value in found if value is not None]


def count(members: Sequence[Member], more: More) -> Value:
    """How many are there and not null: the range of Figure 2(c) if the key bounds it, else at least."""
    now = len(_now(members))
    low = sum(member.present is True and never_null(member.value) for member in members)
    maybe = sum(member.present is not False and member.value is not None for member in members)
    return interval(now, low, None if more is None else maybe + more)


def largest(members: Sequence[Member], more: More) -> Value:
    """Figure 2(b): at least the largest that is certain; exactly it when no tick is unknown."""
    return _extreme(members, more, 1)


def smallest(members: Sequence[Member], more: More) -> Value:
    """The mirror image: at most."""
    return _extreme(members, more, -1)


def _extreme(members: Sequence[Member], more: More, sign: int) -> Value:
    pick = max if sign > 0 else min
    now = pick(_now(members), default=None)
    if _settled(members, more):
        return now
    certain = [bounds(member.value)[::sign][0] for member in members if member.present is True]
    inner = pick((end for end in certain if end is not None), default=None)
    possible = [member.value for member in members if member.present is not False and member.value is not None]
    ends = [bounds(value)[::sign][1] for value in possible]
    closed = more == 0 and inner is not None and None not in ends
    outer = pick(end for end in ends if end is not None) if closed else None
    return _known(interval(now, *(inner, outer)[::sign]))


def total(members: Sequence[Member], more: More) -> Value:
    """The sum: numbers may be negative, so what is known bounds nothing."""
    found = _now(members)
    now = exact_sum(found) if found else None
    return now if _settled(members, more) else _known(SoFar(now))


def latest(members: Sequence[Member], more: More) -> Value:
    """The value that stands last in order."""
    there = [m for m in members if now_of(m.present) is True and now_of(m.value) is not None]
    last = max(there, key=lambda member: member.order, default=None)
    if last is None:
        return None if _settled(members, more) else UNKNOWN
    if _settled(members, more):
        return last.value
    return Latest(now_of(last.value), *last.order)


def collect(members: Sequence[Member], more: More, columns: tuple[str, ...] = ("value",)) -> Value:
    """The rows themselves."""
    there = sorted((m for m in members if now_of(m.present) is True), key=lambda member: sort_key(member.key))
    rows = Rows(columns, tuple(tuple(map(now_of, member.values)) for member in there))
    return rows if _settled(members, more) else Growing(rows)


def _known(value: Value) -> Value:
    """Nothing known so far is unknown."""
    return UNKNOWN if isinstance(value, SoFar) and value.now is None else value


def loosely(value: Value) -> Value:
    """Of rows that may leave, or values without bounds: so far, until it is final."""
    if isinstance(value, SoFar) and value.low is None and value.high is None:
        return value
    return value if is_final(value) or value is UNKNOWN else SoFar(now_of(value))


def exact_sum(numbers: Sequence[Number]) -> Scalar:
    """Integers exactly; reals rounded once, so that the order of arrival does not show; null if out of range."""
    if all(isinstance(number, int) for number in numbers):
        return sum(numbers)
    try:
        return fsum(numbers)
    except OverflowError:
        return None


def sort_key(key: Iterable[Any]) -> tuple[Any, ...]:
    """Orders keys of any types: null, then numbers, then text, then others by how they are written."""
    return tuple(_rank(part) for part in key)


def _rank(part: Any) -> tuple[int, Any]:
    part = now_of(part)
    if part is None:
        return 0, 0
    if isinstance(part, int | float):
        return 1, part
    return (2, part) if isinstance(part, str) else (3, repr(part))


# --- tallies ---------------------------------------------------------------------------------------------------------


class Tally(Protocol):
    """An aggregate of rows that are final when they come."""

    def add(self, values: tuple[Any, ...], order: tuple[int, Any], key: tuple[Any, ...]) -> None:
        """Counts one row."""

    def result(self, more: More) -> Value:
        """What is certain if this many rows may still come."""


@dataclass(slots=True)
class CountTally:
    """Twin of count."""

    number: int = 0

    def add(self, values: tuple[Any, ...], order: tuple[int, Any], key: tuple[Any, ...]) -> None:
        self.number += values[0] is not None

    def result(self, more: More) -> Value:
        return interval(self.number, self.number, None if more is None else self.number + more)


@dataclass(slots=True)
class ExtremeTally:
    """Twin of largest (sign 1) and smallest (sign -1)."""

    sign: int
    best: Number | None = None

    def add(self, values: tuple[Any, ...], order: tuple[int, Any], key: tuple[Any, ...]) -> None:
        value = values[0]
        if value is not None and (self.best is None or (value - self.best) * self.sign > 0):
            self.best = value

    def result(self, more: More) -> Value:
        if more == 0:
            return self.best
        if self.best is None:
            return UNKNOWN
        return SoFar(self.best, self.best) if self.sign > 0 else SoFar(self.best, None, self.best)


@dataclass(slots=True)
class SumTally:
    """Twin of total: reals are kept as parts that add up exactly (Shewchuk), so no order of arrival shows."""

    whole: int | None = None
    parts: list[float] = field(default_factory=list)
    broken: bool = False

    def add(self, values: tuple[Any, ...], order: tuple[int, Any], key: tuple[Any, ...]) -> None:
        value = values[0]
        if isinstance(value, int):
            self.whole = value if self.whole is None else self.whole + value
        elif value is not None:
            self._add_real(value)

    def _add_real(self, value: float) -> None:
        parts = []
        for part in self.parts:
            large, small = (value, part) if abs(value) >= abs(part) else (part, value)
            value = large + small
            rest = small - (value - large)
            if rest:
                parts.append(rest)
        self.broken = self.broken or value in (float("inf"), float("-inf"))
        self.parts = [*parts, value]

    def result(self, more: More) -> Value:
        if not self.parts:
            now: Scalar = self.whole
        else:
            now = None if self.broken else exact_sum([*self.parts, float(self.whole or 0)])
        return now if more == 0 else _known(SoFar(now))


@dataclass(slots=True)
class LatestTally:
    """Twin of latest."""

    value: Scalar = None
    order: tuple[int, Any] | None = None

    def add(self, values: tuple[Any, ...], order: tuple[int, Any], key: tuple[Any, ...]) -> None:
        if values[0] is not None and (self.order is None or order > self.order):
            self.value, self.order = values[0], order

    def result(self, more: More) -> Value:
        if more == 0:
            return self.value
        return UNKNOWN if self.order is None else Latest(self.value, *self.order)


@dataclass(slots=True)
class CollectTally:
    """Twin of collect."""

    columns: tuple[str, ...]
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)

    def add(self, values: tuple[Any, ...], order: tuple[int, Any], key: tuple[Any, ...]) -> None:
        self.rows[key] = values

    def result(self, more: More) -> Value:
        held = Rows(self.columns, tuple(self.rows[key] for key in sorted(self.rows, key=sort_key)))
        return held if more == 0 else Growing(held)


FUNCTIONS = {"count": count, "max": largest, "min": smallest, "sum": total, "latest": latest}


def aggregate(name: str, members: Sequence[Member], more: More, columns: tuple[str, ...] = ()) -> Value:
    """The definition of any of the aggregates."""
    return collect(members, more, columns) if name == "collect" else FUNCTIONS[name](members, more)


def tally(name: str, columns: tuple[str, ...] = ()) -> Tally:
    """A fresh tally of any of the aggregates."""
    if name == "collect":
        return CollectTally(columns)
    if name in ("max", "min"):
        return ExtremeTally(1 if name == "max" else -1)
    made: dict[str, Callable[[], Tally]] = {"count": CountTally, "sum": SumTally, "latest": LatestTally}
    return made[name]()
