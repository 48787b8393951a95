"""The event log: `append_event` and `announce`, the only functions that append to it, and the summaries by which old events are found."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.errors import CursorExpired, StoreBusy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from postroom.store.interface import Transaction

BLOCK_EVENTS = 512  # also in the statements `event_topics_insert`
CURSOR_NAME = "work.events"
REMOVED_CURSOR_NAME = "events.removed"  # the newest event that was removed, or that could have been
INBOX_TOPIC_PREFIX = "inbox:"


def inbox_topic(agent: str) -> str:
    """Return the topic of all that is addressed to one agent: mail, answers, messages of threads. It has a wake file of its own."""
    return f"{INBOX_TOPIC_PREFIX}{agent}"


def append_event(tx: Transaction, topics: Iterable[str], **event: Any) -> int:
    """Append an event in the transaction of the change that it announces, and return its id.

    Waiters that watch one of its topics wake after the COMMIT. `event` has the arguments of `_make_binds`.
    """
    event_id = tx.insert_event(tx.sql.event_append, topics, **_make_binds(tx, **event))
    if not event_id % BLOCK_EVENTS:
        summarise_blocks(tx)
    return event_id


def announce(tx: Transaction, topics: Iterable[str], **event: Any) -> None:
    """Append an event whose id the caller does not need. PostgreSQL is not asked for it before the COMMIT: see `send_event`."""
    event_id = tx.send_event(tx.sql.event_append, topics, **_make_binds(tx, **event))
    if event_id is not None and not event_id % BLOCK_EVENTS:
        summarise_blocks(tx)


def _make_binds(
    tx: Transaction,
    *,
    event_type: str,
    source: str,
    payload: Mapping[str, object],
    message_id: str | None = None,
    summary: str = "",
    run_id: str = "",
    task_id: str = "",
    thread_id: str = "",
    created_at: str | None = None,
) -> dict[str, object]:
    """Return the binds of an event.

    `run_id`, `task_id` and `thread_id` are those of the event's thread, if it has one. `created_at` is the transaction's time, for callers
    that have already formatted it.
    """
    return {
        "run_id": run_id,
        "task_id": task_id,
        "thread_id": thread_id,
        "source": source,
        "event_type": event_type,
        "message_id": message_id,
        "summary": summary,
        "payload_json": jsontext.dumps(payload),
        "created_at": created_at or clock.format_stamp(tx.now()),
    }


def find_block(tx: Transaction, topics: Iterable[str], *, first: int) -> int | None:
    """Return the first summarised block, from `first` on, that has an event of one of the topics, or None."""
    found = (tx.fetch_one(tx.sql.event_block_of_topic, topic=topic, first=first) for topic in topics)
    return min((block for block in found if block is not None), default=None)


def last_summarised_event(tx: Transaction) -> int:
    """Return the id of the last event of the summarised blocks. Later events have to be read one by one."""
    return tx.fetch_one(tx.sql.cursor_find, name=CURSOR_NAME) or 0


def last_removed_event(tx: Transaction) -> int:
    """Return the newest event up to which events may have been removed, or 0. A cursor before it has missed events."""
    return tx.fetch_one(tx.sql.cursor_find, name=REMOVED_CURSOR_NAME) or 0


def mark_removed(tx: Transaction, event_id: int) -> int:
    """Record that events up to this one are being removed, and return the newest such event."""
    seen = tx.fetch_one(tx.sql.cursor_lock, name=REMOVED_CURSOR_NAME) or 0
    if event_id > seen:
        moved = StoreBusy("another process is removing events", hint="Try again.")
        tx.execute_exactly_one(moved, tx.sql.cursor_move, name=REMOVED_CURSOR_NAME, event_id=event_id, seen=seen)
        tx.execute(tx.sql.prune_events_settle)
    return max(event_id, seen)


def check_not_removed(tx: Transaction, event_id: int) -> None:
    """Refuse a cursor with `CursorExpired` if events after it were removed."""
    removed = last_removed_event(tx)
    if event_id < removed:
        hint = f"Go on after event {removed}, and read the present state with `inbox list`: what happened before is not known any more."
        raise CursorExpired(f"events after {event_id} were removed, up to {removed}", hint=hint, next_event_id=removed)


def summarise_blocks(tx: Transaction) -> None:
    """Write the topics of all full blocks. On PostgreSQL a block waits until none of its events can still appear, so none is missed."""
    after = tx.fetch_one(tx.sql.cursor_lock, name=CURSOR_NAME) or 0
    until = ((tx.fetch_one(tx.sql.event_latest) or 0) + 1) // BLOCK_EVENTS * BLOCK_EVENTS - 1
    if until > after:
        tx.execute(tx.sql.event_topics_insert, after=after, until=until)
        moved = StoreBusy("another process summarised the same events", hint="Try again.")
        tx.execute_exactly_one(moved, tx.sql.cursor_move, name=CURSOR_NAME, event_id=until, seen=after)
