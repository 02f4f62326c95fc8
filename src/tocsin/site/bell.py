"""A bell that rings when the outbox has grown; threads and coroutines wait for it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress


class Bell:
    """Counts its rings, so that one that came between looking and waiting is not missed."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0
        self._sleepers: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    @property
    def count(self) -> int:
        """How often it has rung."""
        return self._count

    def ring(self) -> None:
        """Wakes everybody."""
        with self._condition:
            self._count += 1
            self._condition.notify_all()
            sleepers, self._sleepers = self._sleepers, {}
        for future, loop in sleepers.items():
            with suppress(RuntimeError):  # its loop has ended
                loop.call_soon_threadsafe(_wake, future)

    def wait(self, seen: int, timeout: float) -> bool:
        """Waits until it has rung more often than `seen`; False if it has not in this time."""
        with self._condition:
            return self._condition.wait_for(lambda: self._count > seen, timeout)

    async def wait_async(self, seen: int, timeout: float) -> bool:
        """The same, for a coroutine."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._condition:
            if self._count > seen:
                return True
            self._sleepers[future] = loop
        try:
            async with asyncio.timeout(timeout):  # wait_for may lose a cancellation that comes with the ring
                await future
        except TimeoutError:
            return self._count > seen
        finally:
            with self._condition:
                self._sleepers.pop(future, None)
        return True


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
