"""Jobs and cards as rows: who is registered, what runs, and what is in a job's inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postroom.core import checks, clock, jsontext
from postroom.core.errors import Conflict, Contended, InvalidInput, InvalidState, NotFound
from postroom.core.records import Agent
from postroom.core.words import shown
from postroom.tasks import ledger
from postroom.tasks.ledger import JobRow, Row
from postroom.tasks.models import Card, Job

if TYPE_CHECKING:
    from postroom.store.port import Transaction

RUNNING, ENDED = "running", "ended"
ALL = 10_000
LARGEST_STATE = 10 << 20


def card(tx: Transaction, name: str) -> Card:
    row = tx.one(tx.sql.agent_find, name=name)
    found = jsontext.loads(Agent(*row).card_json) if row is not None else {}
    if not found.get("name"):
        raise unknown(tx, name)
    return Card.model_validate(found)


def unknown(tx: Transaction, name: str) -> NotFound:
    from difflib import get_close_matches

    known = [Agent(*row) for row in tx.all(tx.sql.agents_all, limit=ALL)]
    names = {agent.name.casefold(): agent.name for agent in known if jsontext.loads(agent.card_json).get("name")}
    near = [names[found] for found in get_close_matches(name.casefold(), names, n=3, cutoff=0.5)]
    hint = f"Did you mean {' or '.join(near)}?" if near else "Register it first: inbox agent register NAME"
    return NotFound(f"no agent {shown(name)} is registered", hint=hint, name=name, nearest=near)


def begin(tx: Transaction, agent: str, job_id: str | None, data: str) -> JobRow:
    if job_id is not None and tx.one(tx.sql.job_find, job_id=checks.name("job_id", job_id)) is not None:
        raise Conflict(f"there is a job {shown(job_id)} already", hint="Choose another id, or leave it out.", job_id=job_id)
    now = clock.stamp(tx.now())
    named = job_id or tx.fresh("job")
    # The event first: on PostgreSQL whoever submits a task now waits for us, or we see it.
    event_id = tx.append(
        tx.sql.event_append,
        (ledger.of_agent(agent),),
        run_id="",
        task_id="",
        thread_id="",
        source=agent,
        event_type="task.JobStarted",
        message_id=None,
        summary=named,
        payload_json=jsontext.dumps({"job_id": named, "agent": agent}),
        created_at=now,
    )
    row = JobRow(named, agent, RUNNING, 0, 0, data, now, now, event_id)
    tx.run(tx.sql.job_insert, **dict(row.items()))
    return row


def find(tx: Transaction, job_id: str, *, running: bool = False) -> JobRow:
    row = tx.one(tx.sql.job_find, job_id=job_id)
    if row is None:
        raise NotFound(f"there is no job {shown(job_id)}", hint="Start one first.", job_id=job_id)
    job = JobRow(*row)
    if running and job.status != RUNNING:
        raise InvalidState(f"job {job_id} has ended", hint="Start another.", job_id=job_id)
    return job


def save(tx: Transaction, job: JobRow, otherwise: Conflict | None = None, **changes: Any) -> JobRow:
    after = job.replace(**changes, updated_at=clock.stamp(tx.now()), version=job.version + 1)
    tx.must(
        otherwise or Contended(f"job {job.job_id} changed while it was being written", hint="Try again."),
        tx.sql.job_move,
        job_id=job.job_id,
        status=after.status,
        sheet=after.sheet,
        state_json=after.state_json,
        now=after.updated_at,
        seen=job.version,
    )
    return after


def shown_job(row: JobRow) -> Job:
    return Job(**{name: value for name, value in row.items() if name not in ("version", "state_json", "event_id")})


def state_json(data: dict[str, Any]) -> str:
    if not isinstance(data, dict):
        raise InvalidInput("a job's state must be a JSON object", field="state", hint="Pass a dictionary.")
    try:
        text = jsontext.dumps(data)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError, SystemError) as error:
        raise InvalidInput(f"a job's state is not JSON: {error}", field="state", hint="Keep to what JSON knows.") from None
    if size > LARGEST_STATE:
        raise InvalidInput(f"a job's state has {size} bytes; at most {LARGEST_STATE} are kept", field="state", hint="Keep files beside it.")
    return text


def open_tasks(tx: Transaction, job_id: str) -> list[Row]:
    return [Row(*row) for row in tx.all(tx.sql.tasks_of_job, job_id=job_id, limit=ALL)]
