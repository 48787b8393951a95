"""Apply what happened without a verb: passed deadlines, leases of tasks and jobs that ran out, and ended threads of work.

Most verbs of the conductor begin with `read_settled` or `write_settled`, so their results are right without a running server. Each
transaction settles at most `MAX_ROWS_PER_BATCH` rows, so that other writers do not wait long.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.states import MAX_TASK_ATTEMPTS, TERMINAL_STATUSES
from postroom.store.retries import retry_on_contention
from postroom.tasks import jobs
from postroom.tasks.cursors import FIRST
from postroom.tasks.repository import (
    ACCEPTED,
    CANCELLED,
    COMPLETED,
    DEADLINE,
    EXHAUSTED,
    FAILED,
    PENDING,
    find_task,
    finish_task,
    return_task,
    update_task,
)
from postroom.work import messages
from postroom.work.lapses import close_lapse
from postroom.work.participation import is_takeable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.core.records.tasks import JobRow, TaskRow
    from postroom.store.interface import Store, Transaction

MAX_ROWS_PER_BATCH = 100


def settle_tasks(store: Store) -> None:
    """Settle tasks and jobs in batches, until none is left."""
    with read_settled(store):
        pass


def read_settled(store: Store) -> SettledTransaction:
    """Begin a read transaction that finds nothing left to settle."""
    return SettledTransaction(store, store.read)


def write_settled(store: Store) -> SettledTransaction:
    """Begin a write transaction that finds nothing left to settle."""
    return SettledTransaction(store, store.write)


class SettledTransaction:
    """A transaction that looks first whether something is due. What is due is settled before it, by transactions of its own."""

    def __init__(self, store: Store, begin: Callable[[], Transaction]) -> None:
        self._store = store
        self._begin = begin

    def __enter__(self) -> Transaction:
        while True:
            self._transaction = self._begin()
            tx = self._transaction.__enter__()
            try:
                is_due = is_anything_due(tx)
            except BaseException as failure:
                self._transaction.__exit__(type(failure), failure, failure.__traceback__)
                raise
            if not is_due:
                return tx
            self._transaction.__exit__(None, None, None)
            _settle_batch(self._store)

    def __exit__(self, *exc: object) -> None:
        self._transaction.__exit__(*exc)


def is_anything_due(tx: Transaction) -> bool:
    """Return whether `settle_tasks` has something to do. This only reads."""
    return tx.fetch_one(tx.sql.tasks_settling, now=clock.format_stamp(tx.now())) is not None


@retry_on_contention
def _settle_batch(store: Store) -> None:
    """Settle up to a batch of rows of each sort in one transaction."""
    with store.write() as tx:
        now = clock.format_stamp(tx.now())
        for row in tx.fetch_all(tx.sql.tasks_due, now=now, limit=MAX_ROWS_PER_BATCH):
            _apply_due_times(tx, row, now)
        for row in tx.fetch_all(tx.sql.tasks_answered, limit=MAX_ROWS_PER_BATCH):
            _finish_from_thread(tx, row)
        for job in tx.fetch_all(tx.sql.jobs_lapsed, now=now, limit=1):
            release_job(tx, job)


def release_job(tx: Transaction, job: JobRow) -> JobRow:
    """Give up to a batch of a job's open tasks and results back to its agent. Once none is left, write the job's final status.

    The attempts of tasks are counted if the lease of the job ran out, and not if the job ends in order.
    """
    ran_out = job.status != jobs.ENDING
    accepted = tx.fetch_all(tx.sql.tasks_of_job, job_id=job.job_id, status=ACCEPTED, **FIRST, limit=MAX_ROWS_PER_BATCH)
    for row in accepted:
        if row.thread_id is None:
            return_task(tx, row, counted=ran_out, at=job.lease_expires_at if ran_out else None)
        else:  # the thread goes on, and ends the task
            update_task(tx, row, None, target_job_id=None)
    pending = tx.fetch_all(tx.sql.tasks_of_job, job_id=job.job_id, status=PENDING, **FIRST, limit=MAX_ROWS_PER_BATCH - len(accepted))
    for row in pending:
        update_task(tx, row, None, target_job_id=None)
    if len(accepted) + len(pending) == MAX_ROWS_PER_BATCH:
        return job
    return jobs.save_job(tx, job, status=jobs.LAPSED if ran_out else jobs.ENDED)


def return_abandoned_tasks(tx: Transaction, agent: str) -> None:
    """Give back up to a batch of the tasks of an agent whose threads nobody works on, each as `return_if_abandoned` does.

    Only a verb that asks for a task calls this, in its own transaction: until then, the holder of a lapsed lease may continue.
    """
    for row in tx.fetch_all(tx.sql.tasks_abandoned, agent=agent, now=clock.format_stamp(tx.now()), limit=MAX_ROWS_PER_BATCH):
        if row.thread_id is not None and tx.lock_thread(row.thread_id, wait=False):  # another transaction that has the lock takes it
            return_if_abandoned(tx, row)


def return_if_abandoned(tx: Transaction, row: TaskRow) -> TaskRow:
    """Give a task back if its thread was released, or if the lease of its thread ran out, and return its row as it is then.

    The thread is cancelled, so that a holder which comes back is refused. The last attempt fails the task.
    """
    if row.thread_id is None:
        return row
    thread, lease = messages.lock_thread(tx, row.thread_id)
    if lease is None or not is_takeable(thread, lease, row.target_agent, clock.format_stamp(tx.now())):
        return row
    goes_on = close_lapse(tx, thread, lease)
    row = find_task(tx, row.task_id)  # a lapse was counted
    return return_task(tx, row, counted=False) if goes_on else _finish_from_thread(tx, row)


def is_any_abandoned(tx: Transaction, agent: str) -> bool:
    """Return whether `return_abandoned_tasks` has something to do. This only reads."""
    return tx.fetch_one(tx.sql.tasks_abandoned, agent=agent, now=clock.format_stamp(tx.now()), limit=1) is not None


def _apply_due_times(tx: Transaction, row: TaskRow, now: str) -> None:
    """Apply an ended thread, expired leases and the deadline in the order of their times, each dated with its own time."""
    if row.thread_id is not None and _thread_ended_by(tx, row.thread_id, row.due_at or now):
        _finish_from_thread(tx, row)
        return
    while row.is_open and row.due_at is not None and row.due_at <= now:
        if row.deadline is not None and row.due_at == row.deadline:
            finish_task(tx, row, FAILED, reason=f"not done by {row.deadline}", code=DEADLINE, at=row.due_at)
            return
        row = return_task(tx, row, counted=True, at=row.due_at, keep_job=True)


def _thread_ended_by(tx: Transaction, thread_id: str, instant: str) -> bool:
    row = tx.fetch_one(tx.sql.thread_find, thread_id=thread_id)
    return row is not None and row.thread.status in TERMINAL_STATUSES and row.thread.updated_at <= instant


def _finish_from_thread(tx: Transaction, row: TaskRow) -> TaskRow:
    """End a task as its thread ended, with the thread's last message as the answer, dated with the thread's end."""
    thread_row = tx.fetch_one(tx.sql.thread_find, thread_id=row.thread_id)
    if thread_row is None:
        return row
    thread = thread_row.thread
    status, latest, at = thread.status, thread.latest_message_id, thread.updated_at
    message = tx.fetch_one(tx.sql.message_find, message_id=latest) if latest else None
    summary, body = (message.summary, message.body) if message is not None else ("", "")
    if status != "done":
        code = "thread_failed" if status == "failed" else EXHAUSTED if row.attempt >= MAX_TASK_ATTEMPTS else CANCELLED
        return finish_task(tx, row, FAILED, reason=summary or f"its thread was {status}", code=code, at=at)
    files = [artifact.path for artifact in tx.fetch_all(tx.sql.artifacts_of_message, message_id=latest)] if latest else []
    artifacts = {"summary": summary, "body": body, "thread_id": row.thread_id, "files": files}
    return finish_task(tx, row, COMPLETED, artifacts_json=jsontext.dumps(artifacts), at=at)
