"""The records of watched queues: the queues that the web page shows, and their state."""

from __future__ import annotations

from postroom.core.records import Record


class WatchedQueue(Record):
    """A queue that the web page shows: its folder and its label."""

    path: str
    label: str
    created_at: str


class ConsumerLag(Record):
    """The lag of a consumer, in events, and its state. `trouble` describes a problem with it, if there is one."""

    id: str
    lag: int
    last_acked_id: int
    running: bool
    trouble: str | None


class DispatchRun(Record):
    """One dispatch of a queue by the notifier, which started its consumers. `output` is the end of its output."""

    task_id: str
    attempt: int
    started_at: str
    ended_at: str
    seconds: float
    outcome: str
    exit_code: int | None
    signal: int | None
    output: str


class QueueReport(Record):
    """The numbers of a watched queue. `rate` is the number of events in each of the last hours, oldest first.

    `error` is the reason why the queue cannot be read, if there is one.
    """

    path: str
    label: str
    events: int
    last_event_id: int
    rate: tuple[int, ...]
    consumers: tuple[ConsumerLag, ...]
    runs: tuple[DispatchRun, ...]
    error: str | None
