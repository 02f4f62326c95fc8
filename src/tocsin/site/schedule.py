"""When a subscription is told: at once, or in a digest every hour or every day at a time in a zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tocsin.site.exactness import APPROXIMATE, EXACT
from tocsin.site.problems import Invalid

IMMEDIATE, HOURLY, DAILY = "immediate", "hourly", "daily"
_AT = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
HINT = '"immediate", "hourly", "daily", or {"every": "day", "at": "08:00", "zone": "Europe/Athens"}'


@dataclass(frozen=True, slots=True)
class Mode:
    """How often, and for a day: at what time in which zone; for an hour: at which minute."""

    every: str = IMMEDIATE
    at: str = "00:00"
    zone: str = "UTC"

    @property
    def is_digest(self) -> bool:
        """Is it told in digests?"""
        return self.every != IMMEDIATE

    def as_json(self) -> str | dict[str, str]:
        """As it is written in a subscription."""
        if self.every == IMMEDIATE:
            return IMMEDIATE
        return {"every": "hour" if self.every == HOURLY else "day", "at": self.at, "zone": self.zone}

    def next_after(self, moment: float) -> float | None:
        """When the next digest is due after the moment; None: there are none."""
        if self.every == IMMEDIATE:
            return None
        hour, minute = map(int, self.at.split(":"))
        zone = ZoneInfo(self.zone)
        here = datetime.fromtimestamp(moment, zone)
        if self.every == HOURLY:
            # Added on the UTC clock: an hour that occurs twice is two hours.
            due = datetime.fromtimestamp(moment, UTC).replace(second=0, microsecond=0)
            due += timedelta(minutes=(minute - here.minute) % 60)
            return (due if due.timestamp() > moment else due + timedelta(hours=1)).timestamp()
        for days in range(3):
            day = here.date() + timedelta(days=days)
            # A time that the clocks skip is taken as if they had not; one that occurs twice is its first.
            due = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
            if due.timestamp() > moment:
                return due.timestamp()
        raise AssertionError("one of three days is later")  # pragma: no cover


def mode_of(value: object) -> Mode:
    """A mode from the body of a subscription."""
    if value is None or value == IMMEDIATE:
        return Mode()
    if isinstance(value, str):
        if value in (HOURLY, DAILY):
            return Mode(value)
        if value in (EXACT, APPROXIMATE):
            raise Invalid(f'the mode must be one of {HINT}; {value} is said by "exactness"', field="mode")
        raise Invalid(f"the mode must be one of {HINT}", field="mode")
    if not isinstance(value, Mapping):
        raise Invalid(f"the mode must be one of {HINT}", field="mode")
    return _spelled(value)


def _spelled(value: Mapping[str, Any]) -> Mode:
    for key in value:
        if key not in ("every", "at", "zone"):
            raise Invalid(f'the mode has no key {str(key)!r}: it has "every", "at" and "zone"', field="mode")
    every = {"hour": HOURLY, "day": DAILY, HOURLY: HOURLY, DAILY: DAILY}.get(str(value.get("every")))
    if every is None:
        raise Invalid('the mode\'s "every" must be "hour" or "day"', field="mode")
    at, zone = value.get("at", "00:00"), value.get("zone", "UTC")
    if not isinstance(at, str) or not _AT.fullmatch(at):
        raise Invalid('the mode\'s "at" must be a time such as "08:00"', field="mode")
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError, AttributeError):
        raise Invalid('the mode\'s "zone" must be a time zone such as "Europe/Athens"', field="mode") from None
    return Mode(every, at, zone)
