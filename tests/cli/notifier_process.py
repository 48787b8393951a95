"""Questions that tests ask the notifier; `queue_process.py` starts the commands."""

from __future__ import annotations

from typing import Any

from tests.cli.process import eventually
from tests.cli.queue_process import BusyQueueCommands


def adding(command: str, *more: str, task: str = "job", author: str = "self") -> list[str]:
    return ["task", "add", "--author", author, "--task-id", task, "--command", command, *more]


def add(commands: BusyQueueCommands, command: str, *more: str, task: str = "job", author: str = "self") -> Any:
    return commands.told("notifier", *adding(command, *more, task=task, author=author))


def tasks(commands: BusyQueueCommands) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = commands.told("notifier", "task", "list")["tasks"]
    return found


def runs(commands: BusyQueueCommands, *more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = commands.told("notifier", "task", "runs", *more)["runs"]
    return [run for run in found if run["ended_at"] is not None]


def ended(commands: BusyQueueCommands, count: int = 1) -> list[dict[str, Any]]:
    """That many runs, newest first, once they have ended and nothing is left to do."""
    eventually(lambda: len(runs(commands)) >= count and tasks(commands) == [])
    found = runs(commands)
    assert len(found) == count, found
    return found
