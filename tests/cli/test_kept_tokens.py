"""An owner that was replaced is refused without a flag: each shell keeps the tokens of its own leases."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import Inbox

COMMAND = [sys.executable, "-m", "postroom.cli.inbox"]


class Shell:
    """A shell that stays up and runs commands one after another, as that of an agent does."""

    def __init__(self, inbox: Inbox) -> None:
        environment = {**inbox.environment(), "INBOX_AGENT": "canyon"}
        self._process = subprocess.Popen(
            ["/bin/sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=inbox.folder, env=environment
        )

    def run(self, *words: str) -> tuple[int, dict[str, Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = " ".join(f"'{word}'" for word in [*COMMAND, *words, "--json"])
        self._process.stdin.write(f"{line}; echo $?\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return int(self._process.stdout.readline()), answer

    def close(self) -> None:
        self._process.communicate("exit\n", timeout=60)


@pytest.fixture
def shells(inbox: Inbox) -> Iterator[tuple[Shell, Shell]]:
    for name in ("forge", "canyon"):
        inbox.ok("agent", "register", name)
    inbox.ok("task", "submit", "--from", "forge", "--to", "canyon", "--description", "Review module X")
    pair = Shell(inbox), Shell(inbox)
    yield pair
    for shell in pair:
        shell.close()


def _accept(shell: Shell, seconds: str) -> str:
    code, answer = shell.run("task", "accept", "--lease-seconds", seconds, "--wait", "--timeout-seconds", "60")
    assert code == 0
    task: str = answer["task"]["task_id"]
    return task


def test_a_shell_whose_task_was_given_to_another_is_refused_and_the_owner_obeyed(shells: tuple[Shell, Shell]) -> None:
    first, second = shells
    task = _accept(first, "0.2")
    assert _accept(second, "900") == task  # it waits until the lease is over
    for words in (("complete",), ("fail", "--reason", "x"), ("renew",)):
        code, answer = first.run("task", words[0], "--task", task, *words[1:])
        assert (code, answer["error"]["code"]) == (20, "lease_lost")
    assert second.run("task", "renew", "--task", task)[0] == 0
    assert second.run("task", "complete", "--task", task)[0] == 0
    assert first.run("task", "complete", "--task", task)[1]["error"]["code"] == "conflict"


def test_a_shell_whose_job_was_continued_elsewhere_is_refused(shells: tuple[Shell, Shell]) -> None:
    first, second = shells
    assert first.run("job", "start", "--job", "nightly")[0] == 0
    assert first.run("sheet", "begin", "--job", "nightly")[0] == 0
    assert second.run("job", "start", "--job", "nightly")[0] == 0
    for words in (("sheet", "begin"), ("job", "renew"), ("job", "end")):
        code, answer = first.run(*words, "--job", "nightly")
        assert (code, answer["error"]["code"]) == (20, "lease_lost")
    assert second.run("job", "end", "--job", "nightly")[0] == 0


def test_a_session_may_be_named_where_no_process_is_shared(inbox: Inbox, shells: tuple[Shell, Shell]) -> None:
    mine: dict[str, Any] = {"INBOX_AGENT": "canyon", "INBOX_SESSION": "one"}
    task = inbox.run("task", "accept", "--lease-seconds", "0.2", "--json", **mine).json["task"]["task_id"]
    again: dict[str, Any] = {"INBOX_AGENT": "canyon", "INBOX_SESSION": "two"}
    accepted = inbox.run("task", "accept", "--wait", "--timeout-seconds", "60", "--json", **again)
    assert accepted.code == 0
    assert inbox.run("task", "complete", "--task", task, "--json", **mine).code == 20
    assert inbox.run("task", "complete", "--task", task, "--json", **again).code == 0


def test_notes_are_private_and_go_with_the_task(inbox: Inbox, shells: tuple[Shell, Shell]) -> None:
    task = _accept(shells[0], "900")
    (note,) = list(Path(inbox.environment()["HOME"]).rglob("leases/*")) or list(inbox.folder.rglob("leases/*"))
    assert (note.stat().st_mode & 0o777, note.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert shells[0].run("task", "complete", "--task", task)[0] == 0
    assert not note.exists()


@pytest.mark.parametrize("words", [("task",), ("help", "task"), ("task", "--help"), ("--help", "task")])
def test_a_group_alone_shows_its_commands(inbox: Inbox, words: tuple[str, ...]) -> None:
    finished = inbox.run(*words)
    assert (finished.code, finished.stderr) == (0, "")
    assert "inbox task COMMAND" in finished.stdout
    assert "task accept" in finished.stdout
    assert "inbox send" not in finished.stdout
    assert "sheet begin" not in finished.stdout
