"""Instants: microseconds since 1970 inside, fixed-width UTC text in the store, so that text compares as time does."""

from __future__ import annotations

from time import gmtime, strftime, time_ns

SECOND = 1_000_000


def now() -> int:
    return time_ns() // 1000


def stamp(instant: int) -> str:
    """`2026-11-15T21:12:00.123456Z`"""
    seconds, micros = divmod(instant, SECOND)
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds)) + f".{micros:06d}Z"


def brief(instant: int) -> str:
    """`2026-11-15T21:12:00.123Z`, as SQLite's own `%f` has it."""
    return stamp(instant)[:-4] + "Z"


def instant(text: str) -> int:
    """The way back. Counting days ourselves costs a page of arithmetic less than importing `datetime`."""
    year, month, day = int(text[0:4]), int(text[5:7]), int(text[8:10])
    years, months = (year, month - 3) if month > 2 else (year - 1, month + 9)  # years that start in March end in leap days
    days = years * 365 + years // 4 - years // 100 + years // 400 + (months * 153 + 2) // 5 + day - 719_469
    seconds = days * 86_400 + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
    return seconds * SECOND + int(text[20:26])
