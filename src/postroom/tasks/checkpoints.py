"""Store the changes of a job's inbox between two checkpoints. Called by `save_checkpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import Conflict, InvalidInput
from postroom.core.states import TASK
from postroom.store import removed
from postroom.tasks import jobs, repository
from postroom.tasks.a2a.a2a_inbox import check_deadline, check_description, freeze_artifacts, freeze_context
from postroom.tasks.a2a.models import A2ATask
from postroom.tasks.repository import ACCEPTED, COMPLETED, FAILED, PENDING

if TYPE_CHECKING:
    from postroom.core.records.tasks import JobRow, TaskRow
    from postroom.store.interface import Transaction

LEASE_SECONDS = 900.0


def check_end(task: A2ATask) -> None:
    """Refuse with `InvalidInput` what `complete` and `fail` would refuse: the caller has written the end of the task by itself."""
    if task.artifacts is not None:
        freeze_artifacts(task.artifacts)
    checks.reason("reason", task.reason or "")
    if task.reason_code is not None:
        checks.name("reason_code", task.reason_code)


def store_added_task(tx: Transaction, task: A2ATask, job: JobRow) -> None:
    """Store a task that was added to the inbox, whose id the caller has chosen.

    Refuses with `NotFound` if its source is not registered, with `Conflict` if its id is used, and with `InvalidInput` what `submit`
    would refuse. What `submit` decides by itself is not taken from the task: its time, its parent and its trace.
    """
    _check_added(task)
    jobs.check_giver(tx, task.source_agent)
    removed.check_new(tx, removed.TASK, task.task_id)
    if tx.fetch_one(tx.sql.task_find, task_id=task.task_id) is not None:
        raise changed_error(task.task_id)
    row = repository.row_from_task(task).replace(
        target_job_id=None,
        target_agent=job.agent,
        artifacts_json=None,
        reason=None,
        reason_code=None,
        outcome=None,
        answers=None,
        parent=None,
        depth=0,
        created_at=clock.format_stamp(tx.now()),
        traceparent=None,
    )
    stored = repository.store_new_task(tx, row)
    if task.status.value != PENDING:
        store_changed_task(tx, stored, task, job)


def _check_added(task: A2ATask) -> None:
    checks.name("task_id", task.task_id)
    checks.name("source_agent", task.source_agent)
    if task.source_job_id:
        checks.name("source_job_id", task.source_job_id)
    if task.kind != TASK:
        raise InvalidInput("a result cannot be added", field="kind", hint="The result of a task is made when the task ends.")
    check_description(task.description)
    freeze_context(task.context)
    check_deadline(task.deadline)


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
