"""The records of runs: threads that belong together, what happened in them, and how busy everybody was."""

from __future__ import annotations

from postroom.core.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records import Lease, Thread


class RunSummary(Record):
    """A run in numbers: its threads by status, who works on them, and from when to when anything happened."""

    run_id: str
    threads: int
    by_status: dict[str, int]
    agents: tuple[str, ...]
    first_at: str
    last_at: str


class Holding(Record):
    """A thread and its lease, if anybody holds it."""

    thread: Thread
    lease: Lease | None

    def plain(self) -> dict[str, Any]:
        return {**self.thread.plain(), "lease": self.lease.public() if self.lease is not None and self.lease.held else None}


class Moment(Record):
    """An event of a run, with the status that it left its thread in, and whom it was addressed to."""

    event_id: int
    thread_id: str
    type: str
    source: str
    at: str
    summary: str
    status: str | None
    to: str | None


class RunHistory(Record):
    """The threads of a run, latest activity first, and what happened in them, oldest first. `truncated`: there was more."""

    run_id: str
    threads: tuple[Holding, ...]
    events: tuple[Moment, ...]
    truncated: bool


class Rhythm(Record):
    """How many events fell into each of some equal steps: of each agent, of each mailbox, and in all. `complete`: all were counted."""

    start: str
    step_seconds: int
    complete: bool
    agents: dict[str, list[int]]
    sessions: dict[str, list[int]]
    total: list[int]
