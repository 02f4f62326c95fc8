"""Which conditions join, and what the keys of the pairs are called."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from tocsin.errors import ViewError
from tocsin.views.compile.expressions import Part, Scope, typed
from tocsin.views.expression import Column, Expression, columns_of, shifted


def conjuncts(found: exp.Expr) -> Iterable[exp.Expr]:
    """The conditions that must all hold."""
    if isinstance(found, exp.Paren):
        yield from conjuncts(found.this)
    elif isinstance(found, exp.And):
        yield from conjuncts(found.this)
        yield from conjuncts(found.expression)
    else:
        yield found


def not_exists(found: exp.Expr) -> exp.Select | None:
    """The query of a NOT EXISTS (…)."""
    inner = found.this if isinstance(found, exp.Not) else None
    inner = inner.this if isinstance(inner, exp.Paren) else inner
    query = inner.this if isinstance(inner, exp.Exists) else None
    return query if isinstance(query, exp.Select) else None


def conditions(join: exp.Join, scope: Scope, part: Part) -> list[exp.Expr]:
    """ON, or USING written out."""
    using = join.args.get("using") or ()
    found: list[exp.Expr] = []
    for name in using:
        owner = next((p.alias for p in scope.parts if Scope((p,)).has(name.name)), scope.parts[0].alias)
        found.append(exp.EQ(this=exp.column(name.name, owner), expression=exp.column(name.name, part.alias)))
    if join.args.get("on") is not None:
        found += conjuncts(join.args["on"])
    return found


def check_side(join: exp.Join) -> None:
    """ViewError unless it is a plain JOIN."""
    side = " ".join(str(join.args.get(word) or "") for word in ("method", "side", "kind")).upper().split()
    if not set(side) - {"INNER", "CROSS"}:
        return
    instead = "write JOIN … ON equality"
    if {"LEFT", "RIGHT", "FULL"} & set(side) and not {"SEMI", "ANTI"} & set(side):
        instead += ", and UNION ALL with a SELECT … WHERE NOT EXISTS (…) for the rows without a partner"
    elif "ANTI" in side:
        instead = "write WHERE NOT EXISTS (SELECT … WHERE a = b)"
    raise ViewError(f"{' '.join(side)} JOIN is not kept: {instead}")


def is_equality(found: exp.Expr, scope: Scope) -> bool:
    """Whether WHERE says it of relations that are there already: FROM a, b WHERE a.x = b.x is a JOIN."""
    if not isinstance(found, exp.EQ):
        return False
    try:
        typed(found, scope)
    except ViewError:
        return False
    return True


def equalities(
    tests: Iterable[exp.Expr], both: Scope, part: Part, first: Scope | None = None
) -> tuple[list[Expression], list[Expression], list[Expression]]:
    """Equalities of something before the part with something of the part, and the other conditions."""
    left_on: list[Expression] = []
    right_on: list[Expression] = []
    rest: list[Expression] = []
    for found in tests:
        condition = typed(found, both, lambda column: _nearest(column, first))
        sides = condition.arguments if not isinstance(condition, Column) and hasattr(condition, "arguments") else ()
        if getattr(condition, "operation", "") == "=" and len(sides) == 2:
            belongs = [_side(side, part.offset) for side in sides]
            if sorted(belongs) == [-1, 1]:
                left, right = sides if belongs[0] < 0 else sides[::-1]
                left_on.append(left)
                right_on.append(shifted(right, -part.offset))
                continue
        rest.append(condition)
    return left_on, right_on, rest


def _nearest(column: exp.Expr, first: Scope | None) -> Expression | None:
    """Inside of NOT EXISTS a bare name means the inner relation's column, if it has one."""
    if first is None or not isinstance(column, exp.Column) or column.table or not first.has(column.name):
        return None
    return first.column(column.name, "")


def _side(expression: Expression, offset: int) -> int:
    """-1: reads only columns before the offset, 1: only from there on, 0: both or none."""
    sides = {1 if column.index >= offset else -1 for column in columns_of(expression)}
    return sides.pop() if len(sides) == 1 else 0


def joint_names(scope: Scope) -> tuple[str, ...]:
    """Key names of a join: colliding ones as relation.column, or alias.column where a relation is joined twice."""
    every = [name for part in scope.parts for name in part.node.key_names]
    relations = [part.name.lower() for part in scope.parts]
    found: list[str] = []
    for part in scope.parts:
        owner = part.name if relations.count(part.name.lower()) == 1 else part.alias
        for name in part.node.key_names:
            shown = f"{owner}.{name}" if every.count(name) > 1 else name
            while shown in found or (shown != name and shown in every):  # a view may call its own keys like that
                shown = f"{owner}.{shown}"
            found.append(shown)
    return tuple(found)
