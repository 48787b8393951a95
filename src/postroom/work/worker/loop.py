"""Takes threads and runs a command, or a turn of a program, for each.

Each thread gets a process of its own. The worker renews the lease while the process runs, and ends the thread by the exit
status. A command that fails can be run again after a pause. If a command asked a question and exited, it is run again when
the answer arrives, by this worker or, if it has ended, by the next one of the agent. If a command cannot be run at all, the
worker gives its threads back and ends. If the worker is killed, its commands are killed with it, and other workers take its
threads when the leases run out.
"""

from __future__ import annotations

import os
from signal import SIGKILL, SIGTERM
from time import monotonic

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, tracing
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NotFound, StoreBusy, StoreUnreachable, TooMany
from postroom.core.records import Record
from postroom.core.records.work import Claim
from postroom.core.states import BLOCKED, TERMINAL_STATUSES
from postroom.processes.child_process import CANNOT_RUN_STATUSES, GRACE_SECONDS, ChildProcess, last_line
from postroom.processes.wake_pipe import WakePipe
from postroom.store.wait_loop import RETRY_WHEN_UNREACHABLE_SECONDS
from postroom.work import candidates, leases, messages, progress, threads
from postroom.work.worker.held_claims import HeldClaim, ParkedThread, PausedThread, ThreadCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from postroom.core.records.work import Conversation, Thread
    from postroom.store.interface import Store
    from postroom.work.worker.held_claims import Run

    ReportStep = Callable[[str, Thread, str], None]

    class WorkSource(Protocol):
        """Where a worker gets its threads: the module `work.candidates`, or one with the same verbs for more kinds of work."""

        def next_available(self, store: Store, *, agent: str) -> tuple[bool, float | None]: ...

        def take(self, store: Store, *, agent: str, lease_seconds: float = ...) -> Claim | None: ...


MAX_RETRIES = 100
ANSWER_VARIABLE = "INBOX_ANSWER"
MAX_ERROR_CHARS = 4096
MAX_ANSWER_CHARS = 4096  # in the environment of a command; the thread on its standard input has all of it


class WorkTotals(Record):
    """The number of threads that a worker ended, gave back or left waiting for an answer, and of commands that it ran again."""

    done: int
    failed: int
    released: int
    parked: int
    retried: int = 0


