"""The records of watched queues: which ones people look at, and how each of them is doing."""

from __future__ import annotations

from postroom.core.records import Record


class WatchedQueue(Record):
    """A queue that people look at: its folder, and what they call it."""

    path: str
    label: str
    created_at: str


class Lag(Record):
    """How far a consumer is behind, in events, and how it is doing."""

    id: str
    lag: int
    last_acked_id: int
    running: bool
    trouble: str | None


class DispatchRun(Record):
    """One time that the notifier started the consumers of a queue. `output` is the end of what it said."""

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
    """A watched queue in numbers. `rate`: events in each of the last hours, oldest first. `error`: why it cannot be read, if so."""

    path: str
    label: str
    events: int
    last_event_id: int
    rate: tuple[int, ...]
    consumers: tuple[Lag, ...]
    runs: tuple[DispatchRun, ...]
    error: str | None
