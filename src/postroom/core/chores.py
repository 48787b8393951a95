"""The records of the notifier: what is to be run, what was, and what is to be run again and again."""

from __future__ import annotations

from postroom.core.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OK, FAILED, TIMEOUT, LOST = "ok", "failed", "timeout", "lost"  # how a run ended


class NotifierTask(Record):
    """A command that is to be run. `queue` is set where that is a dispatch, which the runner does by itself."""

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

    def plain(self) -> dict[str, Any]:
        return {name: value for name, value in self.items() if name not in ("number", "queue", "lost")}


class Run(Record):
    """One run of a command, after it ended."""

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


class Timer(Record):
    """A command that is queued whenever its time comes."""

    timer_id: str
    author: str
    cron: str
    timezone: str
    command: str
    retries: int
    timeout_seconds: float | None
    created_at: str
    next_at: str


class NotifierStatus(Record):
    """How the notifier is doing."""

    running: bool
    pid: int | None
    resident: bool
    queued: int
    running_tasks: int
    timers: int
    home: str
