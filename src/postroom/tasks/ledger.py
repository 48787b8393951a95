"""Tasks as rows: how one moves, who is told, and what time and work threads do to them by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from postroom.core import clock, jsontext
from postroom.core.errors import Conflict, Contended, NotFound
from postroom.core.records import Artifact, Message, Record
from postroom.core.words import shown
from postroom.tasks.models import PRIORITIES, RESULT, TASK, A2ATask

if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.core.errors import Refusal
    from postroom.store.port import Store, Transaction

MOST_ATTEMPTS = 3
AT_ONCE = 100
PENDING, ACCEPTED, COMPLETED, FAILED = "pending", "accepted", "completed", "failed"
EXHAUSTED, DEADLINE, CANCELLED = "attempts_exhausted", "deadline", "cancelled"


class Row(Record):
    """One row of `tasks`, its columns in their order."""

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

    def task(self) -> A2ATask:
        """The row as its document's record."""
        fields = {name: value for name, value in self.items() if name in A2ATask.model_fields}
        artifacts = None if self.artifacts_json is None else jsontext.loads(self.artifacts_json)
        return A2ATask(**fields, context=jsontext.loads(self.context_json), artifacts=artifacts)


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


def find(tx: Transaction, task_id: str) -> Row:
    row = tx.one(tx.sql.task_find, task_id=task_id)
    if row is None:
        raise NotFound(f"there is no task {shown(task_id)}", hint="See `inbox task list`.", task_id=task_id)
    return Row(*row)


def draft(task: A2ATask) -> Row:
    """A task that is about to be stored."""
    return Row(
        task_id=task.task_id,
        kind=task.kind,
        source_job_id=task.source_job_id,
        source_agent=task.source_agent,
        target_job_id=task.target_job_id,
        target_agent=task.target_agent,
        description=task.description,
        context_json=jsontext.dumps(task.context),
        status=PENDING,
        is_open=1,
        priority=task.priority,
        urgency=PRIORITIES.index(task.priority),
        attempt=0,
        deadline=task.deadline,
        artifacts_json=None if task.artifacts is None else jsontext.dumps(task.artifacts),
        reason=task.reason,
        reason_code=task.reason_code,
        outcome=task.outcome,
        answers=task.answers,
        parent=task.parent,
        depth=task.depth,
        thread_id=None,
        created_at=task.created_at,
        accepted_at=None,
        ended_at=None,
        lease_token=None,
        lease_expires_at=None,
        due_at=task.deadline,
        event_id=0,
    )


def store_new(tx: Transaction, row: Row) -> Row:
    """Store a task: its event first, so that it has its place; then where it goes."""
    event_id = announce(tx, row, "A2ATaskSubmitted")
    # The event came first: on PostgreSQL whoever starts a job now waits for us, or we saw it.
    job = running_job(tx, row.target_agent) if row.target_job_id is None else row.target_job_id
    stored = row.replace(event_id=event_id, target_job_id=job)
    tx.run(tx.sql.task_insert, **dict(stored.items()))
    if job is not None:
        announce(tx, stored, "A2ATaskRouted")
    return stored


def running_job(tx: Transaction, agent: str) -> str | None:
    row = tx.one(tx.sql.job_running, agent=agent)
    return None if row is None else str(row[0])


def move(tx: Transaction, row: Row, event: str | None, otherwise: Refusal | None = None, **changes: Any) -> Row:
    """Write a task's next state, guarded by the one that was seen, with its event."""
    after = row.replace(**changes)
    open_ = after.status in (PENDING, ACCEPTED)
    ends = [when for when in (after.deadline, after.lease_expires_at if after.status == ACCEPTED else None) if when]
    after = after.replace(is_open=int(open_), due_at=min(ends) if open_ and ends else None)
    tx.must(
        otherwise or Contended(f"task {row.task_id} changed while it was being written", hint="Try again."),
        tx.sql.task_move,
        task_id=row.task_id,
        seen_status=row.status,
        seen_attempt=row.attempt,
        seen_token=row.lease_token or "",
        seen_job=row.target_job_id or "",
        seen_thread=row.thread_id or "",
        **{name: getattr(after, name) for name in _MOVING},
    )
    if event is not None:
        announce(tx, after, event)
    return after


