"""What an operator remembers, as plain values: the checkpoint of an intermediate view (relational subscriptions §5).

Everything else in an operator is made from the plan. Values are dictionaries, tuples and the frozen values of a view,
so any codec that knows these can write a checkpoint.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tocsin.views.best import BestStep
from tocsin.views.group import Counted, GroupStep
from tocsin.views.relation import JoinStep, Side, Step
from tocsin.views.window import Closed, Windows
from tocsin.views.without import WithoutStep

KEPT: dict[type, tuple[str, ...]] = {
    JoinStep: ("_left", "_right", "_ghosts"),
    WithoutStep: (
        "_rows", "_deletions", "_values", "_windows", "_closing", "_closed", "_ripe", "_told", "_was_quiet",
        "_was_still",
    ),
    GroupStep: (
        "_windows", "_tallies", "_counted", "_members", "_place", "_unsettled", "_told", "_closed",
        "_was_quiet",
    ),
    BestStep: ("_rows", "_line", "_settled", "_told", "_windows"),
    Windows: ("_open", "_ends", "_waiting"),
    Closed: ("_ticks",),
    Counted: ("_ticks", "_keys"),
    Side: ("buckets", "place", "unsettled"),
}  # fmt: skip


def save(step: Step) -> dict[str, Any]:
    """What it remembers; its own copy."""
    return deepcopy(_saved(step))


def shared(step: Step) -> dict[str, Any]:
    """What it remembers, as it is: for those who write it down at once, or go on in its place."""
    return _saved(step)


def load(step: Step, saved: dict[str, Any]) -> None:
    """Lets a fresh operator of the same node go on from there."""
    _load(step, deepcopy(saved))


def adopt(step: Step, saved: dict[str, Any]) -> None:
    """The same, with what nobody else holds."""
    _load(step, saved)


def _saved(thing: object) -> dict[str, Any]:
    found = {name: getattr(thing, name) for name in KEPT.get(type(thing), ())}
    return {name: _saved(value) if type(value) in KEPT else value for name, value in found.items()}


def _load(thing: object, saved: dict[str, Any]) -> None:
    for name, value in saved.items():
        held = getattr(thing, name)
        if type(held) in KEPT:
            _load(held, value)
        else:
            setattr(thing, name, value)
