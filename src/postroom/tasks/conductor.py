"""The conductor: who can do what, which jobs run, and where tasks and their results go. Each method is a verb, one transaction."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from postroom.core import checks, clock, jsontext
from postroom.core.errors import Conflict, InvalidInput, LeaseHeld, LeaseLost
from postroom.core.records import Agent
from postroom.core.words import shown
from postroom.store.attempts import retried
from postroom.tasks import jobs, ledger
from postroom.tasks.inbox import A2AInbox, contextual, described, produced
from postroom.tasks.ledger import ACCEPTED, CANCELLED, COMPLETED, FAILED, PENDING, JobRow, Row
from postroom.tasks.models import PRIORITIES, RESULT, TASK, A2ATask, Accepted, Card, Job, Sheet
from postroom.tasks.rendering import BUDGET, Rendered, rendered
from postroom.tasks.travelling import travelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from postroom.store.port import Store, Transaction

LEASE_SECONDS = 900.0
DEEPEST = 8
LONGEST_REASON = 10_000
_STATUSES = (PENDING, ACCEPTED, COMPLETED, FAILED)


class State:
    """A job between two checkpoints: its data, and its inbox. Change both; they are saved together."""

    def __init__(self, data: dict[str, Any], inbox: A2AInbox) -> None:
        self.data = data
        self.inbox = inbox


@travelling
class Conductor:
    def __init__(self, store: Store) -> None:
        self._store = store

    # who can do what

    @retried
    def register(self, name: str, *, description: str = "", skills: Iterable[str] = ()) -> Card:
        """Make an agent known by its card. Said again, the card is replaced."""
        checks.name("name", name)
        skills = (skills,) if isinstance(skills, str) else skills
        card = Card(name=name, description=checks.text("description", description), skills=tuple(dict.fromkeys(map(_skill, skills))))
        with self._store.write() as tx:
            tx.run(tx.sql.agent_seen, name=name, now=clock.stamp(tx.now()))
            tx.run(tx.sql.agent_card, name=name, card_json=jsontext.dumps(card.model_dump(mode="json")))
            tx.run(tx.sql.skills_clear, agent=name)
            for skill in dict.fromkeys(skill.casefold() for skill in card.skills):
                tx.run(tx.sql.skill_insert, skill=skill, agent=name)
        return card

    def card(self, name: str) -> Card:
        with self._store.read() as tx:
            return jobs.card(tx, checks.name("name", name))

    def find(self, skill: str, *, limit: int = 100) -> tuple[Card, ...]:
        """Who has a skill, by name."""
        checks.limit("limit", limit)
        with self._store.read() as tx:
            rows = tx.all(tx.sql.agents_of_skill, skill=_skill(skill).casefold(), limit=limit)
        return tuple(Card.model_validate(jsontext.loads(Agent(*row).card_json)) for row in rows)

    # jobs

    @retried
    def start_job(self, agent: str, *, job_id: str | None = None, state: dict[str, Any] | None = None) -> Job:
        """Begin a job of an agent. What waited for that agent is in its inbox from now on."""
        checks.name("agent", agent)
        data = jobs.state_json({} if state is None else state)
        ledger.settle(self._store)
        with self._store.write() as tx:
            jobs.card(tx, agent)
            row = jobs.begin(tx, agent, job_id, data)
            ledger.route_waiting(tx, agent, row.job_id)
        return jobs.shown_job(row)

    @retried
    def end_job(self, job_id: str) -> Job:
        """End a job. What is left in its inbox waits for the agent's next one."""
        ledger.settle(self._store)
        with self._store.write() as tx:
            row = jobs.find(tx, job_id, running=True)
            for task in jobs.open_tasks(tx, job_id):
                if task.status == ACCEPTED and task.thread_id is None:
                    ledger.give_back(tx, task, keep_job=False)
                else:
                    ledger.move(tx, task, None, target_job_id=None)
            row = jobs.save(tx, row, status=jobs.ENDED)
            other = ledger.running_job(tx, row.agent)
            if other is not None:
                ledger.route_waiting(tx, row.agent, other)
        return jobs.shown_job(row)

    def jobs(self, agent: str | None = None, *, limit: int = 100) -> tuple[Job, ...]:
        """Jobs, newest first."""
        checks.limit("limit", limit)
        with self._store.read() as tx:
            rows = tx.all(tx.sql.jobs_any, limit=limit) if agent is None else tx.all(tx.sql.jobs_of_agent, agent=agent, limit=limit)
        return tuple(jobs.shown_job(JobRow(*row)) for row in rows)

    # tasks on their way

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
        """Give a task to another agent, by name. It is in the inbox of that agent's newest job, or waits for one to start."""
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
            description=described(description),
            context=contextual(context),
            priority=checks.choice("priority", priority, PRIORITIES),
        )
        ledger.settle(self._store)
        return self._submit(task, deadline_seconds, parent)

    @retried
    def _submit(self, task: A2ATask, deadline_seconds: float | None, parent: str | None) -> A2ATask:
        with self._store.write() as tx:
            for name in (task.source_agent, task.target_agent):
                jobs.card(tx, name)
            above = _above(tx, task, parent)
            now = tx.now()
            deadline = None if deadline_seconds is None else clock.stamp(now + int(deadline_seconds * clock.SECOND))
            depth = 0 if above is None else above.depth + 1
            if depth > DEEPEST:
                raise InvalidInput(f"delegated too deep: {depth} agents in a row", field="parent", hint="Do it, or fail it with a reason.")
            changes = {"created_at": clock.stamp(now), "deadline": deadline, "depth": depth, "parent": above.task_id if above else None}
            return ledger.store_new(tx, ledger.draft(task.model_copy(update=changes))).task()

    def get(self, task_id: str) -> A2ATask:
        """One task, as it stands."""
        ledger.settle(self._store)
        with self._store.read() as tx:
            return ledger.find(tx, task_id).task()

    def pending(self, job_id: str) -> tuple[A2ATask, ...]:
        """What waits in a job's inbox, most urgent first."""
        ledger.settle(self._store)
        with self._store.read() as tx:
            jobs.find(tx, job_id)
            return tuple(row.task() for row in jobs.open_tasks(tx, job_id) if row.status == PENDING)

    def waiting(self, agent: str, *, limit: int = 1000) -> tuple[A2ATask, ...]:
        """What waits for an agent, in whatever job, or in none."""
        checks.limit("limit", limit)
        ledger.settle(self._store)
        with self._store.read() as tx:
            return tuple(Row(*row).task() for row in tx.all(tx.sql.tasks_waiting, agent=agent, limit=limit))

    def tasks(self, agent: str | None = None, status: str | None = None, *, limit: int = 100) -> tuple[A2ATask, ...]:
        """Tasks and results, newest first."""
        checks.limit("limit", limit)
        if status is not None:
            checks.choice("status", status, _STATUSES)
        ledger.settle(self._store)
        with self._store.read() as tx:
            named = {key: value for key, value in (("agent", agent), ("status", status)) if value is not None}
            statement = {
                (): tx.sql.tasks_any,
                ("agent",): tx.sql.tasks_of_agent,
                ("status",): tx.sql.tasks_of_status,
                ("agent", "status"): tx.sql.tasks_of_agent_status,
            }[tuple(named)]
            return tuple(Row(*row).task() for row in tx.all(statement, limit=limit, **named))

    # what becomes of them

    def accept(self, task_id: str, *, agent: str, lease_seconds: float = LEASE_SECONDS) -> Accepted:
        """Take a task that is pending. It is the caller's until the lease runs out."""
        checks.seconds("lease_seconds", lease_seconds)
        ledger.settle(self._store)
        return self._accept(task_id, agent, lease_seconds)

    @retried
    def accept_next(self, agent: str, *, lease_seconds: float = LEASE_SECONDS) -> Accepted | None:
        """Take the most urgent task that waits for an agent, if there is one."""
        checks.seconds("lease_seconds", lease_seconds)
        checks.name("agent", agent)
        ledger.settle(self._store)
        with self._store.write() as tx:
            waiting = (Row(*row) for row in tx.all(tx.sql.tasks_waiting, agent=agent, limit=jobs.ALL))
            row = next((row for row in waiting if row.kind == TASK), None)
            if row is None:
                return None
            token = tx.fresh("lse")
            return Accepted(task=ledger.accepted(tx, row, token, lease_seconds).task(), lease_token=token)

    @retried
    def _accept(self, task_id: str, agent: str, lease_seconds: float) -> Accepted:
        with self._store.write() as tx:
            row = _addressed(tx, task_id, agent, "accept")
            if row.status == ACCEPTED:
                until = f" until {row.lease_expires_at}" if row.lease_expires_at else ""
                raise LeaseHeld(f"task {task_id} is accepted already{until}", hint="Wait for it, or take another.", task_id=task_id)
            token = tx.fresh("lse")
            taken = ledger.accepted(tx, row, token, lease_seconds)
        return Accepted(task=taken.task(), lease_token=token)

    def complete(self, task_id: str, *, agent: str, artifacts: dict[str, Any] | None = None, lease_token: str | None = None) -> A2ATask:
        """Say that a task is done, and what came of it. The source is told."""
        made = None if artifacts is None else jsontext.dumps(produced(artifacts))
        ledger.settle(self._store)
        return self._finish(task_id, agent, COMPLETED, lease_token, artifacts_json=made)

    def fail(self, task_id: str, reason: str, *, agent: str, lease_token: str | None = None, reason_code: str = "failed") -> A2ATask:
        """Say that a task cannot be done, and why. The source is told."""
        if not checks.text("reason", reason).strip() or len(reason) > LONGEST_REASON:
            raise InvalidInput(f"reason must have from 1 to {LONGEST_REASON} characters", field="reason", hint="Say why it cannot be done.")
        ledger.settle(self._store)
        return self._finish(task_id, agent, FAILED, lease_token, reason=reason, code=reason_code)

    @retried
    def _finish(self, task_id: str, agent: str, status: str, lease_token: str | None, **what: Any) -> A2ATask:
        with self._store.write() as tx:
            row = _addressed(tx, task_id, agent, "answer")
            if lease_token is not None and row.lease_token != lease_token:
                raise LeaseLost(f"task {task_id} was accepted by another since", hint="Leave it to them.", task_id=task_id)
            return ledger.finish(tx, row, status, **what).task()

    def cancel(self, task_id: str, *, agent: str, reason: str = "") -> A2ATask:
        """Take a task back that one gave. Whoever works on it is refused when it answers."""
        checks.text("reason", reason)
        ledger.settle(self._store)
        return self._cancel(task_id, agent, reason)

    @retried
    def _cancel(self, task_id: str, agent: str, reason: str) -> A2ATask:
        with self._store.write() as tx:
            row = ledger.find(tx, task_id)
            if row.kind == RESULT or row.source_agent != checks.name("agent", agent):
                raise InvalidInput(f"task {task_id} was not given by {agent}", field="agent", hint="Who gave it can take it back.")
            ledger.still_open(row)
            return ledger.finish(tx, row, FAILED, reason=reason or f"cancelled by {agent}", code=CANCELLED).task()

    @retried
    def acknowledge(self, task_id: str, *, agent: str) -> A2ATask:
        """Note that a result was read. Nobody answers one."""
        ledger.settle(self._store)
        with self._store.write() as tx:
            row = ledger.find(tx, task_id)
            if row.kind != RESULT or row.target_agent != checks.name("agent", agent):
                raise InvalidInput(f"{task_id} is not a result for {agent}", field="task_id", hint="See `inbox task list`.")
            if row.status == COMPLETED:
                return row.task()
            return ledger.read(tx, row).task()

    # sheets and checkpoints

    def begin_sheet(self, job_id: str, *, lease_seconds: float = LEASE_SECONDS, budget: int = BUDGET) -> Sheet:
        """What waits, as Markdown for a prompt. What was shown, and nothing else, is accepted by it."""
        checks.seconds("lease_seconds", lease_seconds)
        _budget(budget)
        ledger.settle(self._store)
        return self._begin_sheet(job_id, lease_seconds, budget)

    @retried
    def _begin_sheet(self, job_id: str, lease_seconds: float, budget: int) -> Sheet:
        with self._store.write() as tx:
            job = jobs.find(tx, job_id, running=True)
            ledger.route_waiting(tx, job.agent, job_id)
            rows = {row.task_id: row for row in jobs.open_tasks(tx, job_id) if row.status == PENDING}
            shown_ = rendered([row.task() for row in rows.values()], budget)
            token = tx.fresh("sht")
            taken = [ledger.accepted(tx, rows[task_id], token, lease_seconds).task() for task_id in shown_.shown]
            jobs.save(tx, job, sheet=job.sheet + 1)
        return Sheet(token=token, text=shown_.text, tasks=tuple(taken))

    @retried
    def end_sheet(self, job_id: str, token: str) -> Job:
        """What the sheet accepted and did not end is pending again; the results that it showed were read."""
        ledger.settle(self._store)
        with self._store.write() as tx:
            job = jobs.find(tx, job_id)
            for row in jobs.open_tasks(tx, job_id):
                if row.lease_token == token and row.status == ACCEPTED and row.thread_id is None:
                    if row.kind == RESULT:
                        ledger.read(tx, row)
                    else:
                        ledger.give_back(tx, row)
        return jobs.shown_job(job)

    def render(self, agent: str, *, budget: int = BUDGET) -> Rendered:
        """What waits for an agent, as a prompt would show it. Accepts nothing."""
        _budget(budget)
        return rendered(self.waiting(agent), budget)

    @contextmanager
    def checkpoint(self, job_id: str) -> Iterator[State]:
        """A job's state and inbox, to be changed together: saved both, or, after an exception or a change by somebody else, neither."""
        ledger.settle(self._store)
        with self._store.read() as tx:
            job = jobs.find(tx, job_id, running=True)
            rows = {row.task_id: row for row in jobs.open_tasks(tx, job_id)}
        inbox = A2AInbox(job_id, job.agent)
        for row in sorted(rows.values(), key=lambda row: row.event_id):
            inbox.put(row.task())
        state = State(jsontext.loads(job.state_json), inbox)
        yield state
        self._save(job, rows, state)

    def _save(self, job: JobRow, rows: dict[str, Row], state: State) -> None:
        data = jobs.state_json(state.data)
        with self._store.write() as tx:
            jobs.save(tx, job, Conflict(f"job {job.job_id} was saved by somebody else", hint="Load it again."), state_json=data)
            for task_id, seen in rows.items():
                if ledger.find(tx, task_id) != seen:
                    raise Conflict(f"task {task_id} was changed by somebody else", hint="Load the job again.", task_id=task_id)
            for task in state.inbox.tasks.values():
                if task.task_id not in rows:
                    _take_in(tx, task, job)
                elif task.status.value != rows[task.task_id].status:
                    _follow(tx, rows[task.task_id], task)

    # waiting, and work threads

    def wait(self, task_id: str, *, timeout_seconds: float = 0) -> A2ATask | None:
        """A task once it has ended, sleeping until then. None when the time is over (0: never)."""
        from postroom.store.waking import until
        from postroom.tasks.waiting import Tide

        checks.seconds("timeout_seconds", timeout_seconds, zero=True)
        first = self.get(task_id)
        topics = [ledger.of_task(task_id)] + ([f"thread:{first.thread_id}"] if first.thread_id else [])

        def look() -> A2ATask | None:
            task = self.get(task_id)
            return task if task.status.terminal else None

        return until(self._store, look, timeout_seconds, topics=topics, chore=Tide(self._store, task_id))

    def settle(self) -> None:
        """Carry out what time and finished threads have decided. Every verb does it first."""
        ledger.settle(self._store)

    def open_thread(self, task_id: str, *, agent: str) -> str:
        """Answer a task through a work thread: when that ends, so does the task. Said again, the same thread."""
        from postroom.work import cancel, send

        ledger.settle(self._store)
        with self._store.read() as tx:
            row = _addressed(tx, task_id, agent, "answer")
        if row.thread_id is not None:
            return row.thread_id
        # First the thread, then the link: whoever dies in between leaves a task that can be taken again.
        subject = row.description.strip().split("\n", 1)[0][:200]
        opened = send(self._store, sender=row.source_agent, to=row.target_agent, subject=subject, body=row.description)
        thread = opened.thread.thread_id
        linked = self._link(task_id, agent, thread)
        if linked != thread:
            cancel(self._store, thread, agent=row.source_agent, reason=f"{linked} was opened at the same time")
        return linked

    @retried
    def _link(self, task_id: str, agent: str, thread: str) -> str:
        with self._store.write() as tx:
            row = _addressed(tx, task_id, agent, "answer")
            if row.thread_id is not None:
                return row.thread_id
            now = clock.stamp(tx.now())
            event = None if row.status == ACCEPTED else "A2ATaskAccepted"
            # From now on the thread's lease says who works on it.
            ledger.move(tx, row, event, status=ACCEPTED, accepted_at=now, lease_expires_at=None, thread_id=thread)
        return thread


