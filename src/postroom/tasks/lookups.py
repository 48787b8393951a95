"""Checks and lookups that the verbs of the conductor share: a budget, a skill, a parent, an open task, and lists of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom.core import checks
from postroom.core.errors import InvalidInput, LeaseLost
from postroom.core.text import short_repr
from postroom.tasks import jobs, repository
from postroom.tasks.models import RESULT, TASK, A2ATask
from postroom.tasks.repository import ACCEPTED

if TYPE_CHECKING:
    from postroom.core.records.tasks import TaskRow
    from postroom.store.interface import Transaction


def check_budget(budget: int) -> None:
    if not isinstance(budget, int) or budget < 1:
        raise InvalidInput(f"budget must be a number of characters, not {short_repr(budget)}", field="budget", hint="The default is 10000.")


def check_skill(skill: str) -> str:
    return checks.name("skill", skill, hint="Name it with --skill.")


def find_parent(tx: Transaction, task: A2ATask, parent: str | None) -> TaskRow | None:
    """Return the task during which this one was submitted: `parent`, or the one that the source job accepted last, or None."""
    if parent is not None:
        return repository.find_task(tx, parent)
    if not task.source_job_id:
        return None
    accepted = [row for row in jobs.open_tasks(tx, task.source_job_id, ACCEPTED) if row.kind == TASK]
    return max(accepted, key=lambda row: (row.accepted_at or "", row.event_id), default=None)


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


def check_lease(row: TaskRow, lease_token: str | None) -> None:
    """Refuse with `LeaseLost` if a token is given, and it is not that of the task's latest lease."""
    if lease_token is not None and row.lease_token != lease_token:
        raise LeaseLost(f"task {row.task_id} has been accepted again since", hint="Leave it to its new holder.", task_id=row.task_id)


def list_tasks(tx: Transaction, source: str | None, target: str | None, status: str | None, limit: int) -> list[TaskRow]:
    """Return the newest tasks and results, optionally those from one agent, for one agent, or of one status."""
    criteria = {"source_agent": source, "target_agent": target, "status": status}
    given = {column: value for column, value in criteria.items() if value is not None}
    statement = {
        (): tx.sql.tasks_any,
        ("target_agent",): tx.sql.tasks_to,
        ("source_agent",): tx.sql.tasks_from,
        ("status",): tx.sql.tasks_of_status,
        ("target_agent", "status"): tx.sql.tasks_to_of_status,
        ("source_agent", "status"): tx.sql.tasks_from_of_status,
        ("source_agent", "target_agent"): tx.sql.tasks_from_to,
        ("source_agent", "target_agent", "status"): tx.sql.tasks_from_to_of_status,
    }[tuple(given)]
    return tx.fetch_all(statement, limit=limit, **given)


def list_tasks_of_party(
    tx: Transaction, party: str, source: str | None, target: str | None, status: str | None, limit: int
) -> list[TaskRow]:
    """Return the same as `list_tasks`, of those tasks and results that `party` gave or got."""
    rows = list_tasks(tx, party, target, status, limit) if source in (None, party) else []
    rows += list_tasks(tx, source, party, status, limit) if target in (None, party) else []
    return sorted({row.task_id: row for row in rows}.values(), key=lambda row: row.event_id, reverse=True)[:limit]
