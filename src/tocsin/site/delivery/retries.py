"""When to try again: each wait is twice the one before, up to a longest, and partly left to chance."""

from __future__ import annotations

from collections.abc import Callable
from random import random

from tocsin.site.settings import DeliverySettings

TOO_MANY, BUSY = 429, 503


def wait_seconds(failed: int, settings: DeliverySettings, chance: Callable[[], float] = random) -> float:
    """How long to wait after so many attempts that failed (1, 2, …)."""
    doubled = settings.delivery_first_wait_seconds * 2.0 ** min(failed - 1, 60)
    whole = min(doubled, settings.delivery_longest_wait_seconds)
    return whole * (1.0 - settings.delivery_jitter_share * chance())


def asked_to_wait(status: int, retry_after: str | None, settings: DeliverySettings) -> float:
    """What a receiver that is busy asks for, in seconds; 0 if it asks for nothing."""
    if status not in (TOO_MANY, BUSY) or retry_after is None or not retry_after.strip().isdecimal():
        return 0.0
    return min(float(retry_after.strip()[:9]), settings.delivery_longest_wait_seconds)
