"""Read and write the rows of jobs and agent cards. Called by the conductor, inside its transactions."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.errors import Conflict, Contended, InvalidInput, InvalidState, LeaseLost, NotFound
from postroom.core.limits import MAX_JOB_STATE_BYTES
from postroom.core.records.tasks import JobRow
from postroom.core.text import short_repr
from postroom.store.event_log import append_event
from postroom.tasks import cursors, repository
from postroom.work.messages import agent_topic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.tasks import TaskRow
    from postroom.store.interface import Transaction

RUNNING, LAPSED, ENDING, ENDED = "running", "lapsed", "ending", "ended"
MAX_ROWS = 10_000  # more are read in pages


def find_card(tx: Transaction, name: str) -> dict[str, Any]:
    """Return the fields of an agent's card. Refuses with `NotFound` if the agent is not registered."""
    agent = tx.fetch_one(tx.sql.agent_find, name=name)
    fields = jsontext.loads(agent.card_json) if agent is not None else {}
    if not fields.get("name"):
        raise unknown_agent(tx, name)
    return dict(fields)


def check_giver(tx: Transaction, name: str) -> None:
    """Refuse with `NotFound` a giver of tasks that the store has never seen. Only agents that get tasks need a card."""
    if tx.fetch_one(tx.sql.agent_find, name=name) is None:
        raise unknown_agent(tx, name)


def unknown_agent(tx: Transaction, name: str) -> NotFound:
    """Return the refusal for an agent that is not registered, with up to three similar names."""
    from difflib import get_close_matches

    known = tx.fetch_all(tx.sql.agents_all, limit=MAX_ROWS, after="")
    names = {agent.name.casefold(): agent.name for agent in known if jsontext.loads(agent.card_json).get("name")}
    similar = [names[match] for match in get_close_matches(name.casefold(), names, n=3, cutoff=0.5)]
    hint = f"Did you mean {' or '.join(similar)}?" if similar else "Register it first: inbox agent register NAME"
    return NotFound(f"no agent {short_repr(name)} is registered", hint=hint, name=name, nearest=similar)


def start_job(tx: Transaction, agent: str, job_id: str | None, data: str, lease_seconds: float) -> JobRow:
    """Store a new running job, with a lease. Without `job_id`, a new id is made. Refuses with `Conflict` if `job_id` exists."""
    now, new_id = clock.format_stamp(tx.now()), job_id or tx.new_id("job")
    topics = (agent_topic(agent),)
    payload = {"job_id": new_id, "agent": agent}
    event_id = append_event(tx, topics, event_type="task.JobStarted", source=agent, summary=new_id, payload=payload)
    expires = repository.expiry_stamp(tx, lease_seconds)
    row = JobRow(new_id, agent, RUNNING, 0, 0, data, now, now, event_id, tx.new_id("lse"), lease_seconds, expires)
    tx.execute(tx.sql.job_insert, **dict(row.items()))
    return row


def resume_job(tx: Transaction, job: JobRow, agent: str, lease_seconds: float) -> JobRow:
    """Continue a job under a new token, so that the process that had it is refused. Refuses with `Conflict` if that is not possible."""
    if job.agent != agent or job.status in (ENDING, ENDED):
        why = "has ended" if job.agent == agent else "belongs to another agent"
        raise Conflict(f"job {short_repr(job.job_id)} {why}", hint="Choose another id, or leave it out.", job_id=job.job_id)
    for row in open_tasks(tx, job.job_id, repository.ACCEPTED):
        if row.thread_id is None:
            repository.return_task(tx, row, counted=True)
    token, expires = tx.new_id("lse"), repository.expiry_stamp(tx, lease_seconds)
    return save_job(tx, job, status=RUNNING, lease_token=token, lease_seconds=lease_seconds, lease_expires_at=expires)


