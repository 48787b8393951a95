"""Events that were set aside for a consumer, because its handler did not acknowledge them in many tries. Called by `thread dead`."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import NotFound
from postroom.core.records.queues import DeadEvent, check_consumer_name
from postroom.core.text import shell_quote, short_repr
from postroom.queues.subscriptions import DEAD, add_table, read_progress
from postroom.store.sqlite.queues import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.queues.queue import Queue

MAX_REASON_CHARS = 500


def list_dead(queue: Queue, consumer: str | None = None) -> tuple[DeadEvent, ...]:
    """Return the events that were set aside, of one consumer or of all."""
    with queue.file.read() as tx:
        if DEAD not in tx.fetch_all(sql.ADDED_TABLES):
            return ()
        return tuple(tx.fetch_all(sql.DEAD_ALL) if consumer is None else tx.fetch_all(sql.DEAD_OF, consumer=consumer))


def retry_dead(queue: Queue, consumer: str, event_id: int | None = None) -> tuple[int, ...]:
    """Give an event that was set aside, or all of them, to the handler once more, each alone. Return their ids.

    Refuses with `NotFound` if there is none.
    """
    return _change_dead(queue, sql.DEAD_RETRY, consumer, event_id)


def drop_dead(queue: Queue, consumer: str, event_id: int | None = None) -> tuple[int, ...]:
    """Forget that an event, or all of them, was set aside. The event stays in the queue. Return the ids.

    Refuses with `NotFound` if there is none.
    """
    return _change_dead(queue, sql.DEAD_DELETE, consumer, event_id)


def _change_dead(queue: Queue, statement: str, consumer: str, event_id: int | None) -> tuple[int, ...]:
    check_consumer_name(consumer)
    if event_id is not None:
        checks.event_id("event-id", event_id)
    with queue.file.write() as tx:
        dead = tx.fetch_all(sql.DEAD_OF, consumer=consumer) if DEAD in tx.fetch_all(sql.ADDED_TABLES) else []
        ids = tuple([event.event_id for event in dead if event_id in (None, event.event_id)])
        if not ids:
            hint = f"See which there are: thread dead list --thread {shell_quote(queue.path)}"
            named = "no event is" if event_id is None else f"event {event_id} is not"
            raise NotFound(f"{named} set aside for {short_repr(consumer)}", hint=hint)
        for dead_id in ids:
            tx.insert_event(statement, ("progress",), consumer=consumer, event=dead_id)
    return ids


def set_aside(queue: Queue, consumer: str, event_id: int, *, tries: int, reason: str) -> None:
    """Set an event aside for a consumer, and move its progress past it, so that the next events are handled."""
    with queue.file.write() as tx:
        add_table(tx, DEAD)
        now = clock.format_stamp_milliseconds(tx.now())
        tx.execute(sql.DEAD_SET, consumer=consumer, event=event_id, tries=tries, reason=reason[:MAX_REASON_CHARS], now=now)
        if event_id > read_progress(tx, consumer).last_acked_id:
            tx.insert_event(sql.PROGRESS_ADVANCE, ("progress",), consumer=consumer, acked=event_id, now=now)
