"""When digests are due: every hour, every day at a time in a zone, also when clocks change."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.site.problems import Invalid
from tocsin.site.schedule import Mode, mode_of


def moment(text: str, zone: str = "UTC", fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def test_a_day_at_a_time_in_a_zone():
    mode = mode_of({"every": "day", "at": "08:00", "zone": "Europe/Athens"})
    assert mode.next_after(moment("2026-01-05T05:59:59")) == moment("2026-01-05T08:00:00", "Europe/Athens")
    assert mode.next_after(moment("2026-01-05T06:00:00")) == moment("2026-01-06T08:00:00", "Europe/Athens")
    assert mode.next_after(moment("2026-07-05T05:00:00")) == moment("2026-07-06T05:00:00"), "in summer an hour earlier"


def test_clocks_that_change():
    mode = Mode("daily", "02:30", "Europe/Berlin")  # skipped on 29 March 2026, twice on 25 October
    spring = [mode.next_after(moment(f"2026-03-{day}T12:00:00")) for day in (27, 28, 29)]
    assert [b - a for a, b in pairwise(spring) if a and b] == [24 * 3600, 23 * 3600]
    autumn = mode.next_after(moment("2026-10-24T12:00:00"))
    assert autumn == moment("2026-10-25T02:30:00", "Europe/Berlin", fold=0)
    assert mode.next_after(autumn or 0) == moment("2026-10-26T02:30:00", "Europe/Berlin"), "once a day, not twice"
    hourly = Mode("hourly", "00:00", "Europe/Berlin")
    assert hourly.next_after(moment("2026-10-25T02:00:00", "Europe/Berlin")) == moment(
        "2026-10-25T02:00:00", "Europe/Berlin", fold=1
    )


def test_an_hour_begins_at_its_minute_there():
    assert mode_of("hourly").next_after(moment("2026-01-05T05:00:00")) == moment("2026-01-05T06:00:00")
    kolkata = mode_of({"every": "hour", "at": "00:15", "zone": "Asia/Kolkata"})
    assert kolkata.next_after(moment("2026-01-05T05:00:00")) == moment("2026-01-05T05:45:00")


@given(
    st.floats(0, 4e9),
    st.sampled_from(["hourly", "daily"]),
    st.integers(0, 23),
    st.integers(0, 59),
    st.sampled_from(
        ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia"]
    ),
)
def test_the_next_is_later_and_not_too_late(now, every, hour, minute, zone):
    due = Mode(every, f"{hour:02}:{minute:02}", zone).next_after(now)
    assert due is not None
    assert now < due <= now + (3_600 if every == "hourly" else 51 * 3_600)


@pytest.mark.parametrize(
    "mode", ["immediate", "hourly", "daily", {"every": "day", "at": "23:59", "zone": "Asia/Tokyo"}]
)
def test_a_mode_is_read_back_as_it_was_written(mode):
    assert mode_of(mode_of(mode).as_json()) == mode_of(mode)
    assert mode_of(None).next_after(0) is None


@pytest.mark.parametrize(
    "mode", ["weekly", 5, [], {"every": "week"}, {"every": "day", "at": "8"}, {"every": "day", "zone": 5}, {}]
)
def test_other_modes_are_refused(mode):
    with pytest.raises(Invalid) as caught:
        mode_of(mode)
    assert caught.value.field == "mode"
