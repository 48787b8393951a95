"""Lapses: note in the event log that a lease ran out, once for each, and count it as an attempt of the task that the thread answers.

Time passes without a write, so a lapse is noted by the first process that notices it: a waiter, the server, or a verb that takes the
thread from its holder. The cursor `work.lapses` is the instant up to which all lapses are noted.
"""

from __future__ import annotations

from postroom.core import clock
from postroom.core.errors import Contended, StoreBusy, StoreReadOnly
from postroom.core.states import LAPSED, MAX_TASK_ATTEMPTS, PRIORITIES
from postroom.store.retries import retry_on_contention
from postroom.work import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom.core.records.work import Claim, Lease, Thread
    from postroom.store.interface import Store, Transaction

CURSOR_NAME = "work.lapses"
CLOCK_TOLERANCE_SECONDS = (
    60  # the clocks of two transactions may differ by less. A cursor further ahead is from before the clock was set back
)
BATCH_ROWS = 1000  # of each priority in one transaction. More leases than this that end in the same microsecond are not all noted


def close_lapse(tx: Transaction, thread: Thread, lease: Lease | None) -> bool:
    """Note that a lease ran out, and count it as an attempt of the thread's task. Return whether the thread goes on.

    The last attempt cancels the thread, and its task fails when tasks are settled next. Does nothing if the lease is live or was ended.
    The caller has locked the thread, and takes it from its holder if it goes on.
    """
    if lease is None or not lease.is_held or lease.is_live(clock.format_stamp(tx.now())):
        return True
    if clock.parse_stamp(lease.expires_at) > _start_of_search(tx, tx.fetch_one(tx.sql.cursor_find, name=CURSOR_NAME)):
        _append_lapse(tx, thread, lease)
    return not thread.task_id or _count_attempt(tx, thread)


def _count_attempt(tx: Transaction, thread: Thread) -> bool:
    task = tx.fetch_one(tx.sql.task_find, task_id=thread.task_id)
    if task is None or task.thread_id != thread.thread_id or not task.is_open:
        return True  # anybody may give a thread the id of a task
    changed = Contended(f"task {task.task_id} changed while its attempt was being counted", hint="Try again.")
    tx.execute_exactly_one(changed, tx.sql.task_attempt, task_id=task.task_id, thread_id=thread.thread_id, seen_attempt=task.attempt)
    if task.attempt + 1 < MAX_TASK_ATTEMPTS:
        return True
    from postroom.work.progress import cancel_thread

    content = messages.check_content(f"accepted {task.attempt + 1} times, and never ended", "", "{}", ())
    cancel_thread(tx, thread.thread_id, content, agent=task.source_agent)
    return False


def is_lapse_due(tx: Transaction) -> bool:
    """Return whether a lease ran out that is not noted yet. Reads the index alone: a server asks every second, on its event loop."""
    first = _first_expiry_after(tx, _start_of_search(tx, tx.fetch_one(tx.sql.cursor_find, name=CURSOR_NAME)))
    return first is not None and first <= tx.now()


@retry_on_contention
def note_lapses(store: Store) -> int:
    """Note every lease that ran out since the last call of any process. Return the number of new events."""
    noted = 0
    with store.write() as tx:
        noted_until = tx.fetch_one(tx.sql.cursor_lock, name=CURSOR_NAME) or 0
        after = _start_of_search(tx, noted_until)
        lapses = sorted(_list_lapses(tx, after, limit=BATCH_ROWS), key=lambda claim: claim.lease.expires_at)[:BATCH_ROWS]
        for claim in lapses:
            noted += _note_if_still_lapsed(tx, claim)
        until = max(clock.parse_stamp(lapses[-1].lease.expires_at) if len(lapses) == BATCH_ROWS else tx.now(), after)
        moved = StoreBusy("another process noted the same lapses", hint="Try again.")
        tx.execute_exactly_one(moved, tx.sql.cursor_move, name=CURSOR_NAME, event_id=until, seen=noted_until)
    return noted


def seconds_until_lapse(tx: Transaction) -> float | None:
    """Return the seconds until the next lease runs out, or None if no lease is live."""
    first = _first_expiry_after(tx, tx.now())
    return None if first is None else max((first - tx.now()) / clock.MICROSECONDS_PER_SECOND, 0.001)


def _first_expiry_after(tx: Transaction, instant: int) -> int | None:
    """Return the first instant after the given one at which a lease ends, or None."""
    after = clock.format_stamp(instant)
    found = [
        tx.fetch_one(tx.sql.lease_next_expiry, waiting=waiting, priority=priority, after=after)
        for waiting in (0, 1)
        for priority in PRIORITIES
    ]
    ends = [expires_at for expires_at in found if expires_at]
    return clock.parse_stamp(min(ends)) if ends else None


class LapseWatch:
    """The periodic task of a waiter that notes lapses. After it has noted one, the waiter looks again at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted = 0

    def run(self) -> None:
        self._noted = 0
        with self._store.read() as tx:
            due = is_lapse_due(tx)
        if due:
            try:
                self._noted = note_lapses(self._store)
            except StoreReadOnly:
                pass  # another process will note it

    def seconds_until_due(self) -> float | None:
        if self._noted:
            return 0
        with self._store.read() as tx:
            return seconds_until_lapse(tx)


def _start_of_search(tx: Transaction, noted_until: int | None) -> int:
    """Return the instant after which leases that ran out are not noted yet."""
    ahead = (noted_until or 0) - tx.now()
    return tx.now() if ahead > CLOCK_TOLERANCE_SECONDS * clock.MICROSECONDS_PER_SECOND else noted_until or 0


def _list_lapses(tx: Transaction, after: int, *, limit: int) -> Iterator[Claim]:
    key = {"after": clock.format_stamp(after), "now": clock.format_stamp(tx.now()), "limit": limit}
    for waiting in (0, 1):
        for priority in PRIORITIES:
            yield from tx.fetch_all(tx.sql.leases_lapsed_since, waiting=waiting, priority=priority, **key)


def _note_if_still_lapsed(tx: Transaction, claim: Claim) -> bool:
    """Append the event under the lock of the thread. If another transaction has it locked, that one ends or extends the lease."""
    if not tx.lock_thread(claim.thread.thread_id, wait=False):
        return False
    thread, lease = messages.get_thread(tx, claim.thread.thread_id)
    if lease is None or lease.lease_token != claim.lease.lease_token or not lease.is_held or lease.is_live(clock.format_stamp(tx.now())):
        return False
    _append_lapse(tx, thread, lease)
    return True


def _append_lapse(tx: Transaction, thread: Thread, lease: Lease) -> None:
    at = clock.format_stamp(tx.now())
    messages.append_thread_event(
        tx,
        thread.replace(updated_at=at),
        event_type=messages.LAPSED_EVENT,
        source="",
        summary=f"the lease of {lease.agent_id} ran out",
        topics=(messages.status_topic(LAPSED),),
        held_by=lease.agent_id,
        expires_at=lease.expires_at,
    )
