"""Lists and histories of tasks, as records. The command line, the server and the page read them. Needs no pydantic."""

from __future__ import annotations

from postroom.core import checks, limits
from postroom.core.records.tasks import ListedTask, TaskHistory, TaskPage
from postroom.core.verbs import ANY_AGENT, STEPS, TASK_PARTY, TASKS_SEEN, verb
from postroom.tasks import repository
from postroom.tasks.settling import read_settled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.tasks import TaskRow
    from postroom.store.interface import Store, Transaction

STATUSES = (repository.PENDING, repository.ACCEPTED, repository.COMPLETED, repository.FAILED)
_TASK_OVERHEAD_CHARS = 800  # ids, names, stamps and field names of a task in an answer


@verb(caller=ANY_AGENT, access=TASKS_SEEN, mode=STEPS)
def list_tasks(
    store: Store,
    *,
    agent: str | None = None,
    status: str | None = None,
    source: str | None = None,
    limit: int = 100,
    before_event: int | None = None,
    visible_to: str | None = None,
) -> TaskPage:
    """List tasks and results, newest first. `agent` selects those for an agent, `source` those that an agent gave.

    `before_event` is the cursor of the page before. `visible_to` selects those that an agent gave or got. A server sets it for agents.
    """
    checks.limit("limit", limit)
    if status is not None:
        checks.choice("status", status, STATUSES)
    if before_event is not None:
        checks.event_id("before-event", before_event)
    with read_settled(store) as tx:
        rows = select_rows(tx, source, agent, status, limit + 1, before_event=before_event, visible_to=visible_to)
    kept = _cut_page(rows[:limit])
    return TaskPage(tuple(map(task_of_row, kept)), kept[-1].event_id if len(kept) < len(rows) else None)


@verb(caller=ANY_AGENT, access=TASK_PARTY, mode=STEPS)
def show_task(store: Store, task_id: str) -> TaskHistory:
    """Return a task or result, and its events. Refuses with `NotFound`."""
    with read_settled(store) as tx:
        row = repository.find_task(tx, checks.name("task_id", task_id))
        return TaskHistory(task_of_row(row), tuple(tx.fetch_all(tx.sql.events_of_subject, message_id=task_id, types="task.%")))


def task_of_row(row: TaskRow) -> ListedTask:
    return ListedTask(*(getattr(row, name) for name in ListedTask.__fields__))


def select_rows(
    tx: Transaction,
    source: str | None,
    target: str | None,
    status: str | None,
    limit: int,
    *,
    before_event: int | None = None,
    visible_to: str | None = None,
) -> list[TaskRow]:
    """Return the newest rows, optionally those from one agent, for one agent, of one status, or that one agent gave or got."""
    before = checks.AFTER_ALL_IDS if before_event is None else before_event
    if visible_to is None:
        return _select_pair(tx, source, target, status, limit, before)
    party = checks.name("visible_to", visible_to)
    rows = _select_pair(tx, party, target, status, limit, before) if source in (None, party) else []
    rows += _select_pair(tx, source, party, status, limit, before) if target in (None, party) else []
    return sorted({row.task_id: row for row in rows}.values(), key=lambda row: row.event_id, reverse=True)[:limit]


def _select_pair(tx: Transaction, source: str | None, target: str | None, status: str | None, limit: int, before: int) -> list[TaskRow]:
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
    return tx.fetch_all(statement, limit=limit, before=before, **given)


def _cut_page(rows: list[TaskRow]) -> list[TaskRow]:
    """Return the first rows that fit into an answer, and at least one."""
    size = 0
    for number, row in enumerate(rows):
        size += len(row.description) + len(row.context_json) + len(row.artifacts_json or "") + len(row.reason or "") + _TASK_OVERHEAD_CHARS
        if size > limits.MAX_ANSWER_BYTES and number:
            return rows[:number]
    return rows
