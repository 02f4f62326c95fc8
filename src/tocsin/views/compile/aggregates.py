"""Aggregates of a SELECT: each distinct one is computed once, expressions around it come after the grouping."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tocsin.errors import ViewError
from tocsin.views.compile.expressions import Scope, typed
from tocsin.views.compile.shape import check
from tocsin.views.compile.types import call
from tocsin.views.expression import Column, Expression, Kind, Literal, Type, columns_of, substitute
from tocsin.views.plan import Aggregate, Group, Node, adds_one_row_per_tick, tick_keys
from tocsin.views.window import is_bounded, regroup

NAMES: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.Sum: "sum", exp.Max: "max", exp.Min: "min", exp.ArgMax: "latest",
}  # fmt: skip
CALLED = ("latest", "collect")


def function_of(found: exp.Expr) -> str | None:
    """The aggregate that an expression calls."""
    if isinstance(found, exp.Filter):
        return function_of(found.this)
    if isinstance(found, exp.Anonymous) and found.name.lower() in CALLED:
        return str(found.name.lower())
    return "avg" if isinstance(found, exp.Avg) else NAMES.get(type(found))


def is_aggregate(found: exp.Expr) -> bool:
    """Whether an aggregate is called somewhere in it; a subquery has its own."""
    inside = found.walk(prune=lambda part: isinstance(part, exp.Query | exp.Window))
    return any(function_of(part) is not None for part in inside)


class Aggregates:
    """The keys and aggregates of one SELECT, which become the columns of its Group."""

    def __init__(self, node: Node, scope: Scope, keys: Sequence[tuple[str, Expression]]) -> None:
        self._node, self._scope, self._keys = node, scope, list(keys)
        self._found: list[Aggregate] = []
        self._loose = node.leaves or any(e.kind is not Kind.FINAL for _, e in keys)

    def group(self, whole: bool) -> Group:
        """The grouping, once all expressions were read."""
        return Group(self._node, tuple(self._keys), tuple(self._found), whole)

    def typed(self, found: exp.Expr) -> Expression:
        """An expression over the columns of the Group."""
        made = typed(found, self._scope, self._resolve)
        for column in columns_of(made):
            if not isinstance(column, _Made):
                names = ", ".join(name for name, _ in self._keys) or "nothing"
                raise ViewError(
                    f"column {column} is neither grouped nor aggregated (grouped by: {names}): add it to GROUP BY, or "
                    f"write max({column}) or latest({column})"
                )
        return substitute(made, {c.index: Column(c.index, c.type, c.kind, c.name) for c in columns_of(made)})

    def _resolve(self, found: exp.Expr) -> Expression | None:
        function = function_of(found)
        if isinstance(found, exp.Filter) and function is not None:
            found = _filtered(found, function)
        if function == "avg":
            total, number = (self._column(name, found) for name in ("sum", "count"))
            return call("/", call("real", total), number)
        if function is not None:
            return self._column(function, found)
        if is_aggregate(found):
            return None
        try:
            plain = typed(found, self._scope)
        except ViewError:
            return None
        for at, (name, expression) in enumerate(self._keys):
            if plain == expression:
                return _Made(at, expression.type, Kind.FINAL, name)
        return None

    def _column(self, function: str, found: exp.Expr) -> Expression:
        aggregate = self._aggregate(function, found)
        if aggregate not in self._found:
            self._found.append(aggregate)
        at = self._found.index(aggregate)
        return _Made(len(self._keys) + at, aggregate.type, aggregate.kind, str(found.sql()).lower())

    def _aggregate(self, function: str, found: exp.Expr) -> Aggregate:
        check(found)
        written = _arguments(found)
        if any(isinstance(part, exp.Distinct) for part in written):
            keys = "".join(f"{name}, " for name, _ in self._keys)
            inner = ", ".join(part.sql() for one in written for part in one.expressions)
            raise ViewError(
                f"{found.sql()}: make a view of SELECT DISTINCT {keys}{inner} … instead, and let {function} read its "
                "rows"
            )
        if any(is_aggregate(part) for part in written):
            raise ViewError(f"{found.sql()}: an aggregate of an aggregate needs a view of its own for the inner one")
        if function == "count" and (not written or isinstance(written[0], exp.Star)):
            return self._made("count", (Literal(True, Type.BOOLEAN),))
        if not written:
            raise ViewError(f"{function}() needs a column")
        arguments = tuple(typed(part, self._scope) for part in written)
        if function == "collect":
            names = tuple(part.name if isinstance(part, exp.Column) else part.sql() for part in written)
            return self._made(function, arguments, names=names)
        if function == "latest":
            return self._latest(found, arguments)
        if len(arguments) > 1:
            raise ViewError(f"{found.sql()}: {function} takes one column")
        if function != "count" and not arguments[0].type.is_number:
            raise ViewError(
                f"{function}({arguments[0]}): {arguments[0]} is {arguments[0].type.value}, and only numbers can be "
                f"added and bounded; write latest({arguments[0]}), count({arguments[0]}) or collect({arguments[0]})"
            )
        return self._made(function, arguments)

    def _latest(self, found: exp.Expr, arguments: tuple[Expression, ...]) -> Aggregate:
        if len(arguments) > 2:
            raise ViewError(f"{found.sql()}: write latest(column) or latest(column, tick)")
        if len(arguments) == 2:
            order = arguments[1]
        elif tick_keys(self._node) is not None:
            order = self._node.columns[self._node.key[-1]]
        else:
            raise ViewError(
                f"{found.sql()}: the rows have no single tick to go by; write latest(column, order), such as "
                f"latest({arguments[0]}, relation.tick)"
            )
        if order.type is not Type.INTEGER or order.kind is not Kind.FINAL:
            raise ViewError(f"{found.sql()}: the order must be a BIGINT that does not change, and {order} is none")
        return self._made("latest", arguments[:1], order)

    def _made(
        self,
        function: str,
        arguments: tuple[Expression, ...],
        order: Expression | None = None,
        names: tuple[str, ...] = (),
    ) -> Aggregate:
        kind = Type.RELATION if function == "collect" else arguments[0].type
        kind = Type.INTEGER if function == "count" else kind
        return Aggregate(function, arguments, order, names, kind, self._kind(function, arguments))

    def _kind(self, function: str, arguments: tuple[Expression, ...]) -> Kind:
        kind = arguments[0].kind
        if self._loose or function in ("sum", "collect"):
            return Kind.SO_FAR
        if function == "count":
            origins = regroup(self._node.origins, [expression for _, expression in self._keys])
            bounded = adds_one_row_per_tick(self._node) and is_bounded(origins)
            return Kind.BETWEEN if bounded else Kind.AT_LEAST
        if function == "latest":
            return Kind.LATEST if kind is Kind.FINAL else Kind.SO_FAR
        if function == "max":
            return Kind.AT_LEAST if kind.has_low else Kind.SO_FAR
        return Kind.AT_MOST if kind.has_high else Kind.SO_FAR


class _Made(Column):
    """A column of the Group, as opposed to one of its input."""

    __slots__ = ()


def _arguments(found: exp.Expr) -> list[exp.Expr]:
    if isinstance(found, exp.Anonymous):
        return list(found.expressions)
    if isinstance(found, exp.ArgMax):
        return [found.this, found.expression]
    written = [part for part in (found.this, *found.expressions) if part is not None]
    if isinstance(found, exp.Max | exp.Min) and len(written) == 1 and isinstance(written[0], exp.Distinct):
        return list(written[0].expressions)  # repeats change no extreme
    return written


def _filtered(found: exp.Filter, function: str) -> exp.Expr:
    """FILTER (WHERE …) is CASE WHEN … inside: aggregates pass over null."""
    if function == "collect":
        raise ViewError(f"{found.sql()}: collect from a view that has the WHERE")
    inner: exp.Expr = found.this.copy()
    first = _arguments(inner)[:1]
    if first and isinstance(first[0], exp.Distinct):
        raise ViewError(f"{found.sql()}: let a view with SELECT DISTINCT … WHERE … be read instead")
    value = exp.true() if not first or isinstance(first[0], exp.Star) else first[0].copy()
    case = exp.Case(ifs=[exp.If(this=found.expression.this.copy(), true=value)])
    if isinstance(inner, exp.Anonymous):
        inner.set("expressions", [case, *inner.expressions[1:]])
    else:
        inner.set("this", case)
    return inner
