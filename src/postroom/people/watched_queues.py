"""Register the queues that people watch, and report on each: rate, lag of its consumers, and their latest runs."""

from __future__ import annotations

import os

from postroom.core import checks, clock
from postroom.core.errors import InvalidState, NotFound, Refusal, Taken
from postroom.core.records.watched_queues import ConsumerLag, DispatchRun, QueueReport, WatchedQueue
from postroom.core.text import shell_quote
from postroom.core.verbs import PEOPLE, READ, SERVER_MACHINE, STEPS, verb
from postroom.queues import notifier
from postroom.queues.queue import info, open_queue
from postroom.queues.rates import rate
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.queues import QueueSummary
    from postroom.store.interface import Store

MAX_QUEUES = 1000
RATE_HOURS = 24
MAX_RUNS = 10
_MAX_SEARCHED_RUNS = 100  # some of them may belong to another queue
_MAX_OUTPUT_CHARS = 2000


@verb(caller=SERVER_MACHINE, mode=STEPS)
def add_queue(store: Store, path: str, *, label: str | None = None) -> WatchedQueue:
    """Register a queue as watched, by default under its folder's name.

    Refuses with `NoStore` if there is no queue, with `Taken`, and with `InvalidState` if there are `MAX_QUEUES`.
    """
    with open_queue(checks.path("path", path)) as queue:
        folder = queue.path
    name = checks.name("label", os.path.basename(folder) if label is None else label, hint="Say what people should call it, with --label.")
    return _store_queue(store, checks.indexed("path", checks.path("path", folder)), name)


@retry_on_contention
def _store_queue(store: Store, folder: str, label: str) -> WatchedQueue:
    with store.write() as tx:
        known = tx.fetch_one(tx.sql.queue_find, path=folder)
        if known is not None:
            hint = f"Leave it, or remove it first: `inbox queue remove {shell_quote(folder)}`."
            raise Taken(f"{folder} is watched already, as {known.label}", hint=hint, path=folder)
        if tx.fetch_one(tx.sql.queue_at, number=MAX_QUEUES - 1) is not None:
            raise InvalidState(f"{MAX_QUEUES} queues are watched already", hint="Remove one with `inbox queue remove`.")
        queue = WatchedQueue(folder, label, clock.format_stamp(tx.now()))
        tx.execute(tx.sql.queue_insert, **dict(queue.items()))
    return queue


@verb(caller=PEOPLE, mode=READ)
def list_queues(store: Store) -> tuple[WatchedQueue, ...]:
    """Return every watched queue, sorted by label. There are at most `MAX_QUEUES`."""
    with store.read() as tx:
        queues = tx.fetch_all(tx.sql.queues_all, limit=MAX_QUEUES)
    return tuple(sorted(queues, key=lambda queue: (queue.label.casefold(), queue.path)))


@verb(caller=SERVER_MACHINE, mode=STEPS)
@retry_on_contention
def remove_queue(store: Store, path: str) -> WatchedQueue:
    """Stop watching a queue and return its registration. The queue itself is not changed, and may be missing."""
    checks.path("path", path)
    with store.write() as tx:
        queue = tx.fetch_one(tx.sql.queue_find, path=os.path.realpath(path)) or tx.fetch_one(tx.sql.queue_find, path=path)
        if queue is None:
            raise NotFound(f"{path} is not watched", hint="See `inbox queue list`.", path=path)
        tx.execute(tx.sql.queue_delete, path=queue.path)
    return queue


def report(queue: WatchedQueue) -> QueueReport:
    """Return the size, the hourly rate, the lags and the latest runs of a queue. If it cannot be read, `error` gives the reason."""
    try:
        with open_queue(queue.path) as opened:
            summary, hourly = info(opened), rate(opened, hours=RATE_HOURS)
    except (Refusal, OSError) as error:
        return unreadable_report(queue, str(error))
    lags = _consumer_lags(summary)
    without_runs = QueueReport(queue.path, queue.label, summary.total_events, summary.last_event_id, hourly, lags, (), None)
    try:
        return without_runs.replace(runs=_latest_runs(queue.path))
    except (Refusal, OSError) as error:
        return without_runs.replace(error=str(error))


def unreadable_report(queue: WatchedQueue, why: str) -> QueueReport:
    """Return the report of a queue that cannot be read, with the reason."""
    return QueueReport(queue.path, queue.label, 0, 0, (0,) * RATE_HOURS, (), (), why)


def _consumer_lags(summary: QueueSummary) -> tuple[ConsumerLag, ...]:
    return tuple(
        ConsumerLag(
            subscriber.subscription.consumer_id,
            summary.last_event_id - subscriber.last_acked_id,
            subscriber.last_acked_id,
            subscriber.running,
            subscriber.trouble,
        )
        for subscriber in summary.subscriptions
    )


def _latest_runs(path: str) -> tuple[DispatchRun, ...]:
    """Return the latest runs of the queue's consumers by this machine's notifier, newest first."""
    home = notifier.default_home()
    if not os.path.exists(os.path.join(home, "notifier.db")):  # opening it would create it
        return ()
    task, command = notifier.dispatch_task(path)
    with notifier.open_notifier(home) as opened:
        runs = [run for run in notifier.list_runs(opened, task, limit=_MAX_SEARCHED_RUNS) if run.command == command]
    return tuple(
        DispatchRun(
            run.task_id,
            run.attempt,
            run.started_at,
            run.ended_at,
            run.seconds,
            run.outcome,
            run.exit_status,
            run.signal,
            run.output[-_MAX_OUTPUT_CHARS:],
        )
        for run in runs[:MAX_RUNS]
    )
