"""Another notifier, named by THREAD_NOTIFIER: handed the task as its document says, and believed only as far as it says so."""

from __future__ import annotations

import os
from signal import SIGKILL

from postroom.children import Child, Wake, last_line
from postroom.core.errors import StorageFailure
from postroom.core.events import ALREADY_QUEUED, QUEUED
from postroom.core.words import quoted

PATIENCE = 30.0


def hand_over(notifier: str, author: str, task: str, command: str) -> str:
    """Queue a task there. Anything but success, or a genuine "already queued", is a refusal."""
    words = ("task", "add", "--author", author, "--task-id", task, "--command", command)
    wake = Wake()
    child = Child(f"{notifier} {' '.join(map(quoted, words))}", dict(os.environ), "", wake)
    try:
        if not child.wait(_patience()):
            child.end(SIGKILL)
            child.wait(None)
            raise _failure(f"it did not answer within {_patience():g} seconds")
        said = f"{child.output()}\n{child.errors()}".strip()
    finally:
        child.close()
        wake.close()
    if child.status == 0:
        return QUEUED
    if child.status == 1 and _means_already(said.lower(), task.lower()):
        return ALREADY_QUEUED
    raise _failure(f"{child.how}, {last_line(said)}" if said else child.how)


def _means_already(said: str, task: str) -> bool:
    """Whether it says that the task waits, and not that something else is there already."""
    return "already queued" in said or ("already" in said and ("task" in said.replace(task, "") or task in said))


def _patience() -> float:
    try:
        return float(os.environ.get("THREAD_NOTIFIER_SECONDS") or PATIENCE)
    except ValueError:
        return PATIENCE


def _failure(why: str) -> StorageFailure:
    hint = "Mend it, or unset THREAD_NOTIFIER to use the built-in one."
    return StorageFailure(f"the notifier of THREAD_NOTIFIER failed: {why}", hint=hint)
