"""Compute when a cron expression fires next. Imported only where timers are used, to keep `cronsim` off the hot path."""

from __future__ import annotations

import time
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from postroom.core.clock import MICROSECONDS_PER_SECOND
from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr


def next_fire_time(cron: str, timezone: str, after: int) -> int:
    """Return the first time after `after` at which `cron` fires. Both are in microseconds since the epoch.

    An empty `timezone` means the local time of this machine. Refuses with `InvalidInput` if `cron` is not valid or never fires.
    """
    zone = _load_zone(timezone) if timezone else None
    moment = datetime.fromtimestamp(after / MICROSECONDS_PER_SECOND, zone)
    try:
        upcoming = next(CronSim(cron, moment))
    except (CronSimError, ValueError) as error:
        hint = "Write five fields, minute hour day month weekday, or six with seconds first: '*/5 * * * *'."
        raise InvalidInput(f"cron cannot be {short_repr(cron)}: {error}", field="cron", hint=hint) from None
    except StopIteration:
        raise InvalidInput(f"cron {short_repr(cron)} never comes true", field="cron", hint="Check its day and month.") from None
    seconds = upcoming.timestamp() if upcoming.tzinfo else time.mktime(upcoming.timetuple())
    return int(seconds) * MICROSECONDS_PER_SECOND


def _load_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidInput(f"there is no time zone {short_repr(name)}", field="timezone", hint="Name one such as Europe/Berlin.") from None
