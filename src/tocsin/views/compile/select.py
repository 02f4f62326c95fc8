"""SELECT, UNION and EXCEPT to nodes of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlglot import exp

from tocsin.errors import ViewError
from tocsin.views.compile.aggregates import Aggregates, is_aggregate
from tocsin.views.compile.expressions import Part, Scope, typed
from tocsin.views.expression import Column, Expression, Kind, Type, columns_of, shifted
from tocsin.views.plan import Best, Group, Join, Merge, Node, Order, Project, Relation, Select, Without, renamed_source

ALLOWED = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "distinct", "with_", "kind"}
NO_EQUALITY = "a JOIN needs an equality of both sides: write JOIN … ON a.column = b.column"


class Query:
    """Compiles one query; `lookup` knows the relations and views, `share` makes equal nodes one."""

    def __init__(self, lookup: Callable[[str], Node], share: Callable[[Node], Node]) -> None:
        self._lookup, self._share = lookup, share
        self._local: dict[str, Node] = {}

    def node(self, query: exp.Expr) -> Node:
        """The relation that a query describes."""
        if isinstance(query, exp.Subquery | exp.Paren):
            return self.node(query.this)
        self._with(query)
        if isinstance(query, exp.Select):
            return self._select(query)
        if isinstance(query, exp.Union):
            return self._limited(query, self._union(query))
        if isinstance(query, exp.Except):
            return self._limited(query, self._except(query))
        if isinstance(query, exp.Intersect):
            raise ViewError("INTERSECT is not kept: write a JOIN on the columns that must be equal")
        raise ViewError(f"a view is a SELECT, and this is none: {query.sql()[:80]}")

    def _with(self, query: exp.Expr) -> None:
        clause = query.args.get("with_")
        if clause is None:
            return
        if clause.args.get("recursive"):
            raise ViewError("WITH RECURSIVE is not kept: a view cannot read itself")
        for part in clause.expressions:
            self._local[part.alias.lower()] = self.node(part.this)

    # --- SELECT ------------------------------------------------------------------------------------------------------

    def _select(self, query: exp.Select) -> Node:
        unknown = [name for name, value in query.args.items() if value and name not in ALLOWED]
        if unknown:
            raise ViewError(f"{unknown[0].rstrip('_').upper()} is not kept in a view: leave it out")
        node, scope = self._from(query)
        node = self._where(query, node, scope)
        selected = _selected(query, scope)
        group = query.args.get("group")
        if group is not None or query.args.get("having") or any(is_aggregate(found) for _, found in selected):
            node, outputs, order = self._grouped(query, node, scope, selected)
        else:
            outputs = [(name, typed(found, scope)) for name, found in selected]
            order = _alias_or(scope, selected)
        if query.args.get("distinct") and (query.args.get("order") or query.args.get("limit")):
            raise ViewError("ORDER BY … LIMIT over DISTINCT: put the DISTINCT into a view of its own")
        node = self._best(query, node, order)
        node = self._project(node, outputs)
        return self._distinct(node) if query.args.get("distinct") else node

    def _from(self, query: exp.Select) -> tuple[Node, Scope]:
        start = query.args.get("from_")
        if start is None:
            raise ViewError("a view reads a relation: write SELECT … FROM relation")
        part = self._part(start.this, 0)
        node, scope = part.node, Scope((part,))
        for join in query.args.get("joins") or ():
            node, scope = self._join(node, scope, join)
        return node, scope

    def _part(self, table: exp.Expr, offset: int) -> Part:
        if isinstance(table, exp.Subquery):
            node = self.node(table.this)
            return Part(table.alias, table.alias or _label(table.this), node, offset)
        if not isinstance(table, exp.Table) or table.args.get("db"):
            raise ViewError(f"FROM needs the name of a relation or view, not {table.sql()}")
        node = self._local.get(table.name.lower()) or self._lookup(table.name)
        name = node.name if isinstance(node, Relation) else table.name
        return Part(table.alias or table.name, name, node, offset)

    def _join(self, left: Node, scope: Scope, join: exp.Join) -> tuple[Node, Scope]:
        side = " ".join(str(join.args.get(word) or "") for word in ("method", "side", "kind")).split()
        if [word for word in side if word.upper() != "INNER"]:
            raise ViewError(
                f"{' '.join(side)} JOIN is not kept: write JOIN … ON equality, and UNION ALL with a SELECT … WHERE NOT "
                "EXISTS (…) for the rows without a partner"
            )
        part = self._part(join.this, len(left.columns))
        if part.alias.lower() in (other.alias.lower() for other in scope.parts):
            raise ViewError(f"{part.alias} is joined twice: give each an alias")
        both = Scope((*scope.parts, part))
        left_on, right_on, rest = _equalities(_conditions(join, scope, part), both, part)
        if not left_on:
            raise ViewError(NO_EQUALITY)
        names = _joint_names(left.key_names, scope, part)
        node = self._share(Join(left, part.node, tuple(left_on), tuple(right_on), names))
        for condition in rest:
            node = self._share(Select(node, condition))
        return node, both

    def _where(self, query: exp.Select, node: Node, scope: Scope) -> Node:
        where = query.args.get("where")
        if where is None:
            return node
        tests: list[exp.Expr] = []
        deletions: list[exp.Select] = []
        for found in _conjuncts(where.this):
            deletion = _not_exists(found)
            if deletion is None:
                tests.append(found)
            else:
                deletions.append(deletion)
        for found in tests:
            if is_aggregate(found):
                raise ViewError(f"{found.sql()}: a condition on an aggregate belongs into HAVING")
            node = self._share(Select(node, _condition(found, scope)))
        for deletion in deletions:
            node = self._without(node, scope, deletion)
        return node

    def _without(self, node: Node, scope: Scope, inner: exp.Select) -> Node:
        """NOT EXISTS (SELECT … FROM deletions WHERE deletions.x = outer.y)."""
        table = inner.args.get("from_")
        if table is None or any(inner.args.get(part) for part in ("joins", "group", "having", "limit")):
            raise ViewError("NOT EXISTS needs SELECT … FROM one relation or view WHERE an equality with the outer row")
        part = self._part(table.this, len(node.columns))
        outer = Scope(tuple(p for p in scope.parts if p.alias.lower() != part.alias.lower()))
        where = inner.args.get("where")
        tests = list(_conjuncts(where.this)) if where is not None else []
        on, deletions_on, rest = _equalities(tests, Scope((*outer.parts, part)), part, Scope((part,)))
        deletions = part.node
        for condition in rest:
            if any(column.index < part.offset for column in columns_of(condition)):
                raise ViewError(f"NOT EXISTS compares the outer row by equality only, not by {condition}")
            deletions = self._share(Select(deletions, shifted(condition, -part.offset)))
        if not on:
            raise ViewError("NOT EXISTS needs an equality with the outer row: WHERE inner.column = outer.column")
        return self._share(Without(node, deletions, tuple(on), tuple(deletions_on), nulls_are_equal=False))

    def _grouped(
        self, query: exp.Select, node: Node, scope: Scope, selected: list[tuple[str, exp.Expr]]
    ) -> tuple[Node, list[tuple[str, Expression]], Callable[[exp.Expr], Expression]]:
        keys = _group_keys(query, scope, selected)
        aggregates = Aggregates(node, scope, keys)
        named = {name.lower(): found for name, found in selected}
        outputs = [(name, aggregates.typed(found)) for name, found in selected]

        def after(found: exp.Expr) -> Expression:
            if isinstance(found, exp.Column) and not found.table and found.name.lower() in named:
                return aggregates.typed(named[found.name.lower()])
            return aggregates.typed(found.copy().transform(_expanded(named, scope)))

        having = query.args.get("having")
        condition = after(having.this) if having is not None else None
        for ordered in query.args["order"].expressions if query.args.get("order") else ():
            after(ordered.this)  # so that its aggregates are computed
        grouped = self._share(aggregates.group(whole=query.args.get("group") is None))
        if condition is not None:
            if condition.type not in (Type.BOOLEAN, Type.NULL):
                raise ViewError("HAVING needs a condition")
            grouped = self._share(Select(grouped, condition))
        return grouped, outputs, after

    def _project(self, node: Node, outputs: Sequence[tuple[str, Expression]]) -> Node:
        """The SELECT list, then the key columns that it leaves out."""
        names = [name.lower() for name, _ in outputs]
        twice = next((name for name, _ in outputs if names.count(name.lower()) > 1), None)
        if twice is not None:
            raise ViewError(f"two columns are called {twice}: give one an alias with AS")
        made = list(outputs)
        places = []
        for at, name in zip(node.key, node.key_names, strict=True):
            column = node.columns[at]
            place = next((i for i, (_, e) in enumerate(made) if isinstance(e, Column) and e.index == at), None)
            if place is None:
                place = len(made)
                made.append((name, column))
            places.append(place)
        return self._share(Project(node, tuple(made), len(outputs), tuple(places)))

    def _distinct(self, node: Node) -> Node:
        keys = tuple((column.name, column) for column in node.columns[: node.visible])
        _no_relations(node, "DISTINCT")
        return self._share(Group(node, keys, ()))

    # --- best-k ------------------------------------------------------------------------------------------------------

    def _best(self, query: exp.Expr, node: Node, read: Callable[[exp.Expr], Expression]) -> Node:
        order, limit = query.args.get("order"), query.args.get("limit")
        if query.args.get("offset"):
            raise ViewError("OFFSET is not kept: take more rows with LIMIT and leave out what you do not want")
        if order is None and limit is None:
            return node
        if limit is None:
            raise ViewError("a view has no order: leave ORDER BY out, or add LIMIT k for the best k rows")
        if order is None:
            raise ViewError("LIMIT needs an ORDER BY that says which rows are the best")
        number = limit.expression
        if not isinstance(number, exp.Literal) or not number.is_int or int(number.this) < 1:
            raise ViewError("LIMIT needs a number of rows, 1 or more")
        parts = []
        for part in order.expressions:
            by = read(part.this)
            if by.type is Type.RELATION:
                raise ViewError(f"rows cannot be ordered by {by}, which holds a relation")
            nulls = part.args.get("nulls_first")
            explicit = "NULLS FIRST" in part.sql().upper() or bool(nulls and part.args.get("desc"))
            parts.append(Order(by, bool(part.args.get("desc")), explicit))
        return self._share(Best(node, tuple(parts), int(number.this)))

    def _limited(self, query: exp.Expr, node: Node) -> Node:
        """ORDER BY … LIMIT after UNION or EXCEPT."""
        scope = Scope((Part("", "", node, 0),))
        return self._best(query, node, lambda found: typed(found, scope))

    # --- UNION and EXCEPT --------------------------------------------------------------------------------------------

    def _union(self, query: exp.Union) -> Node:
        branches = list(_branches(query))
        nodes = [self.node(branch) for branch in branches]
        types = _same_columns(nodes, "UNION ALL")
        labels = _labels(branches)
        kinds = [_common_kind(node.columns[at].kind for node in nodes) for at in range(len(types))]
        first = nodes[0]
        columns = [Column(at, types[at], kinds[at], first.columns[at].name) for at in range(len(types))]
        names: dict[str, Type] = {"source": Type.TEXT}
        for node, label in zip(nodes, labels, strict=True):
            for name, at in zip(renamed_source(node.key_names, label), node.key, strict=True):
                names.setdefault(name, node.columns[at].type)
        for name, kind in names.items():
            columns.append(Column(len(columns), kind, Kind.FINAL, name))
        merged = self._share(Merge(tuple(nodes), tuple(labels), tuple(columns), tuple(names)))
        return self._distinct(merged) if query.args.get("distinct") else merged

    def _except(self, query: exp.Except) -> Node:
        if not query.args.get("distinct"):
            raise ViewError("EXCEPT ALL is not kept: write EXCEPT, or NOT EXISTS (…) to keep equal rows apart")
        left, right = self.node(query.left), self.node(query.right)
        _same_columns([left, right], "EXCEPT")
        _no_relations(left, "EXCEPT")
        if not set(left.key) <= set(range(left.visible)):
            left = self._distinct(left)
        on, deletions_on = left.columns[: left.visible], right.columns[: right.visible]
        return self._share(Without(left, right, on, deletions_on, nulls_are_equal=True))


# --- parts of a SELECT -----------------------------------------------------------------------------------------------


def _selected(query: exp.Select, scope: Scope) -> list[tuple[str, exp.Expr]]:
    """Names and expressions of the SELECT list, stars written out."""
    found: list[tuple[str, exp.Expr]] = []
    for item in query.expressions:
        star = isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))
        if star:
            table = item.table.lower() if isinstance(item, exp.Column) else ""
            parts = [part for part in scope.parts if not table or part.alias.lower() == table]
            found += [(column.name, exp.column(column.name, part.alias)) for part in parts
                      for column in part.node.columns[: part.node.visible]]  # fmt: skip
        elif isinstance(item, exp.Alias):
            found.append((item.alias, item.this))
        else:
            found.append((item.name if isinstance(item, exp.Column) else item.sql(), item))
    return found


def _alias_or(scope: Scope, selected: list[tuple[str, exp.Expr]]) -> Callable[[exp.Expr], Expression]:
    """ORDER BY may name a SELECT alias or a column of the input."""
    named = {name.lower(): found for name, found in selected}

    def read(found: exp.Expr) -> Expression:
        if isinstance(found, exp.Column) and not found.table and found.name.lower() in named:
            return typed(named[found.name.lower()], scope)
        return typed(found, scope)

    return read


def _expanded(named: dict[str, exp.Expr], scope: Scope) -> Callable[[exp.Expr], exp.Expr]:
    """HAVING and ORDER BY may use SELECT aliases inside of expressions, where no column has the name."""

    def expand(found: exp.Expr) -> exp.Expr:
        alias = isinstance(found, exp.Column) and not found.table and not scope.has(found.name)
        if alias and found.name.lower() in named:
            return exp.paren(named[found.name.lower()].copy())
        return found

    return expand


def _group_keys(query: exp.Select, scope: Scope, selected: list[tuple[str, exp.Expr]]) -> list[tuple[str, Expression]]:
    """GROUP BY columns under their SELECT alias; an alias or a number may stand for an expression."""
    group = query.args.get("group")
    keys: list[tuple[str, Expression]] = []
    named = {name.lower(): found for name, found in selected}
    if group is not None and {name for name, value in group.args.items() if value} - {"expressions"}:
        raise ViewError("GROUP BY takes columns and expressions only: no ROLLUP, CUBE or ALL")
    for found in group.expressions if group is not None else ():
        meant = found
        if isinstance(found, exp.Literal) and found.is_int:
            if not 1 <= int(found.this) <= len(selected):
                raise ViewError(f"GROUP BY {found.sql()}: there is no such column in the SELECT list")
            meant = selected[int(found.this) - 1][1]
        elif isinstance(found, exp.Column) and not found.table and not scope.has(found.name):
            meant = named.get(found.name.lower(), found)
        expression = typed(meant, scope)
        if expression.type is Type.RELATION:
            raise ViewError(f"rows cannot be grouped by {expression}, which holds a relation")
        keys.append((_key_name(expression, meant, scope, selected), expression))
    return keys


def _key_name(expression: Expression, meant: exp.Expr, scope: Scope, selected: list[tuple[str, exp.Expr]]) -> str:
    for name, found in selected:
        if not is_aggregate(found) and typed(found, scope) == expression:
            return name
    return meant.name if isinstance(meant, exp.Column) else meant.sql()


def _condition(found: exp.Expr, scope: Scope) -> Expression:
    condition = typed(found, scope)
    if condition.type not in (Type.BOOLEAN, Type.NULL):
        raise ViewError(f"WHERE needs a condition, and {condition} is {condition.type.value}")
    return condition


def _conjuncts(found: exp.Expr) -> Iterable[exp.Expr]:
    if isinstance(found, exp.Paren):
        yield from _conjuncts(found.this)
    elif isinstance(found, exp.And):
        yield from _conjuncts(found.this)
        yield from _conjuncts(found.expression)
    else:
        yield found


def _not_exists(found: exp.Expr) -> exp.Select | None:
    inner = found.this if isinstance(found, exp.Not) else None
    inner = inner.this if isinstance(inner, exp.Paren) else inner
    query = inner.this if isinstance(inner, exp.Exists) else None
    return query if isinstance(query, exp.Select) else None


def _conditions(join: exp.Join, scope: Scope, part: Part) -> list[exp.Expr]:
    """ON, or USING written out."""
    using = join.args.get("using") or ()
    found: list[exp.Expr] = []
    for name in using:
        owner = next((p.alias for p in scope.parts if Scope((p,)).has(name.name)), scope.parts[0].alias)
        found.append(exp.EQ(this=exp.column(name.name, owner), expression=exp.column(name.name, part.alias)))
    if join.args.get("on") is not None:
        found += _conjuncts(join.args["on"])
    if not found:
        raise ViewError(NO_EQUALITY)
    return found


def _equalities(
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


def _joint_names(left: tuple[str, ...], scope: Scope, part: Part) -> tuple[str, ...]:
    """Key names of a join: colliding ones as relation.column."""
    right = part.node.key_names
    first = scope.parts[0]
    owner = first.name if first.name.lower() != part.name.lower() else first.alias
    other = part.name if first.name.lower() != part.name.lower() else part.alias
    single = len(scope.parts) == 1
    lefts = [f"{owner}.{name}" if single and name in right else name for name in left]
    ends = {name.rpartition(".")[2] for name in left}
    rights = [f"{other}.{name}" if name in left or name in ends else name for name in right]
    return (*lefts, *rights)


# --- UNION and EXCEPT ------------------------------------------------------------------------------------------------


def _branches(query: exp.Expr) -> Iterable[exp.Expr]:
    """A UNION ALL of UNION ALLs is one merge."""
    for side in (query.this, query.expression):
        flat = isinstance(side, exp.Union) and bool(side.args.get("distinct")) == bool(query.args.get("distinct"))
        if flat and not side.args.get("limit") and not side.args.get("order"):
            yield from _branches(side)
        else:
            yield side


def _same_columns(nodes: Sequence[Node], what: str) -> list[Type]:
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


def _common_kind(kinds: Iterable[Kind]) -> Kind:
    found = set(kinds)
    return found.pop() if len(found) == 1 else Kind.SO_FAR


def _no_relations(node: Node, what: str) -> None:
    for column in node.columns[: node.visible]:
        if column.type is Type.RELATION:
            raise ViewError(f"{what} cannot compare column {column.name}, which holds a relation")


def _label(query: exp.Expr) -> str:
    table = query.find(exp.Table)
    return table.name if table is not None else "query"


def _labels(branches: Sequence[exp.Expr]) -> list[str]:
    """The relation that each branch reads first; equal names are numbered."""
    found: list[str] = []
    for branch in branches:
        label = _label(branch)
        same = sum(other == label or other.startswith(f"{label}.") for other in found)
        found.append(label if not same else f"{label}.{same + 1}")
    return found
