"""Typed expressions over the columns of a row.

Every expression has a type, and a kind that says how its value may evolve: the compiler derives both, as the paper's
does (relational subscriptions §1.2.3). Evaluation follows `value`, so an expression of evolving columns is monotone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from math import ceil, copysign, floor, isfinite
from typing import Any, TypeAlias

from tocsin.views import value as v
from tocsin.views.like import is_ilike, is_like
from tocsin.views.value import Scalar, Value


class Type(Enum):
    """What a column holds."""

    INTEGER = "BIGINT"
    REAL = "DOUBLE"
    TEXT = "TEXT"
    BOOLEAN = "BOOLEAN"
    RELATION = "RELATION"
    NULL = "NULL"

    @property
    def is_number(self) -> bool:
        """Null is any type."""
        return self in (Type.INTEGER, Type.REAL, Type.NULL)


class Kind(Enum):
    """How a column may evolve."""

    FINAL = "final"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    BETWEEN = "between"
    LATEST = "latest"
    SO_FAR = "so_far"

    @property
    def has_low(self) -> bool:
        """Whether a lower bound is certain."""
        return self in (Kind.FINAL, Kind.AT_LEAST, Kind.BETWEEN)

    @property
    def has_high(self) -> bool:
        """Whether an upper bound is certain."""
        return self in (Kind.FINAL, Kind.AT_MOST, Kind.BETWEEN)


def kind_with(low: bool, high: bool) -> Kind:
    """The kind of an evolving number with these bounds."""
    if low:
        return Kind.BETWEEN if high else Kind.AT_LEAST
    return Kind.AT_MOST if high else Kind.SO_FAR


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the input, by its place."""

    index: int
    type: Type = field(default=Type.INTEGER, compare=False)
    kind: Kind = field(default=Kind.FINAL, compare=False)
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.name or f"#{self.index}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Scalar
    type: Type

    @property
    def kind(self) -> Kind:
        """Constants do not evolve."""
        return Kind.FINAL

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """An operation on expressions."""

    operation: str
    arguments: tuple[Expression, ...]
    type: Type = field(compare=False)
    kind: Kind = field(compare=False)

    def __str__(self) -> str:
        if len(self.arguments) == 2 and not self.operation.isalpha():
            return f"({self.arguments[0]} {self.operation} {self.arguments[1]})"
        return f"{self.operation}({', '.join(map(str, self.arguments))})"


Expression: TypeAlias = Column | Literal | Call
Evaluator: TypeAlias = Callable[[tuple[Value, ...]], Value]

TICK = Column(0, Type.INTEGER, Kind.FINAL, "tick")


def _floor(number: Any) -> Any:
    """A whole real, if the number is one: so that floor(x) / 4 is no division of integers."""
    return float(floor(number)) if isinstance(number, float) else number


def _ceil(number: Any) -> Any:
    return float(ceil(number)) if isinstance(number, float) else number


def _round(number: Any, digits: int = 0) -> Any:
    """Halves away from zero, as SQL has it; what has fewer digits stays as it is."""
    if number is None or isinstance(number, int):
        return number
    scale = 10**digits
    scaled = abs(number) * scale
    if not isfinite(scaled):
        return number
    whole = floor(scaled)
    return copysign((whole + (scaled - whole >= 0.5)) / scale, number) + 0.0


def _is_grouped(number: Any) -> bool:
    """1_000 is a number in Python only."""
    return isinstance(number, str) and "_" in number


def _real(number: Any) -> Any:
    try:
        made = None if number is None or _is_grouped(number) else float(number)
    except (ValueError, OverflowError):
        return None
    return made if made is None or isfinite(made) else None


def _integer(number: Any) -> Any:
    try:
        return None if number is None or _is_grouped(number) else int(number)
    except ValueError:
        return None


def _text(scalar: Any) -> Any:
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    return None if scalar is None else str(scalar)


def _joined(left: Any, right: Any) -> Any:
    return None if left is None or right is None else f"{_text(left)}{_text(right)}"