_MOVING = (
    *("status", "is_open", "target_job_id", "attempt", "artifacts_json", "reason", "reason_code", "thread_id"),
    *("accepted_at", "ended_at", "lease_token", "lease_expires_at", "due_at"),
)


def announce(tx: Transaction, row: Row, name: str) -> int:
    """Write the event of a transition; who watches the task, or an agent's tasks, is woken."""
    facts = {field: getattr(row, field) for field in _TOLD}
    return tx.append(
        tx.sql.event_append,
        (of_task(row.task_id), of_agent(row.target_agent), of_agent(row.source_agent)),
        run_id="",
        task_id="",
        thread_id="",
        source=row.source_agent if name == "A2ATaskSubmitted" else row.target_agent,
        event_type=f"task.{name}",
        message_id=row.task_id,
        summary=row.description.split("\n", 1)[0][:200],
        payload_json=jsontext.dumps(facts),
        created_at=clock.stamp(tx.now()),
    )


_TOLD = ("task_id", "kind", "source_agent", "target_agent", "source_job_id", "target_job_id", "status", "attempt", "reason_code")


def finish(
    tx: Transaction,
    row: Row,
    status: str,
    *,
    artifacts_json: str | None = None,
    reason: str | None = None,
    code: str | None = None,
    at: str | None = None,
    otherwise: Refusal | None = None,
    attempt: int | None = None,
) -> Row:
    """End a task, and send what became of it home."""
    ended = move(
        tx,
        row,
        "A2ATaskCompleted" if status == COMPLETED else "A2ATaskFailed",
        otherwise,
        status=status,
        attempt=row.attempt if attempt is None else attempt,
        artifacts_json=artifacts_json,
        reason=reason,
        reason_code=code,
        ended_at=at or clock.stamp(tx.now()),
        lease_expires_at=None,
    )
    if row.kind == TASK:
        _send_home(tx, ended)
    return ended


def _send_home(tx: Transaction, ended: Row) -> None:
    result = ended.replace(
        task_id=str(uuid4()),
        kind=RESULT,
        source_job_id=ended.target_job_id or "",
        source_agent=ended.target_agent,
        target_job_id=_home(tx, ended),
        target_agent=ended.source_agent,
        context_json="{}",
        status=PENDING,
        is_open=1,
        attempt=0,
        deadline=None,
        outcome=ended.status,
        answers=ended.task_id,
        thread_id=None,
        created_at=ended.ended_at or clock.stamp(tx.now()),
        accepted_at=None,
        ended_at=None,
        lease_token=None,
        due_at=None,
    )
    store_new(tx, result)


def _home(tx: Transaction, ended: Row) -> str | None:
    """The job that asked, if it still runs."""
    row = tx.one(tx.sql.job_find, job_id=ended.source_job_id)
    return ended.source_job_id if row is not None and row[2] == "running" and row[1] == ended.source_agent else None


def give_back(tx: Transaction, row: Row, *, at: str | None = None, job: str | None = None, keep_job: bool = True) -> Row:
    """What its holder did not end is pending again; after too many attempts it has failed. Results are shown until they were read."""
    attempt = row.attempt + 1
    if row.kind == TASK and attempt >= MOST_ATTEMPTS:
        reason = f"accepted {attempt} times, and never ended"
        return finish(tx, row, FAILED, reason=reason, code=EXHAUSTED, at=at, attempt=attempt)
    where = row.target_job_id if keep_job else job
    changes: dict[str, Any] = {"status": PENDING, "attempt": attempt, "accepted_at": None, "lease_expires_at": None, "target_job_id": where}
    return move(tx, row, "A2ATaskReturned", **changes)


