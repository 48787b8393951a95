"""Read and write the rows of tasks: transitions and their events. Called by the conductor, inside its transactions."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock, tracing
from postroom.core.errors import Conflict, Contended, NotFound
from postroom.core.records.tasks import TaskRow
from postroom.core.states import MAX_TASK_ATTEMPTS, RESULT, TASK, TASK_PRIORITIES, THREAD_STATUS_OF_TASK
from postroom.core.text import short_repr
from postroom.store.event_log import announce, append_event
from postroom.work.messages import agent_topic, status_topic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.errors import Refusal
    from postroom.store.interface import Transaction
    from postroom.tasks.a2a.models import A2ATask

PENDING, ACCEPTED, COMPLETED, FAILED = "pending", "accepted", "completed", "failed"
EXHAUSTED, DEADLINE, CANCELLED = "attempts_exhausted", "deadline", "cancelled"


def find_task(tx: Transaction, task_id: str) -> TaskRow:
    """Return a task's row. Refuses with `NotFound` if there is none."""
    row = tx.fetch_one(tx.sql.task_find, task_id=task_id)
    if row is None:
        raise task_not_found_error(task_id)
    return row


def task_not_found_error(task_id: str) -> NotFound:
    """Return the refusal of a task that does not exist, and of one that the caller may not see. It must not tell which."""
    return NotFound(f"there is no task {short_repr(task_id)}", hint="See `inbox task list`.", task_id=task_id)


def row_from_task(task: A2ATask) -> TaskRow:
    """Return the pending row of a new task, without an event id and a door."""
    return TaskRow(
        task_id=task.task_id,
        kind=task.kind,
        source_job_id=task.source_job_id,
        source_agent=task.source_agent,
        target_job_id=task.target_job_id,
        target_agent=task.target_agent,
        description=task.description,
        context_json=jsontext.dumps(task.context),
        status=PENDING,
        is_open=1,
        priority=task.priority,
        urgency=TASK_PRIORITIES.index(task.priority),
        attempt=0,
        deadline=task.deadline,
        artifacts_json=None if task.artifacts is None else jsontext.dumps(task.artifacts),
        reason=task.reason,
        reason_code=task.reason_code,
        outcome=task.outcome,
        answers=task.answers,
        parent=task.parent,
        depth=task.depth,
        thread_id=None,
        created_at=task.created_at,
        accepted_at=None,
        ended_at=None,
        lease_token=None,
        lease_expires_at=None,
        due_at=task.deadline,
        event_id=0,
        door="",
        traceparent=task.traceparent,
    )


def store_new_task(tx: Transaction, row: TaskRow) -> TaskRow:
    """Store a new task or result in the inbox of its agent, and return it. The event is written first: its id orders the tasks."""
    trace = tracing.current_traceparent() if row.kind == TASK else tracing.continue_trace(row.traceparent)
    event_id = append_event(tx, **_describe_event(row, "A2ATaskSubmitted"))
    stored = row.replace(event_id=event_id, door=tx.door, traceparent=trace or row.traceparent)
    tx.execute(tx.sql.task_insert, **dict(stored.items()))
    announce(tx, **_describe_event(stored, "A2ATaskRouted"))
    return stored


def update_task(tx: Transaction, row: TaskRow, event: str | None, refusal: Refusal | None = None, **changes: Any) -> TaskRow:
    """Change fields of a task, write the event, and return the new row.

    Raises `refusal`, or `Contended`, if the row has changed since it was read.
    """
    after = row.replace(**changes)
    is_open = after.status in (PENDING, ACCEPTED)
    lease_end = after.lease_expires_at if after.status == ACCEPTED else None
    due_times = [stamp for stamp in (after.deadline, lease_end) if stamp]
    after = after.replace(is_open=int(is_open), due_at=min(due_times) if is_open and due_times else None)
    tx.execute_exactly_one(
        refusal or Contended(f"task {row.task_id} changed while it was being written", hint="Try again."),
        tx.sql.task_move,
        task_id=row.task_id,
        seen_status=row.status,
        seen_attempt=row.attempt,
        seen_token=row.lease_token or "",
        seen_job=row.target_job_id or "",
        seen_thread=row.thread_id or "",
        **{name: getattr(after, name) for name in _UPDATED_FIELDS},
    )
    if event is not None:
        announce(tx, **_describe_event(after, event))
    return after


_UPDATED_FIELDS = (
    *("status", "is_open", "target_job_id", "attempt", "artifacts_json", "reason", "reason_code", "thread_id"),
    *("accepted_at", "ended_at", "lease_token", "lease_expires_at", "due_at"),
)


def _describe_event(row: TaskRow, event: str) -> dict[str, Any]:
    """Return the event of a transition. It wakes waiters for the task, for both agents, and for the status."""
    payload = {field: getattr(row, field) for field in _EVENT_FIELDS}
    return {
        "topics": (
            task_topic(row.task_id),
            agent_topic(row.target_agent),
            agent_topic(row.source_agent),
            status_topic(THREAD_STATUS_OF_TASK.get(row.status, row.status)),
        ),
        "source": row.source_agent if event == "A2ATaskSubmitted" else row.target_agent,
        "event_type": f"task.{event}",
        "message_id": row.task_id,
        "summary": row.description.split("\n", 1)[0][:200],
        # A waiter finds the events of threads and tasks by the same two names.
        "payload": {**payload, "assigned_to": row.target_agent, "created_by": row.source_agent},
    }


_EVENT_FIELDS = ("task_id", "kind", "source_agent", "target_agent", "source_job_id", "target_job_id", "status", "attempt", "reason_code")


