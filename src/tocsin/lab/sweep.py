"""Sweeps: an experiment measures many configurations, none of which needs another.

    in_turn           one after the other, in this process
    pipeline.sweep    each a task of Spark: on all cores of this machine, or on a cluster

A configuration is a function that a module names, with its arguments (`functools.partial`), so that it can be sent to a
worker. It answers with what it measured. What several need (a workload) they make themselves, and remember.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Sweep(Protocol):
    """Measures configurations; the answers come in their order."""

    def __call__(self, configurations: Sequence[Callable[[], T]], /) -> list[T]: ...


def in_turn(configurations: Sequence[Callable[[], T]]) -> list[T]:
    """One after the other."""
    return [measure() for measure in configurations]
