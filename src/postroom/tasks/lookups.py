"""Checks and lookups that the verbs of the conductor share: a budget, a skill, a parent, an open task, and lists of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom.core import checks
from postroom.core.errors import InvalidInput
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
    accepted = [row for row in jobs.open_tasks(tx, task.source_job_id) if row.status == ACCEPTED and row.kind == TASK]
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


def list_tasks(tx: Transaction, agent: str | None, status: str | None, limit: int) -> list[TaskRow]:
    """Return the newest tasks and results, optionally those that one agent got or those of one status."""
    criteria = {key: value for key, value in (("agent", agent), ("status", status)) if value is not None}
    statement = {
        (): tx.sql.tasks_any,
        ("agent",): tx.sql.tasks_of_agent,
        ("status",): tx.sql.tasks_of_status,
        ("agent", "status"): tx.sql.tasks_of_agent_status,
    }[tuple(criteria)]
    return tx.fetch_all(statement, limit=limit, **criteria)


def list_tasks_of_party(tx: Transaction, party: str, agent: str | None, status: str | None, limit: int) -> list[TaskRow]:
    """Return the same as `list_tasks`, of those tasks and results that `party` gave or got."""
    rows = tx.fetch_all(tx.sql.tasks_given, source=party, target=agent or "", status=status or "", limit=limit)
    if agent in (None, party):
        rows += list_tasks(tx, party, status, limit)
    return sorted({row.task_id: row for row in rows}.values(), key=lambda row: row.event_id, reverse=True)[:limit]