class Worker:
    """Takes threads and runs the command for each, at most `jobs` at the same time.

    `retries` is how often a failed command is run again, after `backoff_seconds`, then twice that, and so on.
    `timeout_seconds` is how long a command may run (0: without a limit). `report_step` is called with each step: its name,
    the thread, and a detail. `source` has the verbs `next_available` and `take`: by default those of threads.
    """

    def __init__(
        self,
        store: Store,
        *,
        agent: str,
        command: str,
        jobs: int = 1,
        lease_seconds: float = leases.DEFAULT_LEASE_SECONDS,
        retries: int = 0,
        backoff_seconds: float = 5.0,
        timeout_seconds: float = 0,
        report_step: ReportStep | None = None,
        source: WorkSource = candidates,
    ) -> None:
        self._store = store
        self._source = source
        self._agent = checks.name("agent", agent)
        self._command = checks.text("command", command)
        if not command.strip():
            raise InvalidInput("command is empty", field="command", hint="For example: --command './build.sh'")
        if not 1 <= jobs <= 256:
            raise InvalidInput(f"jobs must be from 1 to 256, not {jobs}", field="jobs")
        self._jobs = jobs
        self._lease_seconds = checks.seconds("lease-seconds", lease_seconds)
        if not 0 <= retries <= MAX_RETRIES:
            raise InvalidInput(f"retries must be from 0 to {MAX_RETRIES}, not {retries}", field="retries")
        self._retries = retries
        self._backoff_seconds = checks.seconds("backoff-seconds", backoff_seconds, allow_zero=True)
        self._timeout_seconds = checks.seconds("timeout-seconds", timeout_seconds, allow_zero=True)
        self._report_step = report_step or (lambda step, thread, detail: None)
        self._running: list[ThreadCommand] = []
        self._parked: list[ParkedThread] = []
        self._pausing: list[PausedThread] = []
        self._counts = {"done": 0, "failed": 0, "released": 0, "retried": 0}
        self._release_reason = "the worker was stopped"
        self._wake = WakePipe()
        self._stopping = False
        self._cannot_run: str | None = None  # why, once a command could not be run

    def stop(self) -> None:
        """Make `run` terminate its commands, give their threads back and return. Safe to call from a signal handler."""
        self._stopping = True
        self._wake.notify()

    def run(self, *, until_empty: bool = False) -> WorkTotals:
        """Work until `stop` is called. With `until_empty`, return when there is nothing to take and no command runs.

        If the store is unreachable or busy, try again after a pause. With `until_empty`, raise the error instead. Refuses
        with `InvalidInput` if the command cannot be run at all, after its threads were given back.
        """
        with self._store.watch(*self.topics) as watch:
            while not self._stopping:
                try:
                    due = self._run_once()
                except (StoreUnreachable, StoreBusy, TooMany):  # finished commands stay in the list and are reported later
                    if until_empty:
                        raise
                    due = RETRY_WHEN_UNREACHABLE_SECONDS
                if until_empty and self.is_idle:
                    break
                watch.wait(due, self._wake.read_fd)
                self._wake.drain()
        self._release_all()
        if self._cannot_run is not None:
            hint = "Its threads were given back. Check the command, its interpreter and PATH."
            raise InvalidInput(f"the command cannot be run: {self._cannot_run}", field="command", hint=hint)
        counts = self._counts
        return WorkTotals(counts["done"], counts["failed"], counts["released"], len(self._parked), counts["retried"])

    @property
    def is_idle(self) -> bool:
        """Whether no command runs, or is to run again after a pause."""
        return not self._running and not self._pausing

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose events wake the worker."""
        return (messages.agent_topic(self._agent),)

    def _run_once(self) -> float | None:
        """Do all work that is due. Return the seconds until the next work is due without a notification, or None."""
        self._reap_finished()
        self._renew_leases()
        self._resume_answered()
        self._resume_paused()
        lapse = None if self._stopping else self._take_threads()
        return 0 if any(run.child.has_ended for run in self._running) else self._seconds_until_due(lapse)

    def _take_threads(self) -> float | None:
        """Take threads until `jobs` commands run. If there are too few, return the seconds until the next lease runs out."""
        while len(self._running) < self._jobs:
            is_available, seconds_until_lapse = self._source.next_available(self._store, agent=self._agent)
            if not is_available:
                return seconds_until_lapse
            claim = self._source.take(self._store, agent=self._agent, lease_seconds=self._lease_seconds)
            if claim is not None:
                self._start_command(claim)
        return None

    def _start_command(self, claim: Claim, attempt: int = 1) -> None:
        conversation = threads.show(self._store, claim.thread.thread_id)
        task = conversation.to_json()
        task["lease"] = claim.lease.to_json()
        if task["first_message"] is not None:  # the page is cut, and the first message is the task itself
            task["messages"].insert(0, task["first_message"])
            task["first_message"] = None
        self._report_step("took", claim.thread, claim.thread.subject)
        environment = {
            **os.environ,
            "INBOX_DB": self._store.location,
            "INBOX_AGENT": self._agent,
            "INBOX_THREAD": claim.thread.thread_id,
            "INBOX_LEASE_TOKEN": claim.lease.lease_token,
        }
        if answer := _find_answer(conversation):
            environment[ANSWER_VARIABLE] = answer
        else:
            environment.pop(ANSWER_VARIABLE, None)  # of a worker that runs this one
        if trace := next((message.traceparent for message in reversed(conversation.messages) if message.traceparent), None):
            environment[tracing.VARIABLE] = trace  # the command, and what it sends, belong to the trace of the work
        child = self.start_run(claim, conversation, environment, jsontext.dumps(task))
        ends_at = monotonic() + self._timeout_seconds if self._timeout_seconds else None
        started_after = max(conversation.next_event_id, *(message.event_id for message in conversation.messages[-1:]))
        self._running.append(ThreadCommand(claim, child, started_after, attempt, ends_at))

    def start_run(self, claim: Claim, conversation: Conversation, environment: dict[str, str], task: str) -> Run:
        """Start the command for a thread. `task` is the thread as JSON. A resident agent starts a turn of its program instead."""
        return ChildProcess(self._command, environment, task, self._wake)

    def adopt_thread(self, conversation: Conversation) -> None:
        """Go on with a thread that this agent holds since before: wait for the answer to its question, or run its command again."""
        assert conversation.lease is not None
        claim = Claim(conversation.thread, conversation.lease)
        question = self._latest_question(conversation, 0) if conversation.thread.status == BLOCKED else None
        if question is None:
            self._pausing.append(PausedThread(claim, 1, monotonic()))
        else:
            self._parked.append(ParkedThread(claim, question))
        self._report_step("adopted", conversation.thread, "from a worker that is gone")

    def _reap_finished(self) -> None:
        for run in [run for run in self._running if run.child.has_ended]:
            try:
                self._finish_thread(run)
            except (Conflict, InvalidState):
                self._report_step("lost", run.claim.thread, "it was ended or taken over meanwhile")
            self._running.remove(run)
            run.child.close()

    def _finish_thread(self, run: ThreadCommand) -> None:
        """End the thread of an exited command by its exit status.

        Leaves the thread as it is if the command ended it. Parks it if the command asked a question and exited with 0.
        """
        conversation = threads.show(self._store, run.claim.thread.thread_id)
        thread = conversation.thread
        if thread.status in TERMINAL_STATUSES:
            self._report_step("ended", thread, "by its command")
        elif run.child.status in CANNOT_RUN_STATUSES:
            self._give_up(run)
        elif run.child.status != 0 or run.timed_out:
            self._fail_or_pause(run, thread)
        elif thread.status == BLOCKED and (question := self._latest_question(conversation, run.started_after_event)):
            self._parked.append(ParkedThread(run.claim, question))
            self._report_step("parked", thread, "until its question is answered")
        else:
            self._complete_thread(run, thread)

    def _complete_thread(self, run: ThreadCommand, thread: Thread) -> None:
        output = run.child.read_output() or "done"
        summary = last_line(output)
        body = output if output != summary else ""
        errors = run.child.read_errors()[-MAX_ERROR_CHARS:]  # of a command that succeeds: warnings, beside the result and not in it
        content: dict[str, Any] = {"summary": summary, "body": body, "payload": {"stderr": errors} if errors else None}
        progress.done(self._store, thread.thread_id, agent=self._agent, lease_token=run.claim.lease.lease_token, **content)
        self._counts["done"] += 1
        self._report_step("done", thread, summary)

    def _give_up(self, run: ThreadCommand) -> None:
        """Give the thread of a command that cannot be run back, and stop: the next thread would fare no better."""
        self._cannot_run = self._describe_failure(run)
        self._release_reason = f"the command cannot be run: {self._cannot_run}"
        self._release_thread(run.claim)
        self._stopping = True

    def _describe_failure(self, run: ThreadCommand) -> str:
        output = run.child.read_errors() or run.child.read_output()
        ending = f"stopped after {self._timeout_seconds:g} s" if run.timed_out else run.child.exit_description
        return f"{ending}: {last_line(output)}" if output else ending

    def _fail_or_pause(self, run: ThreadCommand, thread: Thread) -> None:
        """Fail the thread of a failed command, or run the command again after a pause."""
        summary, token = self._describe_failure(run), run.claim.lease.lease_token
        if run.attempt <= self._retries:
            pause_seconds = self._backoff_seconds * 2 ** (run.attempt - 1)
            text = f"Attempt {run.attempt} failed ({summary}); trying again in {pause_seconds:g} s"
            progress.update(self._store, thread.thread_id, agent=self._agent, summary=text, lease_token=token)
            self._pausing.append(PausedThread(run.claim, run.attempt + 1, monotonic() + pause_seconds))
            self._report_step("retrying", thread, text)
            return
        output = "\n".join(filter(None, (run.child.read_output(), run.child.read_errors())))
        progress.fail(self._store, thread.thread_id, agent=self._agent, summary=summary, body=output, lease_token=token)
        self._counts["failed"] += 1
        self._report_step("failed", thread, summary)

    def _latest_question(self, page: Conversation, since: int) -> int | None:
        """Return the event id of the worker's latest question after the event `since`. Reads earlier pages if necessary."""
        while True:
            for message in reversed(page.messages):
                if message.event_id <= since:
                    return None
                if message.kind == "question" and message.from_agent == self._agent:
                    return message.event_id
            if page.next_before_event is None:
                return None
            page = threads.show(self._store, page.thread.thread_id, before_event=page.next_before_event)

    def _renew_leases(self) -> None:
        """Renew the leases that are due. If a lease is lost, stop its command or drop its parked thread."""
        for run in self._running:
            if run.child.kill_at is not None:
                if monotonic() >= run.child.kill_at:
                    run.child.send_signal(SIGKILL)
            elif run.ends_at is not None and monotonic() >= run.ends_at:
                run.timed_out = True
                run.child.send_signal(SIGTERM)
            elif not self._still_ours(run):
                self._report_step("lost", run.claim.thread, "it was ended or taken over; its command is stopped")
                run.child.send_signal(SIGTERM)
        waiting: tuple[list[Any], ...] = (self._parked, self._pausing)
        for threads_at_rest in waiting:
            for held in list(threads_at_rest):
                if not self._still_ours(held):
                    threads_at_rest.remove(held)
                    self._report_step("lost", held.claim.thread, "it was ended or taken over while it waited")

    def _still_ours(self, held: HeldClaim) -> bool:
        """Return whether the worker still holds a thread. Renews the lease if that is due."""
        thread_id, token = held.claim.thread.thread_id, held.claim.lease.lease_token
        try:
            if monotonic() >= held.renew_at:
                leases.renew(self._store, thread_id, agent=self._agent, lease_token=token)
                held.schedule_renewal()
                return True
            return leases.holds_lease(self._store, thread_id, agent=self._agent, lease_token=token)
        except (Conflict, InvalidState, NotFound):
            return False

    def _resume_answered(self) -> None:
        """Run the command again for each parked thread with an answer, while there are free jobs."""
        for parked in list(self._parked):
            if len(self._running) >= self._jobs:
                return
            if threads.is_answered(self._store, parked.claim.thread.thread_id, after_event=parked.question_event_id):
                self._restart_command(parked.claim)
                self._parked.remove(parked)

    def _resume_paused(self) -> None:
        """Run the failed commands again whose pause is over, while there are free jobs."""
        for paused in list(self._pausing):
            if len(self._running) < self._jobs and monotonic() >= paused.resume_at:
                self._pausing.remove(paused)
                self._counts["retried"] += 1
                self._start_command(paused.claim, paused.attempt)

    def _restart_command(self, claim: Claim) -> None:
        thread_id, token = claim.thread.thread_id, claim.lease.lease_token
        try:
            progress.update(self._store, thread_id, agent=self._agent, summary="Answered: going on", lease_token=token)
            self._start_command(claim)
        except (Conflict, InvalidState):
            self._report_step("lost", claim.thread, "it was ended or taken over while it waited")

    def _seconds_until_due(self, seconds_until_lapse: float | None) -> float | None:
        """Return the seconds until a lease must be renewed, a command must be killed, or a lease of others runs out."""
        moments = [run.due_at for run in self._running] + [parked.renew_at for parked in self._parked]
        moments += [min(paused.renew_at, paused.resume_at) for paused in self._pausing]
        waits = [max(moment - monotonic(), 0) for moment in moments]
        if seconds_until_lapse is not None:
            waits.append(seconds_until_lapse)
        return min(waits, default=None)

    def _release_all(self) -> None:
        """Terminate all commands, kill those that outlive `GRACE_SECONDS`, and give their threads back."""
        for run in self._running:
            run.child.send_signal(SIGTERM)
        for run in self._running:
            if not run.child.wait(GRACE_SECONDS):
                run.child.send_signal(SIGKILL)
                run.child.wait(None)
            try:
                self._release_thread(run.claim)
            finally:
                run.child.close()
        for paused in self._pausing:
            self._release_thread(paused.claim)
        for parked in self._parked:
            self._release_until_answered(parked.claim)
        self._running, self._pausing = [], []
        self._wake.close()

    def _release_until_answered(self, claim: Claim) -> None:
        """Give a parked thread back, so that any worker of this agent can go on with it as soon as its question is answered."""
        thread_id, token, reason = claim.thread.thread_id, claim.lease.lease_token, "the worker ended while the thread waited for an answer"
        try:
            leases.release(self._store, thread_id, agent=self._agent, reason=reason, lease_token=token, until_answered=True)
        except (Conflict, InvalidState):
            self._report_step("lost", claim.thread, "it was ended or taken over while it waited")
        except StoreUnreachable:
            self._report_step("lost", claim.thread, "the store is unreachable; others may take it when its lease runs out")

    def _release_thread(self, claim: Claim) -> None:
        thread_id, token, reason = claim.thread.thread_id, claim.lease.lease_token, self._release_reason
        try:
            leases.release(self._store, thread_id, agent=self._agent, reason=reason, lease_token=token)
            self._counts["released"] += 1
            self._report_step("released", claim.thread, reason)
        except (Conflict, InvalidState):
            self._report_step("ended", claim.thread, "by its command")
        except StoreUnreachable:
            self._report_step("lost", claim.thread, "the store is unreachable; others may take it when its lease runs out")


def _find_answer(conversation: Conversation) -> str:
    """Return the newest answer that settled a question of the thread, or "" if there is none. A remark is no answer."""
    answers = [message for message in conversation.messages if message.kind == "answer" and message.in_reply_to is not None]
    return (answers[-1].summary or answers[-1].body)[:MAX_ANSWER_CHARS] if answers else ""