def finish_task(
    tx: Transaction,
    row: TaskRow,
    status: str,
    *,
    artifacts_json: str | None = None,
    reason: str | None = None,
    code: str | None = None,
    at: str | None = None,
    refusal: Refusal | None = None,
    attempt: int | None = None,
) -> TaskRow:
    """End a task as `COMPLETED` or `FAILED`, and send the result to its source. Ending a result sends nothing.

    `at` is the time of the end, by default now. Raises `refusal`, or `Contended`, if the row has changed since it was read.
    """
    ended = update_task(
        tx,
        row,
        "A2ATaskCompleted" if status == COMPLETED else "A2ATaskFailed",
        refusal,
        status=status,
        attempt=row.attempt if attempt is None else attempt,
        artifacts_json=artifacts_json,
        reason=reason,
        reason_code=code,
        ended_at=at or clock.format_stamp(tx.now()),
        lease_expires_at=None,
    )
    if row.kind == TASK:
        _send_result(tx, ended)
        if row.thread_id is not None:
            from postroom.tasks.task_threads import cancel_task_thread

            cancel_task_thread(tx, row, reason or "its task was completed")
    return ended


def _send_result(tx: Transaction, ended: TaskRow) -> None:
    """Store the result of an ended task in its source's inbox."""
    from uuid import uuid4

    result = ended.replace(
        task_id=str(uuid4()),
        kind=RESULT,
        source_job_id=ended.target_job_id or "",
        source_agent=ended.target_agent,
        target_job_id=_find_source_job(tx, ended),
        target_agent=ended.source_agent,
        context_json="{}",
        status=PENDING,
        is_open=1,
        attempt=0,
        deadline=None,
        outcome=ended.status,
        answers=ended.task_id,
        thread_id=None,
        created_at=ended.ended_at or clock.format_stamp(tx.now()),
        accepted_at=None,
        ended_at=None,
        lease_token=None,
        due_at=None,
    )
    store_new_task(tx, result)


def _find_source_job(tx: Transaction, ended: TaskRow) -> str | None:
    """Return the job that submitted a task, or None if no job did, or if it does not run any more."""
    if not ended.source_job_id:
        return None
    job = tx.fetch_one(tx.sql.job_find, job_id=ended.source_job_id)
    if job is None or job.status != "running" or job.agent != ended.source_agent:
        return None
    return ended.source_job_id


def return_task(tx: Transaction, row: TaskRow, *, counted: bool, at: str | None = None, keep_job: bool = False) -> TaskRow:
    """Make an accepted task or result pending again. Its thread of work, if it has one, is cancelled.

    `counted` is whether this was an attempt: a lease ran out, or a process died. A task fails after `MAX_TASK_ATTEMPTS`. A result never
    fails: it is shown until it is read. With `keep_job` a result stays with its job. A pending task always belongs to its agent.
    """
    attempt = row.attempt + int(counted)
    if counted and row.kind == TASK and attempt >= MAX_TASK_ATTEMPTS:
        reason = f"accepted {attempt} times, and never ended"
        return finish_task(tx, row, FAILED, reason=reason, code=EXHAUSTED, at=at, attempt=attempt)
    changes: dict[str, Any] = {
        "status": PENDING,
        "attempt": attempt,
        "accepted_at": None,
        "lease_expires_at": None,
        "target_job_id": row.target_job_id if keep_job and row.kind == RESULT else None,
        "thread_id": None,
    }
    returned = update_task(tx, row, "A2ATaskReturned", **changes)
    if row.thread_id is not None:
        from postroom.tasks.task_threads import cancel_task_thread

        cancel_task_thread(tx, row, "its task was given back: nobody worked on it here")
    return returned


def check_open(row: TaskRow) -> None:
    """Refuse with `Conflict` if a task has ended."""
    if not row.is_open:
        raise task_ended_error(row)


def task_ended_error(row: TaskRow) -> Conflict:
    why = f" ({row.reason_code})" if row.reason_code else ""
    return Conflict(
        f"task {row.task_id} is {row.status} already{why}", hint="Nothing is left to do.", task_id=row.task_id, state=row.status
    )


def accept_task(
    tx: Transaction, row: TaskRow, token: str, lease_seconds: float, job_id: str | None = None, refusal: Refusal | None = None
) -> TaskRow:
    """Mark a task or result as accepted, with a lease that ends after `lease_seconds`. A job that accepts it becomes its job."""
    return update_task(
        tx,
        row,
        "A2ATaskAccepted",
        refusal,
        status=ACCEPTED,
        accepted_at=clock.format_stamp(tx.now()),
        lease_token=token,
        lease_expires_at=expiry_stamp(tx, lease_seconds),
        target_job_id=row.target_job_id if job_id is None else job_id,
    )


def renew_lease(tx: Transaction, row: TaskRow, lease_seconds: float) -> TaskRow:
    """Extend the lease of an accepted task from now. Writes no event."""
    return update_task(tx, row, None, lease_expires_at=expiry_stamp(tx, lease_seconds))


def expiry_stamp(tx: Transaction, seconds: float) -> str:
    return clock.format_stamp(tx.now() + int(seconds * clock.MICROSECONDS_PER_SECOND))


def complete_result(tx: Transaction, row: TaskRow) -> TaskRow:
    """Mark a result as read."""
    return update_task(tx, row, "A2ATaskCompleted", status=COMPLETED, ended_at=clock.format_stamp(tx.now()), lease_expires_at=None)


def task_topic(task_id: str) -> str:
    """Return the topic that wakes waiters for one task."""
    return f"task:{task_id}"
