"""The records of the room `tasks`: the rows of tasks and jobs, whose fields are the columns, and what lists and histories return.

The Python API of document 003 has pydantic models of its own. Commands that only list tasks cannot afford to import pydantic.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core.records import Event, Record
from postroom.core.states import UNVERIFIED_DOORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
    traceparent: str | None = None


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


class ListedTask(Record):
    """A task or a result as every door shows it: without the lease, which concerns only its holder.

    `traceparent` is the trace in which the task was given, or the result sent (W3C Trace Context), if there was one.
    """

    task_id: str
    kind: str
    source_job_id: str
    source_agent: str
    target_job_id: str | None
    target_agent: str
    description: str
    context_json: str
    status: str
    priority: str
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
    door: str
    traceparent: str | None = None

    @property
    def verified(self) -> bool:
        """Whether a server checked the agent that gave it."""
        return self.door not in UNVERIFIED_DOORS

    def to_json(self) -> dict[str, Any]:
        fields = {**dict(map(_parse_json_field, self.items())), "verified": self.verified}
        if self.traceparent is None:
            del fields["traceparent"]
        return fields


def _parse_json_field(field: tuple[str, Any]) -> tuple[str, Any]:
    name, value = field
    if not name.endswith("_json"):
        return field
    return name.removesuffix("_json"), None if value is None else jsontext.loads(value)


class TaskPage(Record):
    """Tasks and results, newest first. `next_before_event` is the cursor of the next page, or None if this is the last one."""

    tasks: tuple[ListedTask, ...]
    next_before_event: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "more": self.next_before_event is not None}


class TaskHistory(Record):
    """A task and the events of its life, oldest first."""

    task: ListedTask
    events: tuple[Event, ...]