def _budget(budget: int) -> None:
    if not isinstance(budget, int) or budget < 1:
        raise InvalidInput(f"budget must be a number of characters, not {shown(budget)}", field="budget", hint="The default is 10000.")


def _skill(skill: str) -> str:
    return checks.name("skill", skill, hint="Name it with --skill.")


def _above(tx: Transaction, task: A2ATask, parent: str | None) -> Row | None:
    """The task in whose course this one was given."""
    if parent is not None:
        return ledger.find(tx, parent)
    if not task.source_job_id:
        return None
    taken = [row for row in jobs.open_tasks(tx, task.source_job_id) if row.status == ACCEPTED and row.kind == TASK]
    return max(taken, key=lambda row: (row.accepted_at or "", row.event_id), default=None)


def _addressed(tx: Transaction, task_id: str, agent: str, verb: str) -> Row:
    """A task that is that agent's to accept or to answer, and has not ended."""
    row = ledger.find(tx, task_id)
    if row.target_agent != checks.name("agent", agent):
        raise InvalidInput(f"task {task_id} is for {row.target_agent}, not for {agent}", field="agent", hint="See `inbox task list`.")
    if row.kind == RESULT:
        raise InvalidInput(f"nobody can {verb} {task_id}: it is a result", field="task_id", hint="Acknowledge it: inbox task ack")
    ledger.still_open(row)
    return row


