"""`notifier timer`: tasks that fall due by the clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.notifier_process import runs
from tests.cli.process import eventually
from tests.cli.queue_process import BusyQueueCommands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        yield made


def timer(commands: BusyQueueCommands, cron: str, command: str = "true", *more: str, name: str = "tick") -> dict[str, Any]:
    commands.told("notifier", "timer", "add", "--author", "self", "--timer-id", name, "--cron", cron, "--command", command, *more)
    return next(entry for entry in timers(commands) if entry["timer_id"] == name)


def timers(commands: BusyQueueCommands) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = commands.told("notifier", "timer", "list")["timers"]
    return found


def test_a_timer_with_seconds_fires_again_and_again_until_it_is_removed(commands: BusyQueueCommands) -> None:
    ticks = commands.folder / "ticks"
    timer(commands, "* * * * * *", f"echo tick >> '{ticks}'")
    eventually(lambda: ticks.exists() and len(ticks.read_text().splitlines()) >= 2)
    assert commands.told("notifier", "status")["timers"] == 1
    assert commands.notifier("timer", "remove", "--timer-id", "tick").code == 0
    assert timers(commands) == []
    commands.runner_gone()
    found = runs(commands)
    assert {(run["task_id"], run["author"], run["outcome"]) for run in found} == {("timer-tick", "self", "ok")}
    assert len(found) == len(ticks.read_text().splitlines())


def test_a_timer_of_five_fields_has_its_next_time_at_a_whole_minute(commands: BusyQueueCommands) -> None:
    entry = timer(commands, "*/5 * * * *")
    next_at = datetime.fromisoformat(entry["next_at"])
    assert (next_at.minute % 5, next_at.second, next_at.microsecond) == (0, 0, 0)
    assert timedelta(minutes=-1) < next_at - datetime.now(UTC) <= timedelta(minutes=5)
    assert (entry["author"], entry["cron"], entry["command"]) == ("self", "*/5 * * * *", "true")


def test_the_time_zone_of_a_timer_is_its_own(commands: BusyQueueCommands) -> None:
    """Kathmandu is 5:45 ahead all year round."""
    entry = timer(commands, "30 0 9 * * *", "true", "--timezone", "Asia/Kathmandu")
    next_at = datetime.fromisoformat(entry["next_at"]).astimezone(UTC)
    assert (next_at.hour, next_at.minute, next_at.second) == (3, 15, 30)
    assert entry["timezone"] == "Asia/Kathmandu"


def test_times_that_were_missed_fire_once(commands: BusyQueueCommands) -> None:
    timer(commands, "0 0 * * *", f"echo tick >> '{commands.folder}/ticks'")
    assert commands.notifier("stop").code == 0
    with closing(sqlite3.connect(commands.home / "notifier.db")) as database, database:  # as if it had been off for long
        assert database.execute("UPDATE timers SET next_at = '2020-02-02T00:00:00.000000Z'").rowcount == 1
    commands.start("notifier", "start")
    eventually((commands.folder / "ticks").exists)
    eventually(lambda: [run["task_id"] for run in runs(commands)] == ["timer-tick"])
    (entry,) = timers(commands)
    assert datetime.fromisoformat(entry["next_at"]) > datetime.now(UTC)
    assert commands.told("notifier", "task", "list") == {"tasks": []}
    assert (commands.folder / "ticks").read_text() == "tick\n"


def test_a_notifier_that_was_stopped_says_that_its_timers_wait(commands: BusyQueueCommands) -> None:
    timer(commands, "0 0 * * *", "true")
    waits = "the notifier is stopped: tasks and timers wait until `notifier start`, or until a task or a timer is added\n"
    stopped = commands.notifier("stop")
    assert (stopped.code, stopped.stdout.startswith(waits)) == (0, True)
    assert commands.told("notifier", "status")["stopped"] is True
    assert commands.notifier("status").stdout.startswith(f"{waits}0 waiting, 0 running, 1 timer\n")
    assert commands.notifier("timer", "list").stderr == waits
    assert "`notifier start`" in commands.notifier("stop").stderr
    commands.told("notifier", "start")
    assert commands.told("notifier", "status")["stopped"] is False
    assert commands.notifier("timer", "list").stderr == ""


def test_the_runs_of_a_timer_are_listed_by_its_id_also_when_it_was_removed(commands: BusyQueueCommands) -> None:
    timer(commands, "* * * * * *", "echo tick")
    eventually(lambda: runs(commands) != [])
    assert commands.notifier("timer", "remove", "tick").code == 0
    commands.runner_gone()
    assert commands.told("notifier", "task", "runs", "tick") == commands.told("notifier", "task", "runs", "timer-tick")
    assert "timer-tick  ok" in commands.notifier("task", "runs", "tick").stdout
    assert commands.notifier("task", "runs", "tock").stdout == "no run of tock is kept; `notifier task list` shows what waits\n"


def test_a_timer_at_reboot_fires_when_a_runner_starts_on_a_machine_that_was_started_since(commands: BusyQueueCommands) -> None:
    timer(commands, "@reboot", f"echo boot >> '{commands.folder}/boots'")
    commands.runner_gone()  # it has nothing to wait for
    with closing(sqlite3.connect(commands.home / "notifier.db")) as database, database:
        assert database.execute("UPDATE settings SET value = 'another boot' WHERE name = 'boot of tick'").rowcount == 1
    for _ in range(2):
        assert commands.notifier("start").code == 0
        eventually((commands.folder / "boots").exists)
        assert commands.notifier("stop").code == 0
    assert (commands.folder / "boots").read_text() == "boot\n"


def test_a_timer_that_is_due_again_while_its_command_runs_does_not_pile_up(commands: BusyQueueCommands) -> None:
    """As with cron under flock: one runs, at most one more waits."""
    busy = f"cd '{commands.folder}'; mkdir busy || echo twice >> overlaps; echo begun >> log; sleep 2; rmdir busy; echo ended >> log"
    timer(commands, "* * * * * *", busy)
    eventually(lambda: (commands.folder / "log").exists() and "ended" in (commands.folder / "log").read_text())
    assert commands.notifier("timer", "remove", "--timer-id", "tick").code == 0
    assert not (commands.folder / "overlaps").exists()


def test_a_timer_is_there_once_and_gone_once(commands: BusyQueueCommands) -> None:
    timer(commands, "0 0 1 1 *")
    adding = ["timer", "add", "--author", "other", "--timer-id", "tick", "--cron", "0 0 2 2 *", "--command", "false"]
    commands.refuses(1, "notifier", *adding)
    assert [(entry["author"], entry["cron"], entry["command"]) for entry in timers(commands)] == [("self", "0 0 1 1 *", "true")]
    assert commands.notifier("timer", "remove", "--timer-id", "tick").code == 0
    commands.refuses(1, "notifier", "timer", "remove", "--timer-id", "tick")


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "* * * * * * *", "61 * * * *", "* 24 * * *", "every day", "*/0 * * * *", "0 0 31 2 *", "@never"]
)
def test_what_is_no_time_is_refused(commands: BusyQueueCommands, cron: str) -> None:
    commands.refuses(2, "notifier", "timer", "add", "--author", "self", "--timer-id", "t", f"--cron={cron}", "--command", "true")
    assert timers(commands) == []


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/passwd", "UTC\n"])
def test_what_is_no_time_zone_is_refused(commands: BusyQueueCommands, zone: str) -> None:
    adding = ["--author", "self", "--timer-id", "t", "--cron", "* * * * *", "--command", "true", f"--timezone={zone}"]
    commands.refuses(2, "notifier", "timer", "add", *adding)
    assert timers(commands) == []
