"""Pruning of a queue: remove old events that every consumer has read, from the database and from `events.jsonl`."""

from __future__ import annotations

from postroom.core import clock
from postroom.core.errors import StorageFailure
from postroom.queues.subscriptions import DEAD
from postroom.store.sqlite.queues import queue_statements as sql
from postroom.store.statements.retention import CHARS_PER_ROW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from postroom.core.records.queues import EventLength
    from postroom.queues.queue import Queue
    from postroom.store.sqlite.engine import SqliteTransaction

PAGE_ROWS = 200


def find_removable(queue: Queue, before: int) -> tuple[int, int]:
    """Return the ids of the oldest event and of the last one that may go: older than `before`, in microseconds, and read by all.

    The newest event stays. So do an event that was set aside for a consumer or that is younger, and all that follow it.
    """
    with queue.file.read() as tx:
        oldest, newest = tx.fetch_one(sql.EVENT_OLDEST) or 1, (tx.fetch_one(sql.EVENT_HEAD) or 0) - 1
        acked = {progress.consumer_id: progress.last_acked_id for progress in tx.fetch_all(sql.PROGRESS_ALL)}
        subscribed = [acked.get(subscription.consumer_id, 0) for subscription in tx.fetch_all(sql.SUBSCRIPTIONS)]
        dead = tx.fetch_one(sql.DEAD_OLDEST) if DEAD in tx.fetch_all(sql.ADDED_TABLES) else None
        high = min([newest, *subscribed, *([] if dead is None else [dead - 1])])
        # By its row, not by bisection: a clock that jumped leaves stamps out of order, and whatever follows a younger event stays.
        young = tx.fetch_one(sql.EVENT_YOUNG, upto=high, before=clock.format_stamp_milliseconds(before))
        return oldest, high if young is None else young - 1


def remove_events(queue: Queue, oldest: int, upto: int, run_parts: Callable[..., int]) -> int:
    """Remove the events from `oldest` up to `upto`, first their lines and then their rows, and return how many there were."""
    if upto < oldest:
        return 0
    problem = queue.journal.drop_events(upto)
    if problem:
        raise StorageFailure(f"events.jsonl of {queue.path} cannot be rewritten: {problem}", hint="Check the disk and the permissions.")

    def remove(tx: SqliteTransaction, part: Sequence[EventLength]) -> int:
        tx.execute(sql.EVENTS_DELETE, upto=part[-1].id)
        return 0

    for page in _pages_of_lengths(queue, upto):
        run_parts(page, remove, size_of=lambda event: 1 + event.chars // CHARS_PER_ROW)
    return upto - oldest + 1


def _pages_of_lengths(queue: Queue, upto: int) -> Iterator[list[EventLength]]:
    """Yield the ids of the events up to this one, each with its length."""
    after = 0
    while True:
        with queue.file.read() as tx:
            page = tx.fetch_all(sql.EVENT_LENGTHS, after=after, upto=upto, limit=PAGE_ROWS)
        if not page:
            return
        yield page
        after = page[-1].id
