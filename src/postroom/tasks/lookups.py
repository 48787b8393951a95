"""Checks and lookups that the verbs of the conductor share: a budget, a skill, a parent, an open task, and lists of tasks."""

from __future__ import annotations

from postroom.core import checks
from postroom.core.errors import InvalidInput, LeaseHeld, LeaseLost
from postroom.core.states import RESULT, TASK, UNVERIFIED_DOORS
from postroom.core.text import short_repr
from postroom.store.agents import is_person
from postroom.tasks import jobs, repository
from postroom.tasks.repository import ACCEPTED
from postroom.tasks.settling import return_if_abandoned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from postroom.core.records.tasks import TaskRow
    from postroom.store.interface import Transaction
    from postroom.tasks.a2a.models import A2ATask

MAX_DELEGATION_DEPTH = 8


def check_budget(budget: int) -> None:
    if not isinstance(budget, int) or budget < 1:
        raise InvalidInput(f"budget must be a number of characters, not {short_repr(budget)}", field="budget", hint="The default is 10000.")


def check_skill(skill: str) -> str:
    return checks.name("skill", skill, hint="Name it with --skill.")


def find_unverified(tx: Transaction, tasks: Collection[TaskRow | A2ATask]) -> frozenset[str]:
    """Return the ids of the tasks in the name of a person whom no server has checked."""
    unchecked = [task for task in tasks if task.door in UNVERIFIED_DOORS]
    people = {name for name in {task.source_agent for task in unchecked} if is_person(tx, name)}
    return frozenset(task.task_id for task in unchecked if task.source_agent in people)


def find_parent(tx: Transaction, task: A2ATask, parent: str | None) -> TaskRow | None:
    """Return the task during which this one was submitted: `parent`, or the one that the source job accepted last, or None."""
    if parent is not None:
        return repository.find_task(tx, parent)
    if not task.source_job_id:
        return None
    accepted = [row for row in jobs.open_tasks(tx, task.source_job_id, ACCEPTED) if row.kind == TASK]
    return max(accepted, key=lambda row: (row.accepted_at or "", row.event_id), default=None)


def check_depth(depth: int) -> int:
    """Return the depth of a delegation. Refuses with `InvalidInput` beyond `MAX_DELEGATION_DEPTH`, so that circles end."""
    if depth > MAX_DELEGATION_DEPTH:
        raise InvalidInput(f"delegated too deep: {depth} agents in a row", field="parent", hint="Do it, or fail it with a reason.")
    return depth


def find_open_task_of(tx: Transaction, task_id: str, agent: str, verb: str) -> TaskRow:
    """Return an open task that is addressed to `agent`. `verb` is used in the message of the refusal.

    Refuses with `InvalidInput` if it is for another agent or is a result, and with `Conflict` if it has ended.
    """
    row = repository.find_task(tx, task_id)
    if row.target_agent != checks.name("agent", agent):
        raise InvalidInput(f"task {task_id} is for {row.target_agent}, not for {agent}", field="agent", hint="See `inbox task list`.")
    if row.kind == RESULT:
        raise InvalidInput(f"{task_id} is a result: no agent can {verb} it", field="task_id", hint="Acknowledge it: inbox task ack")
    repository.check_open(row)
    return row


def accepted_already_error(row: TaskRow) -> LeaseHeld:
    """Return the refusal of a task that another process has accepted."""
    until = f" until {row.lease_expires_at}" if row.lease_expires_at else ""
    return LeaseHeld(f"task {row.task_id} is accepted already{until}", hint="Wait for it, or take another.", task_id=row.task_id)


def reclaim_task(tx: Transaction, row: TaskRow) -> TaskRow:
    """Take an accepted task back from a thread that nobody works on, and return its row: pending, or failed if no attempt is left.

    Refuses with `LeaseHeld` if its thread is held or waits for its first worker, or if it has no thread.
    """
    returned = return_if_abandoned(tx, row)
    if returned.status == ACCEPTED:
        raise accepted_already_error(row)
    return returned


def check_lease(row: TaskRow, lease_token: str | None) -> None:
    """Refuse with `LeaseLost` if a token is given, and it is not that of the task's latest lease."""
    if lease_token is not None and row.lease_token != lease_token:
        raise LeaseLost(f"task {row.task_id} has been accepted again since", hint="Leave it to its new holder.", task_id=row.task_id)
