"""The nodes that own states: they keep fragments, follow transitions, and tell whom it concerns.

Recursive execution (Procedure 4): a document comes to a state at an element, with all that is below it. The owner finds
the targets for each sibling, and sends each on with what is below there: all of them at once. It answers when all whom
it asked have answered, and the subscribers of what is accepted here have heard; so the publisher knows when everybody
has. A node may die at any moment: whoever waits for it asks the next owner, who has the copies, and does it again.

Where the paper's procedures differ from the centralised automaton, the automaton is right: a leaf's accepting state
counts, loops and ε are followed alike in both executions, and a query is told once for a document, however many
elements lead to it (Procedure 4 would tell for every sibling).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from tocsin.overlay.delivery import Notice
from tocsin.overlay.key import Key
from tocsin.overlay.message import Address, Item
from tocsin.overlay.node import Effect, Handler, Seconds, Send, Token
from tocsin.overlay.placement.states.fragment import Entry, Node, fragment_of, run, step
from tocsin.overlay.placement.states.ground import Ground
from tocsin.overlay.placement.states.key import STATE_KIND, ring_key
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
from tocsin.overlay.placement.states.outline import LEFT, BadOutline, Outline, Piece
from tocsin.overlay.placement.states.shedding import Shedding
from tocsin.query.xpath.routes import Linear

PUBLICATIONS_KEPT = 200
"""Publications whose course a node remembers, so that nothing is done twice while they last."""
CANDIDATES_BYTES_MAX = 32_768
Then: TypeAlias = Callable[[Seconds], list[Effect]]
Publication: TypeAlias = tuple[Address, int]


WorkName: TypeAlias = tuple[Linear, Key, int, int]


@dataclass(slots=True)
class _Work:
    """A state that was reached at an element of a part of a document."""

    name: WorkName
    key: Key
    message: RecExpandState
    outline: Outline
    course: _Course
    documents: int = 0
    open: int = 1
    has_failed: bool = False
    waiters: dict[tuple[Address, int], None] = field(default_factory=dict)


@dataclass(slots=True)
class _Told:
    """A subscriber that was told of a document."""

    is_heard: bool = False
    then: list[Then] = field(default_factory=list)


@dataclass(slots=True)
class _Asked:
    """A state of another owner that was asked to go on, at an element; works of several states may wait for it."""

    is_answered: bool = False
    works: list[_Work] = field(default_factory=list)


@dataclass(slots=True)
class _Course:
    """What is remembered of a publication."""

    asked: dict[tuple[Linear, int, int], _Asked] = field(default_factory=dict)

    works: dict[WorkName, _Work] = field(default_factory=dict)
    done: set[WorkName] = field(default_factory=set)
    told: dict[str, _Told] = field(default_factory=dict)
    states: set[Linear] = field(default_factory=set)


class Owner:
    """A node's states."""

    name = "state owner"

    def __init__(self, ground: Ground) -> None:
        self.chord, self.items, self.errands, self.delivery = (
            ground.chord,
            ground.items,
            ground.errands,
            ground.delivery,
        )
        self.copies, self.settings, self.shedding = ground.copies, ground.settings, Shedding(ground)
        self.me = ground.chord.me
        self.requests: Counter[str] = Counter()
        """Requests that came, by type: the filtering load, and what indexing costs."""
        self.arrivals: Callable[[int, Seconds], None] | None = None
        """For experiments: called with the hops of each request of a document."""
        self._fragments: dict[Key, Node] = {}
        self._courses: OrderedDict[Publication, _Course] = OrderedDict()
        self.items.watch(STATE_KIND, self._changed)
        node = self.chord.node
        node.add(self)
        node.receive(IndexQuery, self._on_index)
        node.receive(ExpandState, self._on_expand)
        node.receive(RecExpandState, self._on_rec_expand)

    def handlers(self) -> dict[type, Handler]:
        """Everything comes to it as an owner."""
        return {}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Nothing to wait for."""
        return []

    # --- what is kept ------------------------------------------------------------------------------------------------

    def _changed(self, item: Item) -> None:
        self._fragments.pop(item.key, None)

    def fragment(self, key: Key) -> Node:
        """The fragment of the state at a key."""
        found = self._fragments.get(key)
        if found is None:
            found = self._fragments[key] = fragment_of(self.items.store.at(key))
        return found

    def _on_index(self, message: IndexQuery, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        self.requests["IndexQuery"] += 1
        if not message.items or any(item.key != keys[0] or item.kind != STATE_KIND for item in message.items):
            self.chord.node.dropped += 1
            return []

        def safe(answer: tuple[Item, ...] | None, now: Seconds) -> list[Effect]:
            if answer is None:
                return []  # the subscriber asks again
            return [Send(message.sender.address, Indexed(message.request, self.shedding.known(keys[0])))]

        return self.items.put(message.items, now, safe)

    # --- iterative ---------------------------------------------------------------------------------------------------

    def _on_expand(self, message: ExpandState, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        self.requests["ExpandState"] += 1
        if self.arrivals is not None:
            self.arrivals(hops, now)
        if self.shedding.is_elsewhere(keys[0], message.state):
            return self.chord.route(ring_key(message.state), message, now)
        fragment = self.fragment(keys[0])
        onward = tuple(step(fragment, message.state, message.names)) if message.names else ()
        accepted = tuple([entry.packed() for entry in fragment.accepts])
        answer = Expanded(message.request, onward, accepted, self.shedding.ready(keys[0]))
        return [Send(message.sender.address, answer)]

    # --- recursive ---------------------------------------------------------------------------------------------------

    def _on_rec_expand(self, message: RecExpandState, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        self.requests["RecExpandState"] += 1
        if self.arrivals is not None:
            self.arrivals(hops, now)
        if self.shedding.is_elsewhere(keys[0], message.state):
            return self.chord.route(ring_key(message.state), message, now)
        try:
            outline = Outline(Piece(message.names, message.events, message.ghosts))
        except BadOutline:
            self.chord.node.dropped += 1
            return []
        course = self._course((message.publisher.address, message.number))
        left = message.events[0][LEFT] if message.state and message.events else 0
        name = message.state, keys[0], message.part, left
        work = course.works.get(name)
        answer = Send(message.sender.address, RecExpanded(message.request, self.shedding.ready(keys[0])))
        if name in course.done:
            return [answer]
        if work is not None:
            work.waiters[message.sender.address, message.request] = None
            return []
        work = course.works[name] = _Work(name, keys[0], message, outline, course)
        work.waiters[message.sender.address, message.request] = None
        is_new = message.state not in course.states
        course.states.add(message.state)
        work.documents, effects = self.shedding.count(message.state, keys[0], message.documents, is_new, now)
        found = run(self.fragment(keys[0]), message.state, outline, self.settings.length)
        effects += self._accept(found.accepted, work, now)
        for state, index, leaf in found.onward:
            effects += self._forward(state, index, leaf, work, now)
        return [*effects, *self._finish(work, now)]

    def _course(self, publication: Publication) -> _Course:
        course = self._courses.get(publication)
        if course is None:
            course = self._courses[publication] = _Course()
            if len(self._courses) > PUBLICATIONS_KEPT:
                self._courses.popitem(last=False)
        return course

    def _finish(self, work: _Work, now: Seconds) -> list[Effect]:
        """One of the things that a work waits for has happened."""
        work.open -= 1
        if work.open:
            return []
        work.course.works.pop(work.name, None)
        if work.has_failed:
            return []  # whoever waits for it asks again, and it begins anew
        work.course.done.add(work.name)
        copies = self.shedding.ready(work.key)
        answers: list[Effect] = [Send(to, RecExpanded(request, copies)) for to, request in work.waiters]
        work.waiters.clear()
        return answers

    def _forward(self, state: Linear, index: int, leaf: str, work: _Work, now: Seconds) -> list[Effect]:
        """Lets another state go on at an element: once, however many ways lead there from here."""
        message, outline = work.message, work.outline
        left = outline.piece.events[index][LEFT]
        name = state, message.part, left
        asked = work.course.asked.get(name)
        if asked is not None and asked.is_answered:
            return []
        work.open += 1
        if asked is not None:
            asked.works.append(work)
            return []
        asked = work.course.asked[name] = _Asked(works=[work])
        piece = outline.leaf(index, leaf) if leaf else outline.under(index)

        def question(request: int) -> RecExpandState:
            return RecExpandState(
                request, self.me, message.publisher, message.number, message.id, message.version,
                state, message.part, piece.names, piece.events, piece.ghosts, work.documents,
            )  # fmt: skip

        def answered(answer: RecExpanded | None, now: Seconds) -> list[Effect]:
            if answer is None:
                work.course.asked.pop(name, None)
            else:
                asked.is_answered = True
                self.copies.learn(state, answer.copies)
            works, asked.works = asked.works, []
            for one in works:
                one.has_failed |= answer is None
            return [effect for one in works for effect in self._finish(one, now)]

        key = self.copies.key(state, message.publisher.address, message.number, message.part, left)
        return self.errands.ask(key, question, now, answered)

    # --- what is accepted --------------------------------------------------------------------------------------------

    def _accept(self, entries: list[Entry], work: _Work, now: Seconds) -> list[Effect]:
        effects: list[Effect] = []
        candidates: dict[bytes, None] = {}
        course, message = work.course, work.message
        for entry in entries:
            if entry.text:
                candidates[entry.packed()] = None
                continue
            told = course.told.get(entry.subscription)
            if told is not None and told.is_heard:
                continue
            work.open += 1
            if told is not None:
                told.then.append(partial(self._finish, work))
                continue
            told = course.told[entry.subscription] = _Told(then=[partial(self._finish, work)])
            notice = Notice(entry.subscription, message.id, message.version, message.publisher.address)
            effects += self.delivery.tell(entry.subscriber, notice, now, partial(_heard, told))
        for page in _pages(candidates):
            effects += self._report(page, work, now)
        return effects

    def _report(self, entries: tuple[bytes, ...], work: _Work, now: Seconds) -> list[Effect]:
        def answered(answer: Taken | None, now: Seconds) -> list[Effect]:
            work.has_failed |= answer is None
            return self._finish(work, now)

        work.open += 1
        publisher, number = work.message.publisher.address, work.message.number
        return self.errands.ask(
            publisher, lambda request: Candidates(request, self.me, number, entries), now, answered
        )  # fmt: skip


def _heard(told: _Told, now: Seconds) -> list[Effect]:
    told.is_heard = True
    then, told.then = told.then, []
    return [effect for one in then for effect in one(now)]


def _pages(entries: dict[bytes, None]) -> list[tuple[bytes, ...]]:
    """Entries in messages of bounded size."""
    pages: list[list[bytes]] = []
    size = CANDIDATES_BYTES_MAX
    for entry in entries:
        size += len(entry)
        if size > CANDIDATES_BYTES_MAX:
            pages.append([])
            size = len(entry)
        pages[-1].append(entry)
    return [tuple(page) for page in pages]
