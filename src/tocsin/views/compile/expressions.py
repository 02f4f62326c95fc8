"""SQL expressions to typed ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from tocsin.errors import ViewError
from tocsin.views.compile.statements import TYPES
from tocsin.views.expression import Call, Column, Expression, Literal, Type, kind_of
from tocsin.views.plan import Node

Operations: TypeAlias = dict[type[exp.Expr], str]
ARITHMETIC: Operations = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div"}
COMPARISON: Operations = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
LOGIC: Operations = {exp.And: "and", exp.Or: "or"}
ONE_NUMBER: Operations = {exp.Floor: "floor", exp.Ceil: "ceil", exp.Abs: "abs"}
ONE_TEXT: Operations = {exp.Lower: "lower", exp.Upper: "upper", exp.Length: "length"}
SEVERAL: Operations = {exp.Coalesce: "coalesce", exp.Greatest: "greatest", exp.Least: "least"}


@dataclass(frozen=True, slots=True)
class Part:
    """A relation of a FROM clause: the name that SQL knows it by, its own name, and where its columns begin."""

    alias: str
    name: str
    node: Node
    offset: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that an expression may name."""

    parts: tuple[Part, ...]

    def column(self, name: str, relation: str) -> Column:
        """A column by its name; ViewError if there is none, or more than one."""
        found = [
            Column(part.offset + at, column.type, column.kind, self._shown(part, column.name))
            for part in self.parts
            if not relation or part.alias.lower() == relation.lower()
            for at, column in enumerate(part.node.columns[: part.node.visible])
            if column.name.lower() == name.lower()
        ]
        wanted = f"{relation}.{name}" if relation else name
        if not found:
            known = ", ".join(column.name for part in self.parts for column in part.node.columns[: part.node.visible])
            raise ViewError(f"there is no column {wanted} here; there are {known}")
        if len(found) > 1:
            raise ViewError(f"column {wanted} is ambiguous: write relation.{name}")
        return found[0]

    def _shown(self, part: Part, name: str) -> str:
        return name if len(self.parts) == 1 else f"{part.alias}.{name}"

    def has(self, name: str) -> bool:
        """Whether some relation has a column of that name."""
        columns = (column.name.lower() for part in self.parts for column in part.node.columns[: part.node.visible])
        return name.lower() in columns


Resolve: TypeAlias = Callable[[exp.Expr], Expression | None]


def typed(found: exp.Expr, scope: Scope, resolve: Resolve = lambda found: None) -> Expression:
    """The typed form; resolve may know a part already (an aggregate, an alias)."""
    known = resolve(found)
    if known is not None:
        return known

    def inner(part: exp.Expr) -> Expression:
        return typed(part, scope, resolve)

    simple = _simple(found, scope)
    if simple is not None:
        return simple
    if isinstance(found, exp.Paren):
        return inner(found.this)
    operation = ARITHMETIC.get(type(found)) or COMPARISON.get(type(found)) or LOGIC.get(type(found))
    if operation is not None:
        return call(operation, inner(found.this), inner(found.expression))
    if isinstance(found, exp.Not):
        return call("not", inner(found.this))
    if isinstance(found, exp.Neg):
        return _negated(inner(found.this))
    return _function(found, inner)


def _simple(found: exp.Expr, scope: Scope) -> Expression | None:
    if isinstance(found, exp.Column):
        return scope.column(found.name, found.table)
    if isinstance(found, exp.Literal):
        if found.is_string:
            return Literal(found.this, Type.TEXT)
        return Literal(int(found.this), Type.INTEGER) if found.is_int else Literal(float(found.this), Type.REAL)
    if isinstance(found, exp.Boolean):
        return Literal(bool(found.this), Type.BOOLEAN)
    return Literal(None, Type.NULL) if isinstance(found, exp.Null) else None


def _negated(value: Expression) -> Expression:
    if isinstance(value, Literal) and isinstance(value.value, int | float):
        return Literal(-value.value, value.type)
    return call("neg", value)


def _function(found: exp.Expr, inner: Callable[[exp.Expr], Expression]) -> Expression:
    kind = type(found)
    if kind in ONE_NUMBER or kind in ONE_TEXT:
        return call((ONE_NUMBER | ONE_TEXT)[kind], inner(found.this))
    if kind in SEVERAL:
        return call(SEVERAL[kind], inner(found.this), *map(inner, found.expressions))
    if isinstance(found, exp.Is):
        if not isinstance(found.expression, exp.Null):
            raise ViewError(f"write = instead of IS in {found.sql()}; IS is for NULL")
        return call("isnull", inner(found.this))
    if isinstance(found, exp.Between):
        value = inner(found.this)
        return call("and", call(">=", value, inner(found.args["low"])), call("<=", value, inner(found.args["high"])))
    if isinstance(found, exp.In) and found.expressions:
        tests = [call("=", inner(found.this), inner(choice)) for choice in found.expressions]
        return _any(tests)
    if isinstance(found, exp.DPipe):
        return call("||", inner(found.this), inner(found.expression))
    if isinstance(found, exp.Cast):
        return _cast(found, inner(found.this))
    if isinstance(found, exp.Case):
        return _case(found, inner)
    raise ViewError(_refusal(found))


