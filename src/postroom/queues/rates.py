"""How fast a queue grows."""

from __future__ import annotations

from itertools import pairwise

from postroom.core import clock
from postroom.core.errors import InvalidInput
from postroom.queues.subscriptions import newest
from postroom.store.sqlite import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.queues.queue import Queue
    from postroom.store.sqlite.engine import Transaction

HOUR = 3600
LONGEST = 168  # hours


def rate(queue: Queue, *, hours: int = 24) -> tuple[int, ...]:
    """How many events were stored in each of the last hours, the current one included, oldest first.

    Ids follow time, so each hour's first event is found by halving: the price does not grow with the queue. A clock that was set back
    while events were stored blurs it.
    """
    if not 1 <= hours <= LONGEST:
        raise InvalidInput(f"hours must be from 1 to {LONGEST}, not {hours}", field="hours")
    with queue.file.read() as tx:
        head, now = newest(tx), tx.now() // clock.SECOND
        start = now - now % HOUR - (hours - 1) * HOUR
        firsts, first = [], 1
        for hour in range(hours):
            first = _first_since(tx, clock.brief((start + hour * HOUR) * clock.SECOND), first, head)
            firsts.append(first)
    return tuple(after - before for before, after in pairwise([*firsts, head + 1]))


def _first_since(tx: Transaction, at: str, low: int, head: int) -> int:
    """The id of the first event that was stored at an instant or later; beyond the newest, if none was."""
    high = head + 1
    while low < high:
        middle = (low + high) // 2
        row = tx.one(sql.EVENT_FROM, id=middle)  # somebody may have deleted that very one
        if row is None or row[1] >= at:
            high = middle
        else:
            low = row[0] + 1
    return low
