"""What the sides of UNION and EXCEPT have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from tocsin.errors import ViewError
from tocsin.views.expression import Kind, Type
from tocsin.views.plan import Node


def branches(query: exp.Expr) -> Iterable[exp.Expr]:
    """A UNION ALL of UNION ALLs is one merge."""
    for side in (query.this, query.expression):
        flat = isinstance(side, exp.Union) and bool(side.args.get("distinct")) == bool(query.args.get("distinct"))
        if flat and not side.args.get("limit") and not side.args.get("order"):
            yield from branches(side)
        else:
            yield side


def same_columns(nodes: Sequence[Node], what: str) -> list[Type]:
    """The types of the columns; ViewError if the sides do not fit."""
    if len({node.visible for node in nodes}) > 1:
        raise ViewError(f"both sides of {what} need equally many columns")
    types = []
    for at in range(nodes[0].visible):
        found = {node.columns[at].type for node in nodes} - {Type.NULL}
        if len(found) > 1 and not found <= {Type.INTEGER, Type.REAL}:
            shown = " and ".join(sorted(kind.value for kind in found))
            raise ViewError(f"column {nodes[0].columns[at].name} of {what} is {shown}: write CAST(… AS …)")
        types.append(Type.REAL if Type.REAL in found else next(iter(found), Type.NULL))
    return types


def common_kind(kinds: Iterable[Kind]) -> Kind:
    """How a column evolves that may come from several sides."""
    found = set(kinds)
    return found.pop() if len(found) == 1 else Kind.SO_FAR


def no_relations(node: Node, what: str) -> None:
    """ViewError if a column holds a relation."""
    for column in node.columns[: node.visible]:
        if column.type is Type.RELATION:
            raise ViewError(f"{what} cannot compare column {column.name}, which holds a relation")


def label(query: exp.Expr) -> str:
    """The relation that a query reads first."""
    table = query.find(exp.Table)
    return table.name if table is not None else "query"


def labels(sides: Sequence[exp.Expr]) -> list[str]:
    """The relation that each branch reads first; equal names are numbered."""
    found: list[str] = []
    for side in sides:
        name = label(side)
        same = sum(other == name or other.startswith(f"{name}.") for other in found)
        found.append(name if not same else f"{name}.{same + 1}")
    return found
