"""The records of runs: the threads that share a run id, their events, and the activity of agents over time."""

from __future__ import annotations

from postroom.core.records import ListPage, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.work import Lease, Thread


class RunSummary(Record):
    """The numbers of a run: its threads by status, its agents, and the times of its first and last event.

    `partial` is true if the run has further threads, which were not counted.
    """

    run_id: str
    threads: int
    by_status: dict[str, int]
    agents: tuple[str, ...]
    first_at: str
    last_at: str
    partial: bool = False


class RunPage(Record, ListPage):
    """One page of runs, newest activity first. A run with new activity moves to the front, so that a later page does not show it."""

    runs: tuple[RunSummary, ...]
    more: bool = False
    after: str | None = None


class RunWaitResult(Record):
    """The result of a wait for a run: its numbers, and how many of its threads have not ended. `woke` is false on a timeout."""

    woke: bool
    open_threads: int
    run: RunSummary

    @property
    def timed_out(self) -> bool:
        return not self.woke


class ThreadWithLease(Record):
    """A thread and its lease, if there is one."""

    thread: Thread
    lease: Lease | None

    def to_json(self) -> dict[str, Any]:
        lease = self.lease.to_json_without_token() if self.lease is not None and self.lease.is_held else None
        return {**self.thread.to_json(), "lease": lease}


class RunEvent(Record):
    """An event of a run, with the status of its thread after it and the addressee."""

    event_id: int
    thread_id: str
    type: str
    source: str
    at: str
    summary: str
    status: str | None
    to: str | None


class RunHistory(Record):
    """The threads of a run, latest activity first, and their events, oldest first. `truncated` is true if some were left out."""

    run_id: str
    threads: tuple[ThreadWithLease, ...]
    events: tuple[RunEvent, ...]
    truncated: bool


class ActivityHistogram(Record):
    """The number of events in each step of time, by agent, by mailbox and in total. `complete` is true if all events were counted."""

    start: str
    step_seconds: int
    complete: bool
    agents: dict[str, list[int]]
    sessions: dict[str, list[int]]
    total: list[int]
