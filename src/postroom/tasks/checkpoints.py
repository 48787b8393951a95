"""Store the changes of a job's inbox between two checkpoints. Called by `Conductor.checkpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.errors import Conflict
from postroom.tasks import jobs, repository
from postroom.tasks.models import A2ATask
from postroom.tasks.repository import ACCEPTED, COMPLETED, FAILED, PENDING

if TYPE_CHECKING:
    from postroom.core.records.tasks import JobRow, TaskRow
    from postroom.store.interface import Store, Transaction
    from postroom.tasks.a2a_inbox import A2AInbox

LEASE_SECONDS = 900.0


class TaskState:
    """A job's data and inbox inside `checkpoint`. Both may be changed, and are saved together."""

    def __init__(self, data: dict[str, Any], inbox: A2AInbox) -> None:
        self.data = data
        self.inbox = inbox


def store_added_task(tx: Transaction, task: A2ATask, job: JobRow) -> None:
    """Store a task that was added to the inbox. Refuses with `NotFound` if its source is not registered."""
    jobs.read_card(tx, task.source_agent)
    stored = repository.store_new_task(
        tx, repository.row_from_task(task.model_copy(update={"target_job_id": job.job_id, "target_agent": job.agent}))
    )
    if task.status.value != PENDING:
        store_changed_task(tx, stored, task)


def store_changed_task(tx: Transaction, row: TaskRow, task: A2ATask) -> None:
    """Store the new status of a task of the inbox. Refuses with `Conflict` if the row has changed since it was read."""
    conflict = Conflict(f"task {row.task_id} was changed by somebody else", hint="Load the job again.", task_id=row.task_id)
    if task.status.value == ACCEPTED:
        now = tx.now()
        expires = clock.format_stamp(now + int(LEASE_SECONDS * clock.MICROSECONDS_PER_SECOND))
        changes = {"accepted_at": clock.format_stamp(now), "lease_token": tx.new_id("lse"), "lease_expires_at": expires}
        repository.update_task(tx, row, "A2ATaskAccepted", conflict, status=ACCEPTED, **changes)
    elif task.status.value == COMPLETED:
        artifacts_json = None if task.artifacts is None else jsontext.dumps(task.artifacts)
        repository.finish_task(tx, row, COMPLETED, artifacts_json=artifacts_json, refusal=conflict)
    else:
        repository.finish_task(tx, row, FAILED, reason=task.reason, code=task.reason_code or "failed", refusal=conflict)


def save_checkpoint(store: Store, job: JobRow, rows: dict[str, TaskRow], state: TaskState) -> None:
    """Save the data and the inbox of a job together. Refuses with `Conflict` if the job or a task is not as it was read."""
    state_json = jobs.serialize_state(state.data)
    with store.write() as tx:
        jobs.save_job(tx, job, Conflict(f"job {job.job_id} was saved by somebody else", hint="Load it again."), state_json=state_json)
        for task_id, seen in rows.items():
            if repository.find_task(tx, task_id) != seen:
                raise Conflict(f"task {task_id} was changed by somebody else", hint="Load the job again.", task_id=task_id)
        for task in state.inbox.tasks.values():
            if task.task_id not in rows:
                store_added_task(tx, task, job)
            elif task.status.value != rows[task.task_id].status:
                store_changed_task(tx, rows[task.task_id], task)
