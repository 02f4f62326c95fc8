"""The checks themselves: bugs that are planted must be found (a checker that passes everything checks nothing)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.views.recompute import check_final
from tests.views.test_engine import SQL, stream
from tocsin.views import aggregate, best, group, relation, value, without
from tocsin.views.value import SoFar
from tocsin.views.window import Closed, Windows

BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "final too early": (Windows, "unknown", lambda self, key: 0),
    "never final": (Windows, "touched", lambda self, advance: []),
    "a deletion that is taken back": (without.WithoutStep, "_is_deleted", lambda self, at: False),
    "at least one too many": (aggregate.CountTally, "result", lambda self, more: value.interval(
        self.number + 1, self.number + (more != 0), None if more is None else self.number + more + 1)),
    "the latest is never taken": (aggregate.LatestTally, "add", lambda self, values, order, key: None),
    "best without an end": (best.BestStep, "_is_best", lambda self, key, top, complete: True),
    "beaten rows kept": (best.BestStep, "_tell", lambda self, changed, top, complete: list(changed.values())),
    "a join that forgets who left": (relation.Side, "remove", lambda self, key: None),
    "never quiet": (group.GroupStep, "is_quiet", lambda self: False),
    "what is new taken for a repeat": (Closed, "covers", lambda self, cells: True),
    "a value forgotten while rows of it may come": (Windows, "is_open", lambda self, key: False),
    "a temporary row called final": (relation.Row, "is_final", lambda self: True),
    "sums of what is there so far called final": (aggregate, "total", lambda members, more: aggregate.exact_sum(
        aggregate._now(members))),
}  # fmt: skip


def check_many() -> None:
    for seed in range(30):
        check_final(SQL, stream(seed, length=12 if seed < 10 else 40))


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug, monkeypatch):
    owner, name, wrong = BUGS[bug]
    monkeypatch.setattr(owner, name, wrong)
    if owner is aggregate:
        monkeypatch.setitem(aggregate.FUNCTIONS, "sum", wrong)
    with pytest.raises((AssertionError, KeyError, ValueError, IndexError)):
        check_many()


def test_without_a_bug_nothing_is_found():
    check_final(SQL, stream(1))
    assert SoFar(True) != SoFar(False)
