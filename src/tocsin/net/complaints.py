"""What an operator is told of refusals: of each kind the first ones, then ever more rarely.

Whoever is refused chooses how often that happens, and must not be able to fill a log. `tocsin node status` counts all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tocsin.net.envelope import Refusal

SAID_MAX = 10
"""Refusals of a kind that are told one by one; then the hundredth, the thousandth, and so on."""
REASONS = {
    Refusal.MALFORMED: "these bytes are no message",
    Refusal.OVERSIZED: "it is longer than a message may be",
    Refusal.UNSIGNED: "it is not signed",
    Refusal.FORGED: "its signature, its key and its sender's name do not belong together",
    Refusal.MISDIRECTED: "it is for another node",
    Refusal.UNTIMELY: "it is too old or too new: the clocks differ, or one of the machines was busy",
    Refusal.REPLAYED: "it has come before",
    Refusal.INCREDIBLE: "it speaks for another node, or names one that cannot be",
    Refusal.UNKNOWN_VERSION: "one of the two nodes is older than the other and should be updated",
    Refusal.CROWDED: "there are too many connections or senders",
}


class Complaints:
    """Tells an operator what was refused."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: Counter[str] = Counter()

    def refused(self, refusal: Refusal, who: str) -> None:
        """An envelope was."""
        self.tell(refusal, who, REASONS[refusal])

    def tell(self, kind: str, who: str, why: str) -> None:
        """Something was refused."""
        self._told[kind] += 1
        number = self._told[kind]
        if number <= SAID_MAX:
            self._say(f"refused ({kind}) from {who}: {why}")
        elif str(number).strip("0") == "1":
            self._say(f"refused ({kind}) from {who}: {why}; the {number:,}th of this kind")
