"""The rows of the room `tasks`: a task or a result, and a job. Their fields are the columns, in order."""

from __future__ import annotations

from postroom.core.records import Record


class TaskRow(Record):
    """One row of `tasks`."""

    task_id: str
    kind: str
    source_job_id: str
    source_agent: str
    target_job_id: str | None
    target_agent: str
    description: str
    context_json: str
    status: str
    is_open: int
    priority: str
    urgency: int
    attempt: int
    deadline: str | None
    artifacts_json: str | None
    reason: str | None
    reason_code: str | None
    outcome: str | None
    answers: str | None
    parent: str | None
    depth: int
    thread_id: str | None
    created_at: str
    accepted_at: str | None
    ended_at: str | None
    lease_token: str | None
    lease_expires_at: str | None
    due_at: str | None
    event_id: int
    door: str


class JobRow(Record):
    """One row of `jobs`."""

    job_id: str
    agent: str
    status: str
    sheet: int
    version: int
    state_json: str
    created_at: str
    updated_at: str
    event_id: int
    lease_token: str
    lease_seconds: float
    lease_expires_at: str
