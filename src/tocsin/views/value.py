"""Values that are only ever refined: what is certain now, and what may still change.

A column of a view evolves from unknown towards a final value (relational subscriptions §1.2.3, §2.4). A value is a
*fact*, which stays true for ever, and `now`, which is what the value would be if nothing more happened:

    UNKNOWN                 the bottom: nothing is certain
    SoFar(now)              a sum or a predicate over what is known: no bound is certain
    at_least(80)            SoFar with a lower bound: the high of an hour that has not ended
    at_most(80)             SoFar with an upper bound
    between(1, 3)           both: a count whose key bounds it
    Latest(81, tick=17)     the last known value and its tick; a later tick may replace it
    Growing(rows)           a relation that only gains rows
    SILENT, DELETED         nothing happened at a tick; a row that left for good
    plain scalars           final: 80, "IBM", True, None (SQL's null), Rows

`may_evolve(v, w)` is the paper's ›. It orders facts; `now` is not a fact. Every function here is monotone: if v may
evolve to w then f(v) may evolve to f(w). Arithmetic on bounds is interval arithmetic, which has that property.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias


class Special(Enum):
    """Values that are no scalars (§2.1)."""

    UNKNOWN = "unknown"
    SILENT = "silent"
    DELETED = "deleted"

    def __repr__(self) -> str:
        return self.name


UNKNOWN, SILENT, DELETED = Special.UNKNOWN, Special.SILENT, Special.DELETED


@dataclass(frozen=True, slots=True)
class Rows:
    """A relation as the value of a column: no first normal form is required (§2.1)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def json(self) -> list[dict[str, Any]]:
        """As a list of objects."""
        return [dict(zip(self.columns, map(json_of, row), strict=True)) for row in self.rows]


Number: TypeAlias = int | float
Scalar: TypeAlias = int | float | str | bool | Rows | None


@dataclass(frozen=True, slots=True)
class SoFar:
    """Not final; low and high are bounds that will hold for ever, None where there is none."""

    now: Scalar
    low: Number | None = None
    high: Number | None = None


@dataclass(frozen=True, slots=True)
class Latest:
    """The paper's x@t: the value at the latest known tick. Rows of equal ticks are told apart by rank."""

    now: Scalar
    tick: int
    rank: Any = 0


@dataclass(frozen=True, slots=True)
class Growing:
    """A relation that gains rows and never loses one."""

    now: Rows


Value: TypeAlias = int | float | str | bool | Rows | SoFar | Latest | Growing | Special | None
EVOLVING = frozenset({SoFar, Latest, Growing, Special})
PLAIN = frozenset({int, float, str, bool, type(None)})


def at_least(low: Number, now: Number | None = None) -> SoFar:
    """The value is low or more."""
    return SoFar(low if now is None else now, low=low)


def at_most(high: Number, now: Number | None = None) -> SoFar:
    """The value is high or less."""
    return SoFar(high if now is None else now, high=high)


def between(low: Number, high: Number, now: Number | None = None) -> Value:
    """The value is in low..high; if they are equal it is known."""
    return interval(low if now is None else now, low, high)


def interval(now: Scalar, low: Number | None, high: Number | None) -> Value:
    """A value with these bounds; final if they meet."""
    if low is not None and low == high:
        return low
    return SoFar(now, low, high)


def refined(before: Value, value: Value) -> Value:
    """What is certain of a value of which both were said: bounds that were told still hold."""
    if not isinstance(before, SoFar) or not isinstance(value, SoFar):
        return value
    lows = [end for end in (before.low, value.low) if end is not None]
    highs = [end for end in (before.high, value.high) if end is not None]
    return interval(value.now, max(lows, default=None), min(highs, default=None))


def is_final(value: Value) -> bool:
    """Whether the value can no longer change."""
    return value.__class__ not in EVOLVING or value is SILENT or value is DELETED


def now_of(value: Value) -> Scalar:
    """What the value would be if nothing more happened: null where nothing is there."""
    if isinstance(value, SoFar | Latest | Growing):
        return value.now
    return None if isinstance(value, Special) else value


