"""Store the changes of a job's inbox between two checkpoints. Called by `save_checkpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom._fastpath import json_text as jsontext
from postroom.core.errors import Conflict
from postroom.store import removed
from postroom.tasks import jobs, repository
from postroom.tasks.a2a.models import A2ATask
from postroom.tasks.repository import ACCEPTED, COMPLETED, FAILED, PENDING

if TYPE_CHECKING:
    from postroom.core.records.tasks import JobRow, TaskRow
    from postroom.store.interface import Transaction

LEASE_SECONDS = 900.0


def store_added_task(tx: Transaction, task: A2ATask, job: JobRow) -> None:
    """Store a task that was added to the inbox, whose id the caller has chosen. Refuses with `NotFound` if its source is not registered."""
    jobs.check_giver(tx, task.source_agent)
    removed.check_new(tx, removed.TASK, task.task_id)
    pending = task.model_copy(update={"target_job_id": None, "target_agent": job.agent})
    stored = repository.store_new_task(tx, repository.row_from_task(pending))
    if task.status.value != PENDING:
        store_changed_task(tx, stored, task, job)


def store_changed_task(tx: Transaction, row: TaskRow, task: A2ATask, job: JobRow) -> None:
    """Store the new status of a task of the inbox. Refuses with `Conflict` if the row has changed since it was read."""
    conflict = changed_error(row.task_id)
    if task.status.value == ACCEPTED:
        repository.accept_task(tx, row, tx.new_id("lse"), LEASE_SECONDS, job.job_id, conflict)
    elif task.status.value == COMPLETED:
        artifacts_json = None if task.artifacts is None else jsontext.dumps(task.artifacts)
        repository.finish_task(tx, row, COMPLETED, artifacts_json=artifacts_json, refusal=conflict)
    else:
        repository.finish_task(tx, row, FAILED, reason=task.reason, code=task.reason_code or "failed", refusal=conflict)


def changed_error(task_id: str) -> Conflict:
    return Conflict(f"task {task_id} was changed by somebody else", hint="Load the job again.", task_id=task_id)
