"""Watched queues: which queues people look at, and how each of them is doing."""

from __future__ import annotations

import os

from postroom.core import checks, clock
from postroom.core.errors import NotFound, Refusal, Taken
from postroom.core.verbs import verb
from postroom.core.watching import DispatchRun, Lag, QueueReport, WatchedQueue
from postroom.core.words import quoted
from postroom.queues import notifier
from postroom.queues.queue import info, open_queue
from postroom.queues.rates import rate
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.events import QueueSummary
    from postroom.store.port import Store

MOST = 1000
HOURS = 24
RUNS = 10
_LOOKED_AT = 100  # runs, of which some may be another queue's
_OUTPUT = 2000  # characters


@verb
def add_queue(store: Store, path: str, *, label: str | None = None) -> WatchedQueue:
    """Have people look at a queue, by default under its folder's name. Refuses with `NoStore` where there is none."""
    with open_queue(checks.path("path", path)) as queue:
        folder = queue.path
    name = checks.name("label", os.path.basename(folder) if label is None else label, hint="Say what people should call it, with --label.")
    return _add(store, checks.path("path", folder), name)


@retried
def _add(store: Store, folder: str, label: str) -> WatchedQueue:
    with store.write() as tx:
        row = tx.one(tx.sql.queue_find, path=folder)
        if row is not None:
            hint = f"Leave it, or remove it first: `inbox queue remove {quoted(folder)}`."
            raise Taken(f"{folder} is watched already, as {row[1]}", hint=hint, path=folder)
        queue = WatchedQueue(folder, label, clock.stamp(tx.now()))
        tx.run(tx.sql.queue_insert, **dict(queue.items()))
    return queue


@verb
def list_queues(store: Store) -> tuple[WatchedQueue, ...]:
    """Every watched queue, by label."""
    with store.read() as tx:
        found = [WatchedQueue(*row) for row in tx.all(tx.sql.queues_all, limit=MOST)]
    return tuple(sorted(found, key=lambda queue: (queue.label.casefold(), queue.path)))


@verb
@retried
def remove_queue(store: Store, path: str) -> WatchedQueue:
    """Have people look at a queue no more. The queue itself stays as it is; it need not be there."""
    checks.path("path", path)
    with store.write() as tx:
        row = tx.one(tx.sql.queue_find, path=os.path.realpath(path)) or tx.one(tx.sql.queue_find, path=path)
        if row is None:
            raise NotFound(f"{path} is not watched", hint="See `inbox queue list`.", path=path)
        tx.run(tx.sql.queue_delete, path=row[0])
    return WatchedQueue(*row)


def report(queue: WatchedQueue) -> QueueReport:
    """How a queue is doing, and when its consumers were last started. What cannot be read says why."""
    try:
        with open_queue(queue.path) as opened:
            found, hourly = info(opened), rate(opened, hours=HOURS)
    except (Refusal, OSError) as trouble:
        return unread(queue, str(trouble))
    known = QueueReport(queue.path, queue.label, found.total_events, found.last_event_id, hourly, _lags(found), (), None)
    try:
        return known.replace(runs=_runs(queue.path))
    except (Refusal, OSError) as trouble:
        return known.replace(error=str(trouble))


def unread(queue: WatchedQueue, why: str) -> QueueReport:
    """The report of a queue of which nothing is known."""
    return QueueReport(queue.path, queue.label, 0, 0, (0,) * HOURS, (), (), why)


def _lags(found: QueueSummary) -> tuple[Lag, ...]:
    return tuple(
        Lag(each.subscription.consumer_id, found.last_event_id - each.last_acked_id, each.last_acked_id, each.running, each.trouble)
        for each in found.subscriptions
    )


def _runs(path: str) -> tuple[DispatchRun, ...]:
    """When its consumers were started last, newest first, if this machine's notifier ever did."""
    home = notifier.home()
    if not os.path.exists(os.path.join(home, "notifier.db")):  # opening it would make it
        return ()
    task, command = notifier.dispatch_of(path)
    with notifier.open_notifier(home) as opened:
        found = [run for run in notifier.list_runs(opened, task, limit=_LOOKED_AT) if run.command == command]
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
            run.output[-_OUTPUT:],
        )
        for run in found[:RUNS]
    )
