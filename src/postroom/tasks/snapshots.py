"""Rows as the public records of this room, which are pydantic models. Only the Python API and what it calls need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom._fastpath import json_text as jsontext
from postroom.core.records.tasks import TaskRow
from postroom.tasks.a2a.models import A2ATask, Job

if TYPE_CHECKING:
    from postroom.core.records.tasks import JobRow


def task_from_row(row: TaskRow) -> A2ATask:
    """Return a row as the public record."""
    fields = {name: getattr(row, name) for name in _COPIED_FIELDS}
    artifacts = None if row.artifacts_json is None else jsontext.loads(row.artifacts_json)
    return A2ATask(**fields, context=jsontext.loads(row.context_json), artifacts=artifacts)


_COPIED_FIELDS = tuple(name for name in A2ATask.model_fields if name in TaskRow.__fields__)


def job_from_row(row: JobRow, *, with_token: bool = False, resumed: bool = False) -> Job:
    """Return a row as the public record, without its state. Only the process that starts a job gets its token."""
    hidden = ("version", "state_json", "event_id") if with_token else ("version", "state_json", "event_id", "lease_token")
    return Job(**{name: value for name, value in row.items() if name not in hidden}, resumed=resumed)
