"""Followers of a queue, when their reader or their queue goes away."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import LIMIT, eventually
from tests.cli.queue_process import COMMANDS, UNSCHEDULED, BusyQueueCommands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        made.init()
        yield made


def test_a_follower_whose_reader_has_gone_ends(commands: BusyQueueCommands) -> None:
    commands.push("one", **UNSCHEDULED)
    follow = [*COMMANDS["thread"], "follow", "--thread", str(commands.queue), "--last-event-id", "0"]
    process = subprocess.Popen(follow, env=commands.environment(), stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    commands.push("two", **UNSCHEDULED)
    assert process.wait(LIMIT) == 0


def test_a_queue_that_is_gone_is_called_so_by_one_who_follows_it(commands: BusyQueueCommands) -> None:
    follower = commands.start("thread", "follow", "--thread", str(commands.queue))
    eventually((commands.queue / "events.db.bells").exists)
    shutil.rmtree(commands.queue)
    follower.process.send_signal(signal.SIGTERM)
    assert "bug in Postroom" not in follower.finish().stderr
