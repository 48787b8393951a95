"""Start a handler for each consumer that has unread events and no running handler. Called by `thread dispatch` and the runner."""

from __future__ import annotations

from postroom.core.errors import FilterFailed
from postroom.core.records.queues import DispatchStart
from postroom.queues.locks import ConsumerLock
from postroom.queues.subscriptions import read_subscription_state
from postroom.queues.supervised_consumer import one_line, quote_for_log
from postroom.store.files.ownership import require_own_queue
from postroom.store.sqlite.queues import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.queues.queue import Queue
    from postroom.queues.subscriptions import SubscriptionState

    Starter = Callable[[SubscriptionState, ConsumerLock], str]  # takes over the lock, and returns what is to be said about the start

STARTED, SKIPPED, FAILED = "started", "skipped", "failed"


def dispatch(queue: Queue, *, at_once: bool = False) -> tuple[DispatchStart, ...]:
    """Start the handler of each consumer that has unread events, and return what was done for each of them.

    The handlers are detached: one new process supervises them. A handler that made no progress waits until its backoff ends, which
    `at_once` ignores. Refuses with `UntrustedStore` if another user owns or can change the queue: its handlers are commands, which would
    run as this user.
    """
    from postroom.queues.supervisor import start_supervisor

    held: list[tuple[str, ConsumerLock]] = []

    def collect(state: SubscriptionState, lock: ConsumerLock) -> str:
        held.append((state.subscription.consumer_id, lock))
        return ""

    try:
        starts = dispatch_with(queue, collect)
        if held:
            start_supervisor(queue.path, held, at_once=at_once)
    finally:
        for _, lock in held:
            lock.close()
    return starts


def dispatch_with(queue: Queue, start: Starter) -> tuple[DispatchStart, ...]:
    """Call `start` for each consumer that has unread events and whose lock is free. The same refusals as `dispatch`."""
    require_own_queue(queue.file.location)
    with queue.file.read() as tx:
        consumers = [subscription.consumer_id for subscription in tx.fetch_all(sql.SUBSCRIPTIONS)]
    starts = (_dispatch_consumer(queue, consumer, start) for consumer in consumers)
    return tuple([outcome for outcome in starts if outcome is not None])


def _dispatch_consumer(queue: Queue, consumer: str, start: Starter) -> DispatchStart | None:
    """Start the handler of one consumer. Returns None if the consumer has no unread events."""
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
    return DispatchStart(consumer, STARTED, start(state, lock))
