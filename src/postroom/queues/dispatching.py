"""Start a handler for each consumer that has unread events and no running handler. Called by `thread dispatch` and the runner."""

from __future__ import annotations

import os

from postroom.core import clock
from postroom.core.errors import FilterFailed
from postroom.core.records.queues import DispatchStart
from postroom.queues.locks import ConsumerLock
from postroom.queues.subscriptions import read_subscription_state
from postroom.queues.supervisor import backoff_end, exec_supervisor, format_spawned, one_line, quote_for_log
from postroom.store.ownership import require_own_queue
from postroom.store.sqlite import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.queues.queue import Queue
    from postroom.queues.subscriptions import SubscriptionState

STARTED, SKIPPED, FAILED = "started", "skipped", "failed"


def dispatch(queue: Queue, *, at_once: bool = False, adopt: Callable[[int], None] | None = None) -> tuple[DispatchStart, ...]:
    """Start a supervisor for each consumer that has unread events, and return what was done for each of them.

    A handler that made no progress waits until its backoff ends. `at_once` ignores the backoff.
    This function forks, so call it from a process with one thread. In any other process, call `schedule`.
    The supervisors are detached, unless `adopt` is given: it receives each process id, and the caller must wait for them.
    Refuses with `UntrustedStore` if another user owns or can change the queue: its handlers are commands, which would run as this user.
    """
    require_own_queue(queue.file.location)
    with queue.file.read() as tx:
        consumers = [subscription.consumer_id for subscription in tx.fetch_all(sql.SUBSCRIPTIONS)]
    starts = (_dispatch_consumer(queue, consumer, at_once, adopt) for consumer in consumers)
    return tuple([start for start in starts if start is not None])


def _dispatch_consumer(queue: Queue, consumer: str, ignore_backoff: bool, adopt: Callable[[int], None] | None) -> DispatchStart | None:
    """Start the supervisor of one consumer. Returns None if the consumer has no unread events."""
    try:
        state = read_subscription_state(queue, consumer)
    except FilterFailed as refusal:  # a broken filter stops its own consumer only
        queue.journal.append_log(f"dispatch: consumer={quote_for_log(consumer)} filter: {one_line(str(refusal))}", "ERROR")
        return DispatchStart(consumer, FAILED, str(refusal))
    if state is None or not state.unread:
        return None
    try:
        lock = ConsumerLock.open_and_acquire(queue.path, consumer)
    except OSError as error:
        queue.journal.append_log(f"dispatch: consumer={quote_for_log(consumer)} lock: {error.strerror}", "ERROR")
        return DispatchStart(consumer, FAILED, f"its lock cannot be taken: {error.strerror}")
    if lock is None:
        queue.journal.append_log(f"dispatch: consumer={quote_for_log(consumer)} skipped (lock held)")
        return DispatchStart(consumer, SKIPPED, "lock held")
    try:
        until = 0 if ignore_backoff else backoff_end(lock, state, queue.file.clock())
        if not until:
            queue.journal.append_log(f"dispatch: consumer={quote_for_log(consumer)} {format_spawned(state.subscription)}")
        _fork_supervisor(queue.path, state, lock, not until, adopt)
    finally:
        lock.close()
    return DispatchStart(consumer, STARTED, f"no progress before: rests until {clock.format_stamp(until)}" if until else "")


def _fork_supervisor(path: str, state: SubscriptionState, lock: ConsumerLock, run_now: bool, adopt: Callable[[int], None] | None) -> None:
    """Fork a supervisor that inherits the lock."""
    child = os.fork()
    if child == 0:
        try:
            if adopt is not None or os.fork() == 0:  # without `adopt`, fork twice: the supervisor becomes a child of init
                exec_supervisor(path, state, lock, run_now)
        finally:
            os._exit(0)
    if adopt is None:
        os.waitpid(child, 0)
    else:
        adopt(child)
