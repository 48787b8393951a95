"""When a cron expression comes true next. Imported by timers alone: the library that reads them is not for the hot path."""

from __future__ import annotations

import time
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from postroom.core.clock import SECOND
from postroom.core.errors import InvalidInput
from postroom.core.words import shown


def next_time(cron: str, timezone: str, after: int) -> int:
    """The first instant after `after`, in microseconds. Without a time zone: as the clock on this machine's wall says it."""
    moment = datetime.fromtimestamp(after / SECOND, _zone(timezone)) if timezone else datetime.fromtimestamp(after / SECOND)
    try:
        upcoming = next(CronSim(cron, moment))
    except (CronSimError, ValueError) as error:
        hint = "Write five fields, minute hour day month weekday, or six with seconds first: '*/5 * * * *'."
        raise InvalidInput(f"cron cannot be {shown(cron)}: {error}", field="cron", hint=hint) from None
    except StopIteration:
        raise InvalidInput(f"cron {shown(cron)} never comes true", field="cron", hint="Check its day and month.") from None
    seconds = upcoming.timestamp() if upcoming.tzinfo else time.mktime(upcoming.timetuple())
    return int(seconds) * SECOND


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidInput(f"there is no time zone {shown(name)}", field="timezone", hint="Name one such as Europe/Berlin.") from None
