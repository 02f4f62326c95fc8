"""Which states need help, and when they need it no more (XML filtering paper §6.4: load shedding).

The owner of the start state sees every document and writes on it how many there were: so each owner knows which share
of them came to a state of its own. A state with too large a share gets copies at other owners. The paper stops there;
here they are given back when the share has become small, smaller than what made them (else they would come and go).

    opening   new queries are told to go to the copies too; then these get what there is
    ready     requests are spread over the state and its copies; every answer says which there are
    closing   no answer names them any more; the copies are struck off
    closed    the next ones have other numbers: these keep nothing any more

How far it has come is a note among the items of the state, with copies and versions of its own: whoever owns the state
goes on with it. A copy is one as long as it has such a note itself. A request that comes to another is passed on to the
state: so nothing is missed, however old the news is that somebody has of the copies. What comes to a copy that was
struck off is removed at once, by each node that has it: an owner that is slow, and has lost the state meanwhile, may
still be filling it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgpack

from tocsin.overlay.key import Key
from tocsin.overlay.message import Item
from tocsin.overlay.node import Effect, Seconds
from tocsin.overlay.placement.states.fragment import COPIED
from tocsin.overlay.placement.states.ground import Ground
from tocsin.overlay.placement.states.key import STATE_KIND, ring_key
from tocsin.query.xpath.routes import Linear

COPIED_NAME: bytes = msgpack.packb((COPIED,))
OPENING, READY, CLOSING, PHASES = 1, 2, 3, 4
"""Version of a state's note: how often it had copies before, times PHASES, and how far it has come with these."""
LIVE, DEAD = 1, 2
"""Version of a copy's note."""
NUMBERS = 1 << 16
"""More than a state has copies at a time: numbers of earlier ones do not come again."""
Numbers: TypeAlias = tuple[int, ...]
Then: TypeAlias = Callable[[Seconds], list[Effect]]


@dataclass(frozen=True, slots=True)
class Help:
    """The copies of a state."""

    state: Linear
    phase: int
    numbers: Numbers

    def item(self, key: Key, version: int) -> Item:
        """As a note."""
        return Item(key, STATE_KIND, COPIED_NAME, version, msgpack.packb((self.phase, self.state, self.numbers)))

    @classmethod
    def of(cls, item: Item) -> Help | None:
        """None: there are none any more, or it is nonsense of another node."""
        if item.value is None:
            return None
        try:
            phase, state, numbers = msgpack.unpackb(item.value, use_list=False)
            is_right = phase in (OPENING, READY, CLOSING) and all(isinstance(label, str) for label in state)
            return cls(state, phase, tuple(map(int, numbers))) if is_right else None
        except (ValueError, TypeError, msgpack.UnpackException):
            return None


