"""The conductor: register agents, and store and route tasks and results. Each public method but the context managers is a verb."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.states import RESULT, TASK, TASK_PRIORITIES
from postroom.core.verbs import (
    ANY_AGENT,
    DIRECTORY,
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
from postroom.store.agents import note_seen
from postroom.store.retries import retry_on_contention
from postroom.tasks import cursors, jobs, listing, lookups, repository, task_threads
from postroom.tasks.a2a.a2a_inbox import check_description, freeze_artifacts, freeze_context
from postroom.tasks.a2a.models import A2ATask, A2ATaskPage, Accepted, Card, CardPage
from postroom.tasks.a2a.rendering import DEFAULT_BUDGET_CHARS, Rendered, render_tasks
from postroom.tasks.checkpoints import LEASE_SECONDS
from postroom.tasks.job_verbs import MAX_INBOX_TASKS, JobVerbs
from postroom.tasks.remote_methods import remote_method, remote_methods
from postroom.tasks.repository import ACCEPTED, CANCELLED, COMPLETED, FAILED
from postroom.tasks.settling import (
    MAX_ROWS_PER_BATCH,
    is_any_abandoned,
    is_anything_due,
    read_settled,
    return_abandoned_tasks,
    settle_tasks,
    write_settled,
)
from postroom.tasks.snapshots import task_from_row
from postroom.work.messages import agent_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.core.records.tasks import TaskRow
    from postroom.store.interface import Transaction


@remote_methods
class Conductor(JobVerbs):
    """The verbs of tasks on one store. Most verbs first settle deadlines, leases and ended threads."""

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
            note_seen(tx, "name", name)
            tx.execute(tx.sql.agent_card, name=name, card_json=jsontext.dumps(card.model_dump(mode="json")))
            tx.execute(tx.sql.skills_clear, agent=name)
            for skill in dict.fromkeys(skill.casefold() for skill in card.skills):
                tx.execute(tx.sql.skill_insert, skill=skill, agent=name)
        return card

    @remote_method(caller=ANY_AGENT, access=DIRECTORY, mode=READ)
    def card(self, name: str) -> Card:
        """Return an agent's card. Refuses with `NotFound` if the agent is not registered."""
        with self._store.read() as tx:
            return Card.model_validate(jobs.find_card(tx, checks.name("name", name)))

    @remote_method(caller=ANY_AGENT, access=DIRECTORY, mode=READ)
    def find(self, skill: str, *, limit: int = 100, after: str | None = None) -> CardPage:
        """Return the cards of the agents that have a skill, ordered by name. `after` is the cursor of a page: its last name."""
        checks.limit("limit", limit)
        given = {"skill": lookups.check_skill(skill).casefold(), "after": "" if after is None else checks.name("after", after)}
        with self._store.read() as tx:
            skilled = tx.fetch_all(tx.sql.agents_of_skill, **given, limit=limit + 1)
        cards = tuple(Card.model_validate(jsontext.loads(agent.card_json)) for agent in skilled[:limit])
        more = len(skilled) > limit
        return CardPage(cards=cards, more=more, after=cards[-1].name if more else None)

    # Submitting and reading tasks

    @remote_method(caller="source_agent", access=TASK_SUBMIT, mode=WRITE)
    @retry_on_contention
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
        """Give a task to another agent. It waits until that agent takes or accepts it, or until a sheet of one of its jobs shows it.

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
            priority=checks.choice("priority", priority, TASK_PRIORITIES),
        )
        with write_settled(self._store) as tx:
            jobs.check_giver(tx, task.source_agent)
            jobs.find_card(tx, task.target_agent)
            parent_row = lookups.find_parent(tx, task, parent)
            now = tx.now()
            deadline = None if deadline_seconds is None else clock.format_stamp(now + int(deadline_seconds * clock.MICROSECONDS_PER_SECOND))
            depth = lookups.check_depth(0 if parent_row is None else parent_row.depth + 1)
            row = repository.row_from_task(task).replace(
                created_at=clock.format_stamp(now),
                deadline=deadline,
                due_at=deadline,
                depth=depth,
                parent=parent_row.task_id if parent_row else None,
                traceparent=parent_row.traceparent if parent_row else None,
            )
            return task_from_row(repository.store_new_task(tx, row))

    @remote_method(caller=ANY_AGENT, access=TASK_PARTY, mode=STEPS)
    def get(self, task_id: str) -> A2ATask:
        """Return one task or result. Refuses with `NotFound`."""
        with read_settled(self._store) as tx:
            return task_from_row(repository.find_task(tx, task_id))

    @remote_method(caller="agent", access=OWN_VIEW, mode=STEPS)
    def waiting(self, agent: str, *, limit: int = 1000, after: str | None = None) -> A2ATaskPage:
        """Return the pending tasks and results of an agent, most urgent first. `after` is the cursor of a page."""
        checks.limit("limit", limit)
        place = {"agent": agent, **cursors.parse_urgency(after), "limit": limit + 1}
        with read_settled(self._store) as tx:
            rows = [row for kind in (TASK, RESULT) for row in tx.fetch_all(tx.sql.tasks_waiting_after, kind=kind, **place)]
        return cursors.page_by_urgency(rows, limit)

    @remote_method(caller=ANY_AGENT, access=TASKS_SEEN, mode=STEPS)
    def tasks(
        self,
        agent: str | None = None,
        status: str | None = None,
        *,
        source: str | None = None,
        limit: int = 100,
        after: str | None = None,
        visible_to: str | None = None,
    ) -> A2ATaskPage:
        """Return tasks and results, newest first. `agent` selects those for an agent, `source` those that an agent gave.

        `after` is the cursor of a page. `visible_to` selects those that an agent gave or got. A server sets it for agents.
        """
        checks.limit("limit", limit)
        if status is not None:
            checks.choice("status", status, listing.STATUSES)
        before = cursors.parse_event(after)
        with read_settled(self._store) as tx:
            rows = listing.select_rows(tx, source, agent, status, limit + 1, before_event=before, visible_to=visible_to)
        more, shown = len(rows) > limit, rows[:limit]
        return A2ATaskPage(tasks=tuple(map(task_from_row, shown)), more=more, after=str(shown[-1].event_id) if more else None)

    # Accepting and ending tasks

    @remote_method(caller="agent", access=TASK_RECEIVER, mode=WRITE)
    @retry_on_contention
    def accept(self, task_id: str, *, agent: str, lease_seconds: float = LEASE_SECONDS, job_id: str | None = None) -> Accepted:
        """Accept a pending task. The caller holds it until the lease expires. With `job_id` it belongs to that job of the agent.

        A task that was taken as a thread may be accepted once the thread was released, or its lease ran out. The thread is then
        cancelled. Refuses with `LeaseHeld` if it is accepted already, and with `Conflict` if it has ended.
        """
        checks.seconds("lease_seconds", lease_seconds)
        with write_settled(self._store) as tx:
            row = lookups.find_open_task_of(tx, task_id, agent, "accept")
            if row.status == ACCEPTED:
                row = lookups.reclaim_task(tx, row)
            if row.is_open:
                return _accept_row(tx, row, lease_seconds, job_id)
        raise repository.task_ended_error(row)  # after the commit: the lapse that was the last attempt is kept

    @remote_method(caller="agent", access=OWN_NAME, mode=WRITE)
    @retry_on_contention
    def accept_next(self, agent: str, *, lease_seconds: float = LEASE_SECONDS, job_id: str | None = None) -> Accepted | None:
        """Accept the most urgent pending task of an agent. Returns None if there is none. `job_id` is as in `accept`."""
        checks.seconds("lease_seconds", lease_seconds)
        checks.name("agent", agent)
        with write_settled(self._store) as tx:
            return_abandoned_tasks(tx, agent)
            row = tx.fetch_one(tx.sql.tasks_waiting, agent=agent, kind=TASK, limit=1)
            if row is None:
                return None
            return _accept_row(tx, row, lease_seconds, job_id)

    @remote_method(caller="agent", access=TASK_RECEIVER, mode=WRITE)
    @retry_on_contention
    def renew(self, task_id: str, *, agent: str, lease_seconds: float = LEASE_SECONDS, lease_token: str | None = None) -> A2ATask:
        """Extend the lease of an accepted task from now.

        Refuses with `InvalidState` if it is not accepted, and with `LeaseLost` if `lease_token` is given and another lease replaced it.
        """
        checks.seconds("lease_seconds", lease_seconds)
        with write_settled(self._store) as tx:
            row = lookups.find_open_task_of(tx, task_id, agent, "renew")
            lookups.check_lease(row, lease_token)
            if row.status != ACCEPTED or row.thread_id is not None:
                hint = "Accept it again: inbox task accept" if row.thread_id is None else "Its thread has the lease: inbox renew"
                raise InvalidState(f"task {task_id} has no lease to renew", hint=hint, task_id=task_id)
            return task_from_row(repository.renew_lease(tx, row, lease_seconds))

    @remote_method(caller="agent", access=TASK_RECEIVER, mode=WRITE)
    def complete(self, task_id: str, *, agent: str, artifacts: dict[str, Any] | None = None, lease_token: str | None = None) -> A2ATask:
        """Complete a task, with its artifacts. The source agent receives the result.

        Refuses with `LeaseLost` if `lease_token` is given and another lease has replaced it.
        """
        artifacts_json = None if artifacts is None else jsontext.dumps(freeze_artifacts(artifacts))
        return self._finish_task(task_id, agent, COMPLETED, lease_token, artifacts_json=artifacts_json)

    @remote_method(caller="agent", access=TASK_RECEIVER, mode=WRITE)
    def fail(self, task_id: str, reason: str, *, agent: str, lease_token: str | None = None, reason_code: str = "failed") -> A2ATask:
        """Fail a task, with a reason. The source agent receives the result.

        Refuses with `LeaseLost` if `lease_token` is given and another lease has replaced it.
        """
        if not checks.reason("reason", reason).strip():
            raise InvalidInput("'reason' is missing", field="reason", hint="Say why it cannot be done.")
        return self._finish_task(task_id, agent, FAILED, lease_token, reason=reason, code=reason_code)

    @retry_on_contention
    def _finish_task(self, task_id: str, agent: str, status: str, lease_token: str | None, **outcome: Any) -> A2ATask:
        with write_settled(self._store) as tx:
            row = lookups.find_open_task_of(tx, task_id, agent, "answer")
            lookups.check_lease(row, lease_token)
            return task_from_row(repository.finish_task(tx, row, status, **outcome))

    @remote_method(caller="agent", access=TASK_GIVER, mode=WRITE)
    @retry_on_contention
    def cancel(self, task_id: str, *, agent: str, reason: str = "") -> A2ATask:
        """Cancel a task that `agent` gave. An agent that works on it is refused when it answers."""
        checks.reason("reason", reason)
        with write_settled(self._store) as tx:
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
        with write_settled(self._store) as tx:
            row = repository.find_task(tx, task_id)
            if row.kind != RESULT or row.target_agent != checks.name("agent", agent):
                raise InvalidInput(f"{task_id} is not a result for {agent}", field="task_id", hint="See `inbox task list`.")
            if row.status == COMPLETED:
                return task_from_row(row)
            return task_from_row(repository.complete_result(tx, row))

    @remote_method(caller="agent", access=OWN_NAME, mode=STEPS)
    def acknowledge_all(self, *, agent: str) -> int:
        """Mark all results of an agent as read, in batches. Return their number."""
        checks.name("agent", agent)
        settle_tasks(self._store)
        read = 0
        while count := self._acknowledge_batch(agent):
            read += count
        return read

    @retry_on_contention
    def _acknowledge_batch(self, agent: str) -> int:
        with self._store.write() as tx:
            results = tx.fetch_all(tx.sql.tasks_waiting, agent=agent, kind=RESULT, limit=MAX_ROWS_PER_BATCH)
            for row in results:
                repository.complete_result(tx, row)
        return len(results)

    @remote_method(caller="agent", access=OWN_VIEW, mode=STEPS)
    def render(self, agent: str, *, budget: int = DEFAULT_BUDGET_CHARS) -> Rendered:
        """Render the pending tasks of an agent as a sheet would. Accepts nothing."""
        lookups.check_budget(budget)
        waiting = self.waiting(agent, limit=MAX_INBOX_TASKS)
        with self._store.read() as tx:
            unverified = lookups.find_unverified(tx, waiting.tasks)
        return render_tasks(waiting.tasks, budget, more=waiting.more, unverified=unverified)

    # Waiting, and threads of work

    @remote_method(caller=ANY_AGENT, access=TASK_PARTY, mode=WAIT)
    def wait(self, task_id: str, *, timeout_seconds: float = 0) -> A2ATask | None:
        """Wait until a task has ended, and return it. Returns None after `timeout_seconds`. 0 waits for ever."""
        ended = self.wait_any((task_id,), timeout_seconds=timeout_seconds)
        return ended[0] if ended else None

    @remote_method(caller=ANY_AGENT, access=TASK_PARTY, mode=WAIT)
    def wait_any(self, task_ids: Iterable[str], *, timeout_seconds: float = 0) -> tuple[A2ATask, ...] | None:
        """Wait until at least one of the tasks has ended, and return those that have. Returns None after `timeout_seconds`."""
        from postroom.store.wait_loop import wait_until
        from postroom.tasks.waiting import DueTaskWake

        checks.seconds("timeout_seconds", timeout_seconds, allow_zero=True)
        wanted = tuple(dict.fromkeys(task_ids))
        if not wanted:
            raise InvalidInput("there is no task to wait for", field="task", hint="Name it with --task.")
        topics = [repository.task_topic(task_id) for task_id in wanted]
        topics += [f"thread:{task.thread_id}" for task in map(self.get, wanted) if task.thread_id]

        def read_ended() -> tuple[A2ATask, ...] | None:
            return tuple(task for task in map(self.get, wanted) if task.status.terminal) or None

        return wait_until(self._store, read_ended, timeout_seconds, topics=topics, periodic=DueTaskWake(self._store))

    @remote_method(caller="agent", access=OWN_NAME, mode=WAIT)
    def wait_accept(
        self, agent: str, *, lease_seconds: float = LEASE_SECONDS, timeout_seconds: float = 0, job_id: str | None = None
    ) -> Accepted | None:
        """Accept the most urgent pending task of an agent. If there is none, wait for one. Returns None after `timeout_seconds`."""
        from postroom.store.wait_loop import wait_until
        from postroom.tasks.waiting import DueTaskWake

        checks.seconds("timeout_seconds", timeout_seconds, allow_zero=True)
        topics = (agent_topic(checks.name("agent", agent)),)

        def accept_if_any() -> Accepted | None:
            with self._store.read() as tx:  # only a waiter that finds something writes
                is_there = tx.fetch_one(tx.sql.tasks_waiting, agent=agent, kind=TASK, limit=1) is not None
                is_due = is_there or is_anything_due(tx) or is_any_abandoned(tx, agent)
            return self.accept_next(agent, lease_seconds=lease_seconds, job_id=job_id) if is_due else None

        return wait_until(self._store, accept_if_any, timeout_seconds, topics=topics, periodic=DueTaskWake(self._store, with_threads=True))

    @remote_method(caller=PEOPLE, mode=STEPS)
    def settle(self) -> None:
        """Apply passed deadlines, expired leases and ended threads to their tasks."""
        settle_tasks(self._store)

    @remote_method(caller="agent", access=TASK_RECEIVER, mode=STEPS)
    @retry_on_contention
    def open_thread(self, task_id: str, *, agent: str) -> str:
        """Open a thread of work that answers a task, and return its id. When the thread ends, the task ends, and the other way round.

        Its first message comes from the source of the task, by the door by which the task came. A second call returns the same thread.
        """
        with write_settled(self._store) as tx:
            row = lookups.find_open_task_of(tx, task_id, agent, "answer")
            return row.thread_id or task_threads.open_task_thread(tx, row).thread_id


def _accept_row(tx: Transaction, row: TaskRow, lease_seconds: float, job_id: str | None) -> Accepted:
    """Accept a pending task, for a job of its agent if `job_id` is given."""
    if job_id is not None:
        tx.fetch_one(tx.sql.agent_job_hold, job_id=job_id)  # its end gives back what it has accepted, and must not miss this task
        if jobs.find_job(tx, job_id, running=True).agent != row.target_agent:
            raise InvalidInput(f"job {job_id} is not a job of {row.target_agent}", field="job_id", hint="Name a job of the agent itself.")
    token = tx.new_id("lse")
    return Accepted(task=task_from_row(repository.accept_task(tx, row, token, lease_seconds, job_id)), lease_token=token)
