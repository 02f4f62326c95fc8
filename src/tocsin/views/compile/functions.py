"""What is written as a function or a test of its own, to operations; some are written in terms of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from tocsin.errors import ViewError
from tocsin.views.compile.shape import check
from tocsin.views.compile.statements import TYPES
from tocsin.views.compile.types import call
from tocsin.views.expression import Expression, Literal, Type

Operations: TypeAlias = dict[type[exp.Expr], str]
Read: TypeAlias = Callable[[exp.Expr], Expression]

ONE: Operations = {
    exp.Floor: "floor", exp.Ceil: "ceil", exp.Abs: "abs",
    exp.Lower: "lower", exp.Upper: "upper", exp.Length: "length", exp.Trim: "trim",
}  # fmt: skip
SEVERAL: Operations = {exp.Coalesce: "coalesce", exp.Greatest: "greatest", exp.Least: "least"}
NULL = Literal(None, Type.NULL)
DIGITS_MAX = 15  # of a real after the point
UNDERSTOOD = (
    "write arithmetic, comparisons, LIKE, IN, BETWEEN, CASE, COALESCE, CAST, ||, or abs, ceil, floor, round, greatest, "
    "least, lower, upper, length, substr, trim"
)


def function(found: exp.Expr, read: Read) -> Expression:
    """The typed form of a call; `read` types its parts."""
    kind = type(found)
    if (kind not in FORMS and kind not in ONE and kind not in SEVERAL) or found.args.get("query") is not None:
        raise ViewError(_refusal(found))
    check(found)
    if kind in FORMS:
        return FORMS[kind](found, read)
    if kind in ONE:
        return call(ONE[kind], read(found.this))
    return call(SEVERAL[kind], read(found.this), *map(read, found.expressions))


def _is(found: exp.Expr, read: Read) -> Expression:
    value, other = read(found.this), found.expression
    if isinstance(other, exp.Null):
        return call("isnull", value)
    if not isinstance(other, exp.Boolean):
        raise ViewError(f"write = instead of IS in {found.sql()}; IS is for NULL, TRUE and FALSE")
    held = call("and", value, Literal(True, Type.BOOLEAN)) if other.this else call("not", value)
    return call("coalesce", held, Literal(False, Type.BOOLEAN))


def _same(found: exp.Expr, read: Read) -> Expression:
    """IS NOT DISTINCT FROM: null is like null."""
    left, right = read(found.this), read(found.expression)
    both_null = call("and", call("isnull", left), call("isnull", right))
    same = call("coalesce", call("=", left, right), both_null)
    return same if isinstance(found, exp.NullSafeEQ) else call("not", same)


def _between(found: exp.Expr, read: Read) -> Expression:
    value = read(found.this)
    return call("and", call(">=", value, read(found.args["low"])), call("<=", value, read(found.args["high"])))


def _in(found: exp.Expr, read: Read) -> Expression:
    if not found.expressions:
        raise ViewError(_refusal(found))
    held, *others = [call("=", read(found.this), read(choice)) for choice in found.expressions]
    for test in others:
        held = call("or", held, test)
    return held


def _like(found: exp.Expr, read: Read) -> Expression:
    escape = None
    if isinstance(found, exp.Escape):
        given, found = found.expression, found.this
        if not isinstance(given, exp.Literal) or not given.is_string or len(given.this) != 1:
            raise ViewError("ESCAPE needs one character, such as ESCAPE '!'")
        escape = Literal(given.this, Type.TEXT)
        check(found)
    pattern = found.expression
    if isinstance(pattern, exp.Any | exp.All):
        raise ViewError(f"{found.sql()}: write several LIKE with OR or AND")
    if escape is None and isinstance(pattern, exp.Escape):
        raise ViewError(f"{found.sql()}: write … LIKE 'pattern' ESCAPE 'character'")
    operation = "ilike" if isinstance(found, exp.ILike) else "like"
    parts = (read(found.this), read(pattern)) + (() if escape is None else (escape,))
    made = call(operation, *parts)
    return call("not", made) if found.args.get("negate") else made


def _joined(found: exp.Expr, read: Read) -> Expression:
    return call("||", _readable(read(found.this)), _readable(read(found.expression)))


def _readable(value: Expression) -> Expression:
    """A real that was computed from integers, as by CASE or greatest, is written as a real: 2.0."""
    return call("real", value) if value.type is Type.REAL else value


def _concat(found: exp.Expr, read: Read) -> Expression:
    raise ViewError(f"{found.sql()}: write a || b, with COALESCE(a, '') for what may be null")


def _cast(found: exp.Expr, read: Read) -> Expression:
    value, target = read(found.this), TYPES.get(found.args["to"].this)
    if target is not None and target is value.type:
        return value
    names = {Type.INTEGER: "integer", Type.REAL: "real", Type.TEXT: "text"}
    if target not in names or value.type is Type.RELATION:
        raise ViewError(f"{found.sql()}: cast to BIGINT, DOUBLE or TEXT")
    return call(names[target], _readable(value) if target is Type.TEXT else value)


def _case(found: exp.Expr, read: Read) -> Expression:
    arguments: list[Expression] = []
    for branch in found.args["ifs"]:
        condition = read(branch.this)
        if found.this is not None:
            condition = call("=", read(found.this), condition)
        arguments += [condition, read(branch.args["true"])]
    default = found.args.get("default")
    arguments.append(NULL if default is None else read(default))
    return call("case", *arguments)


def _if(found: exp.Expr, read: Read) -> Expression:
    other = found.args.get("false")
    return call("case", read(found.this), read(found.args["true"]), NULL if other is None else read(other))


def _null_if(found: exp.Expr, read: Read) -> Expression:
    value = read(found.this)
    return call("case", call("=", value, read(found.expression)), NULL, value)


def _round(found: exp.Expr, read: Read) -> Expression:
    digits = found.args.get("decimals")
    if digits is None:
        return call("round", read(found.this))
    number = read(digits)
    if not isinstance(number, Literal) or type(number.value) is not int or not 0 <= number.value <= DIGITS_MAX:
        raise ViewError(f"{found.sql()}: round to a number of digits from 0 to {DIGITS_MAX}")
    return call("round", read(found.this), number)


def _substring(found: exp.Expr, read: Read) -> Expression:
    parts = [found.this, found.args.get("start") or exp.Literal.number(1), found.args.get("length")]
    return call("substr", *[read(part) for part in parts if part is not None])


FORMS: dict[type[exp.Expr], Callable[[exp.Expr, Read], Expression]] = {
    exp.Is: _is, exp.NullSafeEQ: _same, exp.NullSafeNEQ: _same, exp.Between: _between, exp.In: _in, exp.Like: _like,
    exp.ILike: _like, exp.Escape: _like, exp.DPipe: _joined, exp.Concat: _concat, exp.Cast: _cast,
    exp.TryCast: _cast, exp.Case: _case,
    exp.If: _if, exp.Nullif: _null_if, exp.Round: _round, exp.Substring: _substring,
}  # fmt: skip


def _refusal(found: exp.Expr) -> str:
    if isinstance(found, exp.In | exp.Exists | exp.Subquery | exp.Select):
        return (
            f"a subquery cannot stand here ({found.sql()}): write a JOIN, or NOT EXISTS (SELECT … WHERE a = b) or "
            "EXCEPT for rows to leave out"
        )
    if isinstance(found, exp.Window):
        return f"window functions are not kept ({found.sql()}): write GROUP BY, or ORDER BY … LIMIT k"
    if isinstance(found, exp.Distinct):
        return f"{found.sql()} is kept at the beginning of a SELECT only"
    if isinstance(found, exp.AggFunc):
        return f"{found.sql()} is no aggregate that we keep: write count, sum, avg, max, min, latest or collect"
    return f"{found.sql()} is not understood in a view: {UNDERSTOOD}"
