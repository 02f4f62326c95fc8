"""Moments as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(moment: float | None) -> str | None:
    """A moment as RFC 3339, in UTC; None stays None."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
