"""Questions of MAPS that are asked again until they are answered."""

from __future__ import annotations

from typing import Any

from tocsin.overlay.node import Effect, Handler, Seconds
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

ANSWERS: dict[type, type[Any]] = {AskStatistics: Statistics, AskTotals: Totals, Keep: Kept, Audit: Audited}


class Questions(Asking):
    """Numbers questions, and gives answers to those who wait for them."""

    name = "maps questions"

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return dict.fromkeys(ANSWERS.values(), self._on_answer)

    def _on_answer(self, message: Any, now: Seconds) -> list[Effect]:
        question = self._open.get(message.request)
        if question is None or ANSWERS[type(question.message)] is not type(message):
            return []
        del self._open[message.request]
        return question.then(message, now)
