"""Questions that are asked again until somebody answers, or has been silent too often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from tocsin.overlay.chord import Chord
from tocsin.overlay.key import Key
from tocsin.overlay.message import Address, Message
from tocsin.overlay.node import Effect, Handler, Seconds, Send, Token, Wake
from tocsin.overlay.placement.messages import (
    AskDocument,
    AskFrequency,
    AskList,
    AskRange,
    Fetch,
    Frequency,
    GivenDocument,
    Judge,
    Judged,
    Listed,
    OwnRange,
    Resource,
    Share,
    Shared,
)

Answered: TypeAlias = Callable[[Any, Seconds], list[Effect]]
"""Called with the answer, or with None when there is none."""

AGAIN_SECONDS = 2.0


@dataclass(slots=True)
class _Question:
    to: Key | Address  # a key: its owner; an address: this node
    message: Message
    then: Answered
    attempts_max: int
    attempt: int = 0


class Asking:
    """Numbers questions, and gives answers to those who wait for them."""

    name = "asking"
    answers: ClassVar[dict[type, type[Any]]] = {
        AskFrequency: Frequency, AskRange: OwnRange, AskList: Listed, Judge: Judged, Fetch: Resource, Share: Shared,
        AskDocument: GivenDocument,
    }  # fmt: skip
    """What each question is answered with; another placement has its own."""
    attempts_max: ClassVar[int] = 20

    def __init__(self, chord: Chord) -> None:
        self.chord = chord
        self._last = 0
        self._open: dict[int, _Question] = {}
        chord.node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return dict.fromkeys(self.answers.values(), self._on_answer)

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    def ask(
        self,
        to: Key | Address,
        question: Callable[[int], Message],
        now: Seconds,
        then: Answered,
        attempts_max: int | None = None,
    ) -> list[Effect]:
        """Asks the owner of a key, or a node; `question` is given its number."""
        self._last += 1
        self._open[self._last] = _Question(to, question(self._last), then, attempts_max or self.attempts_max)
        return self._send(self._last, now)

    def _send(self, number: int, now: Seconds) -> list[Effect]:
        question = self._open[number]
        later = Wake(now + AGAIN_SECONDS, (self.name, number))
        if isinstance(question.to, int):
            return [later, *self.chord.route(question.to, question.message, now, question.attempt)]
        return [later, Send(question.to, question.message)]

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """No answer came."""
        question = self._open.get(token[1])
        if question is None:
            return []
        question.attempt += 1
        if question.attempt < question.attempts_max:
            return self._send(token[1], now)
        del self._open[token[1]]
        return question.then(None, now)

    def _on_answer(self, message: Any, now: Seconds) -> list[Effect]:
        question = self._open.get(message.request)
        if question is None or self.answers[type(question.message)] is not type(message):
            return []
        del self._open[message.request]
        return question.then(message, now)
