"""The inbox of one job, as a value in memory. The conductor keeps it; whoever holds one changes only that."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic import ValidationError

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput
from postroom.tasks.frozen import json_object
from postroom.tasks.models import PRIORITIES, TASK, A2ATask, A2ATaskStatus
from postroom.tasks.rendering import BUDGET, render

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
LONGEST_DESCRIPTION = 100_000
LARGEST_CONTEXT, LARGEST_ARTIFACTS, LARGEST_TASK = 1 << 20, 10 << 20, 64 << 20


class A2AInbox:
    """Tasks that other agents gave to this job's agent.

    A transition makes a new snapshot; of an unknown id, or from a state that does not allow it, nothing changes and False comes back.
    """

    def __init__(self, job_id: str, agent_name: str) -> None:
        self.job_id = checks.name("job_id", job_id)
        self.agent_name = checks.name("agent_name", agent_name)
        self._tasks: dict[str, A2ATask] = {}
        self._unknown: dict[str, Any] = {}

    @property
    def tasks(self) -> Mapping[str, A2ATask]:
        """Every task by its id, in the order of arrival, as it stands."""
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
        """Put a new task into the inbox."""
        if checks.name("source_agent", source_agent) == self.agent_name:
            raise InvalidInput(f"{source_agent} cannot give a task to itself", field="source_agent", hint="Name another agent.")
        task = A2ATask(
            task_id=str(uuid4()),
            source_job_id=checks.name("source_job_id", source_job_id),
            source_agent=source_agent,
            target_job_id=self.job_id,
            target_agent=self.agent_name,
            description=described(description),
            context=contextual(context),
            priority=checks.choice("priority", priority, PRIORITIES),
            deadline=deadline,
            created_at=clock.stamp(clock.now()),
        )
        self._tasks[task.task_id] = task
        return task

    def get_task(self, task_id: str) -> A2ATask | None:
        return self._tasks.get(task_id)

    def get_pending_tasks(self) -> list[A2ATask]:
        """What waits: the most urgent first, and of those the oldest."""
        pending = [task for task in self._tasks.values() if task.status is A2ATaskStatus.PENDING]
        return sorted(pending, key=lambda task: task.urgency)

    def mark_accepted(self, task_id: str) -> bool:
        """Note that a task was put before its agent."""
        return self._move(task_id, (A2ATaskStatus.PENDING,), any_kind=True, status=A2ATaskStatus.ACCEPTED, accepted_at=_now())

    def complete_task(self, task_id: str, artifacts: dict[str, Any] | None = None) -> bool:
        """Note that a task was done, and what came of it."""
        made = None if artifacts is None else produced(artifacts)
        return self._move(task_id, _OPEN, status=A2ATaskStatus.COMPLETED, artifacts=made, ended_at=_now())

    def fail_task(self, task_id: str, reason: str) -> bool:
        """Note that a task cannot be done, and why."""
        return self._move(task_id, _OPEN, status=A2ATaskStatus.FAILED, reason=checks.text("reason", reason), ended_at=_now())

    def render_pending_context(self, budget: int = BUDGET) -> str:
        """What waits, as Markdown to put before the agent; empty if nothing does."""
        return render(self.get_pending_tasks(), budget)

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        tasks = [task.model_dump(mode="json") for task in self._tasks.values()]
        return {**self._unknown, "version": VERSION, "job_id": self.job_id, "agent_name": self.agent_name, "tasks": tasks}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> A2AInbox:
        """The inbox that `to_dict` of this version, an older or a newer one wrote. What we do not know is kept, and written again."""
        if not isinstance(data, dict):
            raise InvalidInput(f"an inbox is a dictionary, not {type(data).__name__}", field="data", hint="Pass what to_dict gave.")
        inbox = cls(data.get("job_id", ""), data.get("agent_name", ""))
        unknown = {name: value for name, value in data.items() if name not in ("version", "job_id", "agent_name", "tasks")}
        inbox._unknown = json_object("what an inbox holds beside its tasks", unknown, largest=LARGEST_TASK)
        found = data.get("tasks", [])
        if not isinstance(found, dict | list | tuple):
            raise InvalidInput("tasks must be a list, or a dictionary by id", field="tasks", hint="Pass what to_dict gave.")
        for task in found.values() if isinstance(found, dict) else found:
            inbox.put(_restored(task, inbox))
        return inbox

    def put(self, task: A2ATask) -> None:
        """Take a snapshot in as it is."""
        self._tasks[task.task_id] = task

    def _move(self, task_id: str, allowed: tuple[A2ATaskStatus, ...], *, any_kind: bool = False, **changes: object) -> bool:
        task = self._tasks.get(task_id)
        if task is None or task.status not in allowed or (task.kind != TASK and not any_kind):
            return False
        self._tasks[task_id] = task.model_copy(update=changes)
        return True


_OPEN = (A2ATaskStatus.PENDING, A2ATaskStatus.ACCEPTED)


def described(description: str) -> str:
    if not isinstance(description, str) or not checks.text("description", description).strip():
        raise InvalidInput("description is empty", field="description", hint="Say what is to be done.")
    if len(description) > LONGEST_DESCRIPTION:
        hint = "Write it into a file, and name the file."
        raise InvalidInput(f"description is longer than {LONGEST_DESCRIPTION} characters", field="description", hint=hint)
    return description


def contextual(context: dict[str, Any] | None) -> dict[str, Any]:
    return json_object("context", {} if context is None else context, largest=LARGEST_CONTEXT)


def produced(artifacts: dict[str, Any]) -> dict[str, Any]:
    return json_object("artifacts", artifacts, largest=LARGEST_ARTIFACTS)


def _now() -> str:
    return clock.stamp(clock.now())


def _restored(data: object, inbox: A2AInbox) -> A2ATask:
    if not isinstance(data, dict):
        raise InvalidInput(f"a task is a dictionary, not {type(data).__name__}", field="tasks", hint="Pass what to_dict gave.")
    told = json_object("a task", {"target_agent": inbox.agent_name, "target_job_id": inbox.job_id, **data}, largest=LARGEST_TASK)
    try:
        task = A2ATask.model_validate(dict(told))
    except (ValidationError, ValueError, TypeError, RecursionError) as error:
        first = str(error).splitlines()
        raise InvalidInput(f"a task cannot be read: {' '.join(first[:3])}", field="tasks", hint="Pass what to_dict gave.") from None
    checks.name("task_id", task.task_id)
    return task
