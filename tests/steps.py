"""Counting work instead of time: how many calls a piece of code makes, and a budget that stops it.

A clock tells of the machine, a count of the code: the same on every machine and every day.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class OverBudget(Exception):
    """The code made more calls than it was given."""


def steps(work: Callable[[], Any], budget: int = 20_000_000) -> int:
    """How many calls (of Python or C, and resumptions of generators) the work makes; OverBudget beyond the budget."""
    count = 0

    def on_event(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1
            if count > budget:
                raise OverBudget(f"more than {budget:,} steps")

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
