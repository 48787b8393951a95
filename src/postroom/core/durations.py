"""Durations as people write them: `90d`, `12h`, `30m`, `45s`."""

from __future__ import annotations

from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MAX_SECONDS = 36_500 * 86_400


def parse_duration(field: str, text: str) -> int:
    """Return the seconds of a duration such as `90d`. Refuses with `InvalidInput` anything else, and more than a hundred years."""
    digits, unit = text[:-1], text[-1:]
    seconds = int(digits) * _UNIT_SECONDS.get(unit, 0) if digits.isascii() and digits.isdigit() and len(digits) <= 12 else -1
    if unit not in _UNIT_SECONDS or not 0 <= seconds <= MAX_SECONDS:
        raise InvalidInput(f"{field} cannot be {short_repr(text)}", field=field, hint="Write a number and a unit: 90d, 12h, 30m, 45s, 4w.")
    return seconds


def format_duration(seconds: int) -> str:
    """Return a duration in the largest unit that has no remainder."""
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _UNIT_SECONDS[unit] == 0)
    return f"{seconds // _UNIT_SECONDS[unit]}{unit}"
