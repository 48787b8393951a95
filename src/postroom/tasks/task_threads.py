"""The thread of work that answers a task: opened for it, and cancelled with it. Called inside transactions of this room."""

from __future__ import annotations

from postroom.core import checks, tracing
from postroom.core.errors import InvalidInput
from postroom.core.limits import MAX_LINE_BYTES
from postroom.core.states import PRIORITIES, TERMINAL_STATUSES
from postroom.tasks import repository
from postroom.work import messages
from postroom.work.threads import open_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.tasks import TaskRow
    from postroom.core.records.work import Thread
    from postroom.store.interface import Transaction

SUBJECT_CHARS = 200


def open_task_thread(tx: Transaction, row: TaskRow) -> Thread:
    """Open the thread of an open task, and accept the task. The lease of the thread replaces that of the task.

    The first message has the description as its body, and the context as its payload.
    """
    subject = " ".join(row.description.strip().split("\n", 1)[0].split())[:SUBJECT_CHARS]
    content = messages.check_content(subject, row.description, _payload_of(row), ())
    priority = row.priority if row.priority in PRIORITIES else PRIORITIES[0]  # a thread cannot be urgent
    names = {"sender": row.source_agent, "to": row.target_agent}
    with tracing.use_traceparent(row.traceparent):  # of the agent that gave the task, not of the one that takes it
        opened = open_thread(tx, content, task_id=row.task_id, priority=priority, door=row.door, **names)
    event = None if row.status == repository.ACCEPTED else "A2ATaskAccepted"
    now, thread_id = opened.message.created_at, opened.thread.thread_id
    repository.update_task(tx, row, event, status=repository.ACCEPTED, accepted_at=now, lease_expires_at=None, thread_id=thread_id)
    return opened.thread


def _payload_of(row: TaskRow) -> str:
    """Return the context of a task as a payload. A message takes less than a task: then the context is left out, and is in the task."""
    try:
        return checks.json_object("payload-json", row.context_json)
    except InvalidInput:
        return "{}"


def cancel_task_thread(tx: Transaction, row: TaskRow, reason: str) -> None:
    """Cancel the thread of a task that was cancelled or is overdue, so that its worker stops. Does nothing if it has ended."""
    from postroom.work.progress import cancel_thread

    if row.thread_id is None:
        return
    found = tx.fetch_one(tx.sql.thread_find, thread_id=row.thread_id)
    if found is not None and found.thread.status not in TERMINAL_STATUSES:
        content = messages.check_content(reason.split("\n", 1)[0][: MAX_LINE_BYTES // 4], "", "{}", ())
        cancel_thread(tx, row.thread_id, content, agent=row.source_agent)