def job_not_found_error(job_id: str) -> NotFound:
    """Return the refusal of a job that does not exist, and of one that the caller may not see. It must not tell which."""
    return NotFound(f"there is no job {short_repr(job_id)}", hint="Start one first.", job_id=job_id)


def find_job(tx: Transaction, job_id: str, *, running: bool = False, lease_token: str | None = None) -> JobRow:
    """Return a job. Refuses with `NotFound`.

    With `running`, refuses with `InvalidState` if it has ended. A job whose lease ran out may go on, unless another process continued
    it: then its `lease_token` is refused with `LeaseLost`.
    """
    job = tx.fetch_one(tx.sql.job_find, job_id=job_id)
    if job is None:
        raise job_not_found_error(job_id)
    if running and job.status not in (RUNNING, LAPSED):
        raise InvalidState(f"job {job_id} has ended", hint="Start another.", job_id=job_id)
    if lease_token is not None and lease_token != job.lease_token:
        raise LeaseLost(f"another process continued job {job_id}", hint="Stop: that process owns the job now.", job_id=job_id)
    return job


def save_job(tx: Transaction, job: JobRow, refusal: Conflict | None = None, **changes: Any) -> JobRow:
    """Write a job's next version. Raises `refusal`, or `Contended`, if the row has changed since it was read."""
    after = job.replace(**changes, updated_at=clock.format_stamp(tx.now()), version=job.version + 1)
    tx.execute_exactly_one(
        refusal or Contended(f"job {job.job_id} changed while it was being written", hint="Try again."),
        tx.sql.job_move,
        seen=job.version,
        **{name: value for name, value in after.items() if name not in ("agent", "version", "created_at", "event_id")},
    )
    return after


def renewed_lease(tx: Transaction, job: JobRow, lease_seconds: float | None = None) -> dict[str, Any]:
    """Return the changes that renew a job's lease from now, for `save_job`."""
    length = lease_seconds or job.lease_seconds
    return {"status": RUNNING, "lease_seconds": length, "lease_expires_at": repository.expiry_stamp(tx, length)}


def serialize_state(data: dict[str, Any]) -> str:
    """Return a job's state as JSON text. Refuses with `InvalidInput` if it is not JSON or exceeds `MAX_JOB_STATE_BYTES`."""
    if not isinstance(data, dict):
        raise InvalidInput("a job's state must be a JSON object", field="state", hint="Pass a dictionary.")
    try:
        text = jsontext.dumps(data)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError, SystemError) as error:
        raise InvalidInput(f"a job's state is not JSON: {error}", field="state", hint="Keep to what JSON knows.") from None
    if size > MAX_JOB_STATE_BYTES:
        raise InvalidInput(
            f"a job's state has {size} bytes; at most {MAX_JOB_STATE_BYTES} are kept", field="state", hint="Keep files beside it."
        )
    return text


def open_tasks(tx: Transaction, job_id: str, status: str) -> list[TaskRow]:
    """Return all tasks and results that belong to a job, most urgent first: the accepted ones, or the pending results."""
    rows: list[TaskRow] = []
    place = cursors.FIRST
    while True:
        page = tx.fetch_all(tx.sql.tasks_of_job, job_id=job_id, status=status, **place, limit=MAX_ROWS)
        rows += page
        if len(page) < MAX_ROWS:
            return rows
        place = {"urgency": page[-1].urgency, "after": page[-1].event_id}


def pending_tasks(tx: Transaction, job: JobRow, limit: int, place: dict[str, int] = cursors.FIRST) -> list[TaskRow]:
    """Return up to `limit` rows of a job's inbox, most urgent first: what waits for its agent, and the results that belong to the job."""
    rows = tx.fetch_all(tx.sql.tasks_unrouted, agent=job.agent, limit=limit, **place)
    rows += tx.fetch_all(tx.sql.tasks_of_job, job_id=job.job_id, status=repository.PENDING, limit=limit, **place)
    return sorted(rows, key=lambda row: (row.urgency, row.event_id))[:limit]
