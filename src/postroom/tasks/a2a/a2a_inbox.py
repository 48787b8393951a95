"""The inbox of one job, in memory. `Conductor.checkpoint` loads it from the store and saves the changes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic import ValidationError

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput
from postroom.core.limits import MAX_DESCRIPTION_CHARS, MAX_TASK_ARTIFACTS_BYTES, MAX_TASK_BYTES, MAX_TASK_CONTEXT_BYTES
from postroom.core.states import TASK, TASK_PRIORITIES
from postroom.core.text import short_repr
from postroom.tasks.a2a.frozen import freeze_json_object
from postroom.tasks.a2a.models import A2ATask, A2ATaskStatus
from postroom.tasks.a2a.rendering import DEFAULT_BUDGET_CHARS, render_text

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT_VERSION = 1


class A2AInbox:
    """Tasks that other agents gave to this job's agent.

    A transition replaces a task with a new snapshot and returns True. If the id is unknown, or the task's status does not allow the
    transition, it changes nothing and returns False.
    """

    def __init__(self, job_id: str, agent_name: str) -> None:
        self.job_id = checks.name("job_id", job_id)
        self.agent_name = checks.name("agent_name", agent_name)
        self._tasks: dict[str, A2ATask] = {}
        self._unknown_fields: dict[str, Any] = {}

    @property
    def tasks(self) -> Mapping[str, A2ATask]:
        """The tasks by id, in the order of arrival. The mapping is read-only."""
        return MappingProxyType(self._tasks)

    def submit_task(
        self,
        source_job_id: str,
        source_agent: str,
        description: str,
        context: dict[str, Any] | None = None,
        *,
        priority: str = "normal",
        deadline: str | None = None,
    ) -> A2ATask:
        """Add a new task from another agent, and return it.

        `deadline` is a timestamp such as 2026-11-15T21:12:00.000000Z. Refuses with `InvalidInput` if the source is this inbox's own
        agent, or if a value is not valid.
        """
        if checks.name("source_agent", source_agent) == self.agent_name:
            raise InvalidInput(f"{source_agent} cannot give a task to itself", field="source_agent", hint="Name another agent.")
        task = A2ATask(
            task_id=str(uuid4()),
            source_job_id=checks.name("source_job_id", source_job_id),
            source_agent=source_agent,
            target_job_id=self.job_id,
            target_agent=self.agent_name,
            description=check_description(description),
            context=freeze_context(context),
            priority=checks.choice("priority", priority, TASK_PRIORITIES),
            deadline=check_deadline(deadline),
            created_at=clock.format_stamp(clock.now()),
        )
        self._tasks[task.task_id] = task
        return task

    def get_task(self, task_id: str) -> A2ATask | None:
        """Return the task, or None if there is none with that id."""
        return self._tasks.get(task_id)

    def get_pending_tasks(self) -> list[A2ATask]:
        """Return the pending tasks, most urgent first, then oldest first."""
        pending = [task for task in self._tasks.values() if task.status is A2ATaskStatus.PENDING]
        return sorted(pending, key=lambda task: task.urgency)

    def mark_accepted(self, task_id: str) -> bool:
        """Mark a pending task or result as accepted. Returns whether it changed."""
        return self._change_status(
            task_id, (A2ATaskStatus.PENDING,), any_kind=True, status=A2ATaskStatus.ACCEPTED, accepted_at=_current_stamp()
        )

    def complete_task(self, task_id: str, artifacts: dict[str, Any] | None = None) -> bool:
        """Mark a task as completed, with its artifacts. Returns whether it changed."""
        frozen = None if artifacts is None else freeze_artifacts(artifacts)
        return self._change_status(task_id, _OPEN_STATUSES, status=A2ATaskStatus.COMPLETED, artifacts=frozen, ended_at=_current_stamp())

    def fail_task(self, task_id: str, reason: str) -> bool:
        """Mark a task as failed, with a reason. Returns whether it changed."""
        return self._change_status(
            task_id, _OPEN_STATUSES, status=A2ATaskStatus.FAILED, reason=checks.reason("reason", reason), ended_at=_current_stamp()
        )

    def render_pending_context(self, budget: int = DEFAULT_BUDGET_CHARS) -> str:
        """Return the pending tasks as Markdown for a prompt, with a budget in characters. Returns "" if none is pending."""
        return render_text(self.get_pending_tasks(), budget)

    def to_dict(self) -> dict[str, Any]:
        """Return the inbox as a dictionary for JSON."""
        tasks = [task.model_dump(mode="json") for task in self._tasks.values()]
        return {**self._unknown_fields, "version": FORMAT_VERSION, "job_id": self.job_id, "agent_name": self.agent_name, "tasks": tasks}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> A2AInbox:
        """Return the inbox that `to_dict` of this, an older or a newer version wrote. Unknown fields are kept for the next `to_dict`.

        Refuses with `InvalidInput` if the data is not such a dictionary.
        """
        if not isinstance(data, dict):
            raise InvalidInput(f"an inbox is a dictionary, not {type(data).__name__}", field="data", hint="Pass what to_dict gave.")
        inbox = cls(data.get("job_id", ""), data.get("agent_name", ""))
        unknown = {name: value for name, value in data.items() if name not in ("version", "job_id", "agent_name", "tasks")}
        inbox._unknown_fields = freeze_json_object("what an inbox holds beside its tasks", unknown, max_bytes=MAX_TASK_BYTES)
        tasks = data.get("tasks", [])
        if not isinstance(tasks, dict | list | tuple):
            raise InvalidInput("tasks must be a list, or a dictionary by id", field="tasks", hint="Pass what to_dict gave.")
        for task in tasks.values() if isinstance(tasks, dict) else tasks:
            inbox.put_task(_restore_task(task, inbox))
        return inbox

    def put_task(self, task: A2ATask) -> None:
        """Add or replace a snapshot, unchecked."""
        self._tasks[task.task_id] = task

    def _change_status(self, task_id: str, allowed: tuple[A2ATaskStatus, ...], *, any_kind: bool = False, **changes: object) -> bool:
        task = self._tasks.get(task_id)
        if task is None or task.status not in allowed or (task.kind != TASK and not any_kind):
            return False
        self._tasks[task_id] = task.model_copy(update=changes)
        return True


_OPEN_STATUSES = (A2ATaskStatus.PENDING, A2ATaskStatus.ACCEPTED)


def check_description(description: str) -> str:
    """Return the description. Refuses one that is empty or longer than `MAX_DESCRIPTION_CHARS`."""
    if not isinstance(description, str) or not checks.text("description", description).strip():
        raise InvalidInput("description is empty", field="description", hint="Say what is to be done.")
    if len(description) > MAX_DESCRIPTION_CHARS:
        hint = "Write it into a file, and name the file."
        raise InvalidInput(f"description is longer than {MAX_DESCRIPTION_CHARS} characters", field="description", hint=hint)
    return description


def check_deadline(deadline: str | None) -> str | None:
    """Return a deadline, or None. Refuses a text that is no instant as the store writes it: every waiter reads the next one of all."""
    if deadline is not None and not clock.is_stamp(deadline):
        raise InvalidInput(f"deadline is no timestamp: {short_repr(deadline)}", field="deadline", hint="As 2026-11-15T21:12:00.000000Z.")
    return deadline


def freeze_context(context: dict[str, Any] | None) -> dict[str, Any]:
    return freeze_json_object("context", {} if context is None else context, max_bytes=MAX_TASK_CONTEXT_BYTES)


def freeze_artifacts(artifacts: dict[str, Any]) -> dict[str, Any]:
    return freeze_json_object("artifacts", artifacts, max_bytes=MAX_TASK_ARTIFACTS_BYTES)


def _current_stamp() -> str:
    return clock.format_stamp(clock.now())


def _restore_task(data: object, inbox: A2AInbox) -> A2ATask:
    if not isinstance(data, dict):
        raise InvalidInput(f"a task is a dictionary, not {type(data).__name__}", field="tasks", hint="Pass what to_dict gave.")
    fields = freeze_json_object(
        "a task", {"target_agent": inbox.agent_name, "target_job_id": inbox.job_id, **data}, max_bytes=MAX_TASK_BYTES
    )
    try:
        task = A2ATask.model_validate(dict(fields))
    except (ValidationError, ValueError, TypeError, RecursionError) as error:
        lines = str(error).splitlines()
        raise InvalidInput(f"a task cannot be read: {' '.join(lines[:3])}", field="tasks", hint="Pass what to_dict gave.") from None
    checks.name("task_id", task.task_id)
    return task
