"""Strings to moments: whole strings that are a day or an RFC 3339 time, as nanoseconds since 1970.

A string without an offset is UTC. As a bound of a range a day means all of it, so a bound has a
first and a last moment; as the value of a field a day is its first moment.
"""

from __future__ import annotations

import re
from datetime import date

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
_EPOCH = date(1970, 1, 1).toordinal()
_SHAPE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)?)?", re.ASCII)


def span(text: str) -> tuple[int, int] | None:
    """First and last nanosecond that the text names, or None if it is no date."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = shape.groups()
    try:
        start = (date(int(year), int(month), int(day)).toordinal() - _EPOCH) * DAY
    except ValueError:
        return None
    if hour is None:
        return start, start + DAY - 1
    seconds = _seconds(int(hour), int(minute), int(second), offset)
    if seconds is None:
        return None
    moment = start + seconds * SECOND + int((fraction or "")[:9].ljust(9, "0"))
    return moment, moment


def _seconds(hour: int, minute: int, second: int, offset: str | None) -> int | None:
    """Seconds from midnight UTC; the leap second 60 is the next minute's first."""
    east = 0
    if offset and offset not in "Zz":
        hours, minutes = int(offset[1:3]), int(offset[4:6])
        if hours > 23 or minutes > 59:
            return None
        east = (hours * 3600 + minutes * 60) * (-1 if offset[0] == "-" else 1)
    if hour > 23 or minute > 59 or second > 60:
        return None
    return hour * 3600 + minute * 60 + second - east


def moment(text: str) -> int | None:
    """The moment of a field's value, or None if it is no date."""
    found = span(text)
    return None if found is None else found[0]
