"""When timers fire: on both nights of the year, by name, and after the clock was set back. One that is wrong stops itself only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from postroom.core.clock import MICROSECONDS_PER_SECOND, format_stamp
from postroom.queues import notifier as verbs
from postroom.queues.running import runner_process
from postroom.queues.running.timer_list import TimerList, boot_setting
from postroom.queues.running.timers import next_fire_time
from postroom.store.sqlite.queues import notifier_statements as sql
from postroom.store.sqlite.queues.queue_databases import NotifierDatabase
from tests.conftest import Clock

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = {
    "spring": datetime(2026, 3, 29, 1, 0, tzinfo=BERLIN),  # 02:00 is 03:00
    "autumn": datetime(2026, 10, 25, 1, 0, tzinfo=BERLIN),  # 03:00 is 02:00 once more
}


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def notifier(tmp_path: Path, clock: Clock) -> Iterator[NotifierDatabase]:
    """A notifier whose time is the `clock` fixture's. The test holds the lock of its runner, so that none is started."""
    with verbs.open_notifier(str(tmp_path / "home"), now=clock) as opened:
        lock = runner_process.wait_for_lock(opened.home)
        yield opened
        lock.close()


def times(cron: str, timezone: str, start: datetime, count: int) -> list[str]:
    """The next times, in Berlin."""
    found, after = [], int(start.timestamp()) * MICROSECONDS_PER_SECOND
    for _ in range(count):
        upcoming = next_fire_time(cron, timezone, after)
        assert upcoming is not None
        assert upcoming > after
        after = upcoming
        found.append(datetime.fromtimestamp(after / MICROSECONDS_PER_SECOND, BERLIN).strftime("%H:%M%z"))
    return found


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize("timezone", ["", "Europe/Berlin"])
def test_every_half_hour_of_the_autumn_night_comes_also_those_that_come_twice(timezone: str) -> None:
    assert times("*/30 * * * *", timezone, NIGHTS["autumn"], 6) == [
        "01:30+0200", "02:00+0200", "02:30+0200", "02:00+0100", "02:30+0100", "03:00+0100",
    ]  # fmt: skip


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize("timezone", ["", "Europe/Berlin"])
def test_the_hour_that_the_spring_night_lacks_is_left_out(timezone: str) -> None:
    assert times("*/30 * * * *", timezone, NIGHTS["spring"], 4) == ["01:30+0100", "03:00+0200", "03:30+0200", "04:00+0200"]
    assert times("30 2 * * *", timezone, NIGHTS["spring"], 2) == ["03:00+0200", "02:30+0200"], "its time is missing: it comes after that"


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize("timezone", ["", "Europe/Berlin"])
def test_a_time_of_day_comes_once_in_the_autumn_night_also_for_one_who_asks_in_the_second_hour(timezone: str) -> None:
    assert times("30 2 * * *", timezone, NIGHTS["autumn"], 2) == ["02:30+0200", "02:30+0100"], "the second is of the next day"
    second = datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=BERLIN)
    assert times("30 2 * * *", timezone, second, 1) == ["02:30+0100"]


@pytest.mark.parametrize(("name", "same"), [("@hourly", "0 * * * *"), ("@daily", "0 0 * * *"), ("@weekly", "0 0 * * 0")])
def test_a_time_may_have_a_name(name: str, same: str) -> None:
    assert times(name, "Europe/Berlin", NIGHTS["autumn"], 3) == times(same, "Europe/Berlin", NIGHTS["autumn"], 3)


def add_timer(notifier: NotifierDatabase, cron: str, name: str = "t", timezone: str = "") -> str:
    return verbs.add_timer(notifier, name, author="a", cron=cron, command=f"echo {name}", timezone=timezone).next_at


def next_time(notifier: NotifierDatabase, name: str = "t") -> str:
    return next(timer.next_at for timer in verbs.list_timers(notifier) if timer.timer_id == name)


def test_a_clock_that_is_set_back_delays_no_timer(notifier: NotifierDatabase, clock: Clock) -> None:
    due = add_timer(notifier, "* * * * *")
    clock.advance(3600)
    TimerList(notifier).fire_due()
    assert next_time(notifier) > due
    clock.advance(-3600)
    TimerList(notifier).correct_times()
    assert next_time(notifier) == due


def test_a_task_that_was_queued_before_the_clock_was_set_back_is_due(notifier: NotifierDatabase, clock: Clock) -> None:
    clock.advance(3600)
    verbs.add_task(notifier, "job", author="a", command="true")
    clock.advance(-3600)
    with notifier.read() as tx:
        binds = {"now": format_stamp(clock.instant), "misdated": format_stamp(clock.instant + 70 * MICROSECONDS_PER_SECOND), "limit": 10}
        assert [task.task_id for task in tx.fetch_all(sql.COMMANDS_DUE, **binds)] == ["job"]


def test_a_timer_that_cannot_be_computed_stops_itself_and_no_other(notifier: NotifierDatabase, clock: Clock) -> None:
    add_timer(notifier, "* * * * *", "bad", timezone="Europe/Berlin")
    add_timer(notifier, "* * * * *", "good")
    with notifier.write() as tx:
        tx.execute("UPDATE timers SET timezone = 'Gone/Zone' WHERE timer_id = 'bad'")
    clock.advance(60)
    TimerList(notifier).fire_due()
    assert [task.task_id for task in verbs.list_tasks(notifier)] == ["timer-good"]
    bad, good = verbs.list_timers(notifier)
    assert (bad.next_at, bad.trouble, good.trouble) == (sql.NEVER, "there is no time zone 'Gone/Zone'", None)
    with notifier.write() as tx:
        tx.execute("UPDATE timers SET timezone = 'Europe/Berlin' WHERE timer_id = 'bad'")
    TimerList(notifier).correct_times()
    assert verbs.list_timers(notifier)[0].trouble is None


def test_at_reboot_is_once_after_each_start_of_the_machine(notifier: NotifierDatabase) -> None:
    assert add_timer(notifier, "@reboot") == sql.NEVER
    TimerList(notifier).fire_after_reboot()
    assert verbs.list_tasks(notifier) == (), "it was added after the machine was started"
    with notifier.write() as tx:
        tx.execute(sql.SETTING_SET, name=boot_setting("t"), value="another boot")
    for _ in range(2):
        TimerList(notifier).fire_after_reboot()
    assert [task.task_id for task in verbs.list_tasks(notifier)] == ["timer-t"]


def test_the_local_zone_is_the_one_of_the_process(in_berlin: None) -> None:
    assert os.environ["TZ"] == "Europe/Berlin"
    assert times("0 12 * * *", "", NIGHTS["spring"], 1) == ["12:00+0200"]
