"""The notifier's runner: what it keeps open, who brings it back, and what it is when its files are wrong."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.queues.notifier import open_notifier
from tests.cli.process import LIMIT, eventually
from tests.cli.queue_process import COMMANDS, BusyQueueCommands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        made.init()
        yield made


def test_a_runner_keeps_no_file_of_whoever_started_it_open(commands: BusyQueueCommands) -> None:
    with open(commands.folder / "lock", "w") as lock:
        argv = [*COMMANDS["notifier"], "task", "add", "--author", "a", "--task-id", "t", "--command", "ls -l /proc/self/fd"]
        subprocess.run(argv, env=commands.environment(), pass_fds=(lock.fileno(),), check=True, timeout=LIMIT, stdout=subprocess.DEVNULL)
    eventually(lambda: bool(commands.told("notifier", "task", "runs")["runs"]))
    (run,) = commands.told("notifier", "task", "runs")["runs"]
    assert str(commands.folder / "lock") not in run["output"]


def test_a_runner_that_was_to_stay_is_brought_back_by_whoever_looks(commands: BusyQueueCommands) -> None:
    first = commands.told("notifier", "start")["pid"]
    os.kill(first, signal.SIGKILL)
    eventually(lambda: commands.told("notifier", "status")["pid"] not in (first, None))


def test_a_notifier_whose_lock_cannot_be_opened_is_trouble_with_storage(commands: BusyQueueCommands) -> None:
    with open_notifier(str(commands.home)):
        pass
    (commands.home / "runner.lock").mkdir()
    commands.refuses(50, "notifier", "status")
    (commands.home / "runner.lock").rmdir()


def test_commands_and_their_output_are_nobody_elses_business(commands: BusyQueueCommands) -> None:
    with open_notifier(str(commands.home)):
        assert (commands.home.stat().st_mode & 0o777) == 0o700
