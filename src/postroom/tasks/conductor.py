"""The conductor: register agents, run jobs, and store and route tasks and results. Each public method but `checkpoint` is a verb."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, LeaseHeld, LeaseLost
from postroom.core.verbs import (
    ANY_AGENT,
    DIRECTORY,
    LEADERS,
    OWN_NAME,
    OWN_VIEW,
    PEOPLE,
    READ,
    STEPS,
    TASK_GIVER,
    TASK_PARTY,
    TASK_RECEIVER,
    TASK_SUBMIT,
    TASKS_SEEN,
    WAIT,
    WRITE,
)
from postroom.store.retries import retry_on_contention
from postroom.tasks import checkpoints, jobs, lookups, repository
from postroom.tasks.a2a_inbox import A2AInbox, check_description, freeze_artifacts, freeze_context
from postroom.tasks.checkpoints import LEASE_SECONDS, TaskState
from postroom.tasks.models import PRIORITIES, RESULT, TASK, A2ATask, Accepted, Card, Job, Sheet
from postroom.tasks.remote_methods import remote_method, remote_methods
from postroom.tasks.rendering import DEFAULT_BUDGET_CHARS, Rendered, render_tasks
from postroom.tasks.repository import ACCEPTED, CANCELLED, COMPLETED, FAILED, PENDING, task_from_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from postroom.store.interface import Store

MAX_DELEGATION_DEPTH = 8
_STATUSES = (PENDING, ACCEPTED, COMPLETED, FAILED)


@remote_methods
class Conductor:
    """The verbs of tasks on one store. Most verbs first settle deadlines, leases and ended threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # Agents

    @remote_method(caller="name", access=OWN_NAME, mode=WRITE)
    @retry_on_contention
    def register(self, name: str, *, description: str = "", skills: Iterable[str] = ()) -> Card:
        """Register an agent, or replace its card. Returns the card."""
        checks.name("name", name)
        skills = (skills,) if isinstance(skills, str) else skills
        named_skills = tuple(dict.fromkeys(lookups.check_skill(skill) for skill in checks.items("skills", skills)))
        card = Card(name=name, description=checks.text("description", description), skills=named_skills)
        with self._store.write() as tx:
            tx.execute(tx.sql.agent_seen, name=name, now=clock.format_stamp(tx.now()))
            tx.execute(tx.sql.agent_card, name=name, card_json=jsontext.dumps(card.model_dump(mode="json")))
            tx.execute(tx.sql.skills_clear, agent=name)
            for skill in dict.fromkeys(skill.casefold() for skill in card.skills):
                tx.execute(tx.sql.skill_insert, skill=skill, agent=name)
        return card

    @remote_method(caller=ANY_AGENT, access=DIRECTORY, mode=READ)
    def card(self, name: str) -> Card:
        """Return an agent's card. Refuses with `NotFound` if the agent is not registered."""
        with self._store.read() as tx:
            return jobs.read_card(tx, checks.name("name", name))

    @remote_method(caller=ANY_AGENT, access=DIRECTORY, mode=READ)
    def find(self, skill: str, *, limit: int = 100) -> tuple[Card, ...]:
        """Return the cards of the agents that have a skill, ordered by name."""
        checks.limit("limit", limit)
        with self._store.read() as tx:
            skilled = tx.fetch_all(tx.sql.agents_of_skill, skill=lookups.check_skill(skill).casefold(), limit=limit)
        return tuple(Card.model_validate(jsontext.loads(agent.card_json)) for agent in skilled)

    # Jobs

    @remote_method(caller="agent", access=OWN_NAME, mode=WRITE)
    @retry_on_contention
    def start_job(self, agent: str, *, job_id: str | None = None, state: dict[str, Any] | None = None) -> Job:
        """Start a job of an agent. Tasks that waited for the agent move into its inbox."""
        checks.name("agent", agent)
        data = jobs.serialize_state({} if state is None else state)
        repository.settle_tasks(self._store)
        with self._store.write() as tx:
            jobs.read_card(tx, agent)
            row = jobs.start_job(tx, agent, job_id, data)
            repository.route_waiting(tx, agent, row.job_id)
        return jobs.job_from_row(row)

    @remote_method(caller=PEOPLE, mode=WRITE)
    @retry_on_contention
    def end_job(self, job_id: str) -> Job:
        """End a job. Open tasks in its inbox move to another running job of the agent, or wait for the next one."""
        repository.settle_tasks(self._store)
        with self._store.write() as tx:
            row = jobs.find_job(tx, job_id, running=True)
            for task in jobs.open_tasks(tx, job_id):
                if task.status == ACCEPTED and task.thread_id is None:
                    repository.return_task(tx, task, keep_job=False)
                else:
                    repository.update_task(tx, task, None, target_job_id=None)
            row = jobs.save_job(tx, row, status=jobs.ENDED)
            other_job = repository.running_job(tx, row.agent)
            if other_job is not None:
                repository.route_waiting(tx, row.agent, other_job)
        return jobs.job_from_row(row)

    @remote_method(caller=LEADERS, mode=READ)
    def jobs(self, agent: str | None = None, *, limit: int = 100) -> tuple[Job, ...]:
        """Return jobs, newest first."""
        checks.limit("limit", limit)
        with self._store.read() as tx:
            if agent is None:
                rows = tx.fetch_all(tx.sql.jobs_any, limit=limit)
            else:
                rows = tx.fetch_all(tx.sql.jobs_of_agent, agent=agent, limit=limit)
        return tuple(jobs.job_from_row(row) for row in rows)

    # Submitting and reading tasks

    @remote_method(caller="source_agent", access=TASK_SUBMIT, mode=WRITE)
    def submit(
        self,
        source_agent: str,
        target_agent: str,
        description: str,
        *,
        source_job_id: str | None = None,
        context: dict[str, Any] | None = None,
        priority: str = "normal",
        deadline_seconds: float | None = None,
        parent: str | None = None,
    ) -> A2ATask:
        """Give a task to another agent. It goes to the inbox of that agent's newest job, or waits until one starts.

        Refuses with `NotFound` if an agent is not registered, and with `InvalidInput` beyond `MAX_DELEGATION_DEPTH`.
        """
        if checks.name("source_agent", source_agent) == checks.name("target_agent", target_agent):
            raise InvalidInput(f"{source_agent} cannot give a task to itself", field="target_agent", hint="Name another agent.")
        if source_job_id is not None:
            checks.name("source_job_id", source_job_id)
        if deadline_seconds is not None:
            checks.seconds("deadline_seconds", deadline_seconds)
        task = A2ATask(
            task_id=str(uuid4()),
            source_job_id=source_job_id or "",
            source_agent=source_agent,
            target_agent=target_agent,
            description=check_description(description),
            context=freeze_context(context),
            priority=checks.choice("priority", priority, PRIORITIES),
        )
        repository.settle_tasks(self._store)
        return self._submit_task(task, deadline_seconds, parent)

    @retry_on_contention
    def _submit_task(self, task: A2ATask, deadline_seconds: float | None, parent: str | None) -> A2ATask:
        with self._store.write() as tx:
            for name in (task.source_agent, task.target_agent):
                jobs.read_card(tx, name)
            parent_row = lookups.find_parent(tx, task, parent)
            now = tx.now()
            deadline = None if deadline_seconds is None else clock.format_stamp(now + int(deadline_seconds * clock.MICROSECONDS_PER_SECOND))
            depth = 0 if parent_row is None else parent_row.depth + 1
            if depth > MAX_DELEGATION_DEPTH:
                raise InvalidInput(f"delegated too deep: {depth} agents in a row", field="parent", hint="Do it, or fail it with a reason.")
            changes = {
                "created_at": clock.format_stamp(now),
                "deadline": deadline,
                "depth": depth,
                "parent": parent_row.task_id if parent_row else None,
            }
            return task_from_row(repository.store_new_task(tx, repository.row_from_task(task.model_copy(update=changes))))

    @remote_method(caller=ANY_AGENT, access=TASK_PARTY, mode=STEPS)
    def get(self, task_id: str) -> A2ATask:
        """Return one task or result. Refuses with `NotFound`."""
        repository.settle_tasks(self._store)
        with self._store.read() as tx:
            return task_from_row(repository.find_task(tx, task_id))

    @remote_method(caller=LEADERS, mode=STEPS)
    def pending(self, job_id: str) -> tuple[A2ATask, ...]:
        """Return the pending tasks and results in a job's inbox, most urgent first."""
        repository.settle_tasks(self._store)
        with self._store.read() as tx:
            jobs.find_job(tx, job_id)
            return tuple(task_from_row(row) for row in jobs.open_tasks(tx, job_id) if row.status == PENDING)

    @remote_method(caller="agent", access=OWN_VIEW, mode=STEPS)
    def waiting(self, agent: str, *, limit: int = 1000) -> tuple[A2ATask, ...]:
        """Return the pending tasks and results of an agent, in any job or in none."""
        checks.limit("limit", limit)
        repository.settle_tasks(self._store)
        with self._store.read() as tx:
            return tuple(map(task_from_row, tx.fetch_all(tx.sql.tasks_waiting, agent=agent, limit=limit)))

    @remote_method(caller=ANY_AGENT, access=TASKS_SEEN, mode=STEPS)
    def tasks(
        self, agent: str | None = None, status: str | None = None, *, limit: int = 100, visible_to: str | None = None
    ) -> tuple[A2ATask, ...]:
        """Return tasks and results, newest first. `agent` selects those that it got.

        `visible_to` selects those that an agent gave or got. A server sets it for agents.
        """
        checks.limit("limit", limit)
        if status is not None:
            checks.choice("status", status, _STATUSES)
        repository.settle_tasks(self._store)
        with self._store.read() as tx:
            if visible_to is None:
                rows = lookups.list_tasks(tx, agent, status, limit)
            else:
                rows = lookups.list_tasks_of_party(tx, checks.name("visible_to", visible_to), agent, status, limit)
            return tuple(map(task_from_row, rows))

    # Accepting and ending tasks

    @remote_method(caller="agent", access=TASK_RECEIVER, mode=WRITE)
    def accept(self, task_id: str, *, agent: str, lease_seconds: float = LEASE_SECONDS) -> Accepted:
        """Accept a pending task. The caller holds it until the lease expires.

        Refuses with `LeaseHeld` if it is accepted already, and with `Conflict` if it has ended.
        """
        checks.seconds("lease_seconds", lease_seconds)
        repository.settle_tasks(self._store)
        return self._accept_task(task_id, agent, lease_seconds)

    @remote_method(caller="agent", access=OWN_NAME, mode=WRITE)
    @retry_on_contention
    def accept_next(self, agent: str, *, lease_seconds: float = LEASE_SECONDS) -> Accepted | None:
        """Accept the most urgent pending task of an agent. Returns None if there is none."""
        checks.seconds("lease_seconds", lease_seconds)
        checks.name("agent", agent)
        repository.settle_tasks(self._store)
        with self._store.write() as tx:
            waiting = tx.fetch_all(tx.sql.tasks_waiting, agent=agent, limit=jobs.MAX_ROWS)
            row = next((row for row in waiting if row.kind == TASK), None)
            if row is None:
                return None
            token = tx.new_id("lse")
            return Accepted(task=task_from_row(repository.accept_task(tx, row, token, lease_seconds)), lease_token=token)

    @retry_on_contention
    def _accept_task(self, task_id: str, agent: str, lease_seconds: float) -> Accepted:
        with self._store.write() as tx:
            row = lookups.find_open_task_of(tx, task_id, agent, "accept")
            if row.status == ACCEPTED:
                until = f" until {row.lease_expires_at}" if row.lease_expires_at else ""
                raise LeaseHeld(f"task {task_id} is accepted already{until}", hint="Wait for it, or take another.", task_id=task_id)
            token = tx.new_id("lse")
            accepted = repository.accept_task(tx, row, token, lease_seconds)
        return Accepted(task=task_from_row(accepted), lease_token=token)

    @remote_method(caller="agent", access=TASK_RECEIVER, mode=WRITE)
    def complete(self, task_id: str, *, agent: str, artifacts: dict[str, Any] | None = None, lease_token: str | None = None) -> A2ATask:
        """Complete a task, with its artifacts. The source agent receives the result.

        Refuses with `LeaseLost` if `lease_token` is given and another lease has replaced it.
        """
        artifacts_json = None if artifacts is None else jsontext.dumps(freeze_artifacts(artifacts))
        repository.settle_tasks(self._store)
        return self._finish_task(task_id, agent, COMPLETED, lease_token, artifacts_json=artifacts_json)

    @remote_method(caller="agent", access=TASK_RECEIVER, mode=WRITE)
    def fail(self, task_id: str, reason: str, *, agent: str, lease_token: str | None = None, reason_code: str = "failed") -> A2ATask:
        """Fail a task, with a reason. The source agent receives the result.

        Refuses with `LeaseLost` if `lease_token` is given and another lease has replaced it.
        """
        if not checks.reason("reason", reason).strip():
            raise InvalidInput("'reason' is missing", field="reason", hint="Say why it cannot be done.")
        repository.settle_tasks(self._store)
        return self._finish_task(task_id, agent, FAILED, lease_token, reason=reason, code=reason_code)

    @retry_on_contention
    def _finish_task(self, task_id: str, agent: str, status: str, lease_token: str | None, **outcome: Any) -> A2ATask:
        with self._store.write() as tx:
            row = lookups.find_open_task_of(tx, task_id, agent, "answer")
            if lease_token is not None and row.lease_token != lease_token:
                raise LeaseLost(f"task {task_id} has been accepted again since", hint="Leave it to its new holder.", task_id=task_id)
            return task_from_row(repository.finish_task(tx, row, status, **outcome))

    @remote_method(caller="agent", access=TASK_GIVER, mode=WRITE)
    def cancel(self, task_id: str, *, agent: str, reason: str = "") -> A2ATask:
        """Cancel a task that `agent` gave. An agent that works on it is refused when it answers."""
        checks.reason("reason", reason)
        repository.settle_tasks(self._store)
        return self._cancel_task(task_id, agent, reason)

    @retry_on_contention
    def _cancel_task(self, task_id: str, agent: str, reason: str) -> A2ATask:
        with self._store.write() as tx:
            row = repository.find_task(tx, task_id)
            if row.kind == RESULT or row.source_agent != checks.name("agent", agent):
                raise InvalidInput(
                    f"task {task_id} was not given by {agent}", field="agent", hint="Only the agent that gave it can cancel it."
                )
            repository.check_open(row)
            return task_from_row(repository.finish_task(tx, row, FAILED, reason=reason or f"cancelled by {agent}", code=CANCELLED))

    @remote_method(caller="agent", access=TASK_RECEIVER, mode=WRITE)
    @retry_on_contention
    def acknowledge(self, task_id: str, *, agent: str) -> A2ATask:
        """Mark a result as read. A result cannot be answered."""
        repository.settle_tasks(self._store)
        with self._store.write() as tx:
            row = repository.find_task(tx, task_id)
            if row.kind != RESULT or row.target_agent != checks.name("agent", agent):
                raise InvalidInput(f"{task_id} is not a result for {agent}", field="task_id", hint="See `inbox task list`.")
            if row.status == COMPLETED:
                return task_from_row(row)
            return task_from_row(repository.complete_result(tx, row))

    # Sheets and checkpoints

    @remote_method(caller=PEOPLE, mode=WRITE)
    def begin_sheet(self, job_id: str, *, lease_seconds: float = LEASE_SECONDS, budget: int = DEFAULT_BUDGET_CHARS) -> Sheet:
        """Render the pending tasks of a job as Markdown for a prompt, and accept exactly those that it shows."""
        checks.seconds("lease_seconds", lease_seconds)
        lookups.check_budget(budget)
        repository.settle_tasks(self._store)
        return self._begin_sheet(job_id, lease_seconds, budget)

    @retry_on_contention
    def _begin_sheet(self, job_id: str, lease_seconds: float, budget: int) -> Sheet:
        with self._store.write() as tx:
            job = jobs.find_job(tx, job_id, running=True)
            repository.route_waiting(tx, job.agent, job_id)
            rows = {row.task_id: row for row in jobs.open_tasks(tx, job_id) if row.status == PENDING}
            rendered = render_tasks([task_from_row(row) for row in rows.values()], budget)
            token = tx.new_id("sht")
            accepted = [task_from_row(repository.accept_task(tx, rows[task_id], token, lease_seconds)) for task_id in rendered.shown]
            jobs.save_job(tx, job, sheet=job.sheet + 1)
        return Sheet(token=token, text=rendered.text, tasks=tuple(accepted))

    @remote_method(caller=PEOPLE, mode=WRITE)
    @retry_on_contention
    def end_sheet(self, job_id: str, token: str) -> Job:
        """End a sheet. Tasks that it accepted and that have not ended are pending again. Results that it showed are marked as read."""
        repository.settle_tasks(self._store)
        with self._store.write() as tx:
            job = jobs.find_job(tx, job_id)
            for row in jobs.open_tasks(tx, job_id):
                if row.lease_token == token and row.status == ACCEPTED and row.thread_id is None:
                    if row.kind == RESULT:
                        repository.complete_result(tx, row)
                    else:
                        repository.return_task(tx, row)
        return jobs.job_from_row(job)

    @remote_method(caller="agent", access=OWN_VIEW, mode=STEPS)
    def render(self, agent: str, *, budget: int = DEFAULT_BUDGET_CHARS) -> Rendered:
        """Render the pending tasks of an agent as a sheet would. Accepts nothing."""
        lookups.check_budget(budget)
        return render_tasks(self.waiting(agent), budget)

    @contextmanager
    def checkpoint(self, job_id: str) -> Iterator[TaskState]:
        """Yield a job's state and inbox, and save both after the block.

        An exception in the block saves nothing. Refuses with `Conflict` if the job or a task was changed by another process.
        """
        repository.settle_tasks(self._store)
        with self._store.read() as tx:
            job = jobs.find_job(tx, job_id, running=True)
            rows = {row.task_id: row for row in jobs.open_tasks(tx, job_id)}
        inbox = A2AInbox(job_id, job.agent)
        for row in sorted(rows.values(), key=lambda row: row.event_id):
            inbox.put_task(task_from_row(row))
        state = TaskState(jsontext.loads(job.state_json), inbox)
        yield state
        checkpoints.save_checkpoint(self._store, job, rows, state)

    # Waiting, and threads of work

    @remote_method(caller=ANY_AGENT, access=TASK_PARTY, mode=WAIT)
    def wait(self, task_id: str, *, timeout_seconds: float = 0) -> A2ATask | None:
        """Wait until a task has ended, and return it. Returns None after `timeout_seconds`. 0 waits for ever."""
        from postroom.store.wait_loop import wait_until
        from postroom.tasks.waiting import DueTaskWake

        checks.seconds("timeout_seconds", timeout_seconds, allow_zero=True)
        first = self.get(task_id)
        topics = [repository.task_topic(task_id)] + ([f"thread:{first.thread_id}"] if first.thread_id else [])

        def read_if_ended() -> A2ATask | None:
            task = self.get(task_id)
            return task if task.status.terminal else None

        return wait_until(self._store, read_if_ended, timeout_seconds, topics=topics, periodic=DueTaskWake(self._store, task_id))

    @remote_method(caller=PEOPLE, mode=STEPS)
    def settle(self) -> None:
        """Apply passed deadlines, expired leases and ended threads to their tasks."""
        repository.settle_tasks(self._store)

    @remote_method(caller="agent", access=TASK_RECEIVER, mode=STEPS)
    def open_thread(self, task_id: str, *, agent: str) -> str:
        """Open a thread of work that answers a task, and return its id. When the thread ends, the task ends.

        Its first message comes from the source of the task, by the door by which the task came. A second call returns the same thread.
        """
        repository.settle_tasks(self._store)
        with self._store.read() as tx:
            row = lookups.find_open_task_of(tx, task_id, agent, "answer")
        return row.thread_id or self._open_thread(task_id, agent, row.door)

    @retry_on_contention
    def _open_thread(self, task_id: str, agent: str, door: str) -> str:
        from postroom.work.threads import open_thread

        with self._store.with_door(door).write() as tx:
            row = lookups.find_open_task_of(tx, task_id, agent, "answer")
            if row.thread_id is not None:
                return row.thread_id
            subject = row.description.strip().split("\n", 1)[0][:200]
            opened = open_thread(tx, sender=row.source_agent, to=row.target_agent, subject=subject, body=row.description)
            event = None if row.status == ACCEPTED else "A2ATaskAccepted"
            # The task's own lease ends here: the lease of the thread replaces it.
            now, thread_id = opened.message.created_at, opened.thread.thread_id
            repository.update_task(tx, row, event, status=ACCEPTED, accepted_at=now, lease_expires_at=None, thread_id=thread_id)
        return thread_id
