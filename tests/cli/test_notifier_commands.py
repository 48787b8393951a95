"""The command `notifier`: tasks that are kept, run and told about, timers, and a runner that is just there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from postroom.queues.running.running_command import MAX_STORED_OUTPUT_BYTES
from tests.cli.mailbox_process import Gate, written
from tests.cli.notifier_process import add, adding, ended, runs, tasks
from tests.cli.process import eventually, is_alive, suspend
from tests.cli.queue_process import BusyQueueCommands, end

SOURCE = "external:telegram:tg-main:group:grp-123/topic-456:alice"  # the document's own example


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        yield made


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def waiting(commands: BusyQueueCommands) -> str:
    """A command that says that it runs, waits at the gate and says that it ended."""
    return f"cd '{commands.folder}'; echo begun >> log; read go < gate; echo ended >> log"


def begun(commands: BusyQueueCommands, count: int = 1) -> None:
    log = commands.folder / "log"
    eventually(lambda: log.exists() and log.read_text().split().count("begun") == count)


def backed_off(commands: BusyQueueCommands) -> None:
    """A task that has failed twice, and is queued for two seconds now."""
    add(commands, "exit 1", "--retries", "9")
    eventually(lambda: len(runs(commands)) == 2)


# a task


def test_a_task_is_run_once_by_a_runner_that_nobody_started_and_that_ends_when_idle(commands: BusyQueueCommands) -> None:
    finished = commands.notifier(*adding(f"echo x >> '{commands.folder}/ran'"))
    assert (finished.code, finished.stdout, finished.stderr) == (0, "job queued\n", "")
    (run,) = ended(commands)
    assert (run["task_id"], run["author"], run["outcome"], run["exit_status"], run["signal"]) == ("job", "self", "ok", 0, None)
    assert (commands.folder / "ran").read_text() == "x\n"
    commands.runner_gone()


def test_a_task_is_told_as_it_was_added(commands: BusyQueueCommands, gate: Gate) -> None:
    answer = add(commands, waiting(commands), "--retries", "3", "--timeout-seconds", "600", author=SOURCE)
    begun(commands)
    (task,) = tasks(commands)
    expected = {"task_id": "job", "author": SOURCE, "command": waiting(commands), "retries": 3, "timeout_seconds": 600}
    assert {key: task[key] for key in expected} == {key: answer[key] for key in expected} == expected
    assert task["state"] == "running"
    assert datetime.fromisoformat(task["created_at"]) <= datetime.now(UTC)
    assert set(task) >= {"attempts", "due_at"}
    gate.open()
    ended(commands)


def test_an_author_with_a_slash_is_an_author_like_any_other(commands: BusyQueueCommands) -> None:
    add(commands, "true", author=SOURCE)
    assert ended(commands)[0]["author"] == SOURCE


def test_a_command_runs_in_the_home_of_the_notifier_and_finds_our_commands(commands: BusyQueueCommands) -> None:
    add(commands, "pwd; command -v thread; command -v notifier; cat")
    here, *found = ended(commands)[0]["output"].splitlines()
    assert (here, [Path(path).name for path in found]) == (str(commands.home), ["thread", "notifier"])


def test_the_runs_tell_duration_and_times_newest_first(commands: BusyQueueCommands) -> None:
    for number in (1, 2, 3):
        add(commands, f"echo {number}", task=f"job-{number}")
        eventually(lambda number=number: len(runs(commands)) == number)  # type: ignore[misc]
    found = runs(commands)
    assert [run["output"] for run in found] == ["3", "2", "1"]
    assert [run["run"] for run in found] == sorted((run["run"] for run in found), reverse=True)
    for run in found:
        assert datetime.fromisoformat(run["started_at"]) <= datetime.fromisoformat(run["ended_at"])
        assert run["seconds"] >= 0
    assert [run["output"] for run in runs(commands, "--task-id", "job-2")] == ["2"]
    assert [run["output"] for run in runs(commands, "--limit", "1")] == ["3"]
    assert runs(commands, "--task-id", "never") == []


@pytest.mark.parametrize(
    ("command", "status", "number"),
    [("exit 7", 7, None), ("kill -s KILL $$", None, 9), ("kill -s TERM $$", None, 15), ("no-such", 127, None)],
)
def test_exit_status_and_signal_of_a_run_are_kept(
    commands: BusyQueueCommands, command: str, status: int | None, number: int | None
) -> None:
    add(commands, f"echo said; echo why >&2; {command}")
    (run,) = ended(commands)
    assert (run["outcome"], run["exit_status"], run["signal"]) == ("failed", status, number)
    assert run["output"].startswith("said\nwhy")


def test_output_of_any_size_hangs_nothing_and_its_end_is_kept(commands: BusyQueueCommands) -> None:
    add(commands, "head -c 5000000 /dev/zero | tr '\\0' a; head -c 3000000 /dev/zero | tr '\\0' b >&2; printf END")
    (run,) = ended(commands)
    assert run["outcome"] == "ok"
    assert run["output"].endswith("b" * (MAX_STORED_OUTPUT_BYTES - 3) + "END")
    assert len(run["output"]) < MAX_STORED_OUTPUT_BYTES + 100
    assert "a" not in run["output"][100:]  # before that there is at most a word about what was left out


def test_output_that_is_no_text_hurts_nobody(commands: BusyQueueCommands) -> None:
    add(commands, r"printf '\377\376\0\033[31m'; echo; echo after")
    (run,) = ended(commands)
    assert (run["outcome"], run["output"][-6:]) == ("ok", "\nafter")
    spoken = commands.notifier("task", "runs")
    assert (spoken.code, "\x1b" in spoken.stdout, "\0" in spoken.stdout) == (0, False, False)


def test_a_background_child_of_a_command_does_not_keep_its_run_open(commands: BusyQueueCommands) -> None:
    add(commands, f"sleep 60 & echo $! > '{commands.folder}/child'")
    assert ended(commands)[0]["outcome"] == "ok"
    end(int(written(commands.folder / "child")))


def test_a_newline_in_a_command_forges_nothing(commands: BusyQueueCommands, gate: Gate) -> None:
    forged = "other queued\nauthor: root\n[2026-03-18T10:30:00.123Z] [INFO] forged: line"
    command = f"{waiting(commands)}; : '{forged}'"
    add(commands, command)
    begun(commands)
    assert [task["command"] for task in tasks(commands)] == [command]
    spoken = [commands.notifier("task", "list").stdout]
    gate.open()
    assert [run["command"] for run in ended(commands)] == [command]
    spoken += [commands.notifier("task", "runs").stdout, (commands.home / "runner.log").read_text()]
    lines = [line.strip() for text in spoken for line in text.splitlines()]
    assert [line for line in lines if line.startswith(("author: root", "[2026-03-18T10:30:00.123Z]"))] == []


# one of each


def test_what_is_queued_already_is_not_queued_again_whoever_asks(commands: BusyQueueCommands, gate: Gate) -> None:
    """While it runs it is queued once more: what was asked for later is done later."""
    add(commands, waiting(commands))
    begun(commands)
    assert commands.notifier(*adding(waiting(commands), author="other")).code == 0
    for author in ("self", "other", SOURCE):
        refused = commands.refuses(1, "notifier", *adding(waiting(commands), author=author))
        assert "already queued" in refused["error"]
    assert sorted(task["state"] for task in tasks(commands)) == ["queued", "running"]
    gate.open()
    begun(commands, 2)
    gate.open()
    assert [run["author"] for run in ended(commands, 2)] == ["other", "self"]


def test_the_same_id_with_another_command_is_another_task(commands: BusyQueueCommands) -> None:
    backed_off(commands)
    add(commands, "echo another")
    eventually(lambda: "another" in [run["output"] for run in runs(commands)])
    assert [task["command"] for task in tasks(commands)] == ["exit 1"]


def test_a_task_can_be_removed_before_it_runs(commands: BusyQueueCommands) -> None:
    backed_off(commands)
    assert commands.told("notifier", "task", "remove", "--task-id", "job") == {"removed": 1}
    commands.refuses(1, "notifier", "task", "remove", "--task-id", "job")
    assert tasks(commands) == []
    commands.runner_gone()


def test_what_runs_is_not_there_to_be_removed(commands: BusyQueueCommands, gate: Gate) -> None:
    add(commands, waiting(commands))
    begun(commands)
    commands.refuses(1, "notifier", "task", "remove", "--task-id", "job")
    gate.open()
    assert ended(commands)[0]["outcome"] == "ok"


def test_sixteen_run_side_by_side_and_no_more(commands: BusyQueueCommands) -> None:
    for number in range(17):
        add(commands, f"cd '{commands.folder}'; echo begun >> log; until test -e release; do sleep 0.05; done", task=f"job-{number}")
    begun(commands, 16)
    assert sorted(task["state"] for task in tasks(commands)) == ["queued"] + ["running"] * 16
    status = commands.told("notifier", "status")
    assert (status["running"], status["queued"], status["running_tasks"]) == (True, 1, 16)
    (commands.folder / "release").touch()
    ended(commands, 17)


# retries, timeouts, deaths


def test_a_task_that_fails_is_tried_again_as_often_as_it_says(commands: BusyQueueCommands) -> None:
    add(commands, f"echo x >> '{commands.folder}/tries'; exit 3", "--retries", "1")
    found = ended(commands, 2)
    assert [(run["attempt"], run["exit_status"]) for run in found] == [(2, 3), (1, 3)]


def test_a_task_that_succeeds_at_last_is_not_tried_again(commands: BusyQueueCommands) -> None:
    add(commands, f"cd '{commands.folder}'; mkdir first && exit 1; echo again", "--retries", "5")
    assert [run["outcome"] for run in ended(commands, 2)] == ["ok", "failed"]


def test_a_task_that_waits_for_its_retry_is_queued(commands: BusyQueueCommands) -> None:
    backed_off(commands)
    (task,) = tasks(commands)
    assert (task["state"], task["attempts"]) == ("queued", 2)
    assert datetime.fromisoformat(task["due_at"]) > datetime.fromisoformat(task["created_at"])
    assert commands.notifier(*adding("exit 1")).code == 1


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(commands: BusyQueueCommands) -> None:
    add(commands, f"sh -c 'echo $$ > \"{commands.folder}/child\"; exec sleep 60'; true", "--timeout-seconds", "1")
    (run,) = ended(commands)
    assert run["outcome"] == "timeout"
    pid = int(written(commands.folder / "child"))
    eventually(lambda: not is_alive(pid))


def test_what_a_killed_runner_ran_dies_with_it_and_is_run_again(commands: BusyQueueCommands) -> None:
    add(commands, f"cd '{commands.folder}'; mkdir first || {{ echo again; exit 0; }}; echo $$ > pid; exec sleep 60")
    pid = int(written(commands.folder / "pid"))
    os.kill(commands.runner(), signal.SIGKILL)
    eventually(lambda: not is_alive(pid))
    assert [run["outcome"] for run in ended(commands, 2)] == ["ok", "lost"]


def test_what_kills_every_runner_is_given_up(commands: BusyQueueCommands) -> None:
    add(commands, f"echo $$ >> '{commands.folder}/pids'; exec sleep 60")
    pids = commands.folder / "pids"
    for count in (1, 2, 3, 4):
        eventually(lambda count=count: pids.exists() and len(pids.read_text().splitlines()) == count)  # type: ignore[misc]
        pid = commands.runner()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: not is_alive(pid))  # type: ignore[misc]
        commands.notifier("task", "list")  # somebody comes by
    assert [run["outcome"] for run in ended(commands, 4)] == ["lost"] * 4


# the runner


def test_a_resident_runner_stays_until_it_is_stopped(commands: BusyQueueCommands) -> None:
    commands.start("notifier", "start")
    eventually(lambda: commands.told("notifier", "status")["resident"] is True)
    pid = commands.runner()
    add(commands, "true")
    ended(commands)
    assert commands.told("notifier", "status") == {
        "running": True,
        "pid": pid,
        "resident": True,
        "queued": 0,
        "running_tasks": 0,
        "timers": 0,
        "home": str(commands.home),
        "stopped": False,
    }
    assert commands.notifier("stop").code == 0
    commands.runner_gone()
    eventually(lambda: not is_alive(pid))


def test_a_runner_that_is_told_to_stop_finishes_what_runs(commands: BusyQueueCommands, gate: Gate) -> None:
    add(commands, waiting(commands))
    begun(commands)
    pid = commands.runner()
    suspend(pid)
    stopping = commands.start("notifier", "stop")
    eventually(lambda: _pending(pid, signal.SIGTERM))
    os.kill(pid, signal.SIGCONT)
    gate.open()
    assert stopping.finish().code == 0
    eventually(lambda: not is_alive(pid))
    assert (commands.folder / "log").read_text().split() == ["begun", "ended"]
    assert [run["outcome"] for run in runs(commands)] == ["ok"]


def _pending(pid: int, number: signal.Signals) -> bool:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["ShdPnd"], 16) >> (number - 1) & 1)


def test_what_is_queued_when_the_runner_is_stopped_stays_until_there_is_another_task(commands: BusyQueueCommands) -> None:
    backed_off(commands)
    assert commands.notifier("stop").code == 0
    assert [task["state"] for task in tasks(commands)] == ["queued"]
    assert commands.told("notifier", "status")["running"] is False
    add(commands, "echo another")
    eventually(lambda: [run["output"] for run in runs(commands)] == ["", "another", "", ""])


def test_where_nothing_runs_there_is_nothing_to_stop(commands: BusyQueueCommands) -> None:
    commands.refuses(1, "notifier", "stop")
    status = commands.told("notifier", "status")
    assert (status["running"], status["pid"], status["resident"]) == (False, None, False)


# what is refused


@pytest.mark.parametrize(
    "argv",
    [
        ["no-such"],
        ["task", "no-such"],
        ["task", "add"],
        ["task", "add", "--author", "self", "--task-id", "t"],
        ["task", "add", "--author", "self", "--command", "true"],
        ["task", "add", "--task-id", "t", "--command", "true"],
        ["task", "remove"],
        ["task", "runs", "--limit", "0"],
        ["task", "runs", "--limit", "many"],
        ["timer", "add", "--author", "self", "--timer-id", "t", "--command", "true"],
        ["timer", "remove"],
        adding("true", "--no-such-flag"),
        adding("true", "--retries", "-1"),
        adding("true", "--retries", "101"),
        adding("true", "--retries", "1.5"),
        adding("true", "--timeout-seconds", "-1"),
        adding("true", "--timeout-seconds", "nan"),
        adding("true", "--timeout-seconds", "soon"),
        adding("true", task=""),
        adding("true", task="two\nlines"),
        adding("true", task="t" * 201),
        adding("true", task="bell\x07"),
        adding("true", author=""),
        adding("true", author="two\nlines"),
        adding("true", author="a" * 501),
        adding(""),
    ],
    ids=str,
)
def test_bad_input_is_exit_2_and_queues_nothing(commands: BusyQueueCommands, argv: list[str]) -> None:
    commands.refuses(2, "notifier", *argv)
    assert tasks(commands) == []


def test_names_as_long_as_allowed_with_anything_printable_are_kept(commands: BusyQueueCommands) -> None:
    for task, author in (("t" * 200, "a" * 500), ("../../x", "a/b"), ("ü %s 'q'", "$(id)")):
        add(commands, "true", task=task, author=author)
    assert {(run["task_id"], run["author"]) for run in ended(commands, 3)} == {
        ("t" * 200, "a" * 500),
        ("../../x", "a/b"),
        ("ü %s 'q'", "$(id)"),
    }
    assert sorted(file.name for file in commands.folder.iterdir()) == ["notifier-home"]


# where it is kept


@pytest.mark.parametrize("argv", [adding("true"), ["task", "list"], ["task", "runs"], ["timer", "list"], ["status"]], ids=str)
def test_a_home_that_is_no_folder_is_trouble_with_storage(commands: BusyQueueCommands, argv: list[str]) -> None:
    commands.home.write_text("mine")
    commands.refuses(50, "notifier", *argv)
    assert commands.home.read_text() == "mine"


def test_a_database_that_is_none_is_trouble_with_storage_and_is_left_alone(commands: BusyQueueCommands) -> None:
    commands.home.mkdir()
    (commands.home / "notifier.db").write_bytes(b"not a database, but long enough to be looked at\n" * 200)
    commands.refuses(50, "notifier", *adding("true"))
    assert (commands.home / "notifier.db").read_bytes() == b"not a database, but long enough to be looked at\n" * 200


def test_a_home_that_may_not_be_made_is_trouble_with_storage(commands: BusyQueueCommands) -> None:
    (commands.folder / "shut").mkdir(mode=0o500)
    finished = commands.run("notifier", adding("true"), {"NOTIFIER_HOME": str(commands.folder / "shut" / "home")}, unprivileged=True)
    assert (finished.code, finished.stdout) == (50, ""), finished
    assert finished.stderr.startswith("Error: ")


class Homeless(BusyQueueCommands):
    """Queue commands without NOTIFIER_HOME."""

    def environment(self, **more: str) -> dict[str, str]:
        environment = super().environment(**more)
        del environment["NOTIFIER_HOME"]
        return environment


@pytest.mark.parametrize(("state", "home"), [("state", "state/notifier"), ("", ".local/state/notifier")])
def test_without_a_home_of_its_own_the_state_of_the_user_is_used(tmp_path: Path, state: str, home: str) -> None:
    with Homeless(tmp_path) as commands:
        environment = {"XDG_STATE_HOME": str(tmp_path / state)} if state else {}
        assert commands.told("notifier", "status", **environment)["home"] == str(tmp_path / home)
        commands.told("notifier", *adding("true"), **environment)
        eventually(lambda: [run["outcome"] for run in commands.told("notifier", "task", "runs", **environment)["runs"]] == ["ok"])
        eventually(lambda: commands.told("notifier", "status", **environment)["running"] is False)
        assert (tmp_path / home / "notifier.db").is_file()
