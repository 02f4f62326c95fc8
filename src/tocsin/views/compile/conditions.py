"""A condition over the columns of one view, as somebody who waits for its rows writes it."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tocsin.errors import ViewError
from tocsin.views.compile.select import Query
from tocsin.views.compile.statements import TocsinViews
from tocsin.views.plan import Node, Project, Select


def compile_condition(view: str, node: Node, text: str) -> tuple[Select, ...]:
    """Selections over the rows of a view, the first to be taken first; ViewError if it needs more than one row."""
    try:
        found = sqlglot.parse_one(text, dialect=TocsinViews)
    except SqlglotError:
        raise ViewError("the condition cannot be read: write it as after WHERE, such as high > 80", view) from None
    except RecursionError:
        raise ViewError("the condition is nested too deeply", view) from None
    if not isinstance(found, exp.Condition) or isinstance(found, exp.Query):
        raise ViewError("this is no condition: write it as after WHERE, such as high > 80", view)

    def lookup(name: str) -> Node:
        if name.lower() != view.lower():
            raise ViewError(f"a condition reads the columns of {view} only: make a view that joins {name}", view)
        return node

    asked = exp.select("*").from_(exp.to_table(f'"{view.replace(chr(34), chr(34) * 2)}"')).where(found)
    try:
        made: Node = Query(lookup, lambda one: one).node(asked)
    except ViewError as error:
        raise ViewError(error.reason, view) from None
    conditions: list[Select] = []
    while made != node:
        if isinstance(made, Select):
            conditions.append(made)
        elif not isinstance(made, Project):
            raise ViewError("a condition looks at one row at a time: make a view of what it needs", view)
        made = made.input
    return tuple(reversed(conditions))
