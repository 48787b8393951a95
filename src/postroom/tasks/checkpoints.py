"""Store the changes of a job's inbox between two checkpoints. Called by `Conductor.checkpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.errors import Conflict
from postroom.tasks import jobs, repository
from postroom.tasks.models import A2ATask
from postroom.tasks.repository import ACCEPTED, COMPLETED, FAILED, PENDING

if TYPE_CHECKING:
    from postroom.core.records.tasks import JobRow, TaskRow
    from postroom.store.interface import Transaction

LEASE_SECONDS = 900.0


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
