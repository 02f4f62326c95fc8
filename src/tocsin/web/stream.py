"""Server-sent events: an account's notifications as they come, resumable by the id of the last one that arrived.

Whoever reads is woken when the outbox has grown, reads from the store by cursor, and sleeps again; so a stream is
the same list as `GET notifications`, and what a reader misses while away waits for it there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from tocsin.web.answers import Refusal, encoded
from tocsin.web.limits import WebLimits

PAGE = 200
RETRY_MILLISECONDS = 1_000
WAIT_SECONDS_MAX = 1.0  # then it looks again, even if nobody woke it
HEARTBEAT = b": nothing new\n\n"

Read = Callable[[str], Awaitable[Sequence[dict[str, Any]]]]
"""The next items after a cursor."""
Wait = Callable[[float], Awaitable[None]]
"""Comes back when there may be more, or after so many seconds."""


class Streams:
    """The streams that are open."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self.is_stopping = False

    def take(self, account: str, limits: WebLimits) -> None:
        """One more for the account; refused if it holds too many."""
        if self._open[account] >= limits.streams_per_account_max:
            message = f"the account holds {limits.streams_per_account_max} streams open: close one"
            raise Refusal(429, "too_many_streams", message, headers={"Retry-After": "10"})
        self._open[account] += 1

    def give_back(self, account: str) -> None:
        """It has ended."""
        self._open[account] -= 1
        if self._open[account] <= 0:
            del self._open[account]

    def count(self) -> int:
        """How many are open."""
        return self._open.total()

    def stop(self) -> None:
        """They end at their next chance."""
        self.is_stopping = True


def event(item: dict[str, Any]) -> bytes:
    """One notification as a server-sent event; JSON holds no line break."""
    return b"id: " + str(item["cursor"]).encode() + b"\ndata: " + encoded(item) + b"\n\n"


async def events(
    streams: Streams,
    after: str,
    *,
    read: Read,
    wait: Wait,
    is_welcome: Callable[[], Awaitable[bool]],
    heartbeat_seconds: float,
) -> AsyncIterator[bytes]:
    """What is stored after the cursor, then what comes; a comment when nothing has come for a while."""
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    now = asyncio.get_running_loop().time
    spoke = asked = now()
    while not streams.is_stopping:
        if now() - asked >= heartbeat_seconds:
            if not await is_welcome():
                return  # the token was revoked meanwhile
            asked = now()
        items = await read(after)
        if items:
            after = str(items[-1]["cursor"])
            yield b"".join(event(item) for item in items)
            spoke = now()
        elif now() - spoke >= heartbeat_seconds:
            yield HEARTBEAT
            spoke = now()
        else:
            await wait(min(WAIT_SECONDS_MAX, heartbeat_seconds))
