"""Read and write the rows of jobs and agent cards. Called by the conductor, inside its transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import Conflict, Contended, InvalidInput, InvalidState, NotFound
from postroom.core.records.tasks import JobRow
from postroom.core.text import short_repr
from postroom.store.event_log import append_event
from postroom.tasks import repository
from postroom.tasks.models import Card, Job

if TYPE_CHECKING:
    from postroom.core.records.tasks import TaskRow
    from postroom.store.interface import Transaction

RUNNING, ENDED = "running", "ended"
MAX_ROWS = 10_000
MAX_STATE_BYTES = 10 << 20


def read_card(tx: Transaction, name: str) -> Card:
    """Return an agent's card. Refuses with `NotFound` if the agent is not registered."""
    agent = tx.fetch_one(tx.sql.agent_find, name=name)
    fields = jsontext.loads(agent.card_json) if agent is not None else {}
    if not fields.get("name"):
        raise unknown_agent(tx, name)
    return Card.model_validate(fields)


def unknown_agent(tx: Transaction, name: str) -> NotFound:
    """Return the refusal for an agent that is not registered, with up to three similar names."""
    from difflib import get_close_matches

    known = tx.fetch_all(tx.sql.agents_all, limit=MAX_ROWS)
    names = {agent.name.casefold(): agent.name for agent in known if jsontext.loads(agent.card_json).get("name")}
    similar = [names[match] for match in get_close_matches(name.casefold(), names, n=3, cutoff=0.5)]
    hint = f"Did you mean {' or '.join(similar)}?" if similar else "Register it first: inbox agent register NAME"
    return NotFound(f"no agent {short_repr(name)} is registered", hint=hint, name=name, nearest=similar)


def start_job(tx: Transaction, agent: str, job_id: str | None, data: str) -> JobRow:
    """Store a new running job. Refuses with `Conflict` if `job_id` exists. Without it, a new id is made."""
    if job_id is not None and tx.fetch_one(tx.sql.job_find, job_id=checks.name("job_id", job_id)) is not None:
        raise Conflict(f"there is a job {short_repr(job_id)} already", hint="Choose another id, or leave it out.", job_id=job_id)
    now = clock.format_stamp(tx.now())
    new_id = job_id or tx.new_id("job")
    # Write the event first. On PostgreSQL a concurrent `submit` then waits for this transaction, or its task is visible here.
    topics = (repository.agent_topic(agent),)
    payload = {"job_id": new_id, "agent": agent}
    event_id = append_event(tx, topics, event_type="task.JobStarted", source=agent, summary=new_id, payload=payload)
    row = JobRow(new_id, agent, RUNNING, 0, 0, data, now, now, event_id)
    tx.execute(tx.sql.job_insert, **dict(row.items()))
    return row


def job_not_found_error(job_id: str) -> NotFound:
    """Return the refusal of a job that does not exist, and of one that the caller may not see. It must not tell which."""
    return NotFound(f"there is no job {short_repr(job_id)}", hint="Start one first.", job_id=job_id)


def find_job(tx: Transaction, job_id: str, *, running: bool = False) -> JobRow:
    """Return a job. Refuses with `NotFound`, and with `InvalidState` if `running` is set and the job has ended."""
    job = tx.fetch_one(tx.sql.job_find, job_id=job_id)
    if job is None:
        raise job_not_found_error(job_id)
    if running and job.status != RUNNING:
        raise InvalidState(f"job {job_id} has ended", hint="Start another.", job_id=job_id)
    return job


def save_job(tx: Transaction, job: JobRow, refusal: Conflict | None = None, **changes: Any) -> JobRow:
    """Write a job's next version. Raises `refusal`, or `Contended`, if the row has changed since it was read."""
    after = job.replace(**changes, updated_at=clock.format_stamp(tx.now()), version=job.version + 1)
    tx.execute_exactly_one(
        refusal or Contended(f"job {job.job_id} changed while it was being written", hint="Try again."),
        tx.sql.job_move,
        job_id=job.job_id,
        status=after.status,
        sheet=after.sheet,
        state_json=after.state_json,
        now=after.updated_at,
        seen=job.version,
    )
    return after


def job_from_row(row: JobRow) -> Job:
    """Return a row as the public record, without its state."""
    return Job(**{name: value for name, value in row.items() if name not in ("version", "state_json", "event_id")})


def serialize_state(data: dict[str, Any]) -> str:
    """Return a job's state as JSON text. Refuses with `InvalidInput` if it is not JSON or exceeds `MAX_STATE_BYTES`."""
    if not isinstance(data, dict):
        raise InvalidInput("a job's state must be a JSON object", field="state", hint="Pass a dictionary.")
    try:
        text = jsontext.dumps(data)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError, SystemError) as error:
        raise InvalidInput(f"a job's state is not JSON: {error}", field="state", hint="Keep to what JSON knows.") from None
    if size > MAX_STATE_BYTES:
        raise InvalidInput(
            f"a job's state has {size} bytes; at most {MAX_STATE_BYTES} are kept", field="state", hint="Keep files beside it."
        )
    return text


def open_tasks(tx: Transaction, job_id: str) -> list[TaskRow]:
    """Return the pending and accepted tasks and results in a job's inbox, most urgent first."""
    return tx.fetch_all(tx.sql.tasks_of_job, job_id=job_id, limit=MAX_ROWS)
