"""Handlers that fail, rest or are killed, and queues that go away meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import eventually
from tests.cli.queue_process import COMMANDS, UNSCHEDULED, BusyQueueCommands

# The first process of a container: it inherits the processes whose parents have ended,
# and never asks how those ended. 36 is PR_SET_CHILD_SUBREAPER.
CARELESS = "import ctypes, subprocess, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); subprocess.run(sys.argv[1:]); sys.stdin.read()"
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
    eventually(lambda: (commands.work() / "runs").exists() and "no progress" in commands.log())
    supervisor = commands.supervisor("c")
    shutil.rmtree(commands.queue)
    eventually(lambda: supervisor not in commands.processes())
    assert not commands.queue.exists()
    commands.init()
    assert not (commands.work() / "runs").exists()


def test_a_runner_that_is_killed_while_nothing_else_happens_is_followed_by_another(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "echo $$ >> pids; until test -e go; do sleep 0.01; done; thread ack --last-event-id 1")
    commands.push()
    eventually(lambda: (commands.work() / "pids").exists() and commands.held("c"))
    runner = commands.supervisor("c")
    os.kill(runner, signal.SIGKILL)
    eventually(lambda: commands.held("c") and commands.supervisor("c") not in (runner, None))
    (commands.work() / "go").touch()
    eventually(lambda: commands.info()["subscriptions"][0]["last_acked_id"] == 1 and not commands.held("c"))
    assert len((commands.work() / "pids").read_text().split()) == 1, "its handler went on, and no other was started"


def test_a_handler_that_cannot_be_started_is_told_in_the_log_and_in_info(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "true")
    (commands.queue / "logs" / "c.out").mkdir()
    commands.push(**UNSCHEDULED)
    commands.on_queue("dispatch", THREAD_BACKOFF_SECONDS="600")
    eventually(lambda: "could not be started" in commands.log())
    eventually(lambda: "c.out" in (commands.info()["subscriptions"][0]["trouble"] or ""))


def test_a_handler_that_cannot_be_started_costs_no_event(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "echo run >> runs; [ $(wc -l < runs) -gt 1 ] && thread ack --last-event-id 1", "--max-tries", "2")
    (commands.queue / "logs" / "c.out").mkdir()
    commands.push(**UNSCHEDULED)
    commands.on_queue("dispatch", THREAD_BACKOFF_SECONDS="0.001")
    eventually(lambda: commands.log().count("could not be started") >= 4)
    (commands.queue / "logs" / "c.out").rmdir()
    eventually(lambda: commands.info()["subscriptions"][0]["last_acked_id"] == 1)
    assert commands.info()["subscriptions"][0]["dead_events"] == 0


def test_a_stopped_handler_is_followed_by_another_where_nobody_reaps_orphans(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "echo run >> runs; sleep 1000 & sleep 1000; wait", "--timeout-seconds", "0.05")
    commands.push(**UNSCHEDULED)
    dispatch = [*COMMANDS["thread"], "dispatch", "--thread", str(commands.queue)]
    environment = commands.environment(THREAD_BACKOFF_SECONDS="0.001")
    first = subprocess.Popen([sys.executable, "-c", CARELESS, *dispatch], env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: (commands.work() / "runs").exists() and len((commands.work() / "runs").read_text().split()) >= 2)
    finally:
        first.kill()
        first.communicate()


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


def test_the_handler_of_the_guide_loses_nothing_with_two_consumers(commands: BusyQueueCommands) -> None:
    for consumer in ("a", "b"):
        commands.subscribe(consumer, "thread pop > batch && cat batch >> seen && thread ack --events batch")
    for number in range(12):
        commands.push(str(number))
    for consumer in ("a", "b"):
        eventually(lambda consumer=consumer: commands.pop(consumer) == [])  # type: ignore[misc]
        seen = [json.loads(line)["id"] for line in (commands.work(consumer) / "seen").read_text().splitlines()]
        assert sorted(set(seen)) == list(range(1, 13))
