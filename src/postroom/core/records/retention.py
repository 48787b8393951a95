"""Records of retention: the rows that pruning looks at, the policy, and what was removed."""

from __future__ import annotations

from postroom.core.records import Record


class AgedEvent(Record):
    """An event and its time."""

    event_id: int
    created_at: str


class AgedRow(Record):
    """A row that may be removed: its id, its place in the order in which rows are looked at, and how much there is to remove."""

    id: str
    position: int
    size: int = 1


class EndedThread(Record):
    """A thread that has ended, which may be removed."""

    thread_id: str
    run_id: str
    updated_at: str


class ThreadSize(Record):
    """How much there is to remove of a thread, in rows: its events, messages and artifacts. Long texts count as further rows."""

    thread_id: str
    size: int


class EventSize(Record):
    """An event of a thread, and how much there is to remove of it and its message, in rows."""

    event_id: int
    size: int


class PartKey(Record):
    """A part of an entry. The search finds it by the words of the entry."""

    id: str
    root_id: str
    size: int = 1


class TopicBlock(Record):
    """A summary in the event log: a block of events that has one of this topic."""

    topic: str
    block: int


class ReadKey(Record):
    """The key of a read mark, and whether its thread exists."""

    agent_id: str
    thread_id: str
    has_thread: int


class PruneResult(Record):
    """The rows that pruning removed, or would remove. `next_event_id` is where a cursor that has expired goes on."""

    threads: int
    mail: int
    tasks: int
    jobs: int
    entries: int
    queue_events: int
    next_event_id: int
    returned_bytes: int
    dry_run: bool
    note: str = ""


class RetentionPolicy(Record):
    """The rule by which a store removes things by itself: all that ended longer ago than this, except the threads of some runs."""

    older_than_seconds: int
    older_than: str
    keep_runs: tuple[str, ...] = ()


class EraseResult(Record):
    """How many rows were erased, and the bytes of the store before and after it was rewritten."""

    rows: int
    bytes_before: int
    bytes_after: int
    note: str = ""


class BackupResult(Record):
    """The file of a backup, its size in bytes, and the folders of the queues that were copied beside it."""

    file: str
    size: int
    queues: tuple[str, ...] = ()


class RestoreResult(Record):
    """The store that was restored, the backup of what it had before, if it existed, and the folders of the queues that were restored."""

    db: str
    previous: str | None
    queues: tuple[str, ...] = ()


class BeadsResult(Record):
    """The issues of beads that became threads, and those that were left out: they had ended, or the store knew them."""

    threads: int
    ended: int
    known: int


class AmqResult(Record):
    """The messages of AMQ that became mail, and those that were left out: the store knew them, or their reader had seen them."""

    messages: int
    known: int
    read: int
