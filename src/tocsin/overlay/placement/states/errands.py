"""Questions to owners of states: asked again more and more slowly, and those to this node itself not at once."""

from __future__ import annotations

from typing import Any, ClassVar

from tocsin.overlay.chord import Chord
from tocsin.overlay.node import Effect, Seconds, Send, Token, Wake
from tocsin.overlay.placement.asking import Asking
from tocsin.overlay.placement.states.messages import (
    Candidates,
    Expanded,
    ExpandState,
    Indexed,
    IndexQuery,
    RecExpanded,
    RecExpandState,
    Taken,
)

AGAIN_SECONDS = 4.0
AGAIN_SECONDS_MAX = 8.0


class Errands(Asking):
    """Numbers questions, and gives answers to those who wait for them."""

    name = "state errands"
    attempts_max = 12
    answers: ClassVar[dict[type, type[Any]]] = {
        IndexQuery: Indexed, ExpandState: Expanded, RecExpandState: RecExpanded, Candidates: Taken,
    }  # fmt: skip

    def __init__(self, chord: Chord, life: int = 0) -> None:
        """`life` is another number each time the node begins again: no answer is taken for another one's."""
        super().__init__(chord)
        self._last = life << 32

    def _send(self, number: int, now: Seconds) -> list[Effect]:
        errand = self._open[number]
        patience = min(AGAIN_SECONDS * 1.5**errand.attempt, AGAIN_SECONDS_MAX)
        later = Wake(now + patience, (self.name, number, errand.attempt))
        if not isinstance(errand.to, int):
            return [later, Send(errand.to, errand.message)]
        if self.chord.owns(errand.to):  # not at once: where one node owns many states, calls would pile up
            return [later, Wake(now, (self.name, number, errand.attempt, "mine"))]
        return [later, *self.chord.route(errand.to, errand.message, now, errand.attempt)]

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """No answer came; or a question to this node itself is due."""
        _, number, attempt, *mine = token
        errand = self._open.get(number)
        if errand is None or errand.attempt != attempt:
            return []
        if mine and isinstance(errand.to, int):
            return self.chord.route(errand.to, errand.message, now, attempt)
        return super().wake(token, now)