def bounds(value: Value) -> tuple[Number | None, Number | None]:
    """The numbers that the final value will lie between; a final number is its own bounds."""
    if isinstance(value, SoFar):
        return value.low, value.high
    if isinstance(value, int | float):
        return value, value
    return None, None


def never_null(value: Value) -> bool:
    """Whether null is excluded: it lies between no bounds."""
    if isinstance(value, SoFar):
        return value.low is not None or value.high is not None
    return value is not None and value.__class__ not in EVOLVING


def may_evolve(value: Value, later: Value) -> bool:
    """The paper's ›: may a column that shows `value` show `later` afterwards? Reflexive and transitive on facts."""
    if value is UNKNOWN:
        return True
    if later is UNKNOWN:
        return False
    if isinstance(value, SoFar):
        return _within(value, later)
    if isinstance(value, Latest):
        if isinstance(later, Latest):
            return value == later or (value.tick, value.rank) < (later.tick, later.rank)
        return is_final(later)
    if isinstance(value, Growing):
        held = later.now if isinstance(later, Growing) else later
        return isinstance(held, Rows) and set(value.now.rows) <= set(held.rows)
    return is_final(later) and value == later


def _within(value: SoFar, later: Value) -> bool:
    if value.low is None and value.high is None:
        return True
    low, high = bounds(later)
    if not never_null(later):
        return False
    above = value.low is None or (low is not None and value.low <= low)
    return above and (value.high is None or (high is not None and high <= value.high))


def json_of(value: Value) -> Any:
    """The value as the contract prints it: evolving values say so, final ones are plain JSON."""
    if value.__class__ in PLAIN:
        return value
    if isinstance(value, SoFar):  # the commonest first: this is most of what printing costs
        low, high = value.low, value.high
        if high is None:
            return {"so_far": json_of(value.now)} if low is None else {"at_least": low}
        return {"at_most": high} if low is None else {"between": [low, high]}
    if isinstance(value, Latest):
        return {"latest": json_of(value.now), "tick": value.tick}
    if isinstance(value, Rows):
        return value.json()
    if isinstance(value, Growing):
        return {"so_far": value.now.json()}
    return {"unknown": True} if value is UNKNOWN else None


# --- functions in general --------------------------------------------------------------------------------------------


def lift(function: Callable[..., Scalar], *values: Value) -> Value:
    """Any function of scalars: final on final values, otherwise only so far."""
    if all(value.__class__ not in EVOLVING for value in values):
        return function(*values)
    absent = _absent(values)
    return SoFar(function(*map(now_of, values))) if absent is None else absent


def _absent(values: tuple[Value, ...]) -> Special | None:
    """What an operation yields if an operand is absent: silence and deletion win, since they are final."""
    found = [value for value in values if isinstance(value, Special)]
    return next((value for value in found if value is not UNKNOWN), found[0] if found else None)


def _finite(number: Number) -> Number | None:
    """Numbers outside of what can be written are null, as x/0 is; there is one zero."""
    if isinstance(number, int):
        return number
    return number + 0.0 if isfinite(number) else None


# --- arithmetic ------------------------------------------------------------------------------------------------------


def add(left: Value, right: Value) -> Value:
    """Sum of two."""
    if left.__class__ not in EVOLVING and right.__class__ not in EVOLVING:
        return _add(left, right)
    (low, high), (low2, high2) = bounds(left), bounds(right)
    return _result(_add, left, right, _both(_add, low, low2), _both(_add, high, high2))


def subtract(left: Value, right: Value) -> Value:
    """Difference. Growing values on both sides bound nothing: it is only so far (§1.2.3)."""
    return add(left, negate(right))


def negate(value: Value) -> Value:
    """Lower bounds become upper ones."""
    if isinstance(value, SoFar):
        low, high = value.low, value.high
        return SoFar(_negate(value.now), None if high is None else -high, None if low is None else -low)
    return lift(_negate, value)


