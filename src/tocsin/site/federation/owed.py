"""Notices whose publisher did not answer when its document was asked for.

They wait aside, on the node's disk, and hold up nothing: a publisher is asked again more and more rarely, and after a
week its documents are given up and named among the letters.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping

import msgpack

from tocsin.overlay.delivery import Notice
from tocsin.overlay.message import Address

PAUSE_SECONDS, PAUSE_SECONDS_MAX = 5.0, 600.0
KEPT_SECONDS = 7 * 86_400.0


class Owed:
    """What is still to be fetched, by the number that it had in the outbox."""

    def __init__(self, disk: MutableMapping[bytes, bytes]) -> None:
        self._disk = disk
        self._waiting: dict[int, tuple[Notice, float]] = {}
        self._asked: dict[Address, tuple[float, float]] = {}  # when a publisher may be asked again, and the pause then
        for key in list(disk):
            *notice, since = msgpack.unpackb(disk[key])
            self._waiting[int(key)] = Notice(*notice), since

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, notices: Iterable[tuple[int, Notice]], now: float) -> None:
        """Their publishers did not answer."""
        for number, one in notices:
            self._waiting[number] = one, now
            self._disk[b"%d" % number] = msgpack.packb((one.subscription, one.document, one.version, one.link, now))
            self.unanswered(one.link, now)

    def unanswered(self, publisher: Address, now: float) -> None:
        """It is asked again later, and later each time."""
        due, pause = self._asked.get(publisher, (0.0, 0.0))
        if due <= now:
            pause = min(max(2 * pause, PAUSE_SECONDS), PAUSE_SECONDS_MAX)
            self._asked[publisher] = now + pause, pause

    def drop(self, numbers: Iterable[int]) -> None:
        """They were fetched, or given up."""
        for number in numbers:
            notice, _ = self._waiting.pop(number)
            del self._disk[b"%d" % number]
            self._asked.pop(notice.link, None)

    def due(self, now: float, limit: int) -> list[tuple[int, Notice]]:
        """Some whose publisher may be asked again."""
        found = []
        for number, (notice, _) in self._waiting.items():
            if self._asked.get(notice.link, (0.0, 0.0))[0] <= now:
                found.append((number, notice))
                if len(found) == limit:
                    break
        return found

    def overdue(self, now: float) -> list[tuple[int, Notice]]:
        """Those that have waited too long."""
        return [(number, one) for number, (one, since) in self._waiting.items() if since < now - KEPT_SECONDS]
