"""What a part of SQL may carry. Whatever else was written is refused by name: nothing is passed over in silence."""

from __future__ import annotations

from sqlglot import exp

from tocsin.errors import ViewError

USUAL = frozenset({"this", "expression", "expressions"})
MORE: dict[type[exp.Expr], frozenset[str]] = {
    exp.Between: frozenset({"low", "high"}),
    exp.Case: frozenset({"ifs", "default"}),
    exp.Cast: frozenset({"to"}),
    exp.Concat: frozenset({"safe"}),
    exp.DPipe: frozenset({"safe"}),
    exp.Count: frozenset({"big_int"}),
    exp.Greatest: frozenset({"ignore_nulls"}),
    exp.ILike: frozenset({"negate"}),
    exp.If: frozenset({"true", "false"}),
    exp.Least: frozenset({"ignore_nulls"}),
    exp.Like: frozenset({"negate"}),
    exp.Round: frozenset({"decimals"}),
    exp.Substring: frozenset({"start", "length"}),
    exp.Table: frozenset({"alias", "db"}),
    exp.Subquery: frozenset({"alias", "order", "limit", "offset", "with_"}),
    exp.CTE: frozenset({"alias"}),
    exp.TryCast: frozenset({"to", "safe"}),
    exp.Union: frozenset({"distinct", "order", "limit", "offset", "with_"}),
    exp.Except: frozenset({"distinct", "order", "limit", "offset", "with_"}),
    exp.Join: frozenset({"on", "using", "kind", "side", "method"}),
    exp.Select: frozenset(
        {"from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with_"}
    ),
}
CALLED = {
    "count": "a number of results", "decimals": "a number of digits", "locks": "FOR UPDATE", "sample": "TABLESAMPLE",
    "by_name": "BY NAME", "symmetric": "SYMMETRIC", "kind": "AS STRUCT",
}  # fmt: skip


def check(found: exp.Expr) -> None:
    """ViewError if it carries more than a view keeps."""
    allowed = USUAL | MORE.get(type(found), frozenset())
    for name, value in found.args.items():
        if value and name not in allowed:
            raise ViewError(f"{CALLED.get(name, name.rstrip('_').upper())} is not kept in a view: leave it out")
    alias = found.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.args.get("columns"):
        raise ViewError(f"{alias.sql()} renames columns: write SELECT column AS name in the query itself")
