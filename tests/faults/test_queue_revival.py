"""Unread events after a crash of everything, or after the push of another user: a runner that starts for any reason looks at all queues."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import eventually, is_alive
from tests.cli.queue_process import UNSCHEDULED, BusyQueueCommands, reader

NOBODY = 65534


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        made.init()
        yield made


def progress(commands: BusyQueueCommands) -> int:
    acked: int = commands.info()["subscriptions"][0]["last_acked_id"]
    return acked


def crash(commands: BusyQueueCommands, names: list[str]) -> None:
    """Queues with a handler each, of which everything is killed at once: as a power cut does."""
    for name in names:
        commands.queue = commands.folder / name
        commands.init()
        commands.subscribe(
            "c", f"touch started; until test -e '{commands.folder}/go'; do sleep 0.01; done; {reader(commands.queue / 'seen')}"
        )
        commands.push()
        eventually((commands.work() / "started").exists)
    commands.end_all()
    assert commands.processes() == []
    (commands.folder / "go").touch()


@pytest.mark.parametrize("command", [("status",), ("task", "list"), ("timer", "list")])
def test_any_command_of_the_notifier_brings_the_events_of_every_queue_back_to_life(
    commands: BusyQueueCommands, command: tuple[str, ...]
) -> None:
    crash(commands, ["first", "second"])
    assert commands.notifier(*command).code == 0
    eventually(lambda: all((commands.folder / name / "seen").exists() for name in ("first", "second")))


def test_info_says_since_when_events_wait_and_why_nothing_runs(commands: BusyQueueCommands) -> None:
    crash(commands, ["first"])
    (entry,) = commands.info()["subscriptions"]
    assert (entry["running"], entry["waiting_since"]) == (False, commands.journal()[0]["created_at"])
    assert "no runner is up, for example since a reboot: `notifier start`" in entry["waiting_because"]
    assert f"waiting  since {entry['waiting_since']}, because no runner" in commands.on_queue("info").stdout


def test_info_names_exit_status_and_output_of_the_last_run(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "no-such-program")
    commands.push(**UNSCHEDULED)
    commands.on_queue("dispatch", THREAD_BACKOFF_SECONDS="200")
    eventually(lambda: "exit 127" in (commands.info()["subscriptions"][0]["last_run"] or ""))
    (entry,) = commands.info()["subscriptions"]
    assert "the last ended with exit 127 at " in entry["trouble"]
    assert "not found" in Path(entry["output"]).read_text()


def test_subscribe_warns_of_a_program_that_is_not_where_the_handler_runs(commands: BusyQueueCommands) -> None:
    (commands.folder / "h.sh").touch()
    finished = commands.on_queue("subscribe", "--consumer", "c", "--handler", "./h.sh")
    assert (finished.code, finished.stdout) == (0, "c\n")
    assert f"where there is no ./h.sh. Name it by {commands.folder / 'h.sh'}." in finished.stderr


def test_thread_list_shows_the_queues_that_were_used_and_what_waits(commands: BusyQueueCommands) -> None:
    assert commands.thread("list").stdout == "no queue has been used\n"
    commands.subscribe("c", "true")
    commands.push(**UNSCHEDULED)
    (known,) = commands.told("thread", "list")["threads"]
    assert (known["thread"], known["last_event_id"], known["consumers"], known["waiting"]) == (str(commands.queue.resolve()), 1, 1, 1)
    assert "newest event 1, 1 consumer, 1 with unread events, 0 running" in commands.thread("list").stdout


def test_a_keeper_that_is_killed_leaves_its_runner_at_work(commands: BusyQueueCommands) -> None:
    runner = commands.told("notifier", "start")["pid"]
    keeper = int(Path(f"/proc/{runner}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(keeper, signal.SIGKILL)
    commands.subscribe("c", reader(commands.folder / "seen"))
    commands.push()
    eventually((commands.folder / "seen").exists)
    assert commands.runner() == runner
    assert commands.notifier("stop").code == 0
    eventually(lambda: not is_alive(runner))


def test_a_runner_that_stays_notices_the_push_of_another_user_who_cannot_wake_it(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", reader(commands.folder / "seen"))
    commands.notifier("start")
    commands.push(**UNSCHEDULED)
    eventually((commands.folder / "seen").exists)


def test_a_push_of_root_leaves_the_files_to_the_owner_and_the_handlers_to_the_owners_runner(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "touch ran")
    owner, files = (NOBODY, [commands.queue, *commands.queue.rglob("*")]) if os.geteuid() == 0 else (os.geteuid(), [])
    for file in files:
        os.chown(file, owner, owner)
    for name in ("run/.tracks", "logs/thread.log"):
        (commands.queue / name).unlink(missing_ok=True)
    finished = commands.on_queue("push", "--source", "self", "--type", "record", "--content", "x")
    assert (finished.code, finished.stdout) == (0, "1\n")
    assert {file.stat().st_uid for file in commands.queue.rglob("*")} == {owner}
    if files:
        assert "Its handlers run as nobody: a runner of nobody that stays up" in finished.stderr
        commands.runner_gone()
        assert not commands.work().exists()
