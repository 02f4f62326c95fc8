"""The same SQL from nothing, by DuckDB; and a reader of printed values that knows nothing of tocsin.views.value."""

from __future__ import annotations

import json
import math
import random
import re
from typing import Any

import duckdb

from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder
from tocsin.views.told import Change

SETTINGS = """SET integer_division = true; SET ieee_floating_point_ops = false;
SET threads = 1; SET error_on_division_by_zero = false;"""
LATEST = re.compile(r"\blatest\((\w+)\)")  # the one word that DuckDB lacks: it goes by the tick


def recompute(sql: str, items: list[dict[str, Any]], plainly: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Every view over the events, each as a list of rows. plainly: as the plans come, for the optimizer of DuckDB 2.0
    takes two columns for one in some joins of an aggregate with itself (random views, seed 51125)."""
    base = duckdb.connect()
    base.execute(SETTINGS + ("PRAGMA disable_optimizer;" if plainly else ""))
    statements = [part.strip() for part in _for_duckdb(sql).split(";") if part.strip()]
    relations = [part for part in statements if "RELATION" in part.upper().split("(")[0]]
    for part in relations:
        base.execute(part.replace("RELATION", "TABLE", 1))
    for name in {item["relation"] for item in items}:
        by_tick = {item["tick"]: item for item in items if item["relation"] == name and "tick" in item}
        rows = list(by_tick.values())  # a repeated event is one event
        columns = [column for column, *_ in base.execute(f"DESCRIBE {name}").fetchall()]
        if rows:
            marks = ", ".join("unnest(?)" for _ in columns)
            base.execute(
                f"INSERT INTO {name} SELECT {marks}", [[row.get(column) for row in rows] for column in columns]
            )
    found = {}
    for part in statements:
        if part not in relations:
            base.execute(part)
            name = part.split()[2]
            result = base.execute(f"SELECT * FROM {name}")
            names = [column[0] for column in result.description]
            found[name] = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    base.close()
    return found


def _for_duckdb(sql: str) -> str:
    return LATEST.sub(r"arg_max(\1, tick)", sql).replace("latest(", "arg_max(")


def canonical(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as a multiset that can be compared: reals to 9 digits, whole reals as integers."""
    return sorted(json.dumps({name: _number(value) for name, value in row.items()}, sort_keys=True) for row in rows)


def _number(value: Any) -> Any:
    if isinstance(value, float) and not isinstance(value, bool):
        return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.9g}")
    return value


def evolves(value: Any, later: Any) -> bool:
    """Whether a printed value may be followed by another: the dumb twin of may_evolve."""
    if not isinstance(value, dict):
        return bool(value == later)
    if "unknown" in value or "so_far" in value:
        return not (isinstance(later, dict) and "unknown" in later and "so_far" in value)
    if "latest" in value:
        return not isinstance(later, dict) or ("latest" in later and _is_later(value, later))
    low, high = _ends(value)
    if isinstance(later, dict):
        if not later.keys() & {"at_least", "at_most", "between"}:
            return False
        low2, high2 = _ends(later)
    else:
        if later is None:
            return False
        low2 = high2 = later
    return bool(low <= low2 and high2 <= high)


def _is_later(value: dict[str, Any], later: dict[str, Any]) -> bool:
    return bool(value["tick"] < later["tick"] or value == later or
                (value["tick"] == later["tick"]))  # several sources may share a tick  # fmt: skip


def _ends(value: dict[str, Any]) -> tuple[float, float]:
    if "between" in value:
        return value["between"][0], value["between"][1]
    return value.get("at_least", -math.inf), value.get("at_most", math.inf)


class Watcher:
    """A subscriber who believes every word: it fails when something that it was told turns out wrong."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Change] = {}
        self.told: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def see(self, change: Change) -> None:
        key = (change.view, json.dumps(change.key, sort_keys=True))
        before = self.rows.get(key)
        assert before is None or not before.final, f"{before} was final, then came {change}"
        assert before is not None or change.row is not None, f"{change} left without having been there"
        if before is not None and change.row is None:
            assert before.row is not None, f"{change} left twice"
        if change.row is not None:
            for earlier in self.told.setdefault(key, []):
                for name, value in earlier.items():
                    assert evolves(value, change.row[name]), f"{name}: {value} was told, then came {change}"
            self.told[key].append(change.row)
            plain = not any(isinstance(value, dict) for value in change.row.values())
            assert plain or not change.final, f"{change} is called final"
        self.rows[key] = change

    def present(self, view: str) -> list[dict[str, Any]]:
        return [change.row for (name, _), change in self.rows.items() if name == view and change.row is not None]


def run(sql: str, items: list[dict[str, Any]], batch: int = 1, watch: bool = True) -> tuple[Engine, Watcher]:
    """Runs the views over the events, watched."""
    compiled = compile_views(sql)
    assert not compiled.refused, compiled.refused
    engine, decoder, watcher = Engine(compiled.plan), Decoder(compiled.plan.relations), Watcher()
    for change in engine.state():  # an aggregate of everything is there before any event
        watcher.see(change)
    for at in range(0, len(items), batch):
        for change in engine.step([decoder.item(item) for item in items[at : at + batch]]):
            if watch:
                watcher.see(change)
    return engine, watcher


def check_final(sql: str, items: list[dict[str, Any]], batch: int = 1) -> Engine:
    """Once every relation is closed, every view equals its recomputation and every row is final."""
    engine, watcher = run(sql, items, batch)
    wanted = recompute(sql, items)
    for view, rows in wanted.items():
        found = [change.row for change in engine.state() if change.view == view]
        assert canonical(found) == canonical(rows), view  # type: ignore[arg-type]
        assert canonical(watcher.present(view)) == canonical(rows), view
    assert all(change.final for change in engine.state())
    return engine


def interleave(chance: random.Random, *sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One order of arrival that keeps each source's own order."""
    order = [at for at, source in enumerate(sources) for _ in source]
    chance.shuffle(order)
    following = [iter(source) for source in sources]
    return [next(following[at]) for at in order]
