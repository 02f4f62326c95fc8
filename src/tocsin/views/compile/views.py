"""Names to nodes: views may be defined in any order, but not in a circle."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.errors import ViewError
from tocsin.views.compile.select import Query
from tocsin.views.compile.statements import ViewText, statements
from tocsin.views.limits import LIMITS, ViewLimits
from tocsin.views.plan import Node, Plan, Relation


@dataclass(frozen=True)
class Compiled:
    """What can run, and what was refused."""

    plan: Plan
    refused: tuple[ViewError, ...]


def compile_views(text: str, limits: ViewLimits = LIMITS) -> Compiled:
    """All relations and views of a text. A refused view takes down those that read it, and no others.

    ViewError if the text asks for more than the limits allow.
    """
    limits.check_text(text)
    refused: list[ViewError] = []
    names = _Names()
    for statement in statements(text, refused.append):
        if statement.name.lower() in names.known:
            refused.append(
                ViewError("the name is taken: a relation or view of that name stands before", statement.name)
            )
        else:
            names.known[statement.name.lower()] = statement
    views: dict[str, Node] = {}
    relations: dict[str, Relation] = {}
    for statement in names.known.values():
        if isinstance(statement, Relation):
            relations[statement.name] = statement
            continue
        try:
            views[statement.name] = names.node(statement.name)
        except ViewError as error:
            refused.append(ViewError(error.reason, statement.name))
    plan = Plan(relations, views)
    limits.check_plan(plan)
    return Compiled(plan, tuple(refused))


class _Names:
    """Compiles each view when it is first asked for."""

    def __init__(self) -> None:
        self.known: dict[str, Relation | ViewText] = {}
        self._made: dict[str, Node | ViewError] = {}
        self._asked: list[str] = []
        self._shared: dict[Node, Node] = {}

    def node(self, name: str) -> Node:
        """The relation or view of a name."""
        found = self.known.get(name.lower())
        if found is None:
            raise ViewError(f"there is no relation or view {name}: CREATE it first")
        if isinstance(found, Relation):
            return found
        if found.name in self._asked:
            circle = " → ".join([*self._asked[self._asked.index(found.name) :], found.name])
            raise ViewError(f"views read each other in a circle ({circle}): let one of them read relations only")
        made = self._made.get(found.name)
        if made is None:
            made = self._made[found.name] = self._compile(found)
        if isinstance(made, ViewError):
            if self._asked:
                raise ViewError(f"it reads {found.name}, which was refused: {made.reason}")
            raise made
        return made

    def share(self, node: Node) -> Node:
        """The node that was made first among equal ones (§2.3: one graph for all subscriptions)."""
        return self._shared.setdefault(node, node)

    def _compile(self, view: ViewText) -> Node | ViewError:
        self._asked.append(view.name)
        try:
            return Query(self.node, self.share).node(view.query)
        except ViewError as error:
            return error
        except RecursionError:
            return ViewError("it is nested too deeply: split it into several views")
        finally:
            self._asked.pop()
