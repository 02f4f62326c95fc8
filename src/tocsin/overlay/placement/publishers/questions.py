"""Questions of MAPS that are asked again until they are answered."""

from __future__ import annotations

from typing import Any, ClassVar

from tocsin.overlay.placement.asking import Asking
from tocsin.overlay.placement.publishers.messages import (
    AskStatistics,
    AskTotals,
    Audit,
    Audited,
    Keep,
    Kept,
    Statistics,
    Totals,
)


class Questions(Asking):
    """Numbers questions, and gives answers to those who wait for them."""

    name = "maps questions"
    answers: ClassVar[dict[type, type[Any]]] = {
        AskStatistics: Statistics, AskTotals: Totals, Keep: Kept, Audit: Audited,
    }  # fmt: skip
