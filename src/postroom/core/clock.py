"""Instants: an `int` of microseconds since 1970 in memory, and UTC text of fixed width in the store, so that the texts sort by time.

The store and the rooms call this module. Only `now` reads the clock of the machine.
"""

from __future__ import annotations

from time import gmtime, strftime, time_ns

MICROSECONDS_PER_SECOND = 1_000_000
MAX_CLOCK_STEP_SECONDS = 10.0  # a clock that is set back by less changes nothing: leases stay live, deliveries stay in flight
_texts_of_seconds: dict[int, str] = {}  # the last few that were formatted: many instants of a process are in the same second
_MAX_TEXTS = 16


def now() -> int:
    """Return the current instant in microseconds."""
    return time_ns() // 1000


def microseconds(seconds: float) -> int:
    """Return a duration in microseconds."""
    return int(seconds * MICROSECONDS_PER_SECOND)


def is_misdated(instant: int, duration_seconds: float, now: int) -> bool:
    """Return whether an instant is further away than the duration that it ends: the clock was set back, and it has passed."""
    return instant - now > (duration_seconds + MAX_CLOCK_STEP_SECONDS) * MICROSECONDS_PER_SECOND


def format_stamp(instant: int) -> str:
    """Return an instant as `2026-11-15T21:12:00.123456Z`."""
    seconds, micros = divmod(instant, MICROSECONDS_PER_SECOND)
    text = _texts_of_seconds.get(seconds)
    if text is None:
        text = strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds))
        if len(_texts_of_seconds) >= _MAX_TEXTS:
            _texts_of_seconds.clear()
        _texts_of_seconds[seconds] = text
    return f"{text}.{micros:06d}Z"


def format_stamp_milliseconds(instant: int) -> str:
    """Return an instant as `2026-11-15T21:12:00.123Z`, the format of SQLite's `%f`."""
    return format_stamp(instant)[:-4] + "Z"


def parse_stamp(text: str) -> int:
    """Return the instant of a text that `format_stamp` wrote.

    The days are counted here because importing `datetime` would slow down the start of every command.
    """
    year, month, day = int(text[0:4]), int(text[5:7]), int(text[8:10])
    # Count years from March, so that the leap day is the last day of a year.
    years, months = (year, month - 3) if month > 2 else (year - 1, month + 9)
    days = years * 365 + years // 4 - years // 100 + years // 400 + (months * 153 + 2) // 5 + day - 719_469
    seconds = days * 86_400 + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
    return seconds * MICROSECONDS_PER_SECOND + int(text[20:26])


def is_stamp(text: object) -> bool:
    """Return whether a text is an instant as `format_stamp` writes it. What waits for a time reads the stored texts with `parse_stamp`."""
    try:
        return isinstance(text, str) and format_stamp(parse_stamp(text)) == text
    except (ValueError, OverflowError, OSError):  # no number, or a year that the C library does not know
        return False