class Shedding:
    """A node's overloaded states, and the copies that it keeps for others."""

    def __init__(self, ground: Ground) -> None:
        self.chord, self.items, self.settings = ground.chord, ground.items, ground.settings
        self._notes: dict[Key, tuple[int, Help | None]] = {}
        self._documents = 0  # so many there have been, as far as this node has heard
        self._hits: dict[Linear, list[int]] = {}  # documents that came here, and how many there were before the first
        self._busy: set[Key] = set()  # states whose copies are being made or removed
        store = self.items.store
        for key in store.sorted_keys():
            for item in store.at(key):
                self._changed(item)
        self.items.watch(STATE_KIND, self._changed)

    def _changed(self, item: Item) -> None:
        if item.kind == STATE_KIND and item.name == COPIED_NAME:
            found, version = Help.of(item), item.version
            if found is None and item.value is not None:  # nonsense: as if those copies were gone
                version = (version // PHASES + 1) * PHASES
            self._notes[item.key] = version, found
        if self._notes.get(item.key) == (DEAD, None):
            self._empty(item.key)

    def _empty(self, key: Key) -> None:
        """Removes what a copy has of queries: in their own versions, so that it is the same wherever it is done."""
        kept = [one for one in self._queries(self.items.store.at(key)) if one.value is not None]
        if kept:
            self.items.take([Item(key, one.kind, one.name, one.version, None) for one in kept], 0.0)

    # --- what there is -----------------------------------------------------------------------------------------------

    def _help(self, key: Key) -> Help | None:
        return self._notes.get(key, (0, None))[1]

    def known(self, key: Key) -> Numbers:
        """Copies of the state at a key that must hear of queries."""
        found = self._help(key)
        return () if found is None or key != ring_key(found.state) else found.numbers

    def ready(self, key: Key) -> Numbers:
        """Copies that requests may go to, besides the state itself."""
        found = self._help(key)
        return () if found is None or found.phase != READY else found.numbers

    def is_elsewhere(self, key: Key, state: Linear) -> bool:
        """Whether a request came to a copy that there is not: the state itself must see to it."""
        return key != ring_key(state) and self._help(key) is None

    def helped(self) -> Iterator[Help]:
        """States of this node that have copies."""
        for key, (_, found) in list(self._notes.items()):
            if found is not None and key == ring_key(found.state) and self.chord.owns(key):
                yield found

    # --- what comes --------------------------------------------------------------------------------------------------

    def count(self, state: Linear, key: Key, documents: int, is_new: bool, now: Seconds) -> tuple[int, list[Effect]]:
        """A document came to a state (`is_new`: for the first time), saying how many came to the start: how many it
        should say from here on; and who should help, or need not any more."""
        if state:
            self._documents = max(self._documents, documents)
        elif is_new:  # those who share the start state see one of so many documents
            self._documents += 1 + len(self.ready(key))
        effects: list[Effect] = []
        if is_new and self.settings.copies and key == ring_key(state):
            hits = self._hits.setdefault(state, [0, max(0, self._documents - 1)])
            hits[0] += 1
            if self._help(key) is None and self._is_overloaded(*hits):
                effects += self._open(state, key, now)
        for found in self.helped():
            effects += self._review(found, now)
        return self._documents, effects

    def _is_overloaded(self, came: int, before: int) -> bool:
        seen = self._documents - before
        return seen >= self.settings.overload_documents_min and came > self.settings.overload_share * seen

    def _review(self, found: Help, now: Seconds) -> list[Effect]:
        """Are copies still needed? And those that were never ready, or not removed, since their owner died?"""
        key, settings = ring_key(found.state), self.settings
        if key in self._busy:
            return []
        if found.phase == READY:
            hits = self._hits.setdefault(found.state, [0, self._documents])
            seen = self._documents - hits[1]
            if seen < settings.relief_documents_min:
                return []
            came = hits[0] * (1 + len(found.numbers))  # here, and as many at each copy
            hits[:] = 0, self._documents
            if came >= settings.relief_share * seen:
                return []
        return self._close(found, key, now)

    # --- there and back ----------------------------------------------------------------------------------------------

    def _open(self, state: Linear, key: Key, now: Seconds) -> list[Effect]:
        if key in self._busy:
            return []
        version = self._notes.get(key, (0, None))[0] // PHASES * PHASES
        first = version // PHASES * NUMBERS
        numbers = tuple(range(first + 1, first + self.settings.copies + 1))
        help = Help(state, READY, numbers)

        def written(now: Seconds) -> list[Effect]:
            queries = self._queries(self.items.store.at(key))
            copies = [ring_key(state, number) for number in numbers]
            return self._put_all([[*_moved(queries, to), help.item(to, LIVE)] for to in copies], key, now, copied)

        def copied(now: Seconds) -> list[Effect]:
            return self._put_all([[help.item(key, version + READY)]], key, now, done)

        def done(now: Seconds) -> list[Effect]:
            return self._done(state, key)

        opening = Help(state, OPENING, numbers).item(key, version + OPENING)
        return self._put_all([[opening]], key, now, written)

    def _close(self, found: Help, key: Key, now: Seconds) -> list[Effect]:
        version = self._notes[key][0] // PHASES * PHASES
        copies = [ring_key(found.state, number) for number in found.numbers]
        closing = Help(found.state, CLOSING, found.numbers).item(key, version + CLOSING)

        def written(now: Seconds) -> list[Effect]:
            strikes = [[Item(to, STATE_KIND, COPIED_NAME, DEAD, None)] for to in copies]
            return self._put_all(strikes, key, now, struck)

        def struck(now: Seconds) -> list[Effect]:
            return self._put_all([[Item(key, STATE_KIND, COPIED_NAME, version + PHASES, None)]], key, now, done)

        def done(now: Seconds) -> list[Effect]:
            return self._done(found.state, key)

        return self._put_all([[closing]], key, now, written)

    def _done(self, state: Linear, key: Key) -> list[Effect]:
        """What comes is counted anew: it has nothing to do with what came before."""
        self._busy.discard(key)
        self._hits[state] = [0, self._documents]
        return []

    @staticmethod
    def _queries(items: Iterable[Item]) -> list[Item]:
        return [item for item in items if item.kind == STATE_KIND and item.name != COPIED_NAME]

    def _put_all(self, groups: Sequence[list[Item]], key: Key, now: Seconds, then: Then) -> list[Effect]:
        """Stores items, each group under its key, for the state at a key; goes on when all are safe."""
        self._busy.add(key)
        left = len(groups)

        def safe(answer: tuple[Item, ...] | None, now: Seconds) -> list[Effect]:
            nonlocal left
            if answer is None:
                self._busy.discard(key)  # it stays at that: the next document makes somebody try again
                left = -1
            left -= 1
            return [] if left else then(now)

        return [effect for items in groups for effect in self.items.put(items, now, safe)]


def _moved(items: Iterable[Item], to: Key) -> list[Item]:
    return [Item(to, item.kind, item.name, item.version, item.value) for item in items]
