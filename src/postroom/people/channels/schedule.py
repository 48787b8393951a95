"""Quiet hours and the time of the daily digest, by the clock on the wall of a time zone. Pure: instants in, instants out."""

from __future__ import annotations

from postroom.core import clock
from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from postroom.core.records.channels import Channel

MINUTES_PER_HOUR = 60
_TIME_HINT = "Write a time of the day as 07:30."


def check_time(field: str, text: str) -> str:
    """Return a time of the day, such as `07:30`. Refuses with `InvalidInput`."""
    _parse_minutes(field, text)
    return text


def check_quiet(text: str) -> str:
    """Return quiet hours, such as `22:00-07:00`. Refuses with `InvalidInput` if they are malformed or empty."""
    start, dash, end = text.partition("-") if isinstance(text, str) else ("", "", "")
    if not dash:
        raise InvalidInput(f"{short_repr(text)} are no quiet hours", field="quiet", hint="Write them as 22:00-07:00.")
    if _parse_minutes("quiet", start) == _parse_minutes("quiet", end):
        raise InvalidInput("quiet hours that begin and end at the same time", field="quiet", hint="Leave them out, or change one of them.")
    return text


def check_zone(name: str) -> str:
    """Return the name of a time zone, such as `Europe/Berlin`. Refuses one that this machine does not know."""
    _find_zone(name)
    return name


def find_quiet_end(channel: Channel, now: int) -> int | None:
    """Return the instant at which the quiet hours of a channel end, or None if they do not hold now."""
    if channel.quiet is None:
        return None
    start, _, end = (channel.quiet).partition("-")
    first, last = _parse_minutes("quiet", start), _parse_minutes("quiet", end)
    local = _local_time(channel, now)
    minutes = local.hour * MINUTES_PER_HOUR + local.minute
    if first < last:
        return _instant_at(local, last) if first <= minutes < last else None
    if minutes >= first:
        return _instant_at(local, last, days=1)
    return _instant_at(local, last) if minutes < last else None


def find_next_digest(channel: Channel, now: int) -> int:
    """Return the next instant, after now, at which the digest of a channel is due."""
    local = _local_time(channel, now)
    minutes = _parse_minutes("digest_at", channel.digest_at)
    today = _instant_at(local, minutes)
    return today if today > now else _instant_at(local, minutes, days=1)


def _local_time(channel: Channel, instant: int) -> datetime:
    from datetime import datetime

    return datetime.fromtimestamp(instant // clock.MICROSECONDS_PER_SECOND, _find_zone(channel.time_zone))


def _instant_at(local: datetime, minutes: int, *, days: int = 0) -> int:
    """Return the instant of a time of the day on the day of `local`, or `days` later. Days may have 23 or 25 hours."""
    from datetime import timedelta

    day = local.date() + timedelta(days=days)
    hour, minute = divmod(minutes, MINUTES_PER_HOUR)
    moment = local.replace(year=day.year, month=day.month, day=day.day, hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    return int(moment.timestamp()) * clock.MICROSECONDS_PER_SECOND


def _parse_minutes(field: str, text: str) -> int:
    hour, colon, minute = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not all(len(part) == 2 and part.isascii() and part.isdigit() for part in (hour, minute)):
        raise InvalidInput(f"{short_repr(text)} is not a time of the day", field=field, hint=_TIME_HINT)
    if int(hour) > 23 or int(minute) > 59:
        raise InvalidInput(f"{short_repr(text)} is not a time of the day", field=field, hint=_TIME_HINT)
    return int(hour) * MINUTES_PER_HOUR + int(minute)


def _find_zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError, TypeError):  # ZoneInfoNotFoundError is a KeyError
        hint = "Name it as Europe/Berlin. `pip install tzdata` if this machine has no time zones."
        raise InvalidInput(f"{short_repr(name)} is not a time zone that this machine knows", field="time-zone", hint=hint) from None
