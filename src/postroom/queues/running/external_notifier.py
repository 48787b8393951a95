"""Queue a dispatch with an external notifier, the command named by THREAD_NOTIFIER. Called by `notifier.schedule`."""

from __future__ import annotations

import os
from signal import SIGKILL

from postroom.core.errors import StorageFailure
from postroom.core.records.queues import ALREADY_QUEUED, QUEUED
from postroom.core.text import shell_quote
from postroom.processes.child_process import ChildProcess, last_line
from postroom.processes.wake_pipe import WakePipe

DEFAULT_TIMEOUT_SECONDS = 30.0


def schedule_externally(notifier: str, author: str, task: str, command: str) -> str:
    """Queue a task by running `NOTIFIER task add`. Returns `QUEUED` or `ALREADY_QUEUED`.

    Exit 1 means that the task is queued already, as the document of the queues prescribes. Raises `StorageFailure` on a timeout, and on
    every other failure.
    """
    arguments = ("task", "add", "--author", author, "--task-id", task, "--command", command)
    wake = WakePipe()
    child = ChildProcess(f"{notifier} {' '.join(map(shell_quote, arguments))}", dict(os.environ), "", wake)
    try:
        if not child.wait(_timeout_seconds()):
            child.send_signal(SIGKILL)
            child.wait(None)
            raise _notifier_failure(f"it did not answer within {_timeout_seconds():g} seconds")
        output = f"{child.read_output()}\n{child.read_errors()}".strip()
    finally:
        child.close()
        wake.close()
    if child.status == 0:
        return QUEUED
    if child.status == 1:
        return ALREADY_QUEUED
    raise _notifier_failure(f"{child.exit_description}, {last_line(output)}" if output else child.exit_description)


def _timeout_seconds() -> float:
    try:
        return float(os.environ.get("THREAD_NOTIFIER_SECONDS") or DEFAULT_TIMEOUT_SECONDS)
    except ValueError:
        return DEFAULT_TIMEOUT_SECONDS


def _notifier_failure(why: str) -> StorageFailure:
    hint = "Mend it, or unset THREAD_NOTIFIER to use the built-in one."
    return StorageFailure(f"the notifier of THREAD_NOTIFIER failed: {why}", hint=hint)
