"""Handlers that fail, rest or are killed, and queues that go away meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import eventually
from tests.cli.queue_process import UNSCHEDULED, BusyQueueCommands

RECORD = ("--source", "self", "--type", "record", "--content", "x")


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        made.init()
        yield made


def test_a_queue_that_is_deleted_while_its_handler_rests_stays_deleted_and_its_successor_is_left_alone(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "echo run >> runs; exit 1")
    commands.push(**UNSCHEDULED)
    commands.on_queue("dispatch", THREAD_BACKOFF_SECONDS="0.3")
    eventually(lambda: (commands.queue / "runs").exists() and "no progress" in commands.log())
    supervisor = commands.supervisor("c")
    shutil.rmtree(commands.queue)
    eventually(lambda: supervisor not in commands.processes())
    assert not commands.queue.exists()
    commands.init()
    assert not (commands.queue / "runs").exists()


def test_a_supervisor_that_is_killed_while_nothing_else_happens_is_followed_by_another(commands: BusyQueueCommands) -> None:
    handler = "echo run >> runs; test $(wc -l < runs) -gt 1 || sleep 600; thread ack --last-event-id 1"
    commands.subscribe("c", handler)
    commands.push()
    eventually(lambda: (commands.queue / "runs").exists() and commands.held("c"))
    os.kill(commands.supervisor("c"), signal.SIGKILL)
    eventually(lambda: commands.info()["subscriptions"][0]["last_acked_id"] == 1)


def test_a_handler_that_cannot_be_started_is_told_in_the_log_and_in_info(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "true")
    (commands.queue / "logs" / "c.out").mkdir()
    commands.push(**UNSCHEDULED)
    commands.on_queue("dispatch", THREAD_BACKOFF_SECONDS="600")
    eventually(lambda: "could not be started" in commands.log())
    eventually(lambda: "c.out" in (commands.info()["subscriptions"][0]["trouble"] or ""))


def test_a_handler_that_was_mended_does_not_wait_for_the_broken_ones_pause(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "exit 1")
    commands.push(**UNSCHEDULED)
    commands.on_queue("dispatch", THREAD_BACKOFF_SECONDS="600")
    eventually(lambda: "no progress" in commands.log())
    assert commands.on_queue("unsubscribe", "--consumer", "c").code == 0
    commands.subscribe("c", "thread ack --last-event-id 1")
    eventually(lambda: commands.info()["subscriptions"][0]["last_acked_id"] == 1)


def test_one_who_rests_is_not_called_running_and_info_says_until_when(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "exit 1")
    commands.push(**UNSCHEDULED)
    commands.on_queue("dispatch", THREAD_BACKOFF_SECONDS="600")
    eventually(lambda: "the next is at" in (commands.info()["subscriptions"][0]["trouble"] or ""))
    assert commands.info()["subscriptions"][0]["running"] is False
    os.kill(commands.supervisor("c"), signal.SIGKILL)
