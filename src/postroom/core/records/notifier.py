"""The records of the notifier: commands to run, finished runs, and timers."""

from __future__ import annotations

from postroom.core.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OK, FAILED, TIMEOUT, LOST = "ok", "failed", "timeout", "lost"  # the outcomes of a run


class NotifierTask(Record):
    """A command to run. If `queue` is set, the task is a dispatch of that queue, which the runner does without a command."""

    number: int
    task_id: str
    author: str
    command: str
    queue: str | None
    state: str
    attempts: int
    lost: int
    retries: int
    timeout_seconds: float | None
    created_at: str
    due_at: str
    environment_json: str = "{}"  # may hold secrets: not shown

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in self.items() if name not in ("number", "queue", "lost", "environment_json")}


class NotifierRun(Record):
    """One finished run of a command."""

    run: int
    task_id: str
    author: str
    command: str
    attempt: int
    started_at: str
    ended_at: str
    seconds: float
    outcome: str
    exit_status: int | None
    signal: int | None
    output: str


class NotifierTimer(Record):
    """A command that is queued at the times of a cron expression. `next_at` is the next time."""

    timer_id: str
    author: str
    cron: str
    timezone: str
    command: str
    retries: int
    timeout_seconds: float | None
    created_at: str
    next_at: str
    environment_json: str = "{}"  # may hold secrets: not shown
    trouble: str | None = None  # why the next time cannot be computed

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in self.items() if name != "environment_json"}


class KnownQueue(Record):
    """A queue that this user has used. The runner looks after it when it starts."""

    path: str
    added_at: str


class TaskCounts(Record):
    """The number of waiting and of running tasks."""

    queued: int
    running: int


class NotifierStatus(Record):
    """The state of the notifier. `running` and `pid` are about its runner process.

    While it is `stopped`, no runner starts by itself: tasks and timers wait for `start`, or for a new task or timer.
    """

    running: bool
    pid: int | None
    resident: bool
    queued: int
    running_tasks: int
    timers: int
    home: str
    stopped: bool = False
