"""Questions to owners of states, asked again until they are answered or somebody gives up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tocsin.overlay.chord import Chord
from tocsin.overlay.key import Key
from tocsin.overlay.message import Address, Message
from tocsin.overlay.node import Effect, Handler, Seconds, Send, Token, Wake
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

Answered: TypeAlias = Callable[[Any, Seconds], list[Effect]]
"""Called with the answer, or with None when there is none."""

ANSWERS: dict[type, type[Any]] = {
    IndexQuery: Indexed, ExpandState: Expanded, RecExpandState: RecExpanded, Candidates: Taken,
}  # fmt: skip
AGAIN_SECONDS = 4.0
AGAIN_SECONDS_MAX = 8.0
ATTEMPTS_MAX = 12


@dataclass(slots=True)
class _Errand:
    to: Key | Address  # a key: its owner; an address: this node
    message: Message
    then: Answered
    attempt: int = 0


class Errands:
    """Numbers questions, and gives answers to those who wait for them."""

    name = "state errands"

    def __init__(self, chord: Chord, life: int = 0) -> None:
        """`life` is another number each time the node begins again: no answer is taken for another one's."""
        self.chord = chord
        self._last = life << 32
        self._open: dict[int, _Errand] = {}
        chord.node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return dict.fromkeys(ANSWERS.values(), self._on_answer)

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    def ask(self, to: Key | Address, question: Callable[[int], Message], now: Seconds, then: Answered) -> list[Effect]:
        """Asks the owner of a key, or a node; `question` is given its number."""
        self._last += 1
        number = self._last
        self._open[number] = _Errand(to, question(number), then)
        return self._send(number, now)

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
        errand.attempt += 1
        if errand.attempt < ATTEMPTS_MAX:
            return self._send(number, now)
        del self._open[number]
        return errand.then(None, now)

    def _on_answer(self, message: Any, now: Seconds) -> list[Effect]:
        errand = self._open.get(message.request)
        if errand is None or ANSWERS[type(errand.message)] is not type(message):
            return []
        del self._open[message.request]
        return errand.then(message, now)
