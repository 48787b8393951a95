"""The records of the tasks room, as their document names them: pydantic models that are really immutable."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from postroom.tasks.frozen import freeze

TASK, RESULT = "task", "result"
PRIORITIES = ("urgent", "high", "normal", "low")

Frozen = Annotated[dict[str, Any], AfterValidator(freeze)]


def _known_priority(priority: str) -> str:
    if priority not in PRIORITIES:
        raise ValueError(f"priority is one of {', '.join(PRIORITIES)}")
    return priority


class A2ATaskStatus(str, Enum):  # noqa: UP042 - the document's bases
    """Where a task stands."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def terminal(self) -> bool:
        return self in (A2ATaskStatus.COMPLETED, A2ATaskStatus.FAILED)


class Snapshot(BaseModel):
    """A value that stays as it is; what a newer version wrote beside it is kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Another snapshot, as immutable as this one."""
        return super().model_copy(update={name: freeze(value) for name, value in (update or {}).items()}, deep=deep)

    @model_validator(mode="before")
    @classmethod
    def _freeze_what_is_unknown(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {name: value if name in cls.model_fields else freeze(value) for name, value in data.items()}


class A2ATask(Snapshot):
    """A task in an agent's inbox, or, of kind `result`, what became of one that it gave to another."""

    task_id: str
    kind: Literal["task", "result"] = "task"
    source_job_id: str
    source_agent: str
    target_job_id: str | None = None
    target_agent: str = ""
    description: str
    context: Frozen = freeze({})
    status: A2ATaskStatus = A2ATaskStatus.PENDING
    priority: Annotated[str, AfterValidator(_known_priority)] = "normal"
    attempt: int = 0
    deadline: str | None = None
    artifacts: Frozen | None = None
    reason: str | None = None
    reason_code: str | None = None
    outcome: str | None = None  # of a result: how the task ended
    answers: str | None = None
    parent: str | None = None
    depth: int = 0
    thread_id: str | None = None
    created_at: str = ""
    accepted_at: str | None = None
    ended_at: str | None = None

    @property
    def urgency(self) -> int:
        """0 for the most urgent."""
        return PRIORITIES.index(self.priority) if self.priority in PRIORITIES else PRIORITIES.index("normal")


class Accepted(Snapshot):
    """A task that is the caller's until its lease runs out."""

    task: A2ATask
    lease_token: str


class Card(Snapshot):
    """What an agent says of itself."""

    name: str
    description: str = ""
    skills: tuple[str, ...] = ()


class Job(Snapshot):
    """One run of an agent, with an inbox of its own."""

    job_id: str
    agent: str
    status: str
    sheet: int
    created_at: str
    updated_at: str


class Sheet(Snapshot):
    """What one sheet of a job was given to read, and accepted by reading it."""

    token: str
    text: str
    tasks: tuple[A2ATask, ...]
