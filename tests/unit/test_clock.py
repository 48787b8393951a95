"""Instants and their text."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from postroom.core import clock

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31)).map(lambda moment: moment.replace(tzinfo=UTC))


@given(MOMENTS)
def test_an_instant_survives_being_written_and_read(moment: datetime) -> None:
    instant = int(moment.replace(microsecond=0).timestamp()) * clock.MICROSECONDS_PER_SECOND + moment.microsecond
    assert clock.parse_stamp(clock.format_stamp(instant)) == instant
    assert datetime.fromisoformat(clock.format_stamp(instant)) == moment


@given(MOMENTS, MOMENTS)
def test_text_compares_as_time_does(one: datetime, other: datetime) -> None:
    stamps = [clock.format_stamp(int(moment.timestamp() * clock.MICROSECONDS_PER_SECOND)) for moment in (one, other)]
    instants = [int(moment.timestamp() * clock.MICROSECONDS_PER_SECOND) for moment in (one, other)]
    assert (stamps[0] < stamps[1]) == (instants[0] < instants[1])


@given(MOMENTS)
def test_an_instant_is_told_from_other_texts(moment: datetime) -> None:
    stamp = clock.format_stamp(int(moment.timestamp() * clock.MICROSECONDS_PER_SECOND))
    assert clock.is_stamp(stamp)
    others = ("", "soon", stamp[:-1], f"{stamp[:-2]}zZ", f" {stamp[1:]}", stamp.replace("T", " "), stamp[:5] + "13" + stamp[7:], None)
    assert not any(map(clock.is_stamp, others))
