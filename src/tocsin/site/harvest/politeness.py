"""Good manners: one request at a time per host, a pause after each, and as long a pause as a host asks for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from random import random

from tocsin.site.harvest.settings import HarvestSettings

HOSTS_KEPT = 10_000


class Politeness:
    """Whose turn it is, by host. A turn is held for one request only, so nobody waits for two."""

    def __init__(self, settings: HarvestSettings) -> None:
        self._delay = settings.harvest_host_delay_seconds
        self._locks: dict[str, asyncio.Lock] = {}
        self._free_at: dict[str, float] = {}

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[None]:
        """Waits until the host may be asked; it may not be asked again until some time after."""
        if len(self._locks) > HOSTS_KEPT:
            self._forget()
        lock = self._locks.setdefault(host, asyncio.Lock())
        async with lock:
            wait = self._free_at.get(host, 0.0) - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            try:
                yield
            finally:
                self._free_at[host] = time.monotonic() + self._delay

    def is_free(self, host: str) -> bool:
        """Could the host be asked without waiting for another request to end?"""
        lock = self._locks.get(host)
        return lock is None or not lock.locked()

    def _forget(self) -> None:
        now = time.monotonic()
        for host in [host for host, lock in self._locks.items() if not lock.locked()]:
            if self._free_at.get(host, 0.0) <= now:
                del self._locks[host]
                self._free_at.pop(host, None)


def wait_seconds(failures: int, settings: HarvestSettings, chance: Callable[[], float] = random) -> float:
    """How long to wait after so many visits that failed (1, 2, …)."""
    doubled = settings.harvest_first_wait_seconds * 2.0 ** min(failures - 1, 60)
    whole = min(doubled, settings.harvest_longest_wait_seconds)
    return whole * (1.0 - settings.harvest_jitter_share * chance())


def next_visit(interval: float, settings: HarvestSettings, chance: Callable[[], float] = random) -> float:
    """How long to wait after a visit that went well: the interval, a little more or less."""
    return interval * (1.0 + settings.harvest_jitter_share * (chance() - 0.5))


def asked_to_wait(retry_after: str | None, settings: HarvestSettings, now: float | None = None) -> float:
    """What a host asks for, in seconds: a number or a date (RFC 9110 §10.2.3); 0 if it asks for nothing we can read."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal():
        seconds = float(text[:12])
    else:
        try:
            moment = parsedate_to_datetime(text).timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            return 0.0
        seconds = moment - (time.time() if now is None else now)
    return min(max(seconds, 0.0), settings.harvest_longest_wait_seconds)
