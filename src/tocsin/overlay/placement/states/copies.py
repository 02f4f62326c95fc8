"""Which states have copies, as far as a node has heard (XML filtering paper §6.4: load shedding).

The paper's overloaded peer tells all others; here whoever asks for a state is told with the answer which copies there
are, and from then on spreads what it asks over all of them. When they are none any more (`shedding`), it is told so.
"""

from __future__ import annotations

from collections import OrderedDict

from tocsin.overlay.key import Key, hashed
from tocsin.overlay.placement.states.key import ring_key
from tocsin.query.xpath.routes import Linear

COPIES_KEPT = 10_000
"""Overloaded states that a node remembers: there are few."""


class Copies:
    """The copies of states by their numbers, and which of them a request goes to."""

    def __init__(self) -> None:
        self._known: OrderedDict[Linear, tuple[int, ...]] = OrderedDict()

    def learn(self, state: Linear, copies: tuple[int, ...]) -> None:
        """An owner said which there are."""
        self._known.pop(state, None)
        if copies:
            self._known[state] = copies
            if len(self._known) > COPIES_KEPT:
                self._known.popitem(last=False)

    def key(self, state: Linear, *request: object) -> Key:
        """One of the keys of a state: chosen by what is asked, so that all are chosen alike often.

        Whoever asks the same, asks the same owner, who need not do it twice. All publishers number their documents from
        1: whose it is must be among what is asked, or all would go to the same one at about the same time.
        """
        owners = 0, *self._known.get(state, ())
        return ring_key(state, owners[hashed("copy", f"{request}") % len(owners)] if len(owners) > 1 else 0)
