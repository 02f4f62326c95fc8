"""Contract, ranges: dates are whole strings YYYY-MM-DD or RFC 3339; no offset = UTC; a day as a bound is all of it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.dates import moment, span

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400 * 10**9
OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28), timezones=OFFSETS)


def nanoseconds(when: datetime) -> int:
    return (when - EPOCH) // timedelta(microseconds=1) * 1000


@given(MOMENTS, st.sampled_from("Tt "))
def test_an_rfc_3339_time_is_the_moment_that_datetime_says(when, separator):
    text = when.isoformat(sep=separator, timespec="microseconds")
    assert span(text) == (nanoseconds(when), nanoseconds(when))
    assert moment(text) == nanoseconds(when)


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_without_an_offset_it_is_utc_as_with_z(when):
    text = when.isoformat(timespec="seconds")
    expected = nanoseconds(when.replace(microsecond=0, tzinfo=UTC))
    assert moment(text) == moment(text + "Z") == moment(text + "z") == moment(text + "+00:00") == expected


@given(st.dates())
def test_a_day_is_all_of_it_and_as_a_value_its_first_moment(day):
    first = (day - date(1970, 1, 1)).days * DAY
    assert span(day.isoformat()) == (first, first + DAY - 1)
    assert moment(day.isoformat()) == first


@given(MOMENTS, MOMENTS)
def test_moments_are_ordered_as_time_is(one, other):
    assert (moment(one.isoformat()) < moment(other.isoformat())) == (one < other)  # type: ignore[operator]


def test_fractions_count_to_the_nanosecond_and_no_further():
    assert moment("1970-01-01T00:00:00.000000001Z") == 1
    assert moment("1970-01-01T00:00:00.5") == 500_000_000
    assert moment("1970-01-01T00:00:00.0000000019Z") == 1


def test_a_leap_second_is_the_next_minutes_first():
    assert moment("1998-12-31T23:59:60Z") == moment("1999-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "text",
    ["", "2004", "2004-05", "2004-5-31", "04-05-31", "2004-05-32", "2004-13-01", "2004-00-01", "2003-02-29",
     "2004-05-31T", "2004-05-31T12", "2004-05-31T12:00", "2004-05-31T24:00:00Z", "2004-05-31T12:60:00Z",
     "2004-05-31T12:00:61Z", "2004-05-31T12:00:00.Z", "2004-05-31T12:00:00+2", "2004-05-31T12:00:00+0200",
     "2004-05-31T12:00:00+24:00", "2004-05-31T12:00:00+02:60", " 2004-05-31", "2004-05-31 ", "2004-05-31\n",
     "2004/05/31", "20040531", "２００４-05-31", "on 2004-05-31", "2004-05-31T12:00:00ZZ", "0000-01-01", "31.5.2004"],
)  # fmt: skip
def test_whatever_is_not_a_whole_date_is_none(text):
    assert span(text) is None
    assert moment(text) is None


@given(st.text() | st.from_regex(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?"))
def test_any_text_is_a_span_or_none(text):
    found = span(text)
    assert found is None or found[0] <= found[1]