def _any(tests: Sequence[Expression]) -> Expression:
    held = tests[0]
    for test in tests[1:]:
        held = call("or", held, test)
    return held


def _cast(found: exp.Cast, value: Expression) -> Expression:
    target = TYPES.get(found.to.this)
    if target is None:
        raise ViewError(f"{found.sql()}: cast to BIGINT, DOUBLE or TEXT")
    if target is value.type:
        return value
    names = {Type.INTEGER: "integer", Type.REAL: "real", Type.TEXT: "text"}
    if target not in names or value.type is Type.RELATION:
        raise ViewError(f"{found.sql()}: cast to BIGINT, DOUBLE or TEXT")
    return call(names[target], value)


def _case(found: exp.Case, inner: Callable[[exp.Expr], Expression]) -> Expression:
    arguments: list[Expression] = []
    for branch in found.args["ifs"]:
        condition = inner(branch.this)
        if found.this is not None:
            condition = call("=", inner(found.this), condition)
        arguments += [condition, inner(branch.args["true"])]
    default = found.args.get("default")
    arguments.append(Literal(None, Type.NULL) if default is None else inner(default))
    return call("case", *arguments)


def _refusal(found: exp.Expr) -> str:
    if isinstance(found, exp.In | exp.Exists | exp.Subquery | exp.Select):
        return (
            f"a subquery cannot stand here ({found.sql()}): write a JOIN, or NOT EXISTS (SELECT … WHERE a = b) or "
            "EXCEPT for rows to leave out"
        )
    if isinstance(found, exp.Window):
        return f"window functions are not kept ({found.sql()}): write GROUP BY, or ORDER BY … LIMIT k"
    if isinstance(found, exp.AggFunc):
        return f"{found.sql()} is no aggregate that we keep: write count, sum, max, min, latest or collect"
    return f"{found.sql()} is not understood in a view: write arithmetic, comparisons, CASE, COALESCE or CAST"


# --- types -----------------------------------------------------------------------------------------------------------


def call(operation: str, *arguments: Expression) -> Call:
    """An operation with its type checked."""
    if operation == "/" and all(argument.type is Type.INTEGER for argument in arguments):
        operation = "div"
    made = _result_type(operation, arguments)
    return Call(operation, arguments, made, kind_of(operation, arguments))


def _result_type(operation: str, arguments: tuple[Expression, ...]) -> Type:
    if operation in ("+", "-", "*", "/", "div", "%", "neg", "abs", "floor", "ceil", "greatest", "least"):
        return _number(operation, arguments)
    if operation in ("<", "<=", ">", ">=", "=", "<>"):
        _comparable(operation, arguments)
        return Type.BOOLEAN
    if operation in ("and", "or", "not"):
        _all_of(operation, arguments, (Type.BOOLEAN,), "a condition")
        return Type.BOOLEAN
    if operation in ("lower", "upper", "length"):
        _all_of(operation, arguments, (Type.TEXT,), "text")
        return Type.INTEGER if operation == "length" else Type.TEXT
    if operation == "case":
        _all_of("CASE WHEN", arguments[:-1:2], (Type.BOOLEAN,), "a condition")
        return _common("CASE", (*arguments[1::2], arguments[-1]))
    if operation == "coalesce":
        return _common("COALESCE", arguments)
    return {"isnull": Type.BOOLEAN, "integer": Type.INTEGER, "real": Type.REAL}.get(operation, Type.TEXT)


def _number(operation: str, arguments: tuple[Expression, ...]) -> Type:
    _all_of(operation, arguments, (Type.INTEGER, Type.REAL), "a number")
    if operation in ("floor", "ceil"):
        return Type.INTEGER
    reals = any(argument.type is Type.REAL for argument in arguments)
    return Type.REAL if reals else Type.INTEGER


def _all_of(what: str, arguments: tuple[Expression, ...], types: tuple[Type, ...], wanted: str) -> None:
    for argument in arguments:
        if argument.type not in types and argument.type is not Type.NULL:
            raise ViewError(f"{what} needs {wanted}, and {argument} is {argument.type.value}")


def _comparable(operation: str, arguments: tuple[Expression, ...]) -> None:
    left, right = arguments
    if Type.RELATION in (left.type, right.type):
        raise ViewError(f"{left} {operation} {right}: a column that holds a relation can only be shown")
    same = left.type is right.type or (left.type.is_number and right.type.is_number)
    if not same and Type.NULL not in (left.type, right.type):
        raise ViewError(
            f"{left} {operation} {right} compares {left.type.value} with {right.type.value}: write CAST(… AS …)"
        )


def _common(what: str, arguments: tuple[Expression, ...]) -> Type:
    types = {argument.type for argument in arguments} - {Type.NULL}
    if len(types) <= 1:
        return next(iter(types), Type.NULL)
    if types <= {Type.INTEGER, Type.REAL}:
        return Type.REAL
    shown = " and ".join(sorted(found.value for found in types))
    raise ViewError(f"{what} gives {shown}: write CAST(… AS …) so that all results have one type")
