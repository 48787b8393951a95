"""The environment of handlers and commands: a short list and what was named for them, never the secrets of another process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from postroom import queues
from postroom.core.errors import InvalidInput
from postroom.processes.command_environment import add_own_programs
from postroom.queues.notifier import list_tasks, open_notifier
from postroom.queues.subscriptions import read_subscription_state
from tests.cli.notifier_process import adding, ended
from tests.cli.process import eventually
from tests.cli.queue_process import BusyQueueCommands, acking

SECRETS = {"AWS_SECRET_ACCESS_KEY": "a-secret", "INBOX_TOKEN": "pra_of_another", "INBOX_AGENT": "another", "PYTHONPATH": "/nowhere"}
ALWAYS_THERE = {"PWD", "OLDPWD", "SHLVL", "_", "INBOX_WATCHDOG_FD", "THREAD_DIR", "THREAD_CONSUMER"}  # of the shell and of the handler


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        made.init()
        yield made


def names_in(file: Path) -> dict[str, str]:
    eventually(file.exists)
    return dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)


def test_a_handler_sees_the_short_list_and_what_its_subscription_names(commands: BusyQueueCommands) -> None:
    handler = f"{acking(1)}; env > seen.new; mv seen.new seen"
    subscribed = commands.under(
        {**SECRETS, "REPORT_TO": "ada"}, "subscribe", "--consumer=c", f"--handler={handler}", "--env", "REPORT_TO", "--env=INBOX_AGENT"
    )
    assert subscribed.code == 0, subscribed
    assert commands.under({**SECRETS, "TZ": "UTC"}, "push", "--source", "self", "--type", "message", "--content", "x").code == 0
    seen = names_in(commands.work() / "seen")
    assert seen["REPORT_TO"] == "ada"
    assert seen["INBOX_AGENT"] == "another"
    allowed = {"HOME", "PATH", "LANG", "TZ", "NOTIFIER_HOME", "NOTIFIER_IDLE_SECONDS", "REPORT_TO", "INBOX_AGENT"}
    assert set(seen) - ALWAYS_THERE <= allowed


def test_a_command_of_the_notifier_sees_the_short_list_and_what_was_named(commands: BusyQueueCommands) -> None:
    seen = commands.folder / "seen"
    line = adding(f"env > {seen}.new; mv {seen}.new {seen}", "--env", "REPORT_TO")
    assert commands.run("notifier", line, {**SECRETS, "REPORT_TO": "ada"}).code == 0
    found = names_in(seen)
    ended(commands)
    assert found["REPORT_TO"] == "ada"
    assert SECRETS.keys().isdisjoint(found)


def test_the_value_of_a_variable_is_never_shown(commands: BusyQueueCommands) -> None:
    environment = {"THREAD_NOTIFIER": "true", "KEY": "a-secret-value"}
    said = [
        commands.under(environment, "subscribe", "--consumer=c", "--handler=true", "--env=KEY", "--json"),
        commands.under(environment, "info", "--json"),
        commands.run("notifier", [*adding("sleep 60", "--env=KEY"), "--json"], environment),
        commands.run("notifier", ["task", "list", "--json"], environment),
    ]
    assert [finished.code for finished in said] == [0, 0, 0, 0]
    assert not any("a-secret-value" in finished.stdout + finished.stderr for finished in said)


@pytest.mark.parametrize(
    ("name", "why"), [("UNSET_NAME", "is not set"), ("", "is not set"), ("THREAD_DIR", "cannot be"), ("A=B", "is not set")]
)
def test_a_variable_that_cannot_be_given_is_refused(commands: BusyQueueCommands, name: str, why: str) -> None:
    line = ["subscribe", "--thread", str(commands.queue), "--consumer=c", "--handler=true", f"--env={name}"]
    assert why in commands.refuses(2, "thread", *line, THREAD_DIR="/tmp")["error"]
    assert commands.info()["subscriptions"] == []


def test_the_variables_go_with_the_subscription(tmp_path: Path) -> None:
    with queues.open_queue(queues.init_queue(str(tmp_path / "events"))) as queue:
        queues.subscribe(queue, "c", handler="true", environment={"KEY": "1"})
        queues.unsubscribe(queue, "c")
        queues.subscribe(queue, "c", handler="true")
        state = read_subscription_state(queue, "c")
    assert state is not None
    assert state.environment == {}


def test_consumers_with_and_without_variables_share_a_queue(tmp_path: Path) -> None:
    with queues.open_queue(queues.init_queue(str(tmp_path / "events"))) as queue:
        queues.subscribe(queue, "plain", handler="true")
        queues.subscribe(queue, "c", handler="true", environment={"KEY": "1"})
        states = [read_subscription_state(queue, consumer) for consumer in ("plain", "c")]
    assert [state.environment for state in states if state is not None] == [{}, {"KEY": "1"}]


def test_a_notifier_of_an_older_version_is_upgraded(tmp_path: Path) -> None:
    open_notifier(str(tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / "notifier.db")) as database:
        for table in ("tasks", "timers"):
            database.execute(f"ALTER TABLE {table} DROP COLUMN environment_json")
        database.execute("ALTER TABLE timers DROP COLUMN trouble")
        database.execute("DROP TABLE queues")
        database.execute("PRAGMA user_version=1")
    with open_notifier(str(tmp_path)) as notifier:
        assert list_tasks(notifier) == ()


def test_a_name_that_no_shell_accepts_is_refused(tmp_path: Path) -> None:
    with queues.open_queue(queues.init_queue(str(tmp_path / "events"))) as queue:
        for name in ("", "1A", "A B", "A=B", "Ä", "INBOX_WATCHDOG_FD"):
            with pytest.raises(InvalidInput, match="env cannot be"):
                queues.subscribe(queue, "c", handler="true", environment={name: "1"})


@pytest.mark.parametrize("program", ["-c", "-m"])
def test_no_program_of_the_current_folder_comes_before_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """An interpreter that was started with -c or -m has that as its name, which is the name of no file."""
    planted = tmp_path / "inbox"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [program])
    assert str(tmp_path) not in add_own_programs({"PATH": "/usr/bin"})["PATH"]