def multiply(left: Value, right: Value) -> Value:
    """Product; bounded where the signs are known."""
    if left.__class__ not in EVOLVING and right.__class__ not in EVOLVING:
        return _multiply(left, right)
    a, b = bounds(left), bounds(right)
    if None not in a and None not in b:
        ends = [_multiply(x, y) for x in a for y in b]
        return _result(_multiply, left, right, *_ends(ends))
    for this, other in ((a, b), (b, a)):
        if this[0] is not None and this[0] == this[1] and this[0] != 0:  # a final factor
            ends = [_both(_multiply, this[0], end) for end in other]
            return _result(_multiply, left, right, *(ends if this[0] > 0 else reversed(ends)))
    if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
        return _result(_multiply, left, right, _both(_multiply, a[0], b[0]), _both(_multiply, a[1], b[1]))
    return lift(_multiply, left, right)


def divide_integers(left: Value, right: Value) -> Value:
    """Truncates toward zero; null if the divisor is 0."""
    return _divide(_divide_integers, left, right)


def divide(left: Value, right: Value) -> Value:
    """Null if the divisor is 0."""
    return _divide(_divide_reals, left, right)


def _divide(function: Callable[[Any, Any], Scalar], left: Value, right: Value) -> Value:
    if left.__class__ not in EVOLVING and right.__class__ not in EVOLVING:
        return function(left, right)
    a, b = bounds(left), bounds(right)
    if b[0] is None or b[1] is None or b[0] <= 0 <= b[1]:
        return lift(function, left, right)
    if None not in a:
        return _result(function, left, right, *_ends([function(x, y) for x in a for y in b]))
    if b[0] == b[1]:  # a final divisor
        ends = [_both(function, end, b[0]) for end in a]
        return _result(function, left, right, *(ends if b[0] > 0 else reversed(ends)))
    return lift(function, left, right)


def remainder(left: Value, right: Value) -> Value:
    """Has the sign of the dividend, as in SQL; null if the divisor is 0."""
    return lift(_remainder, left, right)


def _result(function: Callable[..., Any], left: Value, right: Value, low: Any, high: Any) -> Value:
    """Absent operands win; null absorbs everything; else what the bounds say."""
    absent = _absent((left, right))
    if absent is not None:
        return absent
    if left is None or right is None:
        return None
    return interval(function(now_of(left), now_of(right)), low, high)


def _both(function: Callable[[Any, Any], Any], left: Number | None, right: Number | None) -> Number | None:
    result: Number | None = None if left is None or right is None else function(left, right)
    return result


def _ends(found: list[Any]) -> tuple[Number | None, Number | None]:
    return (None, None) if None in found else (min(found), max(found))


def _add(left: Any, right: Any) -> Scalar:
    return None if left is None or right is None else _finite(left + right)


def _multiply(left: Any, right: Any) -> Scalar:
    return None if left is None or right is None else _finite(left * right)


def _negate(value: Any) -> Any:
    return None if value is None else 0 - value


def _divide_integers(left: Any, right: Any) -> Any:
    if left is None or right is None or right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _divide_reals(left: Any, right: Any) -> Any:
    try:
        return None if left is None or right is None or right == 0 else _finite(left / right)
    except OverflowError:  # integers that no float can hold
        return None


def _remainder(left: Any, right: Any) -> Any:
    if left is None or right is None or right == 0:
        return None
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


# --- comparison and logic --------------------------------------------------------------------------------------------


def less(left: Value, right: Value) -> Value:
    """Finally true or false as soon as the bounds decide, however the values go on (§1.2.3)."""
    (low, high), (low2, high2) = bounds(left), bounds(right)
    return _decide(lt, left, right, _test(lt, high, low2), _test(ge, low, high2))


def less_or_equal(left: Value, right: Value) -> Value:
    """See less."""
    (low, high), (low2, high2) = bounds(left), bounds(right)
    return _decide(le, left, right, _test(le, high, low2), _test(gt, low, high2))


def greater(left: Value, right: Value) -> Value:
    """See less."""
    return less(right, left)