def _on_present(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *scalars: None if None in scalars else function(*scalars)


def _part_of(text: str, start: int, length: int | None = None) -> str:
    """From a place, counted from 1 or, below 0, from the end."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else -1
    last = len(text) if length is None else first + length
    return text[max(first, 0) : max(last, 0)] if last > first else ""


def _lifted(function: Callable[..., Scalar]) -> Callable[..., Value]:
    return lambda *values: v.lift(function, *values)


def _rising(function: Callable[..., Any]) -> Callable[..., Value]:
    """A function that keeps order keeps bounds; what else it takes is constant."""

    def apply(value: Value, *constants: Any) -> Value:
        if isinstance(value, v.SoFar):
            now, low, high = (function(part, *constants) for part in (value.now, value.low, value.high))
            return v.interval(now, low, high)
        return v.lift(function, value, *constants)

    return apply


OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": v.add, "-": v.subtract, "*": v.multiply, "/": v.divide, "div": v.divide_integers, "%": v.remainder,
    "neg": v.negate, "<": v.less, "<=": v.less_or_equal, ">": v.greater, ">=": v.greater_or_equal, "=": v.equal,
    "<>": v.different, "and": v.both, "or": v.either, "not": v.negation, "isnull": v.is_null,
    "coalesce": v.first_known, "case": v.choose, "greatest": v.greatest, "least": v.least,
    "floor": _rising(_floor), "ceil": _rising(_ceil), "round": _rising(_round), "real": _rising(_real),
    "integer": _rising(_integer),
    "abs": _lifted(_on_present(abs)), "text": _lifted(_text), "||": _lifted(_joined),
    "lower": _lifted(_on_present(str.lower)), "upper": _lifted(_on_present(str.upper)),
    "length": _lifted(_on_present(len)), "trim": _lifted(_on_present(lambda text: text.strip(" "))),
    "substr": _lifted(_on_present(_part_of)), "like": _lifted(_on_present(is_like)),
    "ilike": _lifted(_on_present(is_ilike)),
}  # fmt: skip

COMPARISONS = frozenset({"<", "<=", ">", ">=", "="})
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def evaluator(expression: Expression) -> Evaluator:
    """A function from the cells of a row to the value of the expression."""
    if isinstance(expression, Column):
        index = expression.index
        return lambda cells: cells[index]
    if isinstance(expression, Literal):
        constant = expression.value
        return lambda cells: constant
    operation = OPERATIONS[expression.operation]
    parts = [evaluator(argument) for argument in expression.arguments]
    if len(parts) == 1:
        only = parts[0]
        return lambda cells: operation(only(cells))
    if len(parts) == 2:
        left, right = parts
        return lambda cells: operation(left(cells), right(cells))
    return lambda cells: operation(*[part(cells) for part in parts])


def columns_of(expression: Expression) -> Iterator[Column]:
    """The columns that it reads."""
    if isinstance(expression, Column):
        yield expression
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from columns_of(argument)


def substitute(expression: Expression, replacements: dict[int, Expression]) -> Expression:
    """The same expression over other columns."""
    if isinstance(expression, Column):
        return replacements.get(expression.index, expression)
    if isinstance(expression, Literal):
        return expression
    arguments = tuple(substitute(argument, replacements) for argument in expression.arguments)
    return Call(expression.operation, arguments, expression.type, expression.kind)


def shifted(expression: Expression, by: int) -> Expression:
    """The same expression where its columns stand further right."""
    moved = {
        column.index: Column(column.index + by, column.type, column.kind, column.name)
        for column in columns_of(expression)
    }
    return substitute(expression, dict(moved))


def conjuncts(expression: Expression) -> Iterator[Expression]:
    """The conditions that must all hold."""
    if isinstance(expression, Call) and expression.operation == "and":
        for argument in expression.arguments:
            yield from conjuncts(argument)
    else:
        yield expression


def kind_of(operation: str, arguments: tuple[Expression, ...]) -> Kind:
    """How the result may evolve, from how the arguments may."""
    kinds = [argument.kind for argument in arguments]
    if all(kind is Kind.FINAL for kind in kinds):
        return Kind.FINAL
    if operation in ("+", "-"):
        left, right = kinds
        low, high = (right.has_low, right.has_high) if operation == "+" else (right.has_high, right.has_low)
        return kind_with(left.has_low and low, left.has_high and high)
    if operation in ("floor", "ceil", "round", "real", "integer"):
        return kind_with(kinds[0].has_low, kinds[0].has_high)
    if operation == "neg":
        return kind_with(kinds[0].has_high, kinds[0].has_low)
    if operation in ("*", "/", "div"):
        return _scaled(operation, arguments)
    if operation in ("greatest", "least"):
        lows, highs = [kind.has_low for kind in kinds], [kind.has_high for kind in kinds]
        return kind_with(any(lows), all(highs)) if operation == "greatest" else kind_with(all(lows), any(highs))
    return Kind.SO_FAR


def _scaled(operation: str, arguments: tuple[Expression, ...]) -> Kind:
    pairs = [(arguments[0], arguments[1])] + ([(arguments[1], arguments[0])] if operation == "*" else [])
    for evolving, constant in pairs:
        if isinstance(constant, Literal) and isinstance(constant.value, int | float) and constant.value != 0:
            low, high = evolving.kind.has_low, evolving.kind.has_high
            return kind_with(low, high) if constant.value > 0 else kind_with(high, low)
    return Kind.BETWEEN if all(a.kind in (Kind.BETWEEN, Kind.FINAL) for a in arguments) else Kind.SO_FAR


def direction(expression: Expression) -> int:
    """1 if the expression never falls as its one column grows, -1 if it never rises, 0 if neither is plain to see."""
    if isinstance(expression, Column):
        return 1
    if isinstance(expression, Literal):
        return 0
    operation, arguments = expression.operation, expression.arguments
    if operation in ("floor", "ceil", "integer", "real"):
        return direction(arguments[0])
    if operation == "neg":
        return -direction(arguments[0])
    if operation == "-" and _is_multiple(*arguments):
        return direction(arguments[0])
    if len(arguments) != 2 or operation not in ("+", "-", "*", "/", "div"):
        return 0
    left, right = arguments
    if isinstance(right, Literal) and isinstance(right.value, int | float):
        sign = 1 if operation in ("+", "-") else (right.value > 0) - (right.value < 0)
        return direction(left) * sign
    if isinstance(left, Literal) and isinstance(left.value, int | float) and operation in ("+", "-", "*"):
        sign = {"+": 1, "-": -1}.get(operation, (left.value > 0) - (left.value < 0))
        return direction(right) * sign
    return 0


def _is_multiple(left: Expression, right: Expression) -> bool:
    """t - t % n: the multiple of n at or before t."""
    return (
        isinstance(right, Call)
        and right.operation == "%"
        and right.arguments[0] == left
        and isinstance(right.arguments[1], Literal)
        and isinstance(right.arguments[1].value, int)
        and right.arguments[1].value != 0
    )
