"""Moments as the API writes them: RFC 3339, UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def written(seconds: float | None) -> str | None:
    """Seconds since 1970 as `2026-11-15T08:00:00.123Z`."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
