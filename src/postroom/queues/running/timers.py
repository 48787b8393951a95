"""Compute when a cron expression fires next. Imported only where timers are used, to keep `cronsim` off the hot path."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from postroom.core.clock import MICROSECONDS_PER_SECOND
from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr

AT_REBOOT = "@reboot"
_EPOCH = datetime(1970, 1, 1)
_NAMED_TIMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def next_fire_time(cron: str, timezone: str, after: int) -> int | None:
    """Return the first time after `after` at which `cron` fires. Both are in microseconds since the epoch. None for `@reboot`.

    An empty `timezone` means the local time of this machine. Refuses with `InvalidInput` if `cron` is not valid or never fires.
    """
    zone = _load_zone(timezone) if timezone else LocalZone()
    if cron == AT_REBOOT:
        return None
    moment = datetime.fromtimestamp(after / MICROSECONDS_PER_SECOND, zone)
    try:
        # In the hour that an autumn night has twice, it may return a time of the first one, which has passed.
        upcoming = next(
            time for time in CronSim(_NAMED_TIMES.get(cron, cron), moment) if time.timestamp() * MICROSECONDS_PER_SECOND > after
        )
    except (CronSimError, ValueError, OverflowError) as error:
        hint = "Write five fields, minute hour day month weekday, or six with seconds first: '*/5 * * * *'. Or @hourly, @daily, @reboot."
        raise InvalidInput(f"cron cannot be {short_repr(cron)}: {error}", field="cron", hint=hint) from None
    except StopIteration:
        raise InvalidInput(f"cron {short_repr(cron)} never comes true", field="cron", hint="Check its day and month.") from None
    return int(upcoming.timestamp()) * MICROSECONDS_PER_SECOND


class LocalZone(tzinfo):
    """The local time of this machine, with its two changes of the year. Without it, a time that occurs twice in autumn would be unclear."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        naive = moment.replace(tzinfo=None) if moment is not None else _EPOCH
        return naive.replace(fold=0) - _EPOCH - timedelta(seconds=naive.timestamp())  # `timestamp` respects the fold

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "local"

    def fromutc(self, moment: datetime) -> datetime:
        seconds = (moment.replace(tzinfo=None) - _EPOCH).total_seconds()
        return datetime.fromtimestamp(seconds).replace(tzinfo=self)


def _load_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidInput(f"there is no time zone {short_repr(name)}", field="timezone", hint="Name one such as Europe/Berlin.") from None
