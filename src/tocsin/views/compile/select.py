"""SELECT, UNION and EXCEPT to nodes of the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from tocsin.errors import ViewError
from tocsin.views.compile.aggregates import Aggregates, is_aggregate
from tocsin.views.compile.expressions import Part, Scope, typed
from tocsin.views.compile.joins import (
    check_side,
    conditions,
    conjuncts,
    equalities,
    is_equality,
    joint_names,
    not_exists,
)
from tocsin.views.compile.shape import check
from tocsin.views.compile.unions import branches, common_kind, label, labels, no_relations, same_columns
from tocsin.views.expression import Column, Expression, Kind, Type, columns_of, shifted
from tocsin.views.plan import Best, Group, Join, Merge, Node, Order, Project, Relation, Select, Without, renamed_source


class Query:
    """Compiles one query; `lookup` knows the relations and views, `share` makes equal nodes one."""

    def __init__(self, lookup: Callable[[str], Node], share: Callable[[Node], Node]) -> None:
        self._lookup, self._share = lookup, share
        self._local: dict[str, Node] = {}

    def node(self, query: exp.Expr) -> Node:
        """The relation that a query describes."""
        if isinstance(query, exp.Paren):
            return self.node(query.this)
        self._with(query)
        if isinstance(query, exp.Subquery):
            check(query)
            return self._limited(query, self.node(query.this))
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
            check(part)
            self._local[part.alias.lower()] = self.node(part.this)

    # --- SELECT ------------------------------------------------------------------------------------------------------

    def _select(self, query: exp.Select) -> Node:
        check(query)
        node, scope = self._from(query)
        selected = _selected(query, scope)
        node = self._where(query, node, scope, selected)
        group = query.args.get("group")
        if group is not None or query.args.get("having") or any(is_aggregate(found) for _, found in selected):
            node, outputs, order = self._grouped(query, node, scope, selected)
        else:
            outputs = [(name, typed(found, scope)) for name, found in selected]
            order = _alias_or(scope, selected)
        distinct = query.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise ViewError("DISTINCT ON is not kept: write GROUP BY with max, min or latest")
        if distinct and (query.args.get("order") or query.args.get("limit")):
            raise ViewError("ORDER BY … LIMIT over DISTINCT: put the DISTINCT into a view of its own")
        node = self._best(query, node, order)
        node = self._project(node, outputs)
        return self._distinct(node) if distinct else node

    def _from(self, query: exp.Select) -> tuple[Node, Scope]:
        start = query.args.get("from_")
        if start is None:
            raise ViewError("a view reads a relation: write SELECT … FROM relation")
        part = self._part(start.this, 0)
        node, scope = part.node, Scope((part,))
        where = query.args.get("where")
        tests = list(conjuncts(where.this)) if where is not None else []
        for join in query.args.get("joins") or ():
            node, scope = self._join(node, scope, join, tests)
        return node, scope

    def _part(self, table: exp.Expr, offset: int) -> Part:
        if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Query):
            return Part(table.alias, table.alias or label(table.this), self.node(table), offset)
        if not isinstance(table, exp.Table) or table.args.get("db"):
            raise ViewError(f"FROM needs the name of a relation or view, not {table.sql()}")
        check(table)
        node = self._local.get(table.name.lower()) or self._lookup(table.name)
        name = node.name if isinstance(node, Relation) else table.name
        return Part(table.alias or table.name, name, node, offset)

    def _join(self, left: Node, scope: Scope, join: exp.Join, where: Sequence[exp.Expr]) -> tuple[Node, Scope]:
        check(join)
        check_side(join)
        part = self._part(join.this, len(left.columns))
        if part.alias.lower() in (other.alias.lower() for other in scope.parts):
            raise ViewError(f"{part.alias} is joined twice: give each an alias")
        both = Scope((*scope.parts, part))
        tests = conditions(join, scope, part) or [one for one in where if is_equality(one, both)]
        left_on, right_on, rest = equalities(tests, both, part)
        if not left_on:
            given = " and ".join(str(condition) for condition in rest)
            raise ViewError(
                f"a JOIN needs an equality of both sides, and the one with {part.alias or 'the query'} has "
                f"{given or 'none'}: write JOIN … ON a.column = b.column"
            )
        names = joint_names(both)
        node = self._share(Join(left, part.node, tuple(left_on), tuple(right_on), names))
        for condition in rest:
            node = self._share(Select(node, condition))
        return node, both

    def _where(self, query: exp.Select, node: Node, scope: Scope, selected: list[tuple[str, exp.Expr]]) -> Node:
        where = query.args.get("where")
        if where is None:
            return node
        expand = _expanded({name.lower(): found for name, found in selected}, scope)
        tests: list[exp.Expr] = []
        deletions: list[exp.Select] = []
        for found in conjuncts(where.this):
            deletion = not_exists(found)
            if deletion is None:
                tests.append(found.copy().transform(expand))
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
        check(inner)
        if table is None or any(inner.args.get(part) for part in ("joins", "group", "having", "limit", "with_")):
            raise ViewError("NOT EXISTS needs SELECT … FROM one relation or view WHERE an equality with the outer row")
        if any(map(is_aggregate, inner.expressions)):
            raise ViewError("NOT EXISTS of an aggregate is never true, for there is always one row: write SELECT 1")
        part = self._part(table.this, len(node.columns))
        outer = Scope(tuple(p for p in scope.parts if p.alias.lower() != part.alias.lower()))
        where = inner.args.get("where")
        tests = list(conjuncts(where.this)) if where is not None else []
        on, deletions_on, rest = equalities(tests, Scope((*outer.parts, part)), part, Scope((part,)))
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
            found = _numbered(found, selected)
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
        no_relations(node, "DISTINCT")
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
        parts = []
        for part in order.expressions:
            by = read(part.this)
            if by.type is Type.RELATION:
                raise ViewError(f"rows cannot be ordered by {by}, which holds a relation")
            parts.append(Order(by, bool(part.args.get("desc")), bool(part.args.get("nulls_first"))))
        return self._share(Best(node, tuple(parts), _limit(limit)))

    def _limited(self, query: exp.Expr, node: Node) -> Node:
        """ORDER BY … LIMIT after UNION or EXCEPT."""
        scope = Scope((Part("", "", node, 0),))
        named = [(column.name, exp.column(column.name, quoted=True)) for column in node.columns[: node.visible]]
        return self._best(query, node, lambda found: typed(_numbered(found, named), scope))

    # --- UNION and EXCEPT --------------------------------------------------------------------------------------------

    def _union(self, query: exp.Union) -> Node:
        check(query)
        sides = list(branches(query))
        nodes = [self.node(side) for side in sides]
        types = same_columns(nodes, "UNION ALL")
        named = labels(sides)
        kinds = [common_kind(node.columns[at].kind for node in nodes) for at in range(len(types))]
        first = nodes[0]
        columns = [Column(at, types[at], kinds[at], first.columns[at].name) for at in range(len(types))]
        names: dict[str, Type] = {"source": Type.TEXT}
        for node, source in zip(nodes, named, strict=True):
            for name, at in zip(renamed_source(node.key_names, source), node.key, strict=True):
                names.setdefault(name, node.columns[at].type)
        for name, kind in names.items():
            columns.append(Column(len(columns), kind, Kind.FINAL, name))
        merged = self._share(Merge(tuple(nodes), tuple(named), tuple(columns), tuple(names)))
        return self._distinct(merged) if query.args.get("distinct") else merged

    def _except(self, query: exp.Except) -> Node:
        if not query.args.get("distinct"):
            raise ViewError("EXCEPT ALL is not kept: write EXCEPT, or NOT EXISTS (…) to keep equal rows apart")
        check(query)
        left, right = self.node(query.left), self.node(query.right)
        same_columns([left, right], "EXCEPT")
        no_relations(left, "EXCEPT")
        if not set(left.key) <= set(range(left.visible)):
            left = self._distinct(left)
        on, deletions_on = left.columns[: left.visible], right.columns[: right.visible]
        return self._share(Without(left, right, on, deletions_on, nulls_are_equal=True))


# --- parts of a SELECT -----------------------------------------------------------------------------------------------


def _selected(query: exp.Select, scope: Scope) -> list[tuple[str, exp.Expr]]:
    """Names and expressions of the SELECT list, stars written out."""
    found: list[tuple[str, exp.Expr]] = []
    for item in query.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            check(star)
            table = item.table.lower() if isinstance(item, exp.Column) else ""
            parts = [part for part in scope.parts if not table or part.alias.lower() == table]
            if not parts:
                raise ViewError(f"{item.sql()}: there is no {item.table} here")
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
        found = _numbered(found, selected)
        if isinstance(found, exp.Column) and not found.table and found.name.lower() in named:
            return typed(named[found.name.lower()], scope)
        return typed(found, scope)

    return read


def _numbered(found: exp.Expr, selected: Sequence[tuple[str, exp.Expr]], clause: str = "ORDER BY") -> exp.Expr:
    """A number stands for that column of the SELECT list."""
    if not isinstance(found, exp.Literal) or not found.is_int:
        return found
    if not 1 <= int(found.this) <= len(selected):
        raise ViewError(f"{clause} {found.sql()}: there is no such column in the SELECT list")
    return selected[int(found.this) - 1][1]


def _limit(limit: exp.Expr) -> int:
    """LIMIT k, or FETCH FIRST k ROWS ONLY."""
    options = limit.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise ViewError("a share of the rows, or ties, are not kept: write LIMIT k")
    number = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
    if not isinstance(number, exp.Literal) or not number.is_int or int(number.this) < 1:
        raise ViewError("LIMIT needs a number of rows, 1 or more")
    return int(number.this)


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
    names: list[tuple[str, str]] = []
    named = {name.lower(): found for name, found in selected}
    if group is not None and {name for name, value in group.args.items() if value} - {"expressions"}:
        raise ViewError("GROUP BY takes columns and expressions only: no ROLLUP, CUBE or ALL")
    for found in group.expressions if group is not None else ():
        meant = _numbered(found, selected, "GROUP BY")
        if isinstance(found, exp.Column) and not found.table and not scope.has(found.name):
            meant = named.get(found.name.lower(), found)
        expression = typed(meant, scope)
        if expression.type is Type.RELATION:
            raise ViewError(f"rows cannot be grouped by {expression}, which holds a relation")
        if expression not in [key for _, key in keys]:
            names.append(_key_names(expression, meant, scope, selected))
            keys.append((names[-1][0], expression))
    short = [name for name, _ in names]
    return [
        (whole if short.count(name) > 1 else name, key) for (name, whole), (_, key) in zip(names, keys, strict=True)
    ]


def _key_names(
    expression: Expression, meant: exp.Expr, scope: Scope, selected: list[tuple[str, exp.Expr]]
) -> tuple[str, str]:
    """The name of a key, and the one that it has where another is called the same."""
    for name, found in selected:
        if not is_aggregate(found) and typed(found, scope) == expression:
            return name, name
    return (meant.name if isinstance(meant, exp.Column) else meant.sql()), meant.sql()


def _condition(found: exp.Expr, scope: Scope) -> Expression:
    condition = typed(found, scope)
    if condition.type not in (Type.BOOLEAN, Type.NULL):
        raise ViewError(f"WHERE needs a condition, and {condition} is {condition.type.value}")
    return condition