def _take_in(tx: Transaction, task: A2ATask, job: JobRow) -> None:
    """A task that was put into the inbox between two checkpoints."""
    jobs.card(tx, task.source_agent)
    stored = ledger.store_new(tx, ledger.draft(task.model_copy(update={"target_job_id": job.job_id, "target_agent": job.agent})))
    if task.status.value != PENDING:
        _follow(tx, stored, task)


def _follow(tx: Transaction, row: Row, task: A2ATask) -> None:
    """What became of a task between two checkpoints."""
    lost = Conflict(f"task {row.task_id} was changed by somebody else", hint="Load the job again.", task_id=row.task_id)
    if task.status.value == ACCEPTED:
        now = tx.now()
        expires = clock.stamp(now + int(LEASE_SECONDS * clock.SECOND))
        changes = {"accepted_at": clock.stamp(now), "lease_token": tx.fresh("lse"), "lease_expires_at": expires}
        ledger.move(tx, row, "A2ATaskAccepted", lost, status=ACCEPTED, **changes)
    elif task.status.value == COMPLETED:
        made = None if task.artifacts is None else jsontext.dumps(task.artifacts)
        ledger.finish(tx, row, COMPLETED, artifacts_json=made, otherwise=lost)
    else:
        ledger.finish(tx, row, FAILED, reason=task.reason, code=task.reason_code or "failed", otherwise=lost)
