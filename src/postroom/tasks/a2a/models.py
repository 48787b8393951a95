"""The records of this package: pydantic models that are immutable, including the JSON values inside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer, model_validator

from postroom.core.states import TASK_PRIORITIES, UNVERIFIED_DOORS
from postroom.tasks.a2a.frozen import freeze

Frozen = Annotated[dict[str, Any], AfterValidator(freeze)]


def _check_priority(priority: str) -> str:
    if priority not in TASK_PRIORITIES:
        raise ValueError(f"priority is one of {', '.join(TASK_PRIORITIES)}")
    return priority


class A2ATaskStatus(str, Enum):  # noqa: UP042 - the specification names these base classes
    """The status of a task or a result."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def terminal(self) -> bool:
        """Whether the task has ended."""
        return self in (A2ATaskStatus.COMPLETED, A2ATaskStatus.FAILED)


class Snapshot(BaseModel):
    """An immutable model. Unknown fields, which a newer version may have written, are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return another snapshot with some fields replaced. It is immutable too."""
        return super().model_copy(update={name: freeze(value) for name, value in (update or {}).items()}, deep=deep)

    @model_validator(mode="before")
    @classmethod
    def _freeze_unknown_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = _field_names(cls)
        return data if known.issuperset(data) else {name: value if name in known else freeze(value) for name, value in data.items()}


@cache
def _field_names(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(model.model_fields)  # pydantic computes them at each access


class A2ATask(Snapshot):
    """A task in an agent's inbox. With the kind `result` it is the outcome of a task that the agent gave to another."""

    task_id: str
    kind: Literal["task", "result"] = "task"
    source_job_id: str
    source_agent: str
    target_job_id: str | None = None
    target_agent: str = ""
    description: str
    context: Frozen = freeze({})
    status: A2ATaskStatus = A2ATaskStatus.PENDING
    priority: Annotated[str, AfterValidator(_check_priority)] = "normal"
    attempt: int = 0
    deadline: str | None = None
    artifacts: Frozen | None = None
    reason: str | None = None
    reason_code: str | None = None
    outcome: str | None = None  # only in a result: the final status of the task
    answers: str | None = None
    parent: str | None = None
    depth: int = 0
    thread_id: str | None = None
    created_at: str = ""
    accepted_at: str | None = None
    ended_at: str | None = None
    door: str = ""  # how the task entered, as the store recorded it
    traceparent: str | None = None  # the trace in which it was given, as W3C Trace Context writes it

    @model_serializer(mode="wrap")
    def _leave_out_missing_trace(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the fields, without a trace if there is none, as every other record does."""
        fields: dict[str, Any] = serialize(self)
        if fields.get("traceparent") is None:
            fields.pop("traceparent", None)
        return fields

    @property
    def verified(self) -> bool:
        """Whether a server checked the agent that gave it."""
        return self.door not in UNVERIFIED_DOORS

    @property
    def urgency(self) -> int:
        """The index of the priority. 0 is the most urgent."""
        return TASK_PRIORITIES.index(self.priority if self.priority in TASK_PRIORITIES else "normal")


class Accepted(Snapshot):
    """An accepted task, and the token of its lease."""

    task: A2ATask
    lease_token: str


class _Page(Snapshot):
    """One page of a list. It can be iterated, counted and indexed like the tuple that it holds. If there are `more`, pass `after`."""

    def _listed(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override] # pydantic iterates over the fields
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())

    def __getitem__(self, index: int) -> Any:
        return self._listed()[index]


class A2ATaskPage(_Page):
    """One page of tasks and results."""

    tasks: tuple[A2ATask, ...]
    more: bool = False
    after: str | None = None

    def _listed(self) -> tuple[A2ATask, ...]:
        return self.tasks


class Card(Snapshot):
    """An agent's description and skills."""

    name: str
    description: str = ""
    skills: tuple[str, ...] = ()


class CardPage(_Page):
    """One page of cards."""

    cards: tuple[Card, ...]
    more: bool = False
    after: str | None = None

    def _listed(self) -> tuple[Card, ...]:
        return self.cards


class Job(Snapshot):
    """One run of an agent, with its own inbox. Only the process that started or resumed it gets `lease_token`."""

    job_id: str
    agent: str
    status: str
    sheet: int
    created_at: str
    updated_at: str
    lease_token: str | None = None
    lease_seconds: float = 900.0
    lease_expires_at: str = ""
    resumed: bool = False


class JobPage(_Page):
    """One page of jobs."""

    jobs: tuple[Job, ...]
    more: bool = False
    after: str | None = None

    def _listed(self) -> tuple[Job, ...]:
        return self.jobs


class Sheet(Snapshot):
    """The prompt text of one sheet of a job, and the tasks that the sheet accepted."""

    token: str
    text: str
    tasks: tuple[A2ATask, ...]


class UnappliedAnswer(Snapshot):
    """A line of an agent's output that looks like an answer and was not applied. `why` is the reason."""

    line: int
    text: str
    why: str


class AnsweredSheet(Snapshot):
    """The effect of an agent's answers: the tasks that they completed, failed and gave to others, and the lines that did nothing."""

    job: Job
    completed: tuple[A2ATask, ...] = ()
    failed: tuple[A2ATask, ...] = ()
    delegated: tuple[A2ATask, ...] = ()
    not_applied: tuple[UnappliedAnswer, ...] = ()


class Checkpoint(Snapshot):
    """A job's state and the tasks in its inbox, as they were read. `left_out` is whether more tasks wait than were read."""

    job: Job
    version: int
    state_json: str
    tasks: tuple[A2ATask, ...]
    left_out: bool = False
