"""The worker: any command line, run for one thread after another.

Each thread is handed to a process of its own, its lease renewed while that runs, and finished by the exit status. A command
that asked a question and ended is run again when the answer comes. If the worker is killed, its commands die with it, and
what it held is taken by others when the leases run out.
"""

from __future__ import annotations

import os
from signal import SIGKILL, SIGTERM
from time import monotonic

from postroom.children import GRACE_SECONDS, Child, Wake, last_line
from postroom.core import checks, jsontext
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NotFound, StoreAway, StoreBusy, TooMany
from postroom.core.records import Claim, Record
from postroom.core.states import BLOCKED, TERMINAL
from postroom.store.waking import LOOK_WHEN_AWAY
from postroom.work import candidates, leases, messages, progress, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.core.records import Message, Thread
    from postroom.store.port import Store

    Tell = Callable[[str, Thread, str], None]


class Tally(Record):
    """What a worker did."""

    done: int
    failed: int
    released: int
    parked: int


class Worker:
    """Takes threads and runs the command for each, at most `jobs` at once."""

    def __init__(
        self,
        store: Store,
        *,
        agent: str,
        command: str,
        jobs: int = 1,
        lease_seconds: float = leases.LEASE_SECONDS,
        tell: Tell | None = None,
    ) -> None:
        self._store = store
        self._agent = checks.name("agent", agent)
        self._command = checks.text("command", command)
        if not command.strip():
            raise InvalidInput("command is empty", field="command", hint="For example: --command './build.sh'")
        if not 1 <= jobs <= 256:
            raise InvalidInput(f"jobs must be from 1 to 256, not {jobs}", field="jobs")
        self._jobs = jobs
        self._lease_seconds = checks.seconds("lease-seconds", lease_seconds)
        self._tell = tell or (lambda what, thread, says: None)
        self._running: list[_Run] = []
        self._parked: list[_Parked] = []
        self._counts = {"done": 0, "failed": 0, "released": 0}
        self._wake = Wake()
        self._stopping = False

    def stop(self) -> None:
        """End soon: commands in hand are terminated and their threads given back. Safe to call from a signal handler."""
        self._stopping = True
        self._wake.ring()

    def run(self, *, until_empty: bool = False) -> Tally:
        """Work until told to stop, or, with `until_empty`, until there is nothing left to do."""
        with self._store.watch(messages.of_agent(self._agent)) as bell:
            while not self._stopping:
                try:
                    due = self._look()
                except (StoreAway, StoreBusy, TooMany):  # what could not be written down is, when the store is back
                    if until_empty:
                        raise
                    due = LOOK_WHEN_AWAY
                if until_empty and not self._running:
                    break
                bell.wait(due, self._wake.woken)
                self._wake.drain()
        self._give_back()
        return Tally(self._counts["done"], self._counts["failed"], self._counts["released"], len(self._parked))

    def _look(self) -> float | None:
        """Do what is to be done now; the seconds until there is more, unless the bell rings first."""
        self._reap()
        self._keep()
        self._resume()
        lapse = self._take()
        return 0 if any(run.child.over for run in self._running) else self._due(lapse)

    def _take(self) -> float | None:
        """Fill the free places. The seconds until a lease of someone runs out, if there is nothing to take before."""
        while len(self._running) < self._jobs:
            found, lapse = candidates.outlook(self._store, agent=self._agent)
            if not found:
                return lapse
            taken = candidates.take(self._store, agent=self._agent, lease_seconds=self._lease_seconds)
            if taken is not None:
                self._start(taken)
        return None

    def _start(self, claim: Claim) -> None:
        conversation = threads.show(self._store, claim.thread.thread_id)
        told = conversation.plain()
        told["lease"] = claim.lease.plain()
        self._tell("took", claim.thread, claim.thread.subject)
        environment = {
            **os.environ,
            "INBOX_DB": self._store.place,
            "INBOX_AGENT": self._agent,
            "INBOX_THREAD": claim.thread.thread_id,
            "INBOX_LEASE_TOKEN": claim.lease.lease_token,
        }
        child = Child(self._command, environment, jsontext.dumps(told), self._wake)
        self._running.append(_Run(claim, child, conversation.next_event_id))

    def _reap(self) -> None:
        for run in [run for run in self._running if run.child.over]:
            try:
                self._conclude(run)
            except (Conflict, InvalidState):
                self._tell("lost", run.claim.thread, "it was ended or taken over meanwhile")
            self._running.remove(run)
            run.child.close()

    def _conclude(self, run: _Run) -> None:
        """Finish a thread by how its command ended, unless the command finished it, or asked a question, itself."""
        thread_id, token = run.claim.thread.thread_id, run.claim.lease.lease_token
        found = threads.show(self._store, thread_id)
        if found.thread.status in TERMINAL:
            self._tell("ended", found.thread, "by its command")
        elif run.child.status == 0 and found.thread.status == BLOCKED and (question := _asked(found.messages, run.since)):
            self._parked.append(_Parked(run.claim, question))
            self._tell("parked", found.thread, "until its question is answered")
        elif run.child.status == 0:
            said = run.child.output() or "done"
            body = said if said != last_line(said) else ""
            progress.done(self._store, thread_id, agent=self._agent, summary=last_line(said), body=body, lease_token=token)
            self._counts["done"] += 1
            self._tell("done", found.thread, last_line(said))
        else:
            said = run.child.errors() or run.child.output()
            summary = f"{run.child.how}: {last_line(said)}" if said else run.child.how
            progress.fail(self._store, thread_id, agent=self._agent, summary=summary, body=said, lease_token=token)
            self._counts["failed"] += 1
            self._tell("failed", found.thread, summary)

    def _keep(self) -> None:
        """Renew what is due, and end what is not ours any more."""
        for run in self._running:
            if run.child.kill_at is not None:
                if monotonic() >= run.child.kill_at:
                    run.child.end(SIGKILL)
            elif not self._still_ours(run):
                self._tell("lost", run.claim.thread, "it was ended or taken over; its command is stopped")
                run.child.end(SIGTERM)
        for parked in list(self._parked):
            if not self._still_ours(parked):
                self._parked.remove(parked)
                self._tell("lost", parked.claim.thread, "it was ended or taken over while it waited")

    def _still_ours(self, kept: _Kept) -> bool:
        thread_id, token = kept.claim.thread.thread_id, kept.claim.lease.lease_token
        try:
            if monotonic() >= kept.renew_at:
                leases.renew(self._store, thread_id, agent=self._agent, lease_token=token)
                kept.renewed()
                return True
            return leases.still_holds(self._store, thread_id, agent=self._agent, lease_token=token)
        except (Conflict, InvalidState, NotFound):
            return False

    def _resume(self) -> None:
        """Run again what was answered."""
        for parked in list(self._parked):
            if len(self._running) >= self._jobs:
                return
            if threads.is_answered(self._store, parked.claim.thread.thread_id, after_event=parked.question):
                self._go_on(parked.claim)
                self._parked.remove(parked)

    def _go_on(self, claim: Claim) -> None:
        thread_id, token = claim.thread.thread_id, claim.lease.lease_token
        try:
            progress.update(self._store, thread_id, agent=self._agent, summary="Answered: going on", lease_token=token)
            self._start(claim)
        except (Conflict, InvalidState):
            self._tell("lost", claim.thread, "it was ended or taken over while it waited")

    def _due(self, lapse: float | None) -> float | None:
        """Seconds until something must be done, unless the bell rings first."""
        moments = [run.renew_at if run.child.kill_at is None else run.child.kill_at for run in self._running]
        moments += [parked.renew_at for parked in self._parked]
        waits = [max(moment - monotonic(), 0) for moment in moments]
        return min(waits if lapse is None else [*waits, lapse], default=None)

    def _give_back(self) -> None:
        for run in self._running:
            run.child.end(SIGTERM)
        for run in self._running:
            if not run.child.wait(GRACE_SECONDS):
                run.child.end(SIGKILL)
                run.child.wait(None)
            try:
                leases.release(
                    self._store,
                    run.claim.thread.thread_id,
                    agent=self._agent,
                    reason="the worker was stopped",
                    lease_token=run.claim.lease.lease_token,
                )
                self._counts["released"] += 1
                self._tell("released", run.claim.thread, "the worker was stopped")
            except (Conflict, InvalidState):
                self._tell("ended", run.claim.thread, "by its command")
            except StoreAway:
                self._tell("lost", run.claim.thread, "the store is away; others may take it when its lease runs out")
            finally:
                run.child.close()
        self._running = []
        self._wake.close()


class _Kept:
    """A thread that the worker holds, and when to renew its lease."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.renewed()

    def renewed(self) -> None:
        self.renew_at = monotonic() + self.claim.lease.lease_seconds / 3


class _Parked(_Kept):
    """A blocked thread whose command has ended, and the event of its question."""

    def __init__(self, claim: Claim, question: int) -> None:
        super().__init__(claim)
        self.question = question


class _Run(_Kept):
    """One command at work on one thread."""

    def __init__(self, claim: Claim, child: Child, since: int) -> None:
        super().__init__(claim)
        self.child = child
        self.since = since


def _asked(said: tuple[Message, ...], since: int) -> int | None:
    """The event of the latest question after another event."""
    return max((message.event_id for message in said if message.kind == "question" and message.event_id > since), default=None)
