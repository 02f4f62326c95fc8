"""Random SQL over the relations of `test_engine`: what DuckDB computes from it, we must say as well.

Reals have few binary digits, so that no order of adding shows; ORDER BY names every column, so that ties look equal.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

INTEGER, REAL, TEXT, BOOLEAN, MEAN = "integer", "real", "text", "boolean", "mean"
"""A mean is shown, and not read: it is rounded."""
Columns = list[tuple[str, str]]
SOURCES: dict[str, Columns] = {
    "r": [("tick", INTEGER), ("k", TEXT), ("x", INTEGER), ("y", REAL)],
    "s": [("tick", INTEGER), ("k", TEXT), ("z", INTEGER)],
}
LITERALS = {
    INTEGER: ["-2", "0", "1", "3"], REAL: ["5e-1", "2e0", "-125e-2"], TEXT: ["'a'", "'b'", "'xy'"],
    BOOLEAN: ["TRUE", "FALSE"],
}  # fmt: skip
FORMS: dict[str, list[str]] = {
    INTEGER: [
        "({i} + {i})", "({i} - {i})", "({i} * 3)", "({i} * -2)", "({i} / 2)", "({i} / 0)", "({i} / -3)", "({i} % 3)",
        "(- {i})", "abs({i})", "coalesce({i}, {i})", "CASE WHEN {b} THEN {i} ELSE {i} END",
        "CASE WHEN {b} THEN {i} END", "length({t})", "nullif({i}, {i})", "greatest({i}, {i})", "least({i}, {i})",
        "if({b}, {i}, {i})",
    ],
    REAL: [
        "({r} + {r})", "({r} - {i})", "({r} * 5e-1)", "({r} / 4)", "round({r})", "coalesce({r}, {r})",
        "CAST({i} AS DOUBLE)", "abs({r})", "greatest({r}, {i})",
    ],
    TEXT: [
        "({t} || {t})", "upper({t})", "substr({t}, 1, 1)", "substr({t}, -1, 2)", "coalesce({t}, {t})", "trim({t})",
        "CASE {t} WHEN 'a' THEN {t} ELSE {t} END",
    ],
    BOOLEAN: [
        "({i} < {i})", "({i} >= {r})", "({r} = {i})", "({t} <> {t})", "({t} <= {t})", "({i} IS NULL)",
        "({t} IS NOT NULL)", "({i} IN (1, 2, {i}))", "({i} NOT IN (3, {i}))", "({i} BETWEEN 0 AND {i})",
        "({t} LIKE 'a%')", "({t} NOT LIKE '%b%')", "({t} ILIKE '_')", "({b} AND {b})", "({b} OR {b})", "(NOT {b})",
        "({i} IS DISTINCT FROM {i})", "({b} IS TRUE)",
    ],
}  # fmt: skip
LETTERS = {"i": INTEGER, "r": REAL, "t": TEXT, "b": BOOLEAN}


def expression(chance: Random, columns: Columns, kind: str, depth: int = 2) -> str:
    """Of a type, over some columns."""
    fitting = [name for name, own in columns if own == kind]
    if depth == 0 or chance.random() < 0.3:
        return chance.choice(fitting if fitting and chance.random() < 0.8 else LITERALS[kind])
    made = chance.choice(FORMS[kind])
    for letter, inner in LETTERS.items():
        while f"{{{letter}}}" in made:
            made = made.replace(f"{{{letter}}}", expression(chance, columns, inner, depth - 1), 1)
    return made


class RandomViews:
    """Some views over the sources and each other. `keeps` says whether SQL can be kept: what is refused is left out."""

    def __init__(self, chance: Random, number: int, keeps: Callable[[str], bool]) -> None:
        self._chance = chance
        self._known = dict(SOURCES)
        self.sql = ""
        for at in range(number):
            query, columns = self._query()
            sql = f"{self.sql}CREATE VIEW v{at} AS {query};\n"
            if keeps(sql):
                self.sql, self._known[f"v{at}"] = sql, columns

    def _query(self) -> tuple[str, Columns]:
        kind = self._chance.random()
        if kind < 0.3:
            return self._sides()
        return self._rows() if kind < 0.6 else self._groups()

    def _sides(self) -> tuple[str, Columns]:
        """UNION or EXCEPT."""
        columns = [(f"c{at}", self._chance.choice([INTEGER, TEXT, REAL])) for at in range(self._chance.randint(1, 2))]
        made = []
        for _ in range(2):
            start, there, _ = self._from()
            outputs = ", ".join(f"{self._of(there, kind)} AS {name}" for name, kind in columns)
            made.append(f"SELECT {outputs} FROM {start}")
        return self._chance.choice([" UNION ALL ", " UNION ", " EXCEPT "]).join(made), columns

    def _rows(self) -> tuple[str, Columns]:
        start, there, _ = self._from()
        kinds = [self._chance.choice([INTEGER, REAL, TEXT, BOOLEAN]) for _ in range(self._chance.randint(1, 3))]
        columns = [(f"c{at}", kind) for at, kind in enumerate(kinds)]
        outputs = ", ".join(f"{self._of(there, kind)} AS {name}" for name, kind in columns)
        if self._chance.random() < 0.2:
            return f"SELECT DISTINCT {outputs} FROM {start}", columns
        return f"SELECT {outputs} FROM {start}" + self._best([name for name, _ in columns]), columns

    def _groups(self) -> tuple[str, Columns]:
        start, there, source = self._from()
        chance, columns, outputs = self._chance, Columns(), list[str]()
        for at in range(chance.choice([0, 1, 1, 2])):
            name, kind = chance.choice(there)
            columns.append((f"g{at}", kind))
            outputs.append(name)
        keys = [chance.choice([key, str(at + 1)]) for at, key in enumerate(outputs)]
        for at in range(chance.randint(1, 3)):
            made, kind = self._aggregate(there, source)
            outputs.append(made + (f" FILTER (WHERE {self._of(there, BOOLEAN)})" if chance.random() < 0.15 else ""))
            columns.append((f"m{at}", kind))
        shown = ", ".join(f"{made} AS {name}" for made, (name, _) in zip(outputs, columns, strict=True))
        query = f"SELECT {shown} FROM {start}" + (f" GROUP BY {', '.join(keys)}" if keys else "")
        if chance.random() < 0.25:
            value = self._of(there, INTEGER)
            tests = ["count(*) > 1", f"max({value}) >= 2", f"min({value}) < 2 OR count(*) = 1", f"sum({value}) < 4"]
            query += f" HAVING {chance.choice(tests)}"
        means = any(kind == MEAN for _, kind in columns)
        return query + ("" if means else self._best([name for name, _ in columns])), columns

    def _aggregate(self, there: Columns, source: str) -> tuple[str, str]:
        function = self._chance.choice(["count", "sum", "max", "min", "arg_max", "avg"])
        if function == "arg_max" and source in SOURCES:
            name, kind = self._chance.choice(there)
            return f"arg_max({name}, a.tick)", kind
        if function in ("count", "arg_max"):
            return self._chance.choice(["count(*)", f"count({self._of(there, TEXT)})"]), INTEGER
        kind = INTEGER if function == "avg" else self._chance.choice([INTEGER, REAL])
        return f"{function}({self._of(there, kind)})", MEAN if function == "avg" else kind

    def _best(self, names: list[str]) -> str:
        if self._chance.random() > 0.2:
            return ""
        turns = [" DESC", "", " NULLS FIRST", " DESC NULLS FIRST"]
        return f" ORDER BY {', '.join(name + self._chance.choice(turns) for name in names)} LIMIT 3"

    def _of(self, there: Columns, kind: str) -> str:
        return expression(self._chance, there, kind)

    def _from(self) -> tuple[str, Columns, str]:
        """FROM and WHERE, the columns that are there, and the only relation if there is one."""
        chance = self._chance
        first = chance.choice([*SOURCES, *self._known])
        there, start = self._columns(first, "a"), f"{first} AS a"
        joined = ["b", "d"][: chance.choice([0, 0, 1, 1, 2])]
        for alias in joined:
            other = chance.choice([*SOURCES, *self._known])
            beside = self._columns(other, alias)
            pairs = [(one, two) for one, kind in there for two, own in beside if kind == own != BOOLEAN]
            if pairs:
                one, two = chance.choice(pairs)
                also = f" AND {self._of(there + beside, BOOLEAN)}" if chance.random() < 0.3 else ""
                start, there = f"{start} JOIN {other} AS {alias} ON {one} = {two}{also}", there + beside
        tests = [self._of(there, BOOLEAN)] if chance.random() < 0.4 else []
        texts = [name for name, kind in there if kind == TEXT]
        if texts and chance.random() < 0.15:
            inner = self._of([("e.z", INTEGER), ("e.tick", INTEGER)], BOOLEAN)
            tests.append(f"NOT EXISTS (SELECT 1 FROM s AS e WHERE e.k = {chance.choice(texts)} AND {inner})")
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return start + where, there, "" if joined else first

    def _columns(self, relation: str, alias: str) -> Columns:
        found = [(f"{alias}.{name}", kind) for name, kind in self._known[relation] if kind != MEAN]
        return found or [("1", INTEGER)]
