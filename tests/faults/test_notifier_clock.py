"""The clock is set back while the runner is up, or while a command waits for it: neither stops until the old time has come again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom.core import clock
from postroom.core.records.queues import QUEUED
from postroom.queues import notifier as verbs
from postroom.queues.running import runner_process
from tests.cli.process import eventually
from tests.cli.queue_process import BusyQueueCommands

HOUR_MICROSECONDS = 3600 * clock.MICROSECONDS_PER_SECOND
RUNNER = """
import os, sys
from postroom.core import clock
from postroom.core.records.queues import QUEUED
from postroom.queues.running import runner_process
from postroom.queues.running.runner import Runner
from postroom.store.sqlite.queues.queue_databases import NotifierDatabase

home, is_ahead, hour = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.chdir(home)
with NotifierDatabase(home, now=lambda: clock.now() + hour * os.path.exists(is_ahead)) as notifier:
    Runner(notifier, runner_process.wait_for_lock(home), stays=True).run()
"""


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        yield made


@pytest.fixture
def ahead_runner(commands: BusyQueueCommands) -> Iterator[Path]:
    """A file. While it is there, the clock of the runner is an hour ahead."""
    is_ahead = commands.folder / "is-ahead"
    is_ahead.touch()
    commands.home.mkdir()
    argv = [sys.executable, "-c", RUNNER, str(commands.home), str(is_ahead), str(HOUR_MICROSECONDS)]
    with subprocess.Popen(argv, env=commands.environment()) as runner:
        eventually(lambda: commands.told("notifier", "status")["pid"] == runner.pid)
        yield is_ahead
        runner.terminate()


def test_a_runner_whose_clock_is_set_back_goes_on_with_its_timers(commands: BusyQueueCommands, ahead_runner: Path) -> None:
    ticks = commands.folder / "ticks"
    timer = ["--timer-id", "tick", "--cron", "* * * * * *", "--command", f"echo tick >> '{ticks}'"]
    assert commands.notifier("timer", "add", "--author", "a", *timer).code == 0
    eventually(lambda: _time_until_next(commands) > timedelta(minutes=30) and ticks.exists())
    ahead_runner.unlink()
    eventually(lambda: _time_until_next(commands) < timedelta(minutes=1))
    before = ticks.read_text()
    eventually(lambda: ticks.read_text() != before)


def _time_until_next(commands: BusyQueueCommands) -> timedelta:
    (timer,) = commands.told("notifier", "timer", "list")["timers"]
    return datetime.fromisoformat(timer["next_at"]) - datetime.now(UTC)


def test_a_command_that_was_queued_before_the_clock_was_set_back_is_run(commands: BusyQueueCommands) -> None:
    ran = commands.folder / "ran"
    with verbs.open_notifier(str(commands.home), now=lambda: clock.now() + HOUR_MICROSECONDS) as notifier:
        lock = runner_process.wait_for_lock(notifier.home)  # no runner starts
        verbs.add_task(notifier, "job", author="a", command=f"touch '{ran}'")
        lock.close()
    commands.notifier("status")  # any command starts the runner
    eventually(ran.exists)


def test_a_dispatch_that_was_queued_before_the_clock_was_set_back_is_run(commands: BusyQueueCommands) -> None:
    commands.init()
    commands.subscribe("c", "touch ran; thread pop > batch && thread ack --events batch")
    with verbs.open_notifier(str(commands.home), now=lambda: clock.now() + HOUR_MICROSECONDS) as notifier:
        lock = runner_process.wait_for_lock(notifier.home)
        assert verbs.queue_dispatch(notifier, str(commands.queue), author="a") == QUEUED
        lock.close()
    commands.push()
    eventually((commands.work() / "ran").exists)
