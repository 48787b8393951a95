"""The verbs of jobs: start and end them, show their tasks to an agent as sheets, and save their state. Part of `Conductor`.

A job is one run of an agent. It has a lease, which `begin_sheet`, `checkpoint` and `renew_job` renew. When the lease runs out, its
tasks and results go back to the agent, and the agent's next job gets them.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import Conflict, StoreBusy, StoreUnreachable
from postroom.core.states import RESULT
from postroom.core.verbs import ANY_AGENT, JOB_OWNER, JOB_SEEN, OWN_NAME, OWN_VIEW, READ, STEPS, WRITE
from postroom.store.retries import retry_on_contention
from postroom.tasks import checkpoints, cursors, jobs, lookups, repository
from postroom.tasks.a2a.a2a_inbox import A2AInbox
from postroom.tasks.a2a.models import A2ATask, A2ATaskPage, AnsweredSheet, Checkpoint, Job, JobPage, Sheet
from postroom.tasks.a2a.rendering import DEFAULT_BUDGET_CHARS, MIN_TASK_CHARS, render_sheet
from postroom.tasks.checkpoints import LEASE_SECONDS
from postroom.tasks.remote_methods import remote_method, remote_methods
from postroom.tasks.repository import ACCEPTED
from postroom.tasks.settling import read_settled, release_job, return_abandoned_tasks, write_settled
from postroom.tasks.snapshots import job_from_row, task_from_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from postroom.core.records.tasks import JobRow, TaskRow
    from postroom.store.interface import Store, Transaction

MAX_INBOX_TASKS = 1000  # that `pending`, a sheet or a checkpoint reads
SHEET_PREFIX = "sht"


class TaskState:
    """A job's data and inbox inside `checkpoint`. Both may be changed, and are saved together.

    `left_out` is whether more tasks wait than the inbox has: it holds the `MAX_INBOX_TASKS` most urgent ones.
    """

    def __init__(self, data: dict[str, Any], inbox: A2AInbox, left_out: bool) -> None:
        self.data = data
        self.inbox = inbox
        self.left_out = left_out


@remote_methods
class JobVerbs:
    """The verbs of jobs on one store. `lease_token`, where it is given, must be that of the process which has the job."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @remote_method(caller="agent", access=OWN_NAME, mode=WRITE)
    @retry_on_contention
    def start_job(
        self, agent: str, *, job_id: str | None = None, state: dict[str, Any] | None = None, lease_seconds: float = LEASE_SECONDS
    ) -> Job:
        """Start a job of an agent, or continue the job `job_id` after its process died.

        A job that is continued keeps its saved state, gives back the tasks that it had accepted, and gets a new `lease_token`: the
        process that had it before is refused. Refuses with `Conflict` if the job has ended or is another agent's.
        """
        checks.name("agent", agent)
        checks.seconds("lease_seconds", lease_seconds)
        data = jobs.serialize_state({} if state is None else state)
        with write_settled(self._store) as tx:
            jobs.find_card(tx, agent)
            known = None if job_id is None else tx.fetch_one(tx.sql.job_find, job_id=checks.name("job_id", job_id))
            if known is None:
                return job_from_row(jobs.start_job(tx, agent, job_id, data, lease_seconds), with_token=True)
            return job_from_row(jobs.resume_job(tx, known, agent, lease_seconds), with_token=True, resumed=True)

    @remote_method(caller=ANY_AGENT, access=JOB_OWNER, mode=WRITE)
    @retry_on_contention
    def renew_job(self, job_id: str, *, lease_token: str | None = None, lease_seconds: float | None = None) -> Job:
        """Extend the lease of a job from now, and those of the tasks that it has accepted."""
        if lease_seconds is not None:
            checks.seconds("lease_seconds", lease_seconds)
        with self._store.write() as tx:
            job = jobs.find_job(tx, job_id, running=True, lease_token=lease_token)
            job = jobs.save_job(tx, job, **jobs.renewed_lease(tx, job, lease_seconds))
            for row in jobs.open_tasks(tx, job_id, ACCEPTED):
                if row.thread_id is None:
                    repository.renew_lease(tx, row, job.lease_seconds)
        return job_from_row(job)

    @contextmanager
    def keep_alive(self, job: Job) -> Iterator[None]:
        """Renew the lease of a job in a thread while the block runs. Raises `LeaseLost` at its end if another process took the job."""
        stopped, failures = Event(), list[Exception]()

        def renew_until_stopped() -> None:
            while not stopped.wait(job.lease_seconds / 3):
                try:
                    self.renew_job(job.job_id, lease_token=job.lease_token)
                except (StoreBusy, StoreUnreachable):  # a lapsed job still belongs to its process: try again
                    continue
                except Exception as failure:  # raised in the caller's thread
                    failures.append(failure)
                    return

        thread = Thread(target=renew_until_stopped, name=f"job {job.job_id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()
        if failures:
            raise failures[0]

    @remote_method(caller=ANY_AGENT, access=JOB_OWNER, mode=STEPS)
    def end_job(self, job_id: str, *, lease_token: str | None = None) -> Job:
        """End a job. Its open tasks and results go back to its agent. No attempt is counted."""
        job = self._end_job(job_id, lease_token)
        if job.status == jobs.ENDED:
            return job_from_row(job)
        with read_settled(self._store) as tx:  # which settles the rest, in batches
            return job_from_row(jobs.find_job(tx, job_id))

    @retry_on_contention
    def _end_job(self, job_id: str, lease_token: str | None) -> JobRow:
        with write_settled(self._store) as tx:
            job = jobs.find_job(tx, job_id, running=True, lease_token=lease_token)
            return release_job(tx, jobs.save_job(tx, job, status=jobs.ENDING, lease_expires_at=clock.format_stamp(tx.now())))

    @remote_method(caller="agent", access=OWN_VIEW, mode=READ)
    def jobs(self, agent: str | None = None, *, limit: int = 100, after: str | None = None) -> JobPage:
        """Return jobs, newest first. `after` is the cursor of a page."""
        checks.limit("limit", limit)
        place = {"before": cursors.parse_event(after, default=checks.AFTER_ALL_IDS), "limit": limit + 1}
        with self._store.read() as tx:
            rows = tx.fetch_all(tx.sql.jobs_any, **place) if agent is None else tx.fetch_all(tx.sql.jobs_of_agent, agent=agent, **place)
        more, shown = len(rows) > limit, rows[:limit]
        return JobPage(jobs=tuple(map(job_from_row, shown)), more=more, after=str(shown[-1].event_id) if more else None)

    @remote_method(caller=ANY_AGENT, access=JOB_SEEN, mode=STEPS)
    def pending(self, job_id: str, *, limit: int = MAX_INBOX_TASKS, after: str | None = None) -> A2ATaskPage:
        """Return the pending tasks and results in a job's inbox, most urgent first. `after` is the cursor of a page."""
        checks.limit("limit", limit)
        place = cursors.parse_urgency(after)
        with read_settled(self._store) as tx:
            rows = jobs.pending_tasks(tx, jobs.find_job(tx, job_id), limit + 1, place)
        return cursors.page_by_urgency(rows, limit)

    # Sheets

    @remote_method(caller=ANY_AGENT, access=JOB_OWNER, mode=WRITE)
    @retry_on_contention
    def begin_sheet(
        self,
        job_id: str,
        *,
        lease_seconds: float = LEASE_SECONDS,
        budget: int = DEFAULT_BUDGET_CHARS,
        lease_token: str | None = None,
    ) -> Sheet:
        """Render the pending tasks of a job as Markdown for a prompt, and accept exactly those that it shows. Renews the job's lease."""
        checks.seconds("lease_seconds", lease_seconds)
        lookups.check_budget(budget)
        with write_settled(self._store) as tx:
            job = jobs.find_job(tx, job_id, running=True, lease_token=lease_token)
            return_abandoned_tasks(tx, job.agent)
            limit = min(budget // MIN_TASK_CHARS + 2, MAX_INBOX_TASKS)  # one more than fit, to know whether any is left out
            rows = {row.task_id: row for row in jobs.pending_tasks(tx, job, limit)}
            unverified = lookups.find_unverified(tx, rows.values())
            rendered = render_sheet(map(task_from_row, rows.values()), budget, more=len(rows) == limit, unverified=unverified)
            token = tx.new_id(SHEET_PREFIX)
            accepted = [repository.accept_task(tx, rows[task_id], token, lease_seconds, job_id) for task_id in rendered.shown]
            jobs.save_job(tx, job, sheet=job.sheet + 1, **jobs.renewed_lease(tx, job))
        return Sheet(token=token, text=rendered.text, tasks=tuple(map(task_from_row, accepted)))

    @remote_method(caller=ANY_AGENT, access=JOB_OWNER, mode=WRITE)
    @retry_on_contention
    def end_sheet(self, job_id: str, token: str | None = None) -> Job:
        """End a sheet, or all open sheets of a job. Tasks that have not ended are pending again. Results that it showed are read.

        No attempt is counted: a task may wait for as many sheets as it takes.
        """
        with write_settled(self._store) as tx:
            job = jobs.find_job(tx, job_id)
            _close_sheet(tx, job, token)
        return job_from_row(job)

    @remote_method(caller=ANY_AGENT, access=JOB_OWNER, mode=WRITE)
    @retry_on_contention
    def answer_sheet(self, job_id: str, answers: str, token: str | None = None, *, lease_token: str | None = None) -> AnsweredSheet:
        """End a sheet with the answers in an agent's output, in one transaction: `@complete ID: …`, `@fail ID: …`, `@delegate NAME: …`.

        Lines that look like an answer and cannot be applied do nothing, and are returned with the reason.
        """
        from postroom.tasks.a2a.delegation import COMPLETE, DELEGATE, FAIL
        from postroom.tasks.answering import AnswerOutcome

        checks.text("answers", answers)
        with write_settled(self._store) as tx:
            job = jobs.find_job(tx, job_id, running=True, lease_token=lease_token)
            outcome = AnswerOutcome(tx, job, token)
            outcome.apply(answers)
            _close_sheet(tx, job, token)
            job = jobs.save_job(tx, job, **jobs.renewed_lease(tx, job))
        ended = {"completed": outcome.tasks[COMPLETE], "failed": outcome.tasks[FAIL], "delegated": outcome.tasks[DELEGATE]}
        lists = {name: tuple(tasks) for name, tasks in ended.items()}
        return AnsweredSheet(job=job_from_row(job), not_applied=tuple(outcome.not_applied), **lists)

    # Checkpoints

    @contextmanager
    def checkpoint(self, job_id: str, *, lease_token: str | None = None) -> Iterator[TaskState]:
        """Yield a job's state and inbox, and save both after the block. Renews the job's lease.

        An exception in the block saves nothing. Refuses with `Conflict` if the job, or a task of the job, was changed by another process.
        """
        loaded = self.load_checkpoint(job_id, lease_token=lease_token)
        inbox = A2AInbox(job_id, loaded.job.agent)
        for task in loaded.tasks:
            inbox.put_task(task)
        state = TaskState(jsontext.loads(loaded.state_json), inbox, loaded.left_out)
        yield state
        before = {task.task_id: task for task in loaded.tasks}
        changed = tuple(task for task in inbox.tasks.values() if before.get(task.task_id) != task)
        changed_ids = {task.task_id for task in changed}
        guarded = tuple(task for task in loaded.tasks if task.target_job_id == job_id or task.task_id in changed_ids)
        self.save_checkpoint(job_id, loaded.version, state.data, seen=guarded, changed=changed, lease_token=lease_token)

    @remote_method(caller=ANY_AGENT, access=JOB_SEEN, mode=STEPS)
    def show_job(self, job_id: str) -> Checkpoint:
        """Return a job, whether it runs or not, with its open tasks and results."""
        return self._read_checkpoint(job_id, running=False, lease_token=None)

    @remote_method(caller=ANY_AGENT, access=JOB_OWNER, mode=STEPS)
    def load_checkpoint(self, job_id: str, *, lease_token: str | None = None) -> Checkpoint:
        """Return a job's state, and its open tasks and results in the order of their arrival. `checkpoint` uses it."""
        return self._read_checkpoint(job_id, running=True, lease_token=lease_token)

    def _read_checkpoint(self, job_id: str, *, running: bool, lease_token: str | None) -> Checkpoint:
        with read_settled(self._store) as tx:
            job = jobs.find_job(tx, job_id, running=running, lease_token=lease_token)
            pending = jobs.pending_tasks(tx, job, MAX_INBOX_TASKS + 1)
            rows = jobs.open_tasks(tx, job_id, ACCEPTED) + pending[:MAX_INBOX_TASKS]
        tasks = tuple(task_from_row(row) for row in sorted(rows, key=lambda row: row.event_id))
        left_out = len(pending) > MAX_INBOX_TASKS
        return Checkpoint(job=job_from_row(job), version=job.version, state_json=job.state_json, tasks=tasks, left_out=left_out)

    @remote_method(caller=ANY_AGENT, access=JOB_OWNER, mode=WRITE)
    def save_checkpoint(
        self,
        job_id: str,
        version: int,
        state: dict[str, Any],
        *,
        seen: Iterable[A2ATask] = (),
        changed: Iterable[A2ATask] = (),
        lease_token: str | None = None,
    ) -> Job:
        """Save a job's state, and the tasks that changed, or neither. `checkpoint` uses it.

        `version` and `seen` come from `load_checkpoint`. `seen` has the tasks of the job and those that changed. Refuses with
        `Conflict` if the job or one of these tasks is not as it was then. Other pending tasks belong to the agent, whose other
        jobs may take them meanwhile.
        """
        data = jobs.serialize_state(state)
        seen_by_id, changed_by_id = {task.task_id: task for task in seen}, {task.task_id: task for task in changed}
        for task in changed_by_id.values():
            checkpoints.check_end(task)
        with self._store.write() as tx:
            job = jobs.find_job(tx, job_id, running=True, lease_token=lease_token)
            conflict = Conflict(f"job {job_id} was saved by somebody else", hint="Load it again.")
            if job.version != version:
                raise conflict
            saved = jobs.save_job(tx, job, conflict, state_json=data, **jobs.renewed_lease(tx, job))
            guarded = [task for task in seen_by_id.values() if task.target_job_id == job_id or task.task_id in changed_by_id]
            rows = {task.task_id: _check_unchanged(tx, job, task) for task in guarded}
            for task_id, task in changed_by_id.items():
                if task_id not in rows:
                    checkpoints.store_added_task(tx, task, job)
                elif task.status.value != rows[task_id].status:
                    checkpoints.store_changed_task(tx, rows[task_id], task, job)
        return job_from_row(saved)


def _close_sheet(tx: Transaction, job: JobRow, token: str | None) -> None:
    """Make the unfinished tasks of a sheet, or of all sheets of a job, pending again. Mark the results that it showed as read."""
    for row in jobs.open_tasks(tx, job.job_id, ACCEPTED):
        if row.thread_id is None and (row.lease_token == token or (token is None and is_sheet_token(row.lease_token))):
            if row.kind == RESULT:
                repository.complete_result(tx, row)
            else:
                repository.return_task(tx, row, counted=False)


def is_sheet_token(token: str | None) -> bool:
    """Return whether a lease was made by a sheet, and not by an acceptance of its own."""
    return token is not None and token.startswith(f"{SHEET_PREFIX}_")


def _check_unchanged(tx: Transaction, job: JobRow, seen: A2ATask) -> TaskRow:
    """Return the row of a task in a job's inbox. Refuses with `Conflict` if it is not there, or not as it was seen."""
    row = repository.find_task(tx, seen.task_id)
    if row.target_agent != job.agent or row.target_job_id not in (None, job.job_id) or task_from_row(row) != seen:
        raise checkpoints.changed_error(seen.task_id)
    return row
