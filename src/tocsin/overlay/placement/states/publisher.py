"""The nodes where documents come from: they send their outlines through the automaton, or ask it state by state.

    recursive    the outline goes to the owner of the start state and on from there; a large one in several pieces
    iterative    the publisher keeps the run-time stack, and asks the owners of all active states at each event
                 (Procedures 2 and 3, put right: what a leaf's states accept is asked for, an end tag brings back the
                 states of the parent, and what ε leads to is among the targets)

Predicates are looked at after the structure (Selection Postponed): of a query with predicates or branches the linear
paths are reported here, where the values are. When all paths of one of its clauses have come, the query is checked
against the document by the centralised index, which joins the branches at the elements that they share.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgpack

from tocsin.errors import SettingError, TocsinError
from tocsin.markup import Markup, read_markup
from tocsin.match.paths import PathIndex
from tocsin.model import Document
from tocsin.overlay.delivery import Notice
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver, Effect, Handler, Seconds, Send, Token, Wake
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.states.fragment import Entry
from tocsin.overlay.placement.states.ground import Ground
from tocsin.overlay.placement.states.messages import (
    Candidates,
    Expanded,
    ExpandState,
    RecExpanded,
    RecExpandState,
    Taken,
)
from tocsin.overlay.placement.states.outline import Piece, leaves_of, pieces_of
from tocsin.overlay.placement.states.settings import Execution
from tocsin.query.xpath import parse_xpath
from tocsin.query.xpath.routes import Linear

Disk: TypeAlias = MutableMapping[bytes, bytes]
Question: TypeAlias = tuple[Linear, tuple[str, ...]]
Walk: TypeAlias = Generator[list[Question], list[Expanded], None]
Asked: TypeAlias = Generator[list[Question], list[Expanded], list[Linear]]


@dataclass(slots=True)
class _Publication:
    document: Document
    markup: Markup
    open: int = 1
    """What must happen before everybody has heard."""
    attempt: int = 0
    reached: dict[tuple[str, int], set[int]] = field(default_factory=dict)  # of a clause: its paths
    decided: set[str] = field(default_factory=set)
    """Subscriptions that were told, or that do not hold."""


class Publisher:
    """A node's documents."""

    name = "state publisher"

    def __init__(self, ground: Ground, disk: Disk | None = None, life: int = 0) -> None:
        self.me, self.errands, self.delivery = ground.chord.me, ground.errands, ground.delivery
        self.copies, self.settings = ground.copies, ground.settings
        self.versions: dict[str, int] = {}
        """Of the documents that were published here."""
        self.answers: Callable[[Seconds], None] | None = None
        """For experiments: called when an owner's answer to an iterative question comes."""
        self._disk: Disk = {} if disk is None else disk
        self._last = life << 32
        self._open: dict[int, _Publication] = {}
        for key, data in self._disk.items():
            if key[:1] == b"v":
                self.versions[key[1:].decode()] = msgpack.unpackb(data)
        ground.chord.node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Candidates: self._on_candidates}

    def start(self, now: Seconds) -> list[Effect]:
        """Goes on with what was not done when the node stopped."""
        effects: list[Effect] = []
        for key in sorted(self._disk):
            if key[:1] == b"p":
                id, version, xml = msgpack.unpackb(self._disk.pop(key))
                effects += self._begin(Document(id, version=version, xml=xml), now)
        return effects

    def publish(self, document: Document, now: Seconds) -> list[Effect]:
        """Publishes a document with XML, or its next version; `Published` is delivered when everybody knows."""
        if document.xml is None:
            raise SettingError(f"{document.id!r} has no XML; the automaton filters nothing else")
        if self.versions.get(document.id, document.version - 1) >= document.version:
            raise SettingError(
                f"{document.id!r} was published in version {self.versions[document.id]}; "
                f"version {document.version} is not newer"
            )
        effects = self._begin(document, now)
        self.versions[document.id] = document.version
        self._disk[b"v" + document.id.encode()] = msgpack.packb(document.version)
        return effects

    def withdraw(self, id: str) -> None:
        """Forgets a document: under its id another may be published."""
        if self.versions.pop(id, None) is not None:
            del self._disk[b"v" + id.encode()]

    @property
    def under_way(self) -> int:
        """Publications that are not done."""
        return len(self._open)

    def _begin(self, document: Document, now: Seconds) -> list[Effect]:
        assert document.xml is not None
        markup = read_markup(document.xml)  # refuses what is no XML, before anything is written
        self._last += 1
        number = self._last
        one = self._open[number] = _Publication(document, markup)
        self._disk[_name(number)] = msgpack.packb((document.id, document.version, document.xml))
        if self.settings.execution is Execution.ITERATIVE:
            return self._walk(number, now)
        pieces = list(pieces_of(markup, self.settings.fragment_bytes_max))
        one.open = len(pieces)
        return [effect for part, piece in enumerate(pieces) for effect in self._send(number, part, piece, now)]

    def _finish(self, number: int, now: Seconds) -> list[Effect]:
        """One of the things that a publication waits for has happened."""
        one = self._open[number]
        one.open -= 1
        if one.open:
            return []
        del self._open[number], self._disk[_name(number)]
        return [Deliver(Published(one.document.id, one.document.version))]

    # --- recursive ---------------------------------------------------------------------------------------------------

    def _send(self, number: int, part: int, piece: Piece, now: Seconds) -> list[Effect]:
        document = self._open[number].document

        def question(request: int) -> RecExpandState:
            return RecExpandState(
                request, self.me, self.me, number, document.id, document.version,
                (), part, piece.names, piece.events, piece.ghosts, 0,
            )  # fmt: skip

        def answered(answer: RecExpanded | None, now: Seconds) -> list[Effect]:
            if answer is None:
                return [Wake(now + self.settings.again_seconds, (self.name, number, part, piece))]
            self.copies.learn((), answer.copies)
            return self._finish(number, now)

        return self.errands.ask(self.copies.key((), self.me.address, number, part), question, now, answered)

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Something failed: tries again."""
        _, number, *rest = token
        if number not in self._open:
            return []
        if not rest:
            return self._walk(number, now)
        part, piece = rest
        return self._send(number, part, piece, now)

    # --- iterative ---------------------------------------------------------------------------------------------------

    def _walk(self, number: int, now: Seconds) -> list[Effect]:
        one = self._open[number]
        one.attempt += 1
        walk = self._steps(one)
        return self._next(number, walk, one.attempt, next(walk), now)

    def _next(self, number: int, walk: Walk, attempt: int, questions: list[Question], now: Seconds) -> list[Effect]:
        """Asks all owners at once, and goes on when all have answered."""
        answers: list[Expanded | None] = [None] * len(questions)
        left = len(questions)
        effects: list[Effect] = []

        def taker(at: int) -> Callable[[Expanded | None, Seconds], list[Effect]]:
            def answered(answer: Expanded | None, now: Seconds) -> list[Effect]:
                nonlocal left
                one = self._open.get(number)
                if one is None or one.attempt != attempt or left < 0:
                    return []
                if answer is None:
                    left = -1
                    return [Wake(now + self.settings.again_seconds, (self.name, number))]
                if self.answers is not None:
                    self.answers(now)
                self.copies.learn(questions[at][0], answer.copies)
                answers[at] = answer
                left -= 1
                found = self._take(number, (data for data in answer.accepted), now)
                return found if left else [*found, *self._advance(number, walk, attempt, answers, now)]

            return answered

        for at, (state, names) in enumerate(questions):
            effects += self.errands.ask(
                self.copies.key(state, self.me.address, number, at, names),
                lambda request, state=state, names=names: ExpandState(request, self.me, state, names, 0),  # type: ignore[misc]
                now,
                taker(at),
            )
        return effects

    def _advance(
        self, number: int, walk: Walk, attempt: int, answers: list[Expanded | None], now: Seconds
    ) -> list[Effect]:
        try:
            questions = walk.send([answer for answer in answers if answer is not None])
        except StopIteration:
            return self._finish(number, now)
        return self._next(number, walk, attempt, questions, now)

    @staticmethod
    def _steps(one: _Publication) -> Walk:
        """The run-time stack: gives questions, is given the answers, event by event."""
        tree = one.markup.tree
        known: set[Linear] = set()  # states whose queries have been given
        stack: list[tuple[int, list[Linear]]] = [(-1, [()])]

        def ask(states: Iterable[Linear], names: tuple[str, ...]) -> Asked:
            questions = [(state, names) for state in states]
            if not questions:
                return []
            known.update(state for state, _ in questions)
            answers = yield questions
            pairs = zip(questions, answers, strict=True)
            targets = ((*state, *labels) for (state, _), answer in pairs for labels in answer.onward)
            return list(dict.fromkeys(targets))

        for element, name in enumerate([*tree.names, ""]):
            while element >= (len(tree.names) if stack[-1][0] < 0 else tree.last[stack[-1][0]]):
                _, active = stack.pop()  # an end tag: what leaves accept has not been asked for
                yield from ask([state for state in active if state not in known], ())
                if not stack:
                    return
            active = yield from ask(stack[-1][1], (name,))
            stack.append((element, active))
            if active and (leaves := leaves_of(one.markup, element)):
                found = yield from ask(active, tuple(leaves))
                below = [state for state in found if state[-1] != "$" and state not in known]
                yield from ask(below, ())

    # --- predicates --------------------------------------------------------------------------------------------------

    def _on_candidates(self, message: Candidates, now: Seconds) -> list[Effect]:
        taken = Send(message.sender.address, Taken(message.request))
        if message.number not in self._open:
            return [taken]
        return [*self._take(message.number, message.entries, now), taken]

    def _take(self, number: int, entries: Iterable[bytes], now: Seconds) -> list[Effect]:
        """What was accepted: it is told, after its predicates have been checked if it has any."""
        one = self._open[number]
        ready: dict[str, Entry] = {}
        for data in entries:
            entry = Entry.unpacked(data)
            if entry is None or entry.subscription in one.decided:
                continue
            reached = one.reached.setdefault((entry.subscription, entry.clause), set())
            reached.add(entry.path)
            if len(reached) == entry.paths:
                ready[entry.subscription] = entry
        one.decided |= ready.keys()
        return self._tell(number, self._checked(one, list(ready.values())), now)

    def _checked(self, one: _Publication, entries: list[Entry]) -> list[Entry]:
        index = PathIndex()
        for number, entry in enumerate(entries):
            if entry.text:
                try:
                    index.add(number, parse_xpath(entry.text, dict(entry.namespaces)))
                except TocsinError:  # of a node that writes nonsense
                    continue
        holding = set(index.match(one.markup).tolist()) if len(index) else set()
        return [entry for number, entry in enumerate(entries) if not entry.text or number in holding]

    def _tell(self, number: int, entries: list[Entry], now: Seconds) -> list[Effect]:
        one = self._open[number]
        effects: list[Effect] = []
        for entry in entries:
            one.open += 1
            notice = Notice(entry.subscription, one.document.id, one.document.version, self.me.address)
            effects += self.delivery.tell(entry.subscriber, notice, now, lambda now: self._finish(number, now))
        return effects

    def open_to(self) -> list[tuple[Address, int]]:
        """Publications that are not done."""
        return [(self.me.address, number) for number in self._open]


def _name(number: int) -> bytes:
    return b"p" + number.to_bytes(8, "big")