def route_waiting(tx: Transaction, agent: str, job_id: str) -> None:
    """Bring what waited for an agent into the inbox of its job."""
    for found in tx.all(tx.sql.tasks_unrouted, agent=agent, limit=10_000):
        move(tx, Row(*found), "A2ATaskRouted", target_job_id=job_id)


def settle(store: Store) -> None:
    """Carry out what time and finished threads have decided, if anything."""
    while True:
        with store.read() as tx:
            due = tx.one(tx.sql.tasks_due, now=clock.stamp(tx.now()), limit=1) or tx.one(tx.sql.tasks_answered, limit=1)
        if due is None or not _settle_some(store):
            return


def _settle_some(store: Store) -> bool:
    from postroom.store.attempts import retried

    some: Callable[[Store], bool] = retried(_settled)
    return some(store)


def _settled(store: Store) -> bool:
    with store.write() as tx:
        now, found = clock.stamp(tx.now()), 0
        for row in (Row(*found) for found in tx.all(tx.sql.tasks_due, now=now, limit=AT_ONCE)):
            _pass_time(tx, row, now)
            found += 1
        for row in (Row(*found) for found in tx.all(tx.sql.tasks_answered, limit=AT_ONCE)):
            _take_answer(tx, row)
            found += 1
    return found > 0


def _pass_time(tx: Transaction, row: Row, now: str) -> None:
    """What fell due first happens first, as of then."""
    if row.thread_id is not None and _thread_ended_by(tx, row.thread_id, row.due_at or now):
        _take_answer(tx, row)
        return
    while row.is_open and row.due_at is not None and row.due_at <= now:
        if row.deadline is not None and row.due_at == row.deadline:
            finish(tx, row, FAILED, reason=f"not done by {row.deadline}", code=DEADLINE, at=row.due_at)
            return
        row = give_back(tx, row, at=row.due_at)


def _thread_ended_by(tx: Transaction, thread_id: str, instant: str) -> bool:
    found = tx.one(tx.sql.thread_find, thread_id=thread_id)
    return found is not None and found[6] in ("done", "failed", "cancelled") and str(found[10]) <= instant


def _take_answer(tx: Transaction, row: Row) -> None:
    """A thread that ended is the answer to its task, as of when it did."""
    found = tx.one(tx.sql.thread_find, thread_id=row.thread_id)
    if found is None:
        return
    status, latest, at = found[6], found[8], found[10]
    said = tx.one(tx.sql.message_find, message_id=latest) if latest else None
    message = Message(*said) if said is not None else None
    summary, body = (message.summary, message.body) if message is not None else ("", "")
    if status != "done":
        code = CANCELLED if status == "cancelled" else "thread_failed"
        finish(tx, row, FAILED, reason=summary or f"its thread was {status}", code=code, at=at)
        return
    files = [Artifact(*file).path for file in tx.all(tx.sql.artifacts_of_message, message_id=latest)] if latest else []
    made = {"summary": summary, "body": body, "thread_id": row.thread_id, "files": files}
    finish(tx, row, COMPLETED, artifacts_json=jsontext.dumps(made), at=at)


def still_open(row: Row) -> None:
    if not row.is_open:
        why = f" ({row.reason_code})" if row.reason_code else ""
        raise Conflict(
            f"task {row.task_id} is {row.status} already{why}", hint="Nothing is left to do.", task_id=row.task_id, state=row.status
        )


def accepted(tx: Transaction, row: Row, token: str, lease_seconds: float) -> Row:
    now = tx.now()
    expires = clock.stamp(now + int(lease_seconds * clock.SECOND))
    return move(tx, row, "A2ATaskAccepted", status=ACCEPTED, accepted_at=clock.stamp(now), lease_token=token, lease_expires_at=expires)


def read(tx: Transaction, row: Row) -> Row:
    return move(tx, row, "A2ATaskCompleted", status=COMPLETED, ended_at=clock.stamp(tx.now()), lease_expires_at=None)


# The topics that waiters choose from: what happens to a task, what happens to an agent's tasks.


def of_task(task_id: str) -> str:
    return f"task:{task_id}"


def of_agent(name: str) -> str:
    return f"tasks:{name}"
