"""Which states have copies, as far as a node has heard (XML filtering paper §6.4: load shedding).

The paper's overloaded peer tells all others; here whoever asks for a state is told with the answer how many copies
there are, and from then on spreads what it asks over all of them.
"""

from __future__ import annotations

from collections import OrderedDict

from tocsin.overlay.key import Key, hashed
from tocsin.overlay.placement.states.key import ring_key
from tocsin.query.xpath.routes import Linear

COPIES_KEPT = 10_000
"""Overloaded states that a node remembers: there are few."""


class Copies:
    """Numbers of copies by state, and which of them a request goes to."""

    def __init__(self) -> None:
        self._known: OrderedDict[Linear, int] = OrderedDict()

    def learn(self, state: Linear, copies: int) -> None:
        """An owner said how many there are."""
        if copies:
            self._known[state] = copies
            self._known.move_to_end(state)
            if len(self._known) > COPIES_KEPT:
                self._known.popitem(last=False)

    def key(self, state: Linear, *request: object) -> Key:
        """One of the keys of a state: chosen by what is asked, so that all are chosen alike often.

        Whoever asks the same, asks the same owner, who need not do it twice.
        """
        copies = self._known.get(state, 0)
        return ring_key(state, hashed("copy", f"{request}") % (copies + 1) if copies else 0)