def greater_or_equal(left: Value, right: Value) -> Value:
    """See less."""
    return less_or_equal(right, left)


def equal(left: Value, right: Value) -> Value:
    """Finally false as soon as the bounds exclude it."""
    (low, high), (low2, high2) = bounds(left), bounds(right)
    return _decide(eq, left, right, False, _test(lt, high, low2) or _test(gt, low, high2))


def different(left: Value, right: Value) -> Value:
    """Finally true as soon as the bounds exclude equality."""
    (low, high), (low2, high2) = bounds(left), bounds(right)
    return _decide(ne, left, right, _test(lt, high, low2) or _test(gt, low, high2), False)


def _test(test: Callable[[Any, Any], bool], left: Number | None, right: Number | None) -> bool:
    return left is not None and right is not None and test(left, right)


def _decide(test: Callable[[Any, Any], bool], left: Value, right: Value, true: bool, false: bool) -> Value:
    if left.__class__ not in EVOLVING and right.__class__ not in EVOLVING:
        return None if left is None or right is None else test(left, right)
    absent = _absent((left, right))
    if absent is not None:
        return absent
    if left is None or right is None:
        return None
    if true or false:
        return true
    a, b = now_of(left), now_of(right)
    return SoFar(None if a is None or b is None else test(a, b))


def both(left: Value, right: Value) -> Value:
    """AND with SQL's null: one final false decides."""
    if left is False or right is False:
        return False
    return lift(_and, left, right)


def either(left: Value, right: Value) -> Value:
    """OR with SQL's null: one final true decides."""
    if left is True or right is True:
        return True
    return lift(_or, left, right)


def negation(value: Value) -> Value:
    """NOT with SQL's null."""
    return lift(_not, value)


def is_null(value: Value) -> Value:
    """Final as soon as null is excluded."""
    return False if never_null(value) else lift(lambda scalar: scalar is None, value)


def truth(value: Value) -> Value:
    """Whether a condition lets a row through: null does not, and what is unknown does not yet."""
    if value.__class__ not in EVOLVING:
        return value is True
    if value is SILENT or value is DELETED:
        return False
    return SoFar(now_of(value) is True)


def _and(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: Any, right: Any) -> Any:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _not(value: Any) -> Any:
    return None if value is None else not value


# --- choice ----------------------------------------------------------------------------------------------------------


def first_known(*values: Value) -> Value:
    """COALESCE: the first that is not null; final as soon as the ones before it are."""
    for at, value in enumerate(values):
        if never_null(value):
            return value
        if value is not None:
            rest = (now_of(other) for other in values[at:])
            return SoFar(next((scalar for scalar in rest if scalar is not None), None))
    return None


def choose(*values: Value) -> Value:
    """CASE: condition, result, condition, result …, default."""
    for at in range(0, len(values) - 1, 2):
        condition = values[at]
        if condition is True:
            return values[at + 1]
        if condition.__class__ in EVOLVING:
            unknown = UNKNOWN in values[at + 1 :]  # it may be chosen later, and nothing comes before unknown
            return UNKNOWN if unknown else SoFar(now_of(choose(*map(now_of, values[at:]))))
    return values[-1]


def greatest(*values: Value) -> Value:
    """The greatest of the values that are not null."""
    return _extreme(max, *values)


def least(*values: Value) -> Value:
    """The least of the values that are not null."""
    return _extreme(min, *values)


def _extreme(pick: Callable[[Any], Any], *values: Value) -> Value:
    nows = [now for now in map(now_of, values) if now is not None]
    now = pick(nows) if nows else None
    if all(value.__class__ not in EVOLVING for value in values):
        return now
    if not all(never_null(value) for value in values):
        return SoFar(now)
    lows, highs = zip(*map(bounds, values), strict=True)
    least_low, most_high = [low for low in lows if low is not None], [high for high in highs if high is not None]
    if pick is max:
        return interval(now, max(least_low, default=None), max(most_high) if None not in highs else None)
    return interval(now, min(least_low) if None not in lows else None, min(most_high, default=None))
