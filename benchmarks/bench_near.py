"""Events near me (relational subscriptions §5): a stateful subscription as a stateless one that changes.

Somebody moves over a map of cells, and events happen in cells. Stateful: all events and all moves go to the broker that
joins them. Dynamic stateless: the broker tells upstream which cell is wanted (selective curiosity), and again when that
changes; only events there are sent. Both must show the same events, none twice and none missing when the cell changes.
The promise: far fewer messages, by about the number of cells.
"""

from __future__ import annotations

import argparse
import json
from random import Random
from typing import Any

from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Event

SQL = """
CREATE RELATION happened (tick BIGINT, cell BIGINT, what BIGINT);
CREATE RELATION me (tick BIGINT, cell BIGINT, since BIGINT, until BIGINT);
CREATE VIEW near AS SELECT h.what, h.cell FROM happened h JOIN me m ON h.cell = m.cell
    WHERE h.tick >= m.since AND h.tick < m.until;
"""
Step = tuple[str, int]
"""("move", cell) or ("event", cell)."""


def walk(number: int, cells: int, events_per_move: int, seed: int) -> list[Step]:
    """A way over the map, and what happens meanwhile."""
    chance = Random(seed)
    here = chance.randrange(cells)
    made: list[Step] = [("move", here)]
    for _ in range(number):
        if chance.random() < 1 / events_per_move:
            here = (here + chance.choice((-1, 1))) % cells
            made.append(("move", here))
        else:
            made.append(("event", chance.randrange(cells)))
    return made


def stateful(steps: list[Step]) -> tuple[list[int], int]:
    """Everything is sent and joined; what is shown, and how many messages that took."""
    engine = Engine(compile_views(SQL).plan)
    moves = [at for at, (kind, _) in enumerate(steps) if kind == "move"]
    ends = dict(zip(moves, [*moves[1:], len(steps)], strict=True))
    items = []
    for at, (kind, cell) in enumerate(steps):
        if kind == "move":
            items.append(Event("me", at + 1, (at + 1, cell, at + 1, ends[at] + 1)))
        else:
            items.append(Event("happened", at + 1, (at + 1, cell, at)))
    engine.step(items)
    return sorted(row.cells[0] for row in engine.rows("near").values()), len(steps)


def dynamic(steps: list[Step]) -> tuple[list[int], int]:
    """Only the wanted cell is sent; a move is two changes of curiosity, of the old cell and of the new one."""
    wanted = set[int]()  # upstream's memory: the subscription begins with nothing
    shown: list[int] = []
    messages = 0
    for at, (kind, cell) in enumerate(steps):
        if kind == "move":
            messages += len(wanted) + 1
            wanted = {cell}
        elif cell in wanted:
            messages += 1
            shown.append(at)
    return shown, messages


def run(number: int, cells: int, events_per_move: int = 50, seed: int = 1) -> dict[str, Any]:
    """Both ways over the same walk."""
    steps = walk(number, cells, events_per_move, seed)
    wanted, all_messages = stateful(steps)
    shown, messages = dynamic(steps)
    found: dict[str, Any] = {
        "steps": number, "cells": cells, "moves": sum(kind == "move" for kind, _ in steps), "shown": len(shown),
        "messages_stateful": all_messages, "messages_dynamic": messages,
        "times_fewer_messages": round(all_messages / max(1, messages), 1), "same": shown == wanted,
    }  # fmt: skip
    found["holds"] = found["same"] and found["times_fewer_messages"] > 3 and bool(shown)
    return found


def main() -> None:
    """One JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    small = parser.parse_args().size == "small"
    print(json.dumps(run(3_000, 64) if small else run(100_000, 400)))


if __name__ == "__main__":
    main()
