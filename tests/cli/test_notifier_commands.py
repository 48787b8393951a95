"""The command `notifier`: tasks that are kept, run and told about, timers, and a runner that is just there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.mailbox_process import Gate, alive, written
from tests.cli.notifier_process import add, adding, ended, runs, tasks
from tests.cli.process import eventually
from tests.cli.queue_process import BusyOffice, end

MIB = 1 << 20
SOURCE = "external:telegram:tg-main:group:grp-123/topic-456:alice"  # the document's own example


@pytest.fixture
def office(tmp_path: Path) -> Iterator[BusyOffice]:
    with BusyOffice(tmp_path) as made:
        yield made


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def waiting(office: BusyOffice) -> str:
    """A command that says that it runs, waits at the gate and says that it ended."""
    return f"cd '{office.folder}'; echo begun >> log; read go < gate; echo ended >> log"


def begun(office: BusyOffice, count: int = 1) -> None:
    log = office.folder / "log"
    eventually(lambda: log.exists() and log.read_text().split().count("begun") == count)


def backed_off(office: BusyOffice) -> None:
    """A task that has failed twice, and is queued for two seconds now."""
    add(office, "exit 1", "--retries", "9")
    eventually(lambda: len(runs(office)) == 2)


# a task


def test_a_task_is_run_once_by_a_runner_that_nobody_started_and_that_ends_when_idle(office: BusyOffice) -> None:
    finished = office.notifier(*adding(f"echo x >> '{office.folder}/ran'"))
    assert (finished.code, finished.stdout, finished.stderr) == (0, "job queued\n", "")
    (run,) = ended(office)
    assert (run["task_id"], run["author"], run["outcome"], run["exit_status"], run["signal"]) == ("job", "self", "ok", 0, None)
    assert (office.folder / "ran").read_text() == "x\n"
    office.runner_gone()


def test_a_task_is_told_as_it_was_added(office: BusyOffice, gate: Gate) -> None:
    answer = add(office, waiting(office), "--retries", "3", "--timeout-seconds", "600", author=SOURCE)
    begun(office)
    (task,) = tasks(office)
    expected = {"task_id": "job", "author": SOURCE, "command": waiting(office), "retries": 3, "timeout_seconds": 600}
    assert {key: task[key] for key in expected} == {key: answer[key] for key in expected} == expected
    assert task["state"] == "running"
    assert datetime.fromisoformat(task["created_at"]) <= datetime.now(UTC)
    assert set(task) >= {"attempts", "due_at"}
    gate.open()
    ended(office)


def test_an_author_with_a_slash_is_an_author_like_any_other(office: BusyOffice) -> None:
    add(office, "true", author=SOURCE)
    assert ended(office)[0]["author"] == SOURCE


def test_a_command_runs_in_the_home_of_the_notifier_and_finds_our_commands(office: BusyOffice) -> None:
    add(office, "pwd; command -v thread; command -v notifier; cat")
    here, *found = ended(office)[0]["output"].splitlines()
    assert (here, [Path(path).name for path in found]) == (str(office.home), ["thread", "notifier"])


def test_the_runs_tell_duration_and_times_newest_first(office: BusyOffice) -> None:
    for number in (1, 2, 3):
        add(office, f"echo {number}", task=f"job-{number}")
        eventually(lambda number=number: len(runs(office)) == number)  # type: ignore[misc]
    found = runs(office)
    assert [run["output"] for run in found] == ["3", "2", "1"]
    assert [run["run"] for run in found] == sorted((run["run"] for run in found), reverse=True)
    for run in found:
        assert datetime.fromisoformat(run["started_at"]) <= datetime.fromisoformat(run["ended_at"])
        assert run["seconds"] >= 0
    assert [run["output"] for run in runs(office, "--task-id", "job-2")] == ["2"]
    assert [run["output"] for run in runs(office, "--limit", "1")] == ["3"]
    assert runs(office, "--task-id", "never") == []


@pytest.mark.parametrize(
    ("command", "status", "number"),
    [("exit 7", 7, None), ("kill -s KILL $$", None, 9), ("kill -s TERM $$", None, 15), ("no-such", 127, None)],
)
def test_exit_status_and_signal_of_a_run_are_kept(office: BusyOffice, command: str, status: int | None, number: int | None) -> None:
    add(office, f"echo said; echo why >&2; {command}")
    (run,) = ended(office)
    assert (run["outcome"], run["exit_status"], run["signal"]) == ("failed", status, number)
    assert run["output"].startswith("said\nwhy")


def test_output_of_any_size_hangs_nothing_and_its_end_is_kept(office: BusyOffice) -> None:
    add(office, "head -c 5000000 /dev/zero | tr '\\0' a; head -c 3000000 /dev/zero | tr '\\0' b >&2; printf END")
    (run,) = ended(office)
    assert run["outcome"] == "ok"
    assert run["output"].endswith("b" * (MIB - 3) + "END")
    assert "a" not in run["output"][100:]  # before that there is at most a word about what was left out


def test_output_that_is_no_text_hurts_nobody(office: BusyOffice) -> None:
    add(office, r"printf '\377\376\0\033[31m'; echo; echo after")
    (run,) = ended(office)
    assert (run["outcome"], run["output"][-6:]) == ("ok", "\nafter")
    spoken = office.notifier("task", "runs")
    assert (spoken.code, "\x1b" in spoken.stdout, "\0" in spoken.stdout) == (0, False, False)


def test_a_background_child_of_a_command_does_not_keep_its_run_open(office: BusyOffice) -> None:
    add(office, f"sleep 60 & echo $! > '{office.folder}/child'")
    assert ended(office)[0]["outcome"] == "ok"
    end(int(written(office.folder / "child")))


def test_a_newline_in_a_command_forges_nothing(office: BusyOffice, gate: Gate) -> None:
    forged = "other queued\nauthor: root\n[2026-03-18T10:30:00.123Z] [INFO] forged: line"
    command = f"{waiting(office)}; : '{forged}'"
    add(office, command)
    begun(office)
    assert [task["command"] for task in tasks(office)] == [command]
    spoken = [office.notifier("task", "list").stdout]
    gate.open()
    assert [run["command"] for run in ended(office)] == [command]
    spoken += [office.notifier("task", "runs").stdout, (office.home / "runner.log").read_text()]
    lines = [line.strip() for text in spoken for line in text.splitlines()]
    assert [line for line in lines if line.startswith(("author: root", "[2026-03-18T10:30:00.123Z]"))] == []


# one of each


def test_what_is_queued_already_is_not_queued_again_whoever_asks(office: BusyOffice, gate: Gate) -> None:
    """While it runs it is queued once more: what was asked for later is done later."""
    add(office, waiting(office))
    begun(office)
    assert office.notifier(*adding(waiting(office), author="other")).code == 0
    for author in ("self", "other", SOURCE):
        refused = office.refuses(1, "notifier", *adding(waiting(office), author=author))
        assert "already queued" in refused["error"]
    assert sorted(task["state"] for task in tasks(office)) == ["queued", "running"]
    gate.open()
    begun(office, 2)
    gate.open()
    assert [run["author"] for run in ended(office, 2)] == ["other", "self"]


def test_the_same_id_with_another_command_is_another_task(office: BusyOffice) -> None:
    backed_off(office)
    add(office, "echo another")
    eventually(lambda: "another" in [run["output"] for run in runs(office)])
    assert [task["command"] for task in tasks(office)] == ["exit 1"]


def test_a_task_can_be_removed_before_it_runs(office: BusyOffice) -> None:
    backed_off(office)
    assert office.told("notifier", "task", "remove", "--task-id", "job") == {"removed": 1}
    office.refuses(1, "notifier", "task", "remove", "--task-id", "job")
    assert tasks(office) == []
    office.runner_gone()


def test_what_runs_is_not_there_to_be_removed(office: BusyOffice, gate: Gate) -> None:
    add(office, waiting(office))
    begun(office)
    office.refuses(1, "notifier", "task", "remove", "--task-id", "job")
    gate.open()
    assert ended(office)[0]["outcome"] == "ok"


def test_sixteen_run_side_by_side_and_no_more(office: BusyOffice) -> None:
    for number in range(17):
        add(office, f"cd '{office.folder}'; echo begun >> log; until test -e release; do sleep 0.05; done", task=f"job-{number}")
    begun(office, 16)
    assert sorted(task["state"] for task in tasks(office)) == ["queued"] + ["running"] * 16
    status = office.told("notifier", "status")
    assert (status["running"], status["queued"], status["running_tasks"]) == (True, 1, 16)
    (office.folder / "release").touch()
    ended(office, 17)


# retries, timeouts, deaths


def test_a_task_that_fails_is_tried_again_as_often_as_it_says(office: BusyOffice) -> None:
    add(office, f"echo x >> '{office.folder}/tries'; exit 3", "--retries", "1")
    found = ended(office, 2)
    assert [(run["attempt"], run["exit_status"]) for run in found] == [(2, 3), (1, 3)]


def test_a_task_that_succeeds_at_last_is_not_tried_again(office: BusyOffice) -> None:
    add(office, f"cd '{office.folder}'; mkdir first && exit 1; echo again", "--retries", "5")
    assert [run["outcome"] for run in ended(office, 2)] == ["ok", "failed"]


def test_a_task_that_waits_for_its_retry_is_queued(office: BusyOffice) -> None:
    backed_off(office)
    (task,) = tasks(office)
    assert (task["state"], task["attempts"]) == ("queued", 2)
    assert datetime.fromisoformat(task["due_at"]) > datetime.fromisoformat(task["created_at"])
    assert office.notifier(*adding("exit 1")).code == 1


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(office: BusyOffice) -> None:
    add(office, f"sh -c 'echo $$ > \"{office.folder}/child\"; exec sleep 60'; true", "--timeout-seconds", "1")
    (run,) = ended(office)
    assert run["outcome"] == "timeout"
    pid = int(written(office.folder / "child"))
    eventually(lambda: not alive(pid))


def test_what_a_killed_runner_ran_dies_with_it_and_is_run_again(office: BusyOffice) -> None:
    add(office, f"cd '{office.folder}'; mkdir first || {{ echo again; exit 0; }}; echo $$ > pid; exec sleep 60")
    pid = int(written(office.folder / "pid"))
    os.kill(office.runner(), signal.SIGKILL)
    eventually(lambda: not alive(pid))
    assert [run["outcome"] for run in ended(office, 2)] == ["ok", "lost"]


def test_what_kills_every_runner_is_given_up(office: BusyOffice) -> None:
    add(office, f"echo $$ >> '{office.folder}/pids'; exec sleep 60")
    pids = office.folder / "pids"
    for count in (1, 2, 3, 4):
        eventually(lambda count=count: pids.exists() and len(pids.read_text().splitlines()) == count)  # type: ignore[misc]
        pid = office.runner()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: not alive(pid))  # type: ignore[misc]
        office.notifier("task", "list")  # somebody comes by
    assert [run["outcome"] for run in ended(office, 4)] == ["lost"] * 4


# the runner


def test_a_resident_runner_stays_until_it_is_stopped(office: BusyOffice) -> None:
    office.start("notifier", "start")
    eventually(lambda: office.told("notifier", "status")["resident"] is True)
    pid = office.runner()
    add(office, "true")
    ended(office)
    assert office.told("notifier", "status") == {
        "running": True,
        "pid": pid,
        "resident": True,
        "queued": 0,
        "running_tasks": 0,
        "timers": 0,
        "home": str(office.home),
    }
    assert office.notifier("stop").code == 0
    office.runner_gone()
    eventually(lambda: not alive(pid))


def test_a_runner_that_is_told_to_stop_finishes_what_runs(office: BusyOffice, gate: Gate) -> None:
    add(office, waiting(office))
    begun(office)
    pid = office.runner()
    os.kill(pid, signal.SIGSTOP)
    stopping = office.start("notifier", "stop")
    eventually(lambda: _pending(pid, signal.SIGTERM))
    os.kill(pid, signal.SIGCONT)
    gate.open()
    assert stopping.finish().code == 0
    eventually(lambda: not alive(pid))
    assert (office.folder / "log").read_text().split() == ["begun", "ended"]
    assert [run["outcome"] for run in runs(office)] == ["ok"]


def _pending(pid: int, number: signal.Signals) -> bool:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["ShdPnd"], 16) >> (number - 1) & 1)


def test_what_is_queued_when_the_runner_is_stopped_stays_until_there_is_another_task(office: BusyOffice) -> None:
    backed_off(office)
    assert office.notifier("stop").code == 0
    assert [task["state"] for task in tasks(office)] == ["queued"]
    assert office.told("notifier", "status")["running"] is False
    add(office, "echo another")
    eventually(lambda: [run["output"] for run in runs(office)] == ["", "another", "", ""])


def test_where_nothing_runs_there_is_nothing_to_stop(office: BusyOffice) -> None:
    office.refuses(1, "notifier", "stop")
    status = office.told("notifier", "status")
    assert (status["running"], status["pid"], status["resident"]) == (False, None, False)


# what is refused


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["no-such"],
        ["task"],
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
def test_bad_input_is_exit_2_and_queues_nothing(office: BusyOffice, argv: list[str]) -> None:
    office.refuses(2, "notifier", *argv)
    assert tasks(office) == []


def test_names_as_long_as_allowed_with_anything_printable_are_kept(office: BusyOffice) -> None:
    for task, author in (("t" * 200, "a" * 500), ("../../x", "a/b"), ("ü %s 'q'", "$(id)")):
        add(office, "true", task=task, author=author)
    assert {(run["task_id"], run["author"]) for run in ended(office, 3)} == {
        ("t" * 200, "a" * 500),
        ("../../x", "a/b"),
        ("ü %s 'q'", "$(id)"),
    }
    assert sorted(file.name for file in office.folder.iterdir()) == ["notifier-home"]


# where it is kept


@pytest.mark.parametrize("argv", [adding("true"), ["task", "list"], ["task", "runs"], ["timer", "list"], ["status"]], ids=str)
def test_a_home_that_is_no_folder_is_trouble_with_storage(office: BusyOffice, argv: list[str]) -> None:
    office.home.write_text("mine")
    office.refuses(50, "notifier", *argv)
    assert office.home.read_text() == "mine"


def test_a_database_that_is_none_is_trouble_with_storage_and_is_left_alone(office: BusyOffice) -> None:
    office.home.mkdir()
    (office.home / "notifier.db").write_bytes(b"not a database, but long enough to be looked at\n" * 200)
    office.refuses(50, "notifier", *adding("true"))
    assert (office.home / "notifier.db").read_bytes() == b"not a database, but long enough to be looked at\n" * 200


def test_a_home_that_may_not_be_made_is_trouble_with_storage(office: BusyOffice) -> None:
    (office.folder / "shut").mkdir(mode=0o500)
    finished = office.run("notifier", adding("true"), {"NOTIFIER_HOME": str(office.folder / "shut" / "home")}, unprivileged=True)
    assert (finished.code, finished.stdout) == (50, ""), finished
    assert finished.stderr.startswith("Error: ")


class Homeless(BusyOffice):
    """An office without NOTIFIER_HOME."""

    def environment(self, **more: str) -> dict[str, str]:
        environment = super().environment(**more)
        del environment["NOTIFIER_HOME"]
        return environment


@pytest.mark.parametrize(("state", "home"), [("state", "state/notifier"), ("", ".local/state/notifier")])
def test_without_a_home_of_its_own_the_state_of_the_user_is_used(tmp_path: Path, state: str, home: str) -> None:
    with Homeless(tmp_path) as office:
        environment = {"XDG_STATE_HOME": str(tmp_path / state)} if state else {}
        assert office.told("notifier", "status", **environment)["home"] == str(tmp_path / home)
        office.told("notifier", *adding("true"), **environment)
        eventually(lambda: [run["outcome"] for run in office.told("notifier", "task", "runs", **environment)["runs"]] == ["ok"])
        eventually(lambda: office.told("notifier", "status", **environment)["running"] is False)
        assert (tmp_path / home / "notifier.db").is_file()
