"""The cheapest 3 at a distance: what to push and keep, and what to pull for (relational subscriptions §3.2, §5).

Flights come, change their price and sell out. Upstream has all of them; the subscriber's broker keeps the best 3 and
some spare ones, is pushed changes of these only, and pulls when fewer than 3 are left. More spare rows: more pushes and
more rows kept, fewer pulls, each of which makes a subscriber wait. `all` pushes and keeps everything. The promise: the
result is always that of the whole table, pulls fall as the spare rows grow, and 3 + 2 needs less than half of all
pushes.
"""

from __future__ import annotations

import argparse
import json
from bisect import bisect_left, insort
from random import Random
from typing import Any

from tocsin.views.knowledge import BestTracker, pull

SPARES = (0, 1, 2, 4, 8, 16)
NUMBER = 3


def changes(number: int, flights: int, seed: int) -> list[tuple[int, tuple[int, int] | None]]:
    """(flight, its place in the order of prices; None: it is sold out)."""
    chance = Random(seed)
    there: dict[int, None] = {}
    made: list[tuple[int, tuple[int, int] | None]] = []
    for at in range(number):
        flight = chance.randrange(flights)
        if flight in there and chance.random() < 0.35:
            del there[flight]
            made.append((flight, None))
        else:
            there[flight] = None
            made.append((flight, (chance.randint(20, 999), at)))
    return made


def at_a_distance(made: list[tuple[int, tuple[int, int] | None]], spare: int) -> dict[str, Any]:
    """What goes over the link with so many spare rows."""
    rows: dict[int, tuple[int, int]] = {}
    line: list[tuple[tuple[int, int], int]] = []  # the whole table in order: what is right
    tracker = BestTracker(NUMBER, spare)
    pushed = pulled = kept_most = wrong = 0
    for flight, place in made:
        before = rows.pop(flight, None)
        was_tracked = before is not None and tracker.wants(before)
        if before is not None:
            del line[bisect_left(line, (before, flight))]
        if place is not None:
            rows[flight] = place
            insort(line, (place, flight))
        request = None
        if was_tracked or (place is not None and tracker.wants(place)):
            pushed += 1
            request = tracker.remove(flight) if place is None else tracker.put(flight, place)
        while request is not None:
            answer, exhausted = pull(rows, request)
            pulled += len(answer)
            tracker.answer(answer, exhausted)
            request = None
        kept_most = max(kept_most, len(tracker.kept()))
        wrong += tracker.best() != [key for _, key in line[:NUMBER]]
    return {"spare": spare, "pushes": pushed, "pulls": tracker.pulls, "rows_pulled": pulled, "rows_kept": kept_most,
            "wrong": wrong}  # fmt: skip


def run(number: int, flights: int, seed: int = 1) -> dict[str, Any]:
    """The same changes with ever more spare rows, and pushed whole."""
    made = changes(number, flights, seed)
    ways = [at_a_distance(made, spare) for spare in SPARES]
    alive = len({flight for flight, _ in made})
    found: dict[str, Any] = {
        "changes": number,
        "flights": flights,
        "ways": ways,
        "all": {"pushes": number, "rows_kept": alive},
    }
    pulls = [way["pulls"] for way in ways]
    two = next(way for way in ways if way["spare"] == 2)
    found["holds"] = (
        not any(way["wrong"] for way in ways)
        and pulls == sorted(pulls, reverse=True)
        and pulls[0] > two["pulls"]
        and two["pushes"] + two["rows_pulled"] < number / 2
    )
    return found


def main() -> None:
    """One JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    small = parser.parse_args().size == "small"
    print(json.dumps(run(2_000, 200) if small else run(100_000, 5_000)))


if __name__ == "__main__":
    main()
