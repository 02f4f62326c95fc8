"""SQL expressions to typed ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from sqlglot import exp

from tocsin.errors import ViewError
from tocsin.views.compile.functions import Operations, function
from tocsin.views.compile.types import call
from tocsin.views.expression import Column, Expression, Literal, Type
from tocsin.views.plan import Node

ARITHMETIC: Operations = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div"}
COMPARISON: Operations = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
LOGIC: Operations = {exp.And: "and", exp.Or: "or"}


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
    return function(found, inner)


def _simple(found: exp.Expr, scope: Scope) -> Expression | None:
    if isinstance(found, exp.Column):
        return scope.column(found.name, found.table)
    if isinstance(found, exp.Literal):
        if found.is_string:
            return Literal(found.this, Type.TEXT)
        return Literal(int(found.this), Type.INTEGER) if found.is_int else _real(found)
    if isinstance(found, exp.Boolean):
        return Literal(bool(found.this), Type.BOOLEAN)
    return Literal(None, Type.NULL) if isinstance(found, exp.Null) else None


def _real(found: exp.Literal) -> Expression:
    value = float(found.this)
    if not isfinite(value):
        raise ViewError(f"{found.this} is too large for a DOUBLE")
    return Literal(value, Type.REAL)


def _negated(value: Expression) -> Expression:
    if isinstance(value, Literal) and isinstance(value.value, int | float) and value.type.is_number:
        return Literal(-value.value, value.type)
    return call("neg", value)
