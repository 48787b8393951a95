"""Count the events of a queue per hour. Called by `postroom.people` for its overview of queues."""

from __future__ import annotations

from itertools import pairwise

from postroom.core import clock
from postroom.core.errors import InvalidInput
from postroom.queues.subscriptions import read_newest_id
from postroom.store.sqlite.queues import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.queues.queue import Queue
    from postroom.store.sqlite.engine import SqliteTransaction

HOUR_SECONDS = 3600
MAX_HOURS = 168  # hours


def rate(queue: Queue, *, hours: int = 24) -> tuple[int, ...]:
    """Return how many events were stored in each of the last `hours` hours, oldest first. The current hour is the last one.

    Ids ascend with time, so a binary search finds the first event of each hour, and the cost grows only with the logarithm of the
    queue's length. The counts are inexact if the system clock was set back while events were stored.
    """
    if not 1 <= hours <= MAX_HOURS:
        raise InvalidInput(f"hours must be from 1 to {MAX_HOURS}, not {hours}", field="hours")
    with queue.file.read() as tx:
        head, now = read_newest_id(tx), tx.now() // clock.MICROSECONDS_PER_SECOND
        start = now - now % HOUR_SECONDS - (hours - 1) * HOUR_SECONDS
        firsts, first = [], 1
        for hour in range(hours):
            first = _first_event_id_since(
                tx, clock.format_stamp_milliseconds((start + hour * HOUR_SECONDS) * clock.MICROSECONDS_PER_SECOND), first, head
            )
            firsts.append(first)
    return tuple(after - before for before, after in pairwise([*firsts, head + 1]))


def _first_event_id_since(tx: SqliteTransaction, stamp: str, low: int, head: int) -> int:
    """Return the id of the first event stored at `stamp` or later, or `head + 1` if there is none."""
    high = head + 1
    while low < high:
        middle = (low + high) // 2
        event = tx.fetch_one(sql.EVENT_FROM, id=middle)  # the next existing event: the row of this id may have been deleted
        if event is None or event.created_at >= stamp:
            high = middle
        else:
            low = event.id + 1
    return low
